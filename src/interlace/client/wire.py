"""Arguments and arrays as the bytes of a request or an answer: several ``.npy`` arrays, one after the other.

The first one, of bytes, is JSON: the arguments, and the names of the arrays that follow. Nothing is unpickled, and an
array takes no more memory than it has bytes: a header that promises more is refused before anything is allocated.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ..errors import InputError

MEDIA_TYPE = "application/vnd.interlace.arrays"
NPY = "application/x-npy"
MOST_ARRAYS = 16
HEADER = 10_000  # characters of the header of an array, which Python's parser reads

Array = NDArray[Any]


def pack(arguments: Mapping[str, Any], arrays: Mapping[str, Array] | None = None) -> bytes:
    """The bytes of arguments, which JSON can hold, and arrays of numbers."""
    given = dict(arrays or {})
    text = json.dumps({"arguments": arguments, "arrays": list(given)}, allow_nan=True).encode()
    out = io.BytesIO()
    for array in (np.frombuffer(text, np.uint8), *given.values()):
        npy.write_array(out, np.ascontiguousarray(array) if array.ndim else array, allow_pickle=False)
    return out.getvalue()


def unpack(data: bytes | memoryview) -> tuple[dict[str, Any], dict[str, Array]]:
    """Inverse of :func:`pack`; arrays share the memory of the bytes. InputError if they are something else."""
    reader = Reader(data)
    try:
        head = json.loads(bytes(reader.array()))
        arguments, names = head["arguments"], head["arrays"]
        valid = isinstance(arguments, dict) and isinstance(names, list) and all(isinstance(n, str) for n in names)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("the body does not begin with JSON in an array of bytes") from None
    if not valid or len(names) > MOST_ARRAYS or len(set(names)) != len(names):
        raise InputError("the body does not begin with arguments and the names of its arrays")
    found = {name: reader.array() for name in names}
    reader.check_end()
    return arguments, found


def one_array(data: bytes | memoryview) -> Array:
    """The array of one ``.npy`` file."""
    reader = Reader(data)
    found = reader.array()
    reader.check_end()
    return found


class Reader:
    """Reads arrays from bytes, as a file that NumPy reads headers from."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data, self._at = memoryview(data), 0

    def read(self, n: int) -> bytes:
        """The next n bytes, or fewer at the end."""
        found = bytes(self._data[self._at : self._at + n])
        self._at += len(found)
        return found

    def array(self) -> Array:
        """The next array; not copied."""
        try:
            version = npy.read_magic(self)  # type: ignore[arg-type]
            read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
            shape, fortran, dtype = read(self, max_header_size=HEADER)  # type: ignore[arg-type]
        except (ValueError, LookupError, TypeError, SyntaxError, TokenError, RecursionError, MemoryError) as error:
            raise InputError(f"the body is not a .npy array: {str(error)[:100]}") from None
        if dtype.kind not in "biuf" or dtype.hasobject:
            raise InputError(f"an array must hold numbers or booleans, got dtype {dtype}")
        if any(type(n) is not int or n < 0 for n in shape) or len(shape) > 8:
            raise InputError(f"an array has the shape {shape}")
        size = math.prod(shape) * dtype.itemsize
        if size > len(self._data) - self._at:
            raise InputError(f"an array of shape {shape} and dtype {dtype} needs {size} bytes, but fewer are there")
        found = np.frombuffer(self._data[self._at : self._at + size], dtype)
        self._at += size
        return found.reshape(shape, order="F" if fortran else "C")

    def check_end(self) -> None:
        """Raise InputError if there is more."""
        if self._at != len(self._data):
            raise InputError(f"{len(self._data) - self._at} bytes follow the last array")


def ids_out(ids: Any, arrays: dict[str, Array], name: str = "ids") -> Any:
    """Ids for an answer or a request: integers as an array, strings as JSON, one alone as JSON; None stays None."""
    if ids is None or isinstance(ids, int | str):
        return ids
    array = np.asarray(ids)
    if array.dtype.kind in "iu":
        arrays[name] = array
        return None
    return [None if value is None else str(value) for value in array.ravel().tolist()]


def ids_in(value: Any, arrays: Mapping[str, Array], shape: tuple[int, ...] | None = None, name: str = "ids") -> Any:
    """Inverse of :func:`ids_out`; strings in an object array."""
    if name in arrays:
        return arrays[name]
    if value is None or isinstance(value, int | str):
        return value
    out = np.empty(len(value), object)
    out[:] = value
    return out if shape is None else out.reshape(shape)
