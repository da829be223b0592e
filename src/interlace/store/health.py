"""The health of a store: removed rows, validity of the calibration, fit of the codebooks, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from ..index.health import IndexHealth, as_text, calibration_advice, counted, searching_facts
from .compaction import Limits
from .drift import LEAST, Drift
from .snapshot import Snapshot

_STATES = {
    "learned": "learned: rows are coded",
    "collecting": "collecting: rows are kept as vectors until codebooks are learned",
    "learning": "learning: codebooks are learned in the background",
}


@dataclass(frozen=True, kw_only=True)
class Health(IndexHealth):
    """The result of :meth:`Store.health`. Errors are squared distances between rows and their decoded vectors."""

    removed: int  #: removed rows that still take space, until they are compacted
    segments: int
    log_rows: int  #: rows in the log, which are not in a segment yet
    bytes: int  #: size of all files
    training_error: float | None  #: mean error of the rows that recent rows are compared with
    training_from: str  #: which rows these are: held out of learning, or the first rows of the store
    added: int  #: rows added since the codebooks were learned
    added_error: float | None  #: their mean error
    recent: int  #: the most recent of them
    recent_error: float | None  #: their mean error
    drift: float | None  #: recent_error / training_error; None while there are too few rows
    drift_limit: float  #: the drift above which relearning is due
    relearn: bool  #: whether relearning is due
    #: ``learned``; ``collecting``: the store keeps vectors until it has enough rows to learn codebooks; ``learning``:
    #: this process is learning codebooks from its rows
    state: str = "learned"
    learning_due: str | None = None  #: why the store should learn codebooks now, if it can learn by itself
    learning_error: str | None = None  #: why the last attempt of this process to learn by itself failed
    learns: bool = False  #: whether the store learns by itself, while it is open for writing
    calibrating: bool = False  #: whether this process calibrates the margins of a store that does not learn by itself

    @classmethod
    def of_store(cls, snapshot: Snapshot, n_bytes: int, *, learning: bool = False, error: str | None = None) -> Health:
        """The health of one state of a store; whether this process is ``learning``, and its last ``error``."""
        removed, drift, plan = snapshot.rows.ids.removed, snapshot.drift, snapshot.plan
        facts = searching_facts(snapshot.searcher)
        if snapshot.collecting:
            facts |= {"calibrated": True, "default_calibrated": True}
            facts |= {"calibration": "not needed: searches compare the vectors themselves"}
        calibrating = learning and plan is None
        if calibrating and not facts["default_calibrated"]:
            facts["calibration"] += "; another is being made in the background"
        return cls(
            **facts,
            state="learning" if learning and plan else "collecting" if snapshot.collecting else "learned",
            calibrating=calibrating,
            learning_due=None if plan is None else plan.due(len(snapshot), drift),
            learning_error=error,
            learns=plan is not None and plan.relearn == "auto",
            removed=0 if removed is None else removed.count,
            segments=len(snapshot.rows.parts),
            log_rows=snapshot.rows.tail.n,
            bytes=n_bytes,
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
        """Removed rows as a share of all rows on disk."""
        return self.removed / max(1, self.rows + self.removed)

    @property
    def advice(self) -> list[str]:
        """What to do, most urgent first; empty if there is nothing to do."""
        found = []
        if self.learning_error is not None:
            found.append(f"relearn(), after removing the cause: the last attempt failed ({self.learning_error})")
        elif self.learning_due is not None and self.state != "learning":
            when = "keep the store open for writing, or call relearn()" if self.learns else "relearn()"
            found.append(f"{when}: {self.learning_due}")
        elif self.relearn:
            found.append(
                "relearn(), or create the store again with new codebooks: the current ones do not fit recent rows"
            )
        if self.outgrown and self.state == "learned":
            found.append(
                f"relearn(cells='auto'), or create the store again with more cells: {self.cells_fact}, so searches "
                "compare more rows than they need to"
            )
        if not self.calibrating:
            found += calibration_advice(self)
        if self.removed_share > (Limits().removed_share or 0):
            found.append("compact(): searches still scan many removed rows")
        return found

    def __str__(self) -> str:
        summary = f"{counted(self.rows, 'row')} in {counted(self.segments, 'segment')} and {self.log_rows:,} in the log"
        facts = [("state", _STATES[self.state]), ("size", f"{self.bytes:,} bytes")]
        removed = f"{counted(self.removed, 'row')} not compacted yet ({self.removed_share:.1%})"
        facts.append(("removed", removed if self.removed else "no rows to compact"))
        if self.cells:
            facts.append(("cells", self.cells_fact))
        facts.append(("calibration", self.calibration))
        if self.state != "learned" and self.training_error is None:
            pass  # there are no codes yet
        elif self.training_error is None:
            facts.append(("error", f"unknown: {self.training_from}"))
        else:
            facts.append(("error", f"{self.training_error:.4g} of {self.training_from}"))
        if self.added_error is not None:
            facts.append(("", f"{self.added_error:.4g} of {counted(self.added, 'row')} added since learning"))
        if self.recent_error is not None and self.recent != self.added:
            facts.append(("", f"{self.recent_error:.4g} of the last {counted(self.recent, 'row')}"))
        if self.drift is None and self.state == "collecting":
            pass
        elif self.drift is None:
            needed = "an error to compare with" if self.training_error is None else f"{LEAST:,} recent rows"
            facts.append(("drift", f"unknown: it needs {needed}"))
        else:
            verdict = f"{'above' if self.relearn else 'below'} the limit of {self.drift_limit:g} for relearning"
            facts.append(("drift", f"{self.drift:.3f} ({verdict})"))
        return as_text(summary, facts, self.advice)


def _training(drift: Drift) -> str:
    rows = drift.reference.rows
    if drift.held_out:
        return f"{counted(rows, 'row')} held out of learning"
    if not rows:
        return f"the first {LEAST:,} rows are the reference, and {drift.added.rows:,} were added so far"
    if rows < LEAST:
        return f"the first {counted(rows, 'row')} of this store ({LEAST:,} are needed)"
    return f"the first {counted(rows, 'row')} of this store"
