"""The one thing that searches: packed rows of one set of codebooks. It knows row numbers, but no ids and no files."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _native
from .._threads import cached_property
from ..codec.codebooks import Codebooks
from ..codec.rounding import distance_error
from ..errors import InputError
from ..inputs.arrays import FloatArray
from . import calibrating, margins
from .evidence import Evidence, gathered
from .filters import Allowed, Mask, filters_of
from .hits import STRAYS, UNLIKE, RangeHits, RowHits, SearchStats
from .margins import Among, Calibration, Rule
from .options import MAX_ANSWERS, SearchOptions
from .originals import KeptVectors
from .scan import Scanned, codes_of, range_rows, search_rows
from .segments import Segment, check_codes
from .tombstones import Removed

#: Beyond this many times k it is cheaper to mask removed rows than to ask for more hits and to drop them.
WIDEST = 8

#: Rules that an engine keeps for single queries.
MOST_RULES = 256

RuleOf = Callable[[Among], Rule]  #: the rule of a pass, by the rows that it may return


class Pass(NamedTuple):
    """A native scan: by which rule, for how many hits, over which rows of each segment (all without filters)."""

    rule: Rule
    asked: int
    filters: Sequence[_native.Filter] = ()


@dataclass(frozen=True, eq=False)
class Engine:
    """Codebooks, segments, which of their rows were removed, and the calibration of margins; nothing ever changes.

    Rows are numbered through all segments, removed ones included. An index, a snapshot of a store and a trial of
    ``layout="auto"`` each have one.
    """

    codebooks: Codebooks
    segments: tuple[Segment, ...] = ()
    removed: Removed | None = None
    calibration: Calibration | None = None
    #: The rows themselves, if searches compare these instead of codes (engine/exact.py).
    vectors: KeptVectors | None = None

    @cached_property
    def n_rows(self) -> int:
        """All rows, removed or not."""
        return sum(segment.n_rows for segment in self.segments)

    @cached_property
    def n_kept(self) -> int:
        """Rows that were not removed."""
        return self.n_rows - (0 if self.removed is None else self.removed.count)

    def kept_rows(self) -> NDArray[np.int64]:
        """Rows that were not removed, ascending."""
        return np.arange(self.n_rows) if self.removed is None else np.flatnonzero(self.removed.kept())

    def with_calibration(self, calibration: Calibration | None) -> Engine:
        """The same rows with other margins."""
        return replace(self, calibration=calibration)

    # --- searching

    def rule(self, margin: Any, k: int, *, among: Among = Among.ALL, reranked: bool = False) -> Rule:
        """The rule that a search with this margin runs."""
        return margins.rule_of(
            margin,
            k=k,
            n=self.n_kept,
            calibration=self.calibration,
            sigma=self.codebooks.residual_variance,
            among=among,
            reranked=reranked,
        )

    @cached_property
    def _rules(self) -> dict[tuple[Any, int, bool], Rule]:
        return {}

    def cached_rule(self, margin: Any, k: int, reranked: bool = False) -> Rule:
        """As :meth:`rule` without a filter; single queries ask for the same one again and again."""
        rules, key = self._rules, (margin, k, reranked)
        if (found := rules.get(key)) is None:
            if len(rules) >= MOST_RULES:
                rules.clear()
            found = rules[key] = self.rule(margin, k, reranked=reranked)
        return found

    def keep_sums(self) -> None:
        """Have the segments keep their cross sums from now on; a call after the first does nothing.

        A re-rank asks for several times as many hits, so that more rows survive the crude step, and four bytes for
        each row are little beside its vector. The hits and their distances are the same to the last bit.
        """
        _ = self._sums_kept  # computed once

    @cached_property
    def _sums_kept(self) -> bool:
        for segment in self.segments:
            segment.native.keep_sums(self.codebooks.native)
        return True

    def search(self, queries: FloatArray, options: SearchOptions) -> RowHits:
        """The nearest ``options.depth`` rows of each query float32 [n, dim], of length 1 for cosine.

        Segments and rules know what search computes (:meth:`Metric.searched`); callers of an engine see distances.
        """
        depth, reranked = options.depth, options.rerank is not None
        if len(queries) * depth > MAX_ANSWERS:
            raise options.too_many_answers(len(queries))
        return self.search_by_rule(
            queries,
            depth,
            lambda among: self.rule(options.margin, depth, among=among, reranked=reranked),
            options.threads,
            options.filter,
        )

    def search_by_rule(
        self, queries: FloatArray, k: int, rule_of: RuleOf, threads: int = 1, allowed: Allowed | None = None
    ) -> RowHits:
        """As :meth:`search`, by rules that the caller makes."""
        started, metric = time.perf_counter(), self.codebooks.metric_type
        if metric.is_converted:
            queries = metric.searched(queries)
        found, passes, unlike = self.scan(queries, k, rule_of, threads, allowed)
        stats = SearchStats.of_work(
            found.work,
            rows=self.n_kept,
            seconds=time.perf_counter() - started,
            rule=passes[0].rule,
            threads=threads,
            unlike=unlike,
        )
        distances = metric.reported(found.distances) if metric.is_converted else found.distances
        return RowHits(found.rows, distances, found.counts, stats)

    def scan(
        self, queries: FloatArray, k: int, rule_of: RuleOf, threads: int = 1, allowed: Allowed | None = None
    ) -> tuple[Scanned, list[Pass], int]:
        """Answers, the passes that gave them, and the number of queries that the rule was not calibrated for.

        A calibrated rule says how far the k-th hit of a query may be, and how many of its hits may lie beyond the
        slack. Queries beyond that are unlike those that it was calibrated with, and are searched again, exactly. So
        the first pass is over all queries, and the answer of a single query is that of the last pass.
        """
        if allowed is not None:
            self.check_filter(allowed)
        found, passes = self._scan(queries, k, rule_of, threads, allowed)
        unlike = self._unlike(queries, found, k, passes[0].rule)
        n_unlike = len(unlike) + int(found.work[:, UNLIKE].sum())
        margins.warn_unlike(self.calibration, n_unlike, len(queries))
        if len(unlike):
            again, more = self._scan(queries[unlike], k, lambda _: margins.EXACT, threads, allowed)
            found.rows[unlike], found.distances[unlike], found.counts[unlike] = again[:3]
            found.work[unlike] += again.work
            passes += more
        return found, passes, n_unlike

    def _run(self, one: Pass, queries: FloatArray, threads: int) -> Scanned:
        return search_rows(self.codebooks, self.segments, queries, one.asked, one.rule, threads, one.filters)

    def _unlike(self, queries: FloatArray, found: Scanned, k: int, rule: Rule) -> NDArray[np.int64]:
        """Queries that the rule was not calibrated for; not those that the scan itself has searched exactly."""
        if rule.farthest == math.inf:
            return np.zeros(0, np.int64)
        scales = self.codebooks.metric_type.limit_scales(queries)
        unlike = rule.is_unlike(found.distances, found.work[:, STRAYS], k, scales)
        return np.flatnonzero(unlike & (found.work[:, UNLIKE] == 0))

    def _scan(
        self, queries: FloatArray, k: int, rule_of: RuleOf, threads: int, allowed: Allowed | None
    ) -> tuple[Scanned, list[Pass]]:
        """Of rows that are allowed and not removed."""
        if allowed is None and self.removed is not None:
            return self._scan_kept(self.removed, queries, k, rule_of, threads)
        if allowed is None:
            only = Pass(rule_of(Among.ALL), k)
        else:
            only = Pass(rule_of(Among.ALLOWED), k, allowed.filters)
        return self._run(only, queries, threads), [only]

    def _scan_kept(
        self, removed: Removed, queries: FloatArray, k: int, rule_of: RuleOf, threads: int
    ) -> tuple[Scanned, list[Pass]]:
        """Of rows that were not removed.

        A mask costs a pass over all rows for each call, and no margin is calibrated for it. So the scan asks for more
        than k hits and drops the removed ones, which gives the answer of a mask wherever k are left. Only queries that
        are left with fewer are searched again, with a mask.
        """
        asked = hits_to_ask(k, removed)
        if asked > WIDEST * k:
            masked = self._masked(removed, k, rule_of)
            return self._run(masked, queries, threads), [masked]
        # The rule for k: with the distance of a later hit in place of the k-th it skips less than in an index of the
        # kept rows alone, and visits the same cells.
        passes = [Pass(rule_of(Among.ALL), asked)]
        rows, distances, found, work = self._run(passes[0], queries, threads)
        work[:, STRAYS] = work[:, STRAYS] * k // asked  # of k hits
        kept = (rows >= 0) & ~removed.has(np.maximum(rows, 0))
        if len(queries) == 1 and len(first := np.flatnonzero(kept)[:k]) == k:  # the usual case, and it should be quick
            return Scanned(rows[:, first], distances[:, first], np.array([k]), work), passes
        kept &= kept.cumsum(1) <= k
        counts = kept.sum(1)
        hit = np.arange(k) < counts[:, None]
        rows, distances = _scattered(rows[kept], hit, -1), _scattered(distances[kept], hit, np.inf)
        short = np.flatnonzero((counts < k) & (found == asked) & (asked < removed.n))  # else all rows were found
        if len(short):
            passes.append(self._masked(removed, k, rule_of))
            again = self._run(passes[-1], queries[short], threads)
            rows[short], distances[short], counts[short] = again[:3]
            work[short] += again.work
        return Scanned(rows, distances, counts, work), passes

    def _masked(self, removed: Removed, k: int, rule_of: RuleOf) -> Pass:
        """Over rows that were not removed, by a mask."""
        return Pass(rule_of(Among.KEPT), k, filters_of(self.codebooks, self.segments, kept_mask(removed)))

    def range(
        self,
        queries: FloatArray,
        radii: FloatArray,
        *,
        threads: int = 1,
        allowed: Allowed | None = None,
        rule: Rule = margins.EXACT,
    ) -> RangeHits:
        """All rows within the radius of each query, by an exact or the exhaustive rule."""
        if allowed is not None:
            self.check_filter(allowed)
        started, metric = time.perf_counter(), self.codebooks.metric_type
        filters = () if allowed is None else allowed.filters
        rows, distances, counts, work = range_rows(
            self.codebooks,
            self.segments,
            metric.searched(queries),
            metric.computed(radii),
            threads,
            filters,
            rule.kind == "exhaustive",
        )
        offsets = np.zeros(len(queries) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        if metric.is_converted:  # the scan was given a little more than the radius
            distances = metric.reported(distances)
            rows, distances, offsets = _chosen(distances <= np.repeat(radii, counts), rows, distances, offsets)
        if allowed is None and self.removed is not None:  # quicker to drop removed rows than to mask them
            rows, distances, offsets = _chosen(~self.removed.has(rows), rows, distances, offsets)
        seconds = time.perf_counter() - started
        stats = SearchStats.of_work(work, rows=self.n_kept, seconds=seconds, rule=rule, threads=threads)
        return RangeHits(offsets, rows, distances, stats)

    # --- rows

    def allow(self, mask: Mask) -> Allowed:
        """Prepare a mask over all rows for searches."""
        return Allowed.of(self.codebooks, self.segments, mask, self.n_kept)

    def check_filter(self, allowed: Allowed) -> None:
        """Raise InputError for a filter of other rows."""
        if allowed.segments is not self.segments:
            raise InputError(
                "this filter is stale: it was made by another index, or before rows were added or removed; "
                "call allow() again"
            )

    def codes_of(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Codes uint8 [n, code_width] of rows."""
        return codes_of(self.codebooks, self.segments, rows)

    def decode(self, rows: NDArray[np.int64]) -> FloatArray:
        """The vectors [n, dim] that the codes of rows stand for."""
        return self.codebooks.decode(self.codes_of(rows))

    def distance_error(self, queries: FloatArray) -> NDArray[np.float64]:
        """For each query, how far a reported distance may be from the distance to the decoded row."""
        metric = self.codebooks.metric_type
        errors = distance_error(self.codebooks, self._codes(), metric.searched(queries))
        return metric.reported_error(errors, self.codebooks.reach + float(np.linalg.norm(self.codebooks.mean)))

    def _codes(self) -> Iterator[NDArray[np.uint8]]:
        """Those of all rows, segment by segment."""
        for segment in self.segments:
            codes = segment.unpack()
            check_codes(codes, self.codebooks)
            yield codes

    # --- calibrating

    def calibrated(
        self,
        queries: FloatArray,
        own_rows: NDArray[np.int64] | None = None,
        *,
        threads: int = 1,
        confidence: float = calibrating.CONFIDENCE,
    ) -> Calibration:
        """A calibration from queries; ``own_rows``: the row that each query is, if they are rows."""
        return self.calibrated_by(self.evidence(queries, own_rows, threads), confidence=confidence)

    def evidence(self, queries: FloatArray, own_rows: NDArray[np.int64] | None, threads: int) -> Evidence:
        """What a calibration by queries is made from."""
        return gathered(self.codebooks, self.segments, queries, own_rows, threads)

    def calibrated_by(self, evidence: Evidence, *, confidence: float = calibrating.CONFIDENCE) -> Calibration:
        """As :meth:`calibrated`; the evidence is used up."""
        metric = self.codebooks.metric_type
        return calibrating.calibrate(evidence.parts, evidence.n_rows, metric, confidence=confidence)


def hits_to_ask(k: int, removed: Removed) -> int:
    """Number of hits to request so that k of them are not removed, with high probability.

    The mean, and four standard deviations, of the draws until k are kept, if rows are removed at random.
    """
    share = removed.count / removed.n
    draws = 2**62 if share >= 1 else math.ceil((k + 4 * math.sqrt(k * share)) / (1 - share))
    return min(draws, max(k, removed.n))


def kept_mask(removed: Removed) -> Mask:
    """The rows that were not removed."""
    return removed.kept().view(np.uint8)


def _chosen(
    which: NDArray[np.bool_], rows: NDArray[np.int64], distances: FloatArray, offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], FloatArray, NDArray[np.int64]]:
    """Some of the hits of a range search, and where those of each query begin."""
    return rows[which], distances[which], np.concatenate([[0], np.cumsum(which)])[offsets]


def _scattered(values: NDArray[Any], where: NDArray[np.bool_], other: float) -> NDArray[Any]:
    """The values in a table, row by row, where the mask says; another value elsewhere."""
    table = np.full(where.shape, other, values.dtype)
    table[where] = values
    return table
