"""Originals of the rows of an index or a store, in parts: in memory, or mapped from files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _native
from .._threads import cached_property
from ..codec.originals import Bytes, OriginalsFormat, in_parts
from ..errors import DamagedFileError
from ..files import storage
from ..inputs.arrays import LARGEST, FloatArray

BLOCK_BYTES, BLOCK_ROWS = 8 << 20, 1 << 14  # decoded at a time, as float32


class KeptVectors:
    """Originals of all rows, removed ones included, as one matrix [n, dim] that is decoded on access. Immutable.

    ``files`` are those that parts are mapped from. Their sizes are compared before anything is read: to read what a
    file lost would end the process.
    """

    def __init__(
        self, format: OriginalsFormat, parts: Sequence[Bytes] = (), files: Sequence[storage.File] = ()
    ) -> None:
        self.format, self.parts, self.files = format, tuple(part for part in parts if len(part)), tuple(files)
        self._ends = np.cumsum([len(part) for part in self.parts])
        self.n, self.dim = sum(map(len, self.parts)), format.dim

    @cached_property
    def _stored(self) -> _native.StoredVectors:
        stored = _native.StoredVectors(self.format.kind, self.dim, list(self.parts))
        if self.files:  # which were opened just now
            stored.expect_cold_pages()
        return stored

    @property
    def native(self) -> _native.StoredVectors:
        """What native code reads; an error if a file of the parts was cut."""
        self.check_sizes()
        return self._stored

    @property
    def n_bytes(self) -> int:
        """Bytes of all rows."""
        return self.n * self.format.width

    def extended(self, rows: Bytes) -> KeptVectors:
        """These and more rows. Parts in memory are merged so that each row is copied O(log n) times."""
        parts = [*self.parts, rows]
        while len(parts) > 1 and len(parts[-2]) < 2 * len(parts[-1]) and parts[-2].flags.writeable:
            parts[-2:] = [np.concatenate(parts[-2:])]
        return KeptVectors(self.format, parts, self.files)

    def section(self) -> Bytes | storage.Blocks:
        """All rows, for a file; not copied."""
        self.check_sizes()
        if len(self.parts) == 1:
            return self.parts[0]
        return storage.Blocks(np.dtype(np.uint8), (self.n, self.format.width), self._checked_parts)

    def _checked_parts(self) -> Iterator[Bytes]:
        for part in self.parts:
            self.check_sizes()
            yield from in_parts(part, None)

    def verify(self) -> None:
        """Raise DamagedFileError unless every value is finite."""
        self.check_sizes()
        for part in self.parts:
            try:
                self.format.verify(part)
            except ValueError as error:
                raise DamagedFileError(f"the index is damaged: an original has {error}") from error

    def check_sizes(self) -> None:
        """Raise DamagedFileError if a file was truncated since it was opened."""
        for file in self.files:
            file.check_size()

    def take(self, rows: NDArray[np.int64]) -> FloatArray:
        """Vectors [*rows.shape, dim] of rows."""
        self.check_sizes()
        flat = rows.reshape(-1)
        if len(self.parts) == 1:
            raw = np.take(self.parts[0], flat, axis=0)
        else:
            raw = np.empty((len(flat), self.format.width), np.uint8)
            of = np.searchsorted(self._ends, flat, "right")
            for i, part in enumerate(self.parts):
                here = np.flatnonzero(of == i)
                if len(here):
                    raw[here] = np.take(part, flat[here] - (self._ends[i] - len(part)), axis=0)
        return self._decoded(raw).reshape(*rows.shape, self.dim)

    def blocks(self) -> Iterator[tuple[int, FloatArray]]:
        """All vectors in blocks, each with the number of its first row."""
        step = max(1, min(BLOCK_ROWS, BLOCK_BYTES // (4 * self.dim)))
        first = 0
        for part in self.parts:
            for start in range(0, len(part), step):
                self.check_sizes()
                yield first + start, self._decoded(np.asarray(part[start : start + step]))
            first += len(part)

    def _decoded(self, raw: Bytes) -> FloatArray:
        vectors = self.format.to_vectors(raw)
        if vectors.size and not np.abs(vectors).max() <= LARGEST:  # NaN compares false
            raise DamagedFileError("the index is damaged: an original has a value that is not finite, or too large")
        return vectors


def originals_in(file: storage.File, kind: Any, dim: int, n: int) -> KeptVectors:
    """The originals of an opened index file, mapped; ValueError where they are not of n rows."""
    format = OriginalsFormat(kind, dim)
    rows = file.array("originals")
    if rows.dtype != np.uint8 or rows.shape != (n, format.width):
        raise ValueError(f"{rows.dtype} {rows.shape}, expected uint8 {(n, format.width)}")
    return KeptVectors(format, [rows], [file])
