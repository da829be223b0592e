"""Hits of several groups of shards -> hits of all rows, as one index would give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.hits import SearchStats, but_own
from ..index.matches import Matches, RangeMatches
from .holder import GroupHits


@dataclass(frozen=True, eq=False)
class ClusterMatches(Matches):
    """:class:`Matches` of a cluster, with what each group of shards did, and what was not searched."""

    groups: tuple[SearchStats, ...] = ()  #: the stats of each group that was searched; ``stats`` is their sum
    missing: tuple[int, ...] = ()  #: numbers of shards that were not searched; empty unless ``partial=True``
    missing_rows: tuple[tuple[int, int], ...] = ()  #: the first row, and the number of rows, of each group of these

    def first(self) -> ClusterMatches:
        """The hits of the first query, 1-D."""
        return replace(self, ids=self.ids[0], distances=self.distances[0], counts=int(self.counts[0]))

    def without(self, own: NDArray[Any], offset: int) -> ClusterMatches:
        """Without the id ``own[i]`` among the hits of query i (the last hit where it is not), and without the first
        ``offset`` of the others."""
        others, shape = but_own(self.ids, own), (len(self.ids), self.ids.shape[1] - 1)
        counts = np.minimum(self.counts - (self.ids == own[:, None]).any(1), shape[1])
        return replace(
            self,
            ids=self.ids[others].reshape(shape)[:, offset:],
            distances=self.distances[others].reshape(shape)[:, offset:],
            counts=np.maximum(counts - offset, 0),
        )


@dataclass(frozen=True, eq=False)
class ClusterRangeMatches(RangeMatches):
    """:class:`RangeMatches` of a cluster, with the same additions."""

    groups: tuple[SearchStats, ...] = ()
    missing: tuple[int, ...] = ()
    missing_rows: tuple[tuple[int, int], ...] = ()


def merged(parts: Sequence[GroupHits], k: int, offset: int, rerank: int | None) -> Matches:
    """The k best hits after the first ``offset``. Parts are in the order of their rows, which decides between ties."""
    distances = np.concatenate([_distances(part, i, parts, rerank, k + offset) for i, part in enumerate(parts)], 1)
    ids = np.concatenate([part.matches.ids for part in parts], 1)
    order = np.argsort(distances, axis=1, kind="stable")[:, offset : offset + k]
    distances = _widened(np.take_along_axis(distances, order, 1), k, np.float32(np.inf))
    ids = _widened(np.take_along_axis(ids, order, 1), k, None if ids.dtype == object else -1)
    hit = np.isfinite(distances)
    ids[~hit] = None if ids.dtype == object else -1
    stats = summed([part.matches.stats for part in parts])
    return Matches(ids, distances, hit.sum(1), stats, parts[0].matches.metric)


def _distances(
    part: GroupHits, number: int, parts: Sequence[GroupHits], rerank: int | None, k: int
) -> NDArray[np.float32]:
    """Those of a part; with a re-rank, inf for rows that are not among the ``rerank`` best of all parts by code."""
    if rerank is None or part.by_code is None or part.places is None:
        return part.matches.distances
    by_code = [one.by_code for one in parts if one.by_code is not None]
    order = np.argsort(np.concatenate(by_code, 1), axis=1, kind="stable")[:, : max(rerank, k)]
    starts = np.cumsum([0, *(one.shape[1] for one in by_code)])
    own = ((order >= starts[number]) & (order < starts[number + 1])).sum(1)  # of this part: its first ones by code
    return np.asarray(np.where(part.places < own[:, None], part.matches.distances, np.float32(np.inf)))


def _widened(array: NDArray[Any], k: int, filler: Any) -> NDArray[Any]:
    """At least k columns: padded where all parts together have fewer."""
    if array.shape[1] >= k:
        return array
    wide = np.full((len(array), k), filler, array.dtype)
    wide[:, : array.shape[1]] = array
    return wide


def merged_ranges(parts: Sequence[RangeMatches]) -> RangeMatches:
    """All hits of each query, nearest first; ties in the order of the rows."""
    n = len(parts[0])
    query = np.concatenate([np.repeat(np.arange(n), part.counts) for part in parts])
    distances = np.concatenate([part.distances for part in parts])
    ids = np.concatenate([part.ids for part in parts])
    order = np.lexsort((np.arange(len(query)), distances, query))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(query, minlength=n))]).astype(np.int64)
    return RangeMatches(offsets, ids[order], distances[order], summed([p.stats for p in parts]), parts[0].metric)


def summed(stats: Sequence[SearchStats]) -> SearchStats:
    """Work of all groups for the same queries."""
    labels = {one.margin for one in stats}
    return replace(
        SearchStats.summed(stats),
        queries=stats[0].queries,
        rows=sum(one.rows for one in stats),
        seconds=max(one.seconds for one in stats),
        threads=sum(one.threads for one in stats),
        margin=labels.pop() if len(labels) == 1 else " / ".join(one.margin for one in stats),
    )
