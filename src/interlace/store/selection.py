"""Rows that a filter lets through, ready to be searched: again and again, at a cost that falls with their number.

Few rows are copied: their codes are packed into a segment of their own, and the search that scans all others scans
that. Rows keep their order, so distances and ties are those of the whole, to the last bit. Many rows are searched where
they are, by a mask.

Which of the two is a matter of cost. Both begin by finding where rows stand, which takes a pass over the segment (few
nanoseconds per row of it, and less for a handful of rows). A copy then costs about as much per row as a mask costs a
query per sixteen rows; so copying pays from the first query on below a share of some percent, and soon for a filter
that is used again.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codebooks import Codebooks
from ..ids import Ids
from ..index import Index
from ..margins import Rule
from ..matches import Matches
from ..searching import codes_of
from ..segments import Segment, damage_named
from ..tombstones import Removed

#: Up to this share of all rows those that qualify are copied.
COPIED = 1 / 16


@dataclass(frozen=True, eq=False)
class Selection:
    """What to search, in place of all rows of a snapshot."""

    index: Index  # whose ids are its row numbers
    rows: NDArray[np.int64] | None = None  # which rows of the snapshot those are; None: all
    mask: NDArray[np.bool_] | None = None  # which of them qualify; None: all
    filtered: bool = True

    @classmethod
    def of(cls, whole: Index, allowed: NDArray[Any]) -> Selection:
        """From a mask over all rows of an index, removed ones included (and False), or from such rows, ascending."""
        n = whole._ids.n
        if allowed.dtype != np.bool_ and len(allowed) > COPIED * n:
            mask = np.zeros(n, np.bool_)
            mask[allowed] = True
            return cls.masked(whole, mask)
        if allowed.dtype == np.bool_ and np.count_nonzero(allowed) > COPIED * n:
            return cls.masked(whole, allowed)
        return cls.copied(whole, np.flatnonzero(allowed) if allowed.dtype == np.bool_ else allowed)

    @classmethod
    def copied(cls, whole: Index, rows: NDArray[np.int64]) -> Selection:
        """The codes of these rows in a segment of their own."""
        codebooks = whole.codebooks
        with damage_named():
            codes = codes_of(codebooks, whole._segments, rows)
        segments = (Segment.pack(codes, codebooks),) if len(rows) else ()
        return cls(numbered(codebooks, whole, segments, len(rows), None), rows)

    @classmethod
    def masked(cls, whole: Index, mask: NDArray[np.bool_]) -> Selection:
        """All rows where they are."""
        return cls(numbered(whole.codebooks, whole, whole._segments, whole._ids.n, None), None, mask)

    @property
    def count(self) -> int:
        """Rows that qualify."""
        return len(self.index) if self.mask is None else int(np.count_nonzero(self.mask))

    def search(
        self, q: Any, k: int, margin: float | str, rule: Rule, threads: int | None, embedded: bool, n: int
    ) -> Matches:
        """Matches whose ids are row numbers of the snapshot of n rows; ``rule`` is what ``margin`` means there."""
        if self.filtered and rule.kind == "share":
            margin = "exact"
        found = self.index.search(q, k, margin=margin, threads=threads, filter=self.mask, embedded=embedded)
        stats = dataclasses.replace(found.stats, rows=n, margin=rule.label if self.filtered else found.stats.margin)
        rows = found.ids if self.rows is None else _through(self.rows, found.ids)
        return dataclasses.replace(found, ids=rows, stats=stats)


def everything(whole: Index) -> Selection:
    """All rows that were not removed."""
    index = numbered(whole.codebooks, whole, whole._segments, whole._ids.n, whole._ids.removed)
    index._calibration = whole._calibration
    return Selection(index, filtered=False)


def numbered(
    codebooks: Codebooks, whole: Index, segments: tuple[Segment, ...], n: int, removed: Removed | None
) -> Index:
    """An index that answers with row numbers."""
    ids = Ids.default(n)
    ids.removed = removed
    return Index.of_parts(codebooks, whole.embedding, segments, ids, None)


def _through(rows: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of the snapshot, from those of the copy."""
    if not len(rows):
        return found
    return np.asarray(np.where(found < 0, np.int64(-1), rows[np.maximum(found, 0)]))
