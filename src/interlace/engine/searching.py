"""Queries -> the nearest rows of packed segments, and what a margin must be for them: the two native searches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..codec.codebooks import Codebooks
from ..errors import DamagedFileError, InputError
from ..index.ids import Ids
from ..inputs.arrays import FloatArray
from . import calibrating, margins
from .segments import Segment, check_codes
from .tombstones import Removed

QUERIES_PER_CALL = 4096  # Ctrl-C works between native calls
#: What is counted for each query: cells, rows scanned, survivors, look-ups, strays.
WORK = 5
CELLS, SCANNED, SURVIVORS, LOOKUPS, STRAYS = range(WORK)
#: Answers (12 bytes each) are padded to k for each query; where there are fewer rows than k, so many at most.
MAX_PADDED = 2**24
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

    def __reduce__(self) -> Any:
        raise TypeError("an Allowed is not pickled: pass the mask or the ids, and call allow() in the other process")

    def __copy__(self) -> Allowed:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Allowed:
        return self  # nothing in it ever changes, and it holds for these rows only

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
    """Rows and distances [n, k] (-1 and inf beyond the last), counts [n], work [n, WORK]; with ``trace`` also that.

    The trace holds, for each hit, its crude distance above the floor
    of its cell, and the floor of the whole distance; its width is k or the number of rows, if there are fewer.
    """
    n, n_rows = len(queries), sum(s.n_rows for s in segments)
    if k > n_rows and n * k > MAX_PADDED:
        raise InputError(
            f"{n} queries x {k} hits (k and offset together) are more than {MAX_PADDED} answers, most of them empty: "
            f"there are {n_rows} rows; ask for at most that many hits"
        )
    width = max(1, min(k, n_rows))  # the rest of k can only be padding
    rows, distances = np.empty((n, width), np.int64), np.empty((n, width), np.float32)
    counts, work = np.empty(n, np.int64), np.empty((n, WORK), np.uint64)
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
    """Rows and distances of all that is within each query's radius, query after query; counts [n], work [n, WORK]."""
    n = len(queries)
    counts, work = np.zeros(n, np.int64), np.zeros((n, WORK), np.uint64)
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


def search_like(
    codebooks: Codebooks,
    segments: tuple[Segment, ...],
    removed: Removed | None,
    queries: FloatArray,
    k: int,
    rule_of: Callable[[int, bool], margins.Rule],
    threads: int,
    mask: Mask | None = None,
) -> tuple[NDArray[np.int64], FloatArray, NDArray[np.int64], NDArray[np.uint64], margins.Rule, int]:
    """As :func:`search_rows`, without the removed rows; then the rule that ran, and how many queries it was not for.

    A calibrated rule says how far the k-th hit of a query may be, and how many of its hits may lie beyond the slack.
    Queries beyond that are unlike those that it was made from, and are searched again, exactly.
    """

    def search(some: FloatArray, rule_of: Callable[[int, bool], margins.Rule]) -> Any:
        if mask is None and removed is not None:
            return search_kept(codebooks, segments, removed, some, k, rule_of, threads)
        rule = rule_of(k, mask is not None)
        return (*search_rows(codebooks, segments, some, k, rule, threads, mask)[:4], rule)

    rows, distances, counts, work, rule = search(queries, rule_of)
    if rule.farthest == math.inf:
        return rows, distances, counts, work, rule, 0
    limit = rule.farthest if codebooks.metric != "ip" else rule.farthest * np.sqrt((queries**2).sum(1))
    far = distances[:, min(k, margins.KS[-1]) - 1] > limit
    unlike = np.flatnonzero(far | (work[:, STRAYS] > rule.strays * k))
    if len(unlike):
        found = search(queries[unlike], lambda hits, filtered: margins.EXACT)
        rows[unlike], distances[unlike], counts[unlike] = found[:3]
        work[unlike] += found[3]
    return rows, distances, counts, work, rule, len(unlike)


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
    asked = min(hits_to_ask(k, removed.count / removed.n), max(k, removed.n))
    if asked > WIDEST * k:
        rule, mask = rule_of(k, True), removed.kept().view(np.uint8)
        return (*search_rows(codebooks, segments, queries, k, rule, threads, mask)[:4], rule)
    # The rule for k: with the distance of a later hit in place of the k-th it passes over less than in an index of the
    # kept rows alone, and visits the same cells.
    rule = rule_of(k, False)
    rows, distances, found, work, _ = search_rows(codebooks, segments, queries, asked, rule, threads)
    work[:, STRAYS] = work[:, STRAYS] * k // asked  # of k hits
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
    if len(rows) and not 0 <= rows.min() <= rows.max() < first:
        raise DamagedFileError(f"the index is damaged: it names row {int(rows.max())} of {first}")
    check_codes(codes, codebooks)
    return codes


