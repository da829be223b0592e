"""The write-ahead log: each write is on disk before it is acknowledged.

    file    header, record, record, ...
    header  "interlace file", version, mark of the store, salt, checksum
    record  "ILr1", sequence number, length, checksum of the payload, checksum of this header; payload

The payload of a record is one write (``records.py``). The salt, a random number, is the initial value of all checksums:
bytes of another log, or an id that looks like a record, are never read as a record of this log.

Each record is synced before the next one is written. Therefore an unreadable record at the end belongs to a write that
was interrupted and never acknowledged, but an unreadable record before the valid header of a later one is damage.
Headers have their own checksums, so that one pass over the file is enough, whatever it contains.
"""

from __future__ import annotations

import contextlib
import os
import struct
import weakref
import zlib
from dataclasses import dataclass

from ..errors import DamagedFileError, NotAnIndexError
from ..files.versions import FORMAT, VERSION, check_version
from . import files
from .files import Path
from .records import Record

MAGIC = b"ILr1"
_START = FORMAT.encode().ljust(16, b"\0")
_EARLIER_START = b"interlace log"  # of logs of earlier versions
HEADER = struct.Struct("<16sI16sQI")  # start, version, mark, salt, checksum of the bytes before it
FRAME = struct.Struct("<4sQQII")


@dataclass(frozen=True)
class Place:
    """A position in a log: how far it was read."""

    salt: int
    offset: int  # of the next record
    sequence: int  # of the next record: the number of records before it
    checksum: int = 0  # of all bytes before the offset, to recognise another log or other records

    def after(self, record: bytes | memoryview) -> Place:
        """The position after a record."""
        checksum = zlib.crc32(record, self.checksum)
        return Place(self.salt, self.offset + len(record), self.sequence + 1, checksum)


class Log:
    """A log that is open for writing."""

    def __init__(self, file: int, place: Place) -> None:
        self._file = file
        self.place = place
        self._close = weakref.finalize(self, os.close, file)

    @classmethod
    def create(cls, path: Path, mark: str) -> Log:
        """Create an empty log and sync it, but not its directory."""
        salt = int.from_bytes(os.urandom(8), "little")
        start = header(mark, salt)
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
        """Open a log to append to it. Returns its records, and how many bytes of an interrupted write were removed."""
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
        """Write and sync a record. After an error it is unknown whether the record is on disk."""
        if not self._close.alive:
            raise ValueError("the log is closed")  # the system may have given its descriptor to another file
        data = frame(record.to_bytes(), self.place)
        try:
            files.write(self._file, data)
            files.sync(self._file)
        except OSError:
            with contextlib.suppress(OSError):  # a full disk: free the space of the partial record
                files.truncate(self._file, self.place.offset)
            raise
        self.place = self.place.after(data)

    def is_at(self, named: os.stat_result | None) -> bool:
        """Whether ``named`` is this file, and no other program has appended to it."""
        own = os.fstat(self._file)
        same = named is not None and (own.st_dev, own.st_ino) == (named.st_dev, named.st_ino)
        return same and own.st_size == self.place.offset

    def close(self) -> None:
        """Close the file. All records are on disk already."""
        self._close()


def header(mark: str, salt: int, version: int = VERSION) -> bytes:
    """The first bytes of a log."""
    start = HEADER.pack(_START, version, bytes.fromhex(mark), salt, 0)[:-4]
    return start + zlib.crc32(start).to_bytes(4, "little")


def frame(payload: bytes, place: Place) -> bytes:
    """A payload as the record at a position."""
    seed = place.salt & 0xFFFFFFFF
    start = FRAME.pack(MAGIC, place.sequence, len(payload), zlib.crc32(payload, seed), 0)[:-4]
    return start + zlib.crc32(start, seed).to_bytes(4, "little") + payload


class ChangedError(Exception):
    """The part of the log that was read before has changed: a failed write was replaced, or it is another log."""


def read(file_path: Path, mark: str, place: Place | None = None) -> tuple[list[Record], Place, int]:
    """Records from a position on (by default from the first), the position after them, and the size of the file.

    Bytes after that position belong to an interrupted write. DamagedFileError for an unreadable record that the header
    of a later one follows.
    """
    path = os.fspath(file_path)
    with open(files.open_to_read(file_path), "rb") as file:
        if place is None:
            place = _salted(path, file.read(HEADER.size), mark)
        elif zlib.crc32(file.read(place.offset)) != place.checksum:
            raise ChangedError
        data = memoryview(file.read())
    records: list[Record] = []
    first, at = place.offset, 0
    while (payload := payload_at(data, at, place.salt, place.sequence)) is not None:
        try:
            records.append(Record.from_bytes(payload))
        except ValueError as error:
            raise DamagedFileError(f"{path!r} is damaged: at byte {first + at}: {error}") from error
        place = place.after(data[at : at + FRAME.size + len(payload)])
        at = place.offset - first
    if _is_followed(data, at, place):
        raise DamagedFileError(
            f"{path!r} is damaged: record {place.sequence} at byte {first + at} cannot be read, but later records can"
        )
    return records, place, first + len(data)


def _salted(path: str, start: bytes, mark: str) -> Place:
    if not start.startswith((_START, _EARLIER_START)):
        raise NotAnIndexError(f"{path!r} is not the log of a store, or its first bytes are damaged")
    if len(start) < HEADER.size or zlib.crc32(start[:-4]).to_bytes(4, "little") != start[-4:]:
        raise DamagedFileError(f"{path!r} is damaged: its header does not match its checksum")
    begun, version, found, salt, _ = HEADER.unpack(start)
    check_version(path, FORMAT if begun == _START else begun, version)
    if found.hex() != mark:
        raise DamagedFileError(f"{path!r} belongs to another store")
    return Place(salt, HEADER.size, 0, zlib.crc32(start))


def header_at(data: memoryview, at: int, salt: int) -> tuple[int, int, int] | None:
    """Number, payload length and payload checksum of the record header at an offset; None if there is no header."""
    start = data[at : at + FRAME.size]
    if len(start) < FRAME.size or zlib.crc32(start[:-4], salt & 0xFFFFFFFF).to_bytes(4, "little") != start[-4:]:
        return None
    magic, number, length, checksum, _ = FRAME.unpack(start)
    return (number, length, checksum) if magic == MAGIC else None


def payload_at(data: memoryview, at: int, salt: int, sequence: int) -> memoryview | None:
    """The payload of the record at an offset; None if there is no valid record with this number."""
    found = header_at(data, at, salt)
    if found is None or found[0] != sequence:
        return None
    _, length, checksum = found
    payload = data[at + FRAME.size : at + FRAME.size + length]
    return payload if len(payload) == length and zlib.crc32(payload, salt & 0xFFFFFFFF) == checksum else None


def _is_followed(data: memoryview, at: int, place: Place) -> bool:
    """Whether there is the header of a later record anywhere after an offset where a record should start.

    A header is enough: it is written only after the record before it was synced. Payloads are not checked, because in a
    hostile file each of many headers could declare the whole rest as its payload.
    """
    rest = bytes(data[at:])
    found = rest.find(MAGIC, 1)
    while found >= 0:
        frame = header_at(data, at + found, place.salt)
        if frame is not None and frame[0] > place.sequence:
            return True
        found = rest.find(MAGIC, found + 1)
    return False
