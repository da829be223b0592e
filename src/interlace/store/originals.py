"""Vectors kept beside their codes, in half the bytes of float32 or a quarter: what a second look compares with.

A vector is kept as queries meet it: after the embedding, of length 1 for the cosine metric, before any rotation.
``float16`` has two bytes for each dimension; ``int8`` one, as the number of steps above the smallest value of the row,
and eight more for that value and the step. A row is a row of bytes, so that log, segments and compaction need not know
which of the two it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..inputs.arrays import FloatArray

Bytes = NDArray[np.uint8]
KINDS = ("float16", "int8")
HEAD = 8  # bytes of an int8 row before its steps: smallest value and step, float32 each
STEPS = 255
LARGEST_HALF = 65504.0
BLOCK_BYTES = 8 << 20  # of float32, made at a time
PART_BYTES = 1 << 20  # copied at a time


class Originals:
    """How the vectors of a store are kept."""

    def __init__(self, kind: str, dim: int) -> None:
        if kind not in KINDS:
            raise InputError(f"originals must be 'float16', 'int8' or None, got {kind!r}")
        self.kind, self.dim = kind, dim
        self.width = 2 * dim if kind == "float16" else HEAD + dim  # bytes of a row

    def to_bytes(self, x: FloatArray, first_row: int = 0) -> Bytes:
        """Checked vectors [n, dim] -> [n, width]; ``first_row`` is for messages."""
        if self.kind == "float16":
            beyond = np.abs(x) > LARGEST_HALF
            if beyond.any():
                row, column = (int(v) for v in np.argwhere(beyond)[0])
                raise InputError(
                    f"x[{first_row + row}, {column}] is {x[row, column]:g}, and float16 ends at {LARGEST_HALF:g}: "
                    "scale the vectors, or keep originals as 'int8'"
                )
            return np.ascontiguousarray(x, np.dtype("<f2")).view(np.uint8)
        low = x.min(1, keepdims=True)
        step = ((x.max(1, keepdims=True).astype(np.float64) - low) / STEPS).astype(np.float32)
        steps = np.rint((x.astype(np.float64) - low) / np.where(step > 0, step, 1))
        out = np.empty((len(x), self.width), np.uint8)
        out[:, :HEAD] = np.concatenate([low, step], 1).astype("<f4").view(np.uint8)
        out[:, HEAD:] = np.clip(steps, 0, STEPS)
        return out

    def to_vectors(self, rows: Bytes) -> FloatArray:
        """What is left of the vectors, float32 [n, dim]."""
        if self.kind == "float16":
            return _from_halves(rows)
        head = np.ascontiguousarray(rows[:, :HEAD]).view("<f4").astype(np.float32)
        vectors = rows[:, HEAD:].astype(np.float32)
        vectors *= head[:, 1:]
        vectors += head[:, :1]
        return vectors

    def verify(self, rows: Bytes) -> None:
        """Raise unless every value is a number."""
        for part in in_parts(rows, None):
            values = part.view("<f2") if self.kind == "float16" else np.ascontiguousarray(part[:, :HEAD]).view("<f4")
            if not np.isfinite(values).all():
                raise ValueError("a value that is no number")


def _from_halves(rows: Bytes) -> FloatArray:
    """float16 as float32, of finite values; four times as fast as NumPy's own.

    The bits of a half, moved to where float32 has them, are its value by 2^-112: the exponents count from elsewhere.
    """
    bits = rows.view("<i2").astype(np.int32)
    bits <<= 13
    bits &= np.int32(-0x70000001)  # 0x8fffffff: three copies of the sign stand where the exponent begins
    values = bits.view(np.float32)
    values *= np.float32(2.0**112)
    return values


def in_parts(rows: Bytes, kept: NDArray[np.int64] | None) -> Iterator[Bytes]:
    """Rows (``kept``: these, ascending) in blocks small enough to be copied."""
    step = max(1, PART_BYTES // max(1, rows.shape[1]))
    for start in range(0, len(rows) if kept is None else len(kept), step):
        yield rows[start : start + step] if kept is None else np.take(rows, kept[start : start + step], axis=0)


class KeptVectors:
    """The originals of consecutive segments as one matrix [n, dim], read where it is asked for."""

    def __init__(self, originals: Originals, parts: Sequence[Bytes]) -> None:
        self._originals, self._parts = originals, [part for part in parts if len(part)]
        self._ends = np.cumsum([len(part) for part in self._parts])
        self.n, self.dim = sum(map(len, self._parts)), originals.dim

    def take(self, rows: NDArray[np.int64]) -> FloatArray:
        """Vectors [*shape, dim] of rows of any shape."""
        flat = rows.reshape(-1)
        if len(self._parts) == 1:
            raw = np.take(self._parts[0], flat, axis=0)
        else:
            raw = np.empty((len(flat), self._originals.width), np.uint8)
            of = np.searchsorted(self._ends, flat, "right")
            for i, part in enumerate(self._parts):
                here = np.flatnonzero(of == i)
                if len(here):
                    raw[here] = np.take(part, flat[here] - (self._ends[i] - len(part)), axis=0)
        return self._originals.to_vectors(raw).reshape(*rows.shape, self.dim)

    def blocks(self) -> Iterator[tuple[int, FloatArray]]:
        """All vectors, some at a time, with the number of the first one."""
        step = max(1, BLOCK_BYTES // (4 * self.dim))
        first = 0
        for part in self._parts:
            for start in range(0, len(part), step):
                yield first + start, self._originals.to_vectors(np.asarray(part[start : start + step]))
            first += len(part)
