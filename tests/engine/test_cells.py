"""More than 256 cells: their numbers take two bytes of a code, and searches and codes are those of fewer cells."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from books import LAYOUTS, coded, index_of, random_codebooks, random_codes, stopping_rule, with_cells
from helpers import METRICS
from interlace import Codebooks, Index, InputError, _native, reference
from interlace.codec.book import LONG_CODE
from interlace.codec.encode import checked_codes, encode
from interlace.engine.hits import WORK
from interlace.engine.margins import EVERYTHING, EXACT, Rule
from interlace.engine.segments import Segment

RULES = [
    EXACT,
    EVERYTHING,
    Rule(_native.Rule.with_share(share=0.7), "calibrated", "share"),
    Rule(_native.Rule.paper(sigma=1.5), "paper", "paper"),
    stopping_rule("cells", share=0.8, weight=0.5, stop=1.0, least=0.5, reach=1e6),
]


def more_cells(codebooks: Codebooks, before: int, after: int) -> Codebooks:
    """The same books with this many smaller cells before and after, which change no scale."""
    words = codebooks.books[0].words
    tiled = np.tile(words, (1 + max(before, after) // len(words), 1)) * np.float32(0.5)
    return with_cells(codebooks, np.concatenate([tiled[:before], words, tiled[:after]]))


def folded(codebooks: Codebooks) -> Codebooks:
    """The same books; a few cells are folded too."""
    arrays, description = codebooks.to_arrays()
    return Codebooks.from_arrays(arrays, {**description, "folded": True})


def searched(codebooks, segment, filters, q, k, rule):
    rows, distances = np.empty((len(q), k), np.int64), np.empty((len(q), k), np.float32)
    counts, work = np.empty(len(q), np.int64), np.empty((len(q), WORK), np.uint64)
    out = (rows, distances, counts, work, None)
    _native.search(codebooks.native, [segment.native], filters, q, rule.native, 1, *out)
    return [a.tobytes() for a in (rows, distances, counts, work)]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cells_beyond_256_are_searched_like_those_below(simd, layout, metric):
    rng = np.random.default_rng(LAYOUTS.index(layout))
    codebooks = random_codebooks(rng, layout, metric=metric, dim=12, n_words=64, scale=1.0)
    few = random_codes(rng, codebooks, 5000)
    small = index_of(codebooks, few).engine.segments[0]
    books = more_cells(codebooks, 700, 30)
    if books.folds_cells:
        pytest.skip("these have no tables for each cell: the reference is their oracle")
    many = coded(books, few[:, 0].astype(np.int64) + 700, few[:, 1:])
    large = Segment.pack(many, books)
    assert_array_equal(books.decode(many), codebooks.decode(few))
    q = rng.normal(size=(4, codebooks.dim)).astype(np.float32)
    for rule in RULES:
        compared = slice(3 if rule is EXACT else None)  # the work may differ: few rows are compared without cells
        assert searched(books, large, [], q, 5, rule)[compared] == searched(codebooks, small, [], q, 5, rule)[compared]
    for share in (0.5, 0.05, 0.0005):  # a mask, a copy found by decoding, a copy found by the cells of its rows
        mask = (rng.random(5000) < share).astype(np.uint8)
        mask[4321] = 1
        filters = [
            [_native.Filter(own.native, segment.native, mask)] for own, segment in ((books, large), (codebooks, small))
        ]
        assert filters[0][0].n_allowed == mask.sum()
        found = searched(books, large, filters[0], q, 5, EXACT)
        assert found[:3] == searched(codebooks, small, filters[1], q, 5, EXACT)[:3]  # the work may differ
    traces = [
        _native.trace(own.native, [segment.native], [], q[0], EXACT.native, 5, 4321)
        for own, segment in ((books, large), (codebooks, small))
    ]
    assert traces[0].cell == traces[1].cell + 700
    assert (traces[0].distance, traces[0].step) == (traces[1].distance, traces[1].step)


FOLDED = [(layout, metric) for layout in ("hybrid", "additive") for metric in ("l2", "cosine")]


@pytest.mark.parametrize(("layout", "metric"), FOLDED)
@pytest.mark.parametrize("integers", [False, True], ids=["normal", "ties"])
@pytest.mark.parametrize(
    ("n_cells", "n_books", "keep"), [(260, 4, False), (260, 4, True), (20, 4, False), (3, LONG_CODE + 1, False)]
)
def test_folded_cells_are_searched_like_the_reference(simd, layout, metric, integers, n_cells, n_books, keep):
    rng = np.random.default_rng(11)
    shape = {"dim": 30 if n_books > 4 else 12, "n_words": 20, "n_books": n_books, "n_crude": n_books - 1}
    codebooks = random_codebooks(rng, layout, metric=metric, integers=integers, **shape)
    size = n_cells, codebooks.dim
    words = rng.integers(-2, 3, size) if integers else 2 * rng.normal(size=size)
    books = folded(with_cells(codebooks, words.astype(np.float32)))
    assert books.folds_cells
    assert books.keeps_sums == (n_books > 4)
    assert not codebooks.folds_cells
    n, cut = (500, 170) if n_books == 4 else (90, 30)
    cells = (rng.random(n) ** 2 * n_cells).astype(np.int64)  # some cells are empty, some have one row
    codes = coded(books, cells, rng.integers(20, size=(n, len(books.columns))).astype(np.uint8))
    codes[n - 20 :] = codes[:20]  # distances tie
    segments = [Segment.pack(part, books) for part in (codes[:cut], codes[cut:])]
    natives = [segment.native for segment in segments]
    q = rng.normal(size=(2, books.dim)).astype(np.float32)
    masks = [None, rng.random(n) < 0.6, rng.random(n) < 0.1]
    for rule in RULES:
        for mask in masks:
            rows, distances = np.empty((2, 7), np.int64), np.empty((2, 7), np.float32)
            counts, work = np.empty(2, np.int64), np.empty((2, WORK), np.uint64)
            parts = [] if mask is None else np.split(mask.astype(np.uint8), [cut])
            filters = [_native.Filter(books.native, native, part) for native, part in zip(natives, parts, strict=False)]
            if keep and rule is RULES[1]:  # the first filter of this rule is older than the sums, others are not
                for native in natives:
                    native.keep_sums(books.native)
            _native.search(books.native, natives, filters, q, rule.native, 1, rows, distances, counts, work, None)
            for i in range(2):
                hits, survivors = reference.search(books, codes, q[i], 7, rule, mask, (cut,))
                assert_array_equal(rows[i, : counts[i]], [hit.row for hit in hits])
                assert_array_equal(distances[i, : counts[i]], [hit.distance for hit in hits])
                if mask is None:  # a small copy is compared row by row
                    assert work[i, 2] == survivors
    assert [native.keeps_sums for native in natives] == 2 * [keep or books.keeps_sums]
    everything = reference.search(books, codes, q[0], n, EVERYTHING, None, (cut,))[0]
    for hit in everything[::97]:
        trace = _native.trace(books.native, natives, [], q[0], EXACT.native, 7, hit.row)
        assert (np.float32(trace.crude), np.float32(trace.distance)) == (hit.crude, hit.distance)
        assert np.float32(trace.floor) <= hit.distance


def test_folded_cells_keep_no_tables_of_their_own():
    rng = np.random.default_rng(0)
    codebooks = random_codebooks(rng, "additive", dim=12, n_words=64)
    books = with_cells(codebooks, rng.normal(size=(5000, 12)).astype(np.float32))
    q = rng.normal(size=(1, 12)).astype(np.float32)
    codes = coded(
        books, rng.integers(5000, size=300), rng.integers(64, size=(300, len(books.columns))).astype(np.uint8)
    )
    searched(books, Segment.pack(codes, books), [], q, 5, EXACT)
    of_terms = 2 * 5000 * len(books.columns) * 256
    assert books.native.table_bytes < 0.2 * of_terms


@pytest.mark.parametrize("layout", ["hybrid", "additive"])
@pytest.mark.parametrize("n_books", [4, LONG_CODE + 1])
def test_folding_changes_distances_by_rounding_only(layout, n_books):
    rng = np.random.default_rng(n_books)
    codebooks = random_codebooks(rng, layout, dim=30, n_books=n_books, n_words=64)
    codes, q = random_codes(rng, codebooks, 700), rng.normal(size=(5, 30)).astype(np.float32)
    plain, index = index_of(codebooks, codes), index_of(folded(codebooks), codes[:300], codes[300:])
    assert_array_equal(folded(codebooks).decode(codes), codebooks.decode(codes))
    found, expected = (one.search(q, k=700, margin=np.inf) for one in (index, plain))
    at = [dict(zip(row, distances, strict=True)) for row, distances in zip(found.ids, found.distances, strict=True)]
    for i in range(5):
        same = [at[i][row] for row in expected.ids[i]]
        np.testing.assert_allclose(same, expected.distances[i], rtol=2e-3, atol=2e-3 * expected.distances[i].mean())


def test_folded_books_are_stored(tmp_path):
    rng = np.random.default_rng(3)
    codebooks = folded(random_codebooks(rng, "hybrid"))
    index = index_of(codebooks, random_codes(rng, codebooks, 300))
    index.save(tmp_path / "folded.interlace")
    again = Index.open(tmp_path / "folded.interlace")
    assert again.codebooks == codebooks
    assert again.codebooks.folds_cells
    q = rng.normal(size=(3, codebooks.dim)).astype(np.float32)
    assert_array_equal(again.search(q, k=5).distances, index.search(q, k=5).distances)
    index.verify()


@pytest.mark.parametrize("n_cells", [1, 255, 256, 257, 600, 65_536])
def test_cells_and_codes_come_back(n_cells):
    rng = np.random.default_rng(n_cells)
    one_word = random_codebooks(rng, "subspace", n_books=6, dim=6, n_words=1, n_crude=3)
    books = with_cells(one_word, rng.normal(size=(n_cells, len(one_word.books[0].support))).astype(np.float32))
    cells = rng.integers(n_cells, size=3000)
    cells[:2] = 0, n_cells - 1
    columns = np.zeros((3000, 5), np.uint8)
    codes = coded(books, cells, columns)
    assert codes.shape[1] == books.code_width == 5 + (1 if n_cells <= 256 else 2)
    assert_array_equal(books.split_codes(codes)[0], cells)
    segment = Segment.pack(codes, books)
    assert_array_equal(segment.unpack(), codes)
    some = rng.integers(3000, size=100)
    assert_array_equal(segment.codes_of(some), codes[some])
    sizes = np.diff(segment.arrays["cell_starts"].astype(np.int64))
    assert_array_equal(sizes, np.bincount(cells, minlength=n_cells))  # empty cells, cells of one row


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
        codes = np.empty((70, books.code_width), np.uint8)
        _native.encode(books.native, x, 8, 1, threads, codes)
        cells, columns = books.split_codes(codes)
        assert_array_equal(cells[away], plain[away, 0])
        assert_array_equal(columns[away], plain[away, 1:])
    with pytest.raises(ValueError, match="wrong shape"):
        _native.encode(books.native, x, 8, 1, 1, plain)


@pytest.mark.parametrize("n_cells", [300, 4096, 4097, 9000])
def test_coding_among_thousands_of_cells_is_that_of_the_reference(simd, n_cells):
    # With more than 16 tables of 256 cells, a row is compared with the cells of the nearest tables only.
    rng = np.random.default_rng(n_cells)
    codebooks = random_codebooks(rng, "hybrid", dim=6, n_words=16, n_books=3, scale=1.0)
    books = with_cells(codebooks, rng.normal(size=(n_cells, 6)).astype(np.float32))
    x = rng.normal(size=(5, 6)).astype(np.float32)
    assert_array_equal(encode(books, x, 1), reference.encode(books, x))


def test_cells_that_are_not_there_are_refused():
    rng = np.random.default_rng(0)
    codebooks = random_codebooks(rng, "subspace", n_books=3)
    books = more_cells(codebooks, 300, 0)
    cells, columns = np.full(10, books.n_cells - 1), np.zeros((10, 2), np.uint8)
    Segment.pack(coded(books, cells, columns), books)
    cells[3] = books.n_cells
    codes = coded(books, cells, columns)
    with pytest.raises(ValueError, match="a cell that is not there"):
        Segment.pack(codes, books)
    with pytest.raises(ValueError, match="a cell that is not there"):
        _native.cross_floors(books.native, codes, 1, np.zeros(books.n_cells, np.int32))
    with pytest.raises(InputError, match=rf"codes\[3, 0\] is cell {books.n_cells}"):
        checked_codes(books, codes)
