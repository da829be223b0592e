"""From the files of a store to its state: manifest, segments, tombstones, then the log on top.

Readers take no lock. Between reading the manifest and opening a file that it names, a writer may have put another
manifest in its place and removed that file; then the newer manifest is read. Files once mapped stay readable when
their name is gone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import DamagedFileError, InputError, InterlaceError
from ..index import Index
from ..tombstones import Tombstones
from . import log as logs
from . import manifest as manifests
from . import parts
from .extras import Extras
from .manifest import Manifest
from .snapshot import Snapshot
from .tail import Tail

ATTEMPTS = 100


@dataclass(frozen=True, eq=False)
class State:
    """What the disk says."""

    manifest: Manifest
    snapshot: Snapshot
    place: logs.Place  # how far the log was read


def load(folder: str, embedding: Any = None, known: State | None = None) -> State:
    """The newest state, for readers; what ``known`` has open already is not opened again."""
    for attempt in range(ATTEMPTS):
        manifest = manifests.read(folder)
        try:
            if known is not None and manifest.generation == known.manifest.generation:
                return _go_on(folder, known)
            base = base_of(folder, manifest, embedding, known)
            records, place, _ = read_log(folder, manifest)
            return State(manifest, replay(base, records, manifest), place)
        except parts.MissingFileError:
            if attempt + 1 == ATTEMPTS or manifests.read(folder).generation == manifest.generation:
                raise
    raise AssertionError("the last attempt returns or raises")


def base_of(folder: str, manifest: Manifest, embedding: Any = None, known: State | None = None) -> Snapshot:
    """What a manifest names, without the log."""
    opened: Mapping[str, parts.Part] = {}
    books: Index | None = None
    if known is not None:
        opened = {part.name: part for part in known.snapshot.parts}
        books = known.snapshot.books if known.manifest.books == manifest.books else None
        embedding = known.snapshot.books.embedding if embedding is None else embedding
    if books is None:
        books = parts.open_books(folder, manifest.books, manifest.store, embedding)
    extras = Extras.of(manifest, books.dim) if known is None else known.snapshot.extras
    segments = tuple(
        opened.get(entry.file) or parts.open_segment(folder, entry, books.codebooks, manifest.store, extras)
        for entry in manifest.segments
    )
    for segment in segments:
        if (segment.ids.kind == "string") != (manifest.ids == "string"):
            raise DamagedFileError(f"{segment.file.path!r} has {segment.ids.kind} ids, its store {manifest.ids!r}")
    removed = [parts.open_removed(folder, entry, manifest.store) for entry in manifest.segments]
    tail, none = Tail.empty(books.codebooks, extras.width), Tombstones(0)
    return Snapshot(books, segments, (*removed, none), tail, manifest.ids, manifest.next_id, extras, manifest.drift)


def read_log(
    folder: str, manifest: Manifest, place: logs.Place | None = None
) -> tuple[list[logs.Record], logs.Place, int]:
    """Records of the log from a place on, the place behind them, and the size of the file."""
    try:
        return logs.read(os.path.join(folder, manifest.log), manifest.store, place)
    except FileNotFoundError as error:
        raise parts.missing(folder, manifest.log) from error


def replay(base: Snapshot, records: Iterable[logs.Record], manifest: Manifest) -> Snapshot:
    """The state after the records of the log; ones that cannot be are damage."""
    listed = list(records)
    if not listed:
        return base
    try:
        record = logs.Record.joined(listed)
        sizes = np.array(base.books.codebooks.column_sizes)
        if len(record.codes) and (record.codes.max(0) >= sizes[: record.codes.shape[1]]).any():
            raise InputError("a code names a word that its book does not have")
        return base.apply(record)
    except (InterlaceError, ValueError) as error:
        raise DamagedFileError(f"the log {manifest.log!r} does not fit its store: {error}") from error


def _go_on(folder: str, known: State) -> State:
    """The same generation: only what the log has gained."""
    manifest, snapshot = known.manifest, known.snapshot
    try:
        records, place, _ = read_log(folder, manifest, known.place)
        if not records:
            return known
    except logs.ChangedError:
        snapshot = base_of(folder, manifest, known=known)
        records, place, _ = read_log(folder, manifest)
    return State(manifest, replay(snapshot, records, manifest), place)
