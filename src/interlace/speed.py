"""How long building and searching will take on this machine: a few short measurements, scaled up.

Native work is measured at the given dimensions (up to a limit) and thread count, and grows with rows and books; nothing
here allocates in proportion to the rows of the index.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import FloatArray, as_rows
from .codebooks import MAX_WORDS, Book, Codebooks, Norm
from .encode import encode
from .ids import Ids
from .index import Index
from .learning import HELD_OUT_FROM, HELD_OUT_ROWS
from .learning import ITERATIONS as REFITS
from .quantizers.grouping import near_words_together
from .quantizers.kmeans import means, nearest
from .segments import Segment
from .shapes import Shape, shared

#: Largest sizes that are measured; what is larger is scaled from there.
WIDEST, MOST_BOOKS, WIDEST_EIGEN = 384, 9, 96
#: Multiplications and additions of a measurement, per thread: some ten milliseconds each.
WORK = 1 << 27
ITERATIONS = 16  # of k-means, the last assignment included
#: Eigenvectors of larger matrices, as LAPACK does them, grow a little slower than with the cube.
EIGEN_POWER = 2.6
#: More rows bring the k-th neighbour nearer, and more of them are passed over.
SEARCH_POWER = 0.8
#: A refit besides its coding: means of the cells and the books, and what the others leave to them.
REFIT_PASSES = 4
#: What margins.calibrate takes for a query.
CALIBRATING = 2e-4
QUERIES, COPIES = 32, (1, 8)  # fewer copies than neighbours, so that the k-th is another row


@dataclass(frozen=True)
class Seconds:
    """Estimates in seconds."""

    learning: float
    coding: float
    calibrating: float
    query: float  #: one query on one thread, k=10, exact


def measure(shape: Shape, n: int, n_train: int, threads: int) -> Seconds:
    """Estimates for n rows, learned from n_train of them."""
    rng = np.random.default_rng(0)
    small = _limited(shape)
    index, sample = _stand_in(small, rng)
    per_row = _coding(index.codebooks, sample, threads) * _coding_work(shape) / _coding_work(small)
    columns = (1 + shape.n_columns) / (1 + small.n_columns)
    fixed, large = _searching(index, sample)
    times = n / (COPIES[1] * len(sample))
    query = (fixed * shape.dim / small.dim + large * min(times, math.pow(times, SEARCH_POWER))) * columns
    held_out = n - n_train if n - n_train >= HELD_OUT_FROM // 10 else n
    # k is a hundred there, which lets more rows through.
    calibrating = min(held_out, HELD_OUT_ROWS) * (2 * query / threads + CALIBRATING)
    return Seconds(_learning(shape, n_train, per_row, sample, threads), n * per_row, calibrating, query)


def _timed(work: Callable[[], object], repeats: int = 2) -> float:
    """The shortest time: what disturbs a measurement only ever adds to it."""
    best = np.inf
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return float(best)


def _limited(shape: Shape) -> Shape:
    """The same shape, small enough to be measured."""
    widths = shape.widths[:MOST_BOOKS]
    dim = min(shape.dim, WIDEST)
    if shape.layout == "hybrid":
        widths = (dim, *shared(dim, min(len(widths) - 1, dim)))
    elif shape.layout == "subspace":
        widths = shared(dim, min(len(widths), dim))
    else:
        widths = (dim,) * len(widths)
    n_crude = max(1, round(shape.n_crude * len(widths) / shape.n_books))
    return Shape(dim, shape.metric, shape.layout, widths, MAX_WORDS, shape.n_norms, n_crude, shape.beam)


def _rows(n: int, dim: int, rng: np.random.Generator) -> FloatArray:
    """Rows on axes of falling spread, as embeddings are."""
    return np.asarray(rng.standard_normal((n, dim), np.float32) / np.sqrt(1 + np.arange(dim)), np.float32)


def _stand_in(shape: Shape, rng: np.random.Generator) -> tuple[Index, FloatArray]:
    """An empty index whose words are rows taken at random, shrunk where other books came before; and such rows."""
    sample = _rows(2048, shape.dim, rng)
    books, start = [], 0
    for i, width in enumerate(shape.widths):
        everything = shape.layout == "residual" or (shape.layout == "hybrid" and i == 0)
        support = np.arange(width) if everything else np.arange(start, start + width)
        start += 0 if everything else width
        scale = 0.7 ** (i if shape.layout == "residual" else shape.layout == "hybrid" and i > 0)
        words = _rows(shape.n_words, shape.dim, rng)[:, support] * scale
        books.append(Book(words, support.astype(np.uint32)))
    norms = [
        Norm(np.linspace(-1, 1, MAX_WORDS, dtype=np.float32), tuple(range(1, shape.n_books)), crude=True)
    ] * shape.n_norms
    codebooks = Codebooks(
        books,
        dim=shape.dim,
        n_crude=shape.n_crude,
        metric=shape.metric,
        rotation=np.eye(shape.dim) if shape.rotated else None,
        norms=norms,
        beam=shape.beam,
    )
    return Index(codebooks), sample


def _many(sample: FloatArray, work_per_row: float, threads: int) -> FloatArray:
    """The sample, cut or repeated so that each thread gets about WORK, in tasks of 256 rows."""
    tasks = max(1, min(8, round(WORK / work_per_row / 256))) * min(threads, 16)
    return np.resize(sample, (256 * tasks, sample.shape[1]))


def _coding_work(shape: Shape) -> float:
    """Multiplications and table additions of coding one row (cpp/core/encode.cpp)."""
    linked = shape.n_pairs * shape.beam * MAX_WORDS / 8  # int16 additions, many at a time
    tables = MAX_WORDS * sum(shape.widths) + (shape.dim**2 if shape.rotated else 0)
    return tables + linked + 4 * shape.beam * MAX_WORDS * shape.n_books


def _coding(codebooks: Codebooks, sample: FloatArray, threads: int) -> float:
    """Seconds per row, checks of the input and packing included."""
    work = MAX_WORDS * sum(len(book.support) for book in codebooks.books) + 4096.0 * len(codebooks.books)
    rows = _many(sample, work, threads)

    def run() -> None:
        Segment.pack(encode(codebooks, as_rows(rows, name="rows"), threads), codebooks)

    return _timed(run) / len(rows)


def _searching(index: Index, sample: FloatArray) -> tuple[float, float]:
    """Seconds of one query on one thread: for its tables, and for the rows of the larger index.

    Copies of the codes make a larger index in no time; the k-th neighbour comes nearer, as it does with more rows.
    """
    codes, queries = encode(index.codebooks, sample, 1), sample[:QUERIES] * np.float32(0.9)
    taken = []
    for copies in COPIES:
        index._segments = (Segment.pack(np.tile(codes, (copies, 1)), index.codebooks),)
        index._ids = Ids.default(copies * len(codes))
        taken.append(_timed(lambda: index.search(queries, 10, margin="exact", threads=1)) / len(queries))
    # Of the smaller index a tenth at least is tables: measurements are not exact enough to tell it apart.
    fixed = max(taken[0] / 10, taken[0] - (taken[1] - taken[0]) / (COPIES[1] / COPIES[0] - 1))
    return fixed, max(0.0, taken[1] - fixed)


def _learning(shape: Shape, n_train: int, coding: float, sample: FloatArray, threads: int) -> float:
    """K-means of every book and the order of its words; principal axes; refits, which code the sample."""
    assigned: dict[int, float] = {}
    seconds = 0.0
    for width in shape.widths:
        if width not in assigned:
            assigned[width] = n_train * _assigning(width, sample, threads) + _ordering(width) / ITERATIONS
        seconds += ITERATIONS * assigned[width]
    if shape.rotated:
        seconds += _axes(shape.dim, n_train)
    if shape.layout == "hybrid" and shape.n_books > 1:
        means_only = REFIT_PASSES * n_train * shape.dim * 1e-9  # memory traffic, about a nanosecond per value
        seconds += REFITS * (n_train * coding + means_only)
    elif shape.layout == "residual":
        seconds += n_train * (coding if shape.n_norms else 0.0) + 3e-9 * n_train * shape.dim * shape.n_books
    return seconds


def _assigning(width: int, sample: FloatArray, threads: int) -> float:
    """Seconds per row of one iteration of k-means."""
    measured: int = min(width, sample.shape[1])
    rows = _many(np.ascontiguousarray(sample[:, :measured]), MAX_WORDS * measured, threads)
    words = rows[:MAX_WORDS]

    def run() -> None:
        means(rows, nearest(rows, words, threads)[0], words, threads)

    return _timed(run) / len(rows) * width / measured


def _ordering(width: int) -> float:
    """Seconds to put near words together."""
    measured = min(width, WIDEST_EIGEN)
    words = _rows(MAX_WORDS, measured, np.random.default_rng(1))
    return _timed(lambda: near_words_together(words), 1) * math.pow(width / measured, EIGEN_POWER)


def _axes(dim: int, n_train: int) -> float:
    """Seconds for the covariance of the sample and its eigenvectors."""
    measured = min(dim, WIDEST_EIGEN)
    x: NDArray[np.float64] = np.random.default_rng(2).standard_normal((512, measured))
    products = _timed(lambda: x.T @ x) / len(x) * math.pow(dim / measured, 2)
    square = x.T @ x
    vectors = _timed(lambda: np.linalg.eigh(square)) * math.pow(dim / measured, EIGEN_POWER)
    return n_train * products + vectors
