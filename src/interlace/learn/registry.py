"""Learners of codebooks by layout: quantizers register them, and stores look them up to relearn their codebooks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..codec.codebooks import Codebooks
from ..inputs.arrays import FloatArray
from ..progress import Progress


@dataclass(frozen=True)
class BookLearner:
    """Learns codebooks from vectors; its settings are already validated."""

    learn: Callable[[FloatArray], Codebooks]
    seed: int
    max_train_rows: int
    threads: int | None


#: Makes a learner from the bytes per code, the settings that a caller gave, and a progress function.
MakeLearner = Callable[[int, Mapping[str, Any], Progress], BookLearner]

_MAKERS: dict[str, list[MakeLearner]] = {}
_LOADERS: list[Callable[[], object]] = []


def register_learner(layout: str, make: MakeLearner) -> None:
    """Add a learner of codebooks whose ``layout`` is this. If there are several, the first one registered is used."""
    _MAKERS.setdefault(layout, []).append(make)


def unregister_learner(layout: str, make: MakeLearner) -> None:
    """Undo one call of :func:`register_learner`."""
    _MAKERS[layout].remove(make)


def load_before_lookup(load: Callable[[], object]) -> None:
    """Call ``load`` once, before the first lookup: it imports modules that register learners."""
    _LOADERS.append(load)


def learner_of_layout(layout: str) -> MakeLearner | None:
    """The learner of codebooks of a layout; None if no quantizer registered one."""
    while _LOADERS:
        _LOADERS.pop()()
    makers = _MAKERS.get(layout)
    return makers[0] if makers else None
