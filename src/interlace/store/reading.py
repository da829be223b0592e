"""What a reader asks of a store: searches, rows, columns, and what it is like. Nothing here writes to it."""

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
from .files import Folder
from .health import Health
from .loading import State, opened
from .manifest import NAME
from .snapshot import Snapshot
from .verifying import verify


class Reading(Searchable):
    """The reading half of a :class:`Store`; whose state it reads, and whether it is still open, the store says."""

    path: str

    @property
    def _state(self) -> State:
        raise NotImplementedError

    @property
    def _folder(self) -> str | Folder:
        """Where its files are: the directory that a writer has open, or the path that a reader reads from."""
        raise NotImplementedError

    def _check_open(self) -> None:
        raise NotImplementedError

    @property
    def _opened(self) -> State:
        """The state of a store that is not closed."""
        self._check_open()
        return self._state

    @property
    def searcher(self) -> Searcher:
        """The rows of this moment, ready to be searched."""
        return self.snapshot.searcher

    def get(self, ids: Any, *, originals: bool = False) -> FloatArray:
        """The vectors that the codes of these ids stand for, float32 [n, dim] (1-D for a single id).

        ``originals``: the vectors themselves, as far as the store keeps them.
        """
        return self.snapshot.get(ids, originals=originals)

    def payload(self, ids: Any = None, columns: Any = None) -> Any:
        """Columns of these ids in their order, or of all rows in that of :attr:`ids`, as a ``pyarrow.Table``.

        ``columns`` names some of them. ``store.payload(matches.ids[0])`` has a row for each hit of the first query.
        """
        return self.snapshot.payload(ids, columns)

    @property
    def columns(self) -> Any:
        """The ``pyarrow.Schema`` of its columns, or None."""
        return self._opened.snapshot.columns

    @property
    def originals(self) -> str | None:
        """How it keeps vectors beside their codes: ``float16``, ``int8``, or None."""
        originals = self._opened.snapshot.extras.originals
        return None if originals is None else originals.kind

    @property
    def snapshot(self) -> Snapshot:
        """The state of this moment, to be searched for as long as you like."""
        return self._opened.snapshot

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
    def version(self) -> int:
        """Of its format."""
        return self._opened.manifest.version

    @property
    def generation(self) -> int:
        """Number of its manifest: how often its files have changed."""
        return self._opened.manifest.generation

    @property
    def codebooks(self) -> Codebooks:
        """What all its rows are coded by."""
        return self._opened.snapshot.books.codebooks

    @property
    def embedding(self) -> Embedding | None:
        """Makes vectors of raw inputs, where there is one."""
        return self._opened.snapshot.books.embedding

    @property
    def dim(self) -> int:
        """Dimensions of a vector, after the embedding if there is one."""
        return self.codebooks.dim

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one raw input, what :meth:`add` and :meth:`search` take."""
        return self._opened.snapshot.books.input_shape

    @property
    def metric(self) -> str:
        """``l2``, ``ip`` or ``cosine``."""
        return self.codebooks.metric

    def to_file(self, path: str | PathLike[str], *, payload: bool = True) -> None:
        """Write all rows as one index file, which ``il.open`` opens as an :class:`Index`.

        Such a file holds codes and ids, no originals and no columns: where there are some, ``payload=False`` says that
        they are to be left out.
        """
        if payload and self.columns is not None:
            raise InputError("an index file has no columns; to_file(path, payload=False) writes it without")
        self.snapshot.to_index().save(path)

    def report(self) -> Report:
        """Bytes by part; those of removed rows count until they are gone."""
        state = self._opened
        return Report.of(state.snapshot.searcher, self._size(state))

    def health(self) -> Health:
        """What lies about, whether margins still hold, whether the books still fit the rows that come."""
        state = self._opened
        return Health.of(state.snapshot, self._size(state))

    def _size(self, state: State) -> int:
        """Bytes of all files."""
        size = 0
        for name in (NAME, *state.manifest.names):
            with contextlib.suppress(FileNotFoundError, NotAnIndexError):  # a reader's files may have lost their names
                size += files.size(opened(self._folder) / name)
        return size

    def verify(self) -> None:
        """Raise unless all that is on disk is sound: every byte, every code, every id."""
        self._check_open()
        verify(self._folder, self.embedding)
