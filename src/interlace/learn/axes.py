"""Directions in which rows vary: principal axes, variances, and over how many dimensions rows spread."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import HALF_ROTATION
from ..inputs.arrays import FloatArray

Floats = NDArray[np.float64]

#: Rows that are converted to float64 at a time.
BLOCK = 4096
#: Rows that :func:`effective_dims` looks at, at most.
SPREAD_ROWS = 4096
#: Rotations of ``HALF_ROTATION`` dimensions and more are rounded to float16, if they are multiples of this number:
#: files and search keep such a matrix in half the memory (cpp/core/rotation.h).
HALF_COLUMNS = 64


def principal_axes(x: FloatArray) -> tuple[FloatArray, Floats]:
    """Rotation [dim, dim] to axes of descending variance, the axes as columns, and the variances."""
    dim, mean = x.shape[1], x.mean(0, dtype=np.float64)
    if 2 * len(x) < dim:  # few axes have variance, and a decomposition of x is much faster than of the covariance
        lengths, right = np.linalg.svd(x - mean, full_matrices=True)[1:]
        variances, axes = np.zeros(dim), _fix_signs(right.T)
        variances[: len(lengths)] = lengths**2 / len(x)
    else:
        covariance = np.zeros((dim, dim))
        for start in range(0, len(x), BLOCK):
            centred = x[start : start + BLOCK] - mean
            covariance += centred.T @ centred
        variances, axes = axes_of_covariance(covariance / len(x))
    return np.ascontiguousarray(axes, np.float32), variances


def in_halves(rotation: FloatArray) -> FloatArray:
    """The rotation, rounded to float16 where it has many dimensions; still float32.

    Rows and queries are rotated by the same rounded matrix, so search loses nothing by it. No entry of R^T R changes by
    more than about 2^-10 (Cauchy and Schwarz on columns that are off by 2^-11), and Codebooks accepts 1e-3.
    """
    if len(rotation) < HALF_ROTATION or len(rotation) % HALF_COLUMNS:
        return rotation
    return rotation.astype(np.float16).astype(np.float32)


def axes_of_covariance(covariance: Floats) -> tuple[Floats, Floats]:
    """Descending variances, and the principal axes as columns."""
    variances, axes = np.linalg.eigh(covariance)
    return np.maximum(variances[::-1], 0.0), _fix_signs(axes[:, ::-1])


def _fix_signs(axes: Floats) -> Floats:
    """Each axis (a column) with its largest entry positive, so that equal data give equal axes."""
    return np.asarray(axes * np.sign(axes[np.argmax(np.abs(axes), axis=0), np.arange(axes.shape[1])]))


def column_variances(x: FloatArray) -> Floats:
    """Variance of each column, computed in float64."""
    sums = np.zeros((2, x.shape[1]))
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK].astype(np.float64)
        sums += block.sum(0), (block * block).sum(0)
    mean, squares = sums / max(1, len(x))
    return np.asarray(np.maximum(squares - mean * mean, 0.0))


def effective_dims(x: FloatArray) -> float:
    """Over how many dimensions the rows of x spread: (sum of variances)^2 / sum of squared variances."""
    some = x[:: -(-len(x) // SPREAD_ROWS)].astype(np.float64)
    some -= some.mean(0)
    # The smaller of both products; they have the same trace and the same sum of squares.
    products = some.T @ some if len(some) > some.shape[1] else some @ some.T
    squares = float((products * products).sum())
    return float(np.trace(products)) ** 2 / squares if squares > 0 else 0.0
