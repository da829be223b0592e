"""Soft codes: weights by plain loops, hard codes as their limit, and the same at every scale."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from interlace.learn.joint.books import Books  # noqa: E402
from interlace.learn.joint.soft import LEAST_ERROR, soften  # noqa: E402
from loss_checks import SCALES, check_gradient, some_rows  # noqa: E402


def drawn(n, n_books, n_words, dim, product, seed=0):
    """Rows, words, supports and codes; product books have every n_books-th dimension."""
    support = torch.ones(n_books, dim, dtype=torch.float64)
    if product:
        support = (torch.arange(dim) % n_books == torch.arange(n_books)[:, None]).double()
    words = some_rows(n_books * n_words, dim, seed=seed).reshape(n_books, n_words, dim) * support[:, None]
    z = some_rows(n, dim, seed=seed + 1)
    return z, words, support, Books(words, support).encode(z, 1)


def plain(z, words, support, codes, softness):
    """Weights as nested lists [book][row][word]."""
    n, dim, n_books = len(z), len(z[0]), len(words)
    found = []
    for k in range(n_books):
        rests = [
            [
                (z[i][d] - sum(words[j][codes[i][j]][d] for j in range(n_books) if j != k)) * support[k][d]
                for d in range(dim)
            ]
            for i in range(n)
        ]
        own = [words[k][codes[i][k]] for i in range(n)]
        error = sum((rests[i][d] - own[i][d]) ** 2 for i in range(n) for d in range(dim)) / n
        unit = softness * max(error, LEAST_ERROR * sum(x * x for word in own for x in word) / n)
        rows = []
        for rest in rests:
            distances = [sum((a - b) ** 2 for a, b in zip(rest, word, strict=True)) for word in words[k]]
            terms = [math.exp((min(distances) - d) / (unit or 1.0)) for d in distances]
            rows.append([t / sum(terms) for t in terms])
        found.append(rows)
    return found


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 6),
    n_books=st.integers(1, 3),
    n_words=st.integers(1, 5),
    product=st.booleans(),
    softness=st.sampled_from([0.1, 1.0, 5.0]),
    seed=st.integers(0, 1000),
)
def test_equals_plain_loops(n, n_books, n_words, product, softness, seed):
    z, words, support, codes = drawn(n, n_books, n_words, 4, product, seed)
    soft = soften(z, words, support, codes, softness)
    weights = plain(z.tolist(), words.tolist(), support.tolist(), codes.tolist(), softness)
    torch.testing.assert_close(soft.weights, torch.tensor(weights, dtype=torch.float64), rtol=1e-7, atol=1e-9)
    rows = [
        [
            sum(weights[k][i][w] * words[k, w, d].item() for k in range(n_books) for w in range(n_words))
            for d in range(4)
        ]
        for i in range(n)
    ]
    torch.testing.assert_close(soft.rows, torch.tensor(rows, dtype=torch.float64), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("product", [True, False])
def test_hard_codes_are_the_limit(product):
    z, words, support, codes = drawn(40, 3, 8, 6, product)
    hard = torch.stack(Books.of_rows(words, Books(words, support).encode(z, 20))).sum(0)  # ICM to its end
    codes = Books(words, support).encode(z, 20)
    apart = [float((soften(z, words, support, codes, s).rows - hard).square().mean()) for s in (1.0, 0.1, 1e-4)]
    # Composite books: greedy codes keep their first word, which need not be the best of all.
    assert apart[0] > apart[1] > apart[2]
    if product:
        assert apart[2] < 1e-12


@pytest.mark.parametrize("scale", SCALES)
def test_scale_does_not_matter(scale):
    z, words, support, codes = drawn(40, 3, 8, 6, True)
    expected = soften(z, words, support, codes, 1.0)
    scaled = soften((z * scale).float(), (words * scale).float(), support.float(), codes, 1.0)
    torch.testing.assert_close(scaled.weights.double(), expected.weights, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(scaled.rows.double() / scale, expected.rows, rtol=1e-3, atol=1e-4)


def test_every_word_gets_a_gradient():
    z, words, support, codes = drawn(40, 2, 8, 4, True)
    words.requires_grad_()
    (gradient,) = torch.autograd.grad(soften(z, words, support, codes, 1.0).rows.square().sum(), [words])
    assert (gradient.abs().sum(2) > 0).all()


@pytest.mark.parametrize("product", [True, False])
def test_gradients(product, monkeypatch):
    z, words, support, codes = drawn(5, 2, 3, 4, product)
    # The unit has no gradient, which finite differences would not know: a unit that does not move instead.
    monkeypatch.setattr("interlace.learn.joint.soft.one_if_zero", lambda unit: torch.full_like(unit, 0.7))
    check_gradient(lambda z, words: soften(z, words * support[:, None], support, codes, 1.0).rows, z, words)


def test_a_word_for_each_row_leaves_no_error_and_no_nan():
    z = some_rows(5, 3).requires_grad_()
    words, codes = z.detach()[None], torch.arange(5)[:, None]
    soft = soften(z, words, torch.ones(1, 3).double(), codes, 1.0)
    torch.testing.assert_close(soft.rows, z.detach(), atol=1e-3, rtol=0)
    (gradient,) = torch.autograd.grad(soft.rows.sum(), [z])
    assert gradient.isfinite().all()
    nothing = soften(
        torch.zeros(4, 3), torch.zeros(2, 5, 3), torch.ones(2, 3), torch.zeros(4, 2, dtype=torch.long), 1.0
    )
    torch.testing.assert_close(nothing.weights, torch.full((2, 4, 5), 0.2))
