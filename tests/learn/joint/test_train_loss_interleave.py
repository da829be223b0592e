"""L_ICQ by plain loops, its smooth corner, and the two rules for crude books."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace import InputError
from raising import raises

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from interlace.learn.joint.losses import interleaving  # noqa: E402
from interlace.learn.joint.losses.interleave import BEND  # noqa: E402
from loss_checks import SCALES, check_gradient, check_nothing_to_learn, some_rows, value_and_gradients  # noqa: E402


def some_words(n_books=3, n_words=5, dim=4, seed=0):
    return some_rows(n_books * n_words, dim, seed=seed).reshape(n_books, n_words, dim)


def xi(*bits):
    return torch.tensor(bits, dtype=torch.bool)


def lengths(word, mask):
    return (math.sqrt(sum(x * x for x, m in zip(word, mask, strict=True) if m == side)) for side in (True, False))


def plain(words, mask, bend):
    total = 0.0
    for book in words:
        unit = math.sqrt(sum(x * x for word in book for x in word) / len(book))
        for word in book:
            inside, outside = (math.sqrt((a / unit) ** 2 + bend**2) - bend for a in lengths(word, mask))
            total += inside * outside
    return total / sum(map(len, words))


@settings(max_examples=50, deadline=None)
@given(bits=st.lists(st.booleans(), min_size=1, max_size=6), n_books=st.integers(1, 4), seed=st.integers(0, 99))
def test_equals_plain_loops(bits, n_books, seed):
    words = some_words(n_books, dim=len(bits), seed=seed)
    value = float(interleaving(words, xi(*bits)))
    assert value == pytest.approx(plain(words.tolist(), bits, BEND), rel=1e-9, abs=1e-12)
    # The bend is all that differs from the paper's product of norms.
    assert value == pytest.approx(plain(words.tolist(), bits, 0.0), abs=2 * BEND)
    assert 0 <= value <= 0.5


def test_gradients():
    check_gradient(lambda words: interleaving(words, xi(1, 0, 0, 1)), some_words())


def test_the_corner_is_smooth():
    words = some_words()
    words[0, :, 1:3] = 0.0  # on psi alone
    words[1, :, [0, 3]] = 0.0  # off psi alone
    words[2, 0] = 0.0  # nowhere
    value, (gradient,) = value_and_gradients(lambda words: interleaving(words, xi(1, 0, 0, 1)), words)
    assert value > 0
    check_gradient(lambda words: interleaving(words, xi(1, 0, 0, 1)), words)
    # What is clean is not pushed off its zeros.
    assert (gradient[0, :, 1:3] == 0).all()
    assert (gradient[1][:, [0, 3]] == 0).all()


def test_a_clean_split_costs_nothing():
    words = some_words(2)
    words[0, :, 1:3] = 0.0
    words[1, :, [0, 3]] = 0.0
    check_nothing_to_learn(lambda words: interleaving(words, xi(1, 0, 0, 1)), words)


@pytest.mark.parametrize("n_books", [1, 3])
def test_empty_psi_all_psi_and_zero_words(n_books):
    for mask in (xi(0, 0, 0, 0), xi(1, 1, 1, 1)):
        check_nothing_to_learn(lambda words, mask=mask: interleaving(words, mask), some_words(n_books))
    check_nothing_to_learn(lambda words: interleaving(words, xi(1, 0, 0, 1)), torch.zeros(n_books, 5, 4))


@pytest.mark.parametrize("scale", SCALES)
def test_scale_and_number_of_words_do_not_matter(scale):
    words, mask = some_words().float(), xi(1, 0, 0, 1)
    expected, (gradient,) = value_and_gradients(lambda words: interleaving(words, mask), words)
    value, (scaled,) = value_and_gradients(lambda words: interleaving(words, mask), words * scale)
    assert value == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(scaled * scale, gradient, rtol=1e-3, atol=1e-6)
    assert float(interleaving(torch.cat([words, words]), mask)) == pytest.approx(expected, rel=1e-5)


def test_descent_splits_the_words():
    words, mask = some_words(4, 8, 6).requires_grad_(), xi(1, 1, 0, 0, 0, 0)
    first = interleaving(words, mask).item()
    optimiser = torch.optim.Adam([words], 0.05)
    for _ in range(100):
        optimiser.zero_grad()
        loss = interleaving(words, mask)
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.05 * first


def test_bad_input():
    with raises(InputError, "words", "[n_books, n_words, dim]"):
        interleaving(torch.zeros(3, 4), xi(1, 0, 0, 1))
    with raises(InputError, "xi", "[4]"):
        interleaving(some_words(), torch.ones(4))


def test_as_written_it_is_the_sum_of_products_of_lengths():
    words = torch.from_numpy(np.random.default_rng(1).normal(size=(3, 5, 6)))
    words[0, 0, :2] = 0.0  # a word that is off psi
    on_psi = torch.tensor([True, True, False, False, False, False])
    total = 0.0
    for book in words.tolist():
        for word in book:
            total += math.sqrt(sum(v * v for v in word[:2])) * math.sqrt(sum(v * v for v in word[2:]))
    words.requires_grad_()
    found = interleaving(words, on_psi, raw=True)
    assert found.item() == pytest.approx(total)
    assert interleaving(10 * words, on_psi, raw=True).item() == pytest.approx(100 * total)  # in the unit of the data
    found.backward()
    assert bool(words.grad.isfinite().all())
