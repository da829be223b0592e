"""The Clopper-Pearson bound: what a measured share says about the true one, without scipy."""

from __future__ import annotations

import math

#: Steps of the bisection, each of which halves an interval of length 1, and terms of the continued fraction at most.
BISECTIONS, TERMS = 60, 500


def lower_bound(share: float, n: float, confidence: float) -> float:
    """The share that is exceeded with this confidence, one-sided, if ``share`` of n independent trials succeeded.

    The smallest true share for which so many successes, or more, have a probability of at least 1 - confidence. n may
    be any positive number, such as an effective number of trials.
    """
    successes = share * n
    if successes <= 0:
        return 0.0
    if share >= 1:
        return math.exp(math.log1p(-confidence) / n)
    low, high = 0.0, share
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if beta_cdf(middle, successes, n - successes + 1) < 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function: P(at least a of a + b - 1 trials succeed) at a true share of x."""
    if not 0 < x < 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly
        return 1 - beta_cdf(1 - x, b, a)
    log_front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_front) * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of the incomplete beta function, by Lentz's method (DLMF 8.17.22)."""
    tiny = 1e-300  # in place of 0, which nothing can be divided by
    upper, lower = 1.0, 1 / _not_zero(1 - (a + b) * x / (a + 1), tiny)
    value = lower
    for m in range(1, TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            lower = 1 / _not_zero(1 + term * lower, tiny)
            upper = _not_zero(1 + term / upper, tiny)
            value *= lower * upper
        if abs(lower * upper - 1) < 1e-15:
            break
    return value


def _not_zero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny
