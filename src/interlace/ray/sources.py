"""What an index is built from: arrays, files of vectors anywhere, or a dataset of Ray, as consecutive pieces."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from ..errors import FileError, InputError
from ..inputs.arrays import Rows, describe
from ..inputs.readers import EXTENSIONS, read_vectors
from ..inputs.tables import LazyRows, id_column
from . import places
from .pieces import FilePiece, ObjectPiece, OpenPiece, Piece, RemoteNpy, RemoteParquet
from .runtime import task, value_of, values_of

BLOCK = 1 << 16  # rows of an array whose checksum is computed at a time


@dataclass(frozen=True, eq=False)
class Portion:
    """Consecutive rows of a source, for one shard: pieces with the rows of each that belong to it."""

    first: int  #: number of the first row in the source
    pieces: tuple[Piece, ...]
    dim: int
    ids: Any = None  #: None for row numbers, a name of a column, or an array for these rows (or a reference to it)

    @property
    def n_rows(self) -> int:
        """Rows of all pieces."""
        return sum(piece.n_rows for piece in self.pieces)

    def rows(self) -> PieceRows:
        """All rows, read when they are asked for."""
        return PieceRows(self.pieces, self.dim)

    def id_values(self) -> Any:
        """One id for each row."""
        if self.ids is None:
            return np.arange(self.first, self.first + self.n_rows)
        if isinstance(self.ids, str):
            parts = [piece.ids(self.ids)[piece.first : piece.first + piece.n_rows] for piece in self.pieces]
            found = np.concatenate(parts) if parts else np.zeros(0, np.int64)
            return list(found) if found.dtype.kind in "OUT" else found
        return ray.get(self.ids) if isinstance(self.ids, ray.ObjectRef) else self.ids


class PieceRows(LazyRows):
    """Rows of several pieces, one behind the other; a piece is open while it is read."""

    def __init__(self, pieces: Sequence[Piece], dim: int) -> None:
        super().__init__((sum(piece.n_rows for piece in pieces), dim), np.dtype(np.float32))
        self.pieces = tuple(pieces)
        self.starts = np.cumsum([0, *(piece.n_rows for piece in pieces)])
        self._open: tuple[int, OpenPiece] | None = None

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[Any]:
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            out = np.empty((max(0, stop - start), self.shape[1]), np.float32)
            for number, low, high in self._spans(start, stop):
                begin = int(self.starts[number])
                out[low - start : high - start] = self._piece(number).part(low - begin, high - begin)
            return out
        out = np.empty((len(rows), self.shape[1]), np.float32)
        for number, inner, where in self.grouped(rows):
            out[where] = self._piece(number).take(inner)
        return out

    def grouped(self, rows: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64], slice]]:
        """Ascending row numbers by piece: its number, rows within it, and where they are in ``rows``."""
        edges = np.searchsorted(rows, self.starts)
        for number in np.flatnonzero(np.diff(edges)).tolist():
            where = slice(int(edges[number]), int(edges[number + 1]))
            yield number, rows[where] - self.starts[number], where

    def _spans(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        number = int(np.searchsorted(self.starts, start, "right")) - 1
        while start < stop:
            end = min(stop, int(self.starts[number + 1]))
            if end > start:
                yield number, start, end
            start, number = end, number + 1

    def _piece(self, number: int) -> OpenPiece:
        if self._open is None or self._open[0] != number:
            self._open = number, self.pieces[number].opened(self.shape[1])
        return self._open[1]


class SampledRows(PieceRows):
    """Rows of a whole source, for learning: workers read the pieces, and only the rows that are asked for travel."""

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[Any]:
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        out = np.empty((len(rows), self.shape[1]), np.float32)
        groups = list(self.grouped(rows))
        calls = [task(_taken, self.pieces[number], inner, self.shape[1]) for number, inner, _ in groups]
        for (_, _, where), found in zip(groups, values_of(calls), strict=True):
            out[where] = found
        return out


def _taken(piece: Piece, rows: NDArray[np.int64], dim: int) -> NDArray[np.float32]:
    return piece.opened(dim).take(rows)


@dataclass(frozen=True, eq=False)
class ShardSource:
    """All rows, in the order that numbers them."""

    pieces: tuple[Piece, ...]
    dim: int
    mark: list[Any]  #: changes when the rows change
    array: Any = None  #: the rows themselves, where they are in this process
    ids: Any = None
    files: Sequence[list[Any]] = ()  #: path of each file, and what changes when it changes

    @property
    def n_rows(self) -> int:
        """Rows of all pieces."""
        return len(self.array) if self.array is not None else sum(piece.n_rows for piece in self.pieces)

    def check_unchanged(self) -> None:
        """Raise FileError if a file is not the one that it was when the source was opened."""
        for path, *before in self.files:
            if places.identity(path)[1:] != before:
                raise FileError(f"{path!r} has changed while it was read; build again, into another folder")

    def sampled(self) -> Rows:
        """For learning, which takes a bounded number of rows; of files that are mapped, this process reads them."""
        if self.array is not None:
            return Rows(self.array)
        own = all(piece.is_mapped for piece in self.pieces)
        return Rows((PieceRows if own else SampledRows)(self.pieces, self.dim))

    def portion(self, start: int, stop: int) -> Portion:
        """Rows of one shard. Those of this process are copied into Ray's object store."""
        ids = self.ids if self.ids is None or isinstance(self.ids, str) else self.ids[start:stop]
        if self.array is not None:
            block = np.ascontiguousarray(self.array[start:stop])
            own = ObjectPiece(f"x[{start}:{stop}]", stop - start, reference=ray.put(block))
            return Portion(start, (own,), self.dim, ids)
        found = []
        begin = 0
        for piece in self.pieces:
            low, high = max(start, begin), min(stop, begin + piece.n_rows)
            if high > low:
                found.append(replace(piece, first=piece.first + low - begin, n_rows=high - low))
            begin += piece.n_rows
        return Portion(start, tuple(found), self.dim, ids)


