"""The prior by expectation maximization."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from .model import Prior, objective
from .skew_normal import Floats, fit_skew_normal
from .start import ALPHA2, PI2, ROBUSTNESS, SIGMA1_FLOOR, SIGMA2_FLOOR, check_fit, start


def fit_em(
    variances: Any,
    *,
    pi2: float = PI2,
    alpha2: float = ALPHA2,
    robustness: float = ROBUSTNESS,
    iterations: int = 500,
    tol: float = 1e-9,
    scale: float | None = None,
) -> Prior:
    """The fitted prior. No iteration lowers the objective; stops when one gains less than ``tol`` per dimension.

    ``pi2`` is not fitted, as in the paper: on slowly falling spectra the high mode would take all dimensions. ``scale``
    is the unit of the variances, by default their mean.
    """
    check_fit(robustness, iterations, tol)
    values, prior = start(variances, pi2, alpha2, scale)
    height, low, high = objective(prior, values, robustness)
    for _ in range(iterations):
        trial = maximize(prior, values, low, high)
        now, low, high = objective(trial, values, robustness)
        if now <= height:  # converged up to rounding
            break
        gain, height, prior = now - height, now, trial
        if gain < tol * len(values):
            break
    return prior


def maximize(prior: Prior, values: Floats, low: Floats, high: Floats) -> Prior:
    """A prior that fits the weights better: the best sigma1; mu2 and sigma2 by a few Newton steps."""
    sigma1 = prior.sigma1
    if low.sum() > 1e-100:
        sigma1 = max(SIGMA1_FLOOR, math.sqrt(float(low @ np.square(values - prior.mu1)) / float(low.sum())))
    mu2, sigma2 = fit_skew_normal(values, high, prior.mu2, prior.sigma2, prior.alpha2, least_sigma=SIGMA2_FLOOR)
    return replace(prior, sigma1=sigma1, mu2=mu2, sigma2=sigma2)
