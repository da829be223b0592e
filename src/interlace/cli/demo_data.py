"""Data of the demo: scikit-learn's digits, or generated clusters if scikit-learn is not installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import digits
from ..inputs.arrays import FloatArray

#: Standard deviation of the noise added to every copy of a digit; pixels are 0 to 16.
NOISE = 1.0
SHIFTS = [(dy, dx) for dy in (0, -1, 1) for dx in (0, -1, 1)]


def augmented_digits(rows: int, n_queries: int, seed: int) -> tuple[FloatArray, FloatArray, str]:
    """Rows, queries and their description. Queries are copies of other images than the rows."""
    base = digits()
    rng = np.random.default_rng(seed)

    def copies(images: NDArray[Any], n: int) -> FloatArray:
        shifted = np.concatenate([shift(images.reshape(-1, 8, 8), dy, dx) for dy, dx in SHIFTS]).reshape(-1, 64)
        times = -(-n // len(shifted))
        noisy = np.concatenate([shifted + rng.normal(0, NOISE, shifted.shape) for _ in range(times)])
        return np.asarray(noisy[rng.permutation(len(noisy))[:n]].clip(0, 16), np.float32)

    x, q = copies(base.x, rows), copies(base.queries, n_queries)
    what = (
        f"{len(x):,} x 64, made of {len(base.x)} images of scikit-learn's digits by shifts of up to one pixel and "
        f"noise of sd {NOISE:g}; {len(q):,} queries from {len(base.queries)} other images"
    )
    return x, q, what


def shift(images: NDArray[Any], dy: int, dx: int) -> NDArray[Any]:
    """Images [n, 8, 8] moved by (dy, dx), padded with zeros."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    return padded[:, 1 - dy : 9 - dy, 1 - dx : 9 - dx]


def clustered(rows: int, n_queries: int, seed: int) -> tuple[FloatArray, FloatArray, str]:
    """Rows, queries and their description without scikit-learn: Gaussian clusters with decreasing variances."""
    rng = np.random.default_rng(seed)
    scale = 1 / np.sqrt(1 + np.arange(64))
    centres = rng.normal(size=(200, 64)) * scale
    points = (
        centres[rng.integers(0, len(centres), rows + n_queries)] + 0.5 * rng.normal(size=(rows + n_queries, 64)) * scale
    )
    x = points.astype(np.float32)
    what = f"generated, {rows:,} x 64 in 200 Gaussian clusters, because scikit-learn is not installed"
    return x[:rows], x[rows:], what
