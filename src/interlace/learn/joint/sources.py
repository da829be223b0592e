"""Arrays and lists -> checked float32 rows, read a batch at a time; ``datasets`` has torch datasets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import InputError
from ...inputs.arrays import FloatArray, Rows, as_rows, check_numeric, describe, to_numpy
from .layers import Shape

Numbers = NDArray[np.int64]

#: Rows that are checked before training.
SAMPLE_ROWS = 1024

_EXPECTED = "flat rows [n, dim] or images [n, channels, height, width], channels first"


class RowSource(Protocol):
    """Rows that can be read by their numbers."""

    shape: Shape  #: of one row
    sample: int  #: how many rows to check before training

    def __len__(self) -> int: ...

    def read(self, rows: Numbers) -> FloatArray:
        """Checked float32 [len(rows), *shape]; errors name the row by its number in the user's input."""

    def labels(self) -> Any:
        """The user's label of each row; None if the source has no labels."""


class Flat:
    """Everything that :class:`Rows` reads: 2-D arrays, memmaps, tables, HDF5, iterators of blocks."""

    sample = SAMPLE_ROWS

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.shape: Shape = (rows.dim,)

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, rows: Numbers) -> FloatArray:
        order = np.argsort(rows, kind="stable")  # ascending, so that files are read forwards
        out = np.empty((len(rows), self._rows.dim), np.float32)
        out[order] = self._rows.take(rows[order])
        return out.reshape(len(rows), *self.shape)

    def labels(self) -> Any:
        return None


class RowBlocks:
    """Anything with a ``shape`` that can be indexed by row numbers, whose rows are not flat."""

    sample = SAMPLE_ROWS

    def __init__(self, x: Any) -> None:
        shape = getattr(x, "shape", None)
        if shape is None or len(shape) < 2:
            raise InputError(f"x must be {_EXPECTED}, got {describe(x)}")
        check_numeric(_dtype(x), "x")
        self._x = x
        self.shape: Shape = tuple(int(n) for n in shape[1:])

    def __len__(self) -> int:
        return int(self._x.shape[0])

    def read(self, rows: Numbers) -> FloatArray:
        order = np.argsort(rows, kind="stable")
        block = checked(to_numpy(self._x[rows[order]], "x"), rows[order], self.shape)
        out = np.empty_like(block)
        out[order] = block
        return out

    def labels(self) -> Any:
        return None


class Listed:
    """A list of rows, converted when they are read."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self._rows = rows
        first = to_numpy(rows[0], "x[0]") if len(rows) else np.empty(0)
        self.shape, self.dtype = (len(rows), *first.shape), first.dtype

    def __getitem__(self, rows: Numbers) -> NDArray[Any]:
        return stack([self._rows[row] for row in rows], rows, self.shape[1:])


def checked(block: NDArray[Any], rows: Numbers, shape: Shape) -> FloatArray:
    """Finite float32 [n, *shape]; ``rows`` are the row numbers in the user's input."""
    if len(block) != len(rows) or math.prod(block.shape[1:]) != math.prod(shape):
        where = f"rows {int(rows[0])}, ..." if len(rows) else "no rows"
        raise InputError(f"inputs must be [{len(rows)}, {', '.join(map(str, shape))}], got {describe(block)} ({where})")
    flat = block.reshape(len(block), -1)
    try:
        values = as_rows(flat, name="x")
    except InputError:
        for row, values in zip(rows, flat, strict=True):  # finds the row, to name its number in the user's input
            as_rows(values[None], name="x", first_row=int(row))
        raise
    return values.reshape(len(block), *shape)


def stack(values: list[Any], rows: Numbers, shape: Shape | None) -> NDArray[Any]:
    """Rows as one array; all must have the given shape, or that of the first row."""
    arrays = [to_numpy(v, f"x[{int(row)}]") for v, row in zip(values, rows, strict=True)]
    shape = arrays[0].shape if shape is None else shape
    for array, row in zip(arrays, rows, strict=True):
        check_numeric(array.dtype, f"x[{int(row)}]")
        if array.shape != shape:
            raise InputError(f"rows must all have shape {shape}, x[{int(row)}] is {describe(array)}")
    return np.stack(arrays)


def check_shape(shape: Shape) -> None:
    if len(shape) == 3 and shape[2] in (1, 3, 4) and min(shape[:2]) > 4:
        raise InputError(
            f"x must be {_EXPECTED}; rows of shape {shape} look like images with channels last: "
            "pass x.transpose(0, 3, 1, 2), or ToTensor() in a dataset"
        )
    if len(shape) == 2:
        raise InputError(f"x must be {_EXPECTED}; rows have shape {shape}: for grey images pass x[:, None]")
    if len(shape) not in (1, 3) or 0 in shape:
        raise InputError(f"x must be {_EXPECTED}; rows have shape {shape}")


def _dtype(x: Any) -> np.dtype[Any]:
    """NumPy's dtype of arrays and tensors."""
    if isinstance(x, torch.Tensor):
        x = to_numpy(x[:0], "x")
    dtype: np.dtype[Any] = np.dtype(x.dtype)
    return dtype
