"""Exact search is the exhaustive scan is a plain sort, for any number of cells: crowded, empty, of one row."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from books import coded, index_of, random_codebooks, with_cells
from interlace import Codebooks, Index, reference
from interlace.engine.margins import EXACT

N_ROWS, CUT, DIM, N_WORDS = 180, 70, 8, 16
N_CELLS = (1, 2, 255, 256, 257, 1000, 4096, 65_536)
#: ``additive`` is what ``layout="residual"`` learns; ``residual`` has a column of norms, as with ``cross="byte"``.
LAYOUTS = ("subspace", "hybrid", "additive", "residual")
#: Up to so many cells the answers are compared with the reference, bit for bit. It visits cell by cell in Python.
REFERENCE_CELLS = 1000
CASES = [(n, layout) for n in N_CELLS for layout in LAYOUTS if layout != "residual" or n < 65_536]


@functools.cache  # the same at every level
def made(n_cells: int, layout: str, metric: str) -> tuple[Codebooks, np.ndarray, np.ndarray]:
    """Books, codes of rows and queries: a third of the rows are in the first cell, one in the last, some rows tie."""
    rng = np.random.default_rng(n_cells)
    few = random_codebooks(rng, layout, dim=DIM, n_words=N_WORDS, metric=metric)
    books = with_cells(few, rng.normal(size=(n_cells, len(few.books[0].support))).astype(np.float32))
    cells = rng.integers(max(1, n_cells - 1), size=N_ROWS)
    cells[::3] = 0
    cells[-1] = n_cells - 1
    codes = coded(books, cells, rng.integers(N_WORDS, size=(N_ROWS, len(books.columns))).astype(np.uint8))
    codes[CUT : CUT + 9] = codes[:9]  # in two segments
    return books, codes, rng.normal(size=(3, DIM)).astype(np.float32)


@functools.cache
def expected(n_cells: int, layout: str, metric: str, k: int) -> tuple[list[int], list[float]]:
    """Rows and distances of the first query, by the reference."""
    books, codes, queries = made(n_cells, layout, metric)
    hits, _ = reference.search(books, codes, queries[0], k, EXACT, None, (CUT,))
    return [hit.row for hit in hits], [float(hit.distance) for hit in hits]


def check_by_sorting(index: Index, codes: np.ndarray, queries: np.ndarray, k: int) -> None:
    """Distances of float64 to the decoded rows: none is off by more than rounding, and no nearer row is missing."""
    found, decoded = index.search(queries, k, margin="exact", threads=1), index.codebooks.decode(codes)
    distances = index.codebooks.metric_type.distances(queries.astype(np.float64), decoded.astype(np.float64))
    off = np.asarray(index.distance_error(queries))
    for i, ids in enumerate(found.ids):
        assert (np.abs(distances[i, ids] - found.distances[i]) <= off[i]).all()
        assert (np.abs(np.sort(distances[i])[:k] - found.distances[i]) <= off[i]).all()
        assert len(set(ids.tolist())) == k


@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize(("n_cells", "layout"), CASES)
def test_exact_is_exhaustive_is_a_plain_sort(simd: str, n_cells: int, layout: str, metric: str) -> None:
    books, codes, queries = made(n_cells, layout, metric)
    sizes = np.bincount(books.split_codes(codes)[0], minlength=n_cells)
    assert n_cells < 255 or ((sizes == 0).any() and (sizes == 1).any() and sizes[0] > 50)
    index = index_of(books, codes[:CUT], codes[CUT:])
    for k in (1, 10, N_ROWS):
        exact, everything = (index.search(queries, k, margin=margin, threads=1) for margin in ("exact", math.inf))
        assert_array_equal(exact.ids, everything.ids)
        assert_array_equal(exact.distances, everything.distances)
        for i, q in enumerate(queries):
            alone = index.search(q, k, margin="exact")
            assert_array_equal(alone.ids, exact.ids[i])
            assert_array_equal(alone.distances, exact.distances[i])
        if n_cells <= REFERENCE_CELLS:
            rows, distances = expected(n_cells, layout, metric, k)
            assert_array_equal(exact.ids[0], rows)
            assert_array_equal(exact.distances[0], np.array(distances, np.float32))
    if layout != "residual":  # whose norms are random
        check_by_sorting(index, codes, queries, 10)
