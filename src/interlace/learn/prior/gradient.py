"""The prior by gradient ascent (Adam), the paper's choice.

It moves three free numbers: log(sigma1 / floor - 1), log(sigma2 / floor - 1) and (mu2 - largest) / sigma2. In these, a
step has the same effect whether the largest variance is 2 or 2,000 times the mean.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from .model import Prior, check_number, objective
from .skew_normal import Floats, mills
from .start import ALPHA2, PI2, ROBUSTNESS, SIGMA1_FLOOR, SIGMA2_FLOOR, check_fit, start

#: The rate is halved after this many steps without a gain, and the fit ends at this share of the first rate.
PATIENCE, SMALLEST_RATE = 20, 0.01
#: Decay of both running means of Adam, and the weight of a new slope. On the way to a floor the slope falls step by
#: step, so a longer memory of its squares would stop too early.
DECAY, WEIGHT = 0.9, 0.1
#: Parameters are clipped to this, because exp of more has no meaning here.
LARGEST = 50.0


def fit_gradient(
    variances: Any,
    *,
    pi2: float = PI2,
    alpha2: float = ALPHA2,
    robustness: float = ROBUSTNESS,
    iterations: int = 2000,
    tol: float = 1e-6,
    learning_rate: float = 0.1,
) -> Prior:
    """The fitted prior; starts where :func:`fit_em` starts, and converges to the same values.

    Whenever 20 steps gain less than ``tol`` per dimension, the rate is halved and the fit returns to the best point.
    """
    check_fit(robustness, iterations, tol)
    check_number("learning_rate", learning_rate, 1e-6, 1.0)
    values, prior = start(variances, pi2, alpha2)
    top = float(values.max())
    best_at = at = to_parameters(prior, top)
    best, mark, waited, rate = -math.inf, -math.inf, 0, learning_rate
    mean, square = np.zeros(3), np.zeros(3)
    for step in range(1, iterations + 1):
        height, slope = objective_slope(from_parameters(prior, at, top), values, robustness, top)
        if height > best:
            best, best_at = height, at
        waited += 1
        if best - mark > tol * len(values):
            mark, waited = best, 0
        elif waited >= PATIENCE:
            rate, at, waited = rate / 2, best_at, 0
            if rate < SMALLEST_RATE * learning_rate:
                break
            continue
        mean, square = DECAY * mean + WEIGHT * slope, DECAY * square + WEIGHT * slope * slope
        unbiased = 1 - DECAY**step
        at = np.clip(at + rate * (mean / unbiased) / (np.sqrt(square / unbiased) + 1e-12), -LARGEST, LARGEST)
    return from_parameters(prior, best_at, top)


def to_parameters(prior: Prior, top: float) -> Floats:
    """The three free numbers of a prior whose largest value is ``top``."""
    excess = [max(prior.sigma1 / SIGMA1_FLOOR - 1, 1e-3), max(prior.sigma2 / SIGMA2_FLOOR - 1, 1e-3)]
    return np.array([*np.log(excess), (prior.mu2 - top) / prior.sigma2])


def from_parameters(like: Prior, parameters: Floats, top: float) -> Prior:
    """Inverse of :func:`to_parameters`; everything else as in ``like``."""
    log_excess1, log_excess2, offset = parameters.tolist()
    sigma2 = SIGMA2_FLOOR * (1 + math.exp(log_excess2))
    return replace(like, sigma1=SIGMA1_FLOOR * (1 + math.exp(log_excess1)), mu2=top + offset * sigma2, sigma2=sigma2)


def objective_slope(prior: Prior, values: Floats, robustness: float, top: float) -> tuple[float, Floats]:
    """The objective and its derivatives by the three free numbers."""
    height, low, high = objective(prior, values, robustness)
    z1, z2 = (values - prior.mu1) / prior.sigma1, (values - prior.mu2) / prior.sigma2
    by_z = high * (prior.alpha2 * mills(prior.alpha2 * z2) - z2)
    by_sigma1 = float(low @ (z1 * z1 - 1)) / prior.sigma1
    by_sigma2 = -float(high.sum() + by_z @ (values - top) / prior.sigma2) / prior.sigma2
    slope = [
        by_sigma1 * (prior.sigma1 - SIGMA1_FLOOR),
        by_sigma2 * (prior.sigma2 - SIGMA2_FLOOR),
        -float(by_z.sum()),
    ]
    return height, np.array(slope)
