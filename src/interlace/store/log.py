"""The write-ahead log: small writes, each on disk before it is acknowledged.

    file    header, record, record, ...
    header  "interlace log", version, mark of the store, salt, checksum
    record  "ILr1", sequence number, length, checksum of the payload, checksum of this header; payload

A record is one write, whole or not at all. It says which rows come to be (ids and codes, and where the store has them
columns and originals) and which cease to be, the latter by their place and not by their id, so that a replay looks
nothing up. Columns are bytes here, which ``columns.py`` can read. Checksums begin with the salt
of the file: bytes of another log, or an id that looks like a record, are no record of this one.

A record is synced before the next one is written. So what follows a record that cannot be read tells what happened:
nothing (or more garbage), and a write was cut short, which nobody was told had succeeded; or a sound header of a later
record, and the file was damaged. Headers have checksums of their own, so that the file is read once, whatever it holds.
"""

from __future__ import annotations

import contextlib
import math
import os
import struct
import weakref
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codes
from ..errors import DamagedFileError, NewerFormatError, NotAnIndexError
from ..index.id_values import IdArray
from . import files
from .files import Path
from .originals import Bytes

VERSION = 2  # of stores with columns or originals; logs of others are of version 1, with the same records
MAGIC = b"ILr1"
_START = b"interlace log\0\0\0"
_HEADER = struct.Struct("<16sI16sQI")  # start, version, mark, salt, checksum of what is before
_FRAME = struct.Struct("<4sQQII")
_ERROR = struct.Struct("<d")
_COUNTS = struct.Struct("<IIII")  # kind of ids, rows that come to be, bytes of a code, rows that cease to be
_INTEGERS, _STRINGS = 1, 2
_EXTRAS = 1 << 8  # added to the kind of ids: columns and originals stand behind the codes
_SIZES = struct.Struct("<II")  # pieces of the columns, bytes of an original
_U1, _U4, _U8, _I8, _F8 = (np.dtype(name) for name in ("u1", "<u4", "<u8", "<i8", "<f8"))


@dataclass(frozen=True, eq=False)
class Record:
    """Rows that come to be, at the end of all rows; then rows that cease to be, among them maybe some of those."""

    ids: IdArray  # int64 [n], or object [n] of str
    codes: Codes  # [n, 1 + n_columns]
    parts: NDArray[np.uint32]  # [m] which segment of the manifest; one more than the last: the rows of the log
    rows: NDArray[np.uint32]  # [m] which row of it
    payload: tuple[bytes, ...] = ()  # columns of the new rows, in one piece or more
    originals: Bytes | None = None  # [n, bytes of an original]
    error: float = math.nan  # sum of the errors of those that come to be (drift.py); NaN: not known

    @classmethod
    def joined(cls, records: Sequence[Record]) -> Record:
        """Many one after the other, as one."""
        if len(records) == 1:
            return records[0]
        born = [record for record in records if len(record.ids)] or list(records[:1])
        return cls(
            np.concatenate([record.ids for record in born]),
            np.concatenate([record.codes for record in born]),
            np.concatenate([record.parts for record in records]),
            np.concatenate([record.rows for record in records]),
            tuple(piece for record in born for piece in record.payload),
            None if born[0].originals is None else np.concatenate([record.vectors for record in born]),
            sum((record.error for record in records if len(record.ids)), 0.0),
        )

    @property
    def vectors(self) -> Bytes:
        """Originals, of no bytes where there are none."""
        return np.empty((len(self.ids), 0), np.uint8) if self.originals is None else self.originals

    @property
    def n_bytes(self) -> int:
        """About what it takes in the log."""
        text = 0 if self.ids.dtype == np.int64 else sum(map(len, self.ids))
        extras = sum(map(len, self.payload)) + self.vectors.nbytes
        return int(self.ids.nbytes + text + self.codes.nbytes + self.parts.nbytes + self.rows.nbytes + extras)

    def to_bytes(self) -> bytes:
        """The payload."""
        n, width = self.codes.shape
        if self.ids.dtype == np.int64:
            kind, ids = _INTEGERS, [self.ids.astype("<i8").tobytes()]
        else:
            encoded = [value.encode() for value in self.ids]
            offsets = np.cumsum([0, *map(len, encoded)]).astype("<u8")
            kind, ids = _STRINGS, [offsets.tobytes(), *encoded]
        extras: list[bytes] = []
        if self.payload or self.vectors.size:
            kind |= _EXTRAS
            lengths = np.array([len(piece) for piece in self.payload], "<u8").tobytes()
            sizes = _SIZES.pack(len(self.payload), self.vectors.shape[1])
            extras = [sizes, lengths, *self.payload, self.vectors.tobytes()]
        counts = _COUNTS.pack(kind, n, width, len(self.rows))
        dead = self.parts.astype("<u4").tobytes() + self.rows.astype("<u4").tobytes()
        error = b"" if math.isnan(self.error) else _ERROR.pack(self.error)
        return b"".join([counts, dead, *ids, self.codes.tobytes(), *extras, error])

    @classmethod
    def from_bytes(cls, payload: memoryview) -> Record:
        """Inverse of :meth:`to_bytes`; raises ValueError where it cannot be one."""
        if len(payload) < _COUNTS.size:
            raise ValueError("a record is too short")
        kind, n, width, n_dead = _COUNTS.unpack_from(payload)
        extras, kind, at = kind & _EXTRAS, kind & ~_EXTRAS, _COUNTS.size

        def take(dtype: np.dtype[Any], count: int) -> NDArray[Any]:
            nonlocal at
            first, at = at, at + dtype.itemsize * count
            if at > len(payload):
                raise ValueError("a record is shorter than its rows")
            return np.frombuffer(payload, dtype, count, first)

        parts, rows = take(_U4, n_dead), take(_U4, n_dead)
        ids: IdArray
        if kind == _INTEGERS:
            ids = take(_I8, n).astype(np.int64, copy=False)
        elif kind == _STRINGS:
            offsets = take(_U8, n + 1)
            if offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any():  # ids that overlap would take more than the file
                raise ValueError("offsets of ids that do not ascend")
            ends = offsets.tolist()
            text = bytes(take(_U1, ends[-1]))
            ids = np.empty(n, object)
            ids[:] = [text[a:b].decode() for a, b in zip(ends[:-1], ends[1:], strict=True)]
        else:
            raise ValueError(f"ids of kind {kind}")
        codes = take(_U1, n * width).reshape(n, width)
        pieces: tuple[bytes, ...] = ()
        originals = None
        if extras:
            n_pieces, size = _SIZES.unpack(bytes(take(_U1, _SIZES.size)))
            pieces = tuple(bytes(take(_U1, length)) for length in take(_U8, n_pieces).tolist())
            originals = take(_U1, n * size).reshape(n, size) if size else None
        error = float(take(_F8, 1)[0]) if at + _ERROR.size == len(payload) else math.nan
        if at != len(payload):
            raise ValueError("a record is longer than its rows")
        if not (math.isnan(error) or 0 <= error < math.inf):
            raise ValueError(f"an error of {error}")
        return cls(ids, codes, parts, rows, pieces, originals, error)


