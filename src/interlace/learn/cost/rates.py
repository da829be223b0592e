"""Seconds per operation: measured on this machine for building, constants for comparing searches."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ... import _native
from ...codec.codebooks import MAX_WORDS, Book, Codebooks
from ...codec.encode import encode
from ...engine.hits import SearchStats
from ..schedule import NARROW_BEAM, REFIT_PASSES, WIDE_BEAM
from .shape import Shape
from .work import PICK, Work, coding_work

#: Rows, dimensions and books of the example that is measured; size of the square matrices.
ROWS, DIMS, BOOKS, SIDE = 512, 32, 8, 256
# Nanoseconds of a search on one core of the machine that the benchmarks ran on. Only their ratios matter.
NS_PER_PRODUCT, NS_PER_LOOKUP, NS_PER_SURVIVOR, NS_PER_CELL = 0.06, 0.1, 65.0, 350.0


def rates(shape: Shape) -> Work:
    """CPU seconds per operation of one thread on this machine, measured once for each kind of books."""
    return measured_rates(additive=shape.n_pairs > 0, cells=shape.n_pairs == 0 and bool(shape.pairs))


@functools.cache
def measured_rates(*, additive: bool, cells: bool) -> Work:
    """Rates for books that overlap each other, that overlap the book of the cells only, or that do not overlap."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, DIMS), np.float32)
    words = rng.standard_normal((MAX_WORDS, DIMS), np.float32)
    index, score = np.empty(ROWS, np.int32), np.empty(ROWS, np.float32)
    product = cpu_seconds(lambda: _native.nearest(x, words, 1, index, score)) / (ROWS * MAX_WORDS * (DIMS + PICK))
    if additive or cells:
        step, codes = _seconds_per_step(x, words, additive, rng)
    else:
        step, codes = product, rng.integers(MAX_WORDS, size=(ROWS, BOOKS)).astype(np.uint8)
    starts = np.arange(BOOKS + 1, dtype=np.uint32) * MAX_WORDS
    refitted = np.concatenate([words] * BOOKS)
    sums = cpu_seconds(lambda: _native.refit_words(x, codes, starts, 0.5, 0.0, REFIT_PASSES, 1, refitted))
    square = rng.standard_normal((SIDE, SIDE))
    matrix = cpu_seconds(lambda: square @ square) / SIDE**3
    return Work(product, step, sums / (2 * (REFIT_PASSES + 1) * ROWS * BOOKS * DIMS), matrix)


def _seconds_per_step(
    x: NDArray[np.float32], words: NDArray[np.float32], additive: bool, rng: np.random.Generator
) -> tuple[float, NDArray[np.uint8]]:
    """Seconds of one step of beam search, from the times with a narrow and with a wide beam; and codes of x."""
    width = DIMS // (BOOKS - 1)
    parts = [(0, DIMS)] * (BOOKS - 1) if additive else [(j * width, (j + 1) * width) for j in range(BOOKS - 1)]
    spans = ((0, DIMS), *parts)
    books = []
    for j, (start, stop) in enumerate(spans):
        own = (words[rng.permutation(MAX_WORDS), start:stop] * 0.7**j).astype(np.float32)
        books.append(Book(own, np.arange(start, stop, dtype=np.uint32)))
    codebooks = Codebooks(books, dim=DIMS, n_crude=BOOKS, metric="l2")
    shape = Shape(DIMS, "l2", "residual", spans, MAX_WORDS, MAX_WORDS, MAX_WORDS, 0, BOOKS, 1, 0, "none")
    codes = encode(codebooks, x, 1)  # before the clock starts, because the first call makes the tables
    out = np.empty_like(codes)
    narrow, wide = (
        cpu_seconds(functools.partial(_native.encode, codebooks.native, x, beam, 0, 1, out)) / ROWS
        for beam in (NARROW_BEAM, WIDE_BEAM)
    )
    fewer, more = (coding_work(shape, beam).steps for beam in (NARROW_BEAM, WIDE_BEAM))
    return max(wide - narrow, 0.1 * wide) / (more - fewer), codes


def cpu_seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The shortest CPU time of some runs, because disturbances only ever add time."""
    best = np.inf
    for _ in range(repeats):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return float(best)


def search_seconds(codebooks: Codebooks, stats: SearchStats, n_rows: int) -> float:
    """Predicted seconds per query among ``n_rows`` rows, from the work of searches among fewer rows.

    Scanned rows grow in proportion to the rows, survivors with their square root.
    """
    products = MAX_WORDS * sum(len(book.support) for book in codebooks.books)
    if codebooks.rotation is not None:
        products += codebooks.dim**2
    cells, scanned, survivors = (getattr(stats, name) / stats.queries for name in ("cells", "scanned", "survivors"))
    lookups = scanned / stats.rows * n_rows * codebooks.n_crude_columns
    survivors *= (n_rows / stats.rows) ** 0.5
    nanoseconds = (
        products * NS_PER_PRODUCT + cells * NS_PER_CELL + lookups * NS_PER_LOOKUP + survivors * NS_PER_SURVIVOR
    )
    return 1e-9 * float(nanoseconds)
