"""Original vectors kept beside their codes for re-ranking, in a half or a quarter of the bytes of float32.

Vectors are stored after the embedding and before any rotation, with length 1 for the cosine metric. ``float16`` takes
two bytes per dimension. ``int8`` takes one, the number of steps above the smallest value of the row, and eight bytes
per row for that value and the step. ``float32`` takes four and loses nothing: a store that has not learned codebooks
yet keeps its rows so. Each row is a row of bytes, so that files, logs and compaction work for all formats. Native code
reads the same bytes (``Stored`` in cpp/simd/kernels.h).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..inputs.arrays import FloatArray

Bytes = NDArray[np.uint8]
KINDS = ("float16", "int8")  # that users choose from
WHOLE = "float32"
HEAD = 8  # bytes of an int8 row before the steps: smallest value and step, float32 each
STEPS = 255
LARGEST_HALF = 65504.0
#: Below it float16 loses digits. It is an error if most rows are smaller, where there are so many rows.
SMALLEST_HALF, MANY_ROWS = 2.0**-14, 100
PART_BYTES = 1 << 20  # copied at a time


class OriginalsFormat:
    """The format in which vectors are kept."""

    def __init__(self, kind: str, dim: int) -> None:
        if kind not in KINDS:
            raise InputError(f"originals must be 'float16', 'int8' or None, got {kind!r}")
        self.kind, self.dim = kind, dim
        self.width = 2 * dim if kind == "float16" else HEAD + dim  # bytes of a row

    def check(self, x: FloatArray, first_row: int = 0) -> None:
        """Raise InputError if the format has no room for a value of x; ``first_row`` is for messages."""
        if self.kind != "float16":
            return
        beyond = np.abs(x) > LARGEST_HALF
        if beyond.any():
            row, column = (int(v) for v in np.argwhere(beyond)[0])
            raise InputError(
                f"x[{first_row + row}, {column}] is {x[row, column]:g}, but float16 ends at {LARGEST_HALF:g}: "
                "scale the vectors, or keep them with originals='int8'"
            )
        if len(x) >= MANY_ROWS and 0 < (typical := float(np.median(np.abs(x).max(1)))) < SMALLEST_HALF:
            raise InputError(
                f"half of {len(x)} rows have no value beyond {typical:g}, but float16 loses digits below "
                f"{SMALLEST_HALF:g}: scale the vectors, or keep them with originals='int8'"
            )

    def to_bytes(self, x: FloatArray, first_row: int = 0) -> Bytes:
        """Checked vectors [n, dim] -> [n, width]; ``first_row`` is for messages."""
        self.check(x, first_row)
        if self.kind == "float16":
            return np.ascontiguousarray(x, np.dtype("<f2")).view(np.uint8)
        low = x.min(1, keepdims=True)
        step = ((x.max(1, keepdims=True).astype(np.float64) - low) / STEPS).astype(np.float32)
        steps = np.rint((x.astype(np.float64) - low) / np.where(step > 0, step, 1))
        out = np.empty((len(x), self.width), np.uint8)
        out[:, :HEAD] = np.concatenate([low, step], 1).astype("<f4").view(np.uint8)
        out[:, HEAD:] = np.clip(steps, 0, STEPS)
        return out

    def to_vectors(self, rows: Bytes) -> FloatArray:
        """Decoded vectors, float32 [n, dim]."""
        if self.kind == "float16":
            return _from_halves(rows)
        head = np.ascontiguousarray(rows[:, :HEAD]).view("<f4").astype(np.float32)
        vectors = rows[:, HEAD:].astype(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):  # damaged bytes may be any number
            vectors *= head[:, 1:]
            vectors += head[:, :1]
        return vectors

    def verify(self, rows: Bytes) -> None:
        """Raise ValueError unless every value is finite."""
        for part in in_parts(rows, None):
            if not np.isfinite(self._numbers(part)).all():
                raise ValueError("a value that is not finite")

    def _numbers(self, rows: Bytes) -> NDArray[np.floating]:
        """The floats among the bytes of rows, which may be any number."""
        return rows.view("<f2") if self.kind == "float16" else np.ascontiguousarray(rows[:, :HEAD]).view("<f4")


class WholeVectors(OriginalsFormat):
    """Vectors as they are, in float32."""

    def __init__(self, dim: int) -> None:
        self.kind, self.dim, self.width = WHOLE, dim, 4 * dim

    def to_bytes(self, x: FloatArray, first_row: int = 0) -> Bytes:
        """Vectors [n, dim] -> [n, width]."""
        return np.array(x, np.dtype("<f4"), order="C").view(np.uint8)

    def to_vectors(self, rows: Bytes) -> FloatArray:
        """The same vectors, float32 [n, dim]."""
        return np.ascontiguousarray(rows).view("<f4").astype(np.float32)

    def _numbers(self, rows: Bytes) -> NDArray[np.floating]:
        return np.ascontiguousarray(rows).view("<f4")


def stored_format(kind: str, dim: int) -> OriginalsFormat:
    """The format that a manifest names."""
    return WholeVectors(dim) if kind == WHOLE else OriginalsFormat(kind, dim)


def _from_halves(rows: Bytes) -> FloatArray:
    """Finite float16 values as float32; four times as fast as NumPy's conversion.

    The bits of a float16, shifted to their position in float32, give its value times 2^-112, because the exponents have
    different biases.
    """
    bits = rows.view("<i2").astype(np.int32)
    bits <<= 13
    bits &= np.int32(-0x70000001)  # 0x8fffffff: clears three copies of the sign in the exponent
    values = bits.view(np.float32)
    values *= np.float32(2.0**112)
    return values


def in_parts(rows: Bytes, kept: NDArray[np.int64] | None) -> Iterator[Bytes]:
    """All rows, or those in ``kept`` (ascending), in small blocks."""
    step = max(1, PART_BYTES // max(1, rows.shape[1]))
    for start in range(0, len(rows) if kept is None else len(kept), step):
        yield rows[start : start + step] if kept is None else np.take(rows, kept[start : start + step], axis=0)
