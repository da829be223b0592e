"""Tables -> rows: Arrow tables and arrays, pandas frames, and what speaks Arrow's C stream (polars, DuckDB, ...).

pyarrow is imported for the first Arrow object.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

BATCH_ROWS = 16384
#: Arrow's names of its number types.
NUMBERS = {f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}
NUMBERS |= {"halffloat": np.dtype("f2"), "float": np.dtype("f4"), "double": np.dtype("f8")}

BatchAt = Callable[[int], tuple[int, Any]]


def id_column(names: Iterable[Any]) -> Any:
    """The column that holds the ids of the rows, as in lines of text: it is called ``id``; None without one."""
    return next((name for name in names if str(name).lower() == "id"), None)


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table beside its vectors, of which one may hold ids (``table_ids.py``)."""

    names: list[Any]
    read: Callable[[Any], Any]  #: of a name: a pyarrow.ChunkedArray, or a column of pandas


class LazyRows(ABC):
    """Rows [n, dim] that another package reads. :class:`Rows` asks for slices and for ascending row numbers."""

    ndim = 2

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[Any]:
        """The rows of a slice of step 1, or of these numbers."""


class ArrowRows:
    """Rows [n, dim] of Arrow batches, decoded when they are read: ``rows[2:5]``, ``rows[[0, 7]]``.

    ``batch_at(row)`` gives the number of a batch's first row and the batch, which holds the row and the chosen columns:
    one of lists, or numbers side by side. ``titles`` are the names of these columns, ``columns`` are all of the table;
    ``label`` and ``first_row`` (added to row numbers) are for messages.
    """

    ndim = 2

    def __init__(
        self,
        label: str,
        fields: list[Any],
        n_rows: int,
        batch_at: BatchAt,
        columns: TableColumns,
        *,
        first_row: int = 0,
    ) -> None:
        self._label, self._batch_at, self._first_row, self.columns = label, batch_at, first_row, columns
        self.titles = [field.name for field in fields]
        self.dtype: np.dtype[Any] = np.result_type(*(_item(f.type) or NUMBERS[str(f.type)] for f in fields))
        dim = len(fields)
        if _item(fields[0].type) is not None:
            dim = getattr(fields[0].type, "list_size", 0)
            if dim < 1 and n_rows:  # lists of any length: the first row's decides
                first, batch = batch_at(0)
                dim = self._column(batch.slice(0, 1).column(0), self.titles[0], first, None).shape[1]
        self.shape = (n_rows, dim if n_rows else max(1, dim))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> NDArray[Any]:
        rows = np.arange(*key.indices(len(self))) if isinstance(key, slice) else np.asarray(key)
        if rows.dtype.kind not in "iu" or rows.ndim > 1:
            raise TypeError(f"rows are chosen by a slice or by their numbers, got {key!r:.60}")
        single, rows = rows.ndim == 0, np.atleast_1d(rows).astype(np.int64)
        rows = np.where(rows < 0, rows + len(self), rows)
        if rows.size and not 0 <= rows.min() <= rows.max() < len(self):
            raise IndexError(f"row {int(rows.min() if rows.min() < 0 else rows.max())} of {len(self)}")
        if (np.diff(rows) < 0).any():  # batches are read forwards
            order = np.argsort(rows, kind="stable")
            out = np.empty((len(rows), self.shape[1]), self.dtype)
            out[order] = self._read(rows[order])
        else:
            out = self._read(rows)
        return out[0] if single else out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(self.dtype if dtype is None else dtype, copy=bool(copy))

    def _read(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Rows in ascending order."""
        neighbours = bool((np.diff(rows) == 1).all())
        out, done = np.empty((0, self.shape[1]), self.dtype), 0
        while done < len(rows):
            first, batch = self._batch_at(int(rows[done]))
            stop = int(np.searchsorted(rows, first + batch.num_rows))
            low, high = int(rows[done]), int(rows[stop - 1]) + 1
            block = self._values(batch.slice(low - first, high - low), low)
            if neighbours and stop - done == len(rows):
                return block  # all in one batch: not copied
            if done == 0:
                out = np.empty((len(rows), self.shape[1]), self.dtype)
            out[done:stop] = block[rows[done:stop] - low]
            done = stop
        return out

    def _values(self, batch: Any, row: int) -> NDArray[Any]:
        width = self.shape[1] if len(self.titles) == 1 else 1
        parts = [self._column(c, t, row, width) for c, t in zip(batch.columns, self.titles, strict=True)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _column(self, column: Any, title: str, row: int, width: int | None) -> NDArray[Any]:
        """One column from this row on, as [rows, values per row]."""
        of, row = f" of {title!r}" if title else "", row + self._first_row
        if column.null_count:
            row += int(np.argmax(_numpy(column.is_null())))
            raise InputError(f"{self._label}: row {row}{of} is missing (null)")
        values = column
        if hasattr(column, "value_lengths"):
            lengths = _numpy(column.value_lengths())
            width = int(lengths[0]) if width is None else width
            if (lengths != width).any():
                odd = int(np.argmax(lengths != width))
                raise InputError(
                    f"{self._label}: row {row + odd}{of} has {lengths[odd]} values, row {self._first_row} has {width}"
                )
        if hasattr(column, "flatten"):
            values = column.flatten()
        if values.null_count:
            row += int(np.argmax(_numpy(values.is_null()))) * len(column) // len(values)
            raise InputError(f"{self._label}: row {row}{of} holds a missing value (null)")
        return _numpy(values).reshape(len(column), len(values) // max(1, len(column)))


def _numpy(array: Any) -> NDArray[Any]:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _item(kind: Any) -> np.dtype[Any] | None:
    """The dtype of the values of a type of lists of numbers; None for other types."""
    is_list = str(kind).startswith(("list<", "large_list<", "fixed_size_list<"))
    return NUMBERS.get(str(kind.value_type)) if is_list else None


def choose(label: str, key: str | None, schema: Any, how: str) -> list[int]:
    """Columns that hold the vectors: one of lists, or numbers side by side; ``key`` may be a pattern such as ``f*``.

    The column of the ids is none of them, unless ``key`` is its name. ``how`` says how the user can choose.
    """
    fields = list(schema)
    listed = ", ".join(f"{f.name!r} ({f.type})" for f in fields[:20]) or "no columns"
    lists = [i for i, f in enumerate(fields) if _item(f.type) is not None]
    numbers = [i for i, f in enumerate(fields) if str(f.type) in NUMBERS]
    if key != (ids := id_column(f.name for f in fields)):
        numbers = [i for i in numbers if fields[i].name != ids]
    if key is not None:
        named = [i for i in lists if fields[i].name == key]
        named = named or [i for i in numbers if fields[i].name == key or fnmatchcase(fields[i].name, key)]
        if not named:
            why = "is not numeric" if key in schema.names else "is not there"
            raise InputError(f"{label}: column {key!r} {why}; it holds {listed}")
        return named
    if len(lists) == 1:
        return lists
    if lists or not numbers:
        found = "more than one column of lists" if lists else "no column of numbers"
        raise InputError(f"{label} has {found}; it holds {listed}" + (f"; choose one {how}" if lists else ""))
    refuse_mixed(label, ((fields[i].name, NUMBERS[str(fields[i].type)]) for i in numbers), how)
    return numbers


def refuse_mixed(label: str, columns: Iterable[tuple[Any, np.dtype[Any]]], how: str) -> None:
    """Refuse integer columns among floats: they are more likely ids than dimensions."""
    columns = list(columns)
    integers = [name for name, dtype in columns if dtype.kind in "iu"]
    if integers and len(integers) < len(columns):
        raise InputError(f"{label} mixes integer columns ({integers[0]!r}) with floats; choose {how}")


def arrow_rows(x: Any, name: str, first_row: int = 0) -> ArrowRows | None:
    """Arrow tables, batches and arrays of lists, and frames that export an Arrow stream; None for anything else."""
    root = type(x).__module__.partition(".")[0]
    if root != "pyarrow" and (root == "pandas" or not hasattr(x, "__arrow_c_stream__")):
        return None
    try:
        pyarrow = importlib.import_module("pyarrow")
    except ImportError as error:
        if hasattr(x, "__array__"):
            return None
        raise InputError(f"{name} ({type(x).__name__}) is read through pyarrow: pip install 'interlace[io]'") from error
    if root != "pyarrow":
        x = _handed_over(x, name, pyarrow)
    if isinstance(x, pyarrow.Array | pyarrow.ChunkedArray) and _item(x.type) is not None:
        x = pyarrow.table([x], names=[""])
    if isinstance(x, pyarrow.RecordBatch):
        x = pyarrow.Table.from_batches([x])
    if not isinstance(x, pyarrow.Table):
        return None
    whole, table = x, x.select(choose(name, None, x.schema, "the columns with select()"))
    batches = table.to_batches(max_chunksize=BATCH_ROWS)  # nothing is copied
    starts = np.cumsum([0, *(b.num_rows for b in batches)])

    def batch_at(row: int) -> tuple[int, Any]:
        i = int(np.searchsorted(starts, row, "right")) - 1
        return int(starts[i]), batches[i]

    columns = TableColumns(names := whole.schema.names, lambda title: whole.column(names.index(title)))
    return ArrowRows(name, list(table.schema), table.num_rows, batch_at, columns, first_row=first_row)


def _handed_over(x: Any, name: str, pyarrow: Any) -> Any:
    """A frame (a stream of structs) as a table, or a series (of anything else) as a chunked array."""
    try:
        return pyarrow.table(x)
    except (pyarrow.ArrowException, TypeError, ValueError) as no_frame:
        try:
            return pyarrow.chunked_array(x)
        except (pyarrow.ArrowException, TypeError, ValueError) as error:
            raise InputError(f"{name} ({type(x).__name__}) cannot be read as a table: {no_frame}") from error


def is_table(x: Any) -> bool:
    """Whether x has named columns: tables of Arrow, frames, readers of them, and files of tables."""
    return hasattr(x, "columns") or hasattr(x, "schema")


def is_frame(x: Any) -> bool:
    """Whether x is a pandas DataFrame."""
    return type(x).__module__.partition(".")[0] == "pandas" and hasattr(x, "iloc") and getattr(x, "ndim", 0) == 2


class FrameRows(LazyRows):
    """Rows of a pandas frame, without the column of the ids; ``titles`` are the names of the others."""

    def __init__(self, x: Any, name: str) -> None:
        ids = id_column(x.columns)
        self._frame = x if ids is None else x.drop(columns=[ids])
        self.titles, self.columns = list(self._frame.columns), TableColumns(list(x.columns), x.__getitem__)
        super().__init__(self._frame.shape, frame_dtype(self._frame, name))

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[Any]:
        return np.asarray(self._frame.iloc[rows])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(self.dtype if dtype is None else dtype, copy=bool(copy))


def frame_dtype(x: Any, name: str) -> np.dtype[Any]:
    """The common dtype of the columns of a pandas frame; columns that are not plain numbers are refused by name."""
    columns = list(zip(x.columns, x.dtypes, strict=True))
    for title, dtype in columns:
        # pandas' own types (Float32, category, ...) may hold missing values, which have no number.
        if not isinstance(dtype, np.dtype) or dtype.kind not in "fiu":
            raise InputError(
                f"{name}: column {title!r} has dtype {dtype}; choose columns of numbers, or convert it with astype; "
                f"for a column of lists, pass np.stack(df[{title!r}])"
            )
    refuse_mixed(name, columns, "the columns, or convert them to one type with astype")
    return np.result_type(*(dtype for _, dtype in columns)) if columns else np.dtype(np.float32)
