"""One query step by step: what it costs, and what it does with one point."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ...engine.rerank import rerank
from ...index.matches import Matches
from ...store import Snapshot
from ..collections.collection import Collection
from ..collections.rendering import stats
from ..collections.searching import How, QueryHits, filter_of, query_input, search, vectors_of
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
    by_code = search(snapshot, wanted, replace(how, k=depth, offset=0, rerank=None, recall=None), condition)
    rows = searcher.ids.rows_of(by_code.ids[: by_code.counts], "ids")[None]
    vector = vectors_of(snapshot, point_ids.as_array([wanted])) if isinstance(wanted, int | str) else wanted[None]
    kept, metric = searcher.kept_vectors("rerank"), searcher.engine.codebooks.metric_type
    for _ in range(TIMES):
        began = time.perf_counter()
        rerank(kept, np.ascontiguousarray(vector, np.float32), rows, min(how.k, rows.size), metric)
        found.append(time.perf_counter() - began)
    return min(*found, whole.stats.seconds)


def explained(found: Collection, given: Explain) -> dict[str, Any]:
    """What a query does with one point, and at which step it is lost."""
    snapshot = found.snapshot()
    how = How.of(given, snapshot, found.settings)
    wanted, point = query_input(given.query, found.dim), point_ids.to_store(given.id)
    vector = vectors_of(snapshot, wanted) if isinstance(wanted, int | str) else wanted
    found_filter = filter_of(snapshot, found.condition(snapshot, given.filter))
    told = snapshot.explain(vector, point, how.k, filter=found_filter, **how.chosen_margin)
    facts = {
        "text": str(told),
        "verdict": told.verdict,
        "rerank": _reranked(snapshot, vector, point, how, found_filter),
    }
    return {**asdict(told), **facts, "id": point_ids.from_store([told.id])[0]}


def _reranked(snapshot: Snapshot, vector: Any, point: int | str, how: How, allowed: Any) -> dict[str, Any] | None:
    """Where the point comes when hits are compared with originals; None if they are not."""
    if not how.rerank:
        return None
    depth = min(how.rerank, max(1, len(snapshot)))
    candidates = snapshot.search(vector, depth, filter=allowed, **how.chosen_margin)
    ranked = snapshot.search(vector, depth, rerank=depth, filter=allowed, **how.chosen_margin)
    places = np.flatnonzero(ranked.ids[: ranked.counts] == point)
    return {
        "depth": depth,
        "candidate": bool((candidates.ids[: candidates.counts] == point).any()),
        "rank": int(places[0]) + 1 if len(places) else None,
        "distance": float(ranked.distances[places[0]]) if len(places) else None,
        "kth_distance": float(ranked.distances[min(how.k, ranked.counts) - 1]) if ranked.counts else None,
        "found": bool(len(places)) and int(places[0]) < how.k,
    }
