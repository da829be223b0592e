"""Supervised quantization in closed form: each update against a plain loop, and none raises the objective."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace.learn.regression_books import RegressionBooks, lbfgs, learn_regression_books


def drawn(n=60, features=5, classes=3, n_books=3, n_words=4, dim=3, mu=0.5, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    x = np.eye(classes, features)[labels] * 2 + rng.normal(size=(n, features))
    y = np.eye(classes)[labels]
    made = {"gamma": 0.3, "mu": mu, "ridge": 0.7, "rng": rng}
    return RegressionBooks(x - x.mean(0), y - y.mean(0), n_books, n_words, dim, **made)


def plain(state):
    """The objective, row by row and word by word."""
    total = state.ridge * sum(float(v) ** 2 for v in state.w.ravel())
    for i in range(len(state.x)):
        words = [state.words[k][state.codes[i, k]] for k in range(state.n_books)]
        decoded = sum(words)
        cross = sum(float(a @ b) for a, b in itertools.permutations(words, 2))
        total += sum(float(v) ** 2 for v in state.y[i] - decoded @ state.w)
        total += state.gamma * sum(float(v) ** 2 for v in decoded - state.x[i] @ state.p)
        total += state.mu * (cross - state.constant) ** 2
    return total


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 99), mu=st.sampled_from([0.0, 0.5]), n_books=st.integers(1, 4))
def test_no_update_raises_the_objective(seed, mu, n_books):
    state = drawn(seed=seed, mu=mu, n_books=n_books)
    height = state.objective()
    assert height == pytest.approx(plain(state))
    for _ in range(2):
        for update in (
            state.update_codes,
            state.update_constant,
            state.update_words,
            state.update_map,
            state.update_projection,
        ):
            update()
            new = state.objective()
            # Two ridges keep words that no row uses, and maps of constant features, at their place.
            assert new <= height * (1 + 1e-3) + 1e-9, update.__name__
            height = new
    assert height == pytest.approx(plain(state))


def test_codes_are_the_best_of_each_book_with_the_labels():
    state = drawn(n=20)
    before = state.codes * 0 - 1
    while (state.codes != before).any():  # until nothing changes
        before = state.codes.copy()
        state.update_codes()
    for i, k in itertools.product(range(20), range(state.n_books)):
        costs = []
        for word in range(state.n_words):
            state.codes[i, k] = word
            costs.append(plain(state))
        state.codes[i, k] = before[i, k]
        assert costs[before[i, k]] <= min(costs) + 1e-9


def test_maps_are_least_squares():
    state = drawn(n=200)
    state.update_map()
    decoded = state.decoded()
    expected = np.linalg.lstsq(
        np.r_[decoded, math.sqrt(state.ridge) * np.eye(3)], np.r_[state.y, np.zeros((3, 3))], rcond=None
    )[0]
    np.testing.assert_allclose(state.w, expected, atol=1e-9)
    state.update_projection()
    direct = np.linalg.lstsq(state.x, decoded, rcond=None)[0]
    np.testing.assert_allclose(state.p, direct, atol=1e-3)


def test_lbfgs_finds_the_minimum_of_a_bowl():
    bowl = np.diag([1.0, 10.0, 100.0])

    def value_and_slope(at):
        return float(at @ bowl @ at) / 2, bowl @ at

    found = lbfgs(value_and_slope, np.array([3.0, -2.0, 1.0]), 30)
    np.testing.assert_allclose(found, 0, atol=1e-4)
    np.testing.assert_array_equal(lbfgs(value_and_slope, np.zeros(3), 5), np.zeros(3))


def test_the_objective_falls_over_the_rounds():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 4, 400)
    x = (np.eye(4, 8)[labels] * 3 + rng.normal(size=(400, 8))).astype(np.float32)
    told = []
    state, history = learn_regression_books(
        x - x.mean(0),
        labels,
        4,
        5,
        lambda what, done: told.append((what, done)),
        n_books=2,
        n_words=16,
        dim=4,
        gamma=0.1,
        mu=0.1,
        ridge=1.0,
        rng=rng,
    )
    heights = [row["objective"] for row in history]
    assert heights == sorted(heights, reverse=True)
    assert told[-1] == ("round 5/5", 1.0)
    cross = state.cross(state.decoded())
    assert state.constant == pytest.approx(cross.mean())
