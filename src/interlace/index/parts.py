"""Codebooks in parts: what a code means depends on the part that its first byte names.

Some quantizers have more than one :class:`Codebooks` can say: a rotation for each cell, words that are multiplied by a
scale. Each part has codebooks of its own, and its rows an engine; a search asks all parts and keeps the best of their
answers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.book import frozen
from ..codec.codebooks import MAX_WORDS, Book, Codebooks, Codes, codebooks_of
from ..codec.encode import encode
from ..codec.metric import Metric
from ..codec.space import Space
from ..engine.engine import Engine
from ..engine.hits import RowHits, SearchStats
from ..engine.options import SearchOptions
from ..engine.segments import Segment
from ..errors import DamagedFileError, InputError, NotAnIndexError
from ..files import storage
from ..inputs.arrays import FloatArray, describe, to_numpy
from ..inputs.literals import Margin
from .id_values import IdArray
from .ids import Ids
from .matches import Matches
from .report import Report

#: Rows, for each part, from one sample of the rows' places to the next: samples take an eighth of a byte per row.
ROWS_PER_SAMPLE = 32


class Parts:
    """Codebooks of up to 256 parts, of the same dimensions and with the same number of columns.

    A code is the part's number and then the code within the part, uint8 [n, n_bytes]. Where each part has one cell,
    whose code could only be 0, that code is left out: the part is the cell. ``keys`` float32 [n_parts, width] is what a
    row is sent to a part by; what they are compared with is up to the quantizer.
    """

    def __init__(self, codebooks: Sequence[Codebooks], keys: Any) -> None:
        self.codebooks: tuple[Codebooks, ...] = tuple(codebooks)
        self.keys: FloatArray = frozen(keys, np.float32, 2, "keys")
        if not 1 <= len(self.codebooks) <= MAX_WORDS:
            raise InputError(f"there must be 1 to {MAX_WORDS} parts, got {len(self.codebooks)}")
        if len(self.keys) != len(self.codebooks):
            raise InputError(f"{len(self.codebooks)} parts need as many keys, got {len(self.keys)}")
        first = self.codebooks[0]
        for number, part in enumerate(self.codebooks):
            alike = part.dim == first.dim and part.metric_type == first.metric_type and part.columns == first.columns
            if not alike or part.to_arrays()[0].keys() != first.to_arrays()[0].keys():
                raise InputError(f"parts must be alike but for their numbers; part {number} is {part}, part 0 {first}")
        #: Columns of a code within a part that a code of the whole leaves out.
        self.implied = int(all(part.n_cells == 1 for part in self.codebooks))

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self.codebooks[0].dim

    @property
    def metric(self) -> str:
        """That of every part."""
        return self.codebooks[0].metric

    @property
    def layout(self) -> str:
        """That of every part."""
        return self.codebooks[0].layout

    @property
    def books(self) -> tuple[Book, ...]:
        """The books of the first part, the one of a single word left out."""
        return self.codebooks[0].books[self.implied :]

    @property
    def metric_type(self) -> Metric:
        """What the metric of the parts means."""
        return self.codebooks[0].metric_type

    @property
    def n_books(self) -> int:
        """Books of a part, the choice of the part counted as one more."""
        return 1 + len(self.books)

    @property
    def n_crude(self) -> int:
        """Of these, what the crude step reads; the part is always known."""
        return self.codebooks[0].n_crude + 1 - self.implied

    @property
    def n_bytes(self) -> int:
        """Bytes of a code, the part's included."""
        return 1 + self.codebooks[0].n_bytes - self.implied

    code_width = n_bytes  #: as of :class:`Codebooks`

    def split_codes(self, codes: Codes) -> tuple[NDArray[np.int64], Codes]:
        """Codes [n, n_bytes] -> numbers of parts [n], and the codes within the parts."""
        return codes[:, 0].astype(np.int64), codes[:, 1:]

    @property
    def column_sizes(self) -> list[int]:
        """What a code of each column may name at most; parts may have fewer words."""
        sizes = np.max([part.column_sizes for part in self.codebooks], axis=0)
        return [len(self.codebooks), *(int(size) for size in sizes[self.implied :])]

    def encode(self, x: FloatArray, candidates: NDArray[Any], threads: int, effort: str | None = None) -> Codes:
        """Codes of rows x, each in the one of its candidate parts [n, n_candidates] that codes it best."""
        codes, least = np.zeros((len(x), self.n_bytes), np.uint8), np.full(len(x), np.inf)
        for number, part in enumerate(self.codebooks):
            rows = np.flatnonzero((candidates == number).any(1))
            if not len(rows):
                continue
            found = encode(part, np.ascontiguousarray(x[rows]), threads, effort)
            if candidates.shape[1] > 1:
                errors = ((part.decode(found).astype(np.float64) - x[rows]) ** 2).sum(1)
                better = errors < least[rows]
                rows, found = rows[better], found[better]
                least[rows] = errors[better]
            codes[rows, 0] = number
            codes[rows, 1:] = found[:, self.implied :]
        return codes

    def within(self, codes: Codes, number: int) -> Codes:
        """Codes of rows of one part as its own codebooks have them."""
        inner = np.zeros((len(codes), self.codebooks[number].n_bytes), np.uint8)
        inner[:, self.implied :] = codes[:, 1:]
        sizes = np.array(self.codebooks[number].column_sizes)
        if (inner.max(0, initial=0) >= sizes).any():
            column = int(np.argmax(inner.max(0, initial=0) >= sizes))
            raise InputError(
                f"codes[:, {column + 1 - self.implied}] names word {int(inner[:, column].max())} of part {number}, "
                f"which has {int(sizes[column])}"
            )
        return inner

    def decode(self, codes: Codes) -> FloatArray:
        """Codes uint8 [n, n_bytes] -> vectors float32 [n, dim]."""
        out = np.empty((len(codes), self.dim), np.float32)
        for number in np.unique(codes[:, 0]):
            rows = codes[:, 0] == number
            out[rows] = self.codebooks[number].decode(self.within(codes[rows], int(number)))
        return out

    def to_arrays(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Named arrays and a JSON-able description; an array that equals the first part's is stored there only."""
        arrays: dict[str, NDArray[Any]] = {"keys": self.keys}
        descriptions, first = [], self.codebooks[0].to_arrays()[0]
        for number, part in enumerate(self.codebooks):
            own, description = part.to_arrays()
            descriptions.append(description)
            shared = {name for name in own if number and np.array_equal(own[name], first[name])}
            arrays |= {f"{number}.{name}": array for name, array in own.items() if name not in shared}
        return arrays, {"parts": descriptions}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]], description: dict[str, Any]) -> Parts:
        """Inverse of :meth:`to_arrays`."""
        first = {name[2:]: array for name, array in arrays.items() if name.startswith("0.")}
        codebooks = []
        for number, own in enumerate(description["parts"]):
            found = {name: arrays.get(f"{number}.{name}", array) for name, array in first.items()}
            codebooks.append(Codebooks.from_arrays(found, own))
        return cls(codebooks, arrays["keys"])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parts):
            return NotImplemented
        return np.array_equal(self.keys, other.keys) and self.codebooks == other.codebooks

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Parts({len(self.codebooks)} parts, {self.n_bytes} bytes per vector; the first is {self.codebooks[0]})"


