"""From the files of a store to its state: manifest, segments and tombstones, then the records of the log.

Readers take no lock. After a reader has read the manifest, a writer may replace it and remove a file that it names;
then the reader reads the new manifest. Files that are mapped stay readable after they are removed.

Open files are reused only if they are certain to be the same: files are compared by the checksums in their headers, and
logs by their random salt, never by name or generation alone. In a restored backup that was written to since, the same
names and numbers belong to other rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..engine.segments import check_codes
from ..engine.tombstones import Tombstones
from ..errors import DamagedFileError, InterlaceError, NotAnIndexError, StoreError
from . import log as logs
from . import manifest as manifests
from . import parts
from .books import StoredBooks, open_books
from .extras import Extras
from .files import Folder
from .manifest import Manifest
from .records import Record
from .rows import StoredRows
from .snapshot import Snapshot
from .tail import Tail

ATTEMPTS = 100


@dataclass(frozen=True, eq=False)
class State:
    """A state of a store as it is on disk."""

    manifest: Manifest
    snapshot: Snapshot
    place: logs.Place  # how far the log was read


def load(path: str | Folder, embedding: Any = None, known: State | None = None) -> State:
    """The current state of the store at a path; files that ``known`` has open are reused."""
    for attempt in range(ATTEMPTS):
        folder = opened(path)
        manifest = manifests.read(folder)
        if known is not None and manifest.store != known.manifest.store:
            raise StoreError(
                f"{folder.path!r} is now another store (its mark is {manifest.store}; that of the opened store is "
                f"{known.manifest.store}): the state read before is kept; il.open(path) opens the other store"
            )
        try:
            if known is not None and manifest == known.manifest:
                return _continue(folder, known)
            base = base_of(folder, manifest, embedding, known)
            records, place, _ = read_log(folder, manifest)
            return State(manifest, replay(base, records, manifest), place)
        except parts.MissingFileError:
            if attempt + 1 == ATTEMPTS or manifests.read(opened(path)) == manifest:
                raise
    raise AssertionError("the last attempt returns or raises")


def opened(path: str | Folder) -> Folder:
    """Open the directory at a path."""
    try:
        return Folder(path) if isinstance(path, str) else path
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotAnIndexError(f"{path!r} does not exist") from error


def base_of(folder: Folder, manifest: Manifest, embedding: Any = None, known: State | None = None) -> Snapshot:
    """The state of the files that a manifest names, without the log."""
    opened: Mapping[str, parts.Part] = {}
    books: StoredBooks | None = None
    if known is not None:
        opened = {part.name: part for part in known.snapshot.rows.parts}
        books = known.snapshot.books
        embedding = books.space.embedding if embedding is None else embedding
    books = open_books(folder, manifest.books, manifest.store, embedding, books)
    extras = Extras.of(manifest, books.space.dim, books.originals)
    if known is not None and (manifest.columns, manifest.originals) == (
        known.manifest.columns,
        known.manifest.originals,
    ):
        extras = known.snapshot.rows.extras
    segments = tuple(
        parts.open_segment(folder, entry, books.codebooks, manifest.store, extras, opened.get(entry.file))
        for entry in manifest.segments
    )
    for segment in segments:
        if (segment.ids.kind == "string") != (manifest.ids == "string"):
            raise DamagedFileError(f"{segment.file.path!r} has {segment.ids.kind} ids, but its store {manifest.ids!r}")
    removed = [parts.open_removed(folder, entry, manifest.store) for entry in manifest.segments]
    tail, none = Tail.empty(books.codebooks, extras.width), Tombstones(0)
    rows = StoredRows(segments, (*removed, none), tail, manifest.ids, extras, manifest.loss)
    return Snapshot(books, rows, manifest.next_id, manifest.drift, manifest.learning)


def read_log(
    folder: Folder, manifest: Manifest, place: logs.Place | None = None
) -> tuple[list[Record], logs.Place, int]:
    """Records of the log from a position on, the position after them, and the size of the file."""
    try:
        return logs.read(folder / manifest.log, manifest.store, place)
    except FileNotFoundError as error:
        raise parts.missing(folder, manifest.log) from error


def replay(base: Snapshot, records: Iterable[Record], manifest: Manifest) -> Snapshot:
    """The state after the records of the log; DamagedFileError if they do not fit it."""
    listed = list(records)
    if not listed:
        return base
    try:
        record = Record.joined(listed)
        state = base.apply(record)
        if len(record.ids):  # else the width of codes may be any number
            check_codes(record.codes, base.books.codebooks)
        return state
    except (InterlaceError, ValueError) as error:
        raise DamagedFileError(f"the log {manifest.log!r} does not fit its store: {error}") from error


def _continue(folder: Folder, known: State) -> State:
    """For an unchanged manifest: read only the new records, or the whole log if it was replaced."""
    manifest, snapshot = known.manifest, known.snapshot
    try:
        records, place, _ = read_log(folder, manifest, known.place)
        if not records:
            return known
    except logs.ChangedError:
        snapshot = base_of(folder, manifest, known=known)
        records, place, _ = read_log(folder, manifest)
    return State(manifest, replay(snapshot, records, manifest), place)
