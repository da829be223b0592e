"""Create stores."""

from __future__ import annotations

import dataclasses
import os
from os import PathLike
from typing import Any

from ..codec.codebooks import Codebooks
from ..codec.originals import Loss, OriginalsFormat, WholeVectors
from ..engine.exact import UNLEARNED, unlearned
from ..engine.segments import merge
from ..errors import InputError, StoreError
from ..index.index import Index
from ..inputs.arrays import describe
from ..inputs.literals import Auto, Cross, Effort, Layout, Metric, OriginalsKind, PriorFit, Relearn, Rotation
from . import files, manifest, parts
from .books import StoredBooks, write_books
from .columns import Columns, Table
from .compaction import Limits
from .drift import Drift
from .extras import Extras
from .files import Folder
from .ids import of_integers
from .learning_plan import LearningPlan
from .lock import NAME as LOCK
from .lock import WriterLock
from .log import Log
from .manifest import Entry, Manifest, file_name
from .opening import check_limits, open_for_writing, open_writer
from .store import Store


def create(
    path: str | PathLike[str],
    source: Any = None,
    *,
    dim: int | None = None,
    metric: Metric | None = None,
    relearn: Relearn | None = None,
    learn_at: int | None = None,
    columns: Any = None,
    originals: OriginalsKind | Auto | None = "auto",
    payload: Any = None,
    limits: Limits | None = None,
    n_bytes: int | None = None,
    n_books: int | None = None,
    n_words: int | None = None,
    layout: Layout | None = None,
    n_crude: int | Auto | None = None,
    rotation: Rotation | None = None,
    cross: Cross | None = None,
    prior: PriorFit | None = None,
    effort: Effort | None = None,
    parallel_weight: float | None = None,
    cells: int | Auto | None = None,
    iterations: int | None = None,
    max_train_rows: int | None = None,
    max_memory: int | str | None = None,
    seed: int | None = None,
    threads: int | None = None,
) -> Store:
    """Create a store in a new or empty directory and open it for writing.

    ``source`` is :class:`Codebooks`, a fitted model such as :class:`ICQ`, or an :class:`Index`, whose rows, ids and
    calibration are copied into the store, with its originals if it keeps some.

    Without a source, ``dim`` is the number of dimensions. Such a store keeps the vectors themselves and searches them
    exactly until it has ``learn_at`` rows (40 for each word of a book: 10,240). Then it learns codebooks by itself, in
    a thread of the writing process, and replaces the vectors by codes; :meth:`Store.health` has the state. It learns
    again when the codebooks no longer fit recent rows, or when there are four times as many rows.
    ``relearn="manual"``: only :meth:`Store.relearn` learns. ``metric`` (``"l2"``) and the settings from ``n_bytes`` on
    are those of :meth:`Index.build`; None means its default.

    ``columns`` declares the payload: a ``pyarrow.Schema``, or names and types such as ``{"price": "float32", "tag":
    "string"}``. ``payload`` has the values for the rows of an index, see :meth:`Store.add`. ``originals="float16"`` or
    ``"int8"`` keeps the vectors too, for re-ranking and for learning again; None: they are not kept. The default is
    ``"float16"`` without a source, and what an index keeps, if the source is one. ``limits``
    (:class:`interlace.store.Limits`) control automatic compaction.
    """
    learning = {
        "metric": metric,
        "n_bytes": n_bytes,
        "n_books": n_books,
        "n_words": n_words,
        "layout": layout,
        "n_crude": n_crude,
        "rotation": rotation,
        "cross": cross,
        "prior": prior,
        "effort": effort,
        "parallel_weight": parallel_weight,
        "cells": cells,
        "iterations": iterations,
        "max_train_rows": max_train_rows,
        "max_memory": max_memory,
        "seed": seed,
        "threads": threads,
    }
    check_limits(limits)
    given = {name: value for name, value in learning.items() if value is not None}
    declared = None if columns is None else Columns.of(columns)
    plan: LearningPlan | None = None
    if source is None:
        if dim is None:
            raise InputError("create needs source (Codebooks, a fitted model or an Index) or dim, and got neither")
        index = Index(unlearned(dim, "l2" if metric is None else metric))
        later = None  # the format beside codes
        if originals is not None:
            later = OriginalsFormat("float16" if originals == "auto" else originals, index.dim).kind
        plan = LearningPlan.checked(given, "auto" if relearn is None else relearn, learn_at, later)
        extras = Extras(declared, WholeVectors(index.dim))
    else:
        _check_source_alone(given | {"dim": dim, "relearn": relearn, "learn_at": learn_at})
        index = _index_of(source)
        extras = Extras(declared, _originals_format(index, None if originals == "auto" else originals))
    table = _first_payload(index, extras, payload)
    where = os.path.realpath(path)
    try:
        os.mkdir(where)
        files.sync_folder(os.path.dirname(where))
    except FileExistsError:
        if not os.path.isdir(where):
            raise InputError(f"path must be a directory, but {where!r} is a file") from None
    folder = open_for_writing(where)
    _check_empty(folder)
    lock = WriterLock(folder)
    try:
        _check_empty(folder)  # again, with the lock: another process may have created a store meanwhile
        for name in sorted(filter(manifest.is_store_file, folder.names()), key=manifest.UNFINISHED.__eq__):
            files.remove(folder / name)  # left over from an interrupted create(), its marker last
        files.create(folder / manifest.UNFINISHED, [b""])
        folder.sync()
        manifest.write(folder, _first_files(folder, index, extras, table, plan))
    except BaseException as error:
        lock.release()
        if isinstance(error, OSError) and not isinstance(error, StoreError):
            raise StoreError(
                error.errno, f"the store could not be created ({error.strerror or error})", where
            ) from error
        raise
    return open_writer(folder, lock, index.embedding, limits or Limits())


