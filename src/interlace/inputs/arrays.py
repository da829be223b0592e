"""Anything array-like -> checked float32 rows. The only place where input is converted or rejected.

Input is copied a block at a time, and the copy is checked and used: values, or a shape, that another thread changes
between check and use would get past the check.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .conversion import (
    SMALLEST,
    FloatArray,
    check_numeric,
    describe,
    normalize,
    package_of,
    positive,
    refuse_kinds,
    refuse_tiny,
    to_matrix,
    to_numpy,
)
from .spool import spool, yields_blocks
from .tables import ArrowRows, FrameRows, LazyRows, TableColumns, arrow_rows, is_frame, is_table

__all__ = [
    "BLOCK_ROWS",
    "LARGEST",
    "SMALLEST",
    "FloatArray",
    "Rows",
    "as_queries",
    "as_rows",
    "check_numeric",
    "describe",
    "normalize",
    "positive",
    "refuse_tiny",
    "to_matrix",
    "to_numpy",
]

#: Squares of larger values, summed over a few thousand dimensions, leave the range of float32.
LARGEST = 1e16
#: No value of a vector of this squared length is larger than that; of a vector with this mean square, some value is not
#: tiny.
SAFE_SQUARE, SAFE_MEAN_SQUARE = 1e31, SMALLEST**2
FLOAT32 = np.dtype(np.float32)
BLOCK_ROWS = 16384


def as_rows(
    x: Any, *, name: str, dim: int | None = None, first_row: int = 0, n: int | None = None, copied: bool = True
) -> FloatArray:
    """2-D input of any accepted kind -> C-contiguous float32 [n, dim], every value finite and in range.

    ``first_row`` is added to row numbers in messages, so that blocks of a large input are named as the user sees them;
    ``n`` is how many rows there must be. The result shares no memory with x, unless ``copied`` is False, for what is
    larger than memory and only ever read by NumPy.
    """
    array = to_matrix(x, name, first_row)
    if array.ndim != 2:
        raise InputError(f"{name} must be 2-D [rows, dimensions], got {describe(x)}")
    check_numeric(array.dtype, name)
    if dim is not None and array.shape[1] != dim:
        raise InputError(f"{name} has {array.shape[1]} dimensions, the index has {dim}")
    if array.shape[1] == 0:
        raise InputError(f"{name} has no dimensions: {describe(array)}")
    if n is not None and len(array) != n:
        raise InputError(
            f"{name} gives {len(array)} rows from row {first_row} on, {n} expected by its shape, which is wrong, or "
            "changed while it was read"
        )
    if copied:
        array = np.array(array, order="C")
    if array.dtype.kind in "iu" and array.dtype.itemsize > 2:
        _refuse(
            np.abs(array.astype(np.float64)) > 2**24,
            array,
            "beyond 2^24, where float32 skips integers; scale them first",
            name,
            first_row,
        )
    if array.dtype == np.float32:  # the usual case, and single queries should be quick
        rows = np.ascontiguousarray(array)
    else:
        with np.errstate(over="ignore"):
            rows = np.ascontiguousarray(array, dtype=np.float32)
    if rows.size and not np.abs(rows).max() <= LARGEST:  # NaN compares false
        _refuse(~(np.abs(rows) <= LARGEST), array, f"too large (more than {LARGEST:g})", name, first_row)
    return rows


def _refuse(bad: NDArray[np.bool_], array: NDArray[Any], reason: str, name: str, first_row: int) -> None:
    """Name the first bad value and its place."""
    if bad.any():
        row, column = (int(v) for v in np.argwhere(bad)[0])
        value = array[row, column]
        reason = reason if np.isfinite(float(value)) else "not a finite number (NaN and inf are refused)"
        raise InputError(f"{name}[{row + first_row}, {column}] is {value}, {reason}")


@dataclass(frozen=True, eq=False)
class _View:
    """Rows that are converted when they are read."""

    source: Any
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    columns: TableColumns | None = None  # where it is a table

    def __getitem__(self, rows: Any) -> Any:
        return self.source[rows]


@dataclass(frozen=True, eq=False)
class _Flat:
    """Inputs of more than one dimension as rows, whose values keep their order."""

    source: Any
    shape: tuple[int, int]
    name: str

    @property
    def dtype(self) -> Any:
        return self.source.dtype

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        return to_numpy(self.source[rows], self.name).reshape(-1, self.shape[1])


def flat(x: Any, inputs: tuple[int, ...], name: str) -> Any:
    """Rows [n, prod(inputs)] as they are, inputs [n, *inputs] as such rows; anything else is refused."""
    shape, width = tuple(x.shape), math.prod(inputs)
    if len(shape) == 2 and shape[1] == width:
        return x
    if len(shape) > 2 and shape[1:] == inputs:
        return _Flat(x, (shape[0], width), name)
    each = f"[n, {', '.join(map(str, inputs))}]"
    raise InputError(
        f"{name} must be inputs {each}{f' or flat rows [n, {width}]' if len(inputs) > 1 else ''}, as the embedding "
        f"takes them, got {describe(x)}"
    )


def _source(x: Any, name: str, dim: int | None, inputs: tuple[int, ...] | None, ids: Any) -> Any:
    """An object with ``shape``, ``dtype`` and ``[rows]``; rows are converted when they are read where possible."""
    refuse_kinds(x, name)
    if isinstance(x, ArrowRows | LazyRows) or (package_of(x) == "h5py" and hasattr(x, "shape")):
        return x
    if is_frame(x):
        return FrameRows(x, name)
    if package_of(x) == "torch" and hasattr(x, "shape"):
        device = getattr(getattr(x, "device", None), "type", "cpu")
        if device != "cpu" or str(x.dtype) == "torch.bfloat16":  # others are viewed, not copied, by NumPy
            return _View(x.detach(), tuple(x.shape), np.dtype(np.float32))
    if (table := arrow_rows(x, name)) is not None:
        return table
    listed = isinstance(x, list | tuple) and len(x) > 0 and getattr(x[0], "shape", None) == inputs  # inputs, not blocks
    if yields_blocks(x) and not listed:
        width, found = dim if inputs is None else math.prod(inputs), list[Any]()
        read = functools.partial(_block, inputs=inputs, ids=ids, found=found)
        rows = spool(x, name, width, read, lambda rows, first: as_rows(rows, name=name, first_row=first))
        columns = TableColumns([ids or "id"], lambda _: found) if found or isinstance(ids, str) else None
        return rows if columns is None else _View(rows, rows.shape, rows.dtype, columns)
    return to_numpy(x, name)


def _block(
    x: Any, name: str, first_row: int, inputs: tuple[int, ...] | None, ids: Any, found: list[Any]
) -> NDArray[Any]:
    """A block of an iterator as an array; its values are checked when they are read. ``found`` keeps ids of tables."""
    from_table = isinstance(ids, str) or (ids is None and is_table(x))
    if from_table and not yields_blocks(x) and (own := Rows(x, name=name).ids(ids)) is not None:
        found.extend(own)
    block = to_matrix(x, name, first_row)
    if inputs is not None:
        block = flat(block, inputs, name)[:]
    if block.ndim != 2:
        raise InputError(f"{name} must be 2-D [rows, dimensions], got {describe(x)}; yield blocks of many rows")
    check_numeric(block.dtype, name)
    return block


class Rows:
    """A 2-D input that is read in blocks.

    Arrays, memmaps, HDF5 data sets, torch tensors, lists, tables (Arrow, pandas, ...), and iterables of blocks of any
    of these, which are kept in a temporary file. With ``inputs``, the shape of one input, arrays [n, *inputs] are read
    as rows too. ``ids`` is what a caller passes for :meth:`ids`, which iterators must know before they are read; False:
    no column of a table holds ids.
    """

    def __init__(
        self,
        x: Any,
        *,
        name: str = "x",
        dim: int | None = None,
        inputs: tuple[int, ...] | None = None,
        ids: Any = None,
    ) -> None:
        self._source: Any = _source(x, name, dim, inputs, ids)
        self._columns: TableColumns | None = None if ids is False else getattr(self._source, "columns", None)
        if inputs is not None:
            self._source = flat(self._source, inputs, name)
        self.name = name
        shape = tuple(self._source.shape)  # read once: the shape of a file that grows changes
        if len(shape) != 2:
            raise InputError(f"{name} must be 2-D [rows, dimensions], got {describe(x)}")
        if dim is not None and shape[1] != dim:
            raise InputError(f"{name} has {shape[1]} dimensions, the index has {dim}")
        if shape[1] == 0:
            raise InputError(f"{name} has no dimensions: {describe(self._source)}")
        check_numeric(np.dtype(self._source.dtype), name)
        self._n = int(shape[0])
        self._width = self.dim = int(shape[1])

    def __len__(self) -> int:
        return self._n

    def ids(self, given: Any) -> Any:
        """The ids of the rows as a caller passes them: None for default ids, and a string names a column of a table."""
        if self._columns is None and not isinstance(given, str):
            return given
        from .table_ids import ids_of_rows  # imported late, because it loads pyarrow helpers

        return ids_of_rows(self.name, self._columns, given)

    def blocks(self, rows: int = BLOCK_ROWS) -> Iterator[FloatArray]:
        """Checked float32 blocks in order."""
        for start in range(0, len(self), rows):
            yield self.part(start, min(start + rows, len(self)))

    def part(self, start: int, stop: int) -> FloatArray:
        """Consecutive rows, all of them at once."""
        stop = min(stop, len(self))
        block = self._source[start:stop]
        return as_rows(block, name=self.name, dim=self._width, first_row=start, n=stop - start)

    def take(self, rows: NDArray[np.int64]) -> FloatArray:
        """The given rows, ascending; read block by block, so that a memmap stays on disk."""
        out = np.empty((len(rows), self._width), np.float32)
        for start in range(0, len(rows), BLOCK_ROWS):
            part = rows[start : start + BLOCK_ROWS]
            block = self._source[part] if len(part) else self._source[:0]
            try:
                out[start : start + len(part)] = as_rows(block, name=self.name, dim=self._width, n=len(part))
            except InputError:
                # Name the row as the user numbers it, not its place in the sample.
                for row in part:
                    self.part(int(row), int(row) + 1)
                raise
        return out


def as_one_query(q: Any, dim: int) -> FloatArray | None:
    """A float32 vector [dim] or [1, dim] as [1, dim], copied; None for anything else, which :func:`as_queries` reads.

    It is quick, and returns None where a value may be too large or is not finite, or all may be too small.
    """
    if type(q) is not np.ndarray or q.dtype is not FLOAT32 or (q.shape != (dim,) and q.shape != (1, dim)):
        return None
    row = np.array(q, ndmin=2, order="C")
    return row if dim * SAFE_MEAN_SQUARE <= row[0].dot(row[0]) <= SAFE_SQUARE else None


def as_queries(q: Any, dim: int) -> tuple[FloatArray, bool]:
    """Queries [n, dim] and whether a single 1-D query was given."""
    array = to_matrix(q, "queries")
    single = array.ndim == 1
    if array.ndim not in (1, 2):
        raise InputError(f"queries must be 1-D [dimensions] or 2-D [rows, dimensions], got {describe(q)}")
    return as_rows(array[None, :] if single else array, name="queries", dim=dim), single
