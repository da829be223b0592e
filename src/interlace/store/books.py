"""What all rows of a store have in common: codebooks, embedding, calibration. Their file is an index without rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..codec.codebooks import Codebooks
from ..codec.embedding import Module
from ..codec.originals import Loss, OriginalsFormat
from ..codec.space import Space
from ..engine.engine import Engine
from ..engine.margins import Calibration
from ..engine.originals import KeptVectors
from ..errors import DamagedFileError
from ..files import storage
from ..index.ids import Ids
from ..index.searcher import Searcher
from ..index.sections import read_sections, sections_of
from . import files
from .files import Folder, Path
from .parts import open_file


@dataclass(frozen=True, eq=False)
class StoredBooks:
    """How the rows of a store are encoded and searched."""

    space: Space
    calibration: Calibration | None = None
    originals: OriginalsFormat | None = None  #: in which vectors are kept beside codes, if they are
    file: storage.File | None = None  #: that they were opened from, if they were

    @property
    def codebooks(self) -> Codebooks:
        """The codebooks of all rows."""
        return self.space.codebooks

    def without_rows(self, loss: Loss = Loss()) -> Searcher:  # noqa: B008 (frozen)
        """Searches no rows; ``loss`` is what the originals to come have lost already."""
        kept = None if self.originals is None else KeptVectors(self.originals, loss=loss)
        return Searcher(self.space, Engine(self.codebooks, (), None, self.calibration), Ids.default(0), kept)


def write_books(path: Path, books: StoredBooks, mark: str) -> None:
    """Write an index file without rows."""
    arrays, description = sections_of(books.without_rows())
    files.create(path, storage.contents(arrays, description | {"store": mark}))


def open_books(
    folder: Folder, name: str, mark: str, embedding: Any = None, known: StoredBooks | None = None
) -> StoredBooks:
    """Inverse of :func:`write_books`; ``embedding`` as for ``Index.open``, ``known`` as for ``open_segment``."""
    if isinstance(embedding, Module) and embedding.module is None:  # a placeholder without weights
        embedding = None
    file = open_file(folder, name, "index", mark)
    if known is not None and known.file is not None and known.file.same_as(file):
        return known
    found = read_sections(file, embedding)
    if found.engine.n_rows:
        raise DamagedFileError(f"{file.path!r} has {found.engine.n_rows} rows, but should have none")
    kept = None if found.originals is None else found.originals.format
    return StoredBooks(found.space, found.engine.calibration, kept, file)
