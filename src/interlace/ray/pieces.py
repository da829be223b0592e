"""Pieces of a source: rows of one file or of one object of Ray, which the worker that needs them opens."""

from __future__ import annotations

import io
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import ray
from numpy.typing import NDArray

from ..errors import InputError
from ..inputs.arrays import Rows
from ..inputs.optional import require
from ..inputs.parquet import read_parquet
from ..inputs.readers import read_vectors
from ..inputs.tables import LazyRows, arrow_rows
from . import places

T = TypeVar("T")
SPAN_BYTES = 1 << 20  # rows that are nearer to each other are read by one request


@dataclass(frozen=True, eq=False)
class Piece(ABC):
    """Consecutive rows of a source. It is small: it says where rows are, and is sent to workers."""

    label: str  #: for messages
    n_rows: int
    first: int = 0  #: of the file or object, in which messages number rows

    @property
    def is_mapped(self) -> bool:
        """Whether this process can read any rows without reading the others."""
        return False

    @abstractmethod
    def rows(self) -> Any:
        """Something with ``shape``, ``dtype`` and ``[rows]`` that has all rows of the file or object."""

    def measured(self) -> tuple[int, int | None]:
        """Rows of the file or object, and their dimensions if these are known without reading rows."""
        shape = self.rows().shape
        return int(shape[0]), int(shape[1])

    def columns(self) -> list[str]:
        """Names of the columns of a table, of which one may hold the ids."""
        return []

    def ids(self, column: str) -> Any:
        """The values of a column of the file or object, for all of its rows."""
        raise InputError(f"{self.label} has no columns: ids={column!r} names one of a parquet file or a table")

    def opened(self, dim: int | None) -> OpenPiece:
        """The rows, ready to be read; InputError if they do not have ``dim`` dimensions."""
        return OpenPiece(self, self.rows(), dim)


class OpenPiece:
    """Rows of a piece that are checked as they are read: messages name the file and the row in it."""

    def __init__(self, piece: Piece, rows: Any, dim: int | None) -> None:
        self.piece = piece
        self._rows = Rows(rows, name=piece.label)
        if dim is not None and self._rows.dim != dim:
            raise InputError(f"{piece.label} has {self._rows.dim} dimensions, the rows before have {dim}")

    @property
    def dim(self) -> int:
        """Dimensions of a row."""
        return self._rows.dim

    def part(self, start: int, stop: int) -> NDArray[np.float32]:
        """Rows of the piece, float32."""
        return self._rows.part(self.piece.first + start, self.piece.first + stop)

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rows of the piece by their numbers, ascending."""
        return self._rows.take(self.piece.first + rows)


@dataclass(frozen=True, eq=False)
class FilePiece(Piece):
    """Rows of a file of vectors on a disk that all nodes see; ``key`` as for :func:`interlace.data.read_vectors`."""

    path: str = ""
    key: str | None = None

    @property
    def is_mapped(self) -> bool:
        """Not parquet, whose row groups are read as a whole."""
        return not self.path.endswith(".parquet")

    def rows(self) -> Any:
        """The file, mapped where its format allows it."""
        return read_vectors(self.path, self.key)

    def columns(self) -> list[str]:
        """Those of a parquet file."""
        return self.rows().columns.names if self.path.endswith(".parquet") else []

    def ids(self, column: str) -> Any:
        """A column of a parquet file."""
        return _parquet_column(self.path, self.label, column)


@dataclass(frozen=True, eq=False)
class RemoteNpy(Piece):
    """Rows of an ``.npy`` file in an object store: only the bytes of the rows that are asked for are read."""

    path: str = ""

    def rows(self) -> Any:
        """The open file."""
        with places.reported(self.path, "read"):
            system, inner = places.file_system(self.path)
            return _NpyRows(system, inner, self.label)


@dataclass(frozen=True, eq=False)
class RemoteParquet(Piece):
    """Rows of a parquet file in an object store, which is copied for as long as it is read."""

    path: str = ""
    key: str | None = None

    def rows(self) -> Any:
        """The copy; it has no name any more, and goes away with the last reader."""
        with tempfile.TemporaryDirectory() as folder:
            return read_parquet(places.fetched(self.path, folder, "copy"), self.key)

    def measured(self) -> tuple[int, int | None]:
        """From the end of the file alone."""
        return self._from_end(lambda file: int(file.metadata.num_rows)), None

    def columns(self) -> list[str]:
        """From the end of the file alone."""
        return self._from_end(lambda file: list(file.schema_arrow.names))

    def _from_end(self, what: Callable[[Any], T]) -> T:
        parquet = require("pyarrow.parquet", f"reading {self.label}")
        with places.reported(self.path, "read"):
            system, inner = places.file_system(self.path)
            with system.open(inner, "rb") as file:
                return what(parquet.ParquetFile(file))

    def ids(self, column: str) -> Any:
        """A column."""
        with tempfile.TemporaryDirectory() as folder:
            return _parquet_column(places.fetched(self.path, folder, "copy"), self.label, column)


@dataclass(frozen=True, eq=False)
class ObjectPiece(Piece):
    """Rows of an object of Ray: an array, or an Arrow table of which ``key`` is the column of vectors."""

    reference: Any = field(default=None, repr=False)
    key: str | None = None

    def rows(self) -> Any:
        """The object; arrays are not copied on a node that has it."""
        found = ray.get(self.reference)
        if isinstance(found, np.ndarray):
            return found
        if self.key is not None:
            if self.key not in found.column_names:
                raise InputError(f"{self.label} has no column {self.key!r}; it has {', '.join(found.column_names)}")
            found = found.select([self.key])
        return arrow_rows(plain_lists(found), self.label) or found

    def columns(self) -> list[str]:
        """Those of the table."""
        return list(getattr(ray.get(self.reference), "column_names", ()))

    def ids(self, column: str) -> Any:
        """A column of the table."""
        found = ray.get(self.reference)
        if isinstance(found, np.ndarray) or column not in found.column_names:
            raise InputError(f"{self.label} has no column {column!r} for ids")
        return found.column(column).to_numpy()


def plain_lists(table: Any) -> Any:
    """A table whose columns of Ray's tensors are lists of fixed size."""
    pyarrow = require("pyarrow", "reading tables")
    for i, name in enumerate(table.column_names):
        column = table.column(i)
        if isinstance(column.type, pyarrow.BaseExtensionType):
            chunks = [chunk.storage for chunk in column.chunks]
            table = table.set_column(i, name, pyarrow.chunked_array(chunks, type=column.type.storage_type))
    return table


