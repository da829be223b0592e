"""Row numbers <-> the ids users gave: none (0, 1, 2, ...), int64, or strings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..engine.tombstones import Removed
from ..errors import DamagedFileError, DuplicateIdError, InputError, UnknownIdError
from ..files.storage import File
from .id_values import IdArray, as_id_array, is_id, parse_ids, shown_id

BLOCK = 64  # ids of a block, kBlock of cpp/core/packed_ids.h

#: Arrays of each kind of ids as files hold them (docs/format.md); of integers, those that are neither runs nor blocks.
STORED: dict[str, dict[str, type]] = {
    "default": {},
    "int64": {"values": np.int64, "order": np.uint32, "sorted": np.int64},
    "string": {"text": np.uint8, "offsets": np.uint64, "order": np.uint32, "sorted": np.uint64},
}


class Ids:
    """Immutable ids of n rows with a sorted section for look-ups by id.

    ``values`` is None for default ids, else int64 [n]; strings are UTF-8 ``text`` with ``offsets`` [n + 1].
    ``order`` lists rows by ascending key (the integer, or the hash of the string); it is made on first need.
    Default ids count from ``first``, which is 0 but in the segments of a store. Integers are mostly held in less room
    than ``values``: :class:`RunIds`, :class:`PackedIds`.
    """

    #: Rows that a store has removed and not yet compacted away: their ids are not here any more. None: no row.
    removed: Removed | None = None
    #: What the ids are of, for messages.
    holder = "index"
    #: What the arrays are mapped from, if they are.
    file: File | None = None

    def __init__(self, n: int, arrays: dict[str, NDArray[Any]] | None = None, first: int = 0) -> None:
        self.n = n
        self.arrays: dict[str, NDArray[Any]] = dict(arrays or {})
        self.first = first

    @classmethod
    def default(cls, n: int, first: int = 0) -> Ids:
        """0, 1, 2, ...: stored as nothing at all."""
        return cls(n, first=first)

    @classmethod
    def of(cls, ids: IdArray) -> Ids:
        """From the output of :func:`parse_ids`; integers in the least room."""
        if ids.dtype == np.int64:
            return _compact(ids)
        encoded = [v.encode() for v in ids]
        offsets = np.zeros(len(ids) + 1, np.uint64)
        np.cumsum([len(v) for v in encoded], out=offsets[1:])
        return cls(len(ids), {"text": np.frombuffer(b"".join(encoded), np.uint8), "offsets": offsets})

    @classmethod
    def stored(cls, kind: str, n: int, arrays: dict[str, NDArray[Any]]) -> Ids:
        """From the arrays of a file: names, types and sizes must fit."""
        if kind == "int64" and "run_starts" in arrays:
            return RunIds.stored(kind, n, arrays)
        if kind == "int64" and "bases" in arrays:
            return PackedIds.stored(kind, n, arrays)
        if {name: array.dtype for name, array in arrays.items()} != {k: np.dtype(t) for k, t in STORED[kind].items()}:
            raise ValueError(f"{kind} ids with the arrays {', '.join(sorted(arrays))}")
        if any(array.shape != (n + (name == "offsets"),) for name, array in arrays.items() if name != "text"):
            raise ValueError(f"{kind} ids that do not fit {n} rows")
        return cls(n, arrays)

    @property
    def kind(self) -> str:
        """``default``, ``int64`` or ``string``."""
        return "string" if "text" in self.arrays else "int64" if "values" in self.arrays else "default"

    def check_file(self) -> None:
        """Raise if the file of the arrays was cut: to read them would end the process."""
        if self.file is not None:
            self.file.check_size()

    def take(self, rows: NDArray[np.int64]) -> IdArray:
        """Ids of rows of any shape; row -1 (no hit) gives -1, or None for strings."""
        self.check_file()
        if self.kind == "default":
            return rows if self.first == 0 else np.asarray(np.where(rows < 0, np.int64(-1), rows + self.first))
        if self.kind == "int64":
            if self.n == 0:
                return np.full(rows.shape, -1, np.int64)
            found = np.asarray(self.arrays["values"])[rows]  # of row -1 the last one
            if (none := rows < 0).any():
                found[none] = -1
            return np.asarray(found, np.int64)
        out = np.empty(rows.shape, object)
        flat, text = out.reshape(-1), self.arrays["text"]
        at = np.flatnonzero(rows >= 0)
        wanted = rows.reshape(-1)[at]
        bounds = zip(*(edge.tolist() for edge in self.bounds(wanted)), strict=True)
        for i, row, (start, end) in zip(at.tolist(), wanted.tolist(), bounds, strict=True):
            try:
                flat[i] = text[start:end].tobytes().decode()
            except UnicodeDecodeError as error:
                raise DamagedFileError(f"the index is damaged: the id of row {row} is not text") from error
        return out

    def bounds(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Where the strings of rows begin and end in the text, which they are no longer than, all in all.

        Offsets that go back and forth would make many long strings of a small file.
        """
        n, offsets = len(self.arrays["text"]), self.arrays["offsets"]
        starts, ends = offsets[rows], offsets[rows + 1]
        if (starts > ends).any() or (ends > n).any():
            raise DamagedFileError("the index is damaged: an id ends before it begins, or behind all text")
        if int((ends - starts).sum()) > n:  # rows may be there more than once
            once = np.unique(rows)
            if int((offsets[once + 1] - offsets[once]).sum()) > n:
                raise DamagedFileError("the index is damaged: the text of its ids overlaps")
        return starts, ends

    @property
    def n_kept(self) -> int:
        """Rows that were not removed."""
        return self.n - (0 if self.removed is None else self.removed.count)

    def kept_rows(self) -> NDArray[np.int64]:
        """Rows that were not removed, ascending."""
        return np.arange(self.n, dtype=np.int64) if self.removed is None else np.flatnonzero(self.removed.kept())

    def all(self) -> IdArray:
        """Every id in row order."""
        return self.take(self.kept_rows())

    def keys(self) -> NDArray[Any]:
        """What rows are sorted by: the integers, or the hashes of the strings."""
        if self.kind == "int64":
            return self.arrays["values"]
        hashes = np.empty(self.n, np.uint64)
        _native.hash_strings(
            np.ascontiguousarray(self.arrays["text"]), np.ascontiguousarray(self.arrays["offsets"]), hashes
        )
        return hashes

    def sorted_section(self) -> dict[str, NDArray[Any]]:
        """``order`` and the keys in that order; kept once made, and stored in files."""
        self.check_file()
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
            here = (ids >= self.first) & (ids <= self.first + self.n - 1)
            return np.asarray(np.where(here, ids - self.first, -1), np.int64)
        section = self.sorted_section()
        at = np.minimum(np.searchsorted(section["sorted"], ids), max(self.n - 1, 0))
        if self.n == 0:
            return np.full(len(ids), -1, np.int64)
        return self._checked(np.where(section["sorted"][at] == ids, section["order"][at].astype(np.int64), -1))

    def _checked(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        if len(rows) and rows.max() >= self.n:
            raise DamagedFileError(f"the index is damaged: its sorted ids name row {rows.max()} of {self.n}")
        return rows

    def _find_strings(self, ids: IdArray) -> NDArray[np.int64]:
        section, keys = self.sorted_section(), Ids.of(ids).keys()
        rows = np.full(len(ids), -1, np.int64)
        first = np.searchsorted(section["sorted"], keys, "left").tolist()
        for i, (position, key, wanted) in enumerate(zip(first, keys.tolist(), ids.tolist(), strict=True)):
            while position < self.n and int(section["sorted"][position]) == key:  # more than one only if hashes collide
                row = self._checked(section["order"][position : position + 1].astype(np.int64))
                found = self.take(row)
                if found[0] == wanted:
                    rows[i] = row[0]
                    break
                if int(Ids.of(found).keys()[0]) != key:  # else a damaged file may say so of every row
                    raise DamagedFileError(f"the index is damaged: its sorted ids have a wrong hash for row {row[0]}")
                position += 1
        return rows

    def rows_of(self, ids: Any, name: str = "ids") -> NDArray[np.int64]:
        """Row of each id; an id that is not here is named."""
        parsed = as_id_array(ids, name)
        rows = self.find(parsed)
        if (rows < 0).any():
            missing = shown_id(parsed[int(np.argmin(rows >= 0))])
            raise UnknownIdError(
                f"id {missing} is not in the {self.holder} ({int((rows < 0).sum())} of {len(rows)} unknown)"
            )
        return rows

    def removed_row(self, value: Any) -> int:
        """The row that had this id before it was removed, if it is still there and no other has the id; else -1."""
        return -1

    def contains(self, value: Any) -> bool:
        """Whether one id is here."""
        if not is_id(value):
            return False
        try:
            return bool(self.find(as_id_array([value], "id"))[0] >= 0)
        except InputError:  # no id at all: an integer beyond int64, text that UTF-8 cannot hold
            return False

    def extend(self, ids: Any | None, n: int) -> Ids:
        """These ids and n more. Without ids the default ones go on; explicit ids must stay explicit."""
        if ids is None:
            if self.kind != "default" and self.n > 0:
                raise InputError(f"this index has {self.kind} ids; pass ids for the {n} new rows")
            return Ids.default(self.n + n)
        new = parse_ids(ids, n)
        if n == 0:
            return self
        if self.n == 0:
            return Ids.of(new)
        if (new.dtype == np.int64) != (self.kind != "string"):
            came = "int64" if new.dtype == np.int64 else "string"
            raise InputError(f"this index has {self.kind} ids, the new ones are {came}")
        rows = self.find(new)
        if (rows >= 0).any():
            raise DuplicateIdError(f"id {shown_id(new[int(np.argmax(rows >= 0))])} is in the index already")
        return Ids.of(np.concatenate([self.all(), new]))

    def mask(self, allowed: Any) -> NDArray[np.bool_]:
        """Boolean mask over rows from an array of allowed ids."""
        out = np.zeros(self.n, np.bool_)
        out[self.rows_of(allowed, "filter")] = True
        return out


class RunIds(Ids):
    """Integers in few runs, each of consecutive ones: the first id of each, and its first row.

    ``run_starts`` int64 [m], ``run_rows`` uint32 [m], ascending from 0. Runs may follow each other in any order.
    """

    def __init__(self, n: int, arrays: dict[str, NDArray[Any]]) -> None:
        super().__init__(n, arrays)
        # In one type: NumPy would convert all of them for each look-up.
        self._starts = np.asarray(arrays["run_starts"], np.int64)
        self._rows = arrays["run_rows"].astype(np.int64)
        self._lengths = np.diff(self._rows, append=n).astype(np.uint64)
        ascend = bool((self._starts[1:] > self._starts[:-1]).all())
        self._order = None if ascend else np.argsort(self._starts, kind="stable")

    @classmethod
    def stored(cls, kind: str, n: int, arrays: dict[str, NDArray[Any]]) -> RunIds:
        """From the arrays of a file; numbers that cannot be raise ValueError."""
        found = {name: array.dtype for name, array in arrays.items()}
        if found != {"run_starts": np.dtype(np.int64), "run_rows": np.dtype(np.uint32)}:
            raise ValueError(f"runs of ids with the arrays {', '.join(sorted(arrays))}")
        starts, rows = arrays["run_starts"], arrays["run_rows"].astype(np.int64)
        if starts.ndim != 1 or len(starts) == 0 or starts.shape != rows.shape:
            raise ValueError(f"{starts.shape} first ids and {rows.shape} first rows of runs")
        lengths = np.diff(rows, append=n)
        if rows[0] != 0 or lengths.min() < 1:
            raise ValueError(f"the first rows of runs do not ascend from 0 to less than {n}")
        if (starts > np.iinfo(np.int64).max - (lengths - 1)).any():
            raise ValueError("a run of ids goes on beyond int64")
        return cls(n, arrays)

    @property
    def kind(self) -> str:
        """``int64``."""
        return "int64"

    def sorted_section(self) -> dict[str, NDArray[Any]]:
        """Nothing but the runs."""
        return self.arrays

    def keys(self) -> NDArray[Any]:
        """The integers."""
        return self.take(np.arange(self.n))

    def take(self, rows: NDArray[np.int64]) -> IdArray:
        """Ids of rows of any shape; row -1 (no hit) gives -1."""
        run = np.searchsorted(self._rows, rows, "right") - 1
        return np.asarray(np.where(rows < 0, -1, self._starts[run] + (rows - self._rows[run])), np.int64)

    def find(self, ids: IdArray) -> NDArray[np.int64]:
        """Row of each id, -1 where it is not here."""
        if ids.dtype != np.int64:
            return np.full(len(ids), -1, np.int64)
        at = np.searchsorted(self._starts, ids, "right", sorter=self._order) - 1
        run = at if self._order is None else self._order[at]
        inside = (ids - self._starts[run]).view(np.uint64)  # modulo 2^64: no difference is too large
        here = (at >= 0) & (inside < self._lengths[run])
        return np.asarray(np.where(here, self._rows[run] + inside.view(np.int64), -1), np.int64)


class PackedIds(Ids):
    """Integers in blocks of 64, in as few bits as the ids of a block need (cpp/core/packed_ids.h).

    ``bases`` int64 [blocks], ``starts`` uint32 [blocks + 1], ``words`` uint64 [the last start]. Without ``order`` they
    ascend with the rows; else it is made on first need, and stored.
    """

    def __init__(self, n: int, arrays: dict[str, NDArray[Any]], *, ascending: bool) -> None:
        super().__init__(n, arrays)
        self._ascending = ascending
        self._packed = n, arrays["bases"], arrays["starts"], arrays["words"]

    @classmethod
    def of_values(cls, values: NDArray[np.int64]) -> PackedIds | None:
        """None if they cannot be held in this way."""
        n_blocks = -(-len(values) // BLOCK)
        bases, starts = np.empty(n_blocks, np.int64), np.empty(n_blocks + 1, np.uint32)
        if len(values) == 0 or values.min() < np.iinfo(np.int64).min + BLOCK:
            return None
        n_words = _native.plan_ids(values, bases, starts)
        if n_words >= 2**32:
            return None
        words = np.zeros(n_words, np.uint64)
        _native.pack_ids(values, bases, starts, words)
        ascending = bool((values[1:] > values[:-1]).all())
        return cls(len(values), {"bases": bases, "starts": starts, "words": words}, ascending=ascending)

    @classmethod
    def stored(cls, kind: str, n: int, arrays: dict[str, NDArray[Any]]) -> PackedIds:
        """From the arrays of a file: types and sizes must fit. What is in them is checked as it is read."""
        n_blocks = -(-n // BLOCK)
        expected = {"bases": (np.int64, n_blocks), "starts": (np.uint32, n_blocks + 1), "order": (np.uint32, n)}
        if not {"bases", "starts", "words"} <= arrays.keys() <= expected.keys() | {"words"}:
            raise ValueError(f"packed ids with the arrays {', '.join(sorted(arrays))}")
        if arrays["words"].dtype != np.uint64 or arrays["words"].ndim != 1:
            raise ValueError(f"words of packed ids are {arrays['words'].dtype} {arrays['words'].shape}")
        for name in arrays.keys() - {"words"}:
            dtype, size = expected[name]
            if arrays[name].dtype != dtype or arrays[name].shape != (size,):
                raise ValueError(f"{name} of {n} packed ids are {arrays[name].dtype} {arrays[name].shape}")
        return cls(n, arrays, ascending="order" not in arrays)

    @property
    def kind(self) -> str:
        """``int64``."""
        return "int64"

    def sorted_section(self) -> dict[str, NDArray[Any]]:
        """With ``order``, unless they ascend."""
        if not self._ascending and "order" not in self.arrays:
            self.arrays["order"] = np.argsort(self.keys(), kind="stable").astype(np.uint32)
        return self.arrays

    def keys(self) -> NDArray[Any]:
        """The integers."""
        return self.take(np.arange(self.n))

    def take(self, rows: NDArray[np.int64]) -> IdArray:
        """Ids of rows of any shape; row -1 (no hit) gives -1."""
        self.check_file()
        out = np.empty(rows.shape, np.int64)
        if not _native.take_ids(*self._packed, np.ascontiguousarray(rows, np.int64).reshape(-1), out.reshape(-1)):
            raise DamagedFileError("the index is damaged: its packed ids lead out of their section")
        return out

    def find(self, ids: IdArray) -> NDArray[np.int64]:
        """Row of each id, -1 where it is not here."""
        self.check_file()
        rows = np.full(len(ids), -1, np.int64)
        if ids.dtype == np.int64:
            order = self.sorted_section().get("order")
            if not _native.find_ids(*self._packed, order, np.ascontiguousarray(ids), rows):
                raise DamagedFileError("the index is damaged: its packed ids lead out of their section")
        return rows


def _compact(values: NDArray[np.int64]) -> Ids:
    """Integers in the least room: runs, blocks, or as they are."""
    n = len(values)
    # The largest integer is followed by none, but NumPy would say that the smallest is one more.
    breaks = np.flatnonzero((values[1:] != values[:-1] + 1) | (values[1:] < values[:-1])) + 1
    run_rows = np.concatenate([np.zeros(1, np.int64), breaks])
    # A block takes as much as a run and some: where there are no more runs than blocks nothing else can be smaller.
    if n and len(run_rows) <= max(1, n // BLOCK):
        return RunIds(n, {"run_starts": values[run_rows], "run_rows": run_rows.astype(np.uint32)})
    return PackedIds.of_values(np.ascontiguousarray(values)) or Ids(n, {"values": values})
