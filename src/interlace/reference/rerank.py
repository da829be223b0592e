"""Re-rank: candidate rows of a query compared with their originals, and the k nearest of them."""

from __future__ import annotations

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


def distance(query: FloatArray, vector: FloatArray, metric: Metric) -> np.float32:
    """Of a query and an original, both float32 [dim]."""
    kept = metric.of_originals
    if kept.is_squared:
        away = query - vector
        return stored_sum(away * away) * np.float32(0.5 if kept.is_converted else 1)
    return np.float32(np.float32(kept.offset) - stored_sum(query * vector))


def rerank(
    vectors: FloatArray, query: FloatArray, rows: list[int], k: int, metric: Metric
) -> list[tuple[int, np.float32]]:
    """Row number and distance of the k nearest of some rows, nearest first; of equal ones the lower row first.

    ``vectors`` are the decoded originals of all rows. Negative rows are none.
    """
    away = [(distance(query, vectors[row], metric), row) for row in rows if row >= 0]
    return [(row, d) for d, row in sorted(away)[:k]]
