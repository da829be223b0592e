"""What a search returns: ids, distances, and what the search cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.metric import METRICS
from ..inputs.arrays import FloatArray


@dataclass(frozen=True)
class SearchStats:
    """Work of one call, summed over its queries."""

    queries: int
    rows: int  #: rows in the index
    cells: int  #: cells visited
    scanned: int  #: rows whose crude distance was looked at
    survivors: int  #: rows compared with the whole code
    #: table additions: one per visited cell, the crude columns of each scanned row, the rest of each survivor
    lookups: int
    seconds: float
    margin: str  #: the rule that ran, with its parameter
    threads: int  #: that had something to do
    simd: str
    reranked: int = 0  #: rows compared with kept originals, in a store that has some
    unlike: int = 0  #: queries too far from all rows for a calibrated margin, searched again exactly

    @classmethod
    def summed(cls, parts: Sequence[SearchStats]) -> SearchStats:
        """Of queries that were searched some at a time."""
        added = ("queries", "cells", "scanned", "survivors", "lookups", "seconds", "reranked", "unlike")
        sums = {name: sum(getattr(part, name) for part in parts) for name in added}
        return replace(parts[0], **sums, threads=max(part.threads for part in parts))

    @property
    def ops_per_vector(self) -> float:
        """Table additions per query and database vector, the paper's Average Ops."""
        return self.lookups / max(1, self.queries * self.rows)

    def two_step_ops(self, n_books: int, n_crude: int) -> float:
        """The same where every row pays for every crude book, as if there were no cells to skip or to share a sum."""
        return n_crude + (n_books - n_crude) * self.survivors / max(1, self.queries * self.rows)

    def __str__(self) -> str:
        total = max(1, self.queries * self.rows)
        reranked = f"{self.reranked} compared with originals, " if self.reranked else ""
        if self.unlike:
            reranked += f"{self.unlike} {'query' if self.unlike == 1 else 'queries'} searched again exactly, "
        return (
            f"{self.queries} queries x {self.rows} rows, margin {self.margin}: scanned {self.scanned / total:.1%}, "
            f"survivors {self.survivors / total:.3%}, {reranked}{self.ops_per_vector:.3f} ops per vector, "
            f"{self.seconds * 1e3:.2f} ms ({self.simd}, {self.threads} thread{'s' * (self.threads > 1)})"
        )


@dataclass(frozen=True, eq=False)
class Matches:
    """Hits of each query, best first; ``ids, distances = matches`` works.

    Queries with fewer than k hits are padded with id -1 (None for string ids) and distance inf; ``counts`` tells how
    many are real. A 1-D query gives 1-D arrays and an integer count.
    """

    ids: NDArray[Any]
    distances: FloatArray
    counts: Any
    stats: SearchStats
    metric: str = field(repr=False)

    @property
    def scores(self) -> FloatArray:
        """Distances in the metric's own sense: squared distance (l2), inner product (ip), cosine."""
        return _scores(self.distances, self.metric)

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

    @property
    def counts(self) -> NDArray[np.int64]:
        """Hits of each query."""
        return np.diff(self.offsets)

    @property
    def scores(self) -> FloatArray:
        """Distances in the metric's own sense, see :attr:`Matches.scores`."""
        return _scores(self.distances, self.metric)

    def __getitem__(self, query: int) -> tuple[NDArray[Any], FloatArray]:
        n = len(self)
        if not -n <= query < n:
            raise IndexError(f"query {query} of {n}")
        part = slice(self.offsets[query % n], self.offsets[query % n + 1])
        return self.ids[part], self.distances[part]

    def __len__(self) -> int:
        return len(self.offsets) - 1


def _scores(distances: FloatArray, metric: str) -> FloatArray:
    return METRICS[metric].scores(distances)
