"""Which books belong to psi, by plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="the train extra is not installed")

from interlace.learn.joint.plans import books_on_psi


def some_words(n_books=3, n_words=5, dim=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n_books, n_words, dim)).astype(np.float32)


def plain(words, mask, rule):
    found = []
    for k, book in enumerate(words.tolist()):
        pairs = [[sum(v * v for v, on in zip(w, mask, strict=True) if on == side) for side in (1, 0)] for w in book]
        if rule == "forall":
            crude = all(outside < inside for inside, outside in pairs)
        else:
            crude = sum(inside for inside, _ in pairs) > sum(outside for _, outside in pairs)
        if crude:
            found.append(k)
    return found


@settings(max_examples=50, deadline=None)
@given(bits=st.lists(st.booleans(), min_size=1, max_size=6), n_words=st.integers(1, 4), seed=st.integers(0, 99))
def test_books_on_psi_equal_plain_loops(bits, n_words, seed):
    words, xi = some_words(6, n_words, len(bits), seed), np.array(bits)
    for rule in ("energy", "forall"):
        assert books_on_psi(words, xi, rule) == plain(words, bits, rule)
    assert set(books_on_psi(words, xi, "forall")) <= set(books_on_psi(words, xi, "energy"))


def test_one_exception_excludes_the_book_by_the_papers_rule_only():
    words, xi = np.zeros((2, 4, 4), np.float32), np.array([True, False, False, True])
    words[0, :, 0], words[1, :, 1] = 1.0, 1.0
    assert books_on_psi(words, xi, "energy") == books_on_psi(words, xi, "forall") == [0]
    words[0, 2] = [0.1, 0.2, 0.0, 0.0]
    assert books_on_psi(words, xi, "energy") == [0]
    assert books_on_psi(words, xi, "forall") == []


@pytest.mark.parametrize("rule", ["energy", "forall"])
def test_an_empty_psi_has_no_books_and_a_full_one_all(rule):
    assert books_on_psi(some_words(), np.zeros(4, bool), rule) == []
    assert books_on_psi(some_words(), np.ones(4, bool), rule) == [0, 1, 2]
