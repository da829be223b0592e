"""What the page shows: what a search costs, what a margin buys, where rows and cells lie, what was learned.

Everything is computed on demand from a sample of bounded size.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...engine.rerank import rerank
from ...errors import InputError
from ...index.matches import Matches
from ...learn.prior import split_dimensions
from ...store import Snapshot
from ..collections.collection import Collection, id_array
from ..collections.rendering import stats
from ..collections.searching import How, QueryHits, filter_of, has_originals, query_input, search_any
from ..requests import ids as point_ids
from ..requests.filters import Condition
from ..requests.models import Explain, Query
from .sampling import sample_ids, vectors_of

TRIED, TIMES = 64, 3  # queries for a point of the curve, and how often they are timed
SCANNED, LONG = (
    16_000_000,
    0.1,
)  # rows that the queries of the curve scan together, seconds of a run that needs no other
#: Margins of the curve.
MARGINS: tuple[float | str, ...] = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, "exact", "inf")


def overview(found: Collection) -> dict[str, Any]:
    """Rows, bytes by part, cells, health and drift."""
    store, books = found.store, found.store.codebooks
    report, health = store.report(), found.health()
    return {
        "name": found.name,
        "rows": len(store),
        "dim": store.dim,
        "metric": store.metric,
        "originals": store.originals,
        "bytes": dataclasses.asdict(report) | {"total": report.total, "per_vector": report.code_bytes_per_vector},
        "cells": books.n_cells,
        "n_bytes": books.n_bytes,
        "layout": books.layout,
        "coded": not store.snapshot.collecting,
        "learn_at": None if store.snapshot.plan is None else store.snapshot.plan.learn_at,
        "health": dataclasses.asdict(health) | {"removed_share": health.removed_share, "advice": health.advice},
    }


def funnel(found: Collection, given: Query) -> dict[str, Any]:
    """One search, step by step: rows -> cells -> scanned -> survivors -> re-ranked -> hits, with times."""
    snapshot = found.snapshot()
    how = How.of(given.limit or 10, given.offset or 0, given.params, snapshot, found.settings)
    condition, wanted = found.condition(snapshot, given.filter), query_input(given.query, found.dim)
    began = time.perf_counter()
    filter_of(snapshot, condition)
    filtered = time.perf_counter()
    runs = [search_any(snapshot, wanted, how, condition) for _ in range(TIMES)]  # the first also fills caches
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
    by_code = search_any(
        snapshot, wanted, dataclasses.replace(how, k=depth, offset=0, rerank=None, recall=None), condition
    )
    rows = searcher.ids.rows_of(by_code.ids[: by_code.counts], "ids")[None]
    vector = vectors_of(snapshot, id_array([wanted])) if isinstance(wanted, int | str) else wanted[None]
    kept, metric = searcher.kept_vectors("rerank"), searcher.engine.codebooks.metric_type
    for _ in range(TIMES):
        began = time.perf_counter()
        rerank(kept, np.ascontiguousarray(vector, np.float32), rows, min(how.k, rows.size), metric)
        found.append(time.perf_counter() - began)
    return min(*found, whole.stats.seconds)


def explained(found: Collection, given: Explain) -> dict[str, Any]:
    """What a query does with one point, and at which step it is lost."""
    snapshot = found.snapshot()
    how = How.of(given.limit or 10, 0, given.params, snapshot, found.settings)
    wanted, point = query_input(given.query, found.dim), point_ids.to_store(given.id)
    vector = snapshot.get(wanted, originals=has_originals(snapshot)) if isinstance(wanted, int | str) else wanted
    more: dict[str, Any] = {} if how.margin is None else {"margin": how.margin}
    found_filter = filter_of(snapshot, found.condition(snapshot, given.filter))
    told = snapshot.explain(vector, point, how.k, filter=found_filter, **more)
    facts = {
        "text": str(told),
        "verdict": told.verdict,
        "rerank": _reranked(snapshot, vector, point, how, found_filter),
    }
    return {**dataclasses.asdict(told), **facts, "id": point_ids.from_store([told.id])[0]}


def _reranked(snapshot: Snapshot, vector: Any, point: int | str, how: How, allowed: Any) -> dict[str, Any] | None:
    """Where the point comes when hits are compared with originals; None if they are not."""
    if not how.rerank:
        return None
    more: dict[str, Any] = {} if how.margin is None else {"margin": how.margin}
    depth = min(how.rerank, max(1, len(snapshot)))
    candidates = snapshot.search(vector, depth, filter=allowed, **more)
    ranked = snapshot.search(vector, depth, rerank=depth, filter=allowed, **more)
    places = np.flatnonzero(ranked.ids[: ranked.counts] == point)
    return {
        "depth": depth,
        "candidate": bool((candidates.ids[: candidates.counts] == point).any()),
        "rank": int(places[0]) + 1 if len(places) else None,
        "distance": float(ranked.distances[places[0]]) if len(places) else None,
        "kth_distance": float(ranked.distances[min(how.k, ranked.counts) - 1]) if ranked.counts else None,
        "found": bool(len(places)) and int(places[0]) < how.k,
    }


def margins(found: Collection, k: int) -> dict[str, Any]:
    """What each margin costs and buys for rows of the collection as queries: agreement, recall, operations, time."""
    snapshot = found.snapshot()
    if not len(snapshot):
        return {"k": k, "queries": 0, "margins": []}
    queries = vectors_of(snapshot, sample_ids(snapshot, max(8, min(TRIED, SCANNED // len(snapshot)))))
    exhaustive = snapshot.search(queries, k, margin=float("inf"))
    true = None
    if has_originals(snapshot):
        true = snapshot.search(queries, k, margin="exact", rerank=max(k, min(len(snapshot), 2_000)))
    rows = []
    for margin in MARGINS:
        asked: Any = float("inf") if margin == "inf" else margin
        ran = snapshot.search(queries, k, margin=asked)
        if ran.stats.seconds < LONG:  # short ones again: the first also fills caches
            runs = [snapshot.search(queries, k, margin=asked) for _ in range(1, TIMES)]
            ran = min((ran, *runs), key=lambda run: run.stats.seconds)
        rows.append(
            {
                "margin": margin,
                "ran": ran.stats.margin,
                "agreement": _shared(ran.ids, exhaustive.ids),
                "recall": None if true is None else _shared(ran.ids, true.ids),
                "scanned": ran.stats.scanned / max(1, ran.stats.queries * ran.stats.rows),
                "survivors": ran.stats.survivors / max(1, ran.stats.queries * ran.stats.rows),
                "ops_per_vector": ran.stats.ops_per_vector,
                "seconds": ran.stats.seconds / max(1, ran.stats.queries),
            }
        )
    return {"k": k, "queries": len(queries), "margins": rows}


def _shared(a: NDArray[Any], b: NDArray[Any]) -> float:
    """The share of the hits of b that are among those of a."""
    each = [len(set(x) & set(y)) / max(1, len(y)) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    return float(np.mean(each))


def learned(found: Collection) -> dict[str, Any]:
    """Variances along the axes of the codebooks, psi and the prior, and the books with their energy."""
    books = found.store.codebooks
    if found.snapshot().collecting:
        return {"learned": False, "variances": [], "psi": [], "prior": None, "books": [], "layout": books.layout}
    variances = books.variances.astype(np.float64)
    psi, prior = np.isin(np.arange(len(variances)), books.crude_dims), None
    if len(variances) > 1 and variances.max() > 0:
        high, fitted = split_dimensions(variances)
        psi = psi if psi.any() else high
        values = np.geomspace(float(variances.max()) * 1e-4, float(variances.max()) * 1.5, 200)
        prior = {
            "variances": values.tolist(),
            "density": fitted.density(values).tolist(),
            "high_share": fitted.responsibilities(values).tolist(),
            "pi1": fitted.pi1,
            "pi2": fitted.pi2,
        }
    each = [
        {
            "book": i,
            "crude": i < books.n_crude,
            "words": len(book.words),
            "dims": book.support.tolist(),
            "energy": float((book.words.astype(np.float64) ** 2).sum(1).mean()),
        }
        for i, book in enumerate(books.books)
    ]
    return {
        "learned": True,
        "variances": variances.tolist(),
        "psi": psi.tolist(),
        "prior": prior,
        "books": each,
        "layout": books.layout,
        "n_crude": books.n_crude,
    }


def random_id(found: Collection) -> int | str:
    """The id of a random row."""
    ids = found.snapshot().ids
    if not len(ids):
        raise InputError("the collection has no points")
    return point_ids.from_store([ids[np.random.default_rng().integers(len(ids))]])[0]
