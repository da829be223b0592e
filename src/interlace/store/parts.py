"""The immutable files of a store: segments with their columns, originals and tombstones.

All are memory-mapped containers with checksums (``files/storage.py``). A segment has the sections ``segment.*`` and
``ids.*`` of an index file. The codebooks, which are much larger than a small segment, are in a separate file
(``store/books.py``). Columns and originals, which may be much larger than the codes, have separate files too. Each file
has the mark of its store, a random number, so that files of other stores are refused.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import cached_property
from ..codec.codebooks import Codebooks
from ..codec.originals import Bytes
from ..engine.segments import CROSS_FLOORS, Segment, segment_in
from ..engine.segments import verify as verify_segment
from ..engine.tombstones import Tombstones
from ..errors import DamagedFileError
from ..files import storage
from ..index.ids import Ids
from . import files
from . import ids as store_ids
from .columns import SECTION as COLUMNS_SECTION
from .columns import Columns, Payload, Table, check_text
from .extras import Extras
from .files import Folder, Path
from .filter_cache import FilterCache
from .filters import columns_of, qualifying
from .manifest import Entry

#: Small sections of a segment whose damage would lose hits.
CHECKED_AT_OPEN = ("segment.cell_starts", f"segment.{CROSS_FLOORS}")


@dataclass(frozen=True, eq=False)
class Part:
    """An opened segment file."""

    file: storage.File
    segment: Segment
    ids: Ids
    originals: Bytes  # [n, bytes of an original]; [n, 0] if the store keeps none
    originals_file: storage.File | None = None
    payload: Payload | None = None
    payload_file: storage.File | None = None

    @property
    def files(self) -> tuple[storage.File, storage.File | None, storage.File | None]:
        """The segment, its columns, its originals."""
        return self.file, self.payload_file, self.originals_file

    @property
    def name(self) -> str:
        """File name, as in the manifest."""
        return os.path.basename(self.file.path)

    def table(self, names: Sequence[str] | None = None) -> Table:
        """Columns of the rows (None: all)."""
        assert self.payload is not None
        assert self.payload_file is not None
        self.payload_file.check_size()
        return self.payload.table(names)

    def whole_table(self) -> Table:
        """All columns, after verifying every byte: damaged data must not get a valid checksum."""
        assert self.payload is not None
        self.payload.verify()
        return self.payload.table()

    def unsound(self, names: Sequence[str] | None = None) -> set[str]:
        """Those of these columns, already read by :meth:`table`, that have strings which are not UTF-8."""
        assert self.payload is not None
        return self.payload.unsound(self.payload.columns.checked(names))

    def check_text(self, names: Sequence[str]) -> None:
        """Raise DamagedFileError if a string in these columns is not UTF-8, in removed rows too."""
        table = self.table(names)
        check_text(table, self.unsound(names), lambda row: self.ids.take(np.array([row]))[0])

    def qualifying(self, expression: Any) -> NDArray[np.bool_]:
        """A mask of the rows for which an expression is true; the last few masks are cached."""
        assert self.payload is not None
        bits = self._masks.get(expression)
        if bits is None:
            assert self.payload_file is not None
            self.payload_file.check_size()
            self.check_text(columns_of(expression, self.payload.columns))
            bits = np.packbits(qualifying(expression, self.payload.whole()))
            self._masks.put(expression, bits)
        return np.unpackbits(bits, count=self.ids.n).view(np.bool_)

    @cached_property
    def _masks(self) -> FilterCache:
        return FilterCache()

    def verify(self, codebooks: Codebooks, extras: Extras | None = None) -> None:
        """Check every byte, code, id, column and original; DamagedFileError names the file."""
        self.file.verify()
        if self.payload is not None:
            self.payload.verify()
            self.check_text(self.payload.columns.checked(None))
        if self.originals_file is not None and extras is not None and extras.originals is not None:
            self.originals_file.verify()
            with self.originals_file.parsing("originals"):
                extras.originals.verify(self.originals)
        try:
            verify_segment(self.segment, codebooks)
            rows = Ids.default(self.ids.n).all()
            if not (self.ids.find(self.ids.take(rows)) == rows).all():
                raise DamagedFileError("the index is damaged: ids and their sorted section disagree")
        except DamagedFileError as error:
            raise DamagedFileError(f"{self.file.path!r} is damaged: {error}") from error


def write_segment(path: Path, segment: Segment, ids: Ids, mark: str) -> None:
    """Write a segment file."""
    arrays = {f"segment.{name}": array for name, array in segment.arrays.items()}
    arrays |= {f"ids.{name}": array for name, array in sorted(ids.sorted_section().items())}
    description = {"kind": "segment", "n": segment.n_rows, "ids": store_ids.describe(ids), "store": mark}
    files.create(path, storage.contents(arrays, description))


def write_payload(path: Path, segment: str, table: Table, columns: Columns, mark: str) -> None:
    """Write the columns of the rows of a segment."""
    description = {"kind": "payload", "segment": segment, "n": table.num_rows, "store": mark}
    files.create(path, storage.contents({COLUMNS_SECTION: columns.to_file(table)}, description))


def write_originals(path: Path, segment: str, originals: Bytes | storage.Blocks, kind: str, mark: str) -> None:
    """Write the originals of the rows of a segment."""
    description = {"kind": "originals", "segment": segment, "n": originals.shape[0], "of": kind, "store": mark}
    files.create(path, storage.contents({"originals": originals}, description))


def open_segment(
    folder: Folder, entry: Entry, codebooks: Codebooks, mark: str, extras: Extras, known: Part | None = None
) -> Part:
    """Map a segment. Small sections are checked here, all of them by :meth:`Part.verify`.

    ``known`` is a part that was opened under this name before; it is returned if the files have the same checksums.
    """
    file, payload_file, originals_file = open_file(folder, entry.file, "segment", mark), None, None
    if entry.payload_file is not None and extras.columns is not None:
        payload_file = _open_companion(folder, entry, entry.payload_file, "payload", mark)
    if entry.originals_file is not None and extras.originals is not None:
        originals_file = _open_companion(folder, entry, entry.originals_file, "originals", mark)
    opened = (file, payload_file, originals_file)
    if known is not None and known.ids.n == entry.rows and all(map(_same, opened, known.files)):
        return known
    with file.parsing("segment"):
        for name in CHECKED_AT_OPEN:
            if name in file.names:
                file.check(name)
        segment = segment_in(file, codebooks)
        if segment.n_rows != entry.rows or file.meta["n"] != entry.rows:
            raise ValueError(f"{segment.n_rows} rows, but the manifest says {entry.rows}")
        arrays = {name[4:]: file.array(name) for name in file.names if name.startswith("ids.")}
        ids = store_ids.stored(file.meta["ids"], entry.rows, arrays)
        ids.file = file
    payload = None
    if payload_file is not None and extras.columns is not None:
        payload = Payload(extras.columns, payload_file, entry.rows)
    originals: Bytes = np.empty((entry.rows, 0), np.uint8)
    if originals_file is not None and extras.originals is not None:
        with originals_file.parsing("originals"):
            originals = originals_file.array("originals")
            if originals.dtype != np.uint8 or originals.shape != (entry.rows, extras.width):
                raise ValueError(f"{originals.dtype} {originals.shape}, expected uint8 {(entry.rows, extras.width)}")
            if originals_file.meta["of"] != extras.originals.kind:
                raise ValueError(f"{originals_file.meta['of']!r:.60}, expected {extras.originals.kind!r}")
    return Part(file, segment, ids, originals, originals_file, payload, payload_file)


def _same(one: storage.File | None, other: storage.File | None) -> bool:
    return one is other if one is None or other is None else one.same_as(other)


def _open_companion(folder: Folder, entry: Entry, name: str, kind: str, mark: str) -> storage.File:
    """Open a file that belongs to a segment."""
    file = open_file(folder, name, kind, mark)
    with file.parsing(kind):
        if file.meta["segment"] != entry.file:
            raise ValueError(f"it belongs to {file.meta['segment']!r:.60}, not to {entry.file!r}")
    return file


def write_removed(path: Path, segment: str, removed: Tombstones, mark: str) -> None:
    """Write the tombstones of a segment."""
    description = {"kind": "removed", "segment": segment, "n": removed.n, "count": removed.count, "store": mark}
    files.create(path, storage.contents({"removed": removed.bits}, description))


def open_removed(folder: Folder, entry: Entry, mark: str) -> Tombstones:
    """Tombstones of a segment, verified: a wrong bit would lose a row or restore a removed one."""
    if entry.removed_file is None:
        return Tombstones(entry.rows)
    file = _open_companion(folder, entry, entry.removed_file, "removed", mark)
    file.verify()
    with file.parsing("removed"):
        return Tombstones.stored(entry.rows, file.array("removed"), entry.removed)


def open_file(folder: Folder, name: str, kind: str, mark: str) -> storage.File:
    """Open a file of this kind that belongs to the store."""
    try:
        file = storage.read(folder / name, files.open_to_read(folder / name))
    except FileNotFoundError as error:
        raise missing(folder, name) from error
    if file.meta.get("kind") != kind:
        raise DamagedFileError(f"{file.path!r} contains {file.meta.get('kind')!r:.60}, expected {kind!r}")
    if file.meta.get("store") != mark:
        raise DamagedFileError(f"{file.path!r} belongs to another store")
    return file


class MissingFileError(DamagedFileError):
    """A file that a manifest names is missing: the store is damaged, or has a newer manifest."""


def missing(folder: Folder, name: str) -> MissingFileError:
    return MissingFileError(f"the store {folder.path!r} is damaged: its manifest names {name!r}, which does not exist")
