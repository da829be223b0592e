"""The map: a sample of the rows on their two principal axes, with what a query visited, kept and found."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...engine.explaining import compared_rows
from ...engine.margins import DEFAULT
from ...index.matches import Matches
from ...store import Snapshot
from ..collections.collection import Collection
from ..collections.searching import FloatArray, How, filter_of, query_input, search, vectors_of
from ..requests import ids as point_ids
from ..requests.models import Query
from .contents import sample_ids

SAMPLE = 2_000  # rows of the map
#: Rows that all traces of one map may scan together.
TRACED = 50_000_000
_ITERATIONS = 12  # for the principal axes: the picture does not change any more


@dataclass(frozen=True)
class Plane:
    """Two axes through the middle of a sample, and the sample on them."""

    ids: NDArray[Any]
    mean: FloatArray
    axes: FloatArray  #: [dim, 2]
    share: list[float]  #: of the variance, for each axis
    at: FloatArray  #: [n, 2]
    cells: NDArray[np.int64] | None  #: None where rows have no codes

    @classmethod
    def of(cls, snapshot: Snapshot, n: int) -> Plane:
        """Of n rows."""
        ids = sample_ids(snapshot, n)
        vectors = vectors_of(snapshot, ids).astype(np.float32)
        mean = vectors.mean(0)
        centred = vectors - mean
        axes = principal_axes(centred)
        at, total = centred @ axes, float((centred**2).sum())
        cells = None
        if not snapshot.collecting:
            searcher = snapshot.searcher
            codes = searcher.engine.codes_of(searcher.ids.rows_of(ids, "ids"))
            cells = searcher.engine.codebooks.split_codes(codes)[0]
        return cls(ids, mean, axes, ((at**2).sum(0) / max(total, 1e-30)).tolist(), at, cells)

    def project(self, vectors: FloatArray) -> list[list[float]]:
        """Vectors [n, dim] on the axes."""
        placed: list[list[float]] = ((vectors - self.mean) @ self.axes).tolist()
        return placed


def principal_axes(centred: FloatArray) -> FloatArray:
    """The two axes [dim, 2] along which centred rows vary most, by subspace iteration; the same each time."""
    start = np.random.default_rng(0).normal(size=(centred.shape[1], 8)).astype(np.float32)
    block = start[:, : max(1, centred.shape[1])]
    for _ in range(_ITERATIONS):
        block = np.linalg.qr(centred.T @ (centred @ block))[0]
    small = centred @ block
    strengths, turned = np.linalg.eigh(small.T @ small)
    axes = block @ turned[:, np.argsort(strengths)[::-1][:2]]
    axes = np.concatenate([axes, np.zeros((len(axes), 2), np.float32)], 1)[:, :2]
    largest = axes[np.abs(axes).argmax(0), np.arange(2)]
    return np.ascontiguousarray(axes * np.where(largest < 0, -1, 1), np.float32)


_planes: WeakKeyDictionary[Snapshot, Plane] = WeakKeyDictionary()
_lock = threading.Lock()


def _plane(snapshot: Snapshot, n: int) -> Plane:
    """The plane of a snapshot, kept as long as the snapshot is."""
    with _lock:
        known = _planes.get(snapshot)
    if known is not None and len(known.ids) == min(n, len(snapshot)):
        return known
    made = Plane.of(snapshot, n)
    with _lock:
        _planes[snapshot] = made
    return made


def sampled_map(found: Collection, n: int, given: Query) -> dict[str, Any]:
    """The sample with its cells, and a query with its hits, if there is one."""
    snapshot = found.snapshot()
    if not len(snapshot):
        return {"points": [], "cells": [], "variance": [0.0, 0.0], "query": None}
    plane = _plane(snapshot, min(n, SAMPLE))
    cells = [None] * len(plane.ids) if plane.cells is None else plane.cells.tolist()
    points = zip(point_ids.from_store(plane.ids), plane.at.tolist(), cells, strict=True)
    return {
        "points": [{"id": i, "x": x, "y": y, "cell": cell} for i, (x, y), cell in points],
        "cells": [
            {
                "cell": int(cell),
                "rows": int((plane.cells == cell).sum()),
                "at": plane.at[plane.cells == cell].mean(0).tolist(),
            }
            for cell in ([] if plane.cells is None else np.unique(plane.cells))
        ],
        "variance": plane.share,
        "query": None if given.query is None else _marked(found, snapshot, plane, given),
    }


def _marked(found: Collection, snapshot: Snapshot, plane: Plane, given: Query) -> dict[str, Any]:
    """Hits, the cells that were visited, and the rows of the sample that survived the crude step."""
    how = How.of(given, snapshot, found.settings)
    wanted, condition = query_input(given.query, found.dim), found.condition(snapshot, given.filter)
    matches = search(snapshot, wanted, how, condition)
    ids = matches.ids[: matches.counts]
    if isinstance(wanted, int | str):
        vector = vectors_of(snapshot, point_ids.as_array([wanted]))[0]
    else:
        vector = snapshot.searcher.space.search_vectors(wanted, False)[0][0]
    marked = {
        "at": plane.project(vector[None])[0],
        "hits": point_ids.from_store(ids.tolist()),
        "hits_at": plane.project(vectors_of(snapshot, ids)) if len(ids) else [],
        "visited": None,
        "survivors": None,
    }
    if plane.cells is not None:
        books = snapshot.searcher.engine.codebooks
        order = np.argsort(books.bases(np.ascontiguousarray(vector[None], np.float32))[0], kind="stable")
        visited = order[: matches.stats.cells]  # cells are visited in the order of their bases
        marked["visited"] = visited.tolist()
        allowed = snapshot.searcher.allowed(filter_of(snapshot, condition))
        marked["survivors"] = _survivors(
            snapshot, plane.ids[np.isin(plane.cells, visited)], vector, how, matches, allowed
        )
    return marked


def _survivors(
    snapshot: Snapshot,
    ids: NDArray[Any],
    vector: FloatArray,
    how: How,
    matches: Matches,
    allowed: Any,
) -> list[int | str] | None:
    """Those that were compared by their whole code; None if it would take too long to know."""
    searcher = snapshot.searcher
    if len(ids) * max(1, matches.stats.scanned) > TRACED:
        return None
    margin = DEFAULT if (margin := how.resolved(snapshot).margin) is None else margin
    k = min(matches.stats.reranked or how.k + how.offset, len(snapshot))
    kept = compared_rows(
        searcher.engine,
        np.ascontiguousarray(vector[None], np.float32),
        searcher.ids.rows_of(ids, "ids"),
        k,
        lambda among: searcher.engine.rule(margin, k, among=among),
        allowed,
    )
    return point_ids.from_store(ids[kept].tolist())
