"""L_C: the error of the codes, and what makes sums of table entries rank as distances do.

A row is the sum of one word w_k per book, so |q - sum w|^2 = sum |q - w_k|^2 - (K - 1) |q|^2 + cross, with

    cross = |sum w|^2 - sum |w|^2,  the sum of <w_i, w_j> over all pairs i != j

which search has to know. Composite quantization keeps it near a constant eps (`cross_penalty`); the norm byte stores it
(`norm_byte_values`, `norm_byte_error`). Crude sums are compared among each other, so the crude group has its own eps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....errors import InputError
from ....inputs.arrays import FloatArray, describe, positive, to_numpy
from .rows import as_rows


def quantization_error(z: Tensor, zq: Tensor) -> Tensor:
    """mean over rows of |z - zq|^2; its weight holds where the total variance of z is 1."""
    z = as_rows(z)
    return (z - as_rows(zq, "zq", z)).square().sum(1).mean()


def cross_terms(words_of_rows: Sequence[Tensor]) -> Tensor:
    """cross [batch]; element k are the words of book k that the rows are coded by, [batch, dim]."""
    if not len(words_of_rows):
        raise InputError("cross terms need the words of at least one book, got none")
    first = as_rows(words_of_rows[0], "words of book 0")
    words = torch.stack([as_rows(w, f"words of book {k}", first) for k, w in enumerate(words_of_rows)])
    return words.sum(0).square().sum(1) - words.square().sum((0, 2))


def cross_penalty(
    words_of_rows: Sequence[Tensor],
    groups: Sequence[Sequence[int]] | None = None,
    *,
    eps: Sequence[Tensor | float] | None = None,
) -> Tensor:
    """sum over groups of the mean over rows of (cross of the group's books - eps of the group)^2.

    ``groups`` are lists of book numbers, by default one of all books; pairs of books in different groups are not
    looked at, as hard groups share no dimension. Without ``eps`` each is the mean of the batch, the best constant for
    it: then this is the variance of the cross terms.
    """
    n_books = len(words_of_rows)
    groups = [range(n_books)] if groups is None else groups
    if any(not 0 <= k < n_books for group in groups for k in group):
        raise InputError(f"groups hold numbers of books, 0 to {n_books - 1}, got {[list(g) for g in groups]}")
    if eps is not None and len(eps) != len(groups):
        raise InputError(f"eps must be one number per group, {len(groups)}, got {len(eps)}")
    total = cross_terms(words_of_rows).sum() * 0.0
    for i, group in enumerate(groups):
        if len(group) > 1:
            cross = cross_terms([words_of_rows[k] for k in group])
            total = total + (cross - (cross.mean() if eps is None else eps[i])).square().mean()
        elif eps is not None:  # no pair, no cross term
            total = total + torch.as_tensor(eps[i], dtype=total.dtype, device=total.device).square()
    return total


def norm_byte_values(cross: Any, n_values: int = 256, *, iterations: int = 30) -> FloatArray:
    """At most ``n_values`` ascending values that the cross terms are rounded to: 1-D k-means from their quantiles.

    Exact where there are no more distinct terms than values.
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
        if len(values) < n_values:  # many equal terms: what is left goes to the distinct ones that are coded worst
            errors = np.abs(distinct - values[_nearest(values, distinct)])
            values = np.union1d(values, distinct[np.argsort(-errors, kind="stable")[: n_values - len(values)]])
        counts = np.bincount(_nearest(values, ordered), minlength=len(values))
        bounds = np.unique(np.concatenate([[0], np.cumsum(counts)]))  # values without terms go
        means = np.diff(sums[bounds]) / np.diff(bounds) + ordered.mean()
        if np.array_equal(means, values):
            break
        values = means
    return np.unique(values.astype(np.float32))


def _nearest(values: NDArray[np.float64], terms: NDArray[np.float64]) -> NDArray[np.int64]:
    """The index of the nearest of ascending values."""
    return np.searchsorted((values[1:] + values[:-1]) / 2, terms)


def norm_byte_error(cross: Tensor, values: NDArray[Any] | Tensor) -> Tensor:
    """mean over rows of (cross - its nearest value)^2; the values, ascending, are given."""
    if not isinstance(cross, Tensor) or cross.ndim != 1 or not len(cross) or not cross.is_floating_point():
        raise InputError(f"cross must be a floating tensor [batch] with at least one row, got {describe(cross)}")
    known = torch.as_tensor(values, dtype=cross.dtype, device=cross.device).detach().contiguous()
    if known.ndim != 1 or not len(known):
        raise InputError(f"values must be numbers [n_values], at least one, got {describe(values)}")
    nearest = torch.searchsorted((known[1:] + known[:-1]) / 2, cross.detach().contiguous())
    return (cross - known[nearest]).square().mean()
