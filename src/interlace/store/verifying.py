"""Everything that a store has on disk, read and compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import DamagedFileError
from ..files import storage
from ..index.index import Index
from . import files
from .files import Folder
from .loading import ATTEMPTS, load, opened
from .manifest import NAME


@dataclass(frozen=True)
class Verified:
    """What was found to be sound."""

    rows: int
    files: int
    n_bytes: int


def verify(path: str | Folder, embedding: Any = None) -> Verified:
    """Raise unless every byte, code and id of a store is sound; it may be written to meanwhile.

    What a write that was cut short has left at the end of the log is no damage: nobody was told that it had succeeded.
    """
    for _ in range(ATTEMPTS):
        try:
            return _verify(opened(path), embedding)
        except FileNotFoundError:  # a newer manifest has come in between; one that is missing for good load() names
            continue
    raise DamagedFileError(f"the store {opened(path).path!r} changes too fast to be verified")


def _verify(folder: Folder, embedding: Any) -> Verified:
    state = load(folder, embedding)
    manifest, snapshot = state.manifest, state.snapshot
    names = [NAME, *manifest.names]
    n_bytes = sum(files.size(folder / name) for name in names)
    books = folder / manifest.books
    Index.of_file(storage.read(books, files.open_to_read(books))).verify()
    for part in snapshot.parts:
        part.verify(snapshot.books.codebooks, snapshot.extras)
    snapshot.rows.verify_tail()
    ids = snapshot.ids_of_rows
    if not (ids.find(ids.all()) == ids.kept_rows()).all():
        raise DamagedFileError(f"the store {folder.path!r} is damaged: an id has more than one row")
    return Verified(len(snapshot), len(names), n_bytes)
