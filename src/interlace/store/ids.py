"""Ids of a store: those of its segments in order, without the removed ones.

A store has int64 ids or strings. Default ids are the integers after the largest id ever used, so a segment that was
never compacted has one run of consecutive ids and stores nothing; after compaction there are a few runs. Other integers
are packed into blocks (``index/ids.py``). There is no hash table of ids: a look-up searches the sorted section of each
segment, and there are few segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.tombstones import JoinedTombstones, Tombstones
from ..index.id_values import IdArray, as_id_array
from ..index.ids import STORED, Ids

ROWS = 1 << 16  # strings copied at a time


class JoinedIds(Ids):
    """Ids of consecutive segments, and which rows are removed."""

    holder = "store"

    def __init__(self, parts: Sequence[tuple[Ids, Tombstones]], kind: str) -> None:
        sizes = np.array([ids.n for ids, _ in parts], np.int64)
        super().__init__(
            int(sizes.sum()), {f"{i}.{k}": a for i, (ids, _) in enumerate(parts) for k, a in ids.arrays.items()}
        )
        self._parts, self._kind = parts, kind
        self._ends = np.cumsum(sizes)
        self._starts = self._ends - sizes
        filled = [ids for ids, _ in parts if ids.n]
        self._only = filled[0] if len(filled) == 1 else None
        if any(dead.count for _, dead in parts):
            self.removed = JoinedTombstones([dead for _, dead in parts])

    @property
    def kind(self) -> str:
        """``int64`` or ``string``; ``default`` if no row was ever added."""
        return self._kind or "default"

    def place(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Segment of each row, and the number of the row within it."""
        parts = np.searchsorted(self._ends, rows, "right").astype(np.int64)
        return parts, rows - self._starts[parts]

    def take(self, rows: NDArray[np.int64]) -> IdArray:
        """Ids of rows of any shape; row -1 (no hit) gives -1, or None for strings."""
        if self._only is not None:
            return self._only.take(rows)
        out: IdArray = np.empty(rows.shape, object) if self.kind == "string" else np.full(rows.shape, -1, np.int64)
        hit = rows >= 0
        parts, inner = self.place(rows[hit])
        found = np.empty(len(inner), out.dtype)
        for part in np.flatnonzero(np.bincount(parts)).tolist():
            here = parts == part
            found[here] = self._parts[part][0].take(inner[here])
        out[hit] = found
        return out

    def find(self, ids: IdArray) -> NDArray[np.int64]:
        """Row of each id, -1 if there is none or it was removed."""
        rows, left = np.full(len(ids), -1, np.int64), np.arange(len(ids))
        for start, (own, dead) in zip(self._starts.tolist(), self._parts, strict=True):
            found = own.find(ids[left])
            here = found >= 0
            here &= ~dead.has(np.where(here, found, 0)) if dead.count else True
            rows[left[here]] = found[here] + start
            left = left[~here]
            if not len(left):
                break
        return rows

    def removed_row(self, value: Any) -> int:
        """The last removed row with this id; -1 if the id has a row, or the removed row was compacted."""
        ids = as_id_array([value], "id")
        if self.find(ids)[0] >= 0:
            return -1
        found = [own.find(ids)[0] for own, _ in self._parts]
        return max((start + int(row) for start, row in zip(self._starts, found, strict=True) if row >= 0), default=-1)


def joined(parts: Iterable[tuple[Ids, NDArray[np.int64]]], kind: str) -> Ids:
    """The ids of some rows of each part, as those of one new segment."""
    if kind == "string":
        texts, lengths = zip(*(_gathered(ids, rows) for ids, rows in parts), strict=True)
        offsets = np.zeros(1 + sum(map(len, lengths)), np.uint64)
        np.cumsum(np.concatenate(lengths), out=offsets[1:])
        return Ids(len(offsets) - 1, {"text": np.concatenate(texts), "offsets": offsets})
    return of_integers(np.concatenate([ids.take(rows) for ids, rows in parts]))


def of_integers(values: NDArray[np.int64]) -> Ids:
    """The smallest representation: one run, which stores nothing, or that of :meth:`Ids.of`."""
    if len(values) and int(values[-1]) - int(values[0]) == len(values) - 1 and (values[1:] > values[:-1]).all():
        return Ids.default(len(values), int(values[0]))
    return Ids.of(values)


def _gathered(ids: Ids, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """Concatenated text of some string ids, and the length of each."""
    if "text" not in ids.arrays:  # ids of the log
        ids, rows = Ids.of(ids.take(rows)), np.arange(len(rows))
    text, (starts, ends) = ids.arrays["text"], ids.bounds(rows)
    lengths = ends - starts
    pieces = [np.empty(0, np.uint8)]
    for first in range(0, len(rows), ROWS):
        sizes = lengths[first : first + ROWS].astype(np.int64)
        moved = starts[first : first + ROWS].astype(np.int64) - (np.cumsum(sizes) - sizes)
        pieces.append(text[np.repeat(moved, sizes) + np.arange(sizes.sum())])
    return np.concatenate(pieces), lengths


def without_padding(ids: Any) -> Any:
    """Ids of a :class:`Matches` without the padding of missing hits."""
    array = ids if isinstance(ids, np.ndarray) else None
    if array is None or array.ndim != 1:
        return ids
    if array.dtype == object:
        return array[[value is not None for value in array]]
    return array[array != -1] if array.dtype.kind == "i" else array


def describe(ids: Ids) -> dict[str, Any]:
    """The entry for the description of a segment; the arrays are sections of its file."""
    if ids.kind == "default":
        return {"kind": "run", "first": ids.first}
    return {"kind": ids.kind}


def stored(description: dict[str, Any], n: int, arrays: dict[str, NDArray[Any]]) -> Ids:
    """Inverse of :func:`describe`; raises ValueError if the arrays do not match."""
    kind = description["kind"]
    if kind == "run":
        first = description["first"]
        if arrays or type(first) is not int or not -(2**63) <= first <= 2**63 - n:
            raise ValueError(f"a run of {n} ids from {first!r:.60}")
        return Ids.default(n, first)
    if kind not in STORED or kind == "default":
        raise ValueError(f"ids of kind {kind!r:.60}")
    return Ids.stored(kind, n, arrays)
