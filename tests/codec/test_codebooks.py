"""Codebooks: validated when made, frozen afterwards, equal after a round trip."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import books
import interlace as il
from helpers import LAYOUTS, METRICS, build, hand_made, small_index
from interlace import reference
from interlace.codec.book import is_long
from raising import Facts, raises

WORDS = np.arange(6, dtype=np.float32).reshape(3, 2)
BOOK = il.Book(WORDS, [0, 1])


def made(**changes: Any) -> il.Codebooks:
    return il.Codebooks(**{"books": [BOOK, BOOK], "dim": 2, "n_crude": 1, "norms": [il.Norm([1.0], (1,))], **changes})


# --- books and norms --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "support", "facts"),
    [
        (WORDS[0], [0, 1], ("words", 2, "dimension(s)", "ndarray", "(2,)")),
        (WORDS, [[0, 1]], ("support", 1, "dimension(s)", "ndarray", "(1, 2)")),
        (WORDS[:0], [0, 1], (1, 256, 0)),
        (np.zeros((65537, 2)), [0, 1], (1, 256, 65537)),
        (WORDS, [0], ("words", 2, 1)),
        (WORDS, [1, 0], ("support", "repeats")),
        (WORDS, [1, 1], ("support", "repeats")),
        (WORDS, [0.5, 1.5], ("support", "uint32", "0.5")),
        (WORDS, [-1, 1], ("support", "uint32", "-1")),
        (WORDS, [0, 2**32], ("support", "uint32", 4294967296)),
        (WORDS * np.nan, [0, 1], ("words", "float32")),
        (WORDS + np.inf, [0, 1], ("words", "float32")),
        (WORDS.astype(np.float64) * 1e300, [0, 1], ("words", "float32")),
        (WORDS.astype(complex), [0, 1], ("words", "complex128")),
        (WORDS.astype(object), [0, 1], ("words", "object")),
        (WORDS.astype(str), [0, 1], ("words", "dtype")),
        ([[1.0], [1.0, 2.0]], [0, 1], ("words", "array")),
        (None, [0, 1], ("words", 2, "dimension(s)")),
    ],
)
def test_a_book_that_cannot_be(words: Any, support: Any, facts: Facts) -> None:
    with np.errstate(invalid="ignore", over="ignore"), raises(il.InputError, *facts):
        il.Book(words, support)


@pytest.mark.parametrize(
    ("values", "covers", "facts"),
    [
        ([], (1,), (1, 256, 0)),
        (np.zeros(257), (1,), (1, 256, 257)),
        ([[1.0]], (1,), ("norm", 1, "dimension(s)")),
        ([np.nan], (1,), ("norm", "finite")),
        ([1.0], (1.5,), ("covers", 0, "1.5")),
        ([1.0], (-1,), ("covers", 0, "-1")),
    ],
)
def test_a_norm_that_cannot_be(values: Any, covers: Any, facts: Facts) -> None:
    with raises(il.InputError, *facts):
        il.Norm(values, covers)


def test_arrays_are_copied_and_frozen() -> None:
    words, support = WORDS.copy(), np.array([0, 1])
    book = il.Book(words, support)
    words[:] = support[:] = 9
    np.testing.assert_array_equal(book.words, WORDS)
    assert book.support.tolist() == [0, 1]
    mean = np.zeros(2)
    books = made(mean=mean, rotation=np.eye(2), crude_dims=[1], variances=[2.0, 1.0])
    mean[:] = 1
    assert not books.mean.any()
    arrays, _ = books.to_arrays()
    assert len(arrays) == 4 + 2 * 2 + 1
    for name, array in arrays.items():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        assert array.flags.c_contiguous, name
    with raises(AttributeError, "frozen", "'dim'"):
        books.dim = 3
    with pytest.raises(AttributeError):
        book.words = WORDS  # type: ignore[misc]


# --- codebooks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        ({"books": []}, ("at least one book is needed",)),
        ({"books": [BOOK] * 257}, (256, 257)),
        ({"books": [BOOK, WORDS]}, ("books", "books[1]", "(3, 2)")),
        ({"dim": 0}, ("dim", 1, 0)),
        ({"dim": 2.5}, ("dim", 1, "2.5")),
        ({"dim": 1}, ("book 0", 1)),
        ({"n_crude": 0}, ("n_crude", 1, 2, 0)),
        ({"n_crude": 3}, ("n_crude", 1, 2, 3)),
        ({"n_crude": 1.0}, ("n_crude", 1, 2, "1.0")),
        ({"metric": "l1"}, ("metric", "l2", "ip", "cosine", "'l1'")),
        ({"metric": "ip"}, ("norm", "ip")),
        ({"beam": 0}, ("beam", 1, 256, 0)),
        ({"beam": 257}, ("beam", 1, 256, 257)),
        ({"sweeps": -1}, ("sweeps", 0, 256, "-1")),
        ({"sweeps": 0.5}, ("sweeps", 0, 256, "0.5")),
        ({"mean": [0.0]}, ("mean", 1, 2)),
        ({"mean": [0.0, np.nan]}, ("mean", "finite")),
        ({"mean": [[0.0, 0.0]]}, ("mean", 1, "dimension(s)")),
        ({"rotation": np.eye(3)}, ("rotation", 2, "ndarray", "(3, 3)")),
        ({"rotation": 2 * np.eye(2)}, ("rotation", 1, 3)),
        ({"norms": [il.Norm([1.0], (2,))]}, (1, "(2,)")),
        ({"norms": [il.Norm([1.0], (0, 1))]}, (1, "(0, 1)")),
        ({"crude_dims": [2]}, ("crude_dims", 0, 1, "[2]")),
        ({"crude_dims": [-1]}, ("crude_dims", 0, 1, "[-1]")),
        ({"crude_dims": [0.5]}, ("crude_dims", "int32", "0.5")),
        ({"variances": [np.inf]}, ("variances", "finite")),
        ({"residual_variance": np.nan}, ("residual_variance", "nan")),
    ],
)
def test_codebooks_that_cannot_be(changes: dict[str, Any], facts: Facts) -> None:
    with raises(il.InputError, *facts):
        made(**changes)


def test_norms_cover_all_cross_terms_or_there_are_none() -> None:
    books = [BOOK, BOOK, il.Book(WORDS, [1, 2]), il.Book(WORDS, [3, 4])]
    message = "books 1 and 2 share dimension 1 but no norm covers their cross term; let norms cover all pairs, or give"
    for norms in ([il.Norm([0.0], (1, 3))], [il.Norm([0.0], (1, 3)), il.Norm([0.0, 1.0], (2, 3))]):
        with pytest.raises(il.InputError, match=message):
            il.Codebooks(books, dim=5, n_crude=1, norms=norms)
    assert il.Codebooks(books, dim=5, n_crude=1).native.has_cross_sums  # search computes them
    assert not il.Codebooks(books, dim=5, n_crude=1, norms=[il.Norm([0.0, 1.0], (1, 2))]).native.has_cross_sums
    assert not il.Codebooks(books, dim=5, n_crude=1, norms=[il.Norm([0.0], (1, 2))]).native.has_cross_sums
    assert not il.Codebooks(books, dim=5, n_crude=1, metric="ip").native.has_cross_sums  # inner products have none
    # The first book is the cell, whose cross terms are in the tables.
    assert not il.Codebooks([BOOK, BOOK], dim=5, n_crude=1).native.has_cross_sums


def test_crude_columns_come_first_and_a_constant_has_none() -> None:
    books = [il.Book(WORDS, [2 * i, 2 * i + 1]) for i in range(5)]
    norms = [il.Norm([0.0, 1.0], (3, 4)), il.Norm([0.0, 1.0], (1, 2), crude=True), il.Norm([2.0], (1, 3), crude=True)]
    made = il.Codebooks(books, dim=10, n_crude=3, norms=norms)
    assert made.columns == (1, 2, -2, 3, 4, -1)
    assert made.column_sizes == [3, 3, 3, 2, 3, 3, 2]
    assert made.n_crude_columns == 3
    assert (made.n_books, made.n_bytes, made.n_cells) == (5, 7, 3)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(books.LAYOUTS), st.sampled_from(METRICS))
def test_bases_are_those_that_search_adds(seed: int, layout: str, metric: str) -> None:
    rng = np.random.default_rng(seed)
    made = books.random_codebooks(rng, layout, dim=int(rng.integers(4, 20)), metric=metric)
    q = rng.normal(size=(3, made.dim)).astype(np.float32)
    exact = [reference.tables(made, row).base for row in q]
    np.testing.assert_allclose(made.bases(q), exact, rtol=1e-4, atol=1e-3)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), max_size=8), st.integers(0, 1000))
def test_decode_adds_up_one_word_of_each_book(codes: list[tuple[int, int, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    plain = hand_made()
    books = il.Codebooks(plain.books, dim=4, n_crude=2, mean=rng.normal(size=4), rotation=rotation)
    decoded = books.decode(np.array(codes, np.uint8).reshape(-1, 3))
    assert decoded.dtype == np.float32
    for row, code in zip(decoded, codes, strict=True):
        total = np.zeros(4)
        for book, word in zip(books.books, code, strict=True):  # columns are 0, 1, 2: one crude, one not
            for dimension, value in zip(book.support, book.words[word], strict=True):
                total[dimension] += value
        np.testing.assert_allclose(row, rotation @ total + books.mean, rtol=1e-4, atol=1e-5)


# --- equality, files, repr --------------------------------------------------------------------------------------------


def test_equality_looks_at_everything() -> None:
    same = {
        "rotation": np.eye(2),
        "mean": [1.0, 2.0],
        "crude_dims": [0],
        "variances": [1.0, 2.0],
        "residual_variance": 3.0,
    }
    assert made(**same) == made(**same)
    nudged = WORDS + np.float32(1e-6) * (np.arange(6).reshape(3, 2) == 5)
    for changes in (
        {"books": [BOOK, il.Book(nudged, [0, 1])]},
        {"rotation": None},
        {"rotation": np.eye(2)[::-1]},
        {"mean": [1.0, 2.5]},
        {"crude_dims": [1]},
        {"variances": [1.0]},
        {"residual_variance": 3.5},
        {"n_crude": 2},
        {"beam": 2},
        {"sweeps": 1},
        {"layout": "other"},
        {"norms": [il.Norm([1.0], (1,), crude=True)]},
        {"norms": [il.Norm([2.0], (1,))]},
        {"norms": [], "metric": "ip"},
    ):
        assert made(**same) != made(**{**same, **changes}), changes
    assert made() != "codebooks"
    with pytest.raises(TypeError, match="unhashable"):
        hash(made())


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_codebooks_survive_their_file(layout: str, metric: str, tmp_path: Path) -> None:
    index = build(layout=layout, metric=metric)
    index.codebooks.save(tmp_path / "c")
    index.save(tmp_path / "i")
    loaded = il.Codebooks.load(tmp_path / "c")
    assert loaded == index.codebooks
    assert repr(loaded) == repr(index.codebooks)
    assert il.Codebooks.load(tmp_path / "i") == index.codebooks
    grown = il.Index(loaded)
    grown.add(index.reconstruct(index.ids), threads=1)
    assert len(grown) == len(index)


@pytest.mark.parametrize("layout", books.LAYOUTS)
def test_codebooks_of_any_structure_survive_their_file(layout: str, tmp_path: Path) -> None:
    made = books.random_codebooks(np.random.default_rng(7), layout, sweeps=3)
    made.save(tmp_path / "c")
    loaded = il.Codebooks.load(tmp_path / "c")
    assert loaded == made
    assert loaded.sweeps == 3


def test_codebooks_of_an_index_are_those_given() -> None:
    assert small_index().codebooks == hand_made()


def test_repr_says_what_matters() -> None:
    assert repr(hand_made(norms=True)) == (
        "Codebooks(custom, l2, dim=4: 3 books of 3 words + 1 norm column, 2 crude; 4 bytes per vector)"
    )
    constant = il.Codebooks([BOOK, BOOK, BOOK], dim=2, n_crude=1, norms=[il.Norm([0.5], (1, 2))])
    assert repr(constant) == (
        "Codebooks(custom, l2, dim=2: 3 books of 3 words + a constant, 1 crude; 3 bytes per vector)"
    )
    mixed = il.Codebooks([il.Book(WORDS, [0, 1]), il.Book(WORDS[:1], [2, 3])], dim=4, n_crude=1, metric="ip")
    assert repr(mixed) == "Codebooks(custom, ip, dim=4: 2 books of 1-3 words, 1 crude; 2 bytes per vector)"


@pytest.mark.parametrize("layout", books.LAYOUTS)
@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_the_core_adds_cross_terms_where_python_says_so(layout, metric):
    """Opening a file asks Python, because the core would compute its tables first."""
    for seed in range(20):
        codebooks = books.random_codebooks(np.random.default_rng(seed), layout, n_books=1 + seed % 5, metric=metric)
        assert codebooks.has_cross_sums == codebooks.native.has_cross_sums


@pytest.mark.parametrize(
    ("n_books", "n_norms", "long"), [(24, 0, False), (25, 0, True), (256, 0, True), (25, 1, False), (256, 1, False)]
)
def test_codes_are_long_from_24_columns_beside_the_cell_on_unless_they_have_a_norm(
    n_books: int, n_norms: int, long: bool
) -> None:
    assert is_long(n_books, n_norms) == long
