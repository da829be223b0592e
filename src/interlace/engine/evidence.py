"""Queries and their exact answers: what margins are calibrated with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codebooks
from ..errors import DamagedFileError
from ..inputs.arrays import FloatArray
from . import distinct
from .margins import EXACT, KS
from .scan import codes_of, search_rows
from .segments import Segment

#: Rows of an index that calibrate it where there are no queries: one of so many rows, at least and at most. The test of
#: a rule (calibrating.py) lets it lose the more of what a target near 1 allows, the more queries there are, and large
#: indexes gain most from bold rules.
HELD_OUT_EVERY, HELD_OUT_LEAST, HELD_OUT_MOST = 25, 5000, 12_000
#: Rows with the same code as a query that are searched for beside the nearest ones.
COPIES = 64
#: Nearest rows that a row's third answer leaves out: without them the row stands for a query that is farther from the
#: rows than they are from each other.
OUTSIDE = 10
#: Queries whose answers are computed at a time, which bounds memory.
CALIBRATED_AT_ONCE = 250
#: Queries by which the cost of a rule is estimated: at least, at most, and entries of all their cells.
COST_QUERIES, COST_ENTRIES = (50, 400), 400 * 1024


@dataclass(frozen=True)
class Hits:
    """Exact answers, [queries, depth] each, in ascending order of distance; inf beyond the last."""

    distances: FloatArray
    crude_excess: FloatArray  # crude distance above the crude floor of its cell
    floors: FloatArray  # of the whole distance in its cell
    bases: FloatArray  # of its cell
    ranks: NDArray[np.int32]  # of its cell among all that hold rows, by ascending base

    def __getitem__(self, part: Any) -> Hits:
        return Hits(*(getattr(self, f.name)[part] for f in fields(self)))


@dataclass(frozen=True)
class Visits:
    """All cells that hold rows, in the order in which some queries visit them: [queries, cells] each."""

    bases: FloatArray
    sizes: FloatArray  # rows


@dataclass(frozen=True)
class Held:
    """Queries and their exact answers: one, or several that the same rule must find."""

    answers: tuple[Hits, ...]
    nearest: FloatArray  # [queries] the smallest base
    spread: NDArray[np.float64]  # [queries] mean of base - smallest base
    lengths: NDArray[np.float64]  # [queries] 1, or the length of the query for ip
    squares: NDArray[np.float64]  # [queries] squared distance from the mean of the data
    rests: NDArray[np.float64]  # [queries] the smallest entries of all tables, where they are the same in all cells
    spans: FloatArray  # [queries] what an average row adds to them there; 0 elsewhere
    visits: Visits  # of the first queries, for the cost of a rule
    counts: NDArray[np.float64]  # [queries] how many rows of the same code, or given queries, each stands for

    def __getitem__(self, part: slice) -> Held:
        """A slice of the queries; only one from the first query on has visits."""
        per_query: dict[str, Any] = {name: getattr(self, name)[part] for name in _PER_QUERY}
        visits = Visits(self.visits.bases[:0], self.visits.sizes[:0]) if part.start else self.visits
        return Held(answers=tuple(answer[part] for answer in self.answers), visits=visits, **per_query)

    def only(self, kept: NDArray[np.bool_], counts: NDArray[np.int64]) -> Held:
        """Some of the queries, each with its number of repeats; both arrays have an entry for every query."""
        per_query: dict[str, Any] = {name: getattr(self, name)[kept] for name in _PER_QUERY}
        visited = kept[: len(self.visits.bases)]
        visits = Visits(self.visits.bases[visited], self.visits.sizes[visited])
        answers = tuple(answer[kept] for answer in self.answers)
        return Held(answers=answers, visits=visits, **per_query | {"counts": counts[kept].astype(np.float64)})

    @classmethod
    def joined(cls, parts: list[Held]) -> Held:
        """All queries of some parts, one behind the other; the parts are used up, so that nothing is there twice."""
        kinds = range(len(parts[0].answers))
        of_hits = [[[getattr(p.answers[i], f.name) for p in parts] for f in fields(Hits)] for i in kinds]
        others = {name: [getattr(p, name) for p in parts] for name in _PER_QUERY}
        visits = [[getattr(p.visits, f.name) for p in parts] for f in fields(Visits)]
        parts.clear()
        answers = tuple(Hits(*map(_joined, arrays)) for arrays in of_hits)
        per_query = {name: _joined(arrays) for name, arrays in others.items()}
        return cls(answers=answers, visits=Visits(*map(_joined, visits)), **per_query)


class Evidence(NamedTuple):
    """What a calibration is made from."""

    parts: list[Held]  # in random order
    n_rows: int
    first: NDArray[np.int64]  # of each given query, the number of the one that it repeats; its own if there is none

    def sample(self, n: int) -> NDArray[np.int64]:
        """Numbers of up to n different queries, ascending: evenly among those that were given, then among the rest."""
        chosen = np.unique(self.first[_evenly(len(self.first), n)])
        rest = np.setdiff1d(self.first, chosen)
        return np.union1d(chosen, rest[_evenly(len(rest), n - len(chosen))])


def _evenly(n: int, wanted: int) -> NDArray[np.int64]:
    return np.linspace(0, n - 1, min(wanted, n)).astype(np.int64)


_PER_QUERY = ("nearest", "spread", "lengths", "squares", "rests", "spans", "counts")


def _joined(arrays: list[Any]) -> Any:
    joined = np.concatenate(arrays)
    arrays.clear()
    return joined


def held_out_rows(n: int) -> int:
    """How many rows of n calibrate their index, where there are so many."""
    return min(max(n // HELD_OUT_EVERY, HELD_OUT_LEAST), HELD_OUT_MOST)


def cost_queries(n_cells: int) -> int:
    """Queries whose visits are kept: an estimate of the cost needs few, and each has an entry for every cell."""
    return max(COST_QUERIES[0], min(COST_QUERIES[1], COST_ENTRIES // max(1, n_cells)))


def gathered(
    codebooks: Codebooks,
    segments: Sequence[Segment],
    queries: FloatArray,
    own_rows: NDArray[np.int64] | None,
    threads: int,
) -> Evidence:
    """Exact answers of prepared queries, in random order; ``own_rows``: the row that each query is.

    Queries that repeat others (engine/distinct.py) are one, which counts as often as there are of them.

    A query that is a row of the index has three answers, and a rule must find all of them: as a query that is a row,
    with all rows in its answer; as a new one, without its own row and those of the same code; and as one from outside
    the rows, without the ``OUTSIDE`` nearest of those either, if there are enough rows. Rows of one code are one query,
    since rows that were added twice are no new evidence, and count as often as there are of them.
    """
    order = np.random.default_rng(0).permutation(len(queries))
    first_of = np.arange(len(queries))
    own_codes, counts = None, np.ones(len(queries))
    if own_rows is not None:
        codes = codes_of(codebooks, segments, own_rows[order])
        _, first, found = np.unique(codes, axis=0, return_index=True, return_counts=True)
        ascending = np.argsort(first)
        first, counts = first[ascending], found[ascending].astype(np.float64)
        own_codes, order = codes[first], order[first]
    queries = queries[order]
    searched = codebooks.metric_type.searched(queries)
    sizes = np.zeros(codebooks.n_cells, np.int64)
    for segment in segments:
        starts = segment.arrays["cell_starts"].astype(np.int64)
        sizes += starts[1:] - starts[:-1]
    parts, answers = [], []
    n_visits = cost_queries(int(np.count_nonzero(sizes)))
    for start in range(0, max(1, len(queries)), CALIBRATED_AT_ONCE):
        part = slice(start, start + CALIBRATED_AT_ONCE)
        own = None if own_codes is None else own_codes[part]
        visited = max(0, n_visits - start)
        held, rows = _held(codebooks, segments, searched[part], own, counts[part], sizes, visited, threads)
        parts.append(held)
        answers.append(rows)
    if own_rows is None:
        first = distinct.repeated(codebooks, queries, np.concatenate(answers))
        kept, times = first == np.arange(len(first)), np.bincount(first, minlength=len(first))
        for i in range(len(parts)):
            part = slice(i * CALIBRATED_AT_ONCE, (i + 1) * CALIBRATED_AT_ONCE)
            parts[i] = parts[i].only(kept[part], times[part])
        first_of[order] = order[first]
    return Evidence(parts, int(sizes.sum()), first_of)


def _held(
    codebooks: Codebooks,
    segments: Sequence[Segment],
    queries: FloatArray,
    own_codes: NDArray[np.uint8] | None,
    counts: NDArray[np.float64],
    sizes: NDArray[np.int64],
    n_visits: int,
    threads: int,
) -> tuple[Held, NDArray[np.int64]]:
    """Exact answers of some queries, and what rules are chosen by; and the rows of the first answers."""
    deepest = max(KS)
    depth = deepest if own_codes is None else deepest + 1 + COPIES + OUTSIDE
    width = max(1, min(depth, int(sizes.sum())))
    trace = np.empty((2, len(queries), width), np.float32)
    rows, distances, _, _ = search_rows(codebooks, segments, queries, width, EXACT, threads, trace=trace)
    if ((ordered := np.sort(rows, axis=1))[:, 1:] == ordered[:, :-1])[ordered[:, 1:] >= 0].any():
        raise DamagedFileError("the index is damaged: row numbers are not unique")
    excess, floors = trace
    occupied = np.flatnonzero(sizes)
    bases = codebooks.bases(queries)[:, occupied]
    ascending = np.sort(bases, axis=1)
    codes = codes_of(codebooks, segments, np.maximum(rows, 0).ravel()).reshape(*rows.shape, -1)
    cells = np.searchsorted(occupied, codebooks.split_codes(codes)[0])
    of_hits = np.take_along_axis(bases, cells, axis=1)
    ranks = [np.searchsorted(a, b, side="right") - 1 for a, b in zip(ascending, of_hits, strict=True)]  # ties: the last
    every = Hits(distances, excess, floors, of_hits, np.array(ranks, np.int32).reshape(of_hits.shape))
    answers = [every[:, :deepest]]
    if own_codes is not None:
        others = _without(every, (codes == own_codes[:, None]).all(2))
        answers.append(others[:, :deepest])
        if width == depth:
            answers.append(others[:, OUTSIDE : OUTSIDE + deepest])
    rests = np.zeros(len(queries))
    if codebooks.one_floor and width:  # what the floor adds to the base is the same in all cells
        rests = floors[:, 0].astype(np.float64) - of_hits[:, 0]
    lengths = np.maximum(codebooks.metric_type.limit_scales(queries.astype(np.float64)), 1e-30)
    visits = np.argsort(bases[:n_visits], axis=1, kind="stable")
    held = Held(
        answers=tuple(answers),
        nearest=ascending[:, 0],
        spread=ascending.mean(1, dtype=np.float64) - ascending[:, 0],
        lengths=lengths,
        squares=((queries.astype(np.float64) - codebooks.mean) ** 2).sum(1),
        rests=rests,
        spans=codebooks.spans(queries),
        visits=Visits(ascending[:n_visits], sizes[occupied][visits].astype(np.float32)),
        counts=counts,
    )
    return held, rows[:, :deepest]


def _without(hits: Hits, left_out: NDArray[np.bool_]) -> Hits:
    """The others, those that are left out behind them at distance inf."""
    order = np.argsort(left_out, axis=1, kind="stable")
    distances = np.where(left_out, np.float32(np.inf), hits.distances)
    others = (hits.crude_excess, hits.floors, hits.bases, hits.ranks)
    return Hits(*(np.take_along_axis(a, order, axis=1) for a in (distances, *others)))
