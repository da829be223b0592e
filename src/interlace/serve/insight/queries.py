"""One query step by step: what it costs, and what it does with one point."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ...engine.explaining import FILTER, FOUND, REMOVED, Explanation
from ...engine.rerank import rerank
from ...index.matches import Matches
from ...store import Snapshot
from ..collections.collection import Collection
from ..collections.rendering import stats
from ..collections.searching import How, QueryHits, filter_of, has_originals, query_input, search, vectors_of
from ..requests import ids as point_ids
from ..requests.filters import Condition
from ..requests.models import Explain, Query

TIMES = 3  # how often a search is timed


def funnel(found: Collection, given: Query) -> dict[str, Any]:
    """One search, step by step: rows -> cells -> scanned -> survivors -> re-ranked -> hits, with times."""
    snapshot = found.snapshot()
    how = How.of(given, snapshot, found.settings)
    condition, wanted = found.condition(snapshot, given.filter), query_input(given.query, found.dim)
    began = time.perf_counter()
    filter_of(snapshot, condition)
    filtered = time.perf_counter()
    runs = [search(snapshot, wanted, how, condition) for _ in range(TIMES)]  # the first also fills caches
    whole = min(runs, key=lambda run: run.stats.seconds)
    originals = _rerank_seconds(snapshot, wanted, how, condition, whole) if whole.stats.reranked else 0.0
    hits = QueryHits.of(whole, None, given.score_threshold)
    distances = whole.distances[: len(hits.scores)].tolist()
    return {
        "steps": {
            "rows": len(snapshot),
            "cells": found.store.codebooks.n_cells,
            "cells_visited": whole.stats.cells,
            "scanned": whole.stats.scanned,
            "survivors": whole.stats.survivors,
            "reranked": whole.stats.reranked,
            "hits": len(hits.scores),
        },
        "seconds": {
            "filter": filtered - began,
            "codes": whole.stats.seconds - originals,
            "originals": originals,
        },
        "stats": stats(whole.stats),
        "points": [
            {"id": i, "score": score, "distance": distance}
            for i, score, distance in zip(point_ids.from_store(hits.ids), hits.scores, distances, strict=True)
        ],
    }


def _rerank_seconds(snapshot: Snapshot, wanted: Any, how: How, condition: Condition | None, whole: Matches) -> float:
    """The part of a search in which rows are compared with their originals, measured by doing it again."""
    searcher, found = snapshot.searcher, list[float]()
    depth = min(len(snapshot), whole.stats.reranked)
    by_code = search(snapshot, wanted, replace(how.resolved(snapshot), k=depth, offset=0, rerank=None), condition)
    rows = searcher.ids.rows_of(by_code.ids[: by_code.counts], "ids")[None]
    vector = vectors_of(snapshot, point_ids.as_array([wanted])) if isinstance(wanted, int | str) else wanted[None]
    kept, metric = searcher.kept_vectors("rerank"), searcher.engine.codebooks.metric_type
    for _ in range(TIMES):
        began = time.perf_counter()
        rerank(kept, np.ascontiguousarray(vector, np.float32), rows, min(how.k, rows.size), metric)
        found.append(time.perf_counter() - began)
    return min(*found, whole.stats.seconds)


def explained(found: Collection, given: Explain) -> dict[str, Any]:
    """What a query does with one point, at which step it is left out, and whether it is one of the nearest."""
    snapshot = found.snapshot()
    how = How.of(given, snapshot, found.settings).resolved(snapshot)
    wanted, point = query_input(given.query, found.dim), point_ids.to_store(given.id)
    is_id, allowed = isinstance(wanted, int | str), filter_of(snapshot, found.condition(snapshot, given.filter))
    exact: Any = vectors_of(snapshot, wanted) if is_id else wanted
    asked: Any = snapshot.get(wanted) if is_id and not how.rerank else exact  # as a search by id takes it
    told = snapshot.explain(asked, point, how.k, filter=allowed, margin=how.margin)
    nearest = told.rank <= how.k
    if has_originals(snapshot) and not snapshot.collecting:  # the rank is that of codes
        nearest = _is_nearest(snapshot, exact, point, how, allowed)
    return {
        **_facts(told),
        "rerank": _reranked(snapshot, exact, point, how, allowed),
        "nearest": nearest and told.lost not in (FILTER, REMOVED),
    }


def _facts(told: Explanation) -> dict[str, Any]:
    return {
        **asdict(told),
        "text": str(told),
        "verdict": told.verdict,
        "id": point_ids.from_store([told.id])[0],
    }


def _is_nearest(snapshot: Snapshot, vector: Any, point: int | str, how: How, allowed: Any) -> bool:
    """Whether the point is one of the k nearest by vectors. Only where some hits may be farther, all are compared."""
    own = snapshot.search(vector, 1, margin="exact", rerank=1, filter=point_ids.as_array([point])).distances[0]
    hits = snapshot.search(vector, how.k, rerank=max(how.rerank or 0, how.k), filter=allowed, margin=how.margin)
    if hits.counts == how.k and own > hits.distances[-1]:
        return False
    nearest = snapshot.search(vector, how.k, margin="exact", rerank=max(len(snapshot), how.k), filter=allowed)
    return bool((nearest.ids == point).any())


def _reranked(snapshot: Snapshot, vector: Any, point: int | str, how: How, allowed: Any) -> dict[str, Any] | None:
    """What the search by codes does with the point, and where it comes among the rows that are compared with originals.

    None if none are.
    """
    if not how.rerank:
        return None
    depth = min(how.rerank, max(1, len(snapshot)))
    codes = snapshot.searcher.explain(
        vector, point, depth, margin=how.margin, filter=allowed, embedded=False, reranked=True
    )
    ranked = snapshot.search(vector, depth, rerank=depth, filter=allowed, margin=how.margin)
    places = np.flatnonzero(ranked.ids[: ranked.counts] == point)
    return {
        "depth": depth,
        "codes": _facts(codes),
        "candidate": codes.lost == FOUND,
        "rank": int(places[0]) + 1 if len(places) else None,
        "distance": float(ranked.distances[places[0]]) if len(places) else None,
        "kth_distance": float(ranked.distances[min(how.k, ranked.counts) - 1]) if ranked.counts else None,
        "found": bool(len(places)) and int(places[0]) < how.k,
    }
