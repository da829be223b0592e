"""How a store is: what lies about, whether its margins still hold, whether its books still fit."""

from __future__ import annotations

from dataclasses import dataclass

from ..engine.margins import DEFAULT, Calibration, Covered
from .compaction import Limits
from .drift import LEAST, Drift
from .snapshot import Snapshot


@dataclass(frozen=True)
class Health:
    """What :meth:`Store.health` found; errors are squared distances of rows from what their codes stand for."""

    rows: int
    removed: int  #: rows that were removed, and are not yet compacted away
    segments: int
    log_rows: int  #: rows that are not in a segment yet
    bytes: int  #: of all its files
    calibrated: bool  #: whether any target is supported for 10 hits; else every margin below 1 is exact
    calibration: str  #: which targets it supports for the current rows, or why none
    training_error: float | None  #: mean error of rows held out of learning, or of the first rows, see below
    training_from: str  #: which rows these are
    added: int  #: rows that were coded since learning
    added_error: float | None  #: their mean error
    recent: int  #: rows of late among them
    recent_error: float | None  #: their mean error
    drift: float | None  #: recent_error / training_error; None as long as too few rows came
    drift_limit: float  #: the drift beyond which re-learning is due
    relearn: bool  #: whether it is

    @classmethod
    def of(cls, snapshot: Snapshot, n_bytes: int) -> Health:
        """Of one state of a store."""
        removed = snapshot.ids_of_rows.removed
        calibrated, why = _calibration(snapshot.books.calibration, len(snapshot))
        drift = snapshot.drift
        return cls(
            rows=len(snapshot),
            removed=0 if removed is None else removed.count,
            segments=len(snapshot.parts),
            log_rows=snapshot.tail.n,
            bytes=n_bytes,
            calibrated=calibrated,
            calibration=why,
            training_error=drift.reference.mean,
            training_from=_training(drift),
            added=drift.added.rows,
            added_error=drift.added.mean,
            recent=drift.recent.rows,
            recent_error=drift.recent.mean,
            drift=drift.ratio,
            drift_limit=drift.limit,
            relearn=drift.due,
        )

    @property
    def removed_share(self) -> float:
        """Of all rows that are on disk."""
        return self.removed / max(1, self.rows + self.removed)

    @property
    def advice(self) -> list[str]:
        """What should be done, most urgent first; nothing for a store that is well."""
        found = []
        if self.relearn:
            found.append("relearn() (from kept originals), or learn new books from rows of late: these code them badly")
        if not self.calibrated and self.rows:
            found.append("calibrate(queries): until then every margin below 1 is exact, which is slower")
        if self.removed_share > (Limits().removed_share or 0):
            found.append("compact(): many rows were removed, and searches still pass them")
        return found

    def __str__(self) -> str:
        said = f"{_counted(self.rows, 'row')} in {_counted(self.segments, 'segment')} and {self.log_rows:,} in the log"
        facts = [("size", f"{self.bytes:,} bytes")]
        lost = f"{_counted(self.removed, 'row')} not compacted away ({self.removed_share:.1%})"
        facts.append(("removed", lost if self.removed else "no rows that are not compacted away"))
        facts.append(("calibration", self.calibration))
        if self.training_error is None:
            facts.append(("error", f"not known yet: {self.training_from}"))
        else:
            facts.append(("error", f"{self.training_error:.4g} of {self.training_from}"))
        if self.added_error is not None:
            facts.append(("", f"{self.added_error:.4g} of {_counted(self.added, 'row')} added since learning"))
        if self.recent_error is not None and self.recent != self.added:
            facts.append(("", f"{self.recent_error:.4g} of the last {_counted(self.recent, 'row')}"))
        if self.drift is None:
            facts.append(("drift", f"not known: it takes {LEAST:,} rows"))
        else:
            verdict = "re-learning is due" if self.relearn else f"re-learning is due beyond {self.drift_limit:g}"
            facts.append(("drift", f"{self.drift:.3f} ({verdict})"))
        facts += [("to do" if i == 0 else "", text) for i, text in enumerate(self.advice or ["nothing"])]
        return "\n".join([said, *(f"  {name:<13}{text}" for name, text in facts)])


def _calibration(made: Calibration | None, n: int) -> tuple[bool, str]:
    """Whether the default margin is calibrated for a store of n rows, and what to say of it."""
    if made is None:
        return False, "none was made"
    found = made.rule(10, DEFAULT, n)
    targets = made.targets(10, n)
    by = f"made for {made.n:,} rows with {made.queries:,} queries, there are {n:,} rows"
    if targets:
        return True, f"holds for targets up to {targets[-1]:g} at k = 10: {by}"
    assert not isinstance(found, Covered)
    return False, f"does not hold: {DEFAULT:g} {found.why} ({by})" if made.queries else f"does not hold: it {found.why}"


def _training(drift: Drift) -> str:
    rows = drift.reference.rows
    if drift.held_out:
        return f"{_counted(rows, 'row')} held out of learning"
    if not rows:
        return f"the first {LEAST:,} rows tell, {drift.added.rows:,} came"
    if rows < LEAST:
        return f"the first {_counted(rows, 'row')} of this store, and it takes {LEAST:,} to tell"
    return f"the first {_counted(rows, 'row')} of this store"


def _counted(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"
