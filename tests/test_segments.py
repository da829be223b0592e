"""Packing: what goes in comes out, and the row numbers take the bits they should."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from books import index_of, random_codebooks, random_codes
from interlace import DamagedFileError
from interlace.segments import Segment, merge

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
    index._segments = (Segment({**segment.arrays, "samples": np.full_like(segment.arrays["samples"], 2**32 - 1)}),)
    with pytest.raises(DamagedFileError, match="row numbers"):
        index.search(np.zeros(codebooks.dim, np.float32))


@pytest.mark.parametrize("name", ["cell_starts", "crude", "rest", "low", "high", "samples"])
def test_arrays_of_the_wrong_size_are_refused(name):
    rng = np.random.default_rng(4)
    codebooks = random_codebooks(rng)
    arrays = dict(Segment.pack(random_codes(rng, codebooks, 500), codebooks).arrays)
    arrays[name] = np.ascontiguousarray(arrays[name][:-1])
    with pytest.raises(ValueError, match="cell_starts|crude|row number|rows"):
        Segment(arrays)
