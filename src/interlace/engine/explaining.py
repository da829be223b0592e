"""Why a search did, or did not, return a row: at which step it was lost, and by how much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..inputs.arrays import FloatArray
from .engine import Engine, RuleOf, kept_mask
from .filters import Allowed
from .margins import EXACT
from .scan import range_rows, search_rows

#: What may have become of a row.
FOUND, BEYOND, FAR_CELL, CELL_BOUND, CRUDE, FILTER, REMOVED = (
    "found",
    "beyond k",
    "cell not visited",
    "cell passed over",
    "crude step",
    "filter",
    "removed",
)
_STEPS = {"far cell": FAR_CELL, "cell bound": CELL_BOUND, "crude": CRUDE, "compared": BEYOND}


@dataclass(frozen=True)
class Explanation:
    """What one search by codes, without a re-rank, did with one row; ``print`` it, or read its numbers.

    Distances are as in :class:`Matches`.
    """

    id: int | str
    k: int
    margin: str  #: the rule that ran
    #: ``found``, ``beyond k``, ``cell not visited``, ``cell passed over``, ``crude step``, ``filter`` or ``removed``
    lost: str
    by: float  #: by how much it missed: 0 for what was found, else in the unit of what is compared (see ``print``)
    distance: float  #: of the query to the row's code
    rank: int  #: in the exhaustive scan of the rows that may be returned: 1 is the nearest
    kth_distance: float  #: of the k-th of them; inf if there are fewer
    cell: int  #: the row's first code; -1 where rows have no codes, and what follows is the distance itself
    cell_rank: int  #: of the cell by its base, from 1, as they are visited
    cells: int  #: that have rows which may be returned
    visited: bool  #: whether the rows of the cell were looked at, up to this one at least
    crude: float  #: the crude distance, which the first step looks at
    floor: float  #: no row of the cell is nearer
    #: the largest crude distance that passed when the row had its turn (or that of its cell); for a cell that was not
    #: visited, how far its base could have been above the smallest one
    limit: float
    value: float  #: what was compared with the limit: the crude distance, that of the cell's floor, or its base's

    @property
    def verdict(self) -> str:
        """One line."""
        if self.lost == FOUND:
            return f"not lost: rank {self.rank}"
        if self.lost == BEYOND:
            return f"beyond k: rank {self.rank} by code, farther than the k-th row by {self.by:.6g}"
        if self.lost == FAR_CELL:
            return (
                f"cell {self.cell} was not visited: its base is {self.value:.6g} above the smallest one, "
                f"the margin allows {self.limit:.6g} for its rank"
            )
        if self.lost == CELL_BOUND:
            return (
                f"cell {self.cell} was passed over: no crude distance in it is below {self.value:.6g}, "
                f"which is above the limit {self.limit:.6g} by {self.by:.6g}"
            )
        if self.lost == CRUDE:
            return (
                f"ruled out by the crude step: crude distance {self.value:.6g} is above the limit {self.limit:.6g} "
                f"by {self.by:.6g}"
            )
        return "left out by the filter" if self.lost == FILTER else "removed"

    def __str__(self) -> str:
        seen = "visited" if self.visited else "not visited"
        lines = [
            f"id {self.id!r}, k = {self.k}, margin {self.margin}: {self.verdict}",
            f"  distance {self.distance:.6g}, rank {self.rank} of the exhaustive scan; "
            f"the {self.k}{_ordinal(self.k)} has {self.kth_distance:.6g}",
        ]
        if self.cell < 0:
            return "\n".join(lines)
        lines += [
            f"  cell {self.cell}, {self.cell_rank}{_ordinal(self.cell_rank)} of {self.cells} by its base, {seen}; "
            f"no row in it is nearer than {self.floor:.6g}",
        ]
        if self.visited and self.lost in (FOUND, BEYOND, CRUDE):
            lines.append(f"  crude distance {self.crude:.6g}, limit {self.limit:.6g} when the row was compared")
        return "\n".join(lines)


def _ordinal(n: int) -> str:
    return "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")


def explain_row(
    engine: Engine, query: FloatArray, row: int, k: int, rule_of: RuleOf, allowed: Allowed | None = None
) -> Explanation:
    """Of row ``row``, for one query float32 [1, dim]; the id of the explanation is the row number."""
    codebooks, segments, removed = engine.codebooks, engine.segments, engine.removed
    metric = codebooks.metric_type
    query = metric.searched(query)
    answer, passes, _ = engine.scan(query, k, rule_of, 1, allowed)
    rule, asked, watched = passes[-1]
    gone = removed is not None and bool(removed.has(np.array([row]))[0])
    if allowed is None and removed is not None:
        allowed = engine.allow(kept_mask(removed))
    filters = () if allowed is None else allowed.filters
    left_out = allowed is not None and not allowed.has(row)
    if left_out:
        watched = ()  # a filtered scan has no numbers for rows that it leaves out
    native = [s.native for s in segments]
    trace = _native.trace(codebooks.native, native, list(watched), query[0], rule.native, asked, row)
    radius = np.array([trace.distance], np.float32)
    found, distances, _, _ = range_rows(codebooks, segments, query, radius, 1, filters)
    nearer = (distances < radius) | ((distances == radius) & (found < row))
    rank = 1 + int(nearer.sum())
    kth = float(search_rows(codebooks, segments, query, k, EXACT, 1, filters).distances[0, k - 1])
    lost, by = _STEPS[trace.step], float(np.float32(trace.value) - np.float32(trace.bound))
    visited = not left_out and trace.step in ("crude", "compared")
    if left_out:
        lost, by = REMOVED if gone else FILTER, 0.0
    elif row in answer.rows[0]:
        lost, by = FOUND, 0.0
    elif rank > k:
        lost, by = BEYOND, trace.distance - kth
    shown = metric.difference if lost == FAR_CELL else metric.reported
    return Explanation(
        id=row,
        k=k,
        margin=passes[0].rule.label,  # as the statistics of the search have it
        lost=lost,
        by=metric.difference(by),
        distance=float(np.float32(metric.reported(trace.distance))),
        rank=rank,
        kth_distance=float(np.float32(metric.reported(kth))),
        cell=trace.cell,
        cell_rank=trace.cell_rank + 1,
        cells=trace.n_cells,
        visited=visited,
        crude=metric.reported(trace.crude),
        floor=metric.reported(trace.floor),
        limit=shown(trace.bound),
        value=shown(trace.value),
    )


def compared_rows(
    engine: Engine, query: FloatArray, rows: NDArray[np.int64], k: int, rule_of: RuleOf, allowed: Allowed | None = None
) -> NDArray[np.bool_]:
    """Which rows one query float32 [1, dim] compares by their whole code: the survivors of the crude step among them.

    The search runs once for each row.
    """
    query, native = engine.codebooks.metric_type.searched(query), [s.native for s in engine.segments]
    _, passes, _ = engine.scan(query, k, rule_of, 1, allowed)
    rule, asked, watched = passes[-1]
    found = np.zeros(len(rows), np.bool_)
    for i, row in enumerate(rows.tolist()):
        if allowed is None or allowed.has(row):
            trace = _native.trace(engine.codebooks.native, native, list(watched), query[0], rule.native, asked, row)
            found[i] = _STEPS[trace.step] == BEYOND
    return found