@dataclass(frozen=True)
class Place:
    """How far a log was read."""

    salt: int
    offset: int  # of the next record
    sequence: int  # its number: how many records there are
    checksum: int = 0  # of all bytes before: another log, or other records, do not have it

    def after(self, record: bytes | memoryview) -> Place:
        """The place behind a record."""
        checksum = zlib.crc32(record, self.checksum)
        return Place(self.salt, self.offset + len(record), self.sequence + 1, checksum)


class Log:
    """A log that is written to."""

    def __init__(self, file: int, place: Place) -> None:
        self._file = file
        self.place = place
        self._close = weakref.finalize(self, os.close, file)

    @classmethod
    def create(cls, path: Path, mark: str, version: int = 1) -> Log:
        """A new, empty one, on disk but for its name; of version 2 if its records may have columns or originals."""
        salt = int.from_bytes(os.urandom(8), "little")
        start = header(mark, salt, version)
        file = files.append_to(path, new=True)
        try:
            files.write(file, start)
            files.sync(file)
        except BaseException:
            files.close(file)
            with contextlib.suppress(OSError):
                files.remove(path)
            raise
        return cls(file, Place(salt, len(start), 0, zlib.crc32(start)))

    @classmethod
    def open(cls, path: Path, mark: str) -> tuple[Log, list[Record], int]:
        """To go on with one: its records, and how many bytes of an unfinished write were cut off."""
        records, place, size = read(path, mark)
        file = files.append_to(path)
        try:
            if size > place.offset:
                files.truncate(file, place.offset)
                files.sync(file)
        except BaseException:
            files.close(file)
            raise
        return cls(file, place), records, size - place.offset

    def append(self, record: Record) -> None:
        """On disk when this returns. After an error, whether it is there or not is not known."""
        if not self._close.alive:
            raise ValueError("the log is closed")  # its descriptor may belong to another file by now
        data = frame(record.to_bytes(), self.place)
        try:
            files.write(self._file, data)
            files.sync(self._file)
        except OSError:
            with contextlib.suppress(OSError):  # a full disk: leave no more than need be
                files.truncate(self._file, self.place.offset)
            raise
        self.place = self.place.after(data)

    def is_at(self, named: os.stat_result | None) -> bool:
        """Whether a name leads to this file, and nobody else has written to it."""
        own = os.fstat(self._file)
        same = named is not None and (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino)
        return same and own.st_size == self.place.offset

    def close(self) -> None:
        """Nothing is held back: all of it is on disk already."""
        self._close()


