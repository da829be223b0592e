"""One query in one native call: the answer of ``Engine.search``, with as few Python calls and objects as possible.

A single query over some thousand rows takes as long as twenty Python calls. So what is the same for every query, such
as options and rules, is made once and looked up.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..inputs.arrays import FloatArray
from .engine import Engine
from .hits import SearchStats
from .options import SearchOptions
from .originals import KeptVectors
from .recall import expected
from .rerank import rerank


class OneAnswer(NamedTuple):
    """Rows and distances [1, k + offset] of one query (-1 and inf beyond the last), and the number of hits."""

    rows: NDArray[np.int64]
    distances: FloatArray
    n_found: int
    stats: SearchStats


def search_one(
    engine: Engine, query: FloatArray, options: SearchOptions, originals: KeptVectors | None
) -> OneAnswer | None:
    """The nearest rows of a query float32 [1, dim]; re-ranked by originals if the options say so.

    None where it takes more than one scan of all codes: filters, removed rows, fewer rows than hits, a query that the
    margin is not calibrated for, rows without codes. ``Engine.search`` and ``search_reranked`` give the same answer
    and have no limits.
    """
    started = time.perf_counter()
    k, depth = options.k + options.offset, options.rerank
    reranked = depth is not None
    depth = k if depth is None else min(depth, max(k, engine.n_rows))
    if engine.removed is not None or options.filter is not None or depth > engine.n_rows or engine.vectors is not None:
        return None
    rule, metric = engine.cached_rule(options.margin, depth, reranked), engine.codebooks.metric_type
    searched = metric.searched(query) if metric.is_converted else query
    rows, distances = np.empty((1, depth), np.int64), np.empty((1, depth), np.float32)
    if reranked:
        engine.keep_sums()
    segments = [segment.native for segment in engine.segments]
    count, cells, scanned, survivors, lookups, strays, unlike = _native.search_one(
        engine.codebooks.native, segments, searched, rule.native, rows, distances
    )
    if rule.farthest != math.inf and not unlike:
        scale = metric.limit_scales(query) if metric.scales_with_query else 1.0
        if rule.is_unlike(distances[0], strays, depth, scale):
            return None
    compared, recall = 0, None
    if reranked:
        assert originals is not None
        compared, recall = count, expected(options.margin, depth, k, engine.n_rows, engine.calibration)
        rows, distances = rerank(originals, query, rows, k, metric)
        count = min(count, k)
    elif metric.is_converted:
        distances = metric.reported(distances)
    seconds = time.perf_counter() - started
    level = _native.simd_level()
    work = cells, scanned, survivors, lookups
    stats = SearchStats(
        1,
        engine.n_rows,
        *work,
        seconds,
        rule.label,
        1,
        level,
        compared,
        unlike,
        recall,
        rule.kind,
        rule.fallback,
        options.chosen,
    )
    return OneAnswer(rows, distances, count, stats)
