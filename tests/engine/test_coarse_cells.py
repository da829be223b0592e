"""With many cells, a rule that stops early ranks them by lower bounds first: the order is that of the bases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from books import coded, random_codebooks, stopping_rule, with_cells
from interlace import _native, reference
from interlace.engine.hits import WORK
from interlace.engine.segments import Segment

N_CELLS = 800  # no multiple of a table
N_ROWS = 300
LAYOUTS = ("subspace", "hybrid", "additive")
#: Of cells in use, ever more: those of a few ranks, about half, and all of them because none is beyond the slack.
RULES = [
    stopping_rule("few", share=0.9, weight=2.0, stop=2.0, least=1e-30, reach=3e38),
    stopping_rule("many", share=1.0, weight=0.001, stop=4.8, slack=1.0, least=1e-30, reach=3e38),
    stopping_rule("all", share=1.0, weight=2.0, stop=2.0, slack=math.inf, least=1e-30, reach=3e38),
    stopping_rule("unlike", share=0.9, weight=2.0, stop=2.0, least=1e-30, reach=1e-30),
]


def many_cells(layout: str, scale: float, *, integers: bool = False, zero: bool = False, dim: int = 13):
    """Books of 800 cells, and codes of rows in some of them."""
    rng = np.random.default_rng(LAYOUTS.index(layout))
    codebooks = random_codebooks(rng, layout, dim=dim, n_words=20, integers=integers, scale=scale)
    shape = (N_CELLS, len(codebooks.books[0].support))
    words = rng.integers(-2, 3, shape) if integers else rng.normal(size=shape)
    books = with_cells(codebooks, (words * (0.0 if zero else scale)).astype(np.float32))
    cells = (rng.random(N_ROWS) ** 2 * N_CELLS).astype(np.int64)  # some are empty, some have one row
    codes = coded(books, cells, rng.integers(20, size=(N_ROWS, len(books.columns))).astype(np.uint8))
    codes[200:220] = codes[:20]  # distances tie
    queries = (rng.normal(size=(9, dim)) * scale).astype(np.float32)
    queries[0] = 0
    return books, codes, queries


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e15])
def test_the_order_is_that_of_the_bases(simd, layout, scale):
    check(*many_cells(layout, scale))


@pytest.mark.parametrize("settings", [{"integers": True}, {"zero": True}, {"dim": 4}], ids=["ties", "zero", "narrow"])
def test_words_that_tie_or_are_zero(simd, settings):
    check(*many_cells("hybrid", 1.0, **settings))


def check(books, codes, queries) -> None:
    segments = [Segment.pack(part, books) for part in (codes[:100], codes[100:])]
    natives = [segment.native for segment in segments]
    k = 7
    for rule in RULES:
        rows, distances = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        counts, work = np.empty(len(queries), np.int64), np.empty((len(queries), WORK), np.uint64)
        _native.search(books.native, natives, [], queries, rule.native, 1, rows, distances, counts, work, None)
        for i, q in enumerate(queries):
            one_row, one_distance = np.empty((1, k), np.int64), np.empty((1, k), np.float32)
            found = _native.search_one(books.native, natives, q[None], rule.native, one_row, one_distance)
            assert found == (counts[i], *work[i])  # alone or in a group
            assert_array_equal(one_row[0], rows[i])
            assert_array_equal(one_distance[0], distances[i])
            if i not in (0, 8):  # the reference is slow
                continue
            hits, survivors = reference.search(books, codes, q, k, rule, None, (100,))
            assert_array_equal(rows[i, : counts[i]], [hit.row for hit in hits], f"{rule.label}, query {i}")
            assert_array_equal(distances[i, : counts[i]], [hit.distance for hit in hits])
            assert work[i, 2] == survivors


def test_a_row_is_traced_in_a_cell_beyond_the_stop():
    books, codes, queries = many_cells("hybrid", 1.0)
    segment = Segment.pack(codes, books)
    steps = set()
    for row in range(0, len(codes), 40):
        trace = _native.trace(books.native, [segment.native], [], queries[1], RULES[0].native, 7, row)
        base = np.sort(books.bases(queries[1:2])[0][np.unique(books.split_codes(codes)[0])])
        assert trace.base == pytest.approx(base[trace.cell_rank], rel=1e-5)
        steps.add(trace.step)
    assert "far cell" in steps
