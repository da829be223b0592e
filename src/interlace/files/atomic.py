"""Files that are replaced whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable
from os import PathLike
from typing import Any


def replace_file(path: str | PathLike[str], parts: Iterable[Any]) -> None:
    """Replace a file by one with these bytes, or leave it as it was.

    The bytes go to a temporary file next to the target, reach the disk, and then take its name in one step. Temporary
    files of earlier writes to the same target whose processes were killed are removed.
    """
    target = os.path.realpath(path)  # a link keeps pointing at the file
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, "cannot write an interlace file over a directory", target)
    _remove_leftovers(target)
    temporary = ""
    try:
        descriptor, temporary = _new_temporary(target)
        with open(descriptor, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            if os.path.exists(target):
                os.fchmod(file.fileno(), stat.S_IMODE(os.stat(target).st_mode))
            os.fsync(file.fileno())
            os.replace(temporary, target)  # before it is closed, which frees its lock
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):  # name the file that was asked for, not the temporary one
            raise OSError(error.errno, f"cannot write an interlace file ({error.strerror})", target) from error
        raise
    try:
        folder = os.open(os.path.dirname(target), os.O_RDONLY)
    except PermissionError:  # a folder that may be written but not listed; the file itself is on disk
        return
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _new_temporary(target: str) -> tuple[int, str]:
    """A file that becomes ``target``: open and locked, so that no other process removes it as a leftover."""
    while True:
        temporary = f"{target}.~{os.urandom(5).hex()}.tmp"  # a name of its own for every thread and process
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        if not _locked(file, wait=True) or os.fstat(file).st_nlink:
            return file, temporary
        os.close(file)  # removed before it was locked


def _remove_leftovers(target: str) -> None:
    """Remove temporary files of this target whose process has ended: the system freed their locks.

    Only names that :func:`_new_temporary` gives count, and only where the system has locks. Leftovers are no reason for
    a write to fail.
    """
    folder, name = os.path.split(target)
    with contextlib.suppress(OSError):
        for left in os.listdir(folder):
            digits = left.removeprefix(f"{name}.~").removesuffix(".tmp")
            if left != f"{name}.~{digits}.tmp" or len(digits) != 10 or set(digits) - set("0123456789abcdef"):
                continue
            with contextlib.suppress(OSError):
                file = os.open(os.path.join(folder, left), os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    if stat.S_ISREG(os.fstat(file).st_mode) and _locked(file):
                        os.unlink(os.path.join(folder, left))
                finally:
                    os.close(file)


def _locked(file: int, wait: bool = False) -> bool:
    """Lock a file until it is closed; whether that was possible."""
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # another one has it, or the file system knows no locks
        return False
    return True
