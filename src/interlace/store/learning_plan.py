"""How a store that starts without codebooks learns some: with which settings, when, and when again.

The plan is in the manifest, so that every process that opens the store knows it. Stores that were created from a model
or codebooks have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

import numpy as np

from ..codec.originals import KINDS
from ..errors import InputError
from ..inputs.arrays import positive
from ..inputs.literals import Relearn
from ..learn.settings import Settings
from .drift import Drift

#: Rows for each word of a book that codebooks are learned from, for the first time. With fewer, words follow single
#: rows: the error of other rows is larger.
ROWS_PER_WORD = 40
#: Codebooks are learned again when the rows are this many times as many as those of the last learning: with more rows
#: there are better books and more cells. All rows are encoded again each time, 4/3 times each in the end.
GROWTH = 4

_DEFAULTS = {one.name: one.default for one in fields(Settings)}


@dataclass(frozen=True)
class LearningPlan:
    """What a store was created with, and how many rows it had when it learned last."""

    settings: Mapping[str, Any] = field(default_factory=dict)  #: those of ``Settings`` that are not the default
    relearn: Relearn = "auto"  #: whether the writer learns by itself
    learn_at: int = ROWS_PER_WORD * Settings.n_words  #: rows at which codebooks are learned for the first time
    originals: str | None = None  #: format in which vectors are kept after learning; None: they are dropped
    learned: int = 0  #: rows of the store when its codebooks were learned; 0: it has none, and keeps vectors

    @classmethod
    def checked(cls, settings: Mapping[str, Any], relearn: Any, learn_at: Any, originals: str | None) -> LearningPlan:
        """From what a user passes; InputError names the first invalid value."""
        if relearn not in get_args(Relearn):
            raise InputError(f"relearn must be one of {', '.join(get_args(Relearn))}, got {relearn!r}")
        asked = Settings(**settings).checked()
        least = 1 if asked.cells == "auto" else asked.n_cells
        if learn_at is None:
            learn_at = ROWS_PER_WORD * max(asked.n_words, least)
        elif positive(learn_at, "learn_at") < least:
            raise InputError(f"learn_at must be at least cells={least}, which need as many rows: got {learn_at}")
        return cls(_not_default(settings), relearn, int(learn_at), originals)

    @property
    def code_bytes(self) -> int:
        """Bytes of a code, once there are codes."""
        return Settings(**self.settings).checked().code_bytes

    @property
    def collecting(self) -> bool:
        """Whether the store has no codebooks yet."""
        return not self.learned

    def due(self, n_rows: int, drift: Drift) -> str | None:
        """Why to learn codebooks now, from n rows; None: there is no reason."""
        if self.collecting:
            return f"{n_rows:,} rows are enough to learn codebooks from" if n_rows >= self.learn_at else None
        if self.originals is None:
            return None  # there is nothing to learn from
        if drift.due:
            return "the codebooks do not fit recent rows"
        if n_rows >= max(GROWTH * self.learned, self.learn_at):
            return f"there are {n_rows:,} rows, and the codebooks were learned when there were {self.learned:,}"
        return None

    def combined(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of the plan with others in their place."""
        kept = dict(self.settings)
        if "n_books" in given or "n_bytes" in given:  # one excludes the other
            kept = {name: value for name, value in kept.items() if name not in ("n_books", "n_bytes")}
        return kept | dict(given)

    def after(self, settings: Mapping[str, Any], n_rows: int) -> LearningPlan:
        """The plan after codebooks were learned with these settings when there were n rows."""
        return replace(self, settings=_not_default(settings), learned=n_rows)

    @classmethod
    def stored(cls, found: dict[str, Any]) -> LearningPlan:
        """From a manifest; ValueError, or TypeError for unknown settings, if it is invalid."""
        plan = cls(
            settings=dict(found["settings"]),
            relearn=found["relearn"],
            learn_at=found["learn_at"],
            originals=found.get("originals"),
            learned=found["learned"],
        )
        Settings(**plan.settings).checked()
        if plan.relearn not in get_args(Relearn):
            raise ValueError(f"relearn is {plan.relearn!r:.60}")
        if plan.originals is not None and plan.originals not in KINDS:
            raise ValueError(f"originals after learning are {plan.originals!r:.60}")
        for name, least in (("learn_at", 1), ("learned", 0)):
            if type(getattr(plan, name)) is not int or not least <= getattr(plan, name) < 2**62:
                raise ValueError(f"{name} is {getattr(plan, name)!r:.60}")
        return plan


def _not_default(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that differ from the default, as JSON has them."""
    given = {name: value.item() if isinstance(value, np.generic) else value for name, value in settings.items()}
    return {name: value for name, value in given.items() if value != _DEFAULTS[name]}
