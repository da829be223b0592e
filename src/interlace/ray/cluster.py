"""An index in shards that actors on the nodes of a Ray cluster hold: the searches of an index, over all of them."""

from __future__ import annotations

import dataclasses
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from ..codec.space import Space
from ..engine.explaining import BEYOND, FILTER, FOUND, Explanation
from ..engine.margins import DEFAULT
from ..engine.options import SearchOptions, check_depth, check_recall
from ..errors import ClusterError, InputError, ShardUnavailableError, UnknownIdError
from ..index.id_values import as_id_array, is_id, shown_id
from ..inputs.arrays import positive, to_numpy
from ..inputs.literals import Margin
from .calls import ShardGroup, ask
from .holder import Options
from .manifest import ShardManifest
from .merging import ClusterMatches, ClusterRangeMatches, merged, merged_ranges
from .scaling import Reporter

#: Bytes of queries or filters from which they are put into the object store, once for each node.
LARGE = 1 << 16


class ClusterSearches(ABC):
    """The searches of :class:`interlace.Index` over groups of shards, each held by one or more actors.

    ``timeout`` is how long a call waits for shards of which no replica answers, in seconds. Then it raises
    :class:`interlace.ray.ShardUnavailableError`, or, with ``partial=True``, returns the hits of the other shards:
    ``matches.missing`` says which shards, and ``matches.missing_rows`` which rows, were not searched.
    """

    def __init__(
        self, space: Space, groups: Sequence[ShardGroup], timeout: float, reporter: Reporter | None = None
    ) -> None:
        self.space, self.groups, self.timeout = space, tuple(groups), timeout
        self._reporter = reporter
        self._closed = False

    @abstractmethod
    def _filters(self, filter: Any) -> list[Any]:
        """What each group gets of a filter."""

    @abstractmethod
    def _most_rows(self) -> float:
        """There are no more rows than these in all groups."""

    def search(
        self,
        q: Any,
        k: int = 10,
        *,
        offset: int = 0,
        margin: Margin | None = None,
        threads: int | None = None,
        filter: Any = None,
        embedded: bool = False,
        rerank: int | None = None,
        recall: float | None = None,
        timeout: float | None = None,
        partial: bool = False,
    ) -> ClusterMatches:
        """As :meth:`interlace.Index.search`; ``threads`` are those of each actor.

        ``margin="exact"`` gives the ids and distances of one index of all rows, bit for bit, with ``rerank`` too. A
        calibrated margin is kept by each group of shards, see docs/distributed.md.
        """
        started = time.perf_counter()
        checked = SearchOptions.checked(k, offset, DEFAULT if margin is None else margin, threads, rerank=rerank)
        depth = checked.k + checked.offset
        if recall is not None:
            check_recall(recall, rerank, margin)
        vectors, single = self.space.queries(q, embedded)
        by_itself = checked.rerank is not None and (len(self.groups) == 1 or checked.rerank >= self._most_rows())
        options = Options(depth, margin, threads, checked.rerank, recall, by_itself)
        sent = _shared(vectors)
        arguments = [("search", sent, options, mask) for mask in self._filters(filter)]
        found = self._ask(arguments, timeout, partial)
        parts = [part for part in found if part is not None]
        self._check_known(filter, [part.known for part in parts], len(parts))
        hits = merged(parts, checked.k, checked.offset, checked.rerank)
        stats = dataclasses.replace(hits.stats, seconds=time.perf_counter() - started)
        groups, missing = tuple(part.matches.stats for part in parts), _missing(self.groups, found)
        matches = ClusterMatches(hits.ids, hits.distances, hits.counts, stats, hits.metric, groups, **missing)
        return matches.first() if single else matches

    def search_by_id(
        self,
        ids: Any,
        k: int = 10,
        *,
        exclude_self: bool = True,
        offset: int = 0,
        margin: Margin | None = None,
        filter: Any = None,
        rerank: int | None = None,
        timeout: float | None = None,
    ) -> ClusterMatches:
        """As :meth:`interlace.Index.search_by_id`: of originals where they are kept, of codes with ``margin`` alone.

        A row is not its own neighbour unless ``exclude_self=False``.
        """
        if not isinstance(exclude_self, bool):
            raise InputError(f"exclude_self must be True or False, got {exclude_self!r}")
        k, offset = positive(k, "k"), positive(offset, "offset", least=0)
        if rerank is not None and exclude_self:
            rerank = check_depth(rerank, k + offset) + 1  # the row itself is one of them
        asked, skipped = (k + offset + 1, 0) if exclude_self else (k, offset)
        single = is_id(ids)
        wanted = as_id_array([ids] if single else ids, "ids")
        by_originals = True if rerank is not None else None if margin is None else False
        vectors = self.vectors(wanted, originals=by_originals, timeout=timeout)
        found = self.search(
            vectors, asked, offset=skipped, margin=margin, filter=filter, embedded=True, rerank=rerank, timeout=timeout
        )
        if exclude_self:
            found = found.without(wanted, offset)
        return found.first() if single else found

    def range_search(
        self,
        q: Any,
        radius: Any,
        *,
        margin: Margin = "exact",
        threads: int | None = None,
        filter: Any = None,
        embedded: bool = False,
        timeout: float | None = None,
        partial: bool = False,
    ) -> ClusterRangeMatches:
        """As :meth:`interlace.Index.range_search`."""
        vectors, _ = self.space.queries(q, embedded)
        sent = _shared(vectors)
        arguments = [("range_search", sent, radius, margin, threads, mask) for mask in self._filters(filter)]
        found = self._ask(arguments, timeout, partial)
        parts = [part for part in found if part is not None]
        self._check_known(filter, [known for _, known in parts], len(parts))
        hits = merged_ranges([matches for matches, _ in parts])
        groups = tuple(matches.stats for matches, _ in parts)
        return ClusterRangeMatches(
            hits.offsets, hits.ids, hits.distances, hits.stats, hits.metric, groups, **_missing(self.groups, found)
        )

    def explain(
        self,
        q: Any,
        id: int | str,
        k: int = 10,
        *,
        margin: Margin | None = None,
        filter: Any = None,
        embedded: bool = False,
        timeout: float | None = None,
    ) -> Explanation:
        """As :meth:`interlace.Index.explain`: what the group of the row did with it, and its rank among all rows."""
        vectors, _ = self.space.queries(q, embedded)
        if len(vectors) != 1:
            raise InputError(f"explain takes a single query, got {len(vectors)}")
        masks = self._filters(filter)
        asked = self._ask([("explain", vectors[0], id, k, margin, mask) for mask in masks], timeout, False)
        found = [one for (one,) in asked]
        at = next((i for i, one in enumerate(found) if one is not None), None)
        if at is None:
            raise UnknownIdError(f"id {shown_id(id)} is not in the index")
        local: Explanation = found[at]
        ranges = self._ask(
            [("range_search", vectors, local.distance, "exact", None, mask) for mask in masks], timeout, False
        )
        nearer = 0
        for i, (matches, _) in enumerate(ranges):
            if i != at:  # of rows at the same distance the earlier ones come first
                before = matches.distances <= local.distance if i < at else matches.distances < local.distance
                nearer += int(before.sum())
        rank = local.rank + nearer
        best = self.search(vectors[0], k, margin="exact", filter=filter, embedded=True, timeout=timeout)
        kth = float(best.distances[-1])
        changed: dict[str, Any] = {"rank": rank, "kth_distance": kth}
        if local.lost in (FOUND, BEYOND):
            lost = FOUND if rank <= k else BEYOND
            changed |= {"lost": lost, "by": 0.0 if lost == FOUND else local.distance - kth}
        if local.lost == FILTER:
            changed = {}
        return dataclasses.replace(local, **changed)

    def vectors(self, ids: Any, *, originals: bool | None = False, timeout: float | None = None) -> NDArray[np.float32]:
        """Decoded vectors of these ids [n, dim], or, with ``originals=True``, as they were kept; None: if they were."""
        wanted = as_id_array([ids] if isinstance(ids, int | str) else ids, "ids")
        found = self._ask([("vectors_of", wanted, originals)] * len(self.groups), timeout, False)
        out, known = np.empty((len(wanted), self.space.dim), np.float32), np.zeros(len(wanted), np.bool_)
        for here, vectors in found:
            out[here], known = vectors, known | here
        if not known.all():
            first = shown_id(wanted[int(np.argmin(known))])
            raise UnknownIdError(f"id {first} is not in the index ({int((~known).sum())} of {len(known)} unknown)")
        return out[0] if isinstance(ids, int | str) else out

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self.space.dim

    @property
    def metric(self) -> str:
        """``l2``, ``ip`` or ``cosine``."""
        return self.space.metric

    def nodes(self, timeout: float | None = None) -> list[dict[str, Any]]:
        """Where the replicas are that answer now: group, shards, rows, node, process and version of each."""
        found = []
        for number, group in enumerate(self.groups):
            for alone in group.alone():
                answer = ask([alone], [("ready",)], timeout=timeout or self.timeout, partial=True)[0]
                if answer is not None:
                    found.append({"group": number, "shards": list(group.numbers)} | answer)
        return found

    def check(self, timeout: float | None = None) -> None:
        """Raise ShardUnavailableError unless every shard has a replica that answers."""
        self._ask([("ready",)] * len(self.groups), timeout, False)

    def close(self) -> None:
        """End the actors. Other processes that hold this cluster cannot search any more."""
        self._closed = True
        if self._reporter is not None:
            ray.kill(self._reporter.scaler)
        for group in self.groups:
            for actor in group.actors:
                ray.kill(actor)

    # --- shared by all calls

    def _ask(self, arguments: Sequence[tuple[Any, ...]], timeout: float | None, partial: bool) -> list[Any]:
        seconds = self.timeout if timeout is None else as_seconds(timeout)
        self._check_open()
        found = ask(self.groups, arguments, timeout=seconds, partial=partial, report=self._reporter)
        if all(one is None for one in found):  # a partial result without any rows is no result
            shards = tuple(number for group in self.groups for number in group.numbers)
            raise ShardUnavailableError(f"no shard answered within {seconds:g} s", shards)
        return found

    def _check_open(self) -> None:
        if self._closed:
            raise ClusterError(f"{self!r} is closed")

    def _check_known(self, filter: Any, known: Sequence[Any], answered: int) -> None:
        """Raise UnknownIdError for ids of a filter that no group has; only where all groups have answered."""
        if filter is None or answered < len(self.groups) or any(one is None for one in known):
            return
        missing = ~np.logical_or.reduce(known)
        if missing.any():
            first = shown_id(as_id_array(filter, "filter")[int(np.argmax(missing))])
            raise UnknownIdError(f"id {first} is not in the index ({int(missing.sum())} of {len(missing)} unknown)")


