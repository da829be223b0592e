"""How long building and searching will take on this machine: a few short measurements, scaled up.

Native work is measured at the given dimensions (up to a limit) and thread count, and grows with rows and books; nothing
here allocates in proportion to the rows of the index.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from .arrays import FloatArray, as_rows
from .codebooks import MAX_WORDS, Book, Codebooks, Norm
from .encode import encode
from .index import Index
from .learners.choice import TRIAL_ITERATIONS, TRIAL_QUERIES, TRIAL_ROWS, trial_train
from .learners.grouping import near_words_together
from .learners.kmeans import means, nearest
from .learners.layouts import LEARNED_ROUNDS
from .learners.learner import START_ROUNDS
from .learning import HELD_OUT_FROM, HELD_OUT_ROWS, ITERATIONS
from .segments import Segment
from .shapes import Shape, split

#: Largest sizes that are measured; what is larger is scaled from there.
WIDEST, MOST_BOOKS, WIDEST_EIGEN = 256, 9, 96
#: Multiplications and additions of a measurement, per thread: some ten milliseconds each.
WORK = 1 << 27
PRODUCT_ROUNDS, CELL_ROUNDS, ROTATION_ROUNDS = 16, 10, 6  # of k-means, the last assignments included
SOLVED = 384  # unknowns of the least-squares problem that is measured
#: Refits solve larger ones, a little faster than with the cube.
SOLVE_POWER = 2.8
REFIT_BEAM = 8  # of Learner._alternate
#: Eigenvectors of larger matrices, as LAPACK does them, grow a little slower than with the cube.
EIGEN_POWER = 2.6
#: More rows bring the k-th neighbour nearer, and more of them are passed over.
SEARCH_POWER = 0.8
#: Memory traffic of a refit: seconds for a value that is added to its word, for a row that is counted in a pair.
PER_VALUE, PER_COUNT = 1e-9, 4e-9
#: Brute force of a trial, seconds: for a product, and for finding the nearest.
PER_PRODUCT, PER_SCORE = 1e-10, 2e-8
#: What margins.calibrate takes for a query.
CALIBRATING = 2e-4
QUERIES, COPIES = 32, (1, 8)  # fewer copies than neighbours, so that the k-th is another row


@dataclass(frozen=True)
class Seconds:
    """Estimates in seconds."""

    trying: float  #: layouts, where they are compared
    learning: float
    coding: float
    calibrating: float
    query: float  #: one query on one thread, k=10, exact


def measure(
    shape: Shape,
    n: int,
    n_train: int,
    threads: int,
    *,
    iterations: int = ITERATIONS,
    tried: tuple[Shape, ...] = (),
) -> Seconds:
    """Estimates for n rows, learned from n_train of them after ``tried`` layouts were compared."""
    rng = np.random.default_rng(0)
    small = _limited(shape)
    index, sample = _stand_in(small, rng)
    per_work = _coding(index.codebooks, sample, threads) / _coding_work(small)
    columns = (1 + shape.n_columns) / (1 + small.n_columns)
    fixed, large = _searching(index, sample, threads)

    def querying(rows: float) -> float:
        times = rows / (COPIES[1] * len(sample))
        return (fixed * shape.dim / small.dim + large * min(times, math.pow(times, SEARCH_POWER))) * columns

    query = querying(n)
    held_out = n - n_train if n - n_train >= HELD_OUT_FROM // 10 else n
    # k is a hundred there, which lets more rows through.
    calibrating = min(held_out, HELD_OUT_ROWS) * (2 * query / threads + CALIBRATING)
    work = _Work(per_work, sample, threads)
    trying = 0.0
    for other in tried:
        rows = min(TRIAL_ROWS, n_train // 2)
        trying += work.learning(other, min(trial_train(other.n_books + other.n_norms), n_train // 2), TRIAL_ITERATIONS)
        trying += rows * per_work * _coding_work(other)
        trying += 2 * TRIAL_QUERIES * rows * (other.dim * PER_PRODUCT + PER_SCORE)
        trying += 4 * TRIAL_QUERIES * (querying(rows) / threads + CALIBRATING / 2)  # for two numbers of crude books
    return Seconds(
        trying, work.learning(shape, n_train, iterations), n * per_work * _coding_work(shape), calibrating, query
    )


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
    n_books, dim = min(shape.n_books, MOST_BOOKS), min(shape.dim, WIDEST)
    additive = shape.n_pairs > 0
    if shape.layout == "hybrid":
        spans = ((0, dim), *(split(dim, n_books - 1, additive) if n_books > 1 else ()))
    elif shape.layout == "subspace":
        spans = split(dim, n_books, additive)
    else:
        spans = ((0, dim),) * n_books
    n_crude = max(1, round(shape.n_crude * len(spans) / shape.n_books))
    return replace(shape, dim=dim, spans=spans, n_crude=n_crude, n_words=MAX_WORDS)


def _rows(n: int, dim: int, rng: np.random.Generator) -> FloatArray:
    """Rows on axes of falling spread, as embeddings are."""
    return np.asarray(rng.standard_normal((n, dim), np.float32) / np.sqrt(1 + np.arange(dim)), np.float32)


def _stand_in(shape: Shape, rng: np.random.Generator) -> tuple[Index, FloatArray]:
    """An empty index whose words are rows taken at random, shrunk where other books came before; and such rows."""
    sample = _rows(2048, shape.dim, rng)
    books = []
    for i, (start, stop) in enumerate(shape.spans):
        before = sum(pair[1] == i for pair in shape.pairs)  # books that shared its dimensions came before
        words = _rows(shape.n_words, shape.dim, rng)[:, start:stop] * 0.7**before
        books.append(Book(words, np.arange(start, stop, dtype=np.uint32)))
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
        sweeps=shape.sweeps,
    )
    return Index(codebooks), sample


def _many(sample: FloatArray, work_per_row: float, threads: int) -> FloatArray:
    """The sample, cut or repeated so that each thread gets about WORK, in tasks of 256 rows."""
    tasks = max(1, min(8, round(WORK / work_per_row / 256))) * min(threads, 16)
    return np.resize(sample, (256 * tasks, sample.shape[1]))


def _coding_work(shape: Shape) -> float:
    """Multiplications and table additions of coding one row (cpp/core/encode.cpp)."""
    beam = shape.beam if shape.pairs else 1  # as the encoder has it
    linked = shape.n_pairs * (beam + 2 * shape.sweeps) * MAX_WORDS / 8  # int16 additions, many at a time
    tables = MAX_WORDS * sum(shape.widths) + (shape.dim**2 if shape.rotated else 0)
    return tables + linked + 4 * beam * MAX_WORDS * shape.n_books


def _coding(codebooks: Codebooks, sample: FloatArray, threads: int) -> float:
    """Seconds per row, checks of the input and packing included."""
    work = MAX_WORDS * sum(len(book.support) for book in codebooks.books) + 4096.0 * len(codebooks.books)
    rows = _many(sample, work, threads)

    def run() -> None:
        Segment.pack(encode(codebooks, as_rows(rows, name="rows"), threads), codebooks)

    return _timed(run) / len(rows)


def _searching(index: Index, sample: FloatArray, threads: int) -> tuple[float, float]:
    """Seconds of one query on one thread: for its tables, and for the rows of the larger index.

    Copies of the codes make a larger index in no time; the k-th neighbour comes nearer, as it does with more rows.
    """
    codes, queries = encode(index.codebooks, sample, threads, "fast"), sample[:QUERIES] * np.float32(0.9)
    taken = []
    for copies in COPIES:
        larger = Index.from_codes(index.codebooks, np.tile(codes, (copies, 1)))
        search = partial(larger.search, queries, 10, margin="exact", threads=1)
        taken.append(_timed(search) / len(queries))
    # Of the smaller index a tenth at least is tables: measurements are not exact enough to tell it apart.
    fixed = max(taken[0] / 10, taken[0] - (taken[1] - taken[0]) / (COPIES[1] / COPIES[0] - 1))
    return fixed, max(0.0, taken[1] - fixed)


class _Work:
    """Times of the parts of learning, each measured once."""

    def __init__(self, per_work: float, sample: FloatArray, threads: int) -> None:
        self._per_work, self._sample, self._threads = per_work, sample, threads
        self._assigned: dict[int, float] = {}
        self._ordered: dict[int, float] = {}
        self._solved = _solving()

    def learning(self, shape: Shape, n_train: int, iterations: int) -> float:
        """K-means of every book and the order of its words; axes; refits, which code the sample."""
        rounds = START_ROUNDS + 2 if shape.pairs else PRODUCT_ROUNDS
        seconds = sum(rounds * n_train * self._assigning(width) for width in shape.widths)
        if shape.n_words == MAX_WORDS:
            seconds += sum(self._ordering(width) for width in shape.widths[1:])
        if shape.rotated:
            seconds += _axes(shape.dim, n_train)
        if shape.rotation == "learned":
            per_round = ROTATION_ROUNDS * n_train * sum(map(self._assigning, shape.widths)) + _axes(shape.dim, n_train)
            seconds += LEARNED_ROUNDS * per_round
        if shape.layout == "hybrid":
            seconds += CELL_ROUNDS * n_train * self._assigning(shape.dim)
        if shape.pairs:
            seconds += iterations * self._refitting(shape, n_train)
        if shape.n_norms:
            seconds += n_train * self._per_work * _coding_work(replace(shape, sweeps=0))
        return seconds

    def _refitting(self, shape: Shape, n_train: int) -> float:
        """Tables of cross terms, coding, and least squares."""
        plain = replace(shape, beam=REFIT_BEAM, sweeps=0, rotation="none")
        tables = len(shape.pairs) * MAX_WORDS * self._assigning(shape.dim) * self._threads
        coding = n_train * self._per_work * _coding_work(plain)
        sums = n_train * (PER_VALUE * sum(shape.widths) + PER_COUNT * (len(shape.pairs) + shape.n_books))
        sizes = [(together * shape.n_words, dims) for together, dims in shape.systems if together]
        # Elimination takes n^3 / 3, each right side n^2.
        solving = sum(math.pow(n / SOLVED, SOLVE_POWER) * (1 + 3 * dims / n) for n, dims in sizes) * self._solved
        return tables + coding + sums + solving

    def _assigning(self, width: int) -> float:
        """Seconds per row of one iteration of k-means: measured for powers of two, between them by proportion."""
        measured: int = min(1 << (width.bit_length() - 1), self._sample.shape[1])
        if measured not in self._assigned:
            part = np.ascontiguousarray(self._sample[:, :measured])
            rows = _many(part, MAX_WORDS * measured, self._threads)
            words, threads = rows[:MAX_WORDS], self._threads

            def run() -> None:
                means(rows, nearest(rows, words, threads)[0], words, threads)

            self._assigned[measured] = _timed(run) / len(rows) / measured
        return self._assigned[measured] * width

    def _ordering(self, width: int) -> float:
        """Seconds to put near words together, by singular vectors: the square of the dimensions up to 256 of them."""
        measured = min(1 << (width.bit_length() - 1), WIDEST_EIGEN)
        if measured not in self._ordered:
            words = _rows(MAX_WORDS, measured, np.random.default_rng(1))
            self._ordered[measured] = _timed(lambda: near_words_together(words), 1) / measured**2
        return self._ordered[measured] * width * min(width, MAX_WORDS)


def _solving() -> float:
    """Seconds to solve SOLVED equations, for few right sides."""
    rng = np.random.default_rng(3)
    square = rng.standard_normal((SOLVED, SOLVED)) + SOLVED * np.eye(SOLVED)
    return _timed(lambda: np.linalg.solve(square, square[:, :8]))


def _axes(dim: int, n_train: int) -> float:
    """Seconds for the covariance of the sample and its eigenvectors."""
    measured = min(dim, WIDEST_EIGEN)
    x: NDArray[np.float64] = np.random.default_rng(2).standard_normal((512, measured))
    products = _timed(lambda: x.T @ x) / len(x) * math.pow(dim / measured, 2)
    square = x.T @ x
    vectors = _timed(lambda: np.linalg.eigh(square)) * math.pow(dim / measured, EIGEN_POWER)
    return n_train * products + vectors