def _check_source_alone(others: dict[str, Any]) -> None:
    """Raise InputError for parameters of a store that learns by itself, which are not for one with a source."""
    for name, value in others.items():
        if value is not None:
            raise InputError(
                f"{name} belongs to a store without a source, which learns its own codebooks: pass source or {name}, "
                f"not both ({name} was {value!r})"
            )


def _originals_format(index: Index, kind: OriginalsKind | None) -> OriginalsFormat | None:
    """The format that is asked for, or else that of the index; InputError if the rows of the index do not have it."""
    asked = None if kind is None else OriginalsFormat.around(kind, index.codebooks)
    kept = None if index.searcher.originals is None else index.searcher.originals.format
    if asked is None or (kept is not None and asked.kind == kept.kind):
        return kept
    if not len(index):
        return asked
    if kept is None:
        raise InputError(
            "originals cannot be kept for the rows of an index that has only their codes: build it with "
            "Index.build(x, originals=...), or create the store from its codebooks, il.create(path, index.codebooks, "
            "originals=...), and add the vectors"
        )
    raise InputError(f"originals is {kind!r}, but the index keeps the originals of its rows as {kept.kind!r}")


def _first_payload(index: Index, extras: Extras, payload: Any) -> Table | None:
    """Columns of the rows of an index, validated before anything is written."""
    if extras.columns is not None:
        return extras.columns.table(payload, len(index))
    if payload is not None:
        raise InputError("payload needs columns: il.create(path, index, columns={...}, payload=...)")
    return None


def _first_files(
    folder: Folder, index: Index, extras: Extras, table: Table | None, plan: LearningPlan | None
) -> Manifest:
    """Write the files of generation 1."""
    mark = os.urandom(16).hex()
    kept = None if plan is not None else extras.originals
    write_books(folder / file_name("books", 1), StoredBooks(index.searcher.space, index.calibration, kept), mark)
    Log.create(folder / file_name("log", 2), mark).close()
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
        loss=Loss() if index.searcher.originals is None else index.searcher.originals.loss,
        columns=None if extras.columns is None else extras.columns.text,
        originals=None if extras.originals is None else extras.originals.kind,
        learning=plan,
    )


def _index_of(source: Any) -> Index:
    """The source of a store as an index, with or without rows."""
    if isinstance(source, Index):
        if source.file is not None:
            source.file.verify()  # damaged data must not get a valid checksum
        return source
    if isinstance(source, Codebooks):
        if source.layout == UNLEARNED:
            raise InputError(
                "source is the codebooks of a store that has not learned any yet: pass dim instead, or call relearn() "
                "of that store first"
            )
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
