"""Row numbers <-> the ids users gave: none (0, 1, 2, ...), int64, or strings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from .arrays import to_numpy
from .errors import DuplicateIdError, InputError, UnknownIdError

IdArray = NDArray[Any]  # int64, or object for strings


def parse_ids(ids: Any, n: int) -> IdArray:
    """User's ids -> int64 [n] or object [n] of str; length and uniqueness checked."""
    if isinstance(ids, str | bytes) or not hasattr(ids, "__len__"):
        raise InputError(f"ids must be an array or list of {n} integers or strings, got {type(ids).__name__}")
    array = to_numpy(ids, "ids")
    if array.ndim != 1 or len(array) != n:
        raise InputError(f"ids must have one entry per row: {n} expected, got shape {array.shape}")
    parsed = _as_id_array(array)
    unique, counts = np.unique(parsed, return_counts=True)
    if len(unique) != n:
        raise DuplicateIdError(f"ids must be unique; {unique[counts > 1][0]!r} comes {int(counts.max())} times")
    return parsed


def _as_id_array(array: IdArray) -> IdArray:
    """int64 or object-of-str, or a clear error."""
    if array.dtype.kind in "US" or array.dtype.kind == "T":
        return np.array([v.decode() if isinstance(v, bytes) else str(v) for v in array.tolist()], object)
    if array.dtype.kind == "i":
        return array.astype(np.int64)
    if array.dtype.kind == "u":
        if array.size and int(array.max()) > np.iinfo(np.int64).max:
            raise InputError(f"ids must fit int64; {int(array.max())} does not")
        return array.astype(np.int64)
    if array.dtype == object:
        values = array.tolist()
        if all(isinstance(v, str) for v in values):
            return array.copy()
        if all(isinstance(v, int | np.integer) and not isinstance(v, bool) for v in values):
            for v in values:
                if not -(2**63) <= int(v) < 2**63:
                    raise InputError(f"ids must fit int64; {v} does not")
            return array.astype(np.int64)
        odd = next(v for v in values if not isinstance(v, str))
        raise InputError(f"ids must be all integers or all strings; found {type(odd).__name__} {odd!r}")
    if array.size == 0:
        return array.astype(np.int64)
    raise InputError(f"ids must be integers or strings, got dtype {array.dtype}")


