"""One writer at a time, across processes: a lock of the operating system on a file of the store.

The system frees it when its process ends, however it ends, so that no lock is ever stale. What the file says (who, and
since when) is only for messages.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
import weakref

from ..errors import StoreError, StoreLockedError

NAME = "LOCK"


class WriterLock:
    """Held until :meth:`release`, or until nobody refers to it any more."""

    def __init__(self, folder: str) -> None:
        try:
            import fcntl
        except ImportError as error:  # Windows
            raise StoreError("a store can be written to only where the system has flock; reading works") from error
        path = os.path.join(folder, NAME)
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StoreError(error.errno, f"cannot be written to ({error.strerror})", folder) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _holder(file)
            os.close(file)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise StoreLockedError(
                    f"{folder!r} is being written to by {holder}: a store has one writer at a time; close that one, or "
                    "open with mode='r'"
                ) from error
            raise StoreError(error.errno, f"cannot be locked ({error.strerror})", folder) from error
        self._file = file
        self._close = weakref.finalize(self, os.close, file)
        _HELD.add(self)
        with contextlib.suppress(OSError):  # a full disk should not keep a writer away
            since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
            os.ftruncate(file, 0)
            os.pwrite(file, f"process {os.getpid()} since {since}\n".encode(), 0)

    def release(self) -> None:
        """Let the next one write."""
        self._close()


def _holder(file: int) -> str:
    """What the holder wrote into the file; nothing yet if it has just begun."""
    try:
        text = os.pread(file, 200, 0).decode(errors="replace").strip()
    except OSError:
        text = ""
    return text or "another process"


_HELD: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _forget() -> None:
    """A forked child shares the descriptors, and would keep the lock after its parent is gone."""
    for lock in list(_HELD):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
