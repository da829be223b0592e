"""Rows of the log in memory: searched like all others, and the only ids that are kept in a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import ForkLock, cached_property
from ..codec.codebooks import Codebooks, Codes
from ..engine.segments import Segment
from ..index.id_values import IdArray
from ..index.ids import Ids
from .columns import Columns, Table
from .originals import Bytes

Pieces = tuple[bytes, ...]
LEAST = 64  # rows that a buffer begins with


class _Buffer:
    """Rows that only ever grow at their end: what a :class:`Tail` took of them stays as it is."""

    def __init__(self, codebooks: Codebooks, codes: Codes, ids: IdArray, originals: Bytes) -> None:
        self.codebooks = codebooks
        self.n = len(codes)
        self._codes, self._ids, self._originals = codes, ids, originals
        self._lock = ForkLock()
        self._rows: dict[Any, list[int]] = {}  # of each id, ascending; of the first _indexed rows
        self._indexed = 0
        self._packed: list[tuple[int, Segment]] = []  # segments of consecutive rows, with the end of each
        # Columns of the first rows, of how many pieces they are, and which of them are unsound (columns.py).
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
        """Views of the rows before are not touched: where there is no room, the rows move to new arrays."""
        n = self.n + len(ids)
        if self.n == 0:
            self._ids = np.empty(len(self._ids), ids.dtype)
        if n > len(self._codes):
            room = max(LEAST, 2 * n)
            more_codes, more_ids = np.empty((room, codes.shape[1]), np.uint8), np.empty(room, ids.dtype)
            more_originals = np.empty((room, originals.shape[1]), np.uint8)
            more_codes[: self.n], more_ids[: self.n], more_originals[: self.n] = self.codes, self.ids, self.originals
            self._codes, self._ids, self._originals = more_codes, more_ids, more_originals
        self._codes[self.n : n], self._ids[self.n : n], self._originals[self.n : n] = codes, ids, originals
        self.n = n

    def find(self, ids: IdArray, values: IdArray) -> NDArray[np.int64]:
        """The last row with each id among the ids of the first rows, -1 where there is none; others were replaced."""
        n = len(values)
        with self._lock:
            for row, value in enumerate(values[self._indexed :].tolist(), self._indexed):
                self._rows.setdefault(value, []).append(row)
            self._indexed = max(self._indexed, n)
            found = [next((row for row in reversed(self._rows.get(v, ())) if row < n), -1) for v in ids.tolist()]
        return np.array(found, np.int64)

    def table(self, columns: Columns, pieces: Pieces, n: int) -> tuple[Table, frozenset[str]]:
        """Columns of the first n rows, which these pieces hold; what was decoded before is not decoded again."""
        with self._lock:
            known, table, unsound = self._decoded or (0, *columns.of_pieces((), 0))
            if known > len(pieces):  # an older state
                return table.slice(0, n), unsound
            more, also = columns.of_pieces(pieces[known:], n - table.num_rows)
            self._decoded = len(pieces), columns.joined([table, more]), unsound | also
            return self._decoded[1:]

    def segments(self, codes: Codes) -> tuple[Segment, ...]:
        """These codes, the first ones, packed; what was packed before is not packed again, as in ``Index.add``."""
        n = len(codes)
        with self._lock:
            packed = self._packed
            if packed and packed[-1][0] > n:  # an older state, searched for the first time now
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
    """The rows of the log at one time; never changed, :meth:`adding` gives another."""

    def __init__(self, buffer: _Buffer, pieces: Pieces = ()) -> None:
        self._buffer = buffer
        self.n = buffer.n
        self.codes, self._values, self.originals = buffer.codes, buffer.ids, buffer.originals
        self.pieces = pieces  # columns of the rows, as records of the log have them

    @classmethod
    def empty(cls, codebooks: Codebooks, width: int = 0) -> Tail:
        """No rows yet; originals have so many bytes."""
        codes = np.empty((0, 1 + len(codebooks.columns)), np.uint8)
        return cls(_Buffer(codebooks, codes, np.empty(0, np.int64), np.empty((0, width), np.uint8)))

    def adding(self, ids: IdArray, codes: Codes, originals: Bytes | None = None, pieces: Pieces = ()) -> Tail:
        """With more rows; cheap, for the newest state of a log."""
        buffer = self._buffer
        if (
            buffer.n != self.n
        ):  # what was added to this one never became part of the store: leave that to whoever has it
            buffer = _Buffer(buffer.codebooks, self.codes.copy(), self._values.copy(), self.originals.copy())
        buffer.append(ids, codes, np.empty((len(ids), 0), np.uint8) if originals is None else originals)
        return Tail(buffer, self.pieces + pieces)

    def table(self, columns: Columns) -> tuple[Table, frozenset[str]]:
        """Columns of the rows, and which of them are unsound (columns.py)."""
        return self._buffer.table(columns, self.pieces, self.n)

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Packed; made when they are first searched."""
        return self._buffer.segments(self.codes) if self.n else ()

    @cached_property
    def ids(self) -> Ids:
        """Found by a table that is made when it is first needed."""
        return TailIds(self._buffer, self._values)


class TailIds(Ids):
    """Ids of the rows of a log; an id may be there more than once, and the last row counts."""

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
        """Row of each id, -1 where it is not here."""
        if self.n == 0 or (ids.dtype == np.int64) != (self.kind == "int64"):
            return np.full(len(ids), -1, np.int64)
        return self._buffer.find(ids, self._values)
