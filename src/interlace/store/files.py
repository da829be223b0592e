"""File operations of a store. All that change the disk go through :func:`call`, where tests inject faults.

The contents of a file are durable after a sync of the file, its name after a sync of its directory. Data are never
overwritten: files are created under new names, appended to, or replaced in one step.

Files are opened relative to an open directory (:class:`Folder`), not by path: between two calls, a path can change to
another directory, an open directory cannot.
"""

from __future__ import annotations

import contextlib
import errno
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..files import storage

#: Smaller parts of a file are joined, so that many small arrays need few calls.
GATHERED = 1 << 16


class Folder:
    """An open directory. ``path`` is the path that it had when it was opened, for messages.

    Files are opened relative to its descriptor; on systems without such calls (Windows), by path.
    """

    def __init__(self, path: str, *, writing: bool = False) -> None:
        self.path = path
        self.fd: int | None = None
        if os.open in os.supports_dir_fd:
            # O_PATH: a reader needs no permission to list the directory.
            access = os.O_RDONLY if writing else getattr(os, "O_PATH", os.O_RDONLY)
            self.fd = os.open(path, access | os.O_DIRECTORY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, self.fd)
        elif not os.path.isdir(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def __truediv__(self, name: str) -> At:
        return At(self, name)

    def names(self) -> list[str]:
        """Names of all files."""
        return os.listdir(self.path if self.fd is None else self.fd)

    def sync(self) -> None:
        """Wait until the names of the files are on disk."""
        if self.fd is None:
            sync_folder(self.path)
        else:
            call("fsync", self.fd)

    def stat(self, name: str) -> os.stat_result | None:
        """Status of a file, without following links; None if there is no such file."""
        target, where = _where(self / name)
        try:
            return os.stat(target, dir_fd=where.get("dir_fd"), follow_symlinks=False)
        except FileNotFoundError:
            return None


@dataclass(frozen=True, eq=False)
class At:
    """A name in an open directory."""

    folder: Folder
    name: str

    def __fspath__(self) -> str:
        return os.path.join(self.folder.path, self.name)


Path = str | At


def _where(path: Path) -> tuple[str, dict[str, int]]:
    """Arguments for system calls: a name with the descriptor of its directory, or a path."""
    if isinstance(path, At) and path.folder.fd is not None:
        return path.name, {"dir_fd": path.folder.fd}
    return os.fspath(path), {}


def call(name: str, *arguments: Any, **where: int) -> Any:
    """Calls the function of ``os`` with this name; ``where`` has descriptors of directories."""
    return getattr(os, name)(*arguments, **where)


def open_to_read(path: Path) -> int:
    """A descriptor of a regular file; raises for anything else, such as a pipe, without waiting."""
    target, where = _where(path)
    return storage.open_regular(target, os.fspath(path), **where)


def size(path: Path) -> int:
    """Bytes of a file."""
    target, where = _where(path)
    return os.stat(target, dir_fd=where.get("dir_fd")).st_size


def log_warning(text: str, *values: Any) -> None:
    """Log a problem that no caller has to handle. Imports logging here to keep opening a store fast."""
    import logging

    logging.getLogger("interlace.store").warning(text, *values)


def create(path: Path, parts: Iterable[Any]) -> None:
    """Create a file with these bytes and sync it; after an error the file is removed."""
    target, where = _where(path)
    file = call("open", target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, **where)
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


def replace(at: At, data: bytes, check: Callable[[], None] | None = None) -> None:
    """Replace a file in one step. ``check`` is called immediately before.

    After an error it is unknown which of the two files is there, or will be after a power cut.
    """
    temporary = at.folder / f"{at.name}.tmp"
    if at.folder.stat(temporary.name) is not None:  # left over from a failed attempt
        remove(temporary)
    create(temporary, [data])
    if check is not None:
        check()
    (source, where), (target, _) = _where(temporary), _where(at)
    call("replace", source, target, **{f"{end}_{key}": fd for end in ("src", "dst") for key, fd in where.items()})
    at.folder.sync()


def append_to(path: Path, *, new: bool = False) -> int:
    """A descriptor that appends to a file; links are not followed."""
    target, where = _where(path)
    flags = (os.O_CREAT | os.O_EXCL if new else 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    file: int = call("open", target, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | flags, 0o666, **where)
    return file


def write(file: int, data: Any) -> None:
    """Write all of data, in as many calls as the system needs."""
    rest = memoryview(data).cast("B")
    while rest:
        written = call("write", file, rest)
        if written <= 0:
            raise OSError(errno.EIO, "the system wrote no bytes")
        rest = rest[written:]


def sync(file: int) -> None:
    """Wait until the contents and the length of a file are on disk."""
    call("fdatasync" if hasattr(os, "fdatasync") else "fsync", file)


def sync_folder(folder: str) -> None:
    """Wait until the names in a directory are on disk."""
    file = call("open", folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        call("fsync", file)
    finally:
        call("close", file)


def truncate(file: int, size: int) -> None:
    """Shorten a file."""
    call("ftruncate", file, size)


def remove(path: Path) -> None:
    """Remove a file; processes that have it open or mapped can still read it."""
    target, where = _where(path)
    call("unlink", target, **where)


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
