"""A query of a request -> a search of a snapshot -> hits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...codec.metric import METRICS
from ...engine.margins import DEFAULT
from ...index.matches import Matches
from ...inputs.literals import Margin
from ...store import Snapshot
from ..problems import bad_input, check_limit, unsupported
from ..requests import ids as point_ids
from ..requests.filters import Condition, matching
from ..requests.frequent import ExpressParams, ExpressQuery
from ..requests.models import Explain, Query, QueryGroups, SearchParams
from ..requests.types import LIMIT
from ..settings import RequestLimits, ServerSettings

FloatArray = NDArray[np.float32]
Asked = Query | QueryGroups | Explain | ExpressQuery


@dataclass(frozen=True)
class How:
    """Everything about a search but its queries and its filter; equal ones can run as one batch."""

    k: int
    offset: int = 0
    margin: Margin | None = None
    rerank: int | None = None
    recall: float | None = None

    @classmethod
    def of(cls, given: Asked, snapshot: Snapshot, settings: ServerSettings, k: int | None = None) -> How:
        """From a request, ``k`` in place of its limit."""
        return cls.among(given, len(snapshot), has_originals(snapshot), settings.limits, k)

    @classmethod
    def among(cls, given: Asked, n: int, kept: bool, limits: RequestLimits, k: int | None = None) -> How:
        """The same among n rows, whose originals are kept or not."""
        k, offset = k or given.limit or LIMIT, given.offset or 0
        check_limit(limits, "k", k + offset, f"limit + offset = {k + offset}")
        params = given.params or SearchParams()
        recall, rerank = params.recall, params.rerank
        margin: Any = float("inf") if params.margin == "inf" else params.margin
        if recall is not None:
            if margin is not None or rerank is not None or params.exact:
                raise bad_input("params: recall chooses margin and rerank; pass either it or them")
            return cls(k, offset, None, None, recall)
        if rerank is None and kept:
            rerank = _depth(k + offset, params, max(1, n))
        if margin is None and (params.exact or rerank == 0):
            margin = "exact" if params.exact else DEFAULT
        return cls(k, offset, margin, max(rerank, k + offset) if rerank else None)

    def resolved(self, snapshot: Snapshot) -> How:
        """The same with the margin and the depth that a target recall, or none of the three, stands for."""
        if snapshot.collecting:
            return self
        found = snapshot.searcher.options(self.k, self.offset, self.margin, 1, None, self.rerank, self.recall)
        return replace(self, margin=found.margin, rerank=found.rerank, recall=None)


def check_hits(n: int, k: Any, offset: Any, limits: RequestLimits) -> None:
    """Raise a problem for more queries or hits than the server allows."""
    check_limit(limits, "batch", n, f"{n} queries")
    if isinstance(k, int) and isinstance(offset, int):
        check_limit(limits, "k", k + offset, f"k + offset = {k + offset}")
        check_limit(limits, "hits", n * (k + offset), f"{n} queries for {k + offset} hits each")


def has_originals(snapshot: Snapshot) -> bool:
    """Whether hits can be compared with the vectors themselves."""
    return snapshot.searcher.originals is not None


def vectors_of(snapshot: Snapshot, ids: Any) -> NDArray[Any]:
    """The vectors of ids [n], or of one id; decoded ones where originals are not kept."""
    return snapshot.get(ids, originals=has_originals(snapshot))


def _depth(k: int, params: SearchParams | ExpressParams, n: int) -> int | None:
    """Rows to compare with their originals, as Qdrant's parameters ask for; 0 for none, None where they do not say."""
    quantization = params.quantization
    if params.exact or (quantization is not None and quantization.ignore):
        return n
    if quantization is not None and quantization.rescore is False:
        return 0
    if quantization is not None and quantization.oversampling is not None:
        return int(np.ceil(min(quantization.oversampling * k, n)))
    return None


def search(
    snapshot: Snapshot,
    wanted: FloatArray | int | str,
    how: How,
    condition: Condition | None = None,
    threads: int | None = None,
) -> Matches:
    """The hits of queries [n, dim], of a single one [dim], or of the point with an id, without itself."""
    is_id = isinstance(wanted, int | str)
    call: Any = snapshot.search_by_id if is_id else snapshot.search
    found: Matches = call(
        wanted,
        how.k,
        offset=how.offset,
        threads=1 if is_id else threads,
        filter=filter_of(snapshot, condition),
        rerank=how.rerank,
        recall=how.recall,
        margin=how.margin,
    )
    return found


