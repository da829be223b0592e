"""From what a user passes to what a user gets: vectors, filters and ids around an engine. Nothing in it changes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import thread_count
from ..codec.space import Space
from ..engine import margins
from ..engine.engine import Engine
from ..engine.exact import ExactEngine
from ..engine.explaining import Explanation, explain_row
from ..engine.filters import Allowed, Mask
from ..engine.hits import RowHits
from ..engine.margins import DEFAULT
from ..engine.options import SearchOptions, check_depth, check_recall
from ..engine.originals import KeptVectors
from ..engine.recall import default_effort, effort
from ..engine.rerank import search_reranked
from ..engine.single import search_one
from ..errors import InputError
from ..inputs.arrays import FloatArray, describe, positive, to_numpy
from .id_values import as_id_array, is_id
from .ids import Ids
from .matches import Matches, RangeMatches


@dataclass(frozen=True, eq=False)
class Searcher:
    """The rows of an index or of a snapshot, ready to be searched by users' inputs.

    ``originals`` are the kept vectors of all rows, if they are kept. ``expressions`` turns a filter expression
    into allowed rows, and returns None for any other kind of filter.
    """

    space: Space
    engine: Engine
    ids: Ids
    originals: KeptVectors | None = None
    expressions: Callable[[Any, Engine], Allowed | None] | None = None

    # --- searches

    def search(
        self,
        q: Any,
        k: int,
        *,
        margin: Any,
        threads: int | None,
        embedded: bool,
        offset: int = 0,
        filter: Any = None,
        rerank: int | None = None,
        recall: float | None = None,
    ) -> Matches:
        """See :meth:`Searchable.search`."""
        vectors, single = self.space.search_vectors(q, embedded)
        alone = len(vectors) == 1
        if threads is None:
            threads = 1 if alone else thread_count(None)  # one query runs on one thread
        options = self.options(k, offset, margin, threads, filter, rerank, recall)
        if alone and (found := search_one(self.engine, vectors, options, self.originals)) is not None:
            return Matches.of_one(found, offset, self.ids, self.space.codebooks.metric, single)
        hits = self.engine.search(vectors, options) if options.rerank is None else self._reranked(vectors, options)
        if offset:
            hits = hits.after(offset)
        return Matches.of(hits, self.ids, self.space.codebooks.metric, single)

    def options(
        self, k: Any, offset: Any, margin: Any, threads: Any, filter: Any, rerank: Any = None, recall: Any = None
    ) -> SearchOptions:
        """The options of one search; a target recall, or none of the three, becomes a margin and a depth."""
        allowed, chosen, engine = None if filter is None else self.allowed(filter), None, self.engine
        if rerank is not None or recall is not None:
            self.kept_vectors("rerank" if recall is None else "recall")
        if recall is not None:
            k, offset = positive(k, "k"), positive(offset, "offset", least=0)
            wanted = check_recall(recall, rerank, margin)
            if engine.vectors is None:
                margin, rerank = effort(wanted, k + offset, engine.n_kept, engine.calibration)
                chosen = f"recall={wanted:g}"
        elif margin is None and rerank is None and self.originals is not None and engine.vectors is None:
            k, offset = positive(k, "k"), positive(offset, "offset", least=0)
            margin, rerank, chosen = default_effort(k + offset, engine.n_kept, engine.calibration)
        margin = DEFAULT if margin is None else margin
        if allowed is None:
            return SearchOptions.cached(k, offset, margin, threads, rerank, chosen)
        return SearchOptions.checked(k, offset, margin, threads, allowed, rerank, chosen)

    def _reranked(self, vectors: FloatArray, options: SearchOptions) -> RowHits:
        return search_reranked(self.engine, self.kept_vectors("rerank"), vectors, options)

    def search_by_id(
        self,
        ids: Any,
        k: int,
        *,
        exclude_self: bool,
        offset: int,
        margin: Any,
        threads: int | None,
        filter: Any,
        rerank: int | None,
        recall: float | None,
    ) -> Matches:
        """See :meth:`Searchable.search_by_id`."""
        if not isinstance(exclude_self, bool):
            raise InputError(f"exclude_self must be True or False, got {exclude_self!r}")
        k, offset = positive(k, "k"), positive(offset, "offset", least=0)
        if rerank is not None and exclude_self:
            rerank = check_depth(rerank, k + offset) + 1  # the row itself is one of them
        asked = (k + offset + 1, 0) if exclude_self else (k, offset)
        options = self.options(*asked, margin, threads, filter, rerank, recall)
        single = is_id(ids)
        rows = self.ids.rows_of(as_id_array([ids] if single else ids, "ids"))
        by_code = options.rerank is None
        vectors = self.engine.decode(rows) if by_code else self.kept_vectors("rerank").take(rows)
        vectors = self.space.directed(vectors, "queries")
        hits = self.engine.search(vectors, options) if by_code else self._reranked(vectors, options)
        if exclude_self:
            hits = hits.without(rows)
        hits = hits.after(offset)
        hits = replace(hits, counts=np.minimum(hits.counts, k))
        return Matches.of(hits, self.ids, self.space.metric, single)

    def range_search(
        self, q: Any, radius: Any, *, margin: Any, threads: int | None, filter: Any, embedded: bool
    ) -> RangeMatches:
        """See :meth:`Searchable.range_search`."""
        vectors, _ = self.space.search_vectors(q, embedded)
        hits = self.engine.range(
            vectors,
            _radii(radius, len(vectors)),
            threads=thread_count(threads),
            allowed=self.allowed(filter),
            rule=_range_rule(margin),
        )
        return RangeMatches.of(hits, self.ids, self.space.metric)

    def explain(
        self, q: Any, id: int | str, k: int, *, margin: Any, filter: Any, embedded: bool, reranked: bool = False
    ) -> Explanation:
        """See :meth:`Searchable.explain`; ``reranked``: of the search for k rows that are then re-ranked."""
        vectors, _ = self.space.search_vectors(q, embedded)
        if len(vectors) != 1:
            raise InputError(f"explain takes a single query, got {len(vectors)}")
        if not is_id(id):
            raise InputError(f"id must be an integer or a string, got {describe(id)}")
        row = self.ids.removed_row(id)
        if row < 0:
            row = int(self.ids.rows_of([id], "id")[0])
        options = self.options(k, 0, margin, 1, filter)
        margin, reranked = options.margin, reranked or options.rerank is not None
        if options.rerank is not None:  # the rows that are compared with their originals
            options = replace(options, k=min(options.rerank, max(options.k, self.engine.n_kept)))
        if isinstance(self.engine, ExactEngine):
            found = self.engine.explain(vectors, row, options.k, margin, options.filter)
        else:
            found = explain_row(
                self.engine,
                vectors,
                row,
                options.k,
                lambda among: self.engine.rule(margin, options.k, among=among, reranked=reranked),
                options.filter,
            )
        return replace(found, id=self.ids.take(np.array([row])).tolist()[0])

    # --- rows

    def allowed(self, filter: Any) -> Allowed | None:
        """A filter of any kind that users may pass, prepared; None where there is none."""
        if filter is None:
            return None
        if self.expressions is not None and (found := self.expressions(filter, self.engine)) is not None:
            return found
        if isinstance(filter, Allowed):
            self.engine.check_filter(filter)
            return filter
        return self.engine.allow(self._mask(filter))

    def _mask(self, filter: Any) -> Mask:
        """A byte for each row, removed ones included."""
        array, ids = to_numpy(filter, "filter"), self.ids
        if array.dtype == np.bool_:
            if array.shape != (ids.n_kept,):
                raise InputError(
                    f"filter as a mask must have one entry per row: {ids.n_kept} expected, got shape {array.shape}"
                )
            if ids.removed is not None:
                mask = np.zeros(ids.n, np.uint8)
                mask[ids.kept_rows()] = array.view(np.uint8) != 0
                return mask
            return np.not_equal(array.view(np.uint8), 0).view(np.uint8)  # a copy: native code reads it more than once
        if array.ndim != 1:
            raise InputError(f"filter must be a boolean mask or a 1-D array of ids, got {describe(filter)}")
        if array.dtype.kind in "iu" and len(array) == ids.n_kept > 2 and 0 <= array.min() <= array.max() <= 1:
            raise InputError("filter looks like a mask of 0 and 1; pass it as booleans, or ids without repeats")
        return ids.mask(filter).view(np.uint8)

    def kept_vectors(self, what: str) -> KeptVectors:
        """The originals; InputError names ``what`` needs them where none are kept."""
        if self.originals is None:
            raise InputError(
                f"{what} needs kept originals: il.create(path, source, originals='float16') or "
                "Index.build(x, originals='float16')"
            )
        return self.originals

    def reconstruct(self, ids: Any) -> FloatArray:
        """See :meth:`Index.reconstruct`."""
        single = isinstance(ids, int | str | np.integer)
        vectors = self.engine.decode(self.ids.rows_of([ids] if single else ids))
        return vectors[0] if single else vectors

    def distance_error(self, q: Any, embedded: bool) -> float | NDArray[np.float64]:
        """See :meth:`Searchable.distance_error`."""
        vectors, single = self.space.search_vectors(q, embedded)
        errors = self.engine.distance_error(vectors)
        return float(errors[0]) if single else errors


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


def _range_rule(margin: Any) -> margins.Rule:
    """Of a range search: its answer is that of the exhaustive scan whatever the margin."""
    margins.check_margin(margin)
    if margin == "paper":
        raise InputError("margin='paper' requires k; range_search accepts 'exact', a target or inf")
    if margin == "exact":
        return margins.EXACT
    if margin == math.inf:
        return margins.EVERYTHING
    return margins.Rule.instead_of(float(margin), "has no rule for radii")
