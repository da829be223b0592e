"""Student's t for means of a few seeds: quantiles, intervals and p-values, and Holm's correction for many claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

#: Probability that an interval covers the true mean.
CONFIDENCE = 0.95


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Continued fraction of the incomplete beta function (Lentz), for x below (a + 1) / (a + b + 2)."""
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    found = d
    for m in range(1, 500):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + term * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + term / c
            c = c if abs(c) > tiny else tiny
            found *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return found


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    log = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):
        return math.exp(log) * _beta_fraction(x, a, b) / a
    return 1.0 - math.exp(log) * _beta_fraction(1.0 - x, b, a) / b


def two_sided(t: float, freedom: int) -> float:
    """P(|T| >= |t|) of Student's t with so many degrees of freedom."""
    if math.isinf(t):
        return 0.0
    return incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)


@cache
def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """t with P(|T| < t) = confidence."""
    low, high = 0.0, 1.0
    while two_sided(high, freedom) > 1 - confidence:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > 1 - confidence else (low, middle)
    return (low + high) / 2


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number: the chance that any false one is below a level is at most that level."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    found, largest = [1.0] * len(p_values), 0.0
    for place, i in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - place) * p_values[i]))
        found[i] = largest
    return found
