"""The one door to the disk: whatever a store changes there goes through :func:`call`, where tests put faults.

A file is on disk once it was synced, its name once its folder was. Nothing here is ever written over: files are made
under new names, appended to, or take the place of another in one step.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from typing import Any

#: Smaller parts of a file are gathered, so that one with many small arrays takes few calls.
GATHERED = 1 << 16


def call(name: str, *arguments: Any) -> Any:
    """``os.name(*arguments)``."""
    return getattr(os, name)(*arguments)


def tell(text: str, *values: Any) -> None:
    """A warning to the log of the program, about a disk that no caller has to hear of.

    logging is imported when there is something to tell: opening a store should take no longer than need be.
    """
    import logging

    logging.getLogger("interlace.store").warning(text, *values)


def create(path: str, parts: Iterable[Any]) -> None:
    """A new file with these bytes, which are on disk afterwards; nothing is left of one that could not be written."""
    file = call("open", path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            for part in _gathered(parts):
                write(file, part)
            sync(file)
        finally:
            call("close", file)
    except BaseException:
        with contextlib.suppress(OSError):
            remove(path)
        raise


def replace(path: str, data: bytes) -> None:
    """Put a file with these bytes in the place of ``path``, in one step.

    After an error it is not known which of the two is there, or will be after a power cut.
    """
    temporary = f"{path}.tmp"
    if os.path.lexists(temporary):  # of an earlier attempt that failed
        remove(temporary)
    create(temporary, [data])
    call("replace", temporary, path)
    sync_folder(os.path.dirname(path))


def append_to(path: str, *, new: bool = False) -> int:
    """A descriptor that writes at the end of a file."""
    flags = os.O_CREAT | os.O_EXCL if new else 0
    file: int = call("open", path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | flags, 0o666)
    return file


def write(file: int, data: Any) -> None:
    """All of data, however little the system takes at a time."""
    rest = memoryview(data).cast("B")
    while rest:
        written = call("write", file, rest)
        if written <= 0:
            raise OSError(errno.EIO, "nothing was written")
        rest = rest[written:]


def sync(file: int) -> None:
    """Wait until what was written is on disk, and how long the file is."""
    call("fdatasync" if hasattr(os, "fdatasync") else "fsync", file)


def sync_folder(folder: str) -> None:
    """Wait until the names in a folder are on disk."""
    file = call("open", folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        call("fsync", file)
    finally:
        call("close", file)


def truncate(file: int, size: int) -> None:
    """Cut a file."""
    call("ftruncate", file, size)


def remove(path: str) -> None:
    """Take a name away; who has the file open or mapped keeps its bytes."""
    call("unlink", path)


def close(file: int) -> None:
    """Close a descriptor."""
    call("close", file)


def _gathered(parts: Iterable[Any]) -> Iterator[Any]:
    small = bytearray()
    for part in parts:
        data = memoryview(part).cast("B") if len(part) else memoryview(b"")
        if len(data) < GATHERED:
            small += data
            data = memoryview(b"")
        if len(small) >= GATHERED or (len(data) and small):
            yield bytes(small)
            small.clear()
        if len(data):
            yield data
    if small:
        yield bytes(small)
