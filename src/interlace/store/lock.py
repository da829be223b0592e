"""The lock that allows only one process at a time to write: a lock of the operating system on a file of the store.

The system releases it when the process ends, for whatever reason, so that there are no stale locks. The contents of the
file (which process, since when) are only for messages.

The lock belongs to the file, not to its name: if ``LOCK`` is removed or replaced, another process can lock the new
file. Therefore the directory is locked too, if the file system can do that, and before a writer acknowledges a write,
:meth:`WriterLock.check` checks that the name still belongs to the locked file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
import weakref

from ..errors import StoreError, StoreLockedError
from .files import Folder

NAME = "LOCK"
_START = "process "  # first bytes of the file
_LONGEST = 200  # bytes of the file
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)  # another process holds the lock


class WriterLock:
    """Held until :meth:`release`, or until the object is garbage-collected."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        file = _lock(folder)
        while not _is_named(file, folder):  # LOCK was removed or replaced before it was locked
            os.close(file)
            file = _lock(folder)
        try:
            directory = _lock_directory(folder)
        except BaseException:
            os.close(file)
            raise
        self._file = file
        self._close = weakref.finalize(self, _close_all, *((file,) if directory is None else (file, directory)))
        _HELD.add(self)
        with contextlib.suppress(OSError):  # a full disk does not prevent locking
            since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
            os.ftruncate(file, 0)
            os.pwrite(file, f"{_START}{os.getpid()} since {since}\n".encode(), 0)

    def check(self) -> None:
        """Raise StoreError if ``LOCK`` was removed or replaced: another process may be writing."""
        if not _is_named(self._file, self._folder):
            raise StoreError(
                errno.ESTALE,
                f"the file {NAME!r} of the store was removed or replaced while this process had it open for writing, "
                "and another process may be writing: the write is not acknowledged; open the store again",
                self._folder.path,
            )

    def release(self) -> None:
        """Release the lock."""
        self._close()


def _close_all(*files: int) -> None:
    for file in files:
        os.close(file)


def _flock(file: int) -> None:
    try:
        import fcntl
    except ImportError as error:  # Windows
        raise StoreError("writing to a store needs flock, which this system does not have; reading works") from error
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_directory(folder: Folder) -> int | None:
    """Lock the directory and return its descriptor; None if this file system cannot lock directories."""
    directory = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder.fd)
    try:
        _flock(directory)
    except OSError as error:
        os.close(directory)
        if error.errno in _TAKEN:
            raise _taken(folder, "a process whose LOCK was removed") from error
        return None
    return directory


def _taken(folder: Folder, holder: str) -> StoreLockedError:
    return StoreLockedError(
        f"{folder.path!r} is being written to by {holder}, and only one process can write at a time: close the store "
        "there, or open it with mode='r'"
    )


def _lock(folder: Folder) -> int:
    """Create and lock ``LOCK``; returns its descriptor."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(NAME, flags, 0o666, dir_fd=folder.fd)
    except OSError as error:
        why = "its LOCK is a symbolic link" if error.errno in (errno.ELOOP, errno.EMLINK) else error.strerror
        raise StoreError(error.errno, f"cannot be written to ({why})", folder.path) from error
    try:
        _flock(file)
        _check_contents(file, folder)
    except OSError as error:
        holder = _holder(file)
        os.close(file)
        if isinstance(error, StoreError):
            raise
        if error.errno in _TAKEN:
            raise _taken(folder, holder) from error
        raise StoreError(error.errno, f"cannot be locked ({error.strerror})", folder.path) from error
    return file


def _check_contents(file: int, folder: Folder) -> None:
    """Raise StoreError unless the file is empty or was written by a store, because it will be overwritten."""
    found = os.fstat(file)
    ours = stat.S_ISREG(found.st_mode) and found.st_size <= _LONGEST
    if ours and found.st_size:
        ours = os.pread(file, len(_START), 0) == _START.encode()
    if not ours:
        raise StoreError(
            errno.EINVAL,
            f"cannot be written to: its {NAME} was not written by a store and is not overwritten; move it away",
            folder.path,
        )


def _is_named(file: int, folder: Folder) -> bool:
    """Whether ``LOCK`` is still this file."""
    held, found = os.fstat(file), folder.stat(NAME)
    return found is not None and (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino)


def _holder(file: int) -> str:
    """What the process that holds the lock wrote into the file, for messages."""
    try:
        text = os.pread(file, _LONGEST, 0).decode(errors="replace").strip()
    except OSError:
        text = ""
    return text or "another process"


_HELD: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _release_in_child() -> None:
    """A forked child shares the descriptors and would hold the lock after its parent has ended."""
    for lock in list(_HELD):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)
