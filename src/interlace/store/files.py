"""The one door to the disk: whatever a store changes there goes through :func:`call`, where tests put faults.

A file is on disk once it was synced, its name once its folder was. Nothing here is ever written over: files are made
under new names, appended to, or take the place of another in one step.

Files of a store are named relative to an open directory (:class:`Folder`), not by a path: a path may lead to another
directory by the time of the next call, an open directory is always the same one.
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

#: Smaller parts of a file are gathered, so that one with many small arrays takes few calls.
GATHERED = 1 << 16


class Folder:
    """An open directory, and the path that it had when it was opened, which is for messages.

    Its files are reached through its descriptor. Where the system has no such calls (Windows) they are reached by path.
    """

    def __init__(self, path: str, *, writing: bool = False) -> None:
        self.path = path
        self.fd: int | None = None
        if os.open in os.supports_dir_fd:
            # A reader need not be allowed to list the directory.
            access = os.O_RDONLY if writing else getattr(os, "O_PATH", os.O_RDONLY)
            self.fd = os.open(path, access | os.O_DIRECTORY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, self.fd)
        elif not os.path.isdir(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def __truediv__(self, name: str) -> At:
        return At(self, name)

    def names(self) -> list[str]:
        """Of all its files."""
        return os.listdir(self.path if self.fd is None else self.fd)

    def sync(self) -> None:
        """Wait until the names of its files are on disk."""
        if self.fd is None:
            sync_folder(self.path)
        else:
            call("fsync", self.fd)

    def stat(self, name: str) -> os.stat_result | None:
        """Of the file with this name, links not followed; None if there is none."""
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
    """What to pass to calls of the system: a name and the descriptor of its directory, or a path."""
    if isinstance(path, At) and path.folder.fd is not None:
        return path.name, {"dir_fd": path.folder.fd}
    return os.fspath(path), {}


def call(name: str, *arguments: Any, **where: int) -> Any:
    """``os.name(*arguments)``, relative to a directory."""
    return getattr(os, name)(*arguments, **where)


def open_to_read(path: Path) -> int:
    """A descriptor of a regular file; nothing else is waited for or read."""
    target, where = _where(path)
    return storage.open_regular(target, os.fspath(path), **where)


def size(path: Path) -> int:
    """Bytes of a file."""
    target, where = _where(path)
    return os.stat(target, dir_fd=where.get("dir_fd")).st_size


def tell(text: str, *values: Any) -> None:
    """A warning to the log of the program, about a disk that no caller has to hear of.

    logging is imported when there is something to tell: opening a store should take no longer than need be.
    """
    import logging

    logging.getLogger("interlace.store").warning(text, *values)


def create(path: Path, parts: Iterable[Any]) -> None:
    """A new file with these bytes, which are on disk afterwards; nothing is left of one that could not be written."""
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
    """Put a file with these bytes in the place of another, in one step. ``check`` is the last thing before that step.

    After an error it is not known which of the two is there, or will be after a power cut.
    """
    temporary = at.folder / f"{at.name}.tmp"
    if at.folder.stat(temporary.name) is not None:  # of an earlier attempt that failed
        remove(temporary)
    create(temporary, [data])
    if check is not None:
        check()
    (source, where), (target, _) = _where(temporary), _where(at)
    call("replace", source, target, **{f"{end}_{key}": fd for end in ("src", "dst") for key, fd in where.items()})
    at.folder.sync()


def append_to(path: Path, *, new: bool = False) -> int:
    """A descriptor that writes at the end of a file; a link is not followed."""
    target, where = _where(path)
    flags = (os.O_CREAT | os.O_EXCL if new else 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    file: int = call("open", target, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | flags, 0o666, **where)
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


def remove(path: Path) -> None:
    """Take a name away; who has the file open or mapped keeps its bytes."""
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
