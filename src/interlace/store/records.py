"""Records of the log: each is one write, with the rows that it adds and the rows that it removes.

Removed rows are stored by position and not by id, so that a replay needs no look-ups. Columns are bytes here, which
``columns.py`` decodes.

    payload  counts; removed: segments, rows; ids; codes; [columns, originals]; sums of errors
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codes
from ..codec.originals import Bytes, Loss
from ..index.id_values import IdArray

ERRORS = struct.Struct("<ddQ")  # of codes, NaN if they are unknown; of originals, rows merged
COUNTS = struct.Struct("<IIII")  # kind of ids, new rows, bytes of a code, removed rows
INTEGERS, STRINGS = 1, 2
EXTRAS = 1 << 8  # added to the kind of ids: columns and originals follow the codes
SIZES = struct.Struct("<II")  # pieces of the columns, bytes of an original
_U1, _U4, _U8, _I8, _F8 = (np.dtype(name) for name in ("u1", "<u4", "<u8", "<i8", "<f8"))


@dataclass(frozen=True, eq=False)
class Record:
    """New rows, which follow all other rows, and removed rows, which may include some of the new ones."""

    ids: IdArray  # int64 [n], or object [n] of str
    codes: Codes  # [n, code_width]
    parts: NDArray[np.uint32]  # [m] segment of each removed row; the number after the last is the log
    rows: NDArray[np.uint32]  # [m] its row in the segment
    payload: tuple[bytes, ...] = ()  # columns of the new rows, one or more Arrow record batches
    originals: Bytes | None = None  # [n, bytes of an original]
    error: float = math.nan  # sum of the errors of the new rows (drift.py); NaN: unknown
    loss: Loss = Loss()  # of the originals of the new rows  # noqa: RUF009 (frozen)

    @classmethod
    def joined(cls, records: Sequence[Record]) -> Record:
        """Consecutive records as one."""
        if len(records) == 1:
            return records[0]
        adding = [record for record in records if len(record.ids)] or list(records[:1])
        return cls(
            np.concatenate([record.ids for record in adding]),
            np.concatenate([record.codes for record in adding]),
            np.concatenate([record.parts for record in records]),
            np.concatenate([record.rows for record in records]),
            tuple(piece for record in adding for piece in record.payload),
            None if adding[0].originals is None else np.concatenate([record.vectors for record in adding]),
            sum((record.error for record in records if len(record.ids)), 0.0),
            sum((record.loss for record in records), Loss()),
        )

    @property
    def vectors(self) -> Bytes:
        """Originals; [n, 0] if there are none."""
        return np.empty((len(self.ids), 0), np.uint8) if self.originals is None else self.originals

    @property
    def n_bytes(self) -> int:
        """Approximate size in the log."""
        text = 0 if self.ids.dtype == np.int64 else sum(map(len, self.ids))
        extras = sum(map(len, self.payload)) + self.vectors.nbytes
        return int(self.ids.nbytes + text + self.codes.nbytes + self.parts.nbytes + self.rows.nbytes + extras)

    def to_bytes(self) -> bytes:
        """The payload of a record in the log."""
        n, width = self.codes.shape
        if self.ids.dtype == np.int64:
            kind, ids = INTEGERS, [self.ids.astype("<i8").tobytes()]
        else:
            encoded = [value.encode() for value in self.ids]
            offsets = np.cumsum([0, *map(len, encoded)]).astype("<u8")
            kind, ids = STRINGS, [offsets.tobytes(), *encoded]
        extras: list[bytes] = []
        if self.payload or self.vectors.size:
            kind |= EXTRAS
            lengths = np.array([len(piece) for piece in self.payload], "<u8").tobytes()
            sizes = SIZES.pack(len(self.payload), self.vectors.shape[1])
            extras = [sizes, lengths, *self.payload, self.vectors.tobytes()]
        counts = COUNTS.pack(kind, n, width, len(self.rows))
        removed = self.parts.astype("<u4").tobytes() + self.rows.astype("<u4").tobytes()
        errors = ERRORS.pack(self.error, self.loss.error, self.loss.merged)
        return b"".join([counts, removed, *ids, self.codes.tobytes(), *extras, errors])

    @classmethod
    def from_bytes(cls, payload: memoryview) -> Record:
        """Inverse of :meth:`to_bytes`; raises ValueError for invalid bytes."""
        if len(payload) < COUNTS.size:
            raise ValueError("a record is too short for its counts")
        kind, n, width, n_removed = COUNTS.unpack_from(payload)
        extras, kind, at = kind & EXTRAS, kind & ~EXTRAS, COUNTS.size

        def take(dtype: np.dtype[Any], count: int) -> NDArray[Any]:
            nonlocal at
            first, at = at, at + dtype.itemsize * count
            if at > len(payload):
                raise ValueError("a record is shorter than its rows")
            return np.frombuffer(payload, dtype, count, first)

        parts, rows = take(_U4, n_removed), take(_U4, n_removed)
        ids: IdArray
        if kind == INTEGERS:
            ids = take(_I8, n).astype(np.int64, copy=False)
        elif kind == STRINGS:
            offsets = take(_U8, n + 1)
            # Overlapping ids could need more memory than the file has bytes.
            if offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any():
                raise ValueError("offsets of ids are not ascending")
            ends = offsets.tolist()
            text = bytes(take(_U1, ends[-1]))
            ids = np.empty(n, object)
            ids[:] = [text[a:b].decode() for a, b in zip(ends[:-1], ends[1:], strict=True)]
        else:
            raise ValueError(f"unknown kind of ids: {kind}")
        codes = take(_U1, n * width).reshape(n, width)
        pieces: tuple[bytes, ...] = ()
        originals = None
        if extras:
            n_pieces, size = SIZES.unpack(bytes(take(_U1, SIZES.size)))
            pieces = tuple(bytes(take(_U1, length)) for length in take(_U8, n_pieces).tolist())
            originals = take(_U1, n * size).reshape(n, size) if size else None
        error, lost, merged = ERRORS.unpack(bytes(take(_U1, ERRORS.size)))
        if at != len(payload):
            raise ValueError("a record is longer than its rows")
        if not (math.isnan(error) or 0 <= error < math.inf):
            raise ValueError(f"the sum of errors is {error}")
        loss = Loss.stored({"rows": n, "error": lost, "merged": merged})
        return cls(ids, codes, parts, rows, pieces, originals, error, loss)
