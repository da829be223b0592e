"""What an index file holds: the sections and the description of codebooks, embedding, rows, ids and calibration."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import codebooks_of
from ..codec.embedding import embedding_in
from ..codec.space import Space
from ..engine.engine import Engine
from ..engine.margins import SECTIONS, Calibration
from ..engine.originals import originals_in
from ..engine.segments import Segment, merge, segment_in
from ..engine.segments import verify as verify_segment
from ..errors import DamagedFileError, NotAnIndexError
from ..files.storage import Blocks, File, contents, write
from .ids import Ids
from .searchable import Searchable
from .searcher import Searcher

#: Small sections whose damage would lose hits, not only rows.
CHECKED_AT_OPEN = (
    "segment.cell_starts",
    "segment.cross_floors",
    *(f"calibration.{name}" for name in SECTIONS),
)
#: What opens files of other kinds.
OPENERS = {
    "codebooks": "Codebooks.load",
    "model": "interlace.quantizers.load",
    "parts index": "interlace.parts.PartsIndex.open",
}


def sections_of(searcher: Searcher) -> tuple[dict[str, NDArray[Any] | Blocks], dict[str, Any]]:
    """Sections and description of a file (docs/format.md); the inverse is :func:`read_sections`."""
    codebooks, engine, ids = searcher.space.codebooks, searcher.engine, searcher.ids
    segment = (
        merge(list(engine.segments), codebooks)
        if engine.segments
        else Segment.pack(np.empty((0, codebooks.code_width), np.uint8), codebooks)
    )
    learned, description = codebooks.to_arrays()
    arrays: dict[str, NDArray[Any] | Blocks] = {f"codebooks.{name}": array for name, array in learned.items()}
    arrays |= {f"segment.{name}": array for name, array in segment.arrays.items()}
    embedding = None
    if searcher.space.embedding is not None:
        weights, embedding = searcher.space.embedding.to_arrays()
        arrays |= {f"embedding.{name}": array for name, array in weights.items()}
    arrays |= {f"ids.{name}": array for name, array in sorted(ids.sorted_section().items())}
    calibration = None
    if engine.calibration is not None:
        found, calibration = engine.calibration.to_arrays()
        arrays |= {f"calibration.{name}": array for name, array in found.items()}
    about = {
        "kind": "index",
        "n": ids.n_kept,
        "ids": ids.kind,
        "codebooks": description,
        "embedding": embedding,
        "calibration": calibration,
    }
    if searcher.originals is not None:
        kept, about["originals"] = searcher.originals.to_arrays()
        arrays |= kept
    return arrays, about


def read_sections(file: File, embedding: Any = None) -> Searcher:
    """The rows of an open index file, mapped; ``embedding`` is the torch module of an index whose embedding is one."""
    kind = file.meta.get("kind")
    if kind != "index":
        opener = OPENERS.get(kind) if isinstance(kind, str) else None  # a file may say anything
        hint = f"; {opener}(path) opens it" if opener else ""
        raise NotAnIndexError(f"{file.path!r} holds {kind!r}, not an index{hint}")
    for name in file.names:
        if name in CHECKED_AT_OPEN:
            file.check(name)
    codebooks, found = codebooks_of(file), embedding_in(file, embedding)
    with file.parsing("embedding"):
        space = Space.checked(codebooks, found)
    with file.parsing("segment"):
        segment = segment_in(file, codebooks)
        n = int(file.meta["n"])
        ids = Ids.stored(file.meta["ids"], n, _arrays(file, "ids"))
        ids.file = file
        if segment.n_rows != n:
            raise ValueError(f"{segment.n_rows} rows, {n} expected")
    originals = None
    if (kept := file.meta.get("originals")) is not None:
        with file.parsing("originals"):
            originals = originals_in(file, kept, codebooks.dim, n)
    calibration = None
    with file.parsing("calibration"):
        description = file.meta.get("calibration")
        if description is not None:
            calibration = Calibration.stored(description, _arrays(file, "calibration"))
    return Searcher(space, Engine(codebooks, (segment,) if n else (), None, calibration), ids, originals)


def verify_rows(searcher: Searcher) -> None:
    """Raise DamagedFileError unless codes, row numbers and ids are consistent."""
    engine, ids = searcher.engine, searcher.ids
    for segment in engine.segments:
        verify_segment(segment, engine.codebooks)
    if engine.n_rows != ids.n:
        raise DamagedFileError(f"the index is damaged: {ids.n} ids for {engine.n_rows} rows")
    if ids.kind != "default" and not np.array_equal(ids.find(ids.all()), ids.kept_rows()):
        raise DamagedFileError("the index is damaged: ids and their sorted section disagree")
    if searcher.originals is not None:
        if searcher.originals.n != ids.n:
            raise DamagedFileError(f"the index is damaged: {searcher.originals.n} originals for {ids.n} rows")
        searcher.originals.verify()


def _arrays(file: File, part: str) -> dict[str, NDArray[Any]]:
    """The sections of one part, without its name."""
    prefix = f"{part}."
    return {name.removeprefix(prefix): file.array(name) for name in file.names if name.startswith(prefix)}


class SavedSearchable(Searchable):
    """A :class:`Searchable` that is one file."""

    _file: File | None = None

    @property
    def file(self) -> File | None:
        """The file that it was opened from, if it was."""
        return self._file

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file, atomically; segments are merged into one."""
        write(path, *self.to_arrays())

    def to_bytes(self) -> bytes:
        """The bytes that :meth:`save` writes, in which nothing is executable."""
        return b"".join(contents(*self.to_arrays()))

    def to_arrays(self) -> tuple[dict[str, NDArray[Any] | Blocks], dict[str, Any]]:
        """Sections and description of a file (docs/format.md); the inverse is :meth:`Index.open`.

        The file that it was opened from is verified first: damaged data must not get a valid checksum.
        """
        if self._file is not None:
            self._file.verify()
        return sections_of(self.searcher)

    def __exit__(self, *error: object) -> None:
        """Nothing: an index needs no closing. ``with il.open(path) as opened:`` works for files and stores alike."""
