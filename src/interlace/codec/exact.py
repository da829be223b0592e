"""Exact neighbours by brute force: the only place that compares queries with every vector."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inputs.arrays import FloatArray
from .metric import Metric

#: Distances of this many queries are computed at a time.
BLOCK_QUERIES = 256


def nearest_rows(
    blocks: Iterable[tuple[int, FloatArray]],
    queries: FloatArray,
    k: int,
    metric: Metric,
    *,
    removed: NDArray[np.bool_] | None = None,
    dtype: Any = np.float32,
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Numbers [queries, k] of the nearest rows and their distances, ascending; -1 and inf beyond the last.

    ``blocks`` are vectors with the number of their first row, ascending; ``removed`` is a mask over all rows. Vectors
    and queries are prepared (:meth:`Metric.prepare`). Distances are computed in ``dtype``; ties go to the smaller row.
    """
    rows = np.full((len(queries), k), -1, np.int64)
    best = np.full((len(queries), k), np.inf, dtype)
    for first, block in blocks:
        vectors = block.astype(dtype, copy=False)
        squares = np.einsum("ij,ij->i", vectors, vectors)
        for start in range(0, len(queries), BLOCK_QUERIES):
            part = slice(start, start + BLOCK_QUERIES)
            distances = metric.distances(queries[part].astype(dtype, copy=False), vectors, squares)
            if removed is not None:
                distances[:, removed[first : first + len(vectors)]] = np.inf
            columns, values = _smallest(distances, min(k, len(vectors)))
            _merge(rows[part], best[part], columns + first, values)
    return rows, best


def _smallest(distances: NDArray[Any], k: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Columns and values of the k smallest entries of each row, in ascending order of column."""
    columns = np.argpartition(distances, k - 1, axis=1)[:, :k]
    last = np.take_along_axis(distances, columns, 1).max(1)
    # If more than k entries reach the last value, the partition is arbitrary: prefer smaller columns.
    for row in np.flatnonzero((distances <= last[:, None]).sum(1) > k):
        columns[row] = np.argsort(distances[row], kind="stable")[:k]
    columns.sort(axis=1)
    return columns, np.take_along_axis(distances, columns, 1)


def _merge(rows: NDArray[np.int64], best: NDArray[Any], more_rows: NDArray[np.int64], more: NDArray[Any]) -> None:
    """Merge new hits into the best so far. Later rows come last, so a stable sort resolves ties by row."""
    all_rows, all_values = np.concatenate([rows, more_rows], 1), np.concatenate([best, more], 1)
    order = np.argsort(all_values, axis=1, kind="stable")[:, : best.shape[1]]
    rows[:] = np.take_along_axis(all_rows, order, 1)
    best[:] = np.take_along_axis(all_values, order, 1)
