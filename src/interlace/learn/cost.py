"""What building and searching an index cost: memory and work of each phase. The only model of either.

``max_memory`` bounds learning by it, ``layout="auto"`` compares layouts by it, and ``plan`` prints it. All of it is
arithmetic on a :class:`~.shapes.Shape`; :func:`rates` alone measures something, how fast this machine is.

Memory is counted in copies of the sample and in arrays that the phases really make, each rounded up: a bound, not an
estimate. tests/test_memory.py compares it with what a process takes.
"""

from __future__ import annotations

import functools
import operator
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..codec.codebooks import MAX_WORDS, Book, Codebooks
from ..codec.encode import encode
from ..engine.calibrating import CALIBRATED_AT_ONCE, COPIES, HELD_OUT_ROWS, queries_needed
from ..engine.margins import DEFAULT, KS, TARGETS
from ..errors import InputError
from ..inputs.arrays import BLOCK_ROWS
from .schedule import (
    CELL_ROUNDS,
    LEARNED_ROUNDS,
    NARROW_BEAM,
    PRODUCT_ROUNDS,
    REFIT_PASSES,
    ROUND_ROWS,
    ROUNDS,
    TRIAL_QUERIES,
    TRIAL_REFITS,
    TRIAL_ROWS,
    TURN_ROUNDS,
    WIDE_BEAM,
    refit_rounds,
    trial_train,
)
from .shapes import Asked, Shape, candidates, shape_of

#: Fewer rows than this do not make books worth having; all rows of an input that has no more.
LEAST_ROWS = 1000
HELD_OUT_FROM = 2000  # rows from which some are held out of learning
CALIBRATION_ROWS = queries_needed(DEFAULT)  # that the default margin needs, learned from or not
FEWEST_QUERIES = queries_needed(TARGETS[0])  # that support any target
#: Objects, small arrays and what allocators keep, in every phase.
OVERHEAD = 6 << 20

# --- memory ----------------------------------------------------------------------------------------------------------

