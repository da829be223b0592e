"""From the files of a store to its state: manifest, segments, tombstones, then the log on top.

Readers take no lock. Between reading the manifest and opening a file that it names, a writer may have put another
manifest in its place and removed that file; then the newer manifest is read. Files once mapped stay readable when
their name is gone.

What was opened before is used again only where it is certain to be the same: files are compared by the checksums in
their headers and logs by their random salt, never by name or generation alone. A backup that was restored, and written
to since, has the same names and numbers with other rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..engine.tombstones import Tombstones
from ..errors import DamagedFileError, InputError, InterlaceError, NotAnIndexError, StoreError
from ..index.index import Index
from . import log as logs
from . import manifest as manifests
from . import parts
from .extras import Extras
from .files import Folder
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


def load(path: str | Folder, embedding: Any = None, known: State | None = None) -> State:
    """The newest state of the store at a path, for readers; what ``known`` has open already is not opened again."""
    for attempt in range(ATTEMPTS):
        folder = opened(path)
        manifest = manifests.read(folder)
        if known is not None and manifest.store != known.manifest.store:
            raise StoreError(
                f"{folder.path!r} is another store by now (mark {manifest.store}; the one that was opened has "
                f"{known.manifest.store}): what was read before stays; il.open(path) opens the other store"
            )
        try:
            if known is not None and manifest == known.manifest:
                return _go_on(folder, known)
            base = base_of(folder, manifest, embedding, known)
            records, place, _ = read_log(folder, manifest)
            return State(manifest, replay(base, records, manifest), place)
        except parts.MissingFileError:
            if attempt + 1 == ATTEMPTS or manifests.read(opened(path)) == manifest:
                raise
    raise AssertionError("the last attempt returns or raises")


def opened(path: str | Folder) -> Folder:
    """The directory that is at a path now."""
    try:
        return Folder(path) if isinstance(path, str) else path
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotAnIndexError(f"{path!r} is not there") from error


def base_of(folder: Folder, manifest: Manifest, embedding: Any = None, known: State | None = None) -> Snapshot:
    """What a manifest names, without the log."""
    opened: Mapping[str, parts.Part] = {}
    books: Index | None = None
    if known is not None:
        opened = {part.name: part for part in known.snapshot.parts}
        books = known.snapshot.books
        embedding = books.embedding if embedding is None else embedding
    books = parts.open_books(folder, manifest.books, manifest.store, embedding, books)
    extras = Extras.of(manifest, books.dim)
    if known is not None and (manifest.columns, manifest.originals) == (
        known.manifest.columns,
        known.manifest.originals,
    ):
        extras = known.snapshot.extras
    segments = tuple(
        parts.open_segment(folder, entry, books.codebooks, manifest.store, extras, opened.get(entry.file))
        for entry in manifest.segments
    )
    for segment in segments:
        if (segment.ids.kind == "string") != (manifest.ids == "string"):
            raise DamagedFileError(f"{segment.file.path!r} has {segment.ids.kind} ids, its store {manifest.ids!r}")
    removed = [parts.open_removed(folder, entry, manifest.store) for entry in manifest.segments]
    tail, none = Tail.empty(books.codebooks, extras.width), Tombstones(0)
    return Snapshot(books, segments, (*removed, none), tail, manifest.ids, manifest.next_id, extras, manifest.drift)


def read_log(
    folder: Folder, manifest: Manifest, place: logs.Place | None = None
) -> tuple[list[logs.Record], logs.Place, int]:
    """Records of the log from a place on, the place behind them, and the size of the file."""
    try:
        return logs.read(folder / manifest.log, manifest.store, place)
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


def _go_on(folder: Folder, known: State) -> State:
    """The same manifest: only what the log has gained, unless it is another log or other records were read before."""
    manifest, snapshot = known.manifest, known.snapshot
    try:
        records, place, _ = read_log(folder, manifest, known.place)
        if not records:
            return known
    except logs.ChangedError:
        snapshot = base_of(folder, manifest, known=known)
        records, place, _ = read_log(folder, manifest)
    return State(manifest, replay(snapshot, records, manifest), place)