def source_of(x: Any, key: str | None = None, ids: Any = None) -> ShardSource:
    """A source of what a user passes: an array, a path or URL or a list of them, or a ``ray.data.Dataset``."""
    if type(x).__module__.startswith("ray.data"):
        return _of_dataset(x, key, ids)
    if isinstance(x, str | PathLike):
        x = [x]
    if isinstance(x, list | tuple) and x and all(isinstance(one, str | PathLike) for one in x):
        return _of_files([places.normal(one) for one in x], key, ids)
    if not isinstance(x, np.ndarray):
        raise InputError(
            "source must be an array [rows, dimensions], paths of .npy or .parquet files, or a ray.data.Dataset, got "
            + describe(x)
        )
    if key is not None:
        raise InputError("key names a column or an array of files; source is an array")
    rows = Rows(x)  # checks shape and type
    sums = [zlib.crc32(np.ascontiguousarray(x[i : i + BLOCK]).data) for i in range(0, len(x), BLOCK)]
    mark = ["array", list(x.shape), x.dtype.str, zlib.crc32(np.array(sums, np.int64).data)]
    return ShardSource((), rows.dim, mark, x, _ids_of(ids, len(x), False))


def _ids_of(ids: Any, n: int, has_columns: bool) -> Any:
    if ids is None or (isinstance(ids, str) and has_columns):
        return ids
    if isinstance(ids, str):
        raise InputError(f"ids={ids!r} names a column, which an array does not have; pass the ids themselves")
    values = np.asarray(ids, dtype=object if len(ids) and isinstance(ids[0], str) else None)
    if values.shape != (n,):
        raise InputError(f"ids must be one for each of the {n} rows, got shape {values.shape}")
    return values


def _of_files(paths: list[str], key: str | None, ids: Any) -> ShardSource:
    pieces: list[Piece] = []
    dim: int | None = None
    paths = _expanded(paths)
    for path in paths:
        piece = _file_piece(path, key)
        rows, found = piece.measured()
        if dim is not None and found is not None and found != dim:
            raise InputError(f"{piece.label} has {found} dimensions, {pieces[0].label} has {dim}")
        dim = found if dim is None else dim
        pieces.append(replace(piece, n_rows=rows))
    dim = pieces[0].opened(None).dim if dim is None else dim
    n = sum(piece.n_rows for piece in pieces)
    files = [places.identity(path) for path in paths]
    ids = id_column(pieces[0].columns()) if ids is None else ids
    return ShardSource(tuple(pieces), dim, ["files", key, files], None, _ids_of(ids, n, True), files)


def _file_piece(path: str, key: str | None) -> Piece:
    label = repr(path)
    if not places.is_url(path):
        read_vectors(path, key)  # InputError names what is wrong with the path
        return FilePiece(label, 0, path=path, key=key)
    if path.endswith(".npy"):
        if key is not None:
            raise InputError(f"{label} holds a single array; a key ({key!r}) belongs to .parquet files")
        return RemoteNpy(label, 0, path=path)
    if path.endswith(".parquet"):
        return RemoteParquet(label, 0, path=path, key=key)
    raise InputError(f"{label}: only .npy and .parquet files are read from object stores")


def _expanded(paths: list[str]) -> list[str]:
    """Files of folders in the order of their names; other paths as they are."""
    found = []
    for path in paths:
        is_folder = os.path.isdir(path) if not places.is_url(path) else not path.endswith((".npy", ".parquet"))
        if not is_folder:
            found.append(path)
            continue
        names = [name for name in places.listed(path) if name.endswith(tuple(EXTENSIONS)) and name[0] not in "._"]
        if not names:
            raise InputError(f"{path!r} has no files of vectors")
        found += [places.join(path, name) for name in names]
    return found


def _of_dataset(x: Any, key: str | None, ids: Any) -> ShardSource:
    if ids is not None and not isinstance(ids, str):
        raise InputError("ids of a dataset are one of its columns: pass its name")
    x.context.execution_options.preserve_order = True
    references = x.materialize().to_arrow_refs()
    sizes = values_of([task(_counted, reference) for reference in references])
    pieces = [
        ObjectPiece(f"block {i} of the dataset", n, reference=reference, key=key)
        for i, (reference, (n, _)) in enumerate(zip(references, sizes, strict=True))
        if n
    ]
    if not pieces:
        raise InputError("the dataset has no rows")
    dim, names = value_of(task(_dimensions, pieces[0]))
    ids = id_column(names) if ids is None else ids
    return ShardSource(tuple(pieces), dim, ["dataset", key, [list(size) for size in sizes]], None, ids)


def _counted(reference: Any) -> tuple[int, int]:
    """Rows of a block, and a checksum of a few of them."""
    table = ray.get(reference)
    return table.num_rows, zlib.crc32(repr(table.slice(0, 4).to_pydict()).encode())


def _dimensions(piece: Piece) -> tuple[int, list[str]]:
    """Of the rows, and the names of the columns beside them."""
    return piece.opened(None).dim, piece.columns()