_UNITS = {"b": 1} | {f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)}
_UNITS |= {f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", 1)}


def parse_memory(value: Any, name: str = "max_memory") -> int:
    """Bytes: a positive integer, or text with a unit: ``"2GB"`` is 2 * 10^9, ``"512MiB"`` is 512 * 2^20."""
    expected = f"{name} must be a positive number of bytes or a text such as '2GB' or '512MiB', got {value!r}"
    n_bytes: int
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*", value.lower())
        if found is None or found[2] not in _UNITS:
            raise InputError(f"{expected} (units: B, KB, MB, GB, TB of 1000; KiB, MiB, GiB, TiB of 1024)")
        whole, _, part = found[1].partition(".")
        unit = _UNITS[found[2]]  # in integers: a float would lose bytes of large sizes
        n_bytes = int(whole) * unit + int(part or "0") * unit // 10 ** len(part)
    else:
        try:
            n_bytes = operator.index(value)
        except TypeError as error:
            raise InputError(expected) from error
    if n_bytes < 1 or isinstance(value, bool):
        raise InputError(expected)
    return n_bytes


@dataclass(frozen=True)
class Memory:
    """Bytes that each phase of building takes at its peak, beside the input."""

    trying: int  #: layouts, where they are compared
    learning: int
    coding: int  #: the index included
    calibrating: int  #: the index included

    @property
    def peak(self) -> int:
        """The largest of them."""
        return max(self.trying, self.learning, self.coding, self.calibrating)


@dataclass(frozen=True)
class IdBytes:
    """Bytes of the ids of all rows: as the index holds them, and copies while it sorts and compares them."""

    stored: int = 0
    sorting: int = 0


def build_memory(
    n: int,
    dim: int,
    settings: Asked,
    n_train: int,
    threads: int,
    ids: IdBytes = IdBytes(),
    queries: int | None = None,
) -> Memory:
    """Memory of ``Index.build`` with checked settings; ``queries`` calibrate, by default as many as build takes."""
    shape = shape_of(dim, settings, n_train)
    trying, learning = fit_memory(dim, settings, n_train, threads)
    if queries is None:
        queries = calibration_count(n, n_train)
    return Memory(
        trying,
        learning,
        _coding_memory(shape, n, threads, ids),
        _calibrating_memory(shape, n, queries, threads, ids.stored),
    )


def calibration_count(n: int, n_train: int) -> int:
    """Rows that calibrate an index of n rows where memory does not matter; some of them may have been learned from."""
    return max(min(n - n_train, HELD_OUT_ROWS), min(n, CALIBRATION_ROWS))


def calibration_that_fits(
    n: int, dim: int, settings: Asked, n_train: int, max_memory: Any, threads: int, ids: IdBytes
) -> int:
    """The same within ``max_memory``; 0 where even the fewest queries that support a target do not fit."""
    most = calibration_count(n, n_train)
    if max_memory is None:
        return most
    allowed, shape = parse_memory(max_memory), shape_of(dim, settings, n_train)
    while most and _calibrating_memory(shape, n, most, threads, ids.stored) > allowed:
        most = most * 3 // 4 if most > FEWEST_QUERIES else 0
    return most


def fit_memory(dim: int, settings: Asked, n_train: int, threads: int) -> tuple[int, int]:
    """Memory of comparing layouts and of learning, whichever of them is chosen."""
    tried = candidates(dim, settings, n_train)
    shapes = [shape_of(dim, settings, n_train, layout) for layout in tried or (None,)]
    rows, train = min(TRIAL_ROWS, n_train // 2), n_train // 2
    trying = 0
    for shape in shapes if tried else ():
        train = min(trial_train(shape.n_books + shape.n_norms), n_train // 2)
        # Rows as they are and decoded, brute force for a few queries; their codes are searched as those of an index.
        measured = 4 * dim * (2 * rows + 3 * 4096) + 32 * 24 * rows
        measured += _calibrating_memory(shape, rows, TRIAL_QUERIES, threads)
        trying = max(trying, 4 * dim * (n_train + rows) + max(_learning_memory(shape, train, threads), measured))
    return trying, max(_learning_memory(shape, n_train, threads) for shape in shapes)


def _learning_memory(shape: Shape, n: int, threads: int) -> int:
    """Peak of learning from n rows: copies of the sample, by layout, and what is made beside them."""
    dim, sample = shape.dim, 4 * n * shape.dim
    widest = max(shape.widths[1:], default=dim) / dim if shape.layout != "residual" else 1.0
    if shape.rotation == "learned":
        copies = 9.0  # centred rows and coded ones in double precision for the next rotation
    elif shape.pairs:
        # The sample, its rotated rows, what is left of them, the words of these; and a book's own dimensions.
        copies = 4.0 + (2 * widest if shape.layout == "subspace" else 0.0)
    else:
        copies = 3.0 + widest  # the sample, centred, rotated
    if shape.n_norms:
        copies = max(copies, 5.0)  # all words added up, and those of one book
    # Rows come in blocks of the input's own type; those of the cosine metric are divided in double precision.
    reading = (4 if shape.metric == "cosine" else 1) * sample + 16 * min(n, BLOCK_ROWS) * dim
    block = 16 * min(n, 4096) * dim  # rows in double precision, for axes and variances
    axes = 64 * dim * dim if shape.rotated else 8 * dim * dim
    rows = n * (40 + 3 * shape.n_columns + 3)  # labels, scores, their order; codes
    words = 24 * MAX_WORDS * sum(shape.widths)  # of old and new books
    working = int(copies * sample) + block + axes + rows + words + _native_bytes(shape, threads, WIDE_BEAM)
    return max(reading, working) + OVERHEAD


def _native_bytes(shape: Shape, threads: int, beam: int) -> int:
    """Tables of the core, and the buffers that each thread codes and refits with."""
    coder = 4 * 16 * (2 * shape.dim + shape.n_books * MAX_WORDS) + 2 * beam * (shape.n_books + 2) * MAX_WORDS
    refit = 8 * 8 * 5 * shape.n_books * MAX_WORDS if shape.pairs else 0
    return shape.table_bytes() + shape.pair_bytes() + threads * (coder + refit)


def _index_bytes(shape: Shape, n: int, id_bytes: int) -> int:
    return shape.code_bytes(n) + shape.row_bytes(n) + id_bytes + shape.learned_bytes()


def _coding_memory(shape: Shape, n: int, threads: int, ids: IdBytes) -> int:
    """The unpacked codes with their cells, row numbers before they are coded, the packed index, a block of input."""
    unpacked = n * (1 + shape.n_columns + 8)
    block = min(n, BLOCK_ROWS) * shape.dim * (28 if shape.metric == "cosine" else 16)
    native = _native_bytes(shape, threads, shape.beam)
    return _index_bytes(shape, n, ids.stored) + unpacked + ids.sorting + block + native + OVERHEAD


def _calibrating_memory(shape: Shape, n: int, queries: int, threads: int, id_bytes: int = 0) -> int:
    """The index, and answers of the queries with what margins are made of: by hit, by cell, by dimension."""
    hits = queries * min(n, max(KS)) * 160
    cells = queries * shape.n_words * 48
    at_once = min(queries, CALIBRATED_AT_ONCE) * (min(n, max(KS) + 1 + COPIES) * (100 + 2 * shape.n_columns) + 64 * 256)
    search = threads * (8 * n // max(1, shape.n_words) + 64 * shape.n_books * MAX_WORDS)
    vectors = queries * shape.dim * 40
    native = shape.table_bytes() + shape.pair_bytes()
    return _index_bytes(shape, n, id_bytes) + hits + cells + at_once + search + vectors + native + OVERHEAD


def training_count(n: int, max_train_rows: int) -> int:
    """Rows to learn from without a bound on memory; some are held out where there are enough."""
    held_out = min(HELD_OUT_ROWS, n // 10) if n >= HELD_OUT_FROM else 0
    return min(n - held_out, max_train_rows)


def rows_that_fit(
    n: int,
    dim: int,
    settings: Asked,
    max_train_rows: int,
    max_memory: Any,
    threads: int,
    *,
    ids: IdBytes | None = None,
    name: str = "max_memory",
) -> int:
    """The most rows to learn from, of n, such that learning stays within ``max_memory`` (None: any number).

    ``ids`` are given where an index of all rows with these ids must fit too. InputError tells the
    smallest ``max_memory`` that would do, if not even LEAST_ROWS rows, or all rows where there are fewer, fit.
    """
    most = training_count(n, max_train_rows)
    if max_memory is None:
        return most
    allowed = parse_memory(max_memory, name)

    def needed(rows: int) -> int:
        if ids is None:
            return max(fit_memory(dim, settings, rows, threads))
        return build_memory(n, dim, settings, rows, threads, ids, 0).peak  # of queries, as many as fit calibrate

    if needed(most) <= allowed:
        return most
    least = min(LEAST_ROWS, most)
    if needed(least) > allowed:
        smallest = min(needed(least), needed(most))
        what = f"learning from {least} rows" if ids is None else f"an index of {n} rows, learned from {least} of them,"
        raise InputError(
            f"{what} of {dim} dimensions takes up to {smallest:,} bytes of memory, but {name} allows {allowed:,}: "
            f"give {name}={smallest} or more, or fewer bytes per vector"
        )
    low, high = least, most - 1  # `low` fits
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if needed(middle) <= allowed else (low, middle - 1)
    return low


# --- work ------------------------------------------------------------------------------------------------------------

#: Choosing the best of 256 words costs a row as much as this many dimensions of their products.
PICK = 16


@dataclass(frozen=True)
class Work:
    """Operations of a phase, of kinds that take different times."""

    products: float = 0.0  #: multiply-adds of rows with words, the choice of the nearest included
    steps: float = 0.0  #: entries of tables that paths of the coder add up and look for their minimum
    sums: float = 0.0  #: values that are added to words while these are refitted or averaged
    matrix: float = 0.0  #: multiply-adds of rotations, covariances and eigenvectors

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __mul__(self, times: float) -> Work:
        return Work(*(getattr(self, f.name) * times for f in fields(self)))

    @property
    def operations(self) -> int:
        """All of them."""
        return round(self.products + self.steps + self.sums + self.matrix)

    def seconds(self, rates: Work) -> float:
        """CPU seconds, for ``rates`` in seconds per operation."""
        return sum(float(getattr(self, f.name) * getattr(rates, f.name)) for f in fields(self))


def coding_work(shape: Shape, beam: int | None = None, sweeps: int | None = None) -> Work:
    """Coding one row (cpp/core/encode.cpp)."""
    beam = (shape.beam if beam is None else beam) if shape.pairs else 1  # as the coder has it
    sweeps = shape.sweeps if sweeps is None else sweeps
    rest = shape.n_books - 1
    steps = float(beam * rest * MAX_WORDS)
    if shape.n_pairs:  # paths share most of the words of earlier books
        steps += (2 + beam / 4) * shape.n_pairs * MAX_WORDS + sweeps * 6 * shape.n_pairs * MAX_WORDS
    products = MAX_WORDS * (sum(shape.widths) + PICK * shape.n_books)
    return Work(products=products, steps=steps, matrix=shape.dim**2 if shape.rotated else 0)


def learning_work(shape: Shape, n: int, effort: str, iterations: int) -> Work:
    """Learning from n rows: k-means of every book, axes, refits, which code the sample."""

    def kmeans(rounds: int, width: int) -> Work:
        return Work(products=(rounds + 1.0) * n * MAX_WORDS * (width + PICK), sums=rounds * n * width)

    dim = shape.dim
    rounds = ROUNDS[effort].start + 1 if shape.pairs else PRODUCT_ROUNDS
    work = Work()
    for width in shape.widths:
        work += kmeans(rounds, width)
    if shape.rotated:
        work += Work(matrix=2.0 * n * dim * dim + EIGEN * dim**3)
    if shape.rotation == "learned":
        turn = Work(matrix=2.0 * n * dim * dim + EIGEN * dim**3)
        for width in shape.widths:
            turn += kmeans(TURN_ROUNDS + 1, width)
        work += turn * LEARNED_ROUNDS
    if shape.layout == "hybrid":
        work += kmeans(CELL_ROUNDS + 1, dim)
    if shape.pairs:
        narrow, wide = refit_rounds(effort, iterations)
        some = max(n // 2, min(n, ROUND_ROWS))
        for times, rows, beam in ((narrow, some, NARROW_BEAM), (wide, n, WIDE_BEAM)):
            work += coding_work(shape, beam, 0) * (times * rows)
            work += Work(sums=2.0 * (REFIT_PASSES + 1) * times * rows * sum(shape.widths))
            work += Work(products=times * len(shape.pairs) * MAX_WORDS**2 * dim)  # tables of cross terms
    if shape.n_norms:
        work += coding_work(shape, sweeps=0) * n
    return work


def trying_work(shapes: tuple[Shape, ...], n_train: int, effort: str, iterations: int) -> Work:
    """Comparing layouts: learning each from some rows, coding others, brute force. Their searches are not counted."""
    rows, work = min(TRIAL_ROWS, n_train // 2), Work()
    for shape in shapes:
        train = min(trial_train(shape.n_books + shape.n_norms), n_train // 2)
        work += learning_work(shape, train, effort, min(TRIAL_REFITS, iterations)) + coding_work(shape) * rows
        work += Work(matrix=2.0 * TRIAL_QUERIES * rows * (shape.dim + 64))
    return work


#: Eigenvectors of a matrix, in multiply-adds of a product of such matrices.
EIGEN = 8
#: Rows, dimensions and books of the stand-ins that are measured.
ROWS, DIMS, BOOKS = 512, 32, 8


def rates(shape: Shape) -> Work:
    """CPU seconds per operation on this machine, of one thread; measured once for each kind of books."""
    return _rates(shape.n_pairs > 0, shape.n_pairs == 0 and bool(shape.pairs))


@functools.cache
def _rates(additive: bool, cells: bool) -> Work:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, DIMS), np.float32)
    words = rng.standard_normal((MAX_WORDS, DIMS), np.float32)
    index, score = np.empty(ROWS, np.int32), np.empty(ROWS, np.float32)
    product = _timed(lambda: _native.nearest(x, words, 1, index, score)) / (ROWS * MAX_WORDS * (DIMS + PICK))

    part = DIMS // (BOOKS - 1)
    spans = [(0, DIMS)] * BOOKS if additive else [(0, DIMS), *((j * part, (j + 1) * part) for j in range(BOOKS - 1))]
    books = []
    for j, (start, stop) in enumerate(spans):
        own = (words[rng.permutation(MAX_WORDS), start:stop] * 0.7**j).astype(np.float32)
        books.append(Book(own, np.arange(start, stop, dtype=np.uint32)))
    codebooks = Codebooks(books, dim=DIMS, n_crude=BOOKS, metric="l2")
    shape = Shape(DIMS, "l2", "residual", tuple(spans), MAX_WORDS, MAX_WORDS, 0, BOOKS, 1, 0, "none")
    step = product
    if additive or cells:
        codes = encode(codebooks, x, 1)  # makes the tables
        few, many = (_timed(functools.partial(_coded, codebooks, x, beam)) / ROWS for beam in (NARROW_BEAM, WIDE_BEAM))
        less, more = (coding_work(shape, beam).steps for beam in (NARROW_BEAM, WIDE_BEAM))
        step = max(many - few, 0.1 * many) / (more - less)
    else:
        codes = rng.integers(MAX_WORDS, size=(ROWS, BOOKS)).astype(np.uint8)
    starts = np.arange(BOOKS + 1, dtype=np.uint32) * MAX_WORDS
    refitted = np.concatenate([words] * BOOKS)
    sums = _timed(lambda: _native.refit_words(x, codes, starts, 0.5, 0.0, REFIT_PASSES, 1, refitted))
    square = rng.standard_normal((256, 256))
    matrix = _timed(lambda: square @ square) / 256**3
    return Work(product, step, sums / (2 * (REFIT_PASSES + 1) * ROWS * BOOKS * DIMS), matrix)


def _coded(codebooks: Codebooks, x: NDArray[np.float32], beam: int) -> None:
    _native.encode(codebooks.native, x, beam, 0, 1, np.empty((len(x), 1 + len(codebooks.columns)), np.uint8))


def _timed(work: Callable[[], object], repeats: int = 3) -> float:
    """The shortest CPU time: what disturbs a measurement only ever adds to it."""
    best = np.inf
    for _ in range(repeats):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return float(best)


# --- search ----------------------------------------------------------------------------------------------------------

# Nanoseconds on one core of the machine the benchmark ran on; only their ratios matter, to order layouts.
_NS_PER_PRODUCT, _NS_PER_LOOKUP, _NS_PER_SURVIVOR, _NS_PER_CELL = 0.06, 0.1, 65.0, 350.0


def search_seconds(codebooks: Codebooks, work: NDArray[Any], n: int, n_rows: int) -> float:
    """Seconds per query among n_rows, from the mean counts of searches among n: tables, cells, scan, survivors.

    Survivors grow with the root of the rows.
    """
    products = MAX_WORDS * sum(len(book.support) for book in codebooks.books)
    if codebooks.rotation is not None:
        products += codebooks.dim**2
    scanned = float(work[1]) / n * n_rows * codebooks.n_crude_columns
    survivors = float(work[2]) * (n_rows / n) ** 0.5
    nanoseconds = (
        products * _NS_PER_PRODUCT
        + float(work[0]) * _NS_PER_CELL
        + scanned * _NS_PER_LOOKUP
        + survivors * _NS_PER_SURVIVOR
    )
    return 1e-9 * float(nanoseconds)
