"""Chooses the re-rank depth and the margin for a target recall, measured on the queries of a calibration.

Recall@10 after a re-rank of the best d rows is the share of the ten true neighbours among those d rows, in any order.
True are the neighbours by the vectors as they were given (:meth:`KeptVectors.blocks`): those that the originals
themselves rank beyond the tenth place are lost, however deep a search goes. It is measured for each calibrated margin,
since what a margin loses counts. A search for fewer rows visits fewer cells, so each depth is searched for by itself;
where a margin loses next to nothing, one search for the largest depth gives the recall of all.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.exact import nearest_rows
from ..errors import InputError
from ..inputs.arrays import FloatArray
from .binomial import lower_bound
from .engine import Engine, RuleOf
from .margins import TARGETS, Calibration, Recalls
from .originals import KeptVectors

K = 10
DEPTHS = (10, 15, 20, 30, 40, 60, 80, 100, 150, 200, 300, 400, 600, 800, 1200, 1600)
#: Queries that recall is measured with: the true neighbours of each take a pass over all originals.
QUERIES = 256
#: Of a search that gives neither margin nor rerank nor recall, where originals are kept.
DEFAULT_RECALL = 0.95
#: Margins from this one on lose next to nothing.
NEXT_TO_NOTHING = 0.999
#: Queries to come are not these: the lower end of the one-sided interval of this confidence must reach a recall. Even
#: if 256 queries find everything, it is .99825. Neighbours of one query are lost together: the variance is 1.2 to 1.3
#: times that of independent ones on SIFT, a little more is assumed.
CONFIDENCE, TOGETHER = 0.95, 1.5
#: A margin that visits more cells is taken where it saves this much of the depth.
WORTH = 2.0

Rows = NDArray[np.int64]


def measured(
    engine: Engine,
    originals: KeptVectors,
    queries: FloatArray,
    own_rows: Rows | None,
    threads: int,
) -> Recalls:
    """Recall@10 for each margin and re-rank depth; ``own_rows``: the row that each query is, left out.

    Depths beyond the first that finds all that the originals can find are omitted. Queries are vectors, of length 1 for
    the cosine metric.
    """
    chosen = np.linspace(0, len(queries) - 1, min(QUERIES, len(queries))).astype(np.int64)
    queries, own = queries[chosen], None if own_rows is None else own_rows[chosen, None]
    extra = int(own is not None)
    removed, metric = None if engine.removed is None else ~engine.removed.kept(), engine.codebooks.metric_type

    def nearest(blocks: Iterable[tuple[int, FloatArray]]) -> Rows:  # float64: a mean may be far from 0
        rows, _ = nearest_rows(blocks, queries, K + extra, metric.of_originals, removed=removed, dtype=np.float64)
        return rows

    by_originals = nearest(originals.blocks())
    true = nearest(originals.blocks(as_given=True)) if originals.loss.error else by_originals
    kept = _ranks(by_originals, true, own) < K
    reachable = float(kept.mean()) if len(kept) else 1.0
    deepest = min(DEPTHS[-1] + extra, max(1, engine.n_kept))
    found: list[tuple[float, int, float]] = []
    for margin in TARGETS:
        ranks = None
        for depth in DEPTHS:
            if ranks is None or margin < NEXT_TO_NOTHING:
                least = DEPTHS[-1] if margin >= NEXT_TO_NOTHING else depth
                asked, rule = min(least + extra, deepest), _rule(engine, margin, least)
                by_code = engine.search_by_rule(queries, asked, rule, threads)
                ranks = np.where(kept, _ranks(by_code.rows, true, own), DEPTHS[-1])
            found.append((margin, depth, float((ranks < depth).mean()) if len(ranks) else 1.0))
            if found[-1][2] == reachable:
                break
    return Recalls(tuple(found), reachable)


def _rule(engine: Engine, margin: float, depth: int) -> RuleOf:
    """That of a search which re-ranks ``depth`` rows, whatever number of rows is asked for here."""
    return lambda among: engine.rule(margin, depth, among=among, reranked=True)


def _ranks(by_code: Rows, true: Rows, own: Rows | None) -> NDArray[np.int64]:
    """Place of each true neighbour among the rows found by code, or one that no depth reaches."""
    if own is not None:
        by_code, true = np.where(by_code == own, -1, by_code), np.where(true == own, -1, true)
    ranks: list[int] = []
    for listed, wanted in zip(by_code, true, strict=True):
        places = {row: place for place, row in enumerate(listed[listed >= 0].tolist())}
        ranks += [places.get(row, DEPTHS[-1]) for row in wanted[wanted >= 0][:K].tolist()]
    return np.array(ranks, np.int64)


@functools.lru_cache(maxsize=256)  # single queries ask for the same one again and again
def expected(margin: Any, depth: int, k: int, n: int, calibration: Calibration | None) -> float | None:
    """Recall@10 that was measured for a margin and a re-rank depth, scaled to k hits of n rows; None if it was not."""
    if calibration is None:
        return None
    reach = depth / _grown(k, n, calibration)
    reached = [found for target, measured, found in calibration.recalls.found if target == margin and measured <= reach]
    return reached[-1] if reached else None


def _grown(k: int, n: int, calibration: Calibration) -> float:
    """How many times the depth that was measured a search needs.

    Twice the rows have twice as many between a query and its neighbour; ten times k takes ten times the depth.
    """
    return max(1.0, n / max(1, calibration.n)) * max(1.0, k / K)


@functools.lru_cache(maxsize=1024)  # each search with a recall asks for those of its calibration
def at_least(found: float, n_queries: int) -> float:
    """Lower end of the interval of a recall@10 that was measured with n queries; below 1 whatever was found."""
    return lower_bound(found, K * max(1, n_queries) / TOGETHER, CONFIDENCE)


def effort(recall: float, k: int, n: int, calibration: Calibration | None) -> tuple[float, int]:
    """Margin and re-rank depth that reach a recall@k among n rows; InputError if the calibration does not say."""
    if calibration is None or not calibration.recalls.found:
        raise InputError("recall needs a calibration: call calibrate(queries) once there are rows")
    found = _least_effort(recall, calibration)
    if found is None:
        n_queries = min(QUERIES, calibration.queries)
        _, depth, best = max(calibration.recalls.found, key=lambda measured: measured[2])
        more = "pass rerank=" if best == 1 else "pass rerank=, or use codes of more bytes"
        reachable = calibration.recalls.reachable
        if reachable < 1 and at_least(reachable, n_queries) < recall:
            more = "keep originals that lose less (float16 instead of int8, or vectors of a smaller range)"
        raise InputError(
            f"recall {recall:g} was not reached with 95 % confidence by the calibration: a re-rank of the best {depth} "
            f"rows by code found {best:.4f} of the neighbours of {n_queries} queries, which promises "
            f"{math.floor(1e4 * at_least(best, n_queries)) / 1e4:.4f}; ask for that or less, {more}"
        )
    margin, depth = found
    return margin, max(k, math.ceil(depth * _grown(k, n, calibration)))


@functools.lru_cache(maxsize=256)
def default_effort(k: int, n: int, calibration: Calibration | None) -> tuple[Any, int, str]:
    """Margin, depth and their reason for a search that gives none: those of :data:`DEFAULT_RECALL`, or the deepest."""
    asked = f"recall={DEFAULT_RECALL} by default"
    if calibration is None or not calibration.recalls.found:
        depth = math.ceil(DEPTHS[-1] * max(1.0, k / K))
        return "exact", depth, f"exact by code, because no calibration has measured {asked}"
    found = _least_effort(DEFAULT_RECALL, calibration)
    if found is not None:
        return found[0], max(k, math.ceil(found[1] * _grown(k, n, calibration))), asked
    margin, depth, reached = max(calibration.recalls.found, key=lambda measured: measured[2])
    depth = max(k, math.ceil(depth * _grown(k, n, calibration)))
    return (
        margin,
        depth,
        f"the deepest measured (recall {reached:.3f}), as the calibration does not support {asked}",
    )


def _least_effort(recall: float, calibration: Calibration) -> tuple[float, int] | None:
    """Margin and measured depth that are sure to reach a recall@10; None if none does."""
    n_queries = min(QUERIES, calibration.queries)
    reached: dict[float, int] = {}  # the smallest depth for each margin
    for margin, depth, found in calibration.recalls.found:
        if at_least(found, n_queries) >= recall:
            reached.setdefault(margin, depth)
    if not reached:
        return None
    least = min(reached.values())
    return next((m, d) for m, d in sorted(reached.items()) if d <= WORTH * least)
