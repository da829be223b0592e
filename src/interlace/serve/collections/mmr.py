"""Maximal marginal relevance: hits that are near the query and unlike each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...codec.metric import METRICS, Metric
from ...store import Snapshot
from ..problems import bad_input, check_limit
from ..requests.models import Mmr
from ..settings import RequestLimits
from .searching import How, QueryHits, vectors_of


def mmr_of(given: Any) -> Mmr | None:
    """What a query asks for, if it asks for this."""
    return Mmr.model_validate(given["mmr"]) if isinstance(given, dict) and given.get("mmr") is not None else None


def candidates(how: How, wanted: Mmr, limits: RequestLimits) -> How:
    """The search that finds the hits to choose from."""
    if how.offset:
        raise bad_input("mmr takes no offset")
    n = max(how.k, wanted.candidates_limit or 100)
    check_limit(limits, "k", n, f"candidates_limit {n}")
    return replace(how, k=n, rerank=None if how.rerank is None else max(how.rerank, n))


def diversified(snapshot: Snapshot, hits: QueryHits, wanted: Mmr, k: int) -> QueryHits:
    """k of the hits, chosen one after the other: near the query, far from those chosen before."""
    diversity = 0.5 if wanted.diversity is None else wanted.diversity
    if len(hits.scores) <= 1:
        return hits
    vectors = vectors_of(snapshot, hits.ids).astype(np.float64)
    metric = METRICS[hits.matches.metric]
    near = np.array(hits.scores) * (1 if metric.larger_is_better else -1)
    alike = _Alike(vectors, metric)
    chosen = [int(np.argmax(near))]
    nearest = alike.to(chosen[0])  # of the chosen ones, for each hit
    while len(chosen) < min(k, len(near)):
        value = (1 - diversity) * near - diversity * nearest
        value[chosen] = -np.inf
        chosen.append(int(np.argmax(value)))
        np.maximum(nearest, alike.to(chosen[-1]), out=nearest)
    return QueryHits(hits.ids[chosen], [hits.scores[i] for i in chosen], hits.matches)


class _Alike:
    """How near rows are to each other, in the unit of the scores; larger is nearer. Never all pairs at once."""

    def __init__(self, x: NDArray[np.float64], metric: Metric) -> None:
        if metric.is_normalized:
            x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-30)
        self._x, self._squares = x, np.einsum("ij,ij->i", x, x) if metric.is_euclidean else None

    def to(self, row: int) -> NDArray[np.float64]:
        """Of all rows to one of them."""
        products: NDArray[np.float64] = self._x @ self._x[row]
        if self._squares is None:
            return products
        squares: NDArray[np.float64] = self._squares + self._squares[row] - 2 * products
        return -np.sqrt(np.maximum(squares, 0))
