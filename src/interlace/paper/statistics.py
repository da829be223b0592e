"""Student's t for means of a few seeds: quantiles, intervals and p-values, and Holm's correction for many claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from ..engine.binomial import beta_cdf

#: Probability that an interval covers the true mean.
CONFIDENCE = 0.95


def two_sided(t: float, freedom: int) -> float:
    """P(|T| >= |t|) of Student's t with so many degrees of freedom."""
    if math.isinf(t):
        return 0.0
    return beta_cdf(freedom / (freedom + t * t), freedom / 2, 0.5)


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