class Ids:
    """Immutable ids of n rows with a sorted section for look-ups by id.

    ``values`` is None for default ids, else int64 [n]; strings are UTF-8 ``text`` with ``offsets`` [n + 1].
    ``order`` lists rows by ascending key (the integer, or the hash of the string); it is made on first need.
    """

    def __init__(self, n: int, arrays: dict[str, NDArray[Any]] | None = None) -> None:
        self.n = n
        self.arrays: dict[str, NDArray[Any]] = dict(arrays or {})

    @classmethod
    def default(cls, n: int) -> Ids:
        """0, 1, 2, ...: stored as nothing at all."""
        return cls(n)

    @classmethod
    def of(cls, ids: IdArray) -> Ids:
        """From the output of :func:`parse_ids`."""
        if ids.dtype == np.int64:
            return cls(len(ids), {"values": ids})
        encoded = [v.encode() for v in ids]
        offsets = np.zeros(len(ids) + 1, np.uint64)
        np.cumsum([len(v) for v in encoded], out=offsets[1:])
        return cls(len(ids), {"text": np.frombuffer(b"".join(encoded), np.uint8), "offsets": offsets})

    @property
    def kind(self) -> str:
        """``default``, ``int64`` or ``string``."""
        return "string" if "text" in self.arrays else "int64" if "values" in self.arrays else "default"

    def take(self, rows: NDArray[np.int64]) -> IdArray:
        """Ids of rows of any shape; row -1 (no hit) gives -1, or None for strings."""
        if self.kind == "default":
            return rows
        if self.kind == "int64":
            if self.n == 0:
                return np.full(rows.shape, -1, np.int64)
            return np.asarray(np.where(rows < 0, np.int64(-1), self.arrays["values"][np.maximum(rows, 0)]), np.int64)
        out = np.empty(rows.shape, object)
        text, offsets = self.arrays["text"], self.arrays["offsets"]
        flat = out.reshape(-1)
        for i, row in enumerate(rows.reshape(-1).tolist()):
            if row >= 0:
                flat[i] = text[int(offsets[row]) : int(offsets[row + 1])].tobytes().decode()
        return out

    def all(self) -> IdArray:
        """Every id in row order."""
        return self.take(np.arange(self.n, dtype=np.int64))

    def keys(self) -> NDArray[Any]:
        """What rows are sorted by: the integers, or the hashes of the strings."""
        if self.kind == "int64":
            return self.arrays["values"]
        hashes = np.empty(self.n, np.uint64)
        _native.hash_strings(np.ascontiguousarray(self.arrays["text"]), np.ascontiguousarray(self.arrays["offsets"]), hashes)
        return hashes

    def sorted_section(self) -> dict[str, NDArray[Any]]:
        """``order`` and the keys in that order; kept once made, and stored in files."""
        if self.kind != "default" and "order" not in self.arrays:
            keys = self.keys()
            order = np.argsort(keys, kind="stable")
            self.arrays["order"], self.arrays["sorted"] = order.astype(np.uint32), keys[order]
        return self.arrays

    def find(self, ids: IdArray) -> NDArray[np.int64]:
        """Row of each id, -1 where it is not here."""
        if self.kind == "string":
            if ids.dtype == np.int64:
                return np.full(len(ids), -1, np.int64)
            return self._find_strings(ids)
        if ids.dtype != np.int64:
            return np.full(len(ids), -1, np.int64)
        if self.kind == "default":
            return np.asarray(np.where((ids >= 0) & (ids < self.n), ids, -1), np.int64)
        section = self.sorted_section()
        at = np.minimum(np.searchsorted(section["sorted"], ids), max(self.n - 1, 0))
        if self.n == 0:
            return np.full(len(ids), -1, np.int64)
        return np.asarray(np.where(section["sorted"][at] == ids, section["order"][at].astype(np.int64), -1), np.int64)

    def _find_strings(self, ids: IdArray) -> NDArray[np.int64]:
        section, keys = self.sorted_section(), Ids.of(ids).keys()
        rows = np.full(len(ids), -1, np.int64)
        first = np.searchsorted(section["sorted"], keys, "left").tolist()
        for i, (position, key, wanted) in enumerate(zip(first, keys.tolist(), ids.tolist(), strict=True)):
            while position < self.n and int(section["sorted"][position]) == key:  # more than one only if hashes collide
                row = int(section["order"][position])
                if self.take(np.array([row]))[0] == wanted:
                    rows[i] = row
                    break
                position += 1
        return rows

    def rows_of(self, ids: Any) -> NDArray[np.int64]:
        """Row of each id; an id that is not here is named."""
        array = to_numpy(ids, "ids")
        parsed = _as_id_array(array[None] if array.ndim == 0 else array)
        rows = self.find(parsed)
        if (rows < 0).any():
            missing = parsed[int(np.argmin(rows >= 0))]
            missing = missing if isinstance(missing, str) else int(missing)
            raise UnknownIdError(f"id {missing!r} is not in the index ({int((rows < 0).sum())} of {len(rows)} unknown)")
        return rows

    def contains(self, value: Any) -> bool:
        """Whether one id is here."""
        if isinstance(value, bool) or not isinstance(value, int | np.integer | str):
            return False
        if not isinstance(value, str) and not -(2**63) <= int(value) < 2**63:
            return False
        key = np.array([value], object if isinstance(value, str) else np.int64)
        return bool(self.find(key)[0] >= 0)

    def extend(self, ids: Any | None, n: int) -> Ids:
        """These ids and n more. Without ids the default ones go on; explicit ids must stay explicit."""
        if ids is None:
            if self.kind != "default" and self.n > 0:
                raise InputError(f"this index has {self.kind} ids; pass ids for the {n} new rows")
            return Ids.default(self.n + n)
        new = parse_ids(ids, n)
        if self.n == 0:
            return Ids.of(new)
        if (new.dtype == np.int64) != (self.kind != "string"):
            came = "int64" if new.dtype == np.int64 else "string"
            raise InputError(f"this index has {self.kind} ids, the new ones are {came}")
        rows = self.find(new)
        if (rows >= 0).any():
            raise DuplicateIdError(f"id {new[int(np.argmax(rows >= 0))]!r} is in the index already")
        return Ids.of(np.concatenate([self.all(), new]))

    def mask(self, allowed: Iterable[Any] | Any) -> NDArray[np.bool_]:
        """Boolean mask over rows from an array of allowed ids."""
        out = np.zeros(self.n, np.bool_)
        if len(allowed):
            out[self.rows_of(allowed)] = True
        return out
