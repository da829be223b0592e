"""Where both fits of the prior start, and the checks of their arguments."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from ...errors import InputError
from .model import RANGES, ROBUSTNESS_RANGE, Prior, check_number, check_variances, divide
from .skew_normal import Floats

SIGMA1_FLOOR, SIGMA2_FLOOR = 0.1, 0.25  # in units of the mean variance
PI2, ALPHA2, ROBUSTNESS = 0.4, -10.0, 1.0
PI2_RANGE = (1e-3, 1 - 1e-3)


def start_prior(variances: Any, *, pi2: float = PI2, alpha2: float = ALPHA2, scale: float | None = None) -> Prior:
    """The prior that both fits start from: mu2 at the largest variance, the high mode on variances above the scale.

    ``scale`` is the unit of the variances, by default their mean.
    """
    return start(variances, pi2, alpha2, scale)[1]


def start(variances: Any, pi2: float, alpha2: float, scale: float | None = None) -> tuple[Floats, Prior]:
    """Standardized variances and the prior that a fit starts from."""
    pi2 = check_number("pi2", pi2, *PI2_RANGE)
    alpha2 = check_number("alpha2", alpha2, *RANGES["alpha2"])
    checked = check_variances(variances)
    largest = float(checked.max())
    if scale is None:
        # Divided by the largest first, so that the sum of the mean does not overflow. Zeros have no unit.
        scale = largest * float((checked / largest).mean()) if largest > 1e-290 else 1.0
    values = divide(checked, scale)
    # Slightly more than the mean, so that equal variances stay together in spite of rounding.
    top, above = float(values.max()), values > 1.0 + 1e-9
    sigma1 = max(_root_mean(np.square(values[~above])), SIGMA1_FLOOR)
    sigma2 = max(_root_mean(np.square(values[above] - top)) if above.any() else 0.0, SIGMA2_FLOOR)
    return values, Prior(0.0, sigma1, top, sigma2, alpha2, 1.0 - pi2, pi2, scale)


def check_fit(robustness: float, iterations: int, tol: float) -> None:
    """InputError names the first invalid argument of a fit."""
    check_number("robustness", robustness, *ROBUSTNESS_RANGE)
    check_number("tol", tol, 0.0, 1.0)
    if not isinstance(iterations, numbers.Integral) or iterations < 1:
        raise InputError(f"iterations must be a positive integer, got {iterations!r}")


def _root_mean(squares: Floats) -> float:
    return math.sqrt(float(squares.mean()))