def parts_in(file: storage.File, key: str = "codebooks") -> Parts:
    """Codebooks in parts inside an opened file, their bytes checked."""
    description, prefix = file.description(key), f"{key}."
    names = [name for name in file.names if name.startswith(prefix)]
    for name in names:
        file.check(name)
    with file.parsing(key):
        return Parts.from_arrays({name[len(prefix) :]: file.array(name) for name in names}, description)


def books_in(file: storage.File) -> Codebooks | Parts:
    """What a file of a model holds, in parts or not."""
    return parts_in(file) if "parts" in file.description("codebooks") else codebooks_of(file)


class Places:
    """Which row is the j-th of a part: the part of every row, a byte each, and samples of how many came before."""

    def __init__(self, part_of: NDArray[np.uint8], n_parts: int) -> None:
        self.part_of, self._step = part_of, ROWS_PER_SAMPLE * n_parts
        n_samples = -(-len(part_of) // self._step)
        self.before = np.zeros((n_samples + 1, n_parts), np.uint32)
        for sample in range(n_samples):
            here = part_of[sample * self._step : (sample + 1) * self._step]
            self.before[sample + 1] = self.before[sample] + np.bincount(here, minlength=n_parts).astype(np.uint32)

    def rows(self, parts: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows [n] of so many pairs of a part and a number in it."""
        sample, out = np.empty(len(parts), np.int64), np.empty(len(parts), np.int64)
        for part in np.unique(parts):
            mine = parts == part
            sample[mine] = np.searchsorted(self.before[:, part], numbers[mine], "right") - 1
        for at in np.unique(sample):
            mine = sample == at
            here = self.part_of[at * self._step : (at + 1) * self._step]
            starts = np.concatenate([[0], np.cumsum(np.bincount(here, minlength=self.before.shape[1]))])
            inside = numbers[mine] - self.before[at, parts[mine]]
            out[mine] = at * self._step + np.argsort(here, kind="stable")[starts[parts[mine]] + inside]
        return out

    @property
    def n_bytes(self) -> int:
        """Bytes of the parts and of the samples."""
        return int(self.part_of.nbytes + self.before.nbytes)


class PartsIndex:
    """Rows coded in parts; made of codes (:meth:`from_codes`), by :meth:`interlace.quantizers.LOPQ.index` and the like.

    It answers as an :class:`Index` does, with the same margins. Parts are not calibrated, so a target agreement runs as
    ``"exact"``, and ``stats.fallback`` says so. There are no filters, and it does not grow.
    """

    choice = None  #: as of an :class:`Index`: parts have no layout to choose

    def __init__(self, parts: Parts, engines: Sequence[Engine], places: Places, ids: Ids) -> None:
        self.codebooks, self._engines, self._places, self._ids = parts, tuple(engines), places, ids

    @classmethod
    def from_codes(cls, parts: Parts, codes: Any, ids: Any = None) -> PartsIndex:
        """An index of codes uint8 [n, n_bytes]; ``ids`` as for :class:`Index`."""
        array = np.array(to_numpy(codes, "codes"))
        if array.ndim != 2 or array.shape[1] != parts.n_bytes or array.dtype != np.uint8:
            raise InputError(f"codes must be uint8 [n, {parts.n_bytes}], got {describe(codes)}")
        n_parts = len(parts.codebooks)
        if array[:, 0].max(initial=0) >= n_parts:
            row = int(np.argmax(array[:, 0] >= n_parts))
            raise InputError(f"codes[{row}, 0] is {array[row, 0]}, but there are {n_parts} parts")
        engines = [
            Engine(own, (Segment.pack(codes, own),) if len(codes) else ())
            for own, codes in (
                (own, parts.within(array[array[:, 0] == number], number)) for number, own in enumerate(parts.codebooks)
            )
        ]
        places = Places(np.ascontiguousarray(array[:, 0]), n_parts)
        return cls(parts, engines, places, Ids.default(0).extend(ids, len(array)))

    def search(self, q: Any, k: int = 10, *, margin: Margin = "exact", threads: int | None = None) -> Matches:
        """The k nearest rows of each query; of rows at the same distance those of the lower part come first."""
        options = SearchOptions.checked(k, margin=margin, threads=threads)
        vectors, single = Space(self.codebooks.codebooks[0]).search_vectors(q)
        started = time.perf_counter()
        best = np.full((len(vectors), options.k), np.inf, np.float32)
        part, number = np.zeros(best.shape, np.int64), np.full(best.shape, -1, np.int64)
        stats: list[SearchStats] = []
        for here, engine in enumerate(self._engines):
            if not engine.n_rows and (stats or here + 1 < len(self._engines)):
                continue
            found = engine.search(vectors, options)
            stats.append(found.stats)
            # The best of two sorted lists, the earlier one first where distances are equal.
            order = np.argsort(np.concatenate([best, found.distances], 1), axis=1, kind="stable")[:, : options.k]
            part = np.take_along_axis(np.concatenate([part, np.full_like(part, here)], 1), order, 1)
            number = np.take_along_axis(np.concatenate([number, found.rows], 1), order, 1)
            best = np.take_along_axis(np.concatenate([best, found.distances], 1), order, 1)
        hit = number >= 0
        rows = np.full(best.shape, -1, np.int64)
        rows[hit] = self._places.rows(part[hit], number[hit])
        labels = {one.margin for one in stats}
        merged = replace(
            SearchStats.summed(stats),
            queries=len(vectors),
            rows=len(self),
            seconds=time.perf_counter() - started,
            margin=labels.pop() if len(labels) == 1 else f"{margin}, as each part has it",
        )
        return Matches.of(RowHits(rows, best, hit.sum(1), merged), self._ids, self.metric, single)

    def __len__(self) -> int:
        return self._ids.n

    def __contains__(self, value: object) -> bool:
        return self._ids.contains(value)

    @property
    def ids(self) -> IdArray:
        """Every id in insertion order."""
        return self._ids.all()

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self.codebooks.dim

    @property
    def metric(self) -> str:
        """That of the parts."""
        return self.codebooks.metric

    def codes(self) -> Codes:
        """All codes uint8 [n, n_bytes], in insertion order."""
        codes = np.empty((len(self), self.codebooks.n_bytes), np.uint8)
        codes[:, 0] = self._places.part_of
        for number, engine in enumerate(self._engines):
            inner = engine.codes_of(np.arange(engine.n_rows))
            codes[codes[:, 0] == number, 1:] = inner[:, self.codebooks.implied :]
        return codes

    def reconstruct(self, ids: Any) -> FloatArray:
        """The vectors that the codes of these ids stand for, float32 [n, dim] (1-D for a single id)."""
        single = isinstance(ids, int | str | np.integer)
        rows = self._ids.rows_of([ids] if single else ids)
        vectors = self.codebooks.decode(self.codes()[rows])
        return vectors[0] if single else vectors

    def report(self) -> Report:
        """Bytes by part of the index; the part of every row, a byte, counts as a code."""
        segments = [segment for engine in self._engines for segment in engine.segments]
        return Report(
            rows=len(self),
            n_bytes=self.codebooks.n_bytes,
            codes=sum(s.code_bytes for s in segments) + self._places.part_of.nbytes,
            row_numbers=sum(s.row_bytes for s in segments) + self._places.before.nbytes,
            ids=sum(array.nbytes for array in self._ids.arrays.values()),
            learned=sum(array.nbytes for array in self.codebooks.to_arrays()[0].values()),
            tables=sum(part.native.table_bytes for part in self.codebooks.codebooks),
            file=None,
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to one file, atomically: codes in insertion order, which :meth:`open` packs again."""
        learned, description = self.codebooks.to_arrays()
        arrays = {f"codebooks.{name}": array for name, array in learned.items()} | {"codes": self.codes()}
        arrays |= {f"ids.{name}": array for name, array in sorted(self._ids.sorted_section().items())}
        meta = {"kind": "parts index", "n": len(self), "ids": self._ids.kind, "codebooks": description}
        storage.write(path, arrays, meta)

    @classmethod
    def open(cls, path: str | PathLike[str]) -> PartsIndex:
        """Read what :meth:`save` wrote, every byte checked. It is loaded, not mapped."""
        file = storage.read(path)
        if file.meta.get("kind") != "parts index":
            raise NotAnIndexError(f"{file.path!r} holds {file.meta.get('kind')!r}, not an index in parts")
        file.verify()
        parts = parts_in(file)
        with file.parsing("codes"):
            n = int(file.meta["n"])
            stored = {name[4:]: np.array(file.array(name)) for name in file.names if name.startswith("ids.")}
            ids, codes = Ids.stored(file.meta["ids"], n, stored), np.array(file.array("codes"))
            if len(codes) != n:
                raise DamagedFileError(f"{file.path!r} is damaged: {len(codes)} codes for {n} rows")
            index = cls.from_codes(parts, codes)
        return cls(parts, index._engines, index._places, ids)

    def __reduce__(self) -> Any:
        return _unpickled, (storage.to_bytes(self.save),)  # the bytes of its file, in which nothing is executable

    def __copy__(self) -> PartsIndex:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PartsIndex:
        return self  # nothing in it ever changes

    def __repr__(self) -> str:
        return f"PartsIndex({len(self)} rows, {self._ids.kind} ids, {self.codebooks!r})"


def _unpickled(saved: bytes) -> PartsIndex:
    return storage.from_bytes(saved, PartsIndex.open)