def header(mark: str, salt: int, version: int = 1) -> bytes:
    """The first bytes of a log."""
    start = _HEADER.pack(_START, version, bytes.fromhex(mark), salt, 0)[:-4]
    return start + zlib.crc32(start).to_bytes(4, "little")


def frame(payload: bytes, place: Place) -> bytes:
    """A payload as the record of its place."""
    seed = place.salt & 0xFFFFFFFF
    start = _FRAME.pack(MAGIC, place.sequence, len(payload), zlib.crc32(payload, seed), 0)[:-4]
    return start + zlib.crc32(start, seed).to_bytes(4, "little") + payload


class ChangedError(Exception):
    """What was read is not there any more: a write had failed and another took its place, or it is another log."""


def read(file_path: Path, mark: str, place: Place | None = None) -> tuple[list[Record], Place, int]:
    """Records from a place on (from the first), the place after them, and the size of the file.

    What is behind that place is an unfinished write. A damaged record with the header of a later one after it raises.
    """
    path = os.fspath(file_path)
    with open(files.open_to_read(file_path), "rb") as file:
        if place is None:
            place = _salted(path, file.read(_HEADER.size), mark)
        elif zlib.crc32(file.read(place.offset)) != place.checksum:
            raise ChangedError
        data = memoryview(file.read())
    records: list[Record] = []
    first, at = place.offset, 0
    while (payload := _payload(data, at, place.salt, place.sequence)) is not None:
        try:
            records.append(Record.from_bytes(payload))
        except ValueError as error:
            raise DamagedFileError(f"{path!r} is damaged: at byte {first + at}: {error}") from error
        place = place.after(data[at : at + _FRAME.size + len(payload)])
        at = place.offset - first
    if _is_followed(data, at, place):
        raise DamagedFileError(
            f"{path!r} is damaged: its record {place.sequence} at byte {first + at} cannot be read, but later ones can"
        )
    return records, place, first + len(data)


def _salted(path: str, start: bytes, mark: str) -> Place:
    if not start.startswith(_START[:12]):
        raise NotAnIndexError(f"{path!r} is not the log of a store (or its first bytes are damaged)")
    if len(start) < _HEADER.size or zlib.crc32(start[:-4]).to_bytes(4, "little") != start[-4:]:
        raise DamagedFileError(f"{path!r} is damaged: its header does not match its checksum")
    _, version, found, salt, _ = _HEADER.unpack(start)
    if version > VERSION:
        raise NewerFormatError(
            f"{path!r} has format version {version}, this interlace reads up to {VERSION}: install a newer one"
        )
    if found.hex() != mark:
        raise DamagedFileError(f"{path!r} belongs to another store")
    return Place(salt, _HEADER.size, 0, zlib.crc32(start))


def _frame(data: memoryview, at: int, salt: int) -> tuple[int, int, int] | None:
    """Number, length and checksum of the payload, of the record whose header is there; None if none is."""
    start = data[at : at + _FRAME.size]
    if len(start) < _FRAME.size or zlib.crc32(start[:-4], salt & 0xFFFFFFFF).to_bytes(4, "little") != start[-4:]:
        return None
    magic, number, length, checksum, _ = _FRAME.unpack(start)
    return (number, length, checksum) if magic == MAGIC else None


def _payload(data: memoryview, at: int, salt: int, sequence: int | None) -> memoryview | None:
    """Of the record that begins there, or None if none does, or another one (``sequence`` None: any)."""
    found = _frame(data, at, salt)
    if found is None or (sequence is not None and found[0] != sequence):
        return None
    _, length, checksum = found
    payload = data[at + _FRAME.size : at + _FRAME.size + length]
    return payload if len(payload) == length and zlib.crc32(payload, salt & 0xFFFFFFFF) == checksum else None


def _is_followed(data: memoryview, at: int, place: Place) -> bool:
    """Whether a later record begins anywhere behind a byte that should begin one.

    Its header tells: it was written after the record before was synced, even if its own payload was cut short. Payloads
    are not read here, because each of many headers may announce all the rest.
    """
    rest = bytes(data[at:])
    found = rest.find(MAGIC, 1)
    while found >= 0:
        frame = _frame(data, at + found, place.salt)
        if frame is not None and frame[0] > place.sequence:
            return True
        found = rest.find(MAGIC, found + 1)
    return False
