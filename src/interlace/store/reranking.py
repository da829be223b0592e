"""A second look: the best rows by code, compared with their originals and sorted again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..codec.metric import METRICS
from ..inputs.arrays import FloatArray
from .originals import KeptVectors

BLOCK_BYTES = 2 << 20  # of float32, made at a time: it should stay in the cache


def rerank(
    kept: KeptVectors, queries: FloatArray, rows: NDArray[np.int64], k: int, metric: str
) -> tuple[NDArray[np.int64], FloatArray]:
    """The k nearest of the rows [n, depth] of each query, and their distances [n, k]; -1 and inf beyond the last.

    Ties go to the earlier row, as everywhere. A query's rows are read in ascending order, a few queries at a time: what
    is in memory does not depend on how many there are. No product of matrices is used, so that an answer does not
    depend on the company of a query.
    """
    width = min(k, rows.shape[1])
    found, distances = np.full((len(rows), k), -1, np.int64), np.full((len(rows), k), np.inf, np.float32)
    if kept.n == 0:
        return found, distances
    step = max(1, BLOCK_BYTES // (4 * kept.dim * max(1, rows.shape[1])))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        candidates = np.sort(rows[part], axis=1)
        away = distances_to(queries[part], kept.take(np.maximum(candidates, 0)), metric)
        away[candidates < 0] = np.inf
        order = np.argsort(away, axis=1, kind="stable")[:, :width]
        # Rows that are none come first in ascending order, but last in that of distances: inf is larger than any.
        found[part, :width] = np.take_along_axis(candidates, order, axis=1)
        distances[part, :width] = np.take_along_axis(away, order, axis=1)
    return found, distances


def distances_to(queries: FloatArray, vectors: FloatArray, metric: str) -> FloatArray:
    """Distances [n, m] of queries [n, dim] to vectors [n, m, dim], in the sense of ``Matches``; vectors are used up."""
    kind = METRICS[metric]
    if kind.is_squared:
        vectors -= queries[:, None]
        return np.asarray(np.einsum("qrd,qrd->qr", vectors, vectors), np.float32)
    products = np.einsum("qrd,qd->qr", vectors, queries)
    return np.asarray(kind.offset - products, np.float32)
