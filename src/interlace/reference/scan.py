"""Search: visits cells in ascending order of their base, prunes rows by crude distances, computes full distances.

The crude distance of a row uses only the crude columns. It is compared with a limit derived from tau, the k-th best
full distance so far, and from *floors*, lower bounds of the crude distance and of the rest in a cell. Rows within the
limit are *survivors*: their full distance is computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codebooks
from ..codec.terms import DenseWords, F, Integers, dense_words
from ..engine.margins import EVERYTHING, FARTHEST, Rule
from ..inputs.arrays import FloatArray
from .lookup import Tables, tables
from .terms import INF, cell_terms, coarse_parts, cross_floors

ZERO = F(0)
#: Any gap is allowed. Not infinite, because the unit it is multiplied by may be 0.
ANY_GAP = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Hit:
    """One result, with its crude distance and the floors of its cell."""

    distance: np.float32
    row: int
    crude: np.float32
    crude_floor: np.float32
    floor: np.float32


def search(
    codebooks: Codebooks,
    codes: NDArray[np.uint8],
    q: FloatArray,
    k: int,
    rule: Rule,
    allowed: NDArray[np.bool_] | None = None,
    cuts: Sequence[int] = (),
) -> tuple[list[Hit], int]:
    """The k best rows of one query, and the number of survivors (rows whose full distance was computed).

    Cells are visited in ascending order of their base, rows of a cell in insertion order. A row is discarded if its
    crude distance exceeds the limit, which falls with tau, the k-th best distance so far. ``cuts`` are the first rows
    of the segments after the first one; each segment has its own floors of cross terms.
    """
    scan = _Scan.of(codebooks, codes, q, cuts)
    cells = _cells_to_visit(scan, q, k, rule, allowed)
    share = cells.share
    hits: list[Hit] = []
    survivors = 0
    for rank, cell in enumerate(cells.order):
        tau = hits[-1].distance if len(hits) == k else INF
        if rank >= cells.near and _beyond_slack(scan.t.base[cell], tau, cells):
            break
        floors = scan.floors(cell)
        for row in np.flatnonzero(scan.codes[:, 0] == cell).tolist():
            if allowed is not None and not allowed[row]:
                continue
            crude = scan.crude(row)
            if crude > _limit(hits, k, rule, share, floors):
                continue
            survivors += 1
            hit = Hit(scan.full(row), row, crude, floors.crude, floors.crude + floors.rest)
            hits = sorted([*hits, hit], key=lambda hit: (hit.distance, hit.row))[:k]
    return [replace(hit, distance=_reported(codebooks, hit.distance)) for hit in hits], survivors


def range_search(
    codebooks: Codebooks,
    codes: NDArray[np.uint8],
    q: FloatArray,
    radius: np.float32,
    exhaustive: bool = False,
    allowed: NDArray[np.bool_] | None = None,
    cuts: Sequence[int] = (),
) -> tuple[list[Hit], int]:
    """All rows with a distance of at most the radius, nearest first, and the number of survivors.

    Uses the exact rule of :func:`search` with the radius instead of tau; with ``exhaustive`` every row survives.
    """
    scan = _Scan.of(codebooks, codes, q, cuts)
    hits: list[Hit] = []
    survivors = 0
    for row, (cell, *_) in enumerate(scan.codes.tolist()):
        if allowed is not None and not allowed[row]:
            continue
        floors, crude = scan.floors(cell), scan.crude(row)
        if not exhaustive and crude > (radius - floors.rest) + floors.slack:
            continue
        survivors += 1
        distance = scan.full(row)
        if distance <= radius:
            hits.append(Hit(distance, row, crude, floors.crude, floors.crude + floors.rest))
    hits = sorted(hits, key=lambda hit: (hit.distance, hit.row))
    return [replace(hit, distance=_reported(codebooks, hit.distance)) for hit in hits], survivors


@dataclass(frozen=True)
class _Floors:
    """Lower bounds for the rows of a cell: of the crude distance, and of the rest; ``slack`` bounds rounding errors."""

    crude: np.float32
    rest: np.float32
    slack: np.float32


@dataclass(frozen=True)
class _Scan:
    """The codes of all rows and the tables of one query: distances and their lower bounds."""

    codebooks: Codebooks
    codes: Integers  # [n, 1 + n_columns], the cell first
    t: Tables
    dense: DenseWords
    cross: Integers  # [n_cells] smallest cross sum of the rows of each cell
    coarse: Integers  # [n] the part of each row's cross sum that belongs to its crude distance

    @classmethod
    def of(cls, codebooks: Codebooks, codes: NDArray[np.uint8], q: FloatArray, cuts: Sequence[int]) -> _Scan:
        segments = [part for part in np.split(codes, cuts) if len(part)] or [codes]
        cross = np.min([cross_floors(codebooks, part) for part in segments], axis=0)
        coarse = np.concatenate([coarse_parts(codebooks, part) for part in segments])
        numbers = codebooks.code_numbers(codes)
        return cls(codebooks, numbers, tables(codebooks, q), dense_words(codebooks), cross, coarse)

    def floors(self, cell: int) -> _Floors:
        """Lower bounds of a cell: sums of the smallest entries of each table, and its smallest cross term."""
        t, n_crude, n_columns = self.t, self.codebooks.n_crude_columns, len(self.codebooks.columns)
        base = crude = t.base[cell]
        for j in range(n_crude):
            crude = crude + t.minima[cell, j]
        rest = F(0)
        for j in range(n_crude, n_columns):
            rest = rest + t.minima[cell, j]
        if self.dense.of:
            rest = rest + self.dense.cross_term(self.cross[cell])
        return _Floors(crude, rest, F(n_columns + 8) * F(2.0**-23) * (np.abs(base) + t.bound))

    def crude(self, row: int) -> np.float32:
        """Crude distance: base, crude columns, and the coarse part of the cross sum."""
        distance = self._crude_sum(row)
        if self.codebooks.folds_cells:
            distance = distance + self.dense.cross_term(self.coarse[row])
        return distance

    def _crude_sum(self, row: int) -> np.float32:
        code = self.codes[row]
        distance: np.float32 = self.t.base[code[0]]
        for j in range(self.codebooks.n_crude_columns):
            distance = distance + self.t.tables[code[0], j, code[1 + j]]
        return distance

    def full(self, row: int) -> np.float32:
        """Full distance: base, all columns and the cross term."""
        code, distance = self.codes[row], self._crude_sum(row)
        for j in range(self.codebooks.n_crude_columns, len(self.codebooks.columns)):
            distance = distance + self.t.tables[code[0], j, code[1 + j]]
        if self.dense.of:
            distance = distance + self.dense.cross_term(self.dense.cross_sum(code))
        # Rounding may leave a squared distance below 0, so it is clamped. With constant cross terms distances are only
        # approximate: rows are ranked by the unclamped value, and clamped when they are reported.
        return distance if self.approximate else _reported(self.codebooks, distance)

    @property
    def approximate(self) -> bool:
        """Whether cross terms are replaced by a constant."""
        return any(not norm.stored for norm in self.codebooks.norms)


def _reported(codebooks: Codebooks, distance: np.float32) -> np.float32:
    """Squared distances are clamped at 0."""
    return distance if not codebooks.metric_type.is_squared or distance > 0 else ZERO


@dataclass(frozen=True)
class _Cells:
    """Non-empty cells in ascending order of base; the first ``near`` are always visited (cpp/core/rule.h)."""

    order: list[int]
    near: int
    share: np.float32
    floor: np.float32 = ZERO  # smallest sum of table entries, if tables are the same in all cells
    slack: np.float32 = -INF
    one_floor: bool = False  # tables are the same in all cells


@np.errstate(invalid="ignore")
def _beyond_slack(base: np.float32, tau: np.float32, cells: _Cells) -> bool:
    """Whether a cell exceeds tau by more than the slack, in lower bounds or, for l2 with cell terms, in distances."""
    if cells.one_floor:
        return bool(base + cells.floor - tau > cells.slack)
    return bool(np.sqrt(max(base, F(0))) - np.sqrt(max(tau, F(0))) > cells.slack)


def _span(t: Tables, sizes: Sequence[int]) -> np.float32:
    """Mean over codes of the table entries above their minimum, summed over columns; 16 lanes like the native code."""
    span = F(0)
    for table, n in zip(t.tables[0], sizes, strict=True):
        above = np.zeros(256, F)
        above[:n] = table[:n] - table[:n].min()
        lanes, total = np.zeros(16, F), F(0)
        for row in above.reshape(-1, 16):
            lanes = lanes + row
        for lane in lanes:
            total = total + lane
        span = span + total / F(n)
    return span


@np.errstate(over="ignore", invalid="ignore")  # tau and slack may be infinite
def _cells_to_visit(scan: _Scan, q: FloatArray, k: int, rule: Rule, allowed: NDArray[np.bool_] | None) -> _Cells:
    """The order of the cells, and how many of them a calibrated rule always visits; others may be skipped by slack."""
    codebooks, codes, base = scan.codebooks, scan.codes, scan.t.base
    sizes = np.bincount(codes[:, 0] if allowed is None else codes[allowed, 0], minlength=len(base))
    order = [int(cell) for cell in np.argsort(base + F(0), kind="stable") if sizes[cell]]
    native = rule.native
    if not native.stops or not order:
        return _Cells(order, len(order), F(native.share))
    nearest, length = base[order[0]], F(1)
    if codebooks.metric_type.scales_with_query:
        square = F(0)
        for d in range(codebooks.dim):
            square += q[d] * q[d]
        length = np.sqrt(square)
    floor = F(0)
    one_floor = not scan.dense.of and not (codebooks.metric_type.is_squared and cell_terms(codebooks).step > 0)
    if one_floor:
        for j in range(len(codebooks.columns)):
            floor = floor + scan.t.minima[order[0], j]
    # If books share no dimension with the first, the base does not include their part of the distance.
    if nearest + (floor if codebooks.metric_type.is_squared else F(0)) > F(native.reach) * length:
        return _Cells(order, len(order), F(1))  # farther than the calibration queries: search exactly
    if codebooks.metric_type.is_squared and native.inner > 0:
        square = F(0)
        for d in range(codebooks.dim):
            square += (q[d] - codebooks.mean[d]) * (q[d] - codebooks.mean[d])
        if square < F(native.inner):
            return _Cells(order, len(order), F(1))  # nearer to the middle of the data than they are
    unit = max(nearest, F(native.least))
    if not codebooks.metric_type.is_squared:
        total = 0.0
        for cell in sorted(order):
            total += float(base[cell])
        unit = F(total / len(order) - float(nearest))
    spread = spread_of(native.weight, native.stop, len(order))
    near = rows = 0  # at least k rows are visited
    while near < len(order) and (rows < k or base[order[near]] - nearest <= spread[near] * unit):
        rows += int(sizes[order[near]])
        near += 1
    slack = F(native.slack) * (_span(scan.t, codebooks.column_sizes[1:]) if one_floor else F(1))
    return _Cells(order, near, F(native.share), floor, slack, one_floor)


def spread_of(weight: float, stop: float, n_cells: int) -> FloatArray:
    """The largest gap at which the cell of each rank is visited (cpp/core/rule.cpp); the first cell always is."""
    room = stop - np.array([math.log1p(rank) for rank in range(n_cells)])
    allowed = np.where(room < 0, -1.0, room / weight if weight > 0 else ANY_GAP)
    allowed[allowed >= FARTHEST] = ANY_GAP  # as margins.gaps() sees it
    allowed[:1] = ANY_GAP
    return allowed.astype(np.float32)


def _limit(hits: list[Hit], k: int, rule: Rule, share: np.float32, floors: _Floors) -> np.float32:
    """The largest crude distance of a survivor (cpp/core/rule.h)."""
    if len(hits) < k or rule.native.kind == "everything":
        return INF
    tau = hits[-1].distance
    if rule.native.kind == "paper":
        return np.float32(hits[-1].crude + F(rule.native.sigma))
    if share == 1:
        return np.float32((tau - floors.rest) + floors.slack)
    room = tau - (floors.crude + floors.rest)  # negative: no row of the cell can be among the k best
    return np.float32((floors.crude + (share * room if room > 0 else room)) + floors.slack)


def exhaustive(codebooks: Codebooks, codes: NDArray[np.uint8], q: FloatArray, k: int) -> list[Hit]:
    """The k best rows by full distances of all rows."""
    return search(codebooks, codes, q, k, EVERYTHING)[0]


def distance_to_decoded(codebooks: Codebooks, codes: NDArray[np.uint8], q: FloatArray) -> NDArray[np.float64]:
    """What the tables approximate: squared distances to the decoded vectors, or products, in double precision.

    For cosine, q has the length that is searched (``Metric.searched``), and ``Metric.reported`` makes distances of it.
    """
    decoded, wide = codebooks.decode(codes).astype(np.float64), q.astype(np.float64)
    if codebooks.metric_type.is_squared:
        return np.asarray(((decoded - wide) ** 2).sum(-1))
    return codebooks.metric_type.pair_distances(wide, decoded)
