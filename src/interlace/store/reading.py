"""The calls of a store that only read: rows, columns, properties, health, evaluation, verification."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from os import PathLike
from typing import Any

from ..codec.codebooks import Codebooks
from ..codec.embedding import Embedding
from ..errors import InputError, NotAnIndexError
from ..index.id_values import IdArray
from ..index.report import Report
from ..index.searchable import Searchable
from ..index.searcher import Searcher
from ..inputs.arrays import FloatArray
from . import files
from .background import Background
from .health import Health
from .loading import State, opened
from .manifest import NAME
from .session import Session
from .snapshot import Snapshot
from .verifying import verify


class Reading(Searchable):
    """The calls of a :class:`Store` that work in both modes."""

    path: str
    session: Session  #: the open store; internal
    background: Background  #: what learns for it; internal

    @property
    def searcher(self) -> Searcher:
        """The current rows, ready to be searched."""
        return self.snapshot.searcher

    def get(self, ids: Any, *, originals: bool = False) -> FloatArray:
        """Decoded vectors of these ids, float32 [n, dim] (1-D for a single id).

        With ``originals=True``: the vectors that were added, in the precision in which the store keeps them.
        """
        return self.snapshot.get(ids, originals=originals)

    def payload(self, ids: Any = None, columns: Any = None) -> Any:
        """Columns of these ids, or of all rows in the order of :attr:`ids`, as a ``pyarrow.Table``.

        ``columns`` selects columns by name. ``store.payload(matches.ids[0])`` has a row for each hit of the first
        query.
        """
        return self.snapshot.payload(ids, columns)

    @property
    def columns(self) -> Any:
        """The ``pyarrow.Schema`` of the columns, or None."""
        return self.session.open_state.snapshot.columns

    @property
    def originals(self) -> str | None:
        """The format in which the store keeps vectors: ``float16``, ``int8``, or None."""
        originals = self.session.open_state.snapshot.originals
        return None if originals is None else originals.kind

    @property
    def snapshot(self) -> Snapshot:
        """The current state as an object that later writes do not change."""
        return self.session.open_state.snapshot

    @property
    def ids(self) -> IdArray:
        """Every id in insertion order; int64, or strings in an object array."""
        return self.snapshot.ids

    def __len__(self) -> int:
        return len(self.snapshot)

    def __contains__(self, value: object) -> bool:
        return value in self.snapshot

    def __iter__(self) -> Iterator[int | str]:
        return iter(self.snapshot)

    @property
    def generation(self) -> int:
        """Number of the manifest: it grows each time that the set of files changes."""
        return self.session.open_state.manifest.generation

    @property
    def codebooks(self) -> Codebooks:
        """The codebooks of all rows; one book of one word as long as the store has not learned any."""
        return self.session.open_state.snapshot.books.codebooks

    @property
    def embedding(self) -> Embedding | None:
        """Turns raw inputs into vectors; None if inputs are vectors."""
        return self.session.open_state.snapshot.books.space.embedding

    @property
    def dim(self) -> int:
        """Dimensions of a vector, after the embedding if there is one."""
        return self.codebooks.dim

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one input of :meth:`add` and :meth:`search`."""
        return self.session.open_state.snapshot.books.space.input_shape

    @property
    def metric(self) -> str:
        """``l2``, ``ip`` or ``cosine``."""
        return self.codebooks.metric

    def to_file(self, path: str | PathLike[str], *, payload: bool = True) -> None:
        """Write all rows as one index file, which ``il.open`` opens as an :class:`Index`.

        The file has codes and ids, but neither the originals nor the columns of the store. If the store has columns,
        pass ``payload=False`` to confirm that they are left out.
        """
        if payload and self.columns is not None:
            raise InputError("an index file cannot store columns; to_file(path, payload=False) leaves them out")
        self.snapshot.to_index().save(path)

    def report(self) -> Report:
        """Size by part, in bytes; removed rows count until they are compacted."""
        state = self.session.open_state
        return Report.of(state.snapshot.searcher, self._size(state))

    def health(self) -> Health:
        """Removed rows, segments and log size; whether the calibration is valid; whether the codebooks fit the rows."""
        state = self.session.open_state
        learning, error = self.background.learning, self.background.error
        return Health.of_store(state.snapshot, self._size(state), learning=learning, error=error)

    def _size(self, state: State) -> int:
        """Bytes of all files."""
        size = 0
        for name in (NAME, *state.manifest.names):
            with contextlib.suppress(FileNotFoundError, NotAnIndexError):  # a writer may have removed it
                size += files.size(opened(self.session.folder) / name)
        return size

    def verify(self) -> None:
        """Check every byte, code and id on disk; raises :class:`DamagedFileError` at the first that is invalid."""
        self.session.check_open()
        verify(self.session.folder, self.embedding)