def _parquet_column(path: str, label: str, column: str) -> Any:
    if not path.endswith(".parquet"):
        raise InputError(f"{label} has no columns: ids={column!r} names one of a parquet file or a table")
    parquet = require("pyarrow.parquet", f"reading {label}")
    file = parquet.ParquetFile(path)
    if column not in file.schema_arrow.names:
        raise InputError(f"{label} has no column {column!r} for ids; it has {', '.join(file.schema_arrow.names)}")
    return file.read([column]).column(0).to_numpy()


class _NpyRows(LazyRows):
    """An ``.npy`` file of an object store."""

    def __init__(self, system: Any, path: str, label: str) -> None:
        self._system, self._path = system, path
        with system.open(path, "rb") as file:  # not cat_file from 0 on, which pyarrow's file systems cannot
            head = io.BytesIO(file.read(1 << 12))
        try:
            version = np.lib.format.read_magic(head)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, in_columns, dtype = read(head)
        except ValueError as error:
            raise InputError(f"{label} cannot be read as .npy: {error}") from error
        if len(shape) != 2 or in_columns or dtype.hasobject:
            raise InputError(f"{label} must hold a 2-D array [rows, dimensions] in C order, got {dtype} {shape}")
        super().__init__((int(shape[0]), int(shape[1])), dtype)
        self._start, self._width = head.tell(), int(shape[1]) * dtype.itemsize

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[Any]:
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(len(self))
            return self._span(start, max(start, stop))
        out = np.empty((len(rows), self.shape[1]), self.dtype)
        near = max(1, SPAN_BYTES // max(1, self._width))
        ends = [*(np.flatnonzero(np.diff(rows) > near) + 1).tolist(), len(rows)]
        start = 0
        for end in ends if len(rows) else []:
            part = rows[start:end]
            out[start:end] = self._span(int(part[0]), int(part[-1]) + 1)[part - part[0]]
            start = end
        return out

    def _span(self, start: int, stop: int) -> NDArray[Any]:
        first = self._start + start * self._width
        data = self._system.cat_file(self._path, first, self._start + stop * self._width)
        return np.frombuffer(data, self.dtype).reshape(stop - start, self.shape[1])
