"""Create and open stores."""

from __future__ import annotations

import dataclasses
import errno
import os
from os import PathLike
from typing import Any, Literal, overload

from ..codec.codebooks import Codebooks
from ..codec.originals import OriginalsFormat
from ..engine.segments import merge
from ..errors import FileError, InputError, StoreError
from ..index.index import Index
from ..inputs.arrays import describe
from ..inputs.literals import OriginalsKind
from . import files, loading, manifest, parts
from .books import StoredBooks, write_books
from .columns import Columns, Table, check_arrow
from .compaction import Limits
from .drift import Drift
from .extras import Extras
from .files import Folder
from .ids import of_integers
from .lock import NAME as LOCK
from .lock import WriterLock
from .log import Log
from .manifest import Entry, Manifest, file_name
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
    """
    if mode not in ("r", "a"):
        raise InputError(f"mode must be 'r' or 'a', got {mode!r}")
    _check_limits(limits)
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
    folder = _open_for_writing(where)
    manifest.read(folder)  # before a lock file is created in a directory that is not a store
    return _open_writer(folder, WriterLock(folder), embedding, limits or Limits())


def _open_for_writing(path: str) -> Folder:
    """Open the directory: writes go to it even after it is renamed."""
    try:
        return Folder(path, writing=True)
    except OSError as error:
        raise StoreError(error.errno, f"cannot be written to ({error.strerror})", path) from error


def _open_writer(folder: Folder, lock: WriterLock, embedding: Any, limits: Limits) -> Store:
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


def create(
    path: str | PathLike[str],
    source: Any,
    *,
    columns: Any = None,
    originals: OriginalsKind | None = None,
    payload: Any = None,
    limits: Limits | None = None,
) -> Store:
    """Create a store in a new or empty directory and open it for writing.

    ``source`` is :class:`Codebooks`, a fitted model such as :class:`ICQ`, or an :class:`Index`, whose rows, ids and
    calibration are copied into the store, with its originals if it keeps some.

    ``columns`` declares the payload: a ``pyarrow.Schema``, or names and types such as ``{"price": "float32", "tag":
    "string"}``. ``payload`` has the values for the rows of an index, see :meth:`Store.add`. ``originals="float16"`` or
    ``"int8"`` keeps the vectors too, for re-ranking. ``limits`` (:class:`interlace.store.Limits`) control automatic
    compaction.
    """
    _check_limits(limits)
    index = _index_of(source)
    extras = Extras(None if columns is None else Columns.of(columns), _originals_format(index, originals))
    table = _first_payload(index, extras, payload)
    where = os.path.realpath(path)
    try:
        os.mkdir(where)
        files.sync_folder(os.path.dirname(where))
    except FileExistsError:
        if not os.path.isdir(where):
            raise InputError(f"path must be a directory, but {where!r} is a file") from None
    folder = _open_for_writing(where)
    _check_empty(folder)
    lock = WriterLock(folder)
    try:
        _check_empty(folder)  # again, with the lock: another process may have created a store meanwhile
        for name in sorted(filter(manifest.is_store_file, folder.names()), key=manifest.UNFINISHED.__eq__):
            files.remove(folder / name)  # left over from an interrupted create(), its marker last
        files.create(folder / manifest.UNFINISHED, [b""])
        folder.sync()
        manifest.write(folder, _first_files(folder, index, extras, table))
    except BaseException as error:
        lock.release()
        if isinstance(error, OSError) and not isinstance(error, StoreError):
            raise StoreError(
                error.errno, f"the store could not be created ({error.strerror or error})", where
            ) from error
        raise
    return _open_writer(folder, lock, index.embedding, limits or Limits())


def _originals_format(index: Index, kind: OriginalsKind | None) -> OriginalsFormat | None:
    """The format that is asked for, or else that of the index; InputError if the rows of the index do not have it."""
    asked = None if kind is None else OriginalsFormat(kind, index.dim)
    kept = None if index.searcher.originals is None else index.searcher.originals.format
    if asked is None or not len(index):
        return asked or kept
    if kept is None:
        raise InputError(
            "originals cannot be kept for the rows of an index that has only their codes: build it with "
            "Index.build(x, originals=...), or create the store from its codebooks, il.create(path, index.codebooks, "
            "originals=...), and add the vectors"
        )
    if asked.kind != kept.kind:
        raise InputError(f"originals is {kind!r}, but the index keeps the originals of its rows as {kept.kind!r}")
    return asked


def _first_payload(index: Index, extras: Extras, payload: Any) -> Table | None:
    """Columns of the rows of an index, validated before anything is written."""
    if extras.columns is not None:
        return extras.columns.table(payload, len(index))
    if payload is not None:
        raise InputError("payload needs columns: il.create(path, index, columns={...}, payload=...)")
    return None


def _first_files(folder: Folder, index: Index, extras: Extras, table: Table | None) -> Manifest:
    """Write the files of generation 1."""
    mark = os.urandom(16).hex()
    write_books(folder / file_name("books", 1), StoredBooks(index.searcher.space, index.calibration), mark)
    extended = extras.columns is not None or extras.originals is not None
    Log.create(folder / file_name("log", 2), mark, 1 + extended).close()
    ids, kind, next_id = index.ids_of_rows, "", 0
    entries: tuple[Entry, ...] = ()
    if len(index):
        kind = "string" if ids.kind == "string" else "int64"
        next_id = ids.n if ids.kind == "default" else 0
        if ids.kind == "int64":
            values = ids.all()
            next_id = max(0, int(values.max()) + 1)
            ids = of_integers(values)
        name = file_name("segment", 3)
        segment = merge(list(index.engine.segments), index.codebooks)
        parts.write_segment(folder / name, segment, ids, mark)
        entries = (Entry(name, len(index)),)
        if extras.columns is not None and table is not None:
            beside = file_name("payload", 4)
            parts.write_payload(folder / beside, name, table, extras.columns, mark)
            entries = (Entry(name, len(index), payload_file=beside),)
        if extras.originals is not None and index.searcher.originals is not None:
            beside = file_name("originals", 5)
            vectors = index.searcher.originals.section()
            parts.write_originals(folder / beside, name, vectors, extras.originals.kind, mark)
            entries = (dataclasses.replace(entries[0], originals_file=beside),)
    folder.sync()
    made, drift = index.calibration, Drift.of_learning(index.codebooks.error, index.codebooks.error_rows)
    if made is not None and made.error_rows:  # measured when the rows were encoded
        drift = Drift.of_learning(made.error, made.error_rows)
    return Manifest(
        generation=1,
        books=file_name("books", 1),
        store=mark,
        segments=entries,
        log=file_name("log", 2),
        ids=kind,
        next_id=next_id,
        next_file=6 if entries and entries[0].originals_file else 5,
        drift=drift,
        columns=None if extras.columns is None else extras.columns.text,
        originals=None if extras.originals is None else extras.originals.kind,
    )


def _index_of(source: Any) -> Index:
    """The source of a store as an index, with or without rows."""
    if isinstance(source, Index):
        return source
    if isinstance(source, Codebooks):
        return Index(source)
    codebooks = getattr(source, "codebooks_", None)  # a model; this module cannot import its class
    if isinstance(codebooks, Codebooks):
        return Index(codebooks, getattr(source, "embedding_", None))
    if codebooks is not None:
        raise InputError(
            f"a store has one set of codebooks, but {type(source).__name__} learns several: use "
            "model.index(x).save(path), or another model, such as ICQ, PQ or OPQ"
        )
    if hasattr(source, "fit"):
        raise InputError(f"source must be fitted, but this {type(source).__name__} is not: call fit first")
    raise InputError(f"source must be Codebooks, a fitted model or an Index, got {describe(source)}")


def _check_limits(limits: Any) -> None:
    if limits is not None and not isinstance(limits, Limits):
        raise InputError(f"limits must be il.store.Limits, got {describe(limits)}")


def _check_empty(folder: Folder) -> None:
    """Raise InputError unless there is only a lock, or what an interrupted :func:`create` left, with its marker."""
    names = folder.names()
    if manifest.NAME in names:
        raise InputError(f"{folder.path!r} is already a store: il.open(path, mode='a') opens it")
    others = [name for name in names if name != LOCK and not manifest.is_store_file(name)]
    if others:
        raise InputError(f"path must be a new or empty directory, but {folder.path!r} contains {min(others)!r}")
    left = sorted(name for name in names if name != LOCK)
    if left and manifest.UNFINISHED not in names:
        raise InputError(
            f"{folder.path!r} has {len(left)} files of a store ({left[0]!r}, ...) but no {manifest.NAME}; they are "
            "not overwritten: restore the store from a backup, or remove the files"
        )
