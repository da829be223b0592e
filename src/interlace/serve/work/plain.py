"""Plain queries, by vector and without a filter: single ones that arrive together run as one search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import InterlaceError
from ...index.matches import Matches
from ...store import Snapshot
from ..collections import rendering
from ..collections.answer_size import AnswerSize
from ..collections.collection import Collection
from ..collections.searching import How, QueryHits, as_vectors, search, shown_scores
from ..problems import ProblemDetails
from ..requests.frequent import ExpressQuery
from ..requests.models import Query
from .metrics import Metrics

PlainQuery = Query | ExpressQuery  #: with a list of numbers


class PlainBatch:
    """Searches queries that differ in nothing but their vectors, thresholds, and what is shown of their hits."""

    def __init__(self, collection: Collection, metrics: Metrics) -> None:
        self._collection, self._metrics = collection, metrics

    def __call__(self, given: Sequence[PlainQuery]) -> list[Any]:
        """A JSON list of hits for each, or an exception."""
        if len(given) == 1:
            return [self._alone(given[0])]
        try:
            return self._searched(given)
        except (InterlaceError, ProblemDetails):  # of one of them, or their answers are too large together
            return [self._alone(each) for each in given]

    def _alone(self, given: PlainQuery) -> Any:
        try:
            return self._searched([given])[0]
        except Exception as error:
            self._collection.note(error)
            return error

    def _searched(self, given: Sequence[PlainQuery]) -> list[str]:
        found, single = self._collection, len(given) == 1
        snapshot = found.snapshot()
        how = How.of(given[0], snapshot, found.settings)
        vectors = as_vectors([each.query for each in given], found.dim, lambda _: "query")
        matches = search(snapshot, vectors[0] if single else vectors, how, None, 1)
        self._metrics.searched(found.name, matches.stats)
        size = found.answer_size()
        if single:
            one = QueryHits.of(matches, None, given[0].score_threshold)
            return rendering.hits(snapshot, [one], given[0].with_payload, given[0].with_vector, size)
        return _rendered(snapshot, matches, given, size)


def _rendered(snapshot: Snapshot, matches: Matches, given: Sequence[PlainQuery], size: AnswerSize) -> list[str]:
    """Those that show the same of their hits at once."""
    if not any(each.with_payload or each.with_vector or each.score_threshold is not None for each in given):
        found = rendering.plain_hits(matches)
        if found is not None:
            return found
    groups: dict[str, list[int]] = {}
    for i, each in enumerate(given):
        groups.setdefault(f"{each.with_payload!r} {each.with_vector!r}", []).append(i)
    texts = [""] * len(given)
    scores = shown_scores(matches)
    for members in groups.values():
        hits = [
            QueryHits.chosen(matches, matches.ids[i], scores[i], int(matches.counts[i]), given[i].score_threshold)
            for i in members
        ]
        first = given[members[0]]
        rendered = rendering.hits(snapshot, hits, first.with_payload, first.with_vector, size)
        for i, text in zip(members, rendered, strict=True):
            texts[i] = text
    return texts
