"""Re-rank: candidate rows of a query compared with their originals, and the k nearest of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..codec.metric import Metric
from ..inputs.arrays import FloatArray

#: Sums that run side by side over the dimensions (``kSums`` in cpp/simd/kernels.h).
SUMS = 32


def stored_sum(terms: FloatArray) -> np.float32:
    """The sum of float32 terms, one for each dimension, in the order of the native code.

    Sum j takes the dimensions d with d % SUMS == j, in ascending order; then the sums are added by halves.
    """
    sums = np.zeros(SUMS, np.float32)
    for d in range(0, len(terms), SUMS):
        some = terms[d : d + SUMS]
        sums[: len(some)] += some
    while len(sums) > 1:
        sums = sums[: len(sums) // 2] + sums[len(sums) // 2 :]
    return np.float32(sums[0])


def distance(query: FloatArray, difference: FloatArray, centre: FloatArray, metric: Metric) -> np.float32:
    """Of a query and an original, which is the centre and its difference from it; all float32 [dim]."""
    kept = metric.of_originals
    if kept.is_squared:
        away = (query - centre) - difference
        return stored_sum(away * away) * np.float32(0.5 if kept.is_converted else 1)
    product = 0.0
    for q, c in zip(query.tolist(), centre.tolist(), strict=True):  # sum() of floats is compensated from Python 3.12 on
        product += q * c
    return np.float32(np.float32(kept.offset - product) - stored_sum(query * difference))


def rerank(
    differences: FloatArray, query: FloatArray, rows: list[int], k: int, metric: Metric, centre: Any = None
) -> list[tuple[int, np.float32]]:
    """Row number and distance of the k nearest of some rows, nearest first; of equal ones the lower row first.

    ``differences`` are the decoded originals of all rows, relative to their centre, by default 0. Negative rows are
    none.
    """
    centre = np.zeros(len(query), np.float32) if centre is None else centre
    away = [(distance(query, differences[row], centre, metric), row) for row in rows if row >= 0]
    return [(row, d) for d, row in sorted(away)[:k]]
