"""Further searches of an index, which a store has too: within a radius, by id, and why a row was not found."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .._threads import thread_count
from ..codec.codebooks import Codebooks
from ..codec.rounding import distance_error
from ..errors import InputError
from ..index.ids import IdArray, Ids, as_id_array, is_id
from ..inputs.arrays import FloatArray, describe, positive, to_numpy
from ..inputs.literals import Margin
from . import margins
from .explaining import Explanation, explain_row
from .matches import Matches, RangeMatches, SearchStats
from .searching import Allowed, Mask, range_rows
from .segments import Segment


class Searched(Protocol):
    """What is asked of an index; it stands above this module."""

    codebooks: Codebooks
    _segments: tuple[Segment, ...]
    _ids: Ids

    def _vectors(self, q: Any, embedded: bool) -> tuple[FloatArray, bool]: ...
    def _mask(self, allowed: Any, ids: Ids) -> Mask: ...
    def _rule(self, margin: Margin, k: int, filtered: bool) -> margins.Rule: ...
    def _stats(
        self, work: NDArray[np.uint64], n_rows: int, seconds: float, label: str, workers: int
    ) -> SearchStats: ...
    def search(
        self,
        q: Any,
        k: int,
        *,
        offset: int,
        margin: Margin,
        threads: int | None,
        filter: Any,
        embedded: bool,
    ) -> Matches: ...
    def reconstruct(self, ids: Any) -> FloatArray: ...


class Searches:
    """Mixed into :class:`Index`, and into what searches by one."""

    def _now(self) -> Searches:
        """What to ask: itself, or a state of it that no write changes meanwhile."""
        return self

    def _searched(self) -> Searched:
        """The index to ask."""
        raise NotImplementedError

    def _allowed(self, filter: Any) -> Any:
        """A filter as the index takes it."""
        return filter

    def allow(self, filter: Any) -> Allowed:
        """A filter (a mask, or ids, as for :meth:`search`) made ready for many calls: pass the result as ``filter``.

        A filter is made ready by each call anyway, for all of its queries, at a cost that falls with the number of
        rows allowed; where the same rows are allowed for many calls of a few queries each, this does it once. It holds
        for the rows of now.
        """
        now = self._now()
        index = now._searched()
        segments, ids = index._segments, index._ids
        mask = index._mask(now._allowed(filter), ids)
        return mask if isinstance(mask, Allowed) else Allowed.of(index.codebooks, segments, ids, mask)

    def range_search(
        self,
        q: Any,
        radius: Any,
        *,
        margin: Margin = "exact",
        threads: int | None = None,
        filter: Any = None,
        embedded: bool = False,
    ) -> RangeMatches:
        """All rows within the radius of each query, nearest first: those whose distance is at most ``radius``.

        The radius, one number or one for each query, is compared with ``distances`` as they are reported: squared
        distances for l2; 1 - cosine for cosine, so that ``radius=0.2`` asks for a similarity of at least 0.8; minus the
        inner product for ip, so that ``radius=-5`` asks for one of at least 5. The answer is that of the exhaustive
        scan whatever ``margin``, whose targets are calibrated for k hits and not for radii; ``inf`` runs that scan.
        ``filter`` and ``embedded`` as for :meth:`search`. There is no limit to the hits but memory: 12 bytes for each.
        """
        now = self._now()
        index = now._searched()
        segments, ids = index._segments, index._ids
        queries, _ = index._vectors(q, embedded)
        radii = _radii(radius, len(queries))
        exhaustive, label = _range_rule(margin)
        workers = thread_count(threads)
        mask = None if filter is None else index._mask(now._allowed(filter), ids)
        started = time.perf_counter()
        rows, distances, counts, work = range_rows(index.codebooks, segments, queries, radii, workers, mask, exhaustive)
        offsets = np.zeros(len(queries) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        if mask is None and ids.removed is not None:  # removed rows are hits like others: quicker to drop than to mask
            kept = ~ids.removed.has(rows)
            rows, distances = rows[kept], distances[kept]
            offsets = np.concatenate([[0], np.cumsum(kept)])[offsets]
        seconds = time.perf_counter() - started
        stats = index._stats(work, ids.n_kept, seconds, label, workers)
        return RangeMatches(offsets, ids.take(rows), distances, stats, index.codebooks.metric)

    def distance_error(self, q: Any, *, embedded: bool = False) -> float | NDArray[np.float64]:
        """How far distances to these queries may be from exact ones: no reported distance is off by more.

        One number for each query, or one alone for a single query. The exact distance is that to the vector which
        :meth:`reconstruct` gives for a row, so ``range_search(v, index.distance_error(v))`` with the reconstruction v
        of a row finds that row. The bound follows from the arithmetic (docs/searching.md), and is larger than most
        errors by far. It takes a fraction of a second to make, and with ``cross="byte"`` a pass over all codes: ask for
        many queries at once.
        """
        index = self._now()._searched()
        queries, single = index._vectors(q, embedded)
        errors = distance_error(index.codebooks, (segment.unpack() for segment in index._segments), queries)
        return float(errors[0]) if single else errors

    def search_by_id(
        self,
        ids: Any,
        k: int = 10,
        *,
        exclude_self: bool = True,
        offset: int = 0,
        margin: Margin = margins.DEFAULT,
        threads: int | None = None,
        filter: Any = None,
    ) -> Matches:
        """The k nearest rows of rows that are here, by the vectors that their codes stand for.

        ``ids`` is one id or a list of them. A row is not its own neighbour unless ``exclude_self=False``; other rows
        with the same code are neighbours at distance 0, or what the metric makes of it.
        """
        now = self._now()
        index = now._searched()
        allowed = now._allowed(filter)

        def search(vectors: FloatArray, k: int, offset: int) -> Matches:
            return index.search(
                vectors, k, offset=offset, margin=margin, threads=threads, filter=allowed, embedded=True
            )

        return neighbours_of(ids, k, offset, exclude_self, index.reconstruct, search)

    def explain(
        self,
        q: Any,
        id: int | str,
        k: int = 10,
        *,
        margin: Margin = margins.DEFAULT,
        filter: Any = None,
        embedded: bool = False,
    ) -> Explanation:
        """What ``search(q, k, margin=..., filter=...)`` did with one row, and at which step it was lost, if it was.

        ``q`` is a single query. The search runs again, and the exhaustive one, so this takes a multiple of the time of
        a search.
        """
        now = self._now()
        index = now._searched()
        segments, ids = index._segments, index._ids
        k = positive(k, "k")
        queries, _ = index._vectors(q, embedded)
        if len(queries) != 1:
            raise InputError(f"explain takes a single query, got {len(queries)}")
        if not is_id(id):
            raise InputError(f"id must be an integer or a string, got {describe(id)}")
        row = ids.removed_row(id)
        if row < 0:
            row = int(ids.rows_of([id], "id")[0])
        mask = None if filter is None else index._mask(now._allowed(filter), ids)
        return explain_row(
            index.codebooks,
            segments,
            ids,
            queries,
            row,
            k,
            lambda k, filtered: index._rule(margin, k, filtered),
            mask,
        )


def neighbours_of(
    ids: Any,
    k: int,
    offset: int,
    exclude_self: bool,
    vectors_of: Callable[[IdArray], FloatArray],
    search: Callable[[FloatArray, int, int], Matches],
) -> Matches:
    """What ``search(vectors, k, offset)`` finds for rows that are here, less the rows themselves."""
    k, offset = positive(k, "k"), positive(offset, "offset", least=0)
    if not isinstance(exclude_self, bool):
        raise InputError(f"exclude_self must be True or False, got {exclude_self!r}")
    single = is_id(ids)
    own = as_id_array([ids] if single else ids, "ids")
    vectors = vectors_of(own)
    if not exclude_self:
        return search(vectors[0] if single else vectors, k, offset)
    found = search(vectors, k + offset + 1, 0)
    values, distances, counts = _without(own, found)
    part = slice(offset, offset + k)
    values, distances, counts = values[:, part], distances[:, part], np.clip(counts - offset, 0, k)
    if single:
        return Matches(values[0], distances[0], int(counts[0]), found.stats, found.metric)
    return Matches(values, distances, counts, found.stats, found.metric)


def _radii(radius: Any, n: int) -> FloatArray:
    """float32 [n]; rounded down, so that a distance, which is float32, is within the one if within the other."""
    array = to_numpy(radius, "radius")
    if array.dtype.kind not in "iuf" or array.ndim > 1 or (array.ndim == 1 and len(array) != n):
        raise InputError(f"radius must be a number, or one for each of the {n} queries, got {describe(radius)}")
    wide = np.broadcast_to(array.astype(np.float64), (n,))
    if np.isnan(wide).any():
        where = f"radius[{int(np.argmax(np.isnan(wide)))}]" if array.ndim else "radius"
        raise InputError(f"radius must be a number, or inf for all rows; {where} is nan")
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    too_large = narrow > wide
    narrow[too_large] = np.nextafter(narrow[too_large], np.float32(-np.inf))
    return np.ascontiguousarray(narrow)


def _range_rule(margin: Any) -> tuple[bool, str]:
    """Whether to scan exhaustively, and what stats show."""
    rule = margins.parse(margin, k=1, n=0, calibration=None, sigma=0.0)
    if rule.kind == "paper":
        raise InputError("margin 'paper' compares with the k-th row, which a radius has not; use 'exact' or inf")
    if rule.kind == "none" or margin == "exact":
        return rule.kind == "none", rule.label
    return False, f"exact ({margin:g} has no rule for radii)"


def _without(own: IdArray, found: Matches) -> tuple[NDArray[Any], FloatArray, NDArray[np.int64]]:
    """Hits less the row itself, one fewer for each query; where it was not found, less the last."""
    ids, distances = found
    counts: NDArray[np.int64] = np.asarray(found.counts)
    mine = ids == own.astype(ids.dtype)[:, None]
    here = mine.any(1)
    mine[~here, -1] = True
    shape = (len(ids), ids.shape[1] - 1)
    return ids[~mine].reshape(shape), distances[~mine].reshape(shape), np.minimum(counts - here, shape[1])
