"""What a search returns to users: ids, distances, and what the search cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.metric import METRICS
from ..engine.hits import RangeHits, RowHits, SearchStats
from ..engine.single import OneAnswer
from ..inputs.arrays import FloatArray
from .ids import Ids


@dataclass(frozen=True, eq=False)
class Matches:
    """Hits of each query, best first; ``ids, distances = matches`` works.

    Queries with fewer than k hits are padded with id -1 (None for string ids) and distance inf; ``counts`` says how
    many are real. A 1-D query gives 1-D arrays and an integer count.
    """

    ids: NDArray[Any]
    distances: FloatArray
    counts: Any
    stats: SearchStats
    metric: str = field(repr=False)

    @classmethod
    def of(cls, hits: RowHits, ids: Ids, metric: str, single: bool) -> Matches:
        """Rows with their ids; 1-D for a single query."""
        found = ids.take(hits.rows)
        if single:
            return cls(found[0], hits.distances[0], int(hits.counts[0]), hits.stats, metric)
        return cls(found, hits.distances, hits.counts, hits.stats, metric)

    @classmethod
    def of_one(cls, found: OneAnswer, offset: int, ids: Ids, metric: str, single: bool) -> Matches:
        """The same for one query in one call, without the first ``offset`` hits."""
        rows, distances, count = found.rows, found.distances, found.n_found
        if offset:
            rows, distances = rows[:, offset:], np.ascontiguousarray(distances[:, offset:])
            count = max(0, count - offset)
        taken = ids.take(rows)
        if single:
            return cls(taken[0], distances[0], count, found.stats, metric)
        return cls(taken, distances, np.array([count], np.int64), found.stats, metric)

    @property
    def scores(self) -> FloatArray:
        """Distances in the metric's own sense: squared distance (l2), inner product (ip), cosine."""
        return METRICS[self.metric].scores(self.distances)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        yield self.ids
        yield self.distances

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class RangeMatches:
    """All rows within a radius, for each query as many as there are: those of query i are offsets[i]:offsets[i + 1].

    ``matches[i]`` gives its ids and distances, nearest first, and iteration those of each query. One query alone is a
    list of one.
    """

    offsets: NDArray[np.int64]  #: [queries + 1], ascending from 0
    ids: NDArray[Any]  #: [hits]
    distances: FloatArray  #: [hits]
    stats: SearchStats
    metric: str = field(repr=False)

    @classmethod
    def of(cls, hits: RangeHits, ids: Ids, metric: str) -> RangeMatches:
        """Rows with their ids."""
        return cls(hits.offsets, ids.take(hits.rows), hits.distances, hits.stats, metric)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Hits of each query."""
        return np.diff(self.offsets)

    @property
    def scores(self) -> FloatArray:
        """Distances in the metric's own sense, see :attr:`Matches.scores`."""
        return METRICS[self.metric].scores(self.distances)

    def __getitem__(self, query: int) -> tuple[NDArray[Any], FloatArray]:
        n = len(self)
        if not -n <= query < n:
            raise IndexError(f"query {query} of {n}")
        part = slice(self.offsets[query % n], self.offsets[query % n + 1])
        return self.ids[part], self.distances[part]

    def __len__(self) -> int:
        return len(self.offsets) - 1