class Cluster(ClusterSearches):
    """What :func:`interlace.ray.open` returns: the shards of a manifest. Nothing in it ever changes."""

    def __init__(
        self,
        manifest: ShardManifest,
        space: Space,
        groups: Sequence[ShardGroup],
        timeout: float,
        reporter: Reporter | None = None,
    ) -> None:
        super().__init__(space, groups, timeout, reporter)
        self.manifest = manifest

    def __len__(self) -> int:
        return self.manifest.rows

    def _most_rows(self) -> float:
        return len(self)

    def _filters(self, filter: Any) -> list[Any]:
        """What each group gets of a filter."""
        if filter is None:
            return [None] * len(self.groups)
        array = to_numpy(filter, "filter")
        if array.dtype == np.bool_:
            if array.shape != (len(self),):
                raise InputError(
                    f"filter as a mask must have one entry per row: {len(self)} expected, got shape {array.shape}"
                )
            return [_shared(array[group.first : group.first + group.rows]) for group in self.groups]
        if array.ndim != 1 or isinstance(filter, str):
            raise InputError("filter must be a boolean mask over all rows or a 1-D array of ids")
        ids = as_id_array(filter, "filter")
        return [ids] * len(self.groups)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        replicas = len(self.groups[0].actors)
        return f"Cluster({len(self)} rows, {len(self.manifest.shards)} shards, {len(self.groups)} groups x {replicas})"


def _missing(groups: Sequence[ShardGroup], found: Sequence[Any]) -> dict[str, Any]:
    """Which groups gave no answer."""
    silent = [group for group, one in zip(groups, found, strict=True) if one is None]
    return {
        "missing": tuple(number for group in silent for number in group.numbers),
        "missing_rows": tuple((group.first, group.rows) for group in silent if group.rows),
    }


def _shared(array: NDArray[Any]) -> Any:
    """A reference to a large array, which each node gets once; a small one as it is."""
    return ray.put(array) if array.nbytes >= LARGE else array


def as_seconds(timeout: Any) -> float:
    """A positive number of seconds."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise InputError(f"timeout must be a positive number of seconds, got {timeout!r}")
    return float(timeout)
