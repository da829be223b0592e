"""Everything that a store has on disk, read and compared."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from ..errors import DamagedFileError
from ..index import Index
from .loading import ATTEMPTS, load
from .manifest import NAME


@dataclass(frozen=True)
class Verified:
    """What was found to be sound."""

    rows: int
    files: int
    n_bytes: int


def verify(folder: str, embedding: Any = None) -> Verified:
    """Raise unless every byte, code and id of a store is sound; it may be written to meanwhile.

    What a write that was cut short has left at the end of the log is no damage: nobody was told that it had succeeded.
    """
    for _ in range(ATTEMPTS):
        try:
            return _verify(folder, embedding)
        except FileNotFoundError:  # a newer manifest has come in between; one that is missing for good load() names
            continue
    raise DamagedFileError(f"the store {folder!r} changes too fast to be verified")


def _verify(folder: str, embedding: Any) -> Verified:
    state = load(folder, embedding)
    manifest, snapshot = state.manifest, state.snapshot
    names = [NAME, *manifest.names]
    n_bytes = sum(os.stat(os.path.join(folder, name)).st_size for name in names)
    Index.open(os.path.join(folder, manifest.books)).verify()
    for part in snapshot.parts:
        part.verify(snapshot.books.codebooks, snapshot.extras)
    snapshot.verify_tail()
    ids = snapshot.ids_of_rows
    if not (ids.find(ids.all()) == ids.kept_rows()).all():
        raise DamagedFileError(f"the store {folder!r} is damaged: an id has more than one row")
    return Verified(len(snapshot), len(names), n_bytes)
