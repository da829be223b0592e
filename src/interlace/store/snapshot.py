"""What a store holds at one time: immutable, swapped as a whole, searched as an ``Index``.

A snapshot is a list of segments, the rows of the log behind them, and which rows of each were removed. An ``Index``
is a list of segments with ids, so a snapshot makes one of itself and searches that: there is no second way to search.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray
from ..errors import InputError
from ..ids import IdArray, Ids
from ..index import Index
from ..matches import Matches
from ..searches import Searches
from ..segments import Codes, Segment
from ..tombstones import Tombstones
from .ids import JoinedIds, joined
from .log import Record
from .parts import Part
from .tail import Tail

ROWS = 4096  # ids made at a time while iterating


class Snapshot(Searches):
    """One state of a :class:`Store`, which stays as it is while the store goes on."""

    def __init__(
        self,
        books: Index,
        parts: tuple[Part, ...],
        removed: tuple[Tombstones, ...],  # of each part, and of the tail
        tail: Tail,
        kind: str,
        next_id: int,
    ) -> None:
        self.books, self.parts, self.removed, self.tail = books, parts, removed, tail
        self.kind, self.next_id = kind, next_id

    # --- reading

    @cached_property
    def ids_of_rows(self) -> JoinedIds:
        """Row numbers <-> ids, through all segments."""
        each = [*(part.ids for part in self.parts), self.tail.ids]
        return JoinedIds(list(zip(each, self.removed, strict=True)), self.kind)

    @cached_property
    def index(self) -> Index:
        """The same as an index; it must not be changed."""
        return self.new_index()

    def new_index(self) -> Index:
        """Another such index."""
        segments = (*(part.segment for part in self.parts), *self.tail.segments)
        books = self.books
        return Index.of_parts(books.codebooks, books.embedding, segments, self.ids_of_rows, books._calibration)

    def search(
        self,
        q: Any,
        k: int = 10,
        *,
        offset: int = 0,
        margin: float | str = 0.999,
        threads: int | None = None,
        filter: Any = None,
        embedded: bool = False,
    ) -> Matches:
        """See :meth:`Index.search`."""
        return self.index.search(q, k, offset=offset, margin=margin, threads=threads, filter=filter, embedded=embedded)

    def _searched(self) -> Index:
        return self.index

    def get(self, ids: Any) -> FloatArray:
        """See :meth:`Index.reconstruct`."""
        return self.index.reconstruct(ids)

    @property
    def ids(self) -> IdArray:
        """Every id in the order of insertion."""
        return self.ids_of_rows.all()

    def __len__(self) -> int:
        return self.ids_of_rows.n_kept

    def __contains__(self, value: object) -> bool:
        return self.ids_of_rows.contains(value)

    def __iter__(self) -> Iterator[int | str]:
        rows = self.ids_of_rows.kept_rows()
        for start in range(0, len(rows), ROWS):
            yield from self.ids_of_rows.take(rows[start : start + ROWS]).tolist()

    # --- what comes next

    def default_ids(self, n: int) -> IdArray:
        """The next n ids, for rows that come without."""
        if self.kind == "string":
            raise InputError(f"this store has string ids; pass ids for the {n} new rows")
        if self.next_id + n > 2**63:
            raise InputError(f"default ids go on from {self.next_id}, and int64 ends before {n} more: pass ids")
        return np.arange(self.next_id, self.next_id + n, dtype=np.int64)

    def check_kind(self, ids: IdArray) -> None:
        """All ids of a store are integers, or all are strings."""
        came = "int64" if ids.dtype == np.int64 else "string"
        if self.kind and came != self.kind:
            raise InputError(f"this store has {self.kind} ids, the new ones are {came}")

    def record(self, ids: IdArray, codes: Codes, removed_rows: NDArray[np.int64]) -> Record:
        """A write, as the log has it: new rows, and the numbers of rows to remove."""
        parts, rows = self.ids_of_rows.place(removed_rows)
        return Record(ids, codes, parts.astype(np.uint32), rows.astype(np.uint32))

    def apply(self, record: Record) -> Snapshot:
        """The state after a write; one that cannot be raises InputError."""
        tail, kind, next_id = self.tail, self.kind, self.next_id
        if len(record.ids):
            self.check_kind(record.ids)
            if record.codes.shape[1] != tail.codes.shape[1]:
                raise InputError(f"codes of {record.codes.shape[1]} bytes, {tail.codes.shape[1]} expected")
            tail = tail.adding(record.ids, record.codes)
            kind = "int64" if record.ids.dtype == np.int64 else "string"
            if kind == "int64":
                next_id = max(next_id, int(record.ids.max()) + 1)
        removed = [*self.removed[:-1], self.removed[-1].adding(np.zeros(0, np.int64), tail.n)]
        for part in np.unique(record.parts).tolist():
            if part >= len(removed):
                raise InputError(f"rows of segment {part} removed, there are {len(removed) - 1}")
            removed[part] = removed[part].adding(record.rows[record.parts == part].astype(np.int64))
        return Snapshot(self.books, self.parts, tuple(removed), tail, kind, next_id)

    # --- copies of rows

    def merged(self, first: int, stop: int) -> tuple[Codes, Ids]:
        """Codes and ids of what is kept of consecutive parts (the last one is the tail), in the order of insertion."""
        ids = [*(part.ids for part in self.parts), self.tail.ids]
        masks = {i: self.removed[i].kept() for i in range(first, stop)}
        masks = {i: mask for i, mask in masks.items() if mask.any()}
        codes = np.concatenate([self._codes(i)[mask] for i, mask in masks.items()])
        return codes, joined([(ids[i], np.flatnonzero(mask)) for i, mask in masks.items()], self.kind)

    def _codes(self, part: int) -> Codes:
        return self.parts[part].segment.unpack() if part < len(self.parts) else self.tail.codes

    def to_index(self) -> Index:
        """An index of its own, with one segment and no removed rows."""
        books = self.books
        if len(self) == 0:
            return Index.of_parts(books.codebooks, books.embedding, (), Ids.default(0), books._calibration)
        codes, ids = self.merged(0, len(self.removed))
        if self.kind == "int64" and (ids.kind != "default" or ids.first):
            ids = Ids.of(ids.all())  # an index knows runs from 0 only
        segment = Segment.pack(codes, books.codebooks)
        return Index.of_parts(books.codebooks, books.embedding, (segment,), ids, books._calibration)
