"""Whether the codebooks still fit the rows: the error of added rows compared with that of rows held out of learning.

The error of a row is the squared distance between the row and its decoded vector. The store keeps sums, not means: they
add up in the log and in the manifest, so that no row is lost or counted twice after a crash or in another process. The
most recent rows have separate sums, in windows that end at checkpoints, so that millions of older rows do not hide
them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..codec.codebooks import Codebooks, Codes
from ..inputs.arrays import FloatArray

#: At most this many rows of a block are measured; their mean is the estimate for the block.
SAMPLE = 128
#: BLAS computes products of up to this many multiplications in one thread. Larger ones start its other threads, which
#: keep spinning for a while and slow down concurrent searches.
ONE_THREAD = 1 << 17
#: Fewer rows than this are too few, both for the reference and for the recent rows.
LEAST = 1000
#: The recent rows are between one and two windows.
WINDOW = 20_000
#: Relearning is due when the error of recent rows exceeds this many times that of rows held out of learning.
DUE = 1.5
#: Without held-out rows, recent rows are compared with the first rows of the store. The codebooks may have been learned
#: from these, which makes their error smaller: in measurements, new rows of the same kind had up to twice that error.
DUE_BY_FIRST_ROWS = 3.0


@dataclass(frozen=True)
class ErrorSum:
    """A number of rows and the sum of their errors."""

    rows: int = 0
    error: float = 0.0

    def __add__(self, other: ErrorSum) -> ErrorSum:
        return ErrorSum(self.rows + other.rows, self.error + other.error)

    @property
    def mean(self) -> float | None:
        """None without rows."""
        return self.error / self.rows if self.rows else None

    @classmethod
    def stored(cls, found: dict[str, Any]) -> ErrorSum:
        """From a manifest; ValueError for invalid values."""
        rows, error = found["rows"], found["error"]
        if type(rows) is not int or rows < 0 or not isinstance(error, int | float) or not 0 <= error < math.inf:
            raise ValueError(f"the sum of errors of {rows!r:.60} rows is {error!r:.60}")
        return cls(rows, float(error))


@dataclass(frozen=True)
class Drift:
    """Errors of the rows added since the codebooks were learned. Immutable; :meth:`adding` returns a new one."""

    reference: ErrorSum = field(default_factory=ErrorSum)  #: what recent rows are compared with
    held_out: bool = False  #: the reference is of rows held out of learning; else of the first rows of the store
    past: ErrorSum = field(default_factory=ErrorSum)
    last: ErrorSum = field(default_factory=ErrorSum)  #: the last window that is full
    now: ErrorSum = field(default_factory=ErrorSum)  #: the window that is being filled

    @classmethod
    def of_learning(cls, error: float, rows: int) -> Drift:
        """For new codebooks, given the mean error of rows held out of learning; 0 rows if it is unknown."""
        return cls(ErrorSum(rows, error * rows), held_out=True) if rows and math.isfinite(error) else cls()

    def adding(self, rows: int, error: float) -> Drift:
        """With more rows and the sum of their errors; rows with an unknown error (NaN) do not count."""
        return self if math.isnan(error) else replace(self, now=self.now + ErrorSum(rows, error))

    def at_checkpoint(self) -> Drift:
        """The same sums, regrouped: the first rows become the reference if there is none, and a full window ends.

        Only at checkpoints: when a log is read again, its records are added up in one step.
        """
        if not self.held_out and self.reference.rows < LEAST:
            return replace(self, reference=self.reference + self.now, now=ErrorSum())
        if self.now.rows >= WINDOW:
            return replace(self, past=self.past + self.last, last=self.now, now=ErrorSum())
        return self

    @property
    def added(self) -> ErrorSum:
        """All rows added since the codebooks were learned, including rows that were removed again."""
        since = self.past + self.last + self.now
        return since if self.held_out else self.reference + since

    @property
    def recent(self) -> ErrorSum:
        """The most recent rows."""
        return self.last + self.now

    @property
    def ratio(self) -> float | None:
        """Mean error of recent rows divided by that of the reference; None while one of them has too few rows."""
        before, since = self.reference.mean, self.recent.mean
        if before is None or since is None or self.recent.rows < LEAST:
            return None
        if not self.held_out and self.reference.rows < LEAST:
            return None
        return since / before if before > 0 else math.inf if since > 0 else 1.0

    @property
    def due(self) -> bool:
        """Whether to relearn the codebooks."""
        return self.ratio is not None and self.ratio > self.limit

    @property
    def limit(self) -> float:
        """The ratio above which relearning is due."""
        return DUE if self.held_out else DUE_BY_FIRST_ROWS

    @classmethod
    def stored(cls, found: dict[str, Any]) -> Drift:
        """From a manifest; ValueError for invalid values."""
        if type(found["held_out"]) is not bool:
            raise ValueError(f"held_out is {found['held_out']!r:.60}")
        sums = {name: ErrorSum.stored(found[name]) for name in ("reference", "past", "last", "now")}
        return cls(held_out=found["held_out"], **sums)


class ErrorMeter:
    """Sums the errors of rows while they are encoded, estimated from a sample of each block."""

    def __init__(self, codebooks: Codebooks) -> None:
        self._codebooks = codebooks
        self.error = 0.0

    def measure(self, block: FloatArray, codes: Codes) -> None:
        """Add the errors of a block of rows with these codes."""
        step = max(1, -(-len(block) // SAMPLE))
        some = block[::step]
        if len(some):
            difference = some.astype(np.float64) - self._decoded(codes[::step])
            self.error += float((difference**2).sum()) * (len(block) / len(some))

    def _decoded(self, codes: Codes) -> FloatArray:
        rows = max(1, ONE_THREAD // self._codebooks.dim**2)
        return np.concatenate([self._codebooks.decode(codes[i : i + rows]) for i in range(0, len(codes), rows)])
