"""Axes for the embedding. A rotation does not change distances, and so not L_E, but it changes the variances."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..axes import axes_of_covariance
from ..prior import fit_em
from ..recipe import Recipe

Matrix = NDArray[np.float64]

#: Up to this many leading axes every number is tried, beyond it only multiples of an eighth of the dimensions.
ALL_TRIED = 64


def bimodal_axes(covariance: Matrix, most: int, recipe: Recipe) -> Matrix:
    """Principal axes, with the leading ones rotated among themselves until their variances are equal.

    Principal variances fall slowly, and a prior with two modes would cut them somewhere on the slope, through the
    dimensions that separate classes. The number of leading axes, at most ``most``, is the one whose levelled variances
    have the highest likelihood (L_P minimized over these rotations).
    """
    values, axes = axes_of_covariance(covariance)
    dim = len(values)
    tried = [n for n in range(1, min(dim, most + 1)) if n <= ALL_TRIED or n % max(1, dim // 8) == 0]
    if not tried or values[0] <= 0:
        return axes
    best = max(tried, key=lambda n: (_likelihood(values, n, recipe), -n))
    return axes @ level(values, best)


def _likelihood(values: Matrix, n: int, recipe: Recipe) -> float:
    levelled = np.concatenate([np.full(n, values[:n].mean()), values[n:]])
    prior = fit_em(levelled, pi2=recipe.pi2, alpha2=recipe.alpha2, robustness=recipe.robustness, iterations=20)
    return prior.log_likelihood(levelled, robustness=recipe.robustness)


def level(values: Matrix, n: int) -> Matrix:
    """An orthonormal matrix R with (R^T diag(values) R)_ii equal for i < n, the identity on the other axes.

    Each rotation in a plane gives one axis the mean variance; the last axis has it because the trace is constant.
    """
    spread, turned, mean = np.diag(values[:n]).astype(np.float64), np.eye(n), float(values[:n].mean())
    left = list(range(n))
    while len(left) > 1:
        own = spread[left, left]
        i, j = left[int(own.argmax())], left[int(own.argmin())]
        above, below = spread[i, i] - mean, spread[j, j] - mean
        if above <= 1e-12 * mean:
            break
        # c^2 s_ii + s^2 s_jj + 2 c s s_ij = mean, for t = s / c; above and below differ in sign, so there is a root
        root = math.sqrt(spread[i, j] ** 2 - above * below)
        t = (-spread[i, j] + root) / below if below < 0 else 0.0
        c = 1.0 / math.sqrt(1.0 + t * t)
        turn = np.eye(n)
        turn[i, i], turn[j, j], turn[j, i], turn[i, j] = c, c, t * c, -t * c
        spread, turned = turn.T @ spread @ turn, turned @ turn
        left.remove(i)
    whole = np.eye(len(values))
    whole[:n, :n] = turned
    return whole
