"""Labels as users have them -> one array: integers, bools or strings, one for each row.

Floats that are whole numbers, which many tables and files have, are the integers: 1.0 is the label 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, ValuesView
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .arrays import describe, to_numpy

#: An integer as text, or a float that is one; "007" stays a string: as an integer it would be the label 7.
_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0+)?", re.ASCII)


def as_labels(y: Any, n: int, *, name: str = "y", rows: str = "x") -> NDArray[Any]:
    """Labels [n] of dtype integer (negative ones and whole floats too), bool or str; bytes are read as UTF-8.

    ``name`` and ``rows`` are what the user calls the labels and what they belong to.
    """
    if y is None:
        raise InputError(f"labels are missing: pass {name}, an integer or a string for each of the {n} rows")
    if isinstance(y, Iterator | ValuesView):  # one that never ends is not read to its end
        y = list(islice(y, n + 1))
        if len(y) > n:
            raise InputError(f"{name} has more labels than {rows} has rows ({n})")
    listed = isinstance(y, Sequence) and not isinstance(y, str | bytes)
    array = _one_kind(y, name) if listed else np.array(to_numpy(y, name))  # a copy, which stays as it is checked
    array = _one_kind(array, name) if array.dtype == object or array.dtype.kind == "T" else array
    if array.ndim != 1:
        raise InputError(f"{name} must be 1-D, one label per row, got {describe(array)}{_conversion(array, name)}")
    if len(array) != n:
        raise InputError(f"{name} has {len(array)} labels, {rows} has {n} rows")
    if array.dtype.kind == "f":
        return _whole(array, name)
    if array.dtype.kind not in "iubUS":
        raise InputError(f"labels must be integers or strings, got {describe(array)}")
    return _decoded(array, name) if array.dtype.kind == "S" else array


def labels_of_text(lines: list[str]) -> NDArray[Any]:
    """Labels of text: integers if all lines are whole numbers, else strings."""
    found = [_WHOLE.fullmatch(line) for line in lines]
    numbers = [int(match[1]) for match in found if match]
    if len(numbers) == len(lines) and all(-(2**63) <= number < 2**63 for number in numbers):
        return np.array(numbers, np.int64)
    return np.array(lines, np.str_)


def _whole(array: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Floats as the integers that they are."""
    bad = ~((np.floor(array) == array) & (np.abs(array.astype(np.float64)) < 2.0**63))  # NaN compares false
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"labels must be integers or strings, or floats that are whole numbers; {name}[{row}] is {array[row]}, of "
            f"dtype {array.dtype}"
        )
    return array.astype(np.int64)


def _decoded(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Bytes decoded as UTF-8; other bytes are refused, because they could become the text of another label."""
    try:
        return np.asarray(np.char.decode(array, "utf-8"))
    except UnicodeDecodeError as error:
        for row, label in enumerate(array.tolist()):
            try:
                label.decode("utf-8")
            except UnicodeDecodeError:
                raise InputError(f"labels of bytes must be UTF-8, {name}[{row}] is {label!r:.40}") from error
        raise


def _one_kind(values: Any, name: str) -> NDArray[Any]:
    """Python objects as one dtype. NumPy would turn integers among strings into strings, bools into integers."""
    items = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if not isinstance(items, list):  # an array of no dimensions
        raise InputError(f"{name} must be 1-D, one label per row, got {describe(items)}")
    if items and all(hasattr(v, "__len__") and not isinstance(v, str) for v in items):
        return to_numpy(items, name)
    plain = [v.item() if hasattr(v, "item") and getattr(v, "shape", None) == () else v for v in items]
    plain = [int(v) if isinstance(v, float) and v.is_integer() else v for v in plain]
    for kinds in (bool, str, int, (int, float)):
        if plain and all(isinstance(v, kinds) and (kinds is bool or not isinstance(v, bool)) for v in plain):
            return to_numpy(plain, name)
    first = type(plain[0]) if plain else None
    for row, v in enumerate(plain):
        if type(v) is not first or not isinstance(v, bool | str | bytes | int | float):
            mixed = f", {name}[0] is {plain[0]!r:.40}" if row else ""
            raise InputError(f"labels must be integers or strings, all of one kind: {name}[{row}] is {v!r:.40}{mixed}")
    return np.empty(0, np.int64)


def _conversion(array: NDArray[Any], name: str) -> str:
    """A hint how to make the labels 1-D, if there is one."""
    if array.ndim == 2 and array.shape[1] == 1:
        return f"; pass {name}.ravel()"
    if array.ndim == 2 and array.dtype.kind in "iubf" and len(array):
        one_hot = bool((((array == 0) | (array == 1)).all(1) & (array.sum(1) == 1)).all())
        if one_hot:
            return f", which is one-hot; pass {name}.argmax(1)"
        return "; several labels per row are not supported"
    return ""
