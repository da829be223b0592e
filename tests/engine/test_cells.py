"""More than 256 cells in native code: cells uint32 apart from codes. The public API has at most 256 today."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from books import LAYOUTS, index_of, random_codebooks, random_codes, stopping_rule
from helpers import METRICS
from interlace import Codebooks, _native
from interlace.engine.margins import EVERYTHING, EXACT, Rule

Cells, Codes = NDArray[np.uint32], NDArray[np.uint8]
RULES = [
    EXACT,
    EVERYTHING,
    Rule(_native.Rule.with_share(share=0.7), "share"),
    Rule(_native.Rule.paper(sigma=1.5), "paper"),
    stopping_rule("cells", share=0.8, weight=0.5, stop=1.0, least=0.5, reach=1e6),
]


def with_cells(codebooks: Codebooks, cells: NDArray[np.float32]) -> _native.Books:
    """The same books after these cells."""
    return _native.Books(
        dim=codebooks.dim,
        metric=codebooks.metric_type.number,
        mean=codebooks.mean,
        rotation=codebooks.rotation,
        words=[cells, *(book.words for book in codebooks.books[1:])],
        supports=[book.support for book in codebooks.books],
        norm_values=[norm.values for norm in codebooks.norms],
        norm_covers=[np.array(norm.covers, np.uint32) for norm in codebooks.norms],
        ignored=[np.array(norm.covers, np.uint32) for norm in codebooks.norms if not norm.stored],
        constant=float(sum(norm.values[0] for norm in codebooks.norms if not norm.stored)),
        columns=list(codebooks.columns),
        n_crude=codebooks.n_crude_columns,
    )


def more_cells(codebooks: Codebooks, before: int, after: int) -> tuple[_native.Books, int]:
    """The same books with this many smaller cells before and after, which change no scale; the number of cells."""
    words = codebooks.books[0].words
    tiled = np.tile(words, (1 + max(before, after) // len(words), 1)) * np.float32(0.5)
    cells = np.concatenate([tiled[:before], words, tiled[:after]])
    return with_cells(codebooks, cells), len(cells)


def packed(books: _native.Books, n_cells: int, cells: Cells, codes: Codes, n_crude: int) -> _native.Segment:
    n = len(cells)
    starts = np.zeros(n_cells + 1, np.uint64)
    low, high, samples = _native.count_cells(cells, starts)
    arrays = {
        "cell_starts": starts,
        "crude": np.zeros(((n + 63) // 64, n_crude, 64), np.uint8),
        "rest": np.zeros((n, codes.shape[1] - n_crude), np.uint8),
        "low": np.zeros(low, np.uint64),
        "high": np.zeros(high, np.uint64),
        "samples": np.zeros(samples, np.uint32),
    }
    _native.pack(cells, codes, **arrays)
    floors = np.empty(n_cells, np.int32)
    _native.cross_floors(books, cells, codes, 2, floors)
    return _native.Segment(**arrays, cross_floors=floors if books.has_cross_sums else None)


def searched(books, segment, filters, q, k, rule):
    rows, distances = np.empty((len(q), k), np.int64), np.empty((len(q), k), np.float32)
    counts, work = np.empty(len(q), np.int64), np.empty((len(q), 5), np.uint64)
    _native.search(books, [segment], filters, q, rule.native, 1, rows, distances, counts, work, None)
    return [a.tobytes() for a in (rows, distances, counts, work)]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cells_beyond_256_are_searched_like_those_below(simd, layout, metric):
    rng = np.random.default_rng(LAYOUTS.index(layout))
    codebooks = random_codebooks(rng, layout, metric=metric, dim=12, n_words=64, scale=1.0)
    joined = random_codes(rng, codebooks, 5000)
    small = index_of(codebooks, joined).engine.segments[0].native
    books, n_cells = more_cells(codebooks, 700, 30)
    cells, codes = joined[:, 0].astype(np.uint32) + 700, np.ascontiguousarray(joined[:, 1:])
    large = packed(books, n_cells, cells, codes, codebooks.n_crude_columns)
    q = rng.normal(size=(4, codebooks.dim)).astype(np.float32)
    for rule in RULES:
        assert searched(books, large, [], q, 5, rule) == searched(codebooks.native, small, [], q, 5, rule)
    for share in (0.5, 0.05, 0.0005):  # a mask, a copy found by decoding, a copy found by the cells of its rows
        mask = (rng.random(5000) < share).astype(np.uint8)
        mask[4321] = 1
        filters = [_native.Filter(books, large, mask)], [_native.Filter(codebooks.native, small, mask)]
        assert filters[0][0].n_allowed == mask.sum()
        found = searched(books, large, filters[0], q, 5, EXACT)
        assert found[:3] == searched(codebooks.native, small, filters[1], q, 5, EXACT)[:3]  # the work may differ
    traces = [
        _native.trace(books, [large], [], q[0], EXACT.native, 5, 4321),
        _native.trace(codebooks.native, [small], [], q[0], EXACT.native, 5, 4321),
    ]
    assert traces[0].cell == traces[1].cell + 700
    assert (traces[0].distance, traces[0].step) == (traces[1].distance, traces[1].step)


@pytest.mark.parametrize("n_cells", [255, 256, 257, 600, 70_000])
def test_cells_and_codes_come_back(n_cells):
    rng = np.random.default_rng(n_cells)
    cells = rng.integers(n_cells, size=3000).astype(np.uint32)
    cells[:2] = 0, n_cells - 1
    codes = rng.integers(256, size=(3000, 5)).astype(np.uint8)
    books, _ = more_cells(random_codebooks(rng, "subspace", n_books=6, dim=6, n_words=1, n_crude=3), n_cells - 1, 0)
    segment = packed(books, n_cells, cells, codes, 2)
    again = np.zeros(3000, np.uint32), np.zeros((3000, 5), np.uint8)
    segment.unpack(*again)
    assert_array_equal(again[0], cells)
    assert_array_equal(again[1], codes)
    some = rng.integers(3000, size=100).astype(np.uint64)
    again = np.zeros(100, np.uint32), np.zeros((100, 5), np.uint8)
    segment.codes_of(some, *again)
    assert_array_equal(again[0], cells[some])
    assert_array_equal(again[1], codes[some])
    joined = np.zeros((3000, 6), np.uint8)
    if n_cells <= 256:
        segment.unpack(joined)
        assert_array_equal(joined, np.column_stack([cells.astype(np.uint8), codes]))
    else:
        with pytest.raises(ValueError, match="256 cells"):
            segment.unpack(joined)
        with pytest.raises(ValueError, match="256 cells"):
            segment.codes_of(some, joined[:100])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_are_coded_with_cells_beyond_256(simd, layout):
    rng = np.random.default_rng(3)
    codebooks = random_codebooks(rng, layout, dim=12, n_words=64, scale=1.0)
    x = rng.normal(size=(70, codebooks.dim)).astype(np.float32)
    plain = np.empty((70, 1 + len(codebooks.columns)), np.uint8)
    _native.encode(codebooks.native, x, 8, 1, 1, plain)
    # Copies of a cell are never chosen, because the lower number wins, but take places in the beam of rows near it.
    words = codebooks.books[0].words
    near = np.argsort(codebooks.bases(x), axis=1)[:, :16]
    far = int(np.argmin(np.bincount(near.ravel(), minlength=64)))
    away = (near != far).all(1)
    books = with_cells(codebooks, np.concatenate([words, np.repeat(words[far : far + 1], 500, axis=0)]))
    assert away.sum() > 20
    for threads in (1, 2):
        cells, codes = np.empty(70, np.uint32), np.empty((70, len(codebooks.columns)), np.uint8)
        _native.encode(books, x, 8, 1, threads, cells, codes)
        assert_array_equal(cells[away], plain[away, 0])
        assert_array_equal(codes[away], plain[away, 1:])
    with pytest.raises(ValueError, match="256 cells"):
        _native.encode(books, x, 8, 1, 1, plain)


def test_cells_that_are_not_there_are_refused():
    rng = np.random.default_rng(0)
    codebooks = random_codebooks(rng, "subspace", n_books=3)
    books, n_cells = more_cells(codebooks, 300, 0)
    cells, codes = np.full(10, n_cells - 1, np.uint32), np.zeros((10, 2), np.uint8)
    packed(books, n_cells, cells, codes, codebooks.n_crude_columns)
    cells[3] = n_cells
    with pytest.raises(ValueError, match="a cell that is not there"):
        packed(books, n_cells, cells, codes, codebooks.n_crude_columns)
    with pytest.raises(ValueError, match="a cell that is not there"):
        _native.cross_floors(books, cells, codes, 1, np.zeros(n_cells, np.int32))
    with pytest.raises(ValueError, match="one cell for each row"):
        _native.cross_floors(books, cells[:9], codes, 1, np.zeros(n_cells, np.int32))
