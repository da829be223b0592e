"""Maximal marginal relevance: hits that are near the query and unlike each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..store import Snapshot
from .models import Mmr
from .problems import ProblemDetails, over_limit
from .searching import How, QueryHits, has_originals


def mmr_of(given: Any) -> Mmr | None:
    """What a query asks for, if it asks for this."""
    return Mmr.model_validate(given["mmr"]) if isinstance(given, dict) and given.get("mmr") is not None else None


def candidates(how: How, wanted: Mmr, most: int) -> How:
    """The search that finds the hits to choose from."""
    if how.offset:
        raise ProblemDetails(422, "input", "mmr takes no offset")
    n = max(how.k, wanted.candidates_limit or 100)
    if n > most:
        raise over_limit(422, "k", most, f"candidates_limit {n}")
    return How(n, 0, how.margin, None if how.rerank is None else max(how.rerank, n), how.recall)


def diversified(snapshot: Snapshot, hits: QueryHits, wanted: Mmr, k: int) -> QueryHits:
    """k of the hits, chosen one after the other: near the query, far from those chosen before."""
    diversity = 0.5 if wanted.diversity is None else wanted.diversity
    if len(hits.scores) <= 1:
        return hits
    vectors = snapshot.get(hits.ids, originals=has_originals(snapshot)).astype(np.float64)
    distance = hits.matches.metric == "l2"
    near = np.array(hits.scores) * (-1 if distance else 1)
    alike = _alike(vectors, hits.matches.metric)
    chosen = [int(np.argmax(near))]
    while len(chosen) < min(k, len(near)):
        value = (1 - diversity) * near - diversity * alike[:, chosen].max(1)
        value[chosen] = -np.inf
        chosen.append(int(np.argmax(value)))
    return QueryHits(hits.ids[chosen], [hits.scores[i] for i in chosen], hits.matches)


def _alike(x: NDArray[np.float64], metric: str) -> NDArray[np.float64]:
    """How near the rows are to each other, in the unit of the scores; larger is nearer."""
    if metric == "cosine":
        x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-30)
    products = x @ x.T
    if metric != "l2":
        return products
    squares = np.diag(products)
    return -np.sqrt(np.maximum(squares[:, None] + squares[None] - 2 * products, 0))
