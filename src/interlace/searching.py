"""Queries -> the nearest rows of packed segments, and what a margin must be for them: the two native searches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native, margins
from .arrays import FloatArray
from .codebooks import Codebooks
from .ids import Ids
from .segments import Segment
from .tombstones import Removed

QUERIES_PER_CALL = 4096  # Ctrl-C works between native calls
#: Beyond so many times k it is cheaper to tell the search which rows were removed than to ask for more hits.
WIDEST = 8


@dataclass(frozen=True, eq=False)
class Allowed:
    """Rows that searches may return, made ready for many of them; :meth:`Index.allow` makes it."""

    bits: NDArray[np.uint8]  #: a bit for each row, removed ones included
    filters: list[_native.Filter]  #: one for each segment
    ids: Ids  #: of the rows it was made for

    @classmethod
    def of(cls, codebooks: Codebooks, segments: Sequence[Segment], ids: Ids, mask: NDArray[np.uint8]) -> Allowed:
        """Of a mask over all rows, which may change afterwards."""
        return cls(np.packbits(mask), filters_of(codebooks, segments, mask), ids)

    def has(self, row: int) -> bool:
        """Whether a row is allowed."""
        return bool(self.bits[row >> 3] & (0x80 >> (row & 7)))

    def __len__(self) -> int:
        return sum(f.n_allowed for f in self.filters)

    def __repr__(self) -> str:
        return f"Allowed({len(self)} of {self.ids.n_kept} rows)"


Mask = NDArray[np.uint8] | Allowed


def search_rows(
    codebooks: Codebooks,
    segments: tuple[Segment, ...],
    queries: FloatArray,
    k: int,
    rule: margins.Rule,
    threads: int,
    mask: Mask | None = None,
    trace: bool = False,
) -> tuple[NDArray[np.int64], FloatArray, NDArray[np.int64], NDArray[np.uint64], FloatArray | None]:
    """Rows and distances [n, k] (-1 and inf beyond the last), counts [n], work [n, 4]; with ``trace`` also that.

    Work is cells, rows scanned, survivors, look-ups. The trace holds, for each hit, its crude distance above the floor
    of its cell, and the floor of the whole distance; its width is k or the number of rows, if there are fewer.
    """
    n = len(queries)
    width = max(1, min(k, sum(s.n_rows for s in segments)))  # the rest of k can only be padding
    rows, distances = np.empty((n, width), np.int64), np.empty((n, width), np.float32)
    counts, work = np.empty(n, np.int64), np.empty((n, 4), np.uint64)
    traced = np.empty((2, n, width), np.float32) if trace else None
    filters = filters_of(codebooks, segments, mask)
    step = n if trace else QUERIES_PER_CALL
    for start in range(0, n, step):
        part = slice(start, start + step)
        _native.search(
            codebooks.native,
            [s.native for s in segments],
            filters,
            queries[part],
            *rule.arguments,
            threads,
            rows[part],
            distances[part],
            counts[part],
            work[part],
            traced,
        )
    if width < k:
        rows = np.pad(rows, ((0, 0), (0, k - width)), constant_values=-1)
        distances = np.pad(distances, ((0, 0), (0, k - width)), constant_values=np.inf)
    return rows, distances, counts, work, traced


def filters_of(codebooks: Codebooks, segments: Sequence[Segment], mask: Mask | None) -> list[_native.Filter]:
    """What the native search is told of a mask over all rows, one filter for each segment; nothing without a mask.

    Made once for all queries: where few rows are allowed, their codes are copied (cpp/core/filter.h).
    """
    filters: list[_native.Filter] = []
    if mask is None or isinstance(mask, Allowed):
        return filters if mask is None else mask.filters
    first = 0
    for segment in segments:
        filters.append(_native.Filter(codebooks.native, segment.native, mask[first : first + segment.n_rows]))
        first += segment.n_rows
    return filters


def range_rows(
    codebooks: Codebooks,
    segments: tuple[Segment, ...],
    queries: FloatArray,
    radii: FloatArray,
    threads: int,
    mask: Mask | None = None,
    exhaustive: bool = False,
) -> tuple[NDArray[np.int64], FloatArray, NDArray[np.int64], NDArray[np.uint64]]:
    """Rows and distances of all that is within each query's radius, query after query; counts [n], work [n, 4]."""
    n = len(queries)
    counts, work = np.zeros(n, np.int64), np.zeros((n, 4), np.uint64)
    filters = filters_of(codebooks, segments, mask)
    parts: list[tuple[NDArray[np.int64], FloatArray]] = []
    for start in range(0, n, QUERIES_PER_CALL):
        part = slice(start, start + QUERIES_PER_CALL)
        found = _native.range_search(
            codebooks.native,
            [s.native for s in segments],
            filters,
            queries[part],
            radii[part],
            exhaustive,
            threads,
            counts[part],
            work[part],
        )
        parts.append(found)
    if len(parts) == 1:
        return *parts[0], counts, work
    rows = np.concatenate([np.zeros(0, np.int64), *(r for r, _ in parts)])
    return rows, np.concatenate([np.zeros(0, np.float32), *(d for _, d in parts)]), counts, work


