"""Verification of all files of a store."""

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
    """What was verified."""

    rows: int
    files: int
    n_bytes: int


def verify(path: str | Folder, embedding: Any = None) -> Verified:
    """Check every byte, code and id of a store; raises :class:`DamagedFileError`. Another process may write meanwhile.

    An incomplete record at the end of the log is not damage: it belongs to a write that was never acknowledged.
    """
    for _ in range(ATTEMPTS):
        try:
            return _verify(opened(path), embedding)
        except FileNotFoundError:  # the manifest was replaced meanwhile; load() raises for a file that stays missing
            continue
    raise DamagedFileError(f"the store {opened(path).path!r} changed too often while it was verified; try again")


def _verify(folder: Folder, embedding: Any) -> Verified:
    state = load(folder, embedding)
    manifest, snapshot = state.manifest, state.snapshot
    names = [NAME, *manifest.names]
    n_bytes = sum(files.size(folder / name) for name in names)
    books = folder / manifest.books
    Index.of_file(storage.read(books, files.open_to_read(books))).verify()
    for part in snapshot.rows.parts:
        part.verify(snapshot.books.codebooks, snapshot.rows.extras)
    snapshot.rows.verify_tail()
    ids = snapshot.rows.ids
    if not (ids.find(ids.all()) == ids.kept_rows()).all():
        raise DamagedFileError(f"the store {folder.path!r} is damaged: an id has more than one row")
    return Verified(len(snapshot), len(names), n_bytes)
