"""Originals of the rows of an index or a store, in parts: in memory, or mapped from files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from .. import _native
from .._threads import cached_property
from ..codec.originals import Bytes, Loss, OriginalsFormat, in_parts
from ..errors import DamagedFileError
from ..files import storage
from ..inputs.arrays import LARGEST, FloatArray

BLOCK_BYTES, BLOCK_ROWS = 8 << 20, 1 << 14  # decoded at a time, as float32
#: Rows whose steps are compared with the errors of all.
STEP_ROWS = 4096
#: Different errors that rows are moved by.
ERROR_BITS = 12
ERROR_ROWS = 1 << ERROR_BITS


class KeptVectors:
    """Originals of all rows, removed ones included, as one matrix [n, dim] that is decoded on access. Immutable.

    ``loss`` is what the rows lost when they were converted. ``files`` are those that parts are mapped from. Their sizes
    are compared before anything is read: to read what a file lost would end the process.
    """

    def __init__(
        self,
        format: OriginalsFormat,
        parts: Sequence[Bytes] = (),
        files: Sequence[storage.File] = (),
        loss: Loss = Loss(),  # noqa: B008 (frozen)
    ) -> None:
        self.format, self.parts, self.files = format, tuple(part for part in parts if len(part)), tuple(files)
        self.loss = loss
        self._ends = np.cumsum([len(part) for part in self.parts])
        self.n, self.dim = sum(map(len, self.parts)), format.dim

    @cached_property
    def _stored(self) -> _native.StoredVectors:
        stored = _native.StoredVectors(self.format.kind, self.format.centre, list(self.parts))
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

    def extended(self, rows: Bytes, loss: Loss) -> KeptVectors:
        """These and more rows, and their loss. Parts in memory are merged so that each row is copied O(log n) times."""
        parts = [*self.parts, rows]
        while len(parts) > 1 and len(parts[-2]) < 2 * len(parts[-1]) and parts[-2].flags.writeable:
            parts[-2:] = [np.concatenate(parts[-2:])]
        return KeptVectors(self.format, parts, self.files, self.loss + loss)

    def to_arrays(self) -> tuple[dict[str, NDArray[Any] | storage.Blocks], dict[str, Any]]:
        """Sections and description of a file; the inverse is :func:`originals_in`."""
        about = {"kind": self.format.kind, "loss": asdict(self.loss)}
        return {"originals.centre": self.format.centre, "originals": self.section()}, about

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
        return self._decoded(self._raw(rows.reshape(-1))).reshape(*rows.shape, self.dim)

    def _raw(self, rows: NDArray[np.int64]) -> Bytes:
        self.check_sizes()
        if len(self.parts) == 1:
            return np.take(self.parts[0], rows, axis=0)
        raw = np.empty((len(rows), self.format.width), np.uint8)
        of = np.searchsorted(self._ends, rows, "right")
        for i, part in enumerate(self.parts):
            here = np.flatnonzero(of == i)
            if len(here):
                raw[here] = np.take(part, rows[here] - (self._ends[i] - len(part)), axis=0)
        return raw

    def blocks(self, *, as_given: bool = False) -> Iterator[tuple[int, FloatArray]]:
        """All vectors in blocks, each with the number of its first row.

        With ``as_given``, as they may have been before they were converted. Conversion rounded each value to one of
        those that its row can have. So the kept values are moved by uniform errors of at most half a step, scaled to
        the mean of the errors that were measured; rows of the same bytes stay the same unless conversion merged rows.
        """
        scale, rng = self._error_scale() if as_given else 0.0, np.random.default_rng(0)
        errors = sliding_window_view(
            np.float32(scale) * (rng.random(self.dim + ERROR_ROWS, np.float32) - 0.5), self.dim
        )
        weights = rng.integers(2**32, size=self.dim, dtype=np.uint32)
        step = max(1, min(BLOCK_ROWS, BLOCK_BYTES // (4 * self.dim)))
        first = 0
        for part in self.parts:
            for start in range(0, len(part), step):
                self.check_sizes()
                raw = np.asarray(part[start : start + step])
                vectors = self._decoded(raw)
                if scale:
                    which = rng.integers(ERROR_ROWS, size=len(raw))
                    if not self.loss.merged:
                        which = (vectors.view(np.uint32) @ weights) >> (32 - ERROR_BITS)
                    vectors += errors[which] * self.format.steps(raw)
                yield first + start, vectors
            first += len(part)

    def _error_scale(self) -> float:
        """The measured errors in units of uniform ones; 0 where nothing was lost."""
        if not self.loss.error or not self.n:
            return 0.0
        rows = np.linspace(0, self.n - 1, min(self.n, STEP_ROWS)).astype(np.int64)
        steps = self.format.steps(self._raw(rows)).astype(np.float64)
        uniform = float((steps**2).mean()) * self.dim / 12
        return math.sqrt(self.loss.error / max(1, self.loss.rows) / uniform) if uniform > 0 else 0.0

    def _decoded(self, raw: Bytes) -> FloatArray:
        vectors = self.format.to_vectors(raw)
        if vectors.size and not np.abs(vectors).max() <= LARGEST:  # NaN compares false
            raise DamagedFileError("the index is damaged: an original has a value that is not finite, or too large")
        return vectors


def originals_in(file: storage.File, about: Any, dim: int, n: int) -> KeptVectors:
    """The originals of an opened index file, mapped; ValueError where they are not of n rows."""
    file.check("originals.centre")  # damage would move all rows
    format = OriginalsFormat(about["kind"], dim, file.array("originals.centre"))
    rows = file.array("originals")
    if rows.dtype != np.uint8 or rows.shape != (n, format.width):
        raise ValueError(f"{rows.dtype} {rows.shape}, expected uint8 {(n, format.width)}")
    return KeptVectors(format, [rows], [file], Loss.stored(about["loss"]))
