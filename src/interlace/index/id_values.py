"""Ids as users pass them -> int64 or strings, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DuplicateIdError, InputError
from ..inputs.arrays import describe, to_numpy

IdArray = NDArray[Any]  # int64, or object for strings


def parse_ids(ids: Any, n: int) -> IdArray:
    """User's ids -> int64 [n] or object [n] of str; length and uniqueness checked."""
    parsed = as_id_array(ids, "ids")
    if len(parsed) != n:
        raise InputError(f"ids must have one entry per row: {n} expected, got {len(parsed)}")
    if parsed.dtype == np.int64 and (parsed == -1).any():
        raise InputError(
            f"ids[{int(np.argmax(parsed == -1))}] is -1, which stands for 'no hit' in answers; use another"
        )
    unique, counts = np.unique(parsed, return_counts=True)
    if len(unique) != n:
        twice = unique[counts > 1][0]
        first, second = np.flatnonzero(parsed == twice)[:2]
        raise DuplicateIdError(f"ids must be unique; ids[{first}] and ids[{second}] are both {shown_id(twice)}")
    return parsed


def as_id_array(ids: Any, name: str) -> IdArray:
    """Ids of any accepted kind -> int64 [n] or object [n] of str, or a clear error."""
    if isinstance(ids, list | tuple):  # value by value: NumPy would turn [1, "a"] into text and drop a trailing NUL
        array = np.fromiter(values := list(ids), object, len(values))
    else:
        array = to_numpy(ids, name)
    if array.ndim != 1:
        raise InputError(f"{name} must be a list or 1-D array of integers or strings, got {describe(ids)}")
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.dtype.kind == "i" or (array.dtype.kind == "u" and array.max() < 2**63):
        return array.astype(np.int64)
    if array.dtype.kind not in "uUSTO":
        raise InputError(f"{name} must hold integers or strings, got dtype {array.dtype}")
    values = array.tolist()
    if isinstance(values[0], str | bytes):
        return _as_strings(values, name)
    for i, v in enumerate(values):
        if isinstance(v, bool) or not isinstance(v, int | np.integer):
            raise InputError(f"{name} must be all integers or all strings; {name}[{i}] is {type(v).__name__} {v!r:.60}")
        if not -(2**63) <= int(v) < 2**63:
            raise InputError(f"{name} must fit int64; {name}[{i}] is {v}")
    return np.array(values, np.int64)


def _as_strings(values: list[Any], name: str) -> IdArray:
    out = np.empty(len(values), object)
    for i, v in enumerate(values):
        if not isinstance(v, str | bytes):
            raise InputError(f"{name} must be all integers or all strings; {name}[{i}] is {type(v).__name__} {v!r:.60}")
        try:
            out[i] = v.decode() if isinstance(v, bytes) else str(v)
            out[i].encode()
        except UnicodeError as error:
            raise InputError(f"{name} must be text that UTF-8 can hold; {name}[{i}] is {v!r:.60}") from error
    return out


def shown_id(value: Any) -> str:
    """An id as messages have it."""
    return repr(value) if isinstance(value, str) else str(int(value))


def is_id(value: Any) -> bool:
    """Whether it is one id, and not several."""
    return isinstance(value, int | str | np.integer) and not isinstance(value, bool)
