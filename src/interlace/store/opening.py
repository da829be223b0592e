"""Open stores."""

from __future__ import annotations

import errno
import os
from os import PathLike
from typing import Any, Literal, overload

from ..errors import FileError, InputError, StoreError
from ..files.remote import is_url, local_path
from ..index.index import Index
from ..inputs.arrays import describe
from . import files, loading, manifest, parts
from .backups import downloaded, restore_files
from .columns import check_arrow
from .compaction import Limits
from .files import Folder
from .lock import WriterLock
from .log import Log
from .store import Store
from .writer import Writer


@overload
def open(
    path: str | PathLike[str], embedding: Any = None, *, mode: Literal["r"] = "r", limits: Limits | None = None
) -> Index | Store: ...


@overload
def open(
    path: str | PathLike[str], embedding: Any = None, *, mode: Literal["a"], limits: Limits | None = None
) -> Store: ...


def open(
    path: str | PathLike[str], embedding: Any = None, *, mode: Literal["r", "a"] = "r", limits: Limits | None = None
) -> Index | Store:
    """Open an index file or the directory of a store.

    A file gives an :class:`Index`, a directory a :class:`Store`. ``mode="r"`` opens a store for reading, ``mode="a"``
    for reading and writing, which one process at a time can do. ``embedding`` is the torch module of an index or store
    that has one, see :meth:`Index.open`. ``limits`` (:class:`interlace.store.Limits`) control automatic compaction.

    ``path`` may be a URL, such as ``s3://bucket/my.interlace``, of an index file or of a backup (:meth:`Store.backup`),
    which is opened for reading: it is downloaded to a cache (``INTERLACE_CACHE``, or that of the user) unless it is
    there already, checked, and mapped. Needs fsspec (extra ``remote``), and its library for the kind of URL.
    """
    if mode not in ("r", "a"):
        raise InputError(f"mode must be 'r' or 'a', got {mode!r}")
    check_limits(limits)
    if is_url(path):
        path = _local(os.fspath(path), mode)
    if not os.path.isdir(path):
        if mode == "a" and os.path.exists(path):
            raise InputError(
                f"{os.fspath(path)!r} is a file, not a store; index.to_store(path) makes a store of an index"
            )
        if mode == "a":
            raise FileNotFoundError(errno.ENOENT, "no store there; il.create(path, ...) makes one", os.fspath(path))
        return Index.open(path, embedding)
    where = os.path.realpath(path)
    if mode == "r":
        return Store(where, loading.load(where, embedding))
    folder = open_for_writing(where)
    manifest.read(folder)  # before a lock file is created in a directory that is not a store
    return open_writer(folder, WriterLock(folder), embedding, limits or Limits())


def restore(source: str | PathLike[str], path: str | PathLike[str]) -> Store:
    """Copy a backup (:meth:`Store.backup`) to the new or empty directory ``path`` and open it for writing.

    ``source`` is a path or a URL. Sizes and checksums are compared, and the store appears whole or not at all: after an
    error ``path`` is as it was.
    """
    return open(restore_files(source, path), mode="a")


def _local(url: str, mode: str) -> str:
    """The path of a file URL; for other URLs that of a downloaded copy, which cannot be written to."""
    found = local_path(url)
    if found is not None:
        return found
    if mode == "a":
        raise InputError(f"a URL is opened for reading only, got mode='a' for {url!r}; il.restore(url, path) copies it")
    return downloaded(url)


def open_for_writing(path: str) -> Folder:
    """Open the directory: writes go to it even after it is renamed."""
    try:
        return Folder(path, writing=True)
    except OSError as error:
        raise StoreError(error.errno, f"cannot be written to ({error.strerror})", path) from error


def open_writer(folder: Folder, lock: WriterLock, embedding: Any, limits: Limits) -> Store:
    """Open a store for writing, with its lock, which is released after an error."""
    try:
        found = manifest.read(folder)
        if found.columns is not None:
            check_arrow()  # fail now rather than in the middle of a write
        folder.sync()  # so that after a power cut no older manifest needs a file that is removed below
        base = loading.base_of(folder, found, embedding)
        try:
            log, records, cut = Log.open(folder / found.log, found.store)
        except FileNotFoundError as error:
            raise parts.missing(folder, found.log) from error
        if cut:
            files.log_warning("%r: dropped %d bytes of an interrupted write", folder.path, cut)
        state = loading.State(found, loading.replay(base, records, found), log.place)
        manifest.sweep(folder, found)
        return Store(folder.path, Writer(folder, state, log, lock, limits))
    except BaseException as error:
        lock.release()
        if isinstance(error, OSError) and not isinstance(error, FileError):
            text = f"cannot be opened for writing ({error.filename}: {error.strerror})"
            raise StoreError(error.errno, text, folder.path) from error
        raise


def check_limits(limits: Any) -> None:
    """Raise InputError unless it is None or Limits."""
    if limits is not None and not isinstance(limits, Limits):
        raise InputError(f"limits must be il.store.Limits, got {describe(limits)}")
