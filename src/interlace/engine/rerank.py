"""Re-rank: the best rows by code are compared with their original vectors and sorted again."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..codec.metric import Metric
from ..inputs.arrays import FloatArray
from .engine import Engine
from .hits import RowHits, SearchStats
from .options import SearchOptions
from .originals import KeptVectors
from .recall import expected

ANSWERS = 1 << 22  # rows found by code at a time


def search_reranked(engine: Engine, originals: KeptVectors, queries: FloatArray, options: SearchOptions) -> RowHits:
    """The nearest ``options.k + options.offset`` of the ``options.rerank`` best rows by code, by their originals."""
    assert options.rerank is not None
    k = options.k + options.offset
    options = replace(options, rerank=min(options.rerank, max(k, engine.n_kept)))
    recall = None
    if options.filter is None:
        recall = expected(options.margin, options.depth, k, engine.n_kept, engine.calibration)
    engine.keep_sums()
    parts: list[RowHits] = []
    step = max(1, ANSWERS // options.depth)
    for start in range(0, max(1, len(queries)), step):
        some = queries[start : start + step]
        found = engine.search(some, options)
        started = time.perf_counter()
        rows, distances = rerank(originals, some, found.rows, k, engine.codebooks.metric_type, options.threads)
        seconds = found.stats.seconds + time.perf_counter() - started
        compared = int(found.counts.sum())
        stats = replace(found.stats, seconds=seconds, reranked=compared, expected_recall=recall, chosen=options.chosen)
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
    originals: KeptVectors, queries: FloatArray, rows: NDArray[np.int64], k: int, metric: Metric, threads: int = 1
) -> tuple[NDArray[np.int64], FloatArray]:
    """The k nearest of the rows [n, depth] of each query, and their distances [n, k]; -1 and inf beyond the last.

    Rows [1, depth] are those of every query. Ties go to the earlier row, as everywhere. Native code reads the stored
    bytes (cpp/core/rerank.h); a result does not depend on the other queries of a batch, on threads or on the SIMD
    level. ``reference.rerank`` is the same in NumPy.
    """
    n = len(queries)
    found, distances = np.empty((n, k), np.int64), np.empty((n, k), np.float32)
    candidates = np.ascontiguousarray(rows)
    kept = metric.of_originals
    originals.native.rerank(kept.is_squared, kept.offset, queries, candidates, threads, found, distances)
    if kept.is_converted:
        distances *= np.float32(0.5)
    return found, distances
