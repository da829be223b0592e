"""Words in half precision: what is rounded, what a file stores, and single queries that read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlace as il
from interlace import _native, reference
from interlace.codec.book import HALF_WIDTH, from_halves, to_halves


def wide_book(scale: float, seed: int, n_words: int = 256) -> il.Book:
    words = np.random.default_rng(seed).normal(size=(n_words, HALF_WIDTH)) * scale
    return il.Book(words, np.arange(HALF_WIDTH)).rounded()


def codebooks(metric: str = "l2", scale: float = 1.0, n_words: int = 256) -> il.Codebooks:
    made = [wide_book(scale / 2**i, i, 3 if i == 0 else n_words) for i in range(3)]
    return il.Codebooks(made, dim=HALF_WIDTH, n_crude=2, metric=metric)


def index_of(books: il.Codebooks, n: int = 300) -> il.Index:
    rng = np.random.default_rng(5)
    sizes = [len(book.words) for book in books.books]
    index = il.Index(books)
    codes = np.stack([rng.integers(0, size, n) for size in sizes], axis=1).astype(np.uint8)
    index.add(books.decode(codes), threads=1)
    return index


@given(st.integers(0, 2**32 - 1), st.integers(-40, 40))
def test_rounded_words_are_halves_and_near_the_others(seed: int, exponent: int) -> None:
    words = np.random.default_rng(seed).normal(size=(7, HALF_WIDTH)) * 2.0**exponent
    given_book = il.Book(words, np.arange(HALF_WIDTH))
    book = given_book.rounded()
    assert book.halves is not None
    halves, stored = book.halves
    assert halves.dtype == np.float16
    assert (from_halves(halves, stored) == book.words).all()
    largest = np.abs(given_book.words).max()
    error = np.abs(book.words - given_book.words)
    assert (error <= np.maximum(np.abs(given_book.words) * 2.0**-11, largest * 2.0**-28)).all()
    assert (book.rounded().words == book.words).all()


def test_narrow_words_and_others_that_no_half_holds_stay_floats() -> None:
    rng = np.random.default_rng(0)
    narrow = il.Book(rng.normal(size=(9, HALF_WIDTH - 1)), np.arange(HALF_WIDTH - 1))
    assert narrow.rounded() is narrow
    assert narrow.halves is None
    assert il.Book(rng.normal(size=(9, HALF_WIDTH)), np.arange(HALF_WIDTH)).halves is None
    zeros = il.Book(np.zeros((1, HALF_WIDTH)), np.arange(HALF_WIDTH))
    assert to_halves(zeros.words)[1] == 0
    assert (zeros.rounded().words == 0).all()


def test_learning_rounds_wide_words() -> None:
    x = np.random.default_rng(1).normal(size=(3000, HALF_WIDTH)).astype(np.float32)
    for layout in ("residual", "hybrid"):
        learned = il.Index.build(x, n_bytes=3, layout=layout, threads=1).codebooks
        wide = [book for book in learned.books if len(book.support) >= HALF_WIDTH]
        assert wide
        assert all(book.halves is not None for book in wide)


def test_words_of_very_different_sizes_are_floats_for_batches_and_single_queries() -> None:
    words = np.zeros((3, HALF_WIDTH), np.float32)
    words[0, 0], words[1, 1], words[2] = 2.0**51, 2.0**-46, 1.0
    books = il.Codebooks([il.Book(words, np.arange(HALF_WIDTH))] * 2, dim=HALF_WIDTH, n_crude=2, metric="ip")
    assert books.books[1].halves is None
    index = il.Index(books)
    index.add(words, threads=1)
    q = np.eye(2, HALF_WIDTH, 0, np.float32)
    q[1] = np.eye(1, HALF_WIDTH, 1, np.float32)
    batch = index.search(np.repeat(q, 4, axis=0), 3, margin="exact", threads=1)
    for i, one in enumerate(q):
        assert index.search(one, 3, margin="exact").distances.tobytes() == batch.distances[4 * i].tobytes()


@pytest.mark.parametrize("layout", ["residual", "hybrid"])
@pytest.mark.parametrize("cells", [2, 300])
def test_words_far_larger_than_the_errors_are_not_rounded(layout: str, cells: int) -> None:
    rng = np.random.default_rng(4)
    near = rng.normal(size=(3000, HALF_WIDTH)).astype(np.float32)
    centres = (rng.normal(size=(2, HALF_WIDTH)) * 3e4).astype(np.float32)
    x = near + centres[rng.integers(0, 2, len(near))]
    learned = il.Index.build(x, n_bytes=4, layout=layout, cells=cells, effort="fastest", threads=1)
    decoded = learned.reconstruct(np.arange(len(x)))
    assert ((decoded - x) ** 2).sum(1).mean() < 1.2 * HALF_WIDTH
    assert learned.codebooks.books[0].halves is None


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("scale", [1.0, 1e-12, 3e9])
@pytest.mark.parametrize("n_words", [256, 5])
def test_a_single_query_has_the_bits_of_a_batch_at_every_level(metric: str, scale: float, n_words: int) -> None:
    books = codebooks(metric, scale, n_words)
    index = index_of(books)
    q = (np.random.default_rng(9).normal(size=(9, HALF_WIDTH)) * scale).astype(np.float32)
    if metric != "cosine":
        q[3] = 0
        q[4, 1:] = 0
        q[5, 7] = 1e-42  # too small for another exponent where words are small: floats are read then
    level, answers = _native.simd_level(), {}
    try:
        for name in _native.simd_levels():
            _native.force_simd_level(name)
            batch = index.search(q, 20, margin="exact", threads=1)
            alone = [index.search(one, 20, margin="exact") for one in q]
            assert [found.ids.tolist() for found in alone] == batch.ids.tolist()
            assert b"".join(found.distances.tobytes() for found in alone) == batch.distances.tobytes()
            answers[name] = batch.distances.tobytes()
    finally:
        _native.force_simd_level(level)
    assert len(set(answers.values())) == 1


def test_a_single_query_agrees_with_the_reference() -> None:
    books = codebooks(n_words=16)
    index = index_of(books, 120)
    codes = index.engine.codes_of(np.arange(len(index)))
    for one in np.random.default_rng(9).normal(size=(4, HALF_WIDTH)).astype(np.float32):
        found, expected = index.search(one, 10, margin="exact"), reference.exhaustive(books, codes, one, 10)
        assert found.ids.tolist() == [hit.row for hit in expected]
        assert found.distances.tolist() == [float(hit.distance) for hit in expected]


def test_a_file_takes_half_the_bytes_and_gives_the_same_books(tmp_path: Path) -> None:
    books = codebooks()
    books.save(tmp_path / "halves")
    assert il.Codebooks.load(tmp_path / "halves") == books
    moved = [il.Book(book.words * np.float32(1 + 2.0**-20), book.support) for book in books.books]
    il.Codebooks(moved, dim=HALF_WIDTH, n_crude=2).save(tmp_path / "floats")
    assert (tmp_path / "halves").stat().st_size < 0.55 * (tmp_path / "floats").stat().st_size


@pytest.mark.parametrize(
    "exponents", [[0, 0], [0, None, 0], [0, 0, 999], [0, 0, "1"], [0, 0, 0, 0]], ids=lambda value: str(value)
)
def test_exponents_that_do_not_fit_their_words_are_refused(exponents: list[Any]) -> None:
    arrays, description = codebooks().to_arrays()
    with pytest.raises(il.InterlaceError):
        il.Codebooks.from_arrays(arrays, description | {"exponents": exponents})
    floats = {name: array.astype(np.float32) if "words" in name else array for name, array in arrays.items()}
    with pytest.raises(il.InterlaceError):
        il.Codebooks.from_arrays(floats, description | {"exponents": exponents})


def test_arrays_without_halves_do_not_depend_on_how_files_store_words() -> None:
    """Fingerprints of shard sets are made of them."""
    books = codebooks()
    arrays, description = books.to_arrays(halves=False)
    assert "exponents" not in description
    assert all((arrays[f"words.{i}"] == book.words).all() for i, book in enumerate(books.books))
    assert {array.dtype for name, array in arrays.items() if name.startswith("words.")} == {np.dtype(np.float32)}
    assert il.Codebooks.from_arrays(arrays, description) == books
