"""What is fitted for a figure, as data: a :class:`Series` is a line of it, a :class:`Run` one fit of that line."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any

from ..errors import InputError

#: Names and values, hashable: fields of a recipe, or parameters of an estimator.
Settings = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Series:
    """A method with its settings: one line of a figure, one row of a table for each number of books."""

    label: str  #: in figures, tables and file names
    method: str  #: of the registry, or a baseline
    embedding: str = "linear"
    loss: str | None = None  #: None: the method's own
    recipe: str = "default"  #: or "paper"
    changes: Settings = ()  #: to the recipe
    settings: Settings = ()  #: further parameters of the estimator
    labels: bool = True  #: whether it learns from them


@dataclass(frozen=True, kw_only=True)
class Run(Series):
    """One fit, and one JSON."""

    figure: str
    data: str
    n_books: int  #: K; 0 for baselines that have no codes
    seed: int = 0  #: of the fit, and of the draw of the data where it is drawn
    dim: int | None = None  #: of the embedding; None: the estimator's own

    @property
    def name(self) -> str:
        """Of its file, the same in every figure."""
        return f"{self.data}-{slug(self.label)}-{self.n_books}-seed{self.seed}"

    @property
    def title(self) -> str:
        """For people who wait."""
        books = f", {self.n_books} books" if self.n_books else ""
        return f"{self.figure}: {self.label} on {self.data}{books}, seed {self.seed}"

    def in_figure(self, figure: str) -> Run:
        """The same fit for another figure."""
        return dataclasses.replace(self, figure=figure)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self) | {"changes": dict(self.changes), "settings": dict(self.settings)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Run:
        """Inverse of :meth:`to_dict`."""
        known = {field.name for field in dataclasses.fields(cls)}
        got = values.keys() if isinstance(values, dict) else set()
        if got != known:
            different = ", ".join(sorted(got ^ known))
            raise InputError(f"a run has the fields {', '.join(sorted(known))}; missing or unknown: {different}")
        if not all(isinstance(values[name], dict) for name in ("changes", "settings")):
            raise InputError("changes and settings of a run are names with values")
        pairs = {name: tuple(values[name].items()) for name in ("changes", "settings")}
        return cls(**values | pairs)


def slug(text: str) -> str:
    """A label as a part of a file name: ``SQ+CQ`` is ``sq-cq``."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")
