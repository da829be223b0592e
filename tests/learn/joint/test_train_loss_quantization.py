"""L_C: error, cross terms, the constant and the byte, each by plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace import InputError
from raising import raises

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from interlace.learn.joint.losses import (  # noqa: E402  # noqa: E402
    cross_penalty,
    cross_terms,
    norm_byte_error,
    norm_byte_values,
    quantization_error,
)
from loss_checks import SCALES, check_gradient, check_nothing_to_learn, some_rows, value_and_gradients  # noqa: E402


def words(n_books, n=6, dim=3):
    return [some_rows(n, dim, seed=k) for k in range(n_books)]


def plain_cross(books, row):
    """Twice the inner products of all pairs: not how it is computed."""
    total = 0.0
    for i in range(len(books)):
        for j in range(i):
            total += 2 * sum(a * b for a, b in zip(books[i][row].tolist(), books[j][row].tolist(), strict=True))
    return total


def plain_penalty(books, groups):
    total, n = 0.0, len(books[0])
    for group in groups:
        terms = [plain_cross([books[k] for k in group], row) for row in range(n)]
        constant = sum(terms) / n
        total += sum((term - constant) ** 2 for term in terms) / n
    return total


@pytest.mark.parametrize("n", [1, 9])
def test_the_error_equals_a_plain_loop(n):
    z, zq = some_rows(n, 4), some_rows(n, 4, seed=1)
    expected = sum(
        (a - b) ** 2 for x, y in zip(z.tolist(), zq.tolist(), strict=True) for a, b in zip(x, y, strict=True)
    )
    assert float(quantization_error(z, zq)) == pytest.approx(expected / n, rel=1e-12)
    check_gradient(quantization_error, z, zq)
    check_nothing_to_learn(quantization_error, z, z)


@pytest.mark.parametrize("n_books", [1, 2, 3, 8])
def test_cross_terms_equal_the_inner_products_of_all_pairs(n_books):
    books = words(n_books)
    expected = [plain_cross(books, row) for row in range(6)]
    np.testing.assert_allclose(cross_terms(books), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(cross_terms(torch.stack(books)), expected, rtol=1e-9, atol=1e-12)


def test_cross_terms_make_table_sums_distances():
    books, query = words(4), some_rows(1, 3, seed=99)
    tables = sum((query - book).square().sum(1) for book in books)
    distances = (query - sum(books)).square().sum(1)
    torch.testing.assert_close(tables - 3 * query.square().sum() + cross_terms(books), distances)


@pytest.mark.parametrize(
    "groups", [[range(5)], [[0, 1], [2, 3, 4]], [[0], [1, 2, 3, 4]], [[], [0, 1]], [[0, 1], [0, 1, 2, 3, 4]]]
)
def test_the_penalty_equals_plain_loops(groups):
    books = words(5)
    assert float(cross_penalty(books, groups)) == pytest.approx(plain_penalty(books, groups), rel=1e-9)


def test_gradients_of_the_penalty():
    check_gradient(lambda *books: cross_penalty(books, [[0, 1, 2]]), *words(3))
    check_gradient(lambda *books: cross_penalty(books, [[0], [1, 2, 3]]), *words(4))


def test_descent_makes_cross_terms_constant():
    books = [book.requires_grad_() for book in words(3, n=40)]
    optimiser = torch.optim.Adam(books, 0.05)
    for _ in range(150):
        optimiser.zero_grad()
        cross_penalty(books, [[0, 1, 2]]).backward()
        optimiser.step()
    assert cross_terms(books).var().item() < 1e-2 * float(cross_terms(words(3, n=40)).var())


def test_no_pair_no_penalty():
    check_nothing_to_learn(lambda book: cross_penalty([book], [[0]]), some_rows(5, 3))
    check_nothing_to_learn(lambda *books: cross_penalty(books, [[0], [1], []]), *words(2))
    check_nothing_to_learn(
        lambda *books: cross_penalty(books, [[0, 1, 2]]), *words(3, n=1)
    )  # one row is its own constant


@pytest.mark.parametrize("scale", SCALES)
def test_scales(scale):
    books = [(book * scale).float() for book in words(4)]
    value, _ = value_and_gradients(lambda *books: cross_penalty(books, [range(4)]), *books)
    assert value == pytest.approx(float(cross_penalty(words(4), [range(4)])) * scale**4, rel=1e-4)
    value, _ = value_and_gradients(quantization_error, *books[:2])
    assert value == pytest.approx(float(quantization_error(*words(2))) * scale**2, rel=1e-4)
    cross = cross_terms(books)
    values = norm_byte_values(cross, 3)
    assert values == pytest.approx(norm_byte_values(cross_terms(words(4)), 3) * scale**2, rel=1e-3)
    value_and_gradients(lambda cross: norm_byte_error(cross, values), cross)


# --- the byte


def plain_byte_error(cross, values):
    return sum(min((c - v) ** 2 for v in values) for c in cross) / len(cross)


@settings(max_examples=60, deadline=None)
@given(
    cross=st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=40),
    n_values=st.integers(1, 9),
)
def test_values_and_their_error(cross, n_values):
    terms = torch.tensor(cross, dtype=torch.float64)
    values = norm_byte_values(terms, n_values)
    assert values.dtype == np.float32
    assert 1 <= len(values) <= n_values
    assert (np.diff(values) > 0).all()
    error = float(norm_byte_error(terms, values))
    assert error == pytest.approx(plain_byte_error(cross, values.tolist()), rel=1e-6, abs=1e-9)
    assert error <= float(terms.var(correction=0)) * (1 + 1e-5) + 1e-6  # not worse than a constant
    if len(set(cross)) <= n_values:
        assert error <= 1e-5


def test_values_end_where_k_means_ends():
    cross = np.random.default_rng(0).normal(size=2000)
    values = norm_byte_values(cross, 8, iterations=2000)
    nearest = np.abs(cross[:, None] - values).argmin(1)
    np.testing.assert_allclose(values, [cross[nearest == i].mean() for i in range(8)], atol=1e-5)
    # 8 levels of a normal: the error of Lloyd's quantizer is known.
    assert float(norm_byte_error(torch.tensor(cross), values)) == pytest.approx(0.03454, abs=0.003)


def test_values_are_not_wasted_on_equal_terms():
    cross = np.r_[np.zeros(9000), np.linspace(1, 2, 1000)]
    values = norm_byte_values(cross, 16)
    assert len(values) == 16
    assert abs(values[0]) < 1e-9
    assert float(norm_byte_error(torch.tensor(cross), values)) < 1e-4


def test_more_values_less_error():
    cross = torch.tensor(np.random.default_rng(0).normal(size=3000) * 2 - 5)
    errors = [float(norm_byte_error(cross, norm_byte_values(cross, n))) for n in (1, 4, 16, 256)]
    assert errors[0] == pytest.approx(float(cross.var(correction=0)), rel=1e-3)
    assert errors[0] > 4 * errors[1] > 16 * errors[2] > 256 * errors[3]


def test_gradient_of_the_byte_goes_to_the_words():
    values = norm_byte_values(cross_terms(words(3, n=30)), 4)
    check_gradient(lambda *books: norm_byte_error(cross_terms(books), values), *words(3))


def test_bad_input():
    with pytest.raises(InputError, match="at least one book"):
        cross_terms([])
    with raises(InputError, "words", "book 1", "(6, 3)"):
        cross_terms([some_rows(6, 3), some_rows(5, 3)])
    with raises(InputError, "groups", 0, 1, "[[0, 2]"):
        cross_penalty(words(2), [[0, 2]])
    with raises(InputError, "zq"):
        quantization_error(some_rows(2, 3), some_rows(3, 3))
    for cross in (np.zeros(0), np.array([np.nan]), np.zeros((2, 2))):
        with raises(InputError, "cross", "numbers"):
            norm_byte_values(cross)
    with raises(InputError, "n_values", "integer"):
        norm_byte_values(np.ones(3), 0)
    with raises(InputError, "values", "[n_values]"):
        norm_byte_error(torch.ones(2), np.zeros(0))
    with raises(InputError, "cross", "tensor"):
        norm_byte_error(torch.ones(2, 2), np.zeros(3))
