"""The norm byte: cross terms rounded to at most 256 values, which a code column stores."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....errors import InputError
from ....inputs.arrays import FloatArray, describe, positive, to_numpy


def norm_byte_values(cross: Any, n_values: int = 256, *, iterations: int = 30) -> FloatArray:
    """At most ``n_values`` ascending values for the cross terms: 1-D k-means that starts at their quantiles.

    Exact if there are no more distinct terms than values.
    """
    terms = to_numpy(cross, "cross").astype(np.float64)
    if terms.ndim != 1 or not terms.size or not np.isfinite(terms).all():
        raise InputError(f"cross must be finite numbers [rows], at least one, got {describe(cross)}")
    n_values = positive(n_values, "n_values")
    ordered, distinct = np.sort(terms), np.unique(terms)
    if len(distinct) <= n_values:
        return np.unique(distinct.astype(np.float32))
    sums = np.concatenate([[0.0], np.cumsum(ordered - ordered.mean())])
    values = np.unique(np.quantile(ordered, (np.arange(n_values) + 0.5) / n_values))
    for _ in range(iterations):
        if len(values) < n_values:  # many terms are equal: spare values go to the terms with the largest errors
            errors = np.abs(distinct - values[_nearest(values, distinct)])
            values = np.union1d(values, distinct[np.argsort(-errors, kind="stable")[: n_values - len(values)]])
        counts = np.bincount(_nearest(values, ordered), minlength=len(values))
        bounds = np.unique(np.concatenate([[0], np.cumsum(counts)]))  # drops values without terms
        means = np.diff(sums[bounds]) / np.diff(bounds) + ordered.mean()
        if np.array_equal(means, values):
            break
        values = means
    return np.unique(values.astype(np.float32))


def _nearest(values: NDArray[np.float64], terms: NDArray[np.float64]) -> NDArray[np.int64]:
    """The index of the nearest of ascending values."""
    return np.searchsorted((values[1:] + values[:-1]) / 2, terms)


def norm_byte_error(cross: Tensor, values: NDArray[Any] | Tensor) -> Tensor:
    """mean over rows of (cross - its nearest value)^2, for given ascending values."""
    if not isinstance(cross, Tensor) or cross.ndim != 1 or not len(cross) or not cross.is_floating_point():
        raise InputError(f"cross must be a floating tensor [batch] with at least one row, got {describe(cross)}")
    known = torch.as_tensor(values, dtype=cross.dtype, device=cross.device).detach().contiguous()
    if known.ndim != 1 or not len(known):
        raise InputError(f"values must be numbers [n_values], at least one, got {describe(values)}")
    nearest = torch.searchsorted((known[1:] + known[:-1]) / 2, cross.detach().contiguous())
    return (cross - known[nearest]).square().mean()
