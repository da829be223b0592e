"""``.npy`` arrays: a whole file, or rows in blocks that come through a pipe, read once and never all at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

MAGIC = b"\x93NUMPY"
#: What NumPy raises for headers that make no sense: shapes beyond int64 or all memory, of no integers, nested brackets.
NPY_ERRORS = (ValueError, EOFError, TypeError, OverflowError, MemoryError, RecursionError)


def load_npy(name: str) -> NDArray[Any]:
    """The array of a file; InputError if it is none."""
    try:
        array: NDArray[Any] = np.load(name, allow_pickle=False)
    except NPY_ERRORS as error:
        raise InputError(f"{name!r} cannot be read as .npy: {error}") from error
    return array


class NpyStream:
    """A stream whose header is read; ``file`` is positioned after the first six bytes, which are ``MAGIC``."""

    def __init__(self, file: IO[bytes], name: str = "input") -> None:
        self._file, self._name = file, name
        readers: dict[bytes, Any] = {
            b"\x01\x00": np.lib.format.read_array_header_1_0,
            b"\x02\x00": np.lib.format.read_array_header_2_0,
        }
        version = file.read(2)
        if version not in readers:
            raise InputError(f"{name}: .npy version {'.'.join(map(str, version)) or 'nothing'} is not supported")
        try:
            shape, fortran, dtype = readers[version](file)
        except NPY_ERRORS as error:
            raise InputError(f"{name} cannot be read as .npy: {error}") from error
        self.shape: tuple[int, ...] = shape
        self.dtype: np.dtype[Any] = dtype
        if dtype.hasobject or dtype.kind not in "fiu":
            raise InputError(f"{name} must hold real numbers (float16/32/64 or integers), got dtype {dtype}")
        if len(shape) < 2 or shape[0] < 0 or min(shape[1:]) < 1:
            raise InputError(f"{name} must hold an array [rows, dimensions], got shape {shape}")
        if max(1, shape[0]) * math.prod(shape[1:]) * dtype.itemsize >= 2**63:
            raise InputError(f"{name} declares more than 2^63 bytes: shape {shape!s:.60}")
        if fortran and shape[0] > 1:
            raise InputError(f"{name} is in Fortran order and cannot be read by rows: save np.ascontiguousarray(x)")

    def __len__(self) -> int:
        return self.shape[0]

    def blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        """Blocks of at most ``rows`` rows; a stream that ends too early raises after its last whole row."""
        width = self.dtype.itemsize * math.prod(self.shape[1:])
        for first in range(0, len(self), rows):
            wanted = min(rows, len(self) - first)
            data = self._file.read(wanted * width)
            whole = len(data) // width
            if whole:
                count = whole * math.prod(self.shape[1:])
                yield np.frombuffer(data, self.dtype, count).reshape(whole, *self.shape[1:])
            if whole < wanted:
                raise InputError(f"{self._name} ends after {first + whole} of {len(self)} rows")
