"""An actor that holds some shards: it opens their files when it is first asked, also after Ray has restarted it."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from .. import _version
from ..engine.explaining import Explanation
from ..engine.rerank import rerank
from ..errors import InputError
from ..index.id_values import as_id_array, is_id
from ..index.index import Index
from ..index.matches import Matches, RangeMatches
from ..index.searcher import Searcher
from . import places
from .joining import joined
from .manifest import CALIBRATION, ShardManifest
from .runtime import Failed


@dataclass(frozen=True)
class Options:
    """Options of one search, as every holder gets them."""

    k: int
    margin: Any
    threads: int | None
    rerank: int | None = None
    recall: float | None = None
    #: With a re-rank: the rows that a holder compares do not depend on other holders, so that its k best will do.
    by_itself: bool = False


@dataclass(frozen=True, eq=False)
class GroupHits:
    """The hits of one holder."""

    matches: Matches
    #: With a re-rank that depends on other holders: distances by code [queries, depth], ascending, and the place of
    #: each hit among them.
    by_code: NDArray[np.float32] | None = None
    places: NDArray[np.int64] | None = None
    #: Which ids of the filter are rows of this holder; None without a filter by ids.
    known: NDArray[np.bool_] | None = None


class Holding(ABC):
    """Rows that one actor searches. Every call returns its answer, or its exception as :class:`Failed`."""

    def __init__(self, threads: int | None) -> None:
        self._threads = threads
        self._working: set[str] = set()  # calls

    @property
    @abstractmethod
    def searcher(self) -> Searcher:
        """The rows, ready to be searched."""

    def ask(self, call: str, *arguments: Any, name: str = "") -> Any:
        """One of the calls below; large arguments are references to objects of Ray."""
        self._working.add(name)
        try:
            method: Callable[..., Any] = getattr(self, call)
            return method(*(ray.get(one) if isinstance(one, ray.ObjectRef) else one for one in arguments))
        except Exception as error:
            return Failed(error)
        finally:
            self._working.discard(name)

    def works_on(self, name: str) -> bool:
        """A sign of life, from a thread of its own: whether the call of this name is being worked on."""
        return name in self._working

    def ready(self) -> dict[str, Any]:
        """Open the files; where this is."""
        node, rows = ray.get_runtime_context().get_node_id(), self.searcher.engine.n_kept
        return {"rows": rows, "node": node, "process": os.getpid(), "version": _version.__version__}

    def answered(self, call: str, *arguments: Any) -> tuple[Any]:
        """A call that may return None, which stands for no answer elsewhere."""
        return (getattr(self, call)(*arguments),)

    def search(self, vectors: NDArray[np.float32], options: Options, filter: Any) -> GroupHits:
        """The best hits of these rows; with a re-rank that depends on other holders as many as it compares.

        ``filter`` is a mask over the rows of this group, an array of ids of any rows, or, for stores, an expression.
        """
        searcher = self.searcher
        allowed, known = _allowed(searcher, filter)
        threads = options.threads or (self._threads if len(vectors) > 1 else 1)
        if options.rerank is not None and not options.by_itself:
            return _reranked(searcher, vectors, options, allowed, known, threads)
        matches = searcher.search(
            vectors,
            options.k,
            margin=options.margin,
            threads=threads,
            filter=allowed,
            embedded=True,
            rerank=options.rerank,
            recall=options.recall,
        )
        return GroupHits(matches, known=known)

    def range_search(
        self, vectors: NDArray[np.float32], radius: Any, margin: Any, threads: int | None, filter: Any
    ) -> tuple[RangeMatches, NDArray[np.bool_] | None]:
        """All rows within the radius."""
        searcher = self.searcher
        allowed, known = _allowed(searcher, filter)
        found = searcher.range_search(
            vectors, radius, margin=margin, threads=threads or self._threads, filter=allowed, embedded=True
        )
        return found, known

    def explain(
        self, vector: NDArray[np.float32], id: Any, k: int, margin: Any, filter: Any
    ) -> tuple[Explanation | None]:
        """As if there were no other rows; (None,) if the id is not here."""
        if not is_id(id):
            raise InputError(f"id must be an integer or a string, got {id!r:.60}")
        searcher = self.searcher
        if not searcher.ids.contains(id):
            return (None,)
        allowed, _ = _allowed(searcher, filter)
        return (searcher.explain(vector, id, k, margin=margin, filter=allowed, embedded=True),)

    def vectors_of(self, ids: Any, originals: bool | None) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Which ids are here, and the vectors of these: decoded, or as they were kept."""
        searcher = self.searcher
        rows = searcher.ids.find(as_id_array(ids, "ids"))
        here = rows >= 0
        if originals or (originals is None and searcher.originals is not None):
            return here, searcher.kept_vectors("originals").take(rows[here])
        return here, searcher.engine.decode(rows[here])


class Holder(Holding):
    """Consecutive shards of a manifest as one index."""

    def __init__(
        self, manifest: ShardManifest, numbers: tuple[int, ...], threads: int | None, cache: str | None
    ) -> None:
        super().__init__(threads)
        self._manifest, self._numbers, self._cache = manifest, numbers, cache
        self._lock = threading.Lock()
        self._opened: Index | None = None

    @property
    def searcher(self) -> Searcher:
        """The shards, opened once."""
        with self._lock:
            if self._opened is None:
                manifest = self._manifest
                indexes = [manifest.open_shard(number, self._cache) for number in self._numbers]
                calibration = None
                if manifest.calibrated and (len(indexes) > 1 or indexes[0].calibration is None):
                    path = places.fetched(manifest.file(CALIBRATION), self._cache, manifest.key[:16])
                    calibration = Index.open(path).calibration
                self._opened = joined(indexes, calibration)
            return self._opened.searcher


def _allowed(searcher: Searcher, filter: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    """What a searcher takes as a filter; which of the ids are here, if the filter is ids."""
    if filter is None or isinstance(filter, str) or (isinstance(filter, np.ndarray) and filter.dtype == np.bool_):
        return filter, None
    rows = searcher.ids.find(as_id_array(filter, "filter"))
    mask = np.zeros(searcher.engine.n_rows, np.uint8)
    mask[rows[rows >= 0]] = 1
    return searcher.engine.allow(mask), rows >= 0


def _reranked(
    searcher: Searcher, vectors: NDArray[np.float32], options: Options, allowed: Any, known: Any, threads: int | None
) -> GroupHits:
    """All rows that may be among the best of all groups by code, with their distances by originals."""
    assert options.rerank is not None
    kept = searcher.kept_vectors("rerank")
    depth = min(options.rerank, max(options.k, searcher.engine.n_kept))  # no more than there are
    queries, _ = searcher.space.search_vectors(vectors, True)
    checked = searcher.options(options.k, 0, options.margin, threads, allowed, depth)
    found = searcher.engine.search(queries, checked)
    metric = searcher.space.codebooks.metric_type
    rows, distances = rerank(kept, queries, found.rows, checked.depth, metric, checked.threads)
    place = np.empty(rows.shape, np.int64)
    np.put_along_axis(place, np.argsort(rows, 1, kind="stable"), np.argsort(found.rows, 1, kind="stable"), 1)
    stats = replace(found.stats, reranked=int(found.counts.sum()))
    matches = Matches(searcher.ids.take(rows), distances, found.counts, stats, searcher.space.metric)
    return GroupHits(matches, found.distances, place, known)
