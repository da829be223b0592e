"""Rows that are compared themselves, because they have no codes yet: every search is that of brute force.

A store that starts without codebooks searches so. All of its codes are 0, the only word of its only book
(:func:`unlearned`), and the distance of a row is that of a re-rank by its float32 vector.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import cached_property
from ..codec.codebooks import Book, Codebooks
from ..codec.metric import Metric
from ..inputs.arrays import FloatArray
from .engine import Engine, RuleOf
from .explaining import BEYOND, FILTER, FOUND, REMOVED, Explanation
from .filters import Allowed
from .hits import WORK, RangeHits, RowHits, SearchStats
from .margins import EVERYTHING, EXACT, Among, Calibration, Rule, check_margin
from .options import MAX_ANSWERS, SearchOptions
from .originals import KeptVectors
from .rerank import ANSWERS, rerank
from .scan import check_padding, padded

UNLEARNED = "unlearned"  # the layout of codebooks that stand for none
_SCANNED, _SURVIVORS = 1, 2  # counters of SearchStats.of_work


def unlearned(dim: Any, metric: str | Metric) -> Codebooks:
    """Codebooks of one word, which codes every row as 0: what a store has before it learns some."""
    book = Book(np.zeros((1, 1), np.float32), np.zeros(1, np.uint32))
    return Codebooks([book], dim=dim, n_crude=1, metric=metric, layout=UNLEARNED)


@dataclass(frozen=True, eq=False)
class ExactEngine(Engine):
    """An engine whose ``vectors`` are searched instead of codes."""

    @property
    def kept(self) -> KeptVectors:
        """The vectors of all rows, removed ones included."""
        assert self.vectors is not None
        return self.vectors

    def rule(self, margin: Any, k: int, *, among: Among = Among.ALL, reranked: bool = False) -> Rule:
        """All rules find what the exhaustive scan finds; they differ in what stats call them."""
        check_margin(margin)
        if margin == "exact":
            return EXACT
        if margin == math.inf:
            return EVERYTHING
        return Rule.instead_of(margin, "needs codes, and rows have none yet")

    def search(self, queries: FloatArray, options: SearchOptions) -> RowHits:
        """The nearest ``options.depth`` rows of each query."""
        depth = options.depth
        if len(queries) * depth > MAX_ANSWERS:
            raise options.too_many_answers(len(queries))
        rule = self.rule(options.margin, depth)
        return self.search_by_rule(queries, depth, lambda _: rule, options.threads, options.filter)

    def search_by_rule(
        self, queries: FloatArray, k: int, rule_of: RuleOf, threads: int = 1, allowed: Allowed | None = None
    ) -> RowHits:
        """As :meth:`search`; every rule finds the same."""
        started, rows = time.perf_counter(), self._candidates(allowed)
        check_padding(len(queries), k, len(rows))
        found, distances = self._nearest(queries, rows, min(k, len(rows)), threads)
        counts = np.full(len(queries), found.shape[1], np.int64)
        rule = rule_of(Among.ALL if allowed is None else Among.ALLOWED)
        stats = self._stats(len(queries), len(rows), started, rule, threads)
        return RowHits(*padded(found, distances, k), counts, stats)

    def range(
        self,
        queries: FloatArray,
        radii: FloatArray,
        *,
        threads: int = 1,
        allowed: Allowed | None = None,
        rule: Rule = EXACT,
    ) -> RangeHits:
        """All rows within the radius of each query."""
        started, rows = time.perf_counter(), self._candidates(allowed)
        step, counts = max(1, ANSWERS // max(1, len(rows))), np.zeros(len(queries), np.int64)
        found, distances = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
        for start in range(0, len(queries), step):
            part = slice(start, start + step)
            some, away = self._nearest(queries[part], rows, len(rows), threads)
            within = away <= radii[part, None]
            counts[part] = within.sum(1)
            found.append(some[within])
            distances.append(away[within])
        offsets = np.zeros(len(queries) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        stats = self._stats(len(queries), len(rows), started, rule, threads)
        return RangeHits(offsets, np.concatenate(found), np.concatenate(distances), stats)

    def explain(self, query: FloatArray, row: int, k: int, margin: Any, allowed: Allowed | None) -> Explanation:
        """What a search did with a row, for one query [1, dim]; the id of the explanation is the row number."""
        rows = self._candidates(allowed)
        found, distances = self._nearest(query, rows, len(rows), 1)
        own = float(self._nearest(query, np.array([row]), 1, 1)[1][0, 0])
        nearer = (distances[0] < own) | ((distances[0] == own) & (found[0] < row))
        rank = 1 + int(nearer.sum())
        kth = float(distances[0, k - 1]) if k <= len(rows) else math.inf
        taking_part = row in found[0]
        removed = self.removed is not None and bool(self.removed.has(np.array([row]))[0])
        lost = BEYOND if rank > k else FOUND
        if not taking_part:
            lost = REMOVED if removed else FILTER
        return Explanation(
            id=row,
            k=k,
            margin=self.rule(margin, k).label,
            lost=lost,
            by=own - kth if lost == BEYOND else 0.0,
            distance=own,
            rank=rank,
            kth_distance=kth,
            cell=-1,
            cell_rank=0,
            cells=0,
            visited=taking_part,
            crude=own,
            floor=float(distances[0, 0]) if len(rows) else own,
            limit=kth,
            value=own,
        )

    def decode(self, rows: NDArray[np.int64]) -> FloatArray:
        """The vectors [n, dim] of rows."""
        return self.kept.take(rows)

    def distance_error(self, queries: FloatArray) -> NDArray[np.float64]:
        """For each query, how far a reported distance may be from the exact one: rounding of a sum over dimensions."""
        metric, lengths = self.codebooks.metric_type.of_originals, np.sqrt((queries.astype(np.float64) ** 2).sum(1))
        steps = self.kept.dim / 32 + 16
        largest = (lengths + self._longest) ** 2 if metric.is_squared else lengths * self._longest
        return np.asarray(2.0**-24 * steps * largest)

    def calibrated(
        self,
        queries: FloatArray,
        own_rows: NDArray[np.int64] | None = None,
        *,
        threads: int = 1,
        confidence: float = 0.0,
    ) -> Calibration:
        """There is nothing to calibrate."""
        raise AssertionError("rows without codes have no margins")

    @cached_property
    def _longest(self) -> float:
        """Length of the longest vector."""
        squares = [float((block.astype(np.float64) ** 2).sum(1).max()) for _, block in self.kept.blocks()]
        return math.sqrt(max(squares, default=0.0))

    def _candidates(self, allowed: Allowed | None) -> NDArray[np.int64]:
        """Rows that a search may return, ascending."""
        if allowed is None:
            return self.kept_rows()
        self.check_filter(allowed)
        mask = np.unpackbits(allowed.bits, count=self.n_rows).view(np.bool_)
        return np.flatnonzero(mask if self.removed is None else mask & self.removed.kept())

    def _nearest(
        self, queries: FloatArray, rows: NDArray[np.int64], k: int, threads: int
    ) -> tuple[NDArray[np.int64], FloatArray]:
        """The k nearest of some rows, at least k, and their distances [queries, k]."""
        if k == 0:
            return np.empty((len(queries), 0), np.int64), np.empty((len(queries), 0), np.float32)
        return rerank(self.kept, queries, rows[None], k, self.codebooks.metric_type, threads)

    def _stats(self, n: int, n_compared: int, started: float, rule: Rule, threads: int) -> SearchStats:
        """Every row that may be returned was compared with every query."""
        work = np.zeros((n, WORK), np.uint64)
        work[:, [_SCANNED, _SURVIVORS]] = n_compared
        seconds = time.perf_counter() - started
        return SearchStats.of_work(work, rows=self.n_kept, seconds=seconds, rule=rule, threads=threads)
