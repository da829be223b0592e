"""Re-rank: the best rows by code are compared with their original vectors and sorted again."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..codec.metric import METRICS
from ..inputs.arrays import FloatArray
from .engine import Engine
from .hits import RowHits, SearchStats
from .options import SearchOptions

BLOCK_BYTES = 2 << 20  # of float32, made at a time: it should stay in the cache
ANSWERS = 1 << 22  # rows found by code at a time


class OriginalVectors(Protocol):
    """Vectors of all rows, removed ones included."""

    @property
    def n(self) -> int:
        """Rows."""

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""

    def take(self, rows: NDArray[np.int64]) -> FloatArray:
        """float32 [*rows.shape, dim]."""

    def blocks(self) -> Iterable[tuple[int, FloatArray]]:
        """All vectors: the number of the first row of each block, and the block."""


def search_reranked(engine: Engine, originals: OriginalVectors, queries: FloatArray, options: SearchOptions) -> RowHits:
    """The nearest ``options.k + options.offset`` of the ``options.rerank`` best rows by code, by their originals."""
    assert options.rerank is not None
    k = options.k + options.offset
    options = replace(options, rerank=min(options.rerank, max(k, engine.n_kept)))
    parts: list[RowHits] = []
    step = max(1, ANSWERS // options.depth)
    for start in range(0, max(1, len(queries)), step):
        some = queries[start : start + step]
        found = engine.search(some, options)
        started = time.perf_counter()
        rows, distances = rerank(originals, some, found.rows, k, engine.codebooks.metric)
        seconds = found.stats.seconds + time.perf_counter() - started
        stats = replace(found.stats, seconds=seconds, reranked=int(found.counts.sum()))
        parts.append(RowHits(rows, distances, np.minimum(found.counts, k), stats))
    if len(parts) == 1:
        return parts[0]
    return RowHits(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.distances for part in parts]),
        np.concatenate([part.counts for part in parts]),
        SearchStats.summed([part.stats for part in parts]),
    )


def rerank(
    originals: OriginalVectors, queries: FloatArray, rows: NDArray[np.int64], k: int, metric: str
) -> tuple[NDArray[np.int64], FloatArray]:
    """The k nearest of the rows [n, depth] of each query, and their distances [n, k]; -1 and inf beyond the last.

    Ties go to the earlier row, as everywhere. A query's rows are read in ascending order, a few queries at a time, so
    memory does not depend on their number. No product of matrices is used, so that a result does not depend on the
    other queries of a batch.
    """
    width = min(k, rows.shape[1])
    found, distances = np.full((len(rows), k), -1, np.int64), np.full((len(rows), k), np.inf, np.float32)
    if originals.n == 0:
        return found, distances
    step = max(1, BLOCK_BYTES // (4 * originals.dim * max(1, rows.shape[1])))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        candidates = np.sort(rows[part], axis=1)
        away = distances_to(queries[part], originals.take(np.maximum(candidates, 0)), metric)
        away[candidates < 0] = np.inf
        order = np.argsort(away, axis=1, kind="stable")[:, :width]
        # Rows that are none come first in ascending order, but last in that of distances: inf is larger than any.
        found[part, :width] = np.take_along_axis(candidates, order, axis=1)
        distances[part, :width] = np.take_along_axis(away, order, axis=1)
    return found, distances


def distances_to(queries: FloatArray, vectors: FloatArray, metric: str) -> FloatArray:
    """Distances [n, m] of queries [n, dim] to vectors [n, m, dim], in the sense of ``Matches``; vectors are used up."""
    kind = METRICS[metric]
    if kind.is_squared and not kind.is_normalized:
        vectors -= queries[:, None]
        return np.asarray(np.einsum("qrd,qrd->qr", vectors, vectors), np.float32)
    products = np.einsum("qrd,qd->qr", vectors, queries)
    return np.asarray((1 if kind.is_normalized else kind.offset) - products, np.float32)
