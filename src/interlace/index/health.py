"""Whether the rows have outgrown their cells or the calibration. Rows of an index are never removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..codec.book import is_long
from ..codec.codebooks import MAX_CELLS, Codebooks
from ..engine.calibrating import queries_needed
from ..engine.margins import DEFAULT, Calibration, Covered
from ..engine.recall import DEFAULT_RECALL, K, default_effort, effort
from ..errors import InputError
from ..learn.settings import rows_per_cell_aim
from .searcher import Searcher

#: Rows of an average cell, as a multiple of those that ``cells="auto"`` aims at, from which on new cells are advised.
CELLS_GROWTH = 4
#: Layouts whose first book makes cells over all dimensions; elsewhere learning again makes no more of them.
_WITH_CELLS = ("hybrid", "residual")
#: What a search asks for by default where originals are kept.
_BY_VECTORS = f"recall={DEFAULT_RECALL:g}"


@dataclass(frozen=True, kw_only=True)
class IndexHealth:
    """The result of :meth:`Index.health`, and the part of :class:`interlace.store.Health` that an index has too."""

    rows: int
    calibrated: bool  #: whether any target is supported at k = 10; otherwise searches with a margin below 1 are exact
    #: what a search asks for that gives neither margin nor rerank nor recall; where originals are kept, a recall
    default: str = f"margin={DEFAULT:g}"
    default_calibrated: bool = True  #: whether it is supported; otherwise ``calibration`` says what runs
    calibration: str  #: the targets that are supported for the current rows, or why there are none
    cells: int = 0  #: 0: there are no codes yet
    rows_per_cell: float = 0.0  #: on average
    #: rows per cell from which on learning again, with more cells, makes searches faster; None: it would make no more
    rows_per_cell_limit: float | None = None

    @classmethod
    def of(cls, searcher: Searcher) -> IndexHealth:
        """The health of the rows of an index."""
        return cls(**searching_facts(searcher))

    @property
    def outgrown(self) -> bool:
        """Whether there are more rows per cell than the limit."""
        return self.rows_per_cell_limit is not None and self.rows_per_cell > self.rows_per_cell_limit

    @property
    def advice(self) -> list[str]:
        """What to do, most urgent first; empty if there is nothing to do."""
        found = []
        if self.outgrown:
            found.append(f"build the index again, with cells='auto': {self.cells_fact}")
        return found + calibration_advice(self)

    @property
    def cells_fact(self) -> str:
        """How full the cells are, as a text."""
        text = f"{counted(self.cells, 'cell')} of {self.rows_per_cell:,.0f} rows on average"
        if self.rows_per_cell_limit is None:
            return text
        return f"{text}, {'above' if self.outgrown else 'below'} the limit of {self.rows_per_cell_limit:,.0f}"

    def __str__(self) -> str:
        facts = [("cells", self.cells_fact), ("calibration", self.calibration)]
        return as_text(counted(self.rows, "row"), facts, self.advice)


def searching_facts(searcher: Searcher) -> dict[str, Any]:
    """The fields of an :class:`IndexHealth`; those of a searcher that compares vectors have no cells."""
    engine = searcher.engine
    n, books = engine.n_kept, engine.codebooks
    targets, why = calibration_state(engine.calibration, n)
    facts: dict[str, Any] = {"rows": n, "calibrated": bool(targets)}
    if searcher.originals is not None:
        supported, default = _default_recall(engine.calibration, n)
        facts |= {"default": _BY_VECTORS, "default_calibrated": supported, "calibration": f"{why}; {default}"}
    else:
        exactly = f"; searches with the default margin ({DEFAULT:g}) run exactly"
        facts["default_calibrated"] = DEFAULT in targets
        facts["calibration"] = why + exactly * (bool(targets) and DEFAULT not in targets)
    if engine.vectors is None:
        facts |= {"cells": books.n_cells, "rows_per_cell": n / books.n_cells, "rows_per_cell_limit": _limit(books, n)}
    return facts


def _limit(books: Codebooks, n_rows: int) -> float | None:
    if books.layout not in _WITH_CELLS or books.n_books < 2:
        return None
    aim = rows_per_cell_aim(n_rows)
    if is_long(books.n_books, len(books.norms)):
        aim = max(aim, rows_per_cell_aim(n_rows, long=True))
    return CELLS_GROWTH * max(aim, n_rows / MAX_CELLS)


def _default_recall(made: Calibration | None, n: int) -> tuple[bool, str]:
    """Whether the recall of a search by default is supported for n rows, and a text about such searches."""
    margin, depth, chosen = default_effort(K, n, made)
    try:
        effort(DEFAULT_RECALL, K, n, made)
    except InputError:
        return False, f"a search by default is {chosen}"
    assert made is not None
    if isinstance(made.rule(depth, margin, n, reranked=True), Covered):
        return True, f"supports {_BY_VECTORS}, the default"
    return False, f"searches by default ({_BY_VECTORS}) run exactly by code"


def calibration_state(made: Calibration | None, n: int) -> tuple[list[float], str]:
    """The targets that are calibrated for n rows, and a description."""
    if made is None:
        return [], "none"
    found = made.rule(10, DEFAULT, n)
    targets = made.targets(10, n)
    by = f"made for {made.n:,} rows with {made.queries:,} queries; there are {n:,} rows"
    if targets:
        return targets, f"valid for targets up to {targets[-1]:g} at k = 10: {by}"
    assert not isinstance(found, Covered)
    return [], f"not valid: {DEFAULT:g} {found.why} ({by})"


def calibration_advice(health: IndexHealth) -> list[str]:
    """To calibrate, if a search by default has no rule."""
    if (health.default_calibrated and health.calibrated) or not health.rows:
        return []
    if not health.calibrated:
        return ["calibrate(queries): until then searches with a margin below 1 are exact, which is slower"]
    if health.default == _BY_VECTORS:
        return [f"calibrate(queries), or use codes of more bytes: the calibration does not support {_BY_VECTORS}"]
    return [
        f"calibrate(queries), with {queries_needed(DEFAULT):,} queries or more: until then searches with the default "
        f"margin ({DEFAULT:g}) are exact, which is slower"
    ]


def counted(n: int, what: str) -> str:
    """A number and a noun."""
    return f"{n:,} {what}{'s' * (n != 1)}"


def as_text(summary: str, facts: list[tuple[str, str]], advice: list[str]) -> str:
    """A summary, facts by name, and what to do, one in each line."""
    facts = facts + [("to do" if i == 0 else "", text) for i, text in enumerate(advice or ["nothing"])]
    return "\n".join([summary, *(f"  {name:<13}{text}" for name, text in facts)])
