"""Whether the books still fit: the error of rows as they are coded, against that of rows held out of learning.

The error of a row is its squared distance from the vector that its code stands for. Sums are kept, not means: they add
up in the log and in the manifest, so that neither a crash nor another process loses or counts anything twice. Rows that
come late must not drown in millions that came before, so the last ones are summed up apart, in windows that end at
checkpoints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..codec.codebooks import Codebooks, Codes
from ..inputs.arrays import FloatArray

#: Rows of a block that are measured, at most: their mean stands for the block.
SAMPLE = 128
#: Products of so many multiplications are left to one thread by BLAS. More would wake its others, which go on spinning
#: for a while, and take from the searches beside a writer what they need.
ALONE = 1 << 17
#: Fewer rows than this tell nothing, neither what to compare with nor what came since.
LEAST = 1000
#: Rows of late: between one and two windows.
WINDOW = 20_000
#: Re-learning is due when recent rows have so many times the error of those held out of learning.
DUE = 1.5
#: Where no rows were held out, recent rows are compared with the first ones of the store. These may be rows that the
#: books were learned from, whose error is smaller: new rows of the same kind had up to twice of it.
DUE_BY_FIRST_ROWS = 3.0


@dataclass(frozen=True)
class Coded:
    """Rows, and the sum of their errors."""

    rows: int = 0
    error: float = 0.0

    def __add__(self, other: Coded) -> Coded:
        return Coded(self.rows + other.rows, self.error + other.error)

    @property
    def mean(self) -> float | None:
        """None without rows."""
        return self.error / self.rows if self.rows else None

    @classmethod
    def stored(cls, found: dict[str, Any]) -> Coded:
        """From a manifest."""
        rows, error = found["rows"], found["error"]
        if type(rows) is not int or rows < 0 or not isinstance(error, int | float) or not 0 <= error < math.inf:
            raise ValueError(f"errors of {rows!r:.60} rows are {error!r:.60}")
        return cls(rows, float(error))


@dataclass(frozen=True)
class Drift:
    """What came since the books were learned; never changed, :meth:`adding` gives another."""

    reference: Coded = field(default_factory=Coded)  #: what others are compared with
    held_out: bool = False  #: the reference is of rows held out of learning; else of the first rows of the store
    past: Coded = field(default_factory=Coded)
    last: Coded = field(default_factory=Coded)  #: the last window that is full
    now: Coded = field(default_factory=Coded)  #: the window that is being filled

    @classmethod
    def of_learning(cls, error: float, rows: int) -> Drift:
        """For a store made from an index that knows the mean error of rows held out of learning."""
        return cls(Coded(rows, error * rows), held_out=True) if rows and math.isfinite(error) else cls()

    def adding(self, rows: int, error: float) -> Drift:
        """With rows that were coded since, and the sum of their errors; NaN: nobody knows, and they do not count."""
        return self if math.isnan(error) else replace(self, now=self.now + Coded(rows, error))

    def at_checkpoint(self) -> Drift:
        """The same sums, sorted anew: the first rows become the reference where there is none, full windows end.

        Not after every write: the records of a log are added up at once when it is read again.
        """
        if not self.held_out and self.reference.rows < LEAST:
            return replace(self, reference=self.reference + self.now, now=Coded())
        if self.now.rows >= WINDOW:
            return replace(self, past=self.past + self.last, last=self.now, now=Coded())
        return self

    @property
    def added(self) -> Coded:
        """All rows that were coded since; those that were removed again count too."""
        since = self.past + self.last + self.now
        return since if self.held_out else self.reference + since

    @property
    def recent(self) -> Coded:
        """Those of late."""
        return self.last + self.now

    @property
    def ratio(self) -> float | None:
        """Mean error of rows of late against the reference; None as long as one of them has too few rows."""
        before, since = self.reference.mean, self.recent.mean
        if before is None or since is None or self.recent.rows < LEAST:
            return None
        if not self.held_out and self.reference.rows < LEAST:
            return None
        return since / before if before > 0 else math.inf if since > 0 else 1.0

    @property
    def due(self) -> bool:
        """Whether it is time to learn again."""
        return self.ratio is not None and self.ratio > self.limit

    @property
    def limit(self) -> float:
        """The ratio beyond which re-learning is due."""
        return DUE if self.held_out else DUE_BY_FIRST_ROWS

    @classmethod
    def stored(cls, found: dict[str, Any]) -> Drift:
        """From a manifest."""
        if type(found["held_out"]) is not bool:
            raise ValueError(f"held_out is {found['held_out']!r:.60}")
        sums = {name: Coded.stored(found[name]) for name in ("reference", "past", "last", "now")}
        return cls(held_out=found["held_out"], **sums)


class Meter:
    """Sums up the errors of rows as they are coded; few of a large block stand for all of it."""

    def __init__(self, codebooks: Codebooks) -> None:
        self._codebooks = codebooks
        self.error = 0.0

    def __call__(self, block: FloatArray, codes: Codes) -> None:
        """Rows as they were coded, and their codes."""
        step = max(1, -(-len(block) // SAMPLE))
        some = block[::step]
        if len(some):
            difference = some.astype(np.float64) - self._decoded(codes[::step])
            self.error += float((difference**2).sum()) * (len(block) / len(some))

    def _decoded(self, codes: Codes) -> FloatArray:
        rows = max(1, ALONE // self._codebooks.dim**2)
        return np.concatenate([self._codebooks.decode(codes[i : i + rows]) for i in range(0, len(codes), rows)])
