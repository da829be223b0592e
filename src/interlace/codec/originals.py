"""Original vectors kept beside their codes for re-ranking, in a half or a quarter of the bytes of float32.

Vectors are stored after the embedding and before any rotation, with length 1 for the cosine metric, as differences from
a *centre*: float16 would otherwise lose rows whose spread is small beside their mean. The centre belongs to the
originals. It is chosen when rows are first converted, and all parts, shards and later codebooks keep it.

``float16`` takes two bytes per dimension. ``int8`` takes one, the number of steps above the smallest value of the row,
and eight bytes per row for that value and the step. ``float32`` takes four and loses nothing: a store that has not
learned codebooks yet keeps its rows so, without a centre. Each row is a row of bytes, so that files, logs and
compaction work for all formats. Native code reads the same bytes (``Stored`` in cpp/simd/kernels.h).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..inputs.arrays import FloatArray
from .book import frozen
from .codebooks import Codebooks

Bytes = NDArray[np.uint8]
KINDS = ("float16", "int8")  # that users choose from
WHOLE = "float32"
HEAD = 8  # bytes of an int8 row before the steps: smallest value and step, float32 each
STEPS = 255
LARGEST_HALF = 65504.0
#: Below it float16 loses digits. It is an error if most rows are smaller, where there are so many rows.
SMALLEST_HALF, MANY_ROWS, LOST_DIGITS = 2.0**-14, 100, 2.0**-9
PART_BYTES = 1 << 20  # copied at a time


@dataclass(frozen=True)
class Loss:
    """What rows lost when they were converted."""

    rows: int = 0
    error: float = 0.0  #: sum of the squared lengths of their errors
    merged: int = 0  #: rows that got the bytes of another row of their block, but are not its copies

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.rows + other.rows, self.error + other.error, self.merged + other.merged)

    @classmethod
    def stored(cls, found: dict[str, Any]) -> Loss:
        """From a file; ValueError for invalid values."""
        rows, error, merged = found["rows"], found["error"], found["merged"]
        if not (type(rows) is type(merged) is int and min(rows, merged) >= 0 and 0 <= float(error) < math.inf):
            raise ValueError(f"a loss of {error!r:.60} in {rows!r:.60} rows, {merged!r:.60} of them merged")
        return cls(rows, float(error), merged)


class OriginalsFormat:
    """The format in which vectors are kept: centre [dim] plus what the bytes of a row say."""

    def __init__(self, kind: str, dim: int, centre: Any = None) -> None:
        if kind not in KINDS:
            raise InputError(f"originals must be 'float16', 'int8' or None, got {kind!r}")
        self.kind, self.dim = kind, dim
        self.width = 2 * dim if kind == "float16" else HEAD + dim  # bytes of a row
        self.centre: FloatArray = frozen(np.zeros(dim) if centre is None else centre, np.float32, 1, "centre")
        if len(self.centre) != dim:
            raise InputError(f"the centre of originals has {len(self.centre)} entries, vectors have {dim} dimensions")

    @classmethod
    def around(cls, kind: str, codebooks: Codebooks, rows: Iterable[FloatArray] = ()) -> OriginalsFormat:
        """The format of rows that are converted for the first time, centred by what these codebooks know of them.

        ``rows`` are blocks of those that were taken already: the centre stays where float16 reaches all of them.
        """
        centre = centre_of(codebooks)
        for block in rows if kind == "float16" else ():
            centre = np.clip(centre, block.max(0) - LARGEST_HALF, block.min(0) + LARGEST_HALF)
        return cls(kind, codebooks.dim, centre)

    def check(self, x: FloatArray, first_row: int = 0) -> None:
        """Raise InputError if the format has no room for a value of x; ``first_row`` is for messages."""
        if self.kind != "float16":
            return
        away = np.abs(x - self.centre)
        beyond = away > LARGEST_HALF
        if beyond.any():
            row, column = (int(v) for v in np.argwhere(beyond)[0])
            raise InputError(
                f"x[{first_row + row}, {column}] is {x[row, column]:g}, {away[row, column]:g} from the centre of the "
                f"vectors, but float16 ends at {LARGEST_HALF:g}: scale the vectors, or keep them with originals='int8'"
            )
        if len(x) < MANY_ROWS or not 0 < (typical := float(np.median(away.max(1)))) < SMALLEST_HALF:
            return
        errors = np.abs(away.astype(np.float16).astype(np.float32) - away).max(1)
        if float(np.median(errors)) > LOST_DIGITS * typical:  # not those of few digits, such as 40 and 40.00001
            raise InputError(
                f"half of {len(x)} rows have no value that is farther than {typical:g} from the centre of the vectors, "
                f"but float16 loses digits below {SMALLEST_HALF:g}: scale the vectors, or keep them with "
                "originals='int8'"
            )

    def to_bytes(self, x: FloatArray, first_row: int = 0, *, taken: bool = False) -> Bytes:
        """Vectors [n, dim] -> [n, width]; ``first_row`` is for messages.

        Vectors that a store has ``taken`` before it had this centre are not refused any more: they are clipped.
        """
        if not taken:
            self.check(x, first_row)
        x = x - self.centre
        if self.kind == "float16":
            x = np.clip(x, -LARGEST_HALF, LARGEST_HALF) if taken else x
            return np.ascontiguousarray(x, np.dtype("<f2")).view(np.uint8)
        low = x.min(1, keepdims=True)
        step = ((x.max(1, keepdims=True).astype(np.float64) - low) / STEPS).astype(np.float32)
        steps = np.rint((x.astype(np.float64) - low) / np.where(step > 0, step, 1))
        out = np.empty((len(x), self.width), np.uint8)
        out[:, :HEAD] = np.concatenate([low, step], 1).astype("<f4").view(np.uint8)
        out[:, HEAD:] = np.clip(steps, 0, STEPS)
        return out

    def loss(self, x: FloatArray, rows: Bytes) -> Loss:
        """What the vectors of a block lost that were converted to these bytes."""
        away = (x - self.to_vectors(rows)).astype(np.float64)
        order = np.argsort(rows.view(f"V{self.width}")[:, 0], kind="stable")
        same = np.flatnonzero((rows[order[1:]] == rows[order[:-1]]).all(1))
        merged = (x[order[1:][same]] != x[order[:-1][same]]).any(1)
        return Loss(len(x), float(np.einsum("ij,ij->", away, away)), int(merged.sum()))

    def to_vectors(self, rows: Bytes) -> FloatArray:
        """Decoded vectors, float32 [n, dim]."""
        if self.kind == "float16":
            vectors = _from_halves(rows)
        else:
            head = np.ascontiguousarray(rows[:, :HEAD]).view("<f4").astype(np.float32)
            vectors = rows[:, HEAD:].astype(np.float32)
            with np.errstate(over="ignore", invalid="ignore"):  # damaged bytes may be any number
                vectors *= head[:, 1:]
                vectors += head[:, :1]
        vectors += self.centre
        return vectors

    def steps(self, rows: Bytes) -> FloatArray:
        """How far apart the values are that a row can have next to its own: float32 [n, dim] or [n, 1]."""
        if self.kind == "int8":
            return np.ascontiguousarray(rows[:, 4:HEAD]).view("<f4").astype(np.float32)
        exponents = (rows.view("<u2") >> 10) & 31
        return np.asarray(np.exp2(np.maximum(np.arange(32, dtype=np.float32), 1) - 25)[exponents], np.float32)

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
        self.centre = np.zeros(dim, np.float32)

    def to_bytes(self, x: FloatArray, first_row: int = 0, *, taken: bool = False) -> Bytes:
        """Vectors [n, dim] -> [n, width]."""
        return np.array(x, np.dtype("<f4"), order="C").view(np.uint8)

    def loss(self, x: FloatArray, rows: Bytes) -> Loss:
        """Nothing is lost."""
        return Loss(len(x))

    def to_vectors(self, rows: Bytes) -> FloatArray:
        """The same vectors, float32 [n, dim]."""
        return np.ascontiguousarray(rows).view("<f4").astype(np.float32)

    def _numbers(self, rows: Bytes) -> NDArray[np.floating]:
        return np.ascontiguousarray(rows).view("<f4")


def centre_of(codebooks: Codebooks) -> FloatArray:
    """The mean of the vectors that codebooks stand for, only as fine as their spread asks for.

    It is a multiple of a power of two, about a quarter to a half of the standard deviation of a dimension. So whole
    numbers stay whole, and vectors whose mean is small beside their spread are stored as they are.
    """
    total, spread = np.zeros(codebooks.dim), 0.0
    for book in codebooks.books:
        words = book.words.astype(np.float64)
        mean = words.mean(0)
        total[book.support] += mean
        spread += float(((words - mean) ** 2).sum(1).mean())
    centre = codebooks.mean + (total if codebooks.rotation is None else total @ codebooks.rotation.T)
    if spread > 0:
        grid = 2.0 ** (math.frexp(math.sqrt(spread / codebooks.dim))[1] - 2)
        centre = np.rint(centre / grid) * grid
    return np.asarray(centre, np.float32)


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
