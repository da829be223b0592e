"""The file format: a safetensors container with aligned tensors and a checksum over every byte (docs/format.md).

Nothing here knows what the tensors mean. Files are replaced whole or not at all (``atomic.py``), begin with a header
(``header.py``), are opened by mmap (``mapped.py``), and never executed.
"""

from __future__ import annotations

import itertools
import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import DamagedFileError, NotAnIndexError
from .atomic import replace_file
from .header import checksum, header_length, make_header, padding_of, parse_header
from .mapped import COPIED, File, read_at

__all__ = [
    "COPIED",
    "Blocks",
    "File",
    "contents",
    "from_bytes",
    "open_regular",
    "read",
    "to_bytes",
    "write",
]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Blocks:
    """An array that may be larger than memory: its blocks of rows, which are made again each time they are needed."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    blocks: Callable[[], Iterable[NDArray[Any]]]


def write(
    path: str | PathLike[str],
    arrays: Mapping[str, NDArray[Any] | Blocks],
    description: dict[str, Any],
) -> None:
    """Replace ``path`` by a file with these arrays, or leave it as it was (:func:`replace_file`)."""
    replace_file(path, contents(arrays, description))


def contents(arrays: Mapping[str, NDArray[Any] | Blocks], description: dict[str, Any]) -> Iterator[Any]:
    """The bytes of such a file, part by part; arrays are not copied, and blocks are made twice: first for checksums.

    ``description`` is JSON-able and comes back from :attr:`File.meta`.
    """
    checksums = {name: checksum(_section(array)) for name, array in arrays.items()}
    sections = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    header = make_header(sections, checksums, description)
    return itertools.chain([header], itertools.chain.from_iterable(map(_section, arrays.values())))


def _section(array: NDArray[Any] | Blocks) -> Iterator[Any]:
    """Bytes of an array and of its padding."""
    for block in array.blocks() if isinstance(array, Blocks) else (array,):
        yield np.ascontiguousarray(block).reshape(-1).view(np.uint8).data
    yield bytes(padding_of(math.prod(array.shape) * array.dtype.itemsize))


def open_regular(target: str, path: str | None = None, **where: int) -> int:
    """A descriptor to read a file with; a pipe or a device, which may never give a byte, is refused without waiting.

    ``path`` is for messages, ``where`` may have the ``dir_fd`` of ``target``.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    file = os.open(target, flags, **where)
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a named pipe"}
        what = kinds.get(stat.S_IFMT(mode), "a device or socket")
        raise NotAnIndexError(f"{path or target!r} is {what}, not an interlace file")
    return file


def read(path: str | PathLike[str], descriptor: int | None = None) -> File:
    """Open by mmap and check the header; the sections are checked by :meth:`File.verify`.

    ``descriptor`` is the file, opened already, which is closed here; then ``path`` is only for messages.
    """
    name = os.fspath(path)
    if descriptor is None and os.path.isdir(name):
        raise NotAnIndexError(f"{name!r} is a directory, not an interlace file")
    with open(open_regular(name) if descriptor is None else descriptor, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(32)
        if size == 0:
            raise NotAnIndexError(f"{name!r} is empty")
        length = header_length(name, head)
        if size < 8 + length:
            raise DamagedFileError(f"{name!r} is truncated: {size} bytes, its header alone needs {8 + length}")
        header = parse_header(name, head[:8], read_at(file, 8, length, name).tobytes())
        expected = 8 + length + header.data_bytes
        if size != expected:
            how = "truncated" if size < expected else "longer than it should be"
            raise DamagedFileError(f"{name!r} is {how}: {size} bytes, {expected} expected")
        return File(name, size, header, file)


def to_bytes(save: Callable[[str], None]) -> bytes:
    """What ``save(path)`` writes, for pickles: our own file format, in which nothing is executable."""
    import tempfile  # here, because it brings modules that a search does without

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "saved.interlace")
        save(path)
        with open(path, "rb") as file:
            return file.read()


def from_bytes(data: bytes, read: Callable[[str], T]) -> T:
    """What ``read(path)`` makes of the bytes; a map it keeps outlives the file's name."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "saved.interlace")
        with open(path, "wb") as file:
            file.write(data)
        return read(path)