def filter_of(snapshot: Snapshot, condition: Condition | None) -> Any:
    """What the store takes: an expression over its columns, which it caches; a mask if it is large or has ids."""
    if condition is None:
        return None
    as_mask = condition.uses_ids or condition.is_large or not condition.columns
    return mask_of(snapshot, condition) if as_mask else condition.expression


def mask_of(snapshot: Snapshot, condition: Condition) -> NDArray[np.bool_]:
    """A mask over the rows in insertion order."""
    table = snapshot.payload(columns=list(condition.columns)) if condition.columns else None
    return matching(condition, table, snapshot.ids)


def query_input(given: Any, dim: int) -> FloatArray | int | str:
    """The vector or the id that a request asks for."""
    if isinstance(given, dict) and given:
        if given.keys() - {"nearest", "mmr"} or "nearest" not in given:
            kinds = ", ".join(sorted(map(str, given)))
            raise unsupported(f"a query with {kinds:.80}, other than nearest,")
        given = given["nearest"]
    if given is None or given == {}:
        raise bad_input("query is missing: pass a vector or the id of a point")
    if isinstance(given, int | str) and not isinstance(given, bool):
        return point_ids.to_store(given)
    return as_vector(given, dim, "query")


def as_vector(given: Any, dim: int, name: str) -> FloatArray:
    """float32 [dim]."""
    vector: FloatArray = as_vectors([given], dim, lambda _: name)[0]
    return vector


def as_vectors(given: list[Any], dim: int, name: Callable[[int], str]) -> FloatArray:
    """float32 [n, dim]; the error names the first that does not fit, by its number."""
    if not given:
        return np.zeros((0, dim), np.float32)
    try:
        with np.errstate(all="ignore"):  # too large a number becomes infinite, which the library refuses
            found = np.array(given, np.float32)
    except (ValueError, TypeError, OverflowError):
        found = np.empty(0, np.float32)
    if found.shape != (len(given), dim):
        for i, vector in enumerate(given):
            if not isinstance(vector, list) or not all(isinstance(v, int | float) for v in vector):
                raise unsupported(f"{name(i)} that is not one list of numbers")
            if not vector:
                raise bad_input(f"{name(i)} is empty: it must have {dim} numbers, as the collection has")
            if len(vector) != dim:
                raise bad_input(f"{name(i)} must have {dim} dimensions, as the collection has, got {len(vector)}")
        raise bad_input(f"{name(0)} must be a list of {dim} numbers")
    return found


def shown_scores(matches: Matches) -> FloatArray:
    """Scores as answers have them: for l2 the distance itself."""
    scores: FloatArray = matches.scores
    return np.sqrt(np.maximum(scores, 0)) if METRICS[matches.metric].is_euclidean else scores


@dataclass(frozen=True)
class QueryHits:
    """The hits of one query; distances as the store has them."""

    ids: NDArray[Any]
    scores: list[float]
    matches: Matches  #: of the whole batch, for its statistics

    @classmethod
    def of(cls, matches: Matches, query: int | None, threshold: float | None) -> QueryHits:
        """Of a single query (None), or of one of a batch; without those worse than a threshold."""
        count = matches.counts if query is None else int(matches.counts[query])
        scores = shown_scores(matches) if query is None else shown_scores(matches)[query]
        return cls.chosen(matches, matches.ids if query is None else matches.ids[query], scores, count, threshold)

    @classmethod
    def chosen(
        cls, matches: Matches, ids: NDArray[Any], scores: FloatArray, count: int, threshold: float | None
    ) -> QueryHits:
        """The first ``count`` of a query, without those worse than a threshold; scores as answers have them."""
        ids, scores = ids[:count], scores[:count]
        if threshold is not None:
            good = scores >= threshold if METRICS[matches.metric].larger_is_better else scores <= threshold
            ids, scores = ids[good], scores[good]
        return cls(ids, scores.tolist(), matches)