def search_kept(
    codebooks: Codebooks,
    segments: tuple[Segment, ...],
    removed: Removed,
    queries: FloatArray,
    k: int,
    rule_of: Callable[[int, bool], margins.Rule],
    threads: int,
) -> tuple[NDArray[np.int64], FloatArray, NDArray[np.int64], NDArray[np.uint64], margins.Rule]:
    """As :func:`search_rows`, without the removed rows; last the rule that ran.

    A mask costs a pass over all rows for each call, and no margin is calibrated for it. So more than k hits are asked
    for and the removed ones dropped, which leaves the answer of a mask wherever k are left. Only queries that are left
    with fewer are searched again, with a mask. ``rule_of`` makes a rule of a number of hits, for a mask or not.
    """
    asked = hits_to_ask(k, removed.count / removed.n)
    if asked > WIDEST * k:
        rule, mask = rule_of(k, True), removed.kept().view(np.uint8)
        return (*search_rows(codebooks, segments, queries, k, rule, threads, mask)[:4], rule)
    # The rule for k: with the distance of a later hit in place of the k-th it passes over less than in an index of the
    # kept rows alone, and visits the same cells.
    rule = rule_of(k, False)
    rows, distances, found, work, _ = search_rows(codebooks, segments, queries, asked, rule, threads)
    kept = (rows >= 0) & ~removed.has(np.maximum(rows, 0))
    if len(queries) == 1 and len(first := np.flatnonzero(kept)[:k]) == k:  # the usual case, and it should be quick
        return rows[:, first], distances[:, first], np.array([k]), work, rule
    kept &= kept.cumsum(1) <= k
    counts = kept.sum(1)
    hit = np.arange(k) < counts[:, None]
    rows, distances = _scattered(rows[kept], hit, -1), _scattered(distances[kept], hit, np.inf)
    short = np.flatnonzero((counts < k) & (found == asked))
    if len(short):
        again = rule_of(k, True)
        rows[short], distances[short], counts[short], more, _ = search_rows(
            codebooks, segments, queries[short], k, again, threads, removed.kept().view(np.uint8)
        )
        work[short] += more
    return rows, distances, counts, work, rule


def _scattered(values: NDArray[Any], where: NDArray[np.bool_], other: float) -> NDArray[Any]:
    """The values in a table, row by row, where the mask says; another value elsewhere."""
    table = np.full(where.shape, other, values.dtype)
    table[where] = values
    return table


def hits_to_ask(k: int, share: float) -> int:
    """Hits among which there are k kept ones, nearly always, if that share of the rows is removed at random.

    The mean, and four standard deviations, of the draws until k are kept.
    """
    if share >= 1:
        return 2**62
    return math.ceil((k + 4 * math.sqrt(k * share)) / (1 - share))


def codes_of(codebooks: Codebooks, segments: tuple[Segment, ...], rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Codes uint8 [n, 1 + n_columns] of rows numbered through all segments, the cell's code first."""
    codes = np.empty((len(rows), 1 + len(codebooks.columns)), np.uint8)
    first = 0
    for segment in segments:
        here = (rows >= first) & (rows < first + segment.n_rows)
        if here.any():
            codes[here] = segment.codes_of(rows[here] - first)
        first += segment.n_rows
    return codes


def calibrate(
    codebooks: Codebooks,
    segments: tuple[Segment, ...],
    queries: FloatArray,
    own_rows: NDArray[np.int64] | None,
    threads: int,
) -> margins.Calibration:
    """A calibration from queries; ``own_rows``: the row that each query is itself, left out of its answer."""
    exact = margins.parse("exact", k=1, n=0, calibration=None, sigma=0.0)
    depth = max(margins.KS) + (own_rows is not None)
    rows, distances, _, _, trace = search_rows(codebooks, segments, queries, depth, exact, threads, trace=True)
    assert trace is not None
    width = trace.shape[2]
    rows, distances = rows[:, :width], distances[:, :width]
    excess, floors = trace
    sizes = np.zeros(codebooks.n_cells, np.int64)
    for segment in segments:
        starts = segment.arrays["cell_starts"].astype(np.int64)
        sizes += starts[1:] - starts[:-1]
    occupied = np.flatnonzero(sizes)
    bases = codebooks.bases(queries)[:, occupied]
    order = np.argsort(bases, axis=1, kind="stable")
    rank_of = np.empty_like(order)
    np.put_along_axis(rank_of, order, np.arange(order.shape[1])[None], axis=1)
    cells = codes_of(codebooks, segments, np.maximum(rows, 0).ravel())[:, 0].reshape(rows.shape)
    ranks = np.take_along_axis(rank_of, np.searchsorted(occupied, cells), axis=1)
    if own_rows is not None:
        own = rows == own_rows[:, None]
        own[~own.any(1), -1] = True  # not found: drop the last hit, so that all queries keep as many
        shape = (len(rows), width - 1)
        distances, excess, floors, ranks = (a[~own].reshape(shape) for a in (distances, excess, floors, ranks))
    rests = np.zeros(len(queries))
    if codebooks.metric == "l2" and not codebooks.overlaps_first and floors.shape[1]:
        first = np.take_along_axis(bases, np.searchsorted(occupied, cells[:, :1]), axis=1)[:, 0]
        rests = trace[1][:, 0].astype(np.float64) - first  # what the floor adds to the base, the same in all cells
    lengths = np.ones(len(queries))
    if codebooks.metric == "ip":
        lengths = np.maximum(np.sqrt((queries.astype(np.float64) ** 2).sum(1)), 1e-30)
    held = margins.Held(
        distances=distances,
        crude_excess=excess,
        floors=floors,
        ranks=ranks,
        bases=np.take_along_axis(bases, order, axis=1),
        sizes=sizes[occupied][order].astype(np.float64),
        lengths=lengths,
        rests=rests,
    )
    return margins.calibrate(held, int(sizes.sum()), codebooks.metric)
