"""The densities far out in their tails, against plain loops, exact decimals and scipy; the weighted fit goes up."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace.learn.prior.skew_normal import (
    TAIL,
    fit_skew_normal,
    log_ndtr,
    log_normal,
    log_skew_normal,
    mills,
    mills_slope,
    skew_normal_mode,
)


def decimal_log_ndtr(x: float) -> float:
    """log Phi by 1/2 + phi(x) (x + x^3/3 + x^5/15 + ...), in so many digits that nothing cancels."""
    with localcontext() as context:
        context.prec = 1000
        pi = sum(  # Bailey, Borwein and Plouffe
            (Decimal(4) / (8 * k + 1) - Decimal(2) / (8 * k + 4) - Decimal(1) / (8 * k + 5) - Decimal(1) / (8 * k + 6))
            / Decimal(16) ** k
            for k in range(850)
        )
        exact = Decimal(x)
        term = total = exact
        k = 1
        while abs(term) > Decimal(10) ** -980:
            term *= exact * exact / (2 * k + 1)
            total += term
            k += 1
        return float((Decimal("0.5") + (-exact * exact / 2).exp() / (2 * pi).sqrt() * total).ln())


@pytest.mark.parametrize("x", [-40.0, -30.5, TAIL, -29.5, -12.0, -5.0, -1.0, -1e-3, 0.0, 0.3, 2.0, 6.0])
def test_log_ndtr_is_exact_to_rounding(x):
    assert float(log_ndtr(np.array(x))) == pytest.approx(decimal_log_ndtr(x), rel=1e-14)


def test_log_ndtr_and_mills_agree_with_scipy_everywhere():
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(-60, 10, 5001), -np.logspace(0, 8, 200), np.logspace(-12, 1, 100)])
    np.testing.assert_allclose(log_ndtr(x), special.log_ndtr(x), rtol=1e-13)
    np.testing.assert_allclose(mills(x), math.sqrt(2 / math.pi) / special.erfcx(-x / math.sqrt(2)), rtol=2e-13)


def test_the_far_ends_are_finite_and_have_the_right_limits():
    ends = np.array([-1e100, -1e8, -1e3, 40.0, 1e8, 1e100])
    for values in (log_ndtr(ends), mills(ends), mills_slope(ends)):
        assert np.isfinite(values).all()
    assert log_ndtr(ends)[3:].tolist() == [0.0, 0.0, 0.0]
    np.testing.assert_allclose(log_ndtr(ends)[0], -5e199)
    np.testing.assert_allclose(mills(ends)[:3] / -ends[:3], 1.0, rtol=1e-5)
    assert (mills(ends)[3:] < 1e-300).all()


@settings(max_examples=200, deadline=None)
@given(x=st.floats(-60, 8))
def test_mills_is_the_slope_of_log_ndtr_and_has_its_own(x):
    step = 1e-4
    around = np.array([x - step, x + step])
    assert np.diff(log_ndtr(around))[0] / (2 * step) == pytest.approx(float(mills(np.array(x))), rel=1e-6, abs=1e-9)
    assert -np.diff(mills(around))[0] / (2 * step) == pytest.approx(float(mills_slope(np.array(x))), abs=1e-6)


def plain_skew_normal(x: float, mu: float, sigma: float, alpha: float) -> float:
    z = (x - mu) / sigma
    phi = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return 2 / sigma * phi * 0.5 * math.erfc(-alpha * z / math.sqrt(2))


@settings(max_examples=100, deadline=None)
@given(mu=st.floats(-5, 5), sigma=st.floats(0.1, 5), alpha=st.floats(-20, 20), seed=st.integers(0, 2**32))
def test_densities_equal_the_plain_formula(mu, sigma, alpha, seed):
    x = mu + sigma * np.random.default_rng(seed).uniform(-1.5, 1.5, 20)
    expected = [plain_skew_normal(v, mu, sigma, alpha) for v in x.tolist()]
    np.testing.assert_allclose(np.exp(log_skew_normal(x, mu, sigma, alpha)), expected, rtol=1e-10)
    normal = [math.exp(-(((v - mu) / sigma) ** 2) / 2) / sigma / math.sqrt(2 * math.pi) for v in x.tolist()]
    np.testing.assert_allclose(np.exp(log_normal(x, mu, sigma)), normal, rtol=1e-12)


@pytest.mark.parametrize("alpha", [-1000.0, -10.0, -1.0, 0.0, 3.0])
def test_the_density_sums_to_one_and_is_largest_at_its_mode(alpha):
    x = np.linspace(-20, 24, 400_001)
    density = np.exp(log_skew_normal(x, 2.0, 1.5, alpha))
    assert density.sum() * (x[1] - x[0]) == pytest.approx(1.0, abs=1e-4)
    assert skew_normal_mode(2.0, 1.5, alpha) == pytest.approx(x[density.argmax()], abs=2e-4)


def weighted(x, weights, mu, sigma, alpha):
    return float(weights @ log_skew_normal(x, mu, sigma, alpha))


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 60),
    alpha=st.sampled_from([-1000.0, -10.0, -2.0, 0.0]),
    scale=st.sampled_from([0.01, 1.0, 100.0]),
)
def test_the_weighted_fit_never_goes_down_and_keeps_the_floor(seed, n, alpha, scale):
    rng = np.random.default_rng(seed)
    x, weights = scale * rng.gamma(0.5, size=n), rng.uniform(size=n) * (rng.uniform(size=n) < 0.7)
    mu, sigma = float(rng.normal() * scale), float(0.25 + rng.gamma(1.0) * scale)
    for _ in range(5):
        before = weighted(x, weights, mu, sigma, alpha)
        mu, sigma = fit_skew_normal(x, weights, mu, sigma, alpha, least_sigma=0.25, steps=1)
        assert weighted(x, weights, mu, sigma, alpha) >= before - 1e-9 * max(1.0, abs(before))
        assert sigma >= 0.25 * (1 - 1e-12)


@pytest.mark.parametrize("least_sigma", [0.1, 5.0])
def test_the_weighted_fit_finds_the_maximum(least_sigma):
    rng = np.random.default_rng(0)
    x = 7.0 - 3.0 * np.abs(rng.normal(size=300)) + 0.3 * rng.normal(size=300)
    weights = rng.uniform(size=300)
    mu, sigma = fit_skew_normal(x, weights, 0.0, 9.0, -10.0, least_sigma=least_sigma, steps=100)
    assert (sigma == pytest.approx(5.0)) == (least_sigma == 5.0)
    best = weighted(x, weights, mu, sigma, -10.0)
    for other_mu in np.linspace(5, 12, 141):
        for other_sigma in np.linspace(max(least_sigma, 1.0), 8, 71):
            assert weighted(x, weights, float(other_mu), float(other_sigma), -10.0) <= best + 1e-9


def test_nothing_to_fit_changes_nothing():
    assert fit_skew_normal(np.ones(3), np.zeros(3), 1.5, 2.5, -10.0, least_sigma=0.25) == (1.5, 2.5)
