"""Hits in groups by the value of a field: the best groups, and the best hits of each.

A search that finds too few groups is repeated for the rows of other groups, then one that finds too few hits of a group
for the rows of such groups. Every repetition finds or fills at least one group, or there are no more rows. What a
search finds of a group are its best rows, because the filter lets all rows of the group pass.
"""

from __future__ import annotations

import json
from typing import Any

from ...engine.hits import SearchStats
from ..problems import check_limit, unsupported
from ..requests import fields
from ..requests import ids as point_ids
from ..requests.models import QueryGroups
from ..requests.types import LIMIT
from . import rendering
from .collection import Collection
from .searching import How, QueryHits, search

FIRST = 100  # hits of a search, at least
Hits = list[tuple[Any, float]]  # ids and scores, best first


def grouped(collection: Collection, given: QueryGroups) -> tuple[str, list[SearchStats]]:
    """The groups as JSON, and what the searches cost."""
    limit, size = given.limit or LIMIT, given.group_size or 3
    limits = collection.settings.limits
    check_limit(limits, "k", limit * size, f"limit * group_size = {limit} * {size}")
    searches = _GroupSearch(collection, given, min(max(FIRST, 4 * limit * size), limits.k))
    groups: dict[Any, Hits] = {}
    unfinished: set[Any] = set()  # groups of which there may be more hits
    more = True
    while more and len(groups) < limit:
        found, more = searches.run("except", list(groups))
        groups.update(found)
        unfinished.update(found if more else ())
    chosen = dict(list(groups.items())[:limit])  # a search finds groups in the order of their best hits
    while lacking := [value for value, hits in chosen.items() if len(hits) < size and value in unfinished]:
        found, more = searches.run("any", lacking)
        chosen.update(found)
        unfinished.difference_update(() if more else lacking)
    return searches.rendered({value: hits[:size] for value, hits in chosen.items()}), searches.stats


class _GroupSearch:
    """Searches of one request, which differ only in their groups."""

    def __init__(self, collection: Collection, given: QueryGroups, k: int) -> None:
        if given.using:
            raise unsupported(f"the named vector {given.using!r} (using)")
        if isinstance(given.query, dict) and given.query.get("mmr") is not None:
            raise unsupported("mmr in groups")
        self._collection, self._given, self._snapshot = collection, given, collection.snapshot()
        self._field = fields.known(self._snapshot.columns, given.group_by, ("keyword", "integer"), "group_by")
        self._wanted, self._filter = collection.asked(self._snapshot, given)
        self._how = How.of(given, self._snapshot, collection.settings, k)
        self.stats: list[SearchStats] = []

    def run(self, how: str, values: list[Any]) -> tuple[dict[Any, Hits], bool]:
        """Hits in groups of ``any`` of some values, or of all values ``except`` some; whether there may be more."""
        condition = {"key": self._field.key, "match": {how: values}}
        both = [condition] if self._filter is None else [self._filter, condition]
        made = self._collection.condition(self._snapshot, {"must": both})
        matches = search(self._snapshot, self._wanted, self._how, made)
        self.stats.append(matches.stats)
        hits, named = QueryHits.of(matches, None, self._given.score_threshold), set(values)
        found: dict[Any, Hits] = {}
        for id, score, own in zip(hits.ids.tolist(), hits.scores, self._values(hits.ids), strict=True):
            for value in own:
                if (value in named) == (how == "any"):
                    found.setdefault(value, []).append((id, score))
        return found, len(hits.scores) == self._how.k

    def _values(self, ids: Any) -> list[list[Any]]:
        """The values of the field of each point."""
        if not len(ids):
            return []
        table = self._snapshot.payload(ids, self._field.names)
        values = [[] if value is None else [value] for value in table.column(self._field.key).to_pylist()]
        if self._field.has_lists:
            for i, text in enumerate(table.column(self._field.names[1]).to_pylist()):
                values[i] += [] if text is None else fields.decoded(text, self._field.kind)
        return values

    def rendered(self, groups: dict[Any, Hits]) -> str:
        """As JSON."""
        listed = [pair for hits in groups.values() for pair in hits]
        ids = point_ids.as_array([id for id, _ in listed])
        with_payload, with_vector = self._given.with_payload, self._given.with_vector
        scores, size = [score for _, score in listed], self._collection.answer_size()
        points = iter(rendering.points(self._snapshot, ids, with_payload, with_vector, size, scores))
        texts = [
            f'{{"id":{json.dumps(value)},"hits":[{",".join(next(points) for _ in hits)}]}}'
            for value, hits in groups.items()
        ]
        return f'{{"groups":[{",".join(texts)}]}}'