def calibrate(
    codebooks: Codebooks,
    segments: tuple[Segment, ...],
    queries: FloatArray,
    own_rows: NDArray[np.int64] | None,
    threads: int,
    *,
    confidence: float = calibrating.CONFIDENCE,
) -> margins.Calibration:
    """A calibration from queries; ``own_rows``: the row that each query is itself.

    A query that is a row of the index must be found both ways: as one that comes again, with all rows in its answer,
    and as a new one, without its own row and those of the same code. Rows of one code count as one query: rows that
    were added twice say nothing new.
    """
    order = np.random.default_rng(0).permutation(len(queries))
    if own_rows is not None:
        codes = codes_of(codebooks, segments, own_rows[order])
        first = np.sort(np.unique(codes, axis=0, return_index=True)[1])
        own_codes, order = codes[first], order[first]
    queries = queries[order]
    sizes = np.zeros(codebooks.n_cells, np.int64)
    for segment in segments:
        starts = segment.arrays["cell_starts"].astype(np.int64)
        sizes += starts[1:] - starts[:-1]
    parts = []
    for start in range(0, max(1, len(queries)), calibrating.CALIBRATED_AT_ONCE):
        part = slice(start, start + calibrating.CALIBRATED_AT_ONCE)
        own = None if own_rows is None else own_codes[part]
        parts.append(_held(codebooks, segments, queries[part], own, sizes, threads))
    return calibrating.calibrate(parts, int(sizes.sum()), codebooks.metric, confidence=confidence)


def _held(
    codebooks: Codebooks,
    segments: tuple[Segment, ...],
    queries: FloatArray,
    own_codes: NDArray[np.uint8] | None,
    sizes: NDArray[np.int64],
    threads: int,
) -> calibrating.Held:
    """Exact answers of some queries, and what rules are made of."""
    deepest = max(margins.KS)
    depth = deepest if own_codes is None else deepest + 1 + calibrating.COPIES
    rows, distances, _, _, trace = search_rows(codebooks, segments, queries, depth, margins.EXACT, threads, trace=True)
    assert trace is not None
    width = trace.shape[2]
    rows, distances = rows[:, :width], distances[:, :width]
    if ((ordered := np.sort(rows, axis=1))[:, 1:] == ordered[:, :-1])[ordered[:, 1:] >= 0].any():
        raise DamagedFileError("the index is damaged: row numbers are not unique")
    excess, floors = trace
    occupied = np.flatnonzero(sizes)
    bases = codebooks.bases(queries)[:, occupied]
    order = np.argsort(bases, axis=1, kind="stable").astype(np.int32)
    rank_of = np.empty_like(order)
    np.put_along_axis(rank_of, order, np.arange(order.shape[1], dtype=np.int32)[None], axis=1)
    codes = codes_of(codebooks, segments, np.maximum(rows, 0).ravel()).reshape(*rows.shape, -1)
    cells = np.searchsorted(occupied, codes[:, :, 0])
    every = calibrating.Hits(distances, excess, floors, np.take_along_axis(rank_of, cells, axis=1))
    answers = [_first(every, deepest)]
    if own_codes is not None:
        answers.append(_first(_without(every, (codes == own_codes[:, None]).all(2)), deepest))
    rests = np.zeros(len(queries))
    if codebooks.one_floor and width:  # what the floor adds to the base is the same in all cells
        rests = floors[:, 0].astype(np.float64) - np.take_along_axis(bases, cells[:, :1], axis=1)[:, 0]
    lengths = np.ones(len(queries))
    if codebooks.metric == "ip":
        lengths = np.maximum(np.sqrt((queries.astype(np.float64) ** 2).sum(1)), 1e-30)
    return calibrating.Held(
        answers=tuple(answers),
        bases=np.take_along_axis(bases, order, axis=1),
        sizes=sizes[occupied][order].astype(np.float32),
        lengths=lengths,
        rests=rests,
        spans=codebooks.spans(queries),
    )


def _first(hits: calibrating.Hits, depth: int) -> calibrating.Hits:
    """The nearest ones only."""
    part = slice(0, depth)
    return calibrating.Hits(
        hits.distances[:, part].copy(),
        hits.crude_excess[:, part].copy(),
        hits.floors[:, part].copy(),
        hits.ranks[:, part].copy(),
    )


def _without(hits: calibrating.Hits, left_out: NDArray[np.bool_]) -> calibrating.Hits:
    """The others, those that are left out behind them at distance inf."""
    order = np.argsort(left_out, axis=1, kind="stable")
    distances = np.where(left_out, np.float32(np.inf), hits.distances)
    moved = (np.take_along_axis(a, order, axis=1) for a in (distances, hits.crude_excess, hits.floors, hits.ranks))
    return calibrating.Hits(*moved)
