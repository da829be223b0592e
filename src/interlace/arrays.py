"""Anything array-like -> checked float32 rows. The only place where input is converted or rejected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError

FloatArray = NDArray[np.float32]

#: Squares of larger values, summed over a few thousand dimensions, leave the range of float32.
LARGEST = 1e16
BLOCK_ROWS = 16384


def describe(x: Any) -> str:
    """Type, dtype and shape of an argument, for error messages."""
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is None:
        return f"{type(x).__name__} {x!r:.60}"
    return f"{type(x).__name__} of shape {tuple(shape)}" + ("" if dtype is None else f" and dtype {dtype}")


def to_numpy(x: Any, name: str) -> NDArray[Any]:
    """NumPy view (or copy) of arrays, nested lists, torch tensors and DLPack objects; torch is never imported."""
    if type(x).__module__.startswith("numpy.ma"):
        if np.ma.is_masked(x):
            raise InputError(f"{name} has masked entries, which have no value; fill them first: {describe(x)}")
        x = x.data
    if isinstance(x, np.ndarray):
        return x
    try:
        if type(x).__module__.partition(".")[0] == "torch":
            x = x.detach().cpu()
            if str(x.dtype) == "torch.bfloat16":
                x = x.float()
            return np.asarray(x.numpy())
        if hasattr(x, "__array__"):
            return np.asarray(x)
        if hasattr(x, "__dlpack__"):
            return np.from_dlpack(x)
        return np.asarray(x)
    except (ValueError, TypeError, RuntimeError, BufferError) as error:
        raise InputError(f"{name} cannot be read as an array: {describe(x)} ({error})") from error


def check_numeric(dtype: np.dtype[Any], name: str) -> None:
    """Real numbers only: object, complex, text, bool and dates are refused by name."""
    if dtype.kind not in "fiu" and dtype.name != "bfloat16":  # bfloat16: ml_dtypes
        raise InputError(f"{name} must hold real numbers (float16/32/64 or integers), got dtype {dtype}")


def as_rows(x: Any, *, name: str, dim: int | None = None, first_row: int = 0) -> FloatArray:
    """2-D input of any accepted kind -> C-contiguous float32 [n, dim], every value finite and in range.

    ``first_row`` is added to row numbers in messages, so that blocks of a large input are named as the user sees them.
    """
    array = to_numpy(x, name)
    if array.ndim != 2:
        raise InputError(f"{name} must be 2-D [rows, dimensions], got {describe(x)}")
    check_numeric(array.dtype, name)
    if dim is not None and array.shape[1] != dim:
        raise InputError(f"{name} has {array.shape[1]} dimensions, the index has {dim}")
    if array.shape[1] == 0:
        raise InputError(f"{name} has no dimensions: {describe(array)}")
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
        reason = reason if np.isfinite(float(value)) else "not a finite number"
        raise InputError(f"{name}[{row + first_row}, {column}] is {value}, {reason}")


class Rows:
    """A 2-D input that is read in blocks: arrays, memmaps, HDF5 datasets, torch tensors, lists."""

    def __init__(self, x: Any, *, name: str = "x", dim: int | None = None) -> None:
        on_disk = type(x).__module__.partition(".")[0] == "h5py" and hasattr(x, "shape")
        self._source: Any = x if on_disk else to_numpy(x, name)
        self._name = name
        shape = tuple(self._source.shape)
        if len(shape) != 2:
            raise InputError(f"{name} must be 2-D [rows, dimensions], got {describe(x)}")
        if dim is not None and shape[1] != dim:
            raise InputError(f"{name} has {shape[1]} dimensions, the index has {dim}")
        if shape[1] == 0:
            raise InputError(f"{name} has no dimensions: {describe(self._source)}")
        check_numeric(np.dtype(self._source.dtype), name)
        self.dim: int = int(shape[1])

    def __len__(self) -> int:
        return int(self._source.shape[0])

    def blocks(self, rows: int = BLOCK_ROWS) -> Iterator[FloatArray]:
        """Checked float32 blocks in order."""
        for start in range(0, len(self), rows):
            yield as_rows(self._source[start : start + rows], name=self._name, dim=self.dim, first_row=start)

    def take(self, rows: NDArray[np.int64]) -> FloatArray:
        """The given rows, ascending; read block by block, so that a memmap stays on disk."""
        out = np.empty((len(rows), self.dim), np.float32)
        for start in range(0, len(rows), BLOCK_ROWS):
            part = rows[start : start + BLOCK_ROWS]
            block = self._source[part] if len(part) else self._source[:0]
            try:
                out[start : start + len(part)] = as_rows(block, name=self._name, dim=self.dim)
            except InputError:
                # Name the row as the user numbers it, not its place in the sample.
                for row in part:
                    as_rows(self._source[row : row + 1], name=self._name, dim=self.dim, first_row=int(row))
                raise
        return out


def as_queries(q: Any, dim: int) -> tuple[FloatArray, bool]:
    """Queries [n, dim] and whether a single 1-D query was given."""
    array = to_numpy(q, "queries")
    single = array.ndim == 1
    if array.ndim not in (1, 2):
        raise InputError(f"queries must be 1-D [dimensions] or 2-D [rows, dimensions], got {describe(q)}")
    return as_rows(array[None, :] if single else array, name="queries", dim=dim), single


def normalize(x: FloatArray, *, name: str, first_row: int = 0, rows: NDArray[np.int64] | None = None) -> FloatArray:
    """Rows of length 1, for the cosine metric; a row of zeros has no direction and is refused.

    ``rows``, or ``first_row`` for a block, says which rows of the user's input these are.
    """
    lengths = np.sqrt(np.einsum("ij,ij->i", x, x, dtype=np.float64))
    if (lengths == 0).any():
        row = int(np.argmin(lengths != 0))
        row = row + first_row if rows is None else int(rows[row])
        raise InputError(f"{name}[{row}] is all zeros; the cosine metric needs a direction")
    return np.asarray(x / lengths[:, None], np.float32)
