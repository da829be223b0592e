"""Fits outside of the figures, made at another commit than these: a folder of their own, with groups like figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .names import title
from .results import Result, ResultFolder
from .runs import Run
from .summary import Mean, Results

#: Columns of a table: heading, measure, decimal places.
Columns = tuple[tuple[str, str, int], ...]
LISTS: Columns = (("MAP@100", "map@100", 3), ("ops", "ops", 2), ("psi", "psi", 1))


@dataclass(frozen=True)
class Study:
    """Groups of fits in one folder, which one commit has made."""

    folder: str  #: below that of the figures
    titles: Mapping[str, str]  #: of the tables, by group
    runs: Callable[[], list[Run]]  #: every planned fit, the most informative first
    references: Mapping[tuple[str, str], str]  #: the line that others are compared with, by group and data set
    columns: Mapping[str, Columns] = field(default_factory=dict)  #: of groups that have others than LISTS

    def key(self, group: str) -> str:
        """The name of a group among the figures."""
        return f"{self.folder}/{group}"

    def store(self, results: Path) -> ResultFolder:
        """Its folder, below that of the figures."""
        return ResultFolder(results / self.folder)

    def everything(self, store: ResultFolder) -> list[Result]:
        """All results; raises if different code made them."""
        return store.every(self.titles)

    def results_of(self, store: ResultFolder, group: str) -> Results:
        """The results of one group, lines in order."""
        order = dict.fromkeys(run.label for run in self.runs() if run.figure == group)
        return Results(store.all(group), list(order))

    def figures_of(self, store: ResultFolder) -> dict[str, Results]:
        """The groups that have results, by their key; raises if different code made them."""
        self.everything(store)
        found = {self.key(group): self.results_of(store, group) for group in self.titles}
        return {name: results for name, results in found.items() if len(results)}

    def table(self, results: Results, group: str) -> str:
        """Every line of a group, with its paired difference in MAP@100 to the line that it is compared with."""
        columns = self.columns.get(group, LISTS)
        head = ("data", "K", "line", *(name for name, _, _ in columns), "MAP@100 minus", "difference", "seeds")
        rows = []
        for data in results.data:
            for n_books in results.books(data):
                for label in results.labels(data):
                    if found := results.of(data, label, n_books):
                        cells = (_cell(results.mean(data, label, n_books, measure), n) for _, measure, n in columns)
                        other = self.references[group, data]
                        gap = None if label == other else results.gap(data, n_books, label, other, "map@100")
                        against = ("-", "-") if gap is None else (other, gap.interval())
                        rows.append((title(data), str(n_books), label, *cells, *against, str(len(found))))
        return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows))


def _cell(found: Mean | None, places: int) -> str:
    return "-" if found is None else found.text(places)
