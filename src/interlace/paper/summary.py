"""Summaries of the results of a figure: means over seeds, gaps between two methods, effective lengths."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from ..errors import InputError
from ..evaluate.measures import effective_length
from .results import Result

#: Measures by name, with their keys in a JSON file.
MEASURES: dict[str, tuple[str, ...]] = {
    "map": ("map",),
    "map@100": ("map@100",),
    "precision@100": ("precision@100",),
    "error": ("relative_error",),
    "bytes": ("bytes",),
    "recall@1": ("recall@1",),
    "recall@10": ("recall@10",),
    "recall@100": ("recall@100",),
    "float": ("float", "map"),
    "two-step": ("searches", "two-step, 0.999", "ops"),
    "two-step exact": ("searches", "two-step, exact", "ops"),
    "two-step paper": ("searches", "two-step, paper", "ops"),
    "crude order": ("searches", "crude order, 0.999", "ops"),
    "crude order exact": ("searches", "crude order, exact", "ops"),
    "own": ("searches", "crude order, 0.999", "ops_in_cells"),
    "own exact": ("searches", "crude order, exact", "ops_in_cells"),
    "agreement": ("searches", "two-step, 0.999", "agreement"),
    "agreement in crude order": ("searches", "crude order, 0.999", "agreement"),
    "agreement of paper": ("searches", "two-step, paper", "agreement"),
    "psi": ("n_psi",),
}


@dataclass(frozen=True)
class Mean:
    """Mean of a measure over seeds."""

    value: float
    spread: float  #: standard deviation; 0 for one seed
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Mean of at least one value."""
        return cls(mean(values), stdev(values) if len(values) > 1 else 0.0, len(values))

    @property
    def noise(self) -> float:
        """Two standard errors; 0 for one seed, for which it is unknown."""
        return 2 * self.spread / math.sqrt(self.n)

    def text(self, places: int = 3) -> str:
        """``0.894 ± 0.003``."""
        spread = f" ± {self.spread:.{places}f}" if self.n > 1 else ""
        return f"{self.value:.{places}f}{spread}"


def value_of(result: Result, measure: str) -> float | None:
    """A measure of a result; None if the result does not have it."""
    if measure == "exhaustive":
        n_books = int(result["run"]["n_books"])
        return float(n_books) if n_books else None
    found: Any = result["measures"]
    for key in MEASURES[measure]:
        if not isinstance(found, dict) or key not in found:
            return None
        found = found[key]
    return float(found)


class Results:
    """Results of one figure. ``order`` lists its labels; other labels follow by name, those of ICQ first."""

    def __init__(self, results: Iterable[Result], order: Sequence[str] = ()) -> None:
        self._results, self._order = list(results), list(order)
        sums: dict[tuple[str, int], tuple[str, str]] = {}
        for result in self._results:
            run = result["run"]
            key, found = (run["data"], run["seed"]), (result["data"]["sha256"], f"{run['label']}, {run['n_books']}")
            if sums.setdefault(key, found)[0] != found[0]:
                raise InputError(
                    f"results of {run['figure']} on {run['data']}, seed {run['seed']} have different data: "
                    f"{sums[key][1]} books and {found[1]} books; move the older ones away and run again"
                )

    def __len__(self) -> int:
        return len(self._results)

    def by_seed(self) -> list[Results]:
        """The results of each seed."""
        return [
            Results((r for r in self._results if r["run"]["seed"] == seed), self._order)
            for seed in sorted(self._named("seed"))
        ]

    def _named(self, name: str) -> list[Any]:
        return list(dict.fromkeys(result["run"][name] for result in self._results))

    @property
    def data(self) -> list[str]:
        """Names of the data sets, sorted."""
        return sorted(self._named("data"))

    def data_name(self, data: str) -> str:
        """Source of a data set: ``vectors`` is ``sift`` or ``generated``."""
        return next(str(r["data"]["name"]) for r in self._results if r["run"]["data"] == data)

    def warned(self) -> dict[str, dict[str, int]]:
        """Number of fits of each label by warning, without the details of the warning."""
        found: dict[str, dict[str, int]] = {}
        for result in self._results:
            for what in {text.partition(" (")[0] for text in result.get("warnings", ())}:
                lines = found.setdefault(what, {})
                lines[result["run"]["label"]] = lines.get(result["run"]["label"], 0) + 1
        return dict(sorted(found.items()))

    def versions(self) -> list[str]:
        """Versions of interlace that made these results."""
        return sorted({str(result.get("versions", {}).get("interlace", "unknown")) for result in self._results})

    def labels(self, data: str | None = None, codes: bool = True) -> list[str]:
        """Labels in order; with ``codes=False`` those without books."""
        found = {
            result["run"]["label"]
            for result in self._results
            if data in (None, result["run"]["data"]) and bool(result["run"]["n_books"]) is codes
        }
        places = {label: place for place, label in enumerate(self._order)}
        return sorted(found, key=lambda label: (places.get(label, len(places)), not label.startswith("ICQ"), label))

    def books(self, data: str | None = None, label: str | None = None) -> list[int]:
        """Numbers of books, ascending, without baselines."""
        return sorted(
            {
                r["run"]["n_books"]
                for r in self._results
                if r["run"]["n_books"] and data in (None, r["run"]["data"]) and label in (None, r["run"]["label"])
            }
        )

    def of(self, data: str, label: str, n_books: int) -> dict[int, Result]:
        """Results by seed."""
        wanted = {"data": data, "label": label, "n_books": n_books}
        return {
            r["run"]["seed"]: r for r in self._results if all(r["run"][name] == value for name, value in wanted.items())
        }

    def mean(self, data: str, label: str, n_books: int, measure: str) -> Mean | None:
        """Mean over seeds; None if nothing was measured."""
        values = [value_of(result, measure) for result in self.of(data, label, n_books).values()]
        known = [value for value in values if value is not None]
        return Mean.of(known) if known else None

    def gap(
        self, data: str, n_books: int, ours: str, theirs: str, measure: str, their_measure: str | None = None
    ) -> Mean | None:
        """Mean of ours minus theirs over seeds that have both; None if there are none."""
        a, b = self.of(data, ours, n_books), self.of(data, theirs, n_books)
        pairs = [(value_of(a[s], measure), value_of(b[s], their_measure or measure)) for s in a.keys() & b.keys()]
        gaps = [x - y for x, y in pairs if x is not None and y is not None]
        return Mean.of(gaps) if gaps else None

    def effective_length(self, data: str, label: str, n_books: int, reference: str, of_theirs: str) -> float | None:
        """Code length with which the reference needs the same operations: l * ops / ops of the reference."""
        ours = self.mean(data, label, n_books, "two-step")
        theirs = self.mean(data, reference, n_books, of_theirs)
        return None if ours is None or theirs is None else effective_length(8 * n_books, ours.value, theirs.value)

    def at_length(self, data: str, label: str, bits: float, measure: str = "map") -> float | None:
        """A measure at any code length: linear in the logarithm between measured lengths, constant beyond them."""
        points = [(8 * k, self.mean(data, label, k, measure)) for k in self.books(data, label)]
        known = [(length, found.value) for length, found in points if found is not None]
        if not known:
            return None
        if bits <= known[0][0]:
            return known[0][1]
        for (a, low), (b, high) in zip(known, known[1:], strict=False):
            if bits <= b:
                return low + (high - low) * math.log(bits / a) / math.log(b / a)
        return known[-1][1]
