"""Fits of a figure as data: a :class:`Series` is a line of a plot, a :class:`Run` is one fit of that line."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Any

from ..errors import InputError

#: Names and values, hashable: fields of a recipe or parameters of an estimator.
Settings = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, kw_only=True)
class Series:
    """A method with settings: one line of a plot, and one row of a table for each number of books."""

    label: str  #: in figures, tables and file names
    method: str  #: a name in the registry, or a baseline
    embedding: str = "linear"
    loss: str | None = None  #: None: the default of the method
    recipe: str = "default"  #: or "paper"
    changes: Settings = ()  #: changes to the recipe
    settings: Settings = ()  #: other parameters of the estimator
    labels: bool = True  #: whether it learns from labels


@dataclass(frozen=True, kw_only=True)
class Run(Series):
    """One fit, with one JSON file."""

    figure: str
    data: str
    n_books: int  #: K; 0 for baselines without codes
    seed: int = 0  #: of the fit, and of random data
    dim: int | None = None  #: dimensions of the embedding; None: the default of the estimator

    @property
    def name(self) -> str:
        """Name of its file, the same in every figure."""
        return f"{self.data}-{slug(self.label)}-{self.n_books}-seed{self.seed}"

    @property
    def title(self) -> str:
        """Title for progress messages."""
        books = f", {self.n_books} books" if self.n_books else ""
        return f"{self.figure}: {self.label} on {self.data}{books}, seed {self.seed}"

    def in_figure(self, figure: str) -> Run:
        """The same fit for another figure."""
        return dataclasses.replace(self, figure=figure)

    def to_dict(self) -> dict[str, Any]:
        """As JSON types."""
        return dataclasses.asdict(self) | {"changes": dict(self.changes), "settings": dict(self.settings)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Run:
        """Inverse of :meth:`to_dict`."""
        known = {field.name for field in dataclasses.fields(cls)}
        got = values.keys() if isinstance(values, dict) else set()
        if got != known:
            different = ", ".join(sorted(got ^ known))
            raise InputError(f"a run must have the fields {', '.join(sorted(known))}; missing or unknown: {different}")
        if not all(isinstance(values[name], dict) for name in ("changes", "settings")):
            raise InputError("changes and settings of a run must be objects with names and values")
        pairs = {name: tuple(values[name].items()) for name in ("changes", "settings")}
        return cls(**values | pairs)


def slug(text: str) -> str:
    """A label as part of a file name: ``SQ+CQ`` becomes ``sq-cq``."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")
