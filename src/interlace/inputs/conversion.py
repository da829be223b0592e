"""Single arguments -> NumPy arrays and numbers, or an error that says what was expected."""

from __future__ import annotations

import operator
import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .tables import FrameRows, arrow_rows, is_frame

FloatArray = NDArray[np.float32]
#: Codebooks cannot be learned from vectors whose values are all smaller (``SMALLEST_REACH`` in codec/limits.py), and
#: soon float32 does not hold the squares of their differences either.
SMALLEST = 1e-14


def describe(x: Any) -> str:
    """Type, dtype and shape of an argument, for error messages."""
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is None and package_of(x) == "pyarrow":  # whose text reads values that are not validated yet
        return f"{type(x).__name__} of type {getattr(x, 'type', 'unknown')}"
    if shape is None:
        return f"{type(x).__name__} {x!r:.60}"
    return f"{type(x).__name__} of shape {tuple(shape)}" + ("" if dtype is None else f" and dtype {dtype}")


def to_numpy(x: Any, name: str) -> NDArray[Any]:
    """NumPy view (or copy) of arrays, nested lists, torch tensors and DLPack objects; torch is never imported.

    It is never of a subclass, whose shape and items may be anything.
    """
    if type(x).__module__.startswith("numpy.ma"):
        if np.ma.is_masked(x):
            raise InputError(f"{name} has masked entries, which have no value; fill them first: {describe(x)}")
        x = x.data
    if isinstance(x, np.ndarray):
        return x if type(x) is np.ndarray else np.asarray(x)
    try:
        if package_of(x) == "torch":
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


def to_matrix(x: Any, name: str, first_row: int = 0) -> NDArray[Any]:
    """As :func:`to_numpy`, for vectors: reads tables too, refuses paths and sparse matrices."""
    if isinstance(x, np.ndarray):  # single queries should be quick
        return to_numpy(x, name)
    refuse_kinds(x, name)
    if is_frame(x):
        return to_numpy(FrameRows(x, name), name)
    table = arrow_rows(x, name, first_row)
    return to_numpy(x, name) if table is None else table[:]


def package_of(x: Any) -> str:
    """Name of the package that defines the type of x."""
    return type(x).__module__.partition(".")[0]


def refuse_kinds(x: Any, name: str) -> None:
    """Refuse paths and sparse matrices, which NumPy would read as something else."""
    if isinstance(x, str | os.PathLike):
        raise InputError(f"{name} is a path, not vectors: open the file by il.data.read_vectors({os.fspath(x)!r})")
    if package_of(x) == "pandas" and getattr(x, "ndim", 0) == 1 and getattr(x.dtype, "kind", "O") == "O":
        raise InputError(f"{name} is a pandas column of dtype {x.dtype}; for lists, pass np.stack(df[{x.name!r}])")
    if type(x).__module__.startswith("scipy.sparse"):
        raise InputError(f"{name} is sparse; densify it, by toarray() or in blocks of rows: {describe(x)}")


def check_numeric(dtype: np.dtype[Any], name: str) -> None:
    """Real numbers only: object, complex, text, bool and dates are refused by name."""
    if dtype.kind not in "fiu" and dtype.name != "bfloat16":  # bfloat16: ml_dtypes
        raise InputError(f"{name} must hold real numbers (float16/32/64 or integers), got dtype {dtype}")


def row_count(value: Any, name: str) -> int:
    """A number of rows, which may be a whole float such as 1e6."""
    if isinstance(value, float | np.floating) and float(value).is_integer() and abs(float(value)) < 2**53:
        value = int(value)
    return positive(value, name)


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


def refuse_tiny(x: FloatArray, *, name: str, first_row: int = 0, rows: NDArray[np.int64] | None = None) -> None:
    """Raise InputError if the largest value of a row is below :data:`SMALLEST`, but not 0; arguments as above."""
    largest = np.maximum(x.max(1, initial=0), -x.min(1, initial=0))
    tiny = (largest > 0) & (largest < SMALLEST)
    if tiny.any():
        row = int(np.argmax(tiny))
        place = row + first_row if rows is None else int(rows[row])
        raise InputError(
            f"{name}[{place}] is too small: its largest value is {largest[row]:.3g}, and float32 cannot hold squares "
            f"and products of values below {SMALLEST:g}; scale the vectors up, or pass zeros"
        )


def positive(value: Any, name: str, *, least: int = 1) -> int:
    """An integer of at least 1 (or ``least``) that fits int64, or a clear error."""
    try:
        number: int | None = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool) or not least <= number < 2**63:
        got = describe(value) if getattr(value, "shape", ()) != () else f"{value!r:.60}"
        raise InputError(f"{name} must be {'a positive integer' if least else 'an integer of at least 0'}, got {got}")
    return number
