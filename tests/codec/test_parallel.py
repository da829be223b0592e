"""Encoding with the score-aware loss: errors along the row count more than others."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from books import LAYOUTS, random_codebooks
from interlace import Book, Codebooks, reference
from interlace.codec.encode import encode
from interlace.codec.limits import MAX_WEIGHT
from interlace.errors import InputError
from raising import raises

some = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def weighted(codebooks: Codebooks, weight: float, **changes: object) -> Codebooks:
    """The same books with another loss."""
    arrays, description = codebooks.to_arrays()
    return Codebooks.from_arrays(arrays, description | {"parallel_weight": weight, **changes})


def loss(x: np.ndarray, decoded: np.ndarray, weight: float) -> float:
    """The loss of all rows, by the formula."""
    total = 0.0
    for row, code in zip(x.astype(np.float64), decoded.astype(np.float64), strict=True):
        error, direction = row - code, row / np.sqrt((row**2).sum())
        total += float((error**2).sum() + (weight - 1) * (error @ direction) ** 2)
    return total


@pytest.mark.parametrize("layout", [*LAYOUTS, "groups"])
@some
@given(data=st.data())
def test_equals_the_reference(simd, layout, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_books, scale = data.draw(st.integers(1, 6)), data.draw(st.sampled_from([1e-10, 1.0, 1e8]))
    plain = random_codebooks(
        rng,
        layout,
        dim=data.draw(st.integers(n_books, 14)),
        n_books=n_books,
        n_words=data.draw(st.sampled_from([1, 5, 64, 130])),
        metric=data.draw(st.sampled_from(["l2", "ip"])),
        integers=data.draw(st.booleans()),
        scale=scale,
        beam=data.draw(st.integers(1, 9)),
        sweeps=data.draw(st.integers(0, 2)),
    )
    codebooks = weighted(plain, data.draw(st.sampled_from([1.25, 2.0, MAX_WEIGHT])))
    x = rng.normal(size=(data.draw(st.sampled_from([0, 1, 5, 9])), plain.dim)) * scale
    x = (x * data.draw(st.sampled_from([0.0, 1e-4, 1.0, 1e3]))).astype(np.float32)
    assert (encode(codebooks, x, 1) == reference.encode(codebooks, x)).all()


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "additive"])
def test_a_beam_of_all_words_finds_the_smallest_loss(simd, layout):
    rng, weight = np.random.default_rng(1), 3.0
    plain = random_codebooks(rng, layout, dim=6, n_books=3, n_words=6, metric="ip", beam=216)
    # Cells that no path begins with are the only ones left out: one word makes one cell.
    books = [Book(plain.books[0].words[:1], plain.books[0].support), *plain.books[1:]]
    codebooks = Codebooks(
        books, dim=6, n_crude=1, metric="ip", mean=plain.mean, rotation=plain.rotation, beam=216, parallel_weight=weight
    )
    x = rng.normal(size=(30, 6)).astype(np.float32) * 3
    every = np.array(list(itertools.product([0], range(6), range(6))), np.uint8)
    decoded = codebooks.decode(every)
    best = [min(loss(row[None], code[None], weight) for code in decoded) for row in x]
    codes = codebooks.decode(encode(codebooks, x, 1))
    found = [loss(row[None], code[None], weight) for row, code in zip(x, codes, strict=True)]
    np.testing.assert_allclose(found, best, rtol=2e-3)


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "additive", "groups"])
def test_the_loss_is_smaller_and_the_error_along_the_row_too(layout):
    rng, weight = np.random.default_rng(2), 4.0
    plain = random_codebooks(rng, layout, dim=12, n_books=7, n_words=64, metric="ip", beam=8)
    x = rng.normal(size=(400, 12)).astype(np.float32) * 2
    codes = [books.decode(encode(books, x, 1)) for books in (plain, weighted(plain, weight))]
    assert loss(x, codes[1], weight) < 0.98 * loss(x, codes[0], weight)
    assert loss(x, codes[1], 1.0) > loss(x, codes[0], 1.0)
    along = [loss(x, decoded, 2.0) - loss(x, decoded, 1.0) for decoded in codes]
    assert along[1] < 0.8 * along[0]


def test_sweeps_lower_the_loss():
    rng, weight = np.random.default_rng(3), 2.0
    plain = random_codebooks(rng, "additive", dim=12, n_books=6, n_words=64, metric="ip", beam=2)
    x = rng.normal(size=(300, 12)).astype(np.float32) * 2
    losses = []
    for sweeps in (0, 1, 4):
        codebooks = weighted(plain, weight, sweeps=sweeps)
        losses.append(loss(x, codebooks.decode(encode(codebooks, x, 1)), weight))
    assert losses[2] <= losses[1] < losses[0]


def test_a_weight_of_1_changes_neither_codes_nor_files(tmp_path):
    rng = np.random.default_rng(4)
    plain = random_codebooks(rng, "additive", metric="ip")
    same = weighted(plain, 1.0)
    assert same == plain
    assert "parallel_weight" not in same.to_arrays()[1]
    for codebooks, name in ((plain, "a"), (same, "b"), (weighted(plain, 1.5), "c")):
        codebooks.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() != (tmp_path / "c").read_bytes()


def test_files_keep_the_weight_and_older_readers_refuse_them(tmp_path):
    plain = random_codebooks(np.random.default_rng(5), "hybrid", metric="ip")
    codebooks = weighted(plain, 1.5)
    assert codebooks != plain
    codebooks.save(tmp_path / "books")
    assert Codebooks.load(tmp_path / "books") == codebooks


def test_rows_without_a_direction_are_coded_by_squared_error(simd):
    rng = np.random.default_rng(6)
    plain = random_codebooks(rng, "additive", dim=8, metric="ip", beam=8)
    codebooks = weighted(plain, 8.0)
    short = np.float32(0.9 * codebooks.shortest_direction)
    x = rng.normal(size=(20, 8))
    x = np.concatenate([np.zeros((1, 8)), x / np.linalg.norm(x, axis=1, keepdims=True) * short]).astype(np.float32)
    assert (encode(codebooks, x, 1) == encode(plain, x, 1)).all()
    assert (encode(codebooks, x * np.float32(300), 1) != encode(plain, x * np.float32(300), 1)).any()


def test_same_codes_for_any_number_of_threads():
    rng = np.random.default_rng(7)
    for layout in ("hybrid", "additive"):
        codebooks = weighted(random_codebooks(rng, layout, dim=16, n_books=5, n_words=64, sweeps=1), 2.0)
        x = rng.normal(size=(1_500, 16)).astype(np.float32)
        expected = encode(codebooks, x, 1)
        assert all((encode(codebooks, x, threads) == expected).all() for threads in (2, 5))


@pytest.mark.parametrize("weight", [0.99, 0, -1, 16.5, np.nan, np.inf, True, "2", None])
def test_bad_weights_are_refused(weight):
    plain = random_codebooks(np.random.default_rng(8))
    with raises(InputError, "parallel_weight", "1 to 16", f"{weight!r}"):
        weighted(plain, weight)
