"""Rows of the log in memory, ready to be searched; their ids are found by a hash table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import ForkLock, cached_property
from ..codec.codebooks import Codebooks, Codes
from ..codec.originals import Bytes
from ..engine.segments import Segment
from ..index.id_values import IdArray
from ..index.ids import Ids
from .columns import Columns, Table

Pieces = tuple[bytes, ...]
LEAST = 64  # smallest capacity of a buffer, in rows


class _Buffer:
    """Arrays that only grow at the end, so that the views of a :class:`Tail` never change."""

    def __init__(self, codebooks: Codebooks, codes: Codes, ids: IdArray, originals: Bytes) -> None:
        self.codebooks = codebooks
        self.n = len(codes)
        self._codes, self._ids, self._originals = codes, ids, originals
        self._lock = ForkLock()
        self._rows: dict[Any, list[int]] = {}  # rows of each id, ascending, among the first _indexed rows
        self._indexed = 0
        self._packed: list[tuple[int, Segment]] = []  # segments of consecutive rows, each with the row after its last
        # Number of decoded pieces, their table, and the names of unsound columns (columns.py).
        self._decoded: tuple[int, Table, frozenset[str]] | None = None

    @property
    def codes(self) -> Codes:
        return self._codes[: self.n]

    @property
    def ids(self) -> IdArray:
        return self._ids[: self.n]

    @property
    def originals(self) -> Bytes:
        return self._originals[: self.n]

    def append(self, ids: IdArray, codes: Codes, originals: Bytes) -> None:
        """Append rows; beyond the capacity all rows are copied to new arrays, and views of the old ones stay valid."""
        n = self.n + len(ids)
        if self.n == 0:
            self._ids = np.empty(len(self._ids), ids.dtype)
        if n > len(self._codes):
            capacity = max(LEAST, 2 * n)
            more_codes, more_ids = np.empty((capacity, codes.shape[1]), np.uint8), np.empty(capacity, ids.dtype)
            more_originals = np.empty((capacity, originals.shape[1]), np.uint8)
            more_codes[: self.n], more_ids[: self.n], more_originals[: self.n] = self.codes, self.ids, self.originals
            self._codes, self._ids, self._originals = more_codes, more_ids, more_originals
        self._codes[self.n : n], self._ids[self.n : n], self._originals[self.n : n] = codes, ids, originals
        self.n = n

    def find(self, ids: IdArray, values: IdArray) -> NDArray[np.int64]:
        """The last row with each id among the first ``len(values)`` rows, -1 if there is none."""
        n = len(values)
        with self._lock:
            for row, value in enumerate(values[self._indexed :].tolist(), self._indexed):
                self._rows.setdefault(value, []).append(row)
            self._indexed = max(self._indexed, n)
            found = [next((row for row in reversed(self._rows.get(v, ())) if row < n), -1) for v in ids.tolist()]
        return np.array(found, np.int64)

    def table(self, columns: Columns, pieces: Pieces, n: int) -> tuple[Table, frozenset[str]]:
        """Columns of the first n rows, which these pieces contain; only new pieces are decoded."""
        with self._lock:
            known, table, unsound = self._decoded or (0, *columns.of_pieces((), 0))
            if known > len(pieces):  # an older state of the log
                return table.slice(0, n), unsound
            more, also = columns.of_pieces(pieces[known:], n - table.num_rows)
            self._decoded = len(pieces), columns.joined([table, more]), unsound | also
            return self._decoded[1:]

    def segments(self, codes: Codes) -> tuple[Segment, ...]:
        """Pack codes, which are those of the first rows; packed segments are reused and merged as in ``Index.add``."""
        n = len(codes)
        with self._lock:
            packed = self._packed
            if packed and packed[-1][0] > n:  # an older state of the log, searched for the first time
                return (Segment.pack(codes, self.codebooks),)
            ends = [0, *(end for end, _ in packed), n]
            if ends[-1] > ends[-2]:
                while len(ends) > 2 and ends[-2] - ends[-3] < 2 * (n - ends[-2]):
                    ends.pop(-2)
                first = ends[-2]
                del packed[len(ends) - 2 :]
                packed.append((n, Segment.pack(np.ascontiguousarray(codes[first:]), self.codebooks)))
            return tuple(segment for _, segment in packed)


class Tail:
    """One state of the rows of the log. Immutable; :meth:`adding` returns a new one."""

    def __init__(self, buffer: _Buffer, pieces: Pieces = ()) -> None:
        self._buffer = buffer
        self.n = buffer.n
        self.codes, self._values, self.originals = buffer.codes, buffer.ids, buffer.originals
        self.pieces = pieces  # columns of the rows, as in the records of the log

    @classmethod
    def empty(cls, codebooks: Codebooks, width: int = 0) -> Tail:
        """Without rows; ``width`` is the number of bytes of an original."""
        codes = np.empty((0, codebooks.code_width), np.uint8)
        return cls(_Buffer(codebooks, codes, np.empty(0, np.int64), np.empty((0, width), np.uint8)))

    def adding(self, ids: IdArray, codes: Codes, originals: Bytes | None = None, pieces: Pieces = ()) -> Tail:
        """With more rows. Copies nothing if this is the newest state of the log."""
        buffer = self._buffer
        if buffer.n != self.n:  # rows were added that never became part of the store; another state may still use them
            buffer = _Buffer(buffer.codebooks, self.codes.copy(), self._values.copy(), self.originals.copy())
        buffer.append(ids, codes, np.empty((len(ids), 0), np.uint8) if originals is None else originals)
        return Tail(buffer, self.pieces + pieces)

    def table(self, columns: Columns) -> tuple[Table, frozenset[str]]:
        """Columns of the rows, and the names of unsound ones (columns.py)."""
        return self._buffer.table(columns, self.pieces, self.n)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The packed codes, made for the first search."""
        return self._buffer.segments(self.codes) if self.n else ()

    @cached_property
    def ids(self) -> Ids:
        """Ids of the rows; the hash table is made for the first look-up."""
        return TailIds(self._buffer, self._values)


class TailIds(Ids):
    """Ids of the rows of a log. If an id occurs more than once, its last row counts."""

    def __init__(self, buffer: _Buffer, values: IdArray) -> None:
        integers = values.dtype == np.int64
        super().__init__(len(values), {"values": values} if integers else {})
        self._buffer, self._values = buffer, values

    @property
    def kind(self) -> str:
        """``int64`` or ``string``."""
        return "int64" if self._values.dtype == np.int64 else "string"

    def take(self, rows: NDArray[np.int64]) -> IdArray:
        """Ids of rows; row -1 gives -1, or None for strings."""
        if self.kind == "int64":
            return super().take(rows)
        out = np.empty(rows.shape, object)
        out[rows >= 0] = self._values[rows[rows >= 0]]
        return out

    def find(self, ids: IdArray) -> NDArray[np.int64]:
        """Row of each id, -1 if there is none."""
        if self.n == 0 or (ids.dtype == np.int64) != (self.kind == "int64"):
            return np.full(len(ids), -1, np.int64)
        return self._buffer.find(ids, self._values)
