"""Doors to a store: make one, open one."""

from __future__ import annotations

import errno
import os
from os import PathLike
from typing import Any, Literal, overload

from ..codec.codebooks import Codebooks
from ..engine.segments import merge
from ..errors import FileError, InputError, StoreError
from ..index.index import Index
from ..inputs.arrays import describe
from ..inputs.literals import OriginalsKind
from . import files, loading, manifest, parts
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
from .originals import Originals
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

    A file gives an :class:`Index`, a directory a :class:`Store`: with ``mode="r"`` to be read, with ``mode="a"`` to be
    written to as well, by one process at a time. ``embedding`` is the torch module of what has one, see
    :meth:`Index.open`. ``limits`` say when a store tidies up.
    """
    if mode not in ("r", "a"):
        raise InputError(f"mode must be 'r' or 'a', got {mode!r}")
    _check_limits(limits)
    if not os.path.isdir(path):
        if mode == "a" and os.path.exists(path):
            raise InputError(f"{os.fspath(path)!r} is a file, which never changes: index.to_store(path) makes a store")
        if mode == "a":
            raise FileNotFoundError(errno.ENOENT, "there is no store; il.create(path, ...) makes one", os.fspath(path))
        return Index.open(path, embedding)
    where = os.path.realpath(path)
    if mode == "r":
        return Store(where, loading.load(where, embedding))
    folder = _to_write(where)
    manifest.read(folder)  # before a lock is put into a directory that is no store
    return _open_writer(folder, WriterLock(folder), embedding, limits or Limits())


def _to_write(path: str) -> Folder:
    """The directory, open: what is written goes there, also after it was renamed."""
    try:
        return Folder(path, writing=True)
    except OSError as error:
        raise StoreError(error.errno, f"cannot be written to ({error.strerror})", path) from error


def _open_writer(folder: Folder, lock: WriterLock, embedding: Any, limits: Limits) -> Store:
    try:
        found = manifest.read(folder)
        if found.columns is not None:
            check_arrow()  # now, and not in the middle of a write
        folder.sync()  # what is swept must not be needed by an older manifest after a power cut
        base = loading.base_of(folder, found, embedding)
        try:
            log, records, cut = Log.open(folder / found.log, found.store)
        except FileNotFoundError as error:
            raise parts.missing(folder, found.log) from error
        if cut:
            files.tell("%r: %d bytes of a write that was cut short were dropped", folder.path, cut)
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
    """Make a store in a directory that is new or empty, and open it for writing.

    ``source`` is :class:`Codebooks`, a fitted model such as :class:`ICQ`, or an :class:`Index`, whose rows, ids and
    calibration go into the store.

    ``columns`` are those of the payload, for filters and to be read back: a ``pyarrow.Schema``, or names and types such
    as ``{"price": "float32", "tag": "string"}``; ``payload`` has their values for the rows of an index, see
    :meth:`Store.add`. ``originals="float16"`` or ``"int8"`` keeps the vectors beside their codes, to re-rank with.
    """
    _check_limits(limits)
    index = _index_of(source)
    extras = Extras(
        None if columns is None else Columns.of(columns), None if originals is None else Originals(originals, index.dim)
    )
    table = _first_payload(index, extras, payload)
    where = os.path.realpath(path)
    try:
        os.mkdir(where)
        files.sync_folder(os.path.dirname(where))
    except FileExistsError:
        if not os.path.isdir(where):
            raise InputError(f"a store is a directory, and {where!r} is a file") from None
    folder = _to_write(where)
    _check_empty(folder)
    lock = WriterLock(folder)
    try:
        _check_empty(folder)  # again: two may have come here at once
        for name in sorted(filter(manifest.is_ours, folder.names()), key=manifest.UNFINISHED.__eq__):
            files.remove(folder / name)  # of one that was cut short, the mark of which goes last
        files.create(folder / manifest.UNFINISHED, [b""])
        folder.sync()
        manifest.write(folder, _first_files(folder, index, extras, table))
    except BaseException as error:
        lock.release()
        if isinstance(error, OSError) and not isinstance(error, StoreError):
            raise StoreError(error.errno, f"the store could not be made ({error.strerror or error})", where) from error
        raise
    return _open_writer(folder, lock, index.embedding, limits or Limits())


def _first_payload(index: Index, extras: Extras, payload: Any) -> Table | None:
    """Columns of the rows of an index, before anything is written."""
    if len(index) and extras.originals is not None:
        raise InputError(
            "an index holds no originals of its rows: make the store from its codebooks, il.create(path, "
            "index.codebooks, originals=...), and add the vectors"
        )
    if extras.columns is not None:
        return extras.columns.table(payload, len(index))
    if payload is not None:
        raise InputError("payload needs columns: il.create(path, index, columns={...}, payload=...)")
    return None


def _first_files(folder: Folder, index: Index, extras: Extras, table: Table | None) -> Manifest:
    """Files of generation 1, on disk."""
    mark = os.urandom(16).hex()
    parts.write_books(folder / file_name("books", 1), index.without_rows(), mark)
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
    folder.sync()
    made, drift = index.calibration, Drift.of_learning(index.codebooks.error, index.codebooks.error_rows)
    if made is not None and made.error_rows:  # measured when its rows were coded
        drift = Drift.of_learning(made.error, made.error_rows)
    return Manifest(
        generation=1,
        books=file_name("books", 1),
        store=mark,
        segments=entries,
        log=file_name("log", 2),
        ids=kind,
        next_id=next_id,
        next_file=5,
        drift=drift,
        columns=None if extras.columns is None else extras.columns.text,
        originals=None if extras.originals is None else extras.originals.kind,
    )


def _index_of(source: Any) -> Index:
    """What a store is made from, as an index with or without rows."""
    if isinstance(source, Index):
        return source
    if isinstance(source, Codebooks):
        return Index(source)
    codebooks = getattr(source, "codebooks_", None)  # a model, which stands above this module
    if isinstance(codebooks, Codebooks):
        return Index(codebooks, getattr(source, "embedding_", None))
    if codebooks is not None:
        raise InputError(
            f"a store codes all rows by one set of codebooks, and {type(source).__name__} learns several: "
            "model.index(x).save(path) keeps such rows; a store takes ICQ, PQ, OPQ and the like"
        )
    if hasattr(source, "fit"):
        raise InputError(f"the {type(source).__name__} has learned nothing yet: call fit first")
    raise InputError(f"a store is made from Codebooks, a fitted model or an Index, got {describe(source)}")


def _check_limits(limits: Any) -> None:
    if limits is not None and not isinstance(limits, Limits):
        raise InputError(f"limits must be Limits of il.store, got {describe(limits)}")


def _check_empty(folder: Folder) -> None:
    """Nothing but a lock and what a call of :func:`create` that was cut short has left, which its mark tells."""
    names = folder.names()
    if manifest.NAME in names:
        raise InputError(f"{folder.path!r} is a store already: il.open(path, mode='a') opens it")
    others = [name for name in names if name != LOCK and not manifest.is_ours(name)]
    if others:
        raise InputError(f"a store needs a new or an empty directory, and {folder.path!r} holds {min(others)!r}")
    left = sorted(name for name in names if name != LOCK)
    if left and manifest.UNFINISHED not in names:
        raise InputError(
            f"{folder.path!r} holds {len(left)} files of a store ({left[0]!r}, ...) that has lost its {manifest.NAME}; "
            "they are not overwritten: restore the store from a backup, or remove them if they are not needed"
        )
