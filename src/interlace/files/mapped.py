"""An opened file: its header checked, small sections copied, large ones mapped.

A page of a mapped file that another program cut off cannot be read: the system ends the process with SIGBUS. So small
sections are copied when a file is opened, and :meth:`File.check_size` compares the size of the file before large ones
are used (docs/format.md, "Mapped files").
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DamagedFileError, NotAnIndexError
from .header import ALIGNMENT, DTYPES, Header, checksum

COPIED = 1 << 16  # bytes; sections up to this size are copied when a file is opened


class File:
    """Named sections and a description; tensors are mapped but not read."""

    def __init__(self, path: str, n_bytes: int, header: Header, descriptor: Any) -> None:
        """``descriptor`` is the file, open; the file is read, or mapped, and may be closed afterwards."""
        self.path = path
        self.n_bytes = n_bytes  # of the whole file
        self.meta: dict[str, Any] = header.description
        self.header = header
        first = 8 + len(header.text)
        self._copies = _copy_small_sections(path, descriptor, header, first)  # with their padding
        self._data: NDArray[np.uint8] = np.frombuffer(b"", np.uint8)
        self._mapping: Any = None  # a mmap, which has a descriptor of the file; None where all of it was copied
        if len(self._copies) < len(header.names):
            import mmap  # what is small is never mapped

            # The same descriptor: the name may belong to another file by now.
            self._mapping = mmap.mmap(descriptor.fileno(), n_bytes, access=mmap.ACCESS_READ)
            # And a plain array: a look at a part of a np.memmap costs microseconds, which single queries would notice.
            self._data = np.frombuffer(self._mapping, np.uint8, header.data_bytes, first)

    def same_as(self, other: File) -> bool:
        """Whether both have the same header, and so the same checksum for every section: equal contents."""
        return self.header.text == other.header.text

    def check_size(self) -> None:
        """Raise if the file was cut or grew since it was opened: to read what it lost would end the process."""
        if self._mapping is not None and self._mapping.size() != self.n_bytes:
            raise DamagedFileError(
                f"{self.path!r} has {self._mapping.size()} bytes, and had {self.n_bytes} when it was opened: another "
                "program truncated it or wrote over it; restore it under a temporary name, rename it into place, and "
                "open it again"
            )

    @property
    def names(self) -> list[str]:
        """Names of the sections."""
        return self.header.names

    def entry(self, name: str) -> tuple[str, tuple[int, ...], int]:
        """dtype, shape and bytes of a section."""
        entry = self.header.entries[name]
        return entry["dtype"], tuple(entry["shape"]), entry["data_offsets"][1] - entry["data_offsets"][0]

    def description(self, key: str) -> dict[str, Any]:
        """One part of the description, or a clear error."""
        value = self.meta.get(key)
        if not isinstance(value, dict):
            raise NotAnIndexError(f"{self.path!r} holds {self.meta.get('kind')!r}, which has no {key}")
        return value

    def array(self, name: str) -> NDArray[Any]:
        """A section, read-only; a large one is still on disk until it is touched."""
        if name not in self.header.entries:
            raise DamagedFileError(f"{self.path!r} has no section {name!r}")
        entry = self.header.entries[name]
        start, stop = entry["data_offsets"]
        data = self._copies[name][: stop - start] if name in self._copies else self._data[start:stop]
        array: NDArray[Any] = data.view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
        return array

    def arrays(self, prefix: str) -> dict[str, NDArray[Any]]:
        """All sections whose names begin with ``prefix``, by the rest of their names, compared with their checksums."""
        names = [name for name in self.names if name.startswith(prefix)]
        for name in names:
            self.check(name)
        return {name.removeprefix(prefix): self.array(name) for name in names}

    def check(self, name: str) -> None:
        """Compare a section, its padding included, with its checksum."""
        data = self._copies.get(name)
        if data is None:
            self.check_size()
            data = self._data[slice(*self.header.span(name))]
        if checksum((data.data,)) != self.header.checksums[name]:
            raise DamagedFileError(f"{self.path!r} is damaged: section {name!r} does not match its checksum")

    def verify(self) -> None:
        """Check every byte; the header was checked when the file was opened."""
        for name in self.names:
            self.check(name)

    @contextlib.contextmanager
    def parsing(self, part: str) -> Iterator[None]:
        """Raise errors inside as DamagedFileError: they come from this part of the file, not from the caller."""
        try:
            yield
        except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
            raise DamagedFileError(f"{self.path!r} is damaged: {part}: {error}") from error


def _copy_small_sections(path: str, file: Any, header: Header, first: int) -> dict[str, NDArray[np.uint8]]:
    """The small sections with their padding; those that follow each other are read by one call.

    Read, not mapped: if the file is cut in between, a read gives fewer bytes instead of a signal.
    """
    spans = {name: header.span(name) for name in header.names}
    small = {name: span for name, span in spans.items() if span[1] - span[0] <= COPIED}
    runs: list[list[str]] = []
    for name, (start, stop) in small.items():
        if runs and small[runs[-1][-1]][1] == start and stop - small[runs[-1][0]][0] <= COPIED:
            runs[-1].append(name)
        else:
            runs.append([name])
    copies: dict[str, NDArray[np.uint8]] = {}
    for run in runs:
        begin, end = small[run[0]][0], small[run[-1]][1]
        data = read_at(file, first + begin, end - begin, path)
        copies.update((name, data[small[name][0] - begin : small[name][1] - begin]) for name in run)
    return copies


def read_at(file: Any, offset: int, size: int, path: str) -> NDArray[np.uint8]:
    """``size`` bytes of an open file from ``offset`` on, aligned as sections are and read-only."""
    room = np.empty(size + ALIGNMENT, np.uint8)
    first = -room.ctypes.data % ALIGNMENT
    data, done = room[first : first + size], 0
    file.seek(offset)
    while done < size:
        if not (read := file.readinto(data[done:].data)):
            raise DamagedFileError(f"{path!r} is truncated: it ends at byte {offset + done}, {offset + size} expected")
        done += read
    data.flags.writeable = False
    return data
