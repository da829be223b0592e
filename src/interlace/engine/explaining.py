"""Why a search did, or did not, return a row: at which step it was lost, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..codec.codebooks import Codebooks
from ..index.ids import Ids
from ..inputs.arrays import FloatArray
from . import margins
from .searching import WIDEST, Allowed, Mask, filters_of, hits_to_ask, range_rows, search_like, search_rows
from .segments import Segment

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
    """What one search did with one row; ``print`` it, or read its numbers. Distances are as in :class:`Matches`."""

    id: int | str
    k: int
    margin: str  #: the rule that ran
    #: ``found``, ``beyond k``, ``cell not visited``, ``cell passed over``, ``crude step``, ``filter`` or ``removed``
    lost: str
    by: float  #: by how much it missed: 0 for what was found, else in the unit of what is compared (see ``print``)
    distance: float  #: of the query to the row's code
    rank: int  #: in the exhaustive scan of the rows that may be returned: 1 is the nearest
    kth_distance: float  #: of the k-th of them; inf if there are fewer
    cell: int  #: the row's first code
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
            return f"beyond k: rank {self.rank}, farther than the k-th row by {self.by:.6g}"
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
            f"  cell {self.cell}, {self.cell_rank}{_ordinal(self.cell_rank)} of {self.cells} by its base, {seen}; "
            f"no row in it is nearer than {self.floor:.6g}",
        ]
        if self.lost in (FOUND, BEYOND, CRUDE):
            lines.append(f"  crude distance {self.crude:.6g}, limit {self.limit:.6g} when it had its turn")
        return "\n".join(lines)


def _ordinal(n: int) -> str:
    return "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")


class RuleOf(Protocol):
    """Makes a rule of a number of hits, for a filter or not."""

    def __call__(self, k: int, filtered: bool) -> margins.Rule: ...


def explain_row(
    codebooks: Codebooks,
    segments: tuple[Segment, ...],
    ids: Ids,
    query: FloatArray,
    row: int,
    k: int,
    rule_of: RuleOf,
    mask: Mask | None,
) -> Explanation:
    """Of row ``row``, for one query float32 [1, dim]; what ``Index.search`` does is done again, and watched."""
    if search_like(codebooks, segments, ids.removed, query, k, rule_of, 1, mask)[-1]:  # it was searched again, exactly

        def rule_of(k: int, filtered: bool) -> margins.Rule:
            return margins.EXACT

    removed = ids.removed
    gone = removed is not None and bool(removed.has(np.array([row]))[0])
    filtered = mask is not None
    if mask is None and removed is not None:
        mask = removed.kept().view(np.uint8)
    asked, rule, watched = k, rule_of(k, filtered), mask
    answer: NDArray[np.int64] | None = None
    if removed is not None and not filtered:  # as searching.search_kept: more hits, or a mask
        asked = min(hits_to_ask(k, removed.count / removed.n), max(k, removed.n))
        if asked <= WIDEST * k:
            rows, _, counts, _, _ = search_rows(codebooks, segments, query, asked, rule, 1)
            kept = rows[0, : counts[0]][~removed.has(rows[0, : counts[0]])]
            answer = kept[:k] if len(kept) >= k or counts[0] < asked else None
        if answer is None:
            asked, rule = k, rule_of(k, True)
        else:
            watched = None
    if answer is None:
        answer = search_rows(codebooks, segments, query, k, rule, 1, mask)[0][0]
    left_out = mask is not None and not (mask.has(row) if isinstance(mask, Allowed) else mask[row])
    if left_out:
        watched = None  # its numbers are there only where it is
    trace = _native.trace(
        codebooks.native,
        [s.native for s in segments],
        filters_of(codebooks, segments, watched),
        query[0],
        rule.native,
        asked,
        row,
    )
    found, distances, _, _ = range_rows(
        codebooks, segments, query, np.array([trace.distance], np.float32), 1, mask, exhaustive=False
    )
    nearer = (distances < np.float32(trace.distance)) | ((distances == np.float32(trace.distance)) & (found < row))
    rank = 1 + int(nearer.sum())
    exact = margins.parse("exact", k=k, n=0, calibration=None, sigma=0.0)
    kth = float(search_rows(codebooks, segments, query, k, exact, 1, mask)[1][0, k - 1])
    lost, by = _STEPS[trace.step], float(np.float32(trace.value) - np.float32(trace.bound))
    visited = not left_out and trace.step in ("crude", "compared")
    if left_out:
        lost, by = REMOVED if gone else FILTER, 0.0
    elif row in answer:
        lost, by = FOUND, 0.0
    elif rank > k:
        lost, by = BEYOND, trace.distance - kth
    return Explanation(
        id=ids.take(np.array([row])).tolist()[0],
        k=k,
        margin=rule.label,
        lost=lost,
        by=by,
        distance=trace.distance,
        rank=rank,
        kth_distance=kth,
        cell=trace.cell,
        cell_rank=trace.cell_rank + 1,
        cells=trace.n_cells,
        visited=visited,
        crude=trace.crude,
        floor=trace.floor,
        limit=trace.bound,
        value=trace.value,
    )
