"""What the page shows: what a search costs, what a margin buys, where rows and cells lie, what was learned.

Everything is computed on demand from a sample of bounded size.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.encode import encode
from ..errors import InputError
from ..learn.prior import split_dimensions
from ..store import Snapshot
from . import ids as point_ids
from .collection import Collection, id_array
from .models import Explain, Query
from .rendering import stats
from .searching import How, QueryHits, filter_of, has_originals, query_input, search, search_any

SAMPLE = 2_000  # rows of the map
TRIED = 64  # queries for a point of the curve
#: Margins of the curve.
MARGINS: tuple[float | str, ...] = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, "exact", "inf")


def overview(found: Collection) -> dict[str, Any]:
    """Rows, bytes by part, cells, health and drift."""
    store, books = found.store, found.store.codebooks
    report, health = store.report(), store.health()
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
    by_code = dataclasses.replace(how, rerank=None, recall=None) if how.rerank or how.recall else how
    crude = search_any(snapshot, wanted, by_code, condition)
    whole = crude if by_code is how else search_any(snapshot, wanted, how, condition)
    hits = QueryHits.of(whole, None, given.score_threshold)
    distances = whole.distances[: len(hits.scores)].tolist()
    return {
        "steps": {
            "rows": len(snapshot),
            "cells": found.store.codebooks.n_cells,
            "cells_visited": crude.stats.cells,
            "scanned": crude.stats.scanned,
            "survivors": crude.stats.survivors,
            "reranked": whole.stats.reranked,
            "hits": len(hits.scores),
        },
        "seconds": {
            "filter": filtered - began,
            "codes": crude.stats.seconds,
            "originals": max(0.0, whole.stats.seconds - crude.stats.seconds) if whole is not crude else 0.0,
        },
        "stats": stats(whole.stats),
        "points": [
            {"id": i, "score": score, "distance": distance}
            for i, score, distance in zip(point_ids.from_store(hits.ids), hits.scores, distances, strict=True)
        ],
    }


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
    queries = _vectors(snapshot, _sample(snapshot, TRIED))
    exhaustive = snapshot.search(queries, k, margin=float("inf"))
    true = None
    if has_originals(snapshot):
        true = snapshot.search(queries, k, margin="exact", rerank=max(k, min(len(snapshot), 2_000)))
    rows = []
    for margin in MARGINS:
        ran = snapshot.search(queries, k, margin=float("inf") if margin == "inf" else margin)  # type: ignore[arg-type]
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


def sampled_map(found: Collection, n: int, query: Any, k: int) -> dict[str, Any]:
    """A sample of the rows in two dimensions, their principal axes, with their cells; and a query with its hits."""
    snapshot, coded = found.snapshot(), found.store.health().state == "learned"
    if not len(snapshot):
        return {"points": [], "cells": [], "variance": [0.0, 0.0], "query": None}
    ids = _sample(snapshot, min(n, SAMPLE))
    vectors = _vectors(snapshot, ids)
    mean = vectors.mean(0)
    _, strengths, axes = np.linalg.svd(vectors - mean, full_matrices=False)
    axes = np.concatenate([axes, np.zeros((2, vectors.shape[1]), np.float32)])[:2]
    plane, cells = (vectors - mean) @ axes.T, _cells(found, vectors) if coded else np.zeros(len(ids), np.int64)
    share = (strengths[:2] ** 2 / max(float((strengths**2).sum()), 1e-30)).tolist()
    marked = None
    if query is not None:
        marked = _marked(found, snapshot, query, k, coded)
        marked["at"] = ((np.array(marked.pop("vector")) - mean) @ axes.T).tolist()
        hits = _vectors(snapshot, id_array([point_ids.to_store(i) for i in marked["hits"]]))
        marked["hits_at"] = ((hits - mean) @ axes.T).tolist()
    return {
        "points": [
            {"id": i, "x": x, "y": y, "cell": cell}
            for i, (x, y), cell in zip(point_ids.from_store(ids), plane.tolist(), cells.tolist(), strict=True)
        ],
        "cells": [
            {"cell": int(cell), "rows": int((cells == cell).sum()), "at": plane[cells == cell].mean(0).tolist()}
            for cell in np.unique(cells)
        ],
        "variance": [*share, 0.0, 0.0][:2],
        "query": marked,
    }


def _marked(found: Collection, snapshot: Snapshot, query: Any, k: int, coded: bool) -> dict[str, Any]:
    """What a query found: hits, the rows that were compared with originals, and the cells that were visited."""
    wanted, how = query_input(query, found.dim), How.of(k, 0, None, snapshot, found.settings)
    vector = _vectors(snapshot, id_array([wanted]))[0] if isinstance(wanted, int | str) else wanted
    if found.store.metric == "cosine":
        vector = vector / max(float(np.linalg.norm(vector)), 1e-30)
    matches = search(snapshot, vector, how)
    by_code = search(snapshot, vector, How(max(how.rerank or 0, k)))
    books, visited = found.store.codebooks, list[int]()
    if coded:
        order = np.argsort(books.bases(np.ascontiguousarray(vector[None], np.float32))[0], kind="stable")
        visited = order[: by_code.stats.cells].tolist()  # cells are visited in the order of their bases
    return {
        "vector": vector.tolist(),
        "hits": point_ids.from_store(matches.ids[: matches.counts]),
        "candidates": point_ids.from_store(by_code.ids[: by_code.counts]),
        "visited": visited,
    }


def _cells(found: Collection, vectors: NDArray[Any]) -> NDArray[np.int64]:
    """The cell of each vector."""
    books = found.store.codebooks
    return books.split_codes(encode(books, np.ascontiguousarray(vectors, np.float32), 1))[0]


def learned(found: Collection) -> dict[str, Any]:
    """Variances along the axes of the codebooks, psi and the prior, and the books with their energy."""
    books, coded = found.store.codebooks, found.store.health().state == "learned"
    if not coded:
        return {"learned": False, "variances": [], "psi": [], "prior": None, "books": [], "layout": books.layout}
    variances = books.variances.astype(np.float64)
    psi, prior = np.isin(np.arange(len(variances)), books.crude_dims), None
    if len(variances) > 1 and variances.max() > 0:
        high, fitted = split_dimensions(variances)
        psi = psi if psi.any() else high
        values = np.linspace(0, float(variances.max()) * 1.05, 200)
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


def _sample(snapshot: Snapshot, n: int) -> NDArray[Any]:
    """Ids of n rows, the same each time."""
    ids = snapshot.ids
    if len(ids) <= n:
        return ids
    return ids[np.sort(np.random.default_rng(0).choice(len(ids), n, replace=False))]


def _vectors(snapshot: Snapshot, ids: NDArray[Any]) -> NDArray[Any]:
    return snapshot.get(ids, originals=has_originals(snapshot))


def random_id(found: Collection) -> int | str:
    """The id of a random row."""
    ids = found.snapshot().ids
    if not len(ids):
        raise InputError("the collection has no points")
    return point_ids.from_store([ids[np.random.default_rng().integers(len(ids))]])[0]
