"""Segments with few rows in each cell: an exact search compares every row, and returns the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from books import LAYOUTS, index_of, random_codebooks, random_codes
from interlace import reference
from interlace.engine.margins import EVERYTHING, EXACT
from interlace.engine.scan import search_rows

CELLS, ROWS_PER_CELL = 256, 32  # kRowsPerCell of cpp/core/flat_rows.cpp


def books(rng, layout, n_books=12, dim=24):
    """The terms of all cells take more than a megabyte, which is the least that pays."""
    return random_codebooks(rng, layout, dim=dim, n_books=n_books, n_words=CELLS, n_crude=5, metric="l2")


def found(index, queries, k, rule, trace=None):
    return search_rows(index.codebooks, index.engine.segments, queries, k, rule, 1, (), trace)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [(1,), (64,), (300, 41)], ids=str)
def test_same_bits_as_the_reference_and_as_two_steps(simd, layout, sizes):
    rng = np.random.default_rng(5)
    codebooks = books(rng, layout)
    parts = [random_codes(rng, codebooks, n) for n in sizes]
    index, codes = index_of(codebooks, *parts), np.concatenate(parts)
    queries = rng.normal(size=(11, codebooks.dim)).astype(np.float32)
    for k in (1, 10, 400):
        flat, all_rows = found(index, queries, k, EXACT), found(index, queries, k, EVERYTHING)
        steps = found(index, queries, k, EXACT, np.empty((2, len(queries), min(k, len(codes))), np.float32))
        for other in (all_rows, steps):
            assert flat[0].tobytes() == other[0].tobytes()
            assert flat[1].tobytes() == other[1].tobytes()
    hits = reference.search(codebooks, codes, queries[0], 10, EXACT, None, np.cumsum(sizes)[:-1].tolist())[0]
    rows, distances = found(index, queries[:1], 10, EXACT)[:2]
    assert rows[0, : len(hits)].tolist() == [hit.row for hit in hits]
    assert distances[0, : len(hits)].tobytes() == np.array([hit.distance for hit in hits], np.float32).tobytes()


@pytest.mark.parametrize(("n_books", "n_rows", "flat"), [(12, 3000, True), (6, 3000, False), (12, 9000, False)])
def test_which_segments_are_compared_row_by_row(n_books, n_rows, flat):
    """Where the terms of cells take a megabyte, and cells have few rows; then every row counts as a survivor."""
    rng = np.random.default_rng(6)
    codebooks = books(rng, "hybrid", n_books)
    index = index_of(codebooks, random_codes(rng, codebooks, n_rows))
    assert (n_rows <= CELLS * ROWS_PER_CELL and n_books > 8) == flat
    queries = rng.normal(size=(3, codebooks.dim)).astype(np.float32)
    stats = index.search(queries, 5, margin="exact", threads=1).stats
    assert (stats.survivors == 3 * n_rows) == flat
    alone = [index.search(query, 5, margin="exact", threads=1) for query in queries]
    together = index.search(queries, 5, margin="exact", threads=2)
    assert np.array_equal(together.ids, [one.ids for one in alone])
    assert np.array_equal(together.distances, [one.distances for one in alone])


def test_radius_and_levels(simd):
    rng = np.random.default_rng(7)
    codebooks = books(rng, "hybrid")
    index = index_of(codebooks, random_codes(rng, codebooks, 500))
    queries = rng.normal(size=(4, codebooks.dim)).astype(np.float32)
    radius = float(np.median(index.search(queries, 500, margin="exact", threads=1).distances))
    flat = index.range_search(queries, radius, margin="exact", threads=1)
    all_rows = index.range_search(queries, radius, margin=np.inf, threads=1)
    assert len(flat.ids) == len(all_rows.ids) > 0
    assert flat.distances.tobytes() == all_rows.distances.tobytes()
    assert np.array_equal(flat.ids, all_rows.ids)


@pytest.mark.parametrize("n_queries", [1, 7, 8, 9, 31, 32, 33, 70])
@pytest.mark.parametrize("threads", [1, 3])
def test_queries_that_are_rotated_together(n_queries, threads):
    """A query has the same answer whatever others are in its batch."""
    rng = np.random.default_rng(8)
    codebooks = random_codebooks(rng, "hybrid", dim=40, n_books=4, n_words=64, n_crude=2)
    index = index_of(codebooks, random_codes(rng, codebooks, 700))
    queries = rng.normal(size=(n_queries, 40)).astype(np.float32)
    together = index.search(queries, 9, margin="exact", threads=threads)
    for i in {0, n_queries // 2, n_queries - 1}:
        alone = index.search(queries[i], 9, margin="exact", threads=1)
        assert np.array_equal(together.ids[i], alone.ids)
        assert together.distances[i].tobytes() == alone.distances.tobytes()
