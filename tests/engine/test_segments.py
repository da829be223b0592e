"""Packing: what goes in comes out, and the row numbers take the bits they should."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from books import LAYOUTS, index_of, random_codebooks, random_codes, with_segments
from interlace import Book, Codebooks, DamagedFileError, _native, reference
from interlace.engine.segments import CROSS_FLOORS, Segment, merge

SIZES = [0, 1, 63, 64, 65, 127, 128, 1000]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    n=st.sampled_from(SIZES),
    n_books=st.integers(1, 9),
    n_words=st.sampled_from([1, 2, 17, 256]),
)
def test_unpack_is_the_inverse_of_pack(seed, n, n_books, n_words):
    rng = np.random.default_rng(seed)
    n_crude = int(rng.integers(1, n_books + 1))
    codebooks = random_codebooks(rng, "subspace", dim=12, n_books=n_books, n_words=n_words, n_crude=n_crude)
    codes = random_codes(rng, codebooks, n)
    segment = Segment.pack(codes, codebooks)
    assert (segment.unpack() == codes).all()
    rows = rng.integers(0, n, 20) if n else np.zeros(0, np.int64)
    assert (segment.codes_of(rows) == codes[rows]).all()


def test_codes_of_finds_few_rows_of_many_without_decoding_all():
    rng = np.random.default_rng(0)
    codebooks = random_codebooks(rng, "hybrid", dim=8, n_books=3, n_words=256)
    codes = random_codes(rng, codebooks, 200_000)
    segment = Segment.pack(codes, codebooks)
    rows = rng.integers(0, len(codes), 30)
    assert (segment.codes_of(rows) == codes[rows]).all()


def test_merge_keeps_the_order_of_rows():
    rng = np.random.default_rng(1)
    codebooks = random_codebooks(rng)
    parts = [random_codes(rng, codebooks, n) for n in (10, 1, 100)]
    merged = merge([Segment.pack(p, codebooks) for p in parts], codebooks)
    assert (merged.unpack() == np.concatenate(parts)).all()


def test_merge_takes_the_smaller_of_the_cross_floors():
    rng = np.random.default_rng(6)
    codebooks = random_codebooks(rng, "additive")
    parts = [random_codes(rng, codebooks, n) for n in (30, 50)]
    whole = Segment.pack(np.concatenate(parts), codebooks)
    merged = merge([Segment.pack(p, codebooks) for p in parts], codebooks)
    assert (merged.arrays[CROSS_FLOORS] == whole.arrays[CROSS_FLOORS]).all()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32), n=st.sampled_from([0, 1, 65, 300]), layout=st.sampled_from(LAYOUTS))
def test_cross_floors_are_the_smallest_cross_sums_of_a_cell(simd, seed, n, layout):
    rng = np.random.default_rng(seed)
    codebooks = random_codebooks(rng, layout, dim=int(rng.integers(5, 40)), n_books=5, n_words=17)
    codes = random_codes(rng, codebooks, n)
    segment = Segment.pack(codes, codebooks)
    assert codebooks.native.has_cross_sums == bool(reference.dense_words(codebooks).of)
    assert (CROSS_FLOORS in segment.arrays) == codebooks.native.has_cross_sums
    if codebooks.native.has_cross_sums:
        assert segment.arrays[CROSS_FLOORS].dtype == np.int32
        np.testing.assert_array_equal(segment.arrays[CROSS_FLOORS], reference.cross_floors(codebooks, codes))


def test_cross_sums_of_the_longest_words_fit(simd):
    """All words of all books point the same way: the sum is as long as it can be, and its square still fits."""
    for dim, n_books in ((1, 40), (7, 3), (33, 12), (700, 8)):
        direction = np.random.default_rng(dim).normal(size=(1, dim))
        books = [Book(direction * s, np.arange(dim)) for s in np.linspace(1, 3, n_books)]
        codebooks = Codebooks(books, dim=dim, n_crude=1)
        codes = np.zeros((1, n_books), np.uint8)
        dense = reference.dense_words(codebooks)
        total = dense.cross_sum(codes[0])
        assert 0.4 * 2**30 < total < 2**30
        assert Segment.pack(codes, codebooks).arrays[CROSS_FLOORS].tolist() == [total]
        exact = (sum(b.words.astype(np.float64) for b in books[1:]) ** 2).sum()
        exact -= sum((b.words.astype(np.float64) ** 2).sum() for b in books[1:])
        assert dense.cross_term(total) == pytest.approx(exact, rel=1e-2)


def test_cross_floors_are_the_same_for_any_number_of_threads():
    rng = np.random.default_rng(5)
    codebooks = random_codebooks(rng, "additive", dim=8, n_books=4, n_words=64)
    codes = random_codes(rng, codebooks, 70_000)
    found = [np.empty(64, np.int32) for _ in range(3)]
    for floors, threads in zip(found, (1, 2, 5), strict=True):
        _native.cross_floors(codebooks.native, codes, threads, floors)
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_row_numbers_of_256_even_cells_take_about_ten_bits():
    rng = np.random.default_rng(2)
    codebooks = random_codebooks(rng, "hybrid", dim=8, n_books=8, n_words=256)
    codes = rng.integers(0, 256, (100_000, 8), dtype=np.uint8)
    segment = Segment.pack(codes, codebooks)
    assert segment.code_bytes == pytest.approx(7 * 100_000, rel=1e-3)
    assert segment.row_bytes * 8 / 100_000 < 10.4


def test_damaged_row_numbers_raise_instead_of_reading_elsewhere():
    rng = np.random.default_rng(3)
    codebooks = random_codebooks(rng)
    segment = Segment.pack(random_codes(rng, codebooks, 500), codebooks)
    arrays = dict(segment.arrays)
    arrays["high"] = np.zeros_like(arrays["high"])
    with pytest.raises(DamagedFileError, match="row numbers"):
        Segment(arrays).unpack()
    index = index_of(codebooks, random_codes(rng, codebooks, 500))
    index = with_segments(
        index, (Segment({**segment.arrays, "samples": np.full_like(segment.arrays["samples"], 2**32 - 1)}),)
    )
    with pytest.raises(DamagedFileError, match="row numbers"):
        index.search(np.zeros(codebooks.dim, np.float32))
    index = with_segments(index, (Segment(arrays),))
    for act in (
        lambda: index.search(np.zeros(codebooks.dim, np.float32)),
        lambda: index.range_search(np.zeros(codebooks.dim, np.float32), 1e9),
        lambda: index.explain(np.zeros(codebooks.dim, np.float32), 3),
        lambda: index.search_by_id(3),
        lambda: index.reconstruct([3]),
        lambda: index.allow([1, 2]),
        index.calibrate,
        lambda: index.engine.segments[0].native.unpack(np.empty((500, codebooks.n_bytes), np.uint8)),
    ):
        with pytest.raises(DamagedFileError, match="row numbers"):
            act()


def test_a_row_that_is_in_no_cell_is_not_another_row():
    rng = np.random.default_rng(3)
    codebooks = random_codebooks(rng)
    arrays = dict(Segment.pack(random_codes(rng, codebooks, 500), codebooks).arrays)
    arrays["low"] = np.zeros_like(arrays["low"])  # rows twice, others nowhere
    segment = Segment(arrays)
    with pytest.raises(DamagedFileError, match="row numbers"):
        segment.codes_of(np.arange(500))


def test_codes_without_a_word_are_damage():
    rng = np.random.default_rng(4)
    codebooks = random_codebooks(rng, n_words=5)
    index = index_of(codebooks, random_codes(rng, codebooks, 300))
    arrays = index.engine.segments[0].arrays
    index = with_segments(index, (Segment({**arrays, "rest": np.full_like(arrays["rest"], 200)}),))
    for act in (lambda: index.reconstruct([7]), lambda: index.search_by_id(7), index.calibrate):
        with pytest.raises(DamagedFileError, match="a code names a word"):
            act()


@pytest.mark.parametrize(("kind", "text"), [(IndexError, "out of range"), (RuntimeError, "your GPU is damaged")])
def test_only_damage_is_called_damage(kind, text, monkeypatch):
    codebooks = random_codebooks(np.random.default_rng(5))
    index = index_of(codebooks, random_codes(np.random.default_rng(5), codebooks, 50))

    def fails(*_):
        raise kind(text)

    monkeypatch.setattr("interlace.engine.scan._native.search", fails)
    monkeypatch.setattr("interlace.engine.single._native.search_one", fails)
    for query in (np.zeros(codebooks.dim, np.float32), np.zeros((2, codebooks.dim), np.float32)):
        with pytest.raises(kind, match=f"^{text}$"):
            index.search(query)


@pytest.mark.parametrize("name", ["cell_starts", "crude", "rest", "low", "high", "samples", "cross_floors"])
def test_arrays_of_the_wrong_size_are_refused(name):
    rng = np.random.default_rng(4)
    codebooks = random_codebooks(rng, "additive")
    arrays = dict(Segment.pack(random_codes(rng, codebooks, 500), codebooks).arrays)
    arrays[name] = np.ascontiguousarray(arrays[name][:-1])
    with pytest.raises(ValueError, match="cell_starts|crude|row number|rows|cross_floors"):
        Segment(arrays)


def test_a_segment_without_its_cross_floors_is_not_searched():
    rng = np.random.default_rng(7)
    codebooks = random_codebooks(rng, "additive")
    index = index_of(codebooks, random_codes(rng, codebooks, 50))
    arrays = dict(index.engine.segments[0].arrays)
    del arrays[CROSS_FLOORS]
    index = with_segments(index, (Segment(arrays),))
    with pytest.raises(ValueError, match="a segment does not fit the books"):
        index.search(np.zeros(codebooks.dim, np.float32))
