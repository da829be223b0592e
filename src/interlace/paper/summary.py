"""Summaries of the results of a figure: means over seeds, gaps between two methods, effective lengths."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from ..errors import InputError
from ..evaluate.measures import effective_length
from .provenance import Origin, origins, other_recipes
from .results import Result
from .statistics import t_quantile, two_sided

#: The operations that claims and figures are about: of the calibrated search of the library's index, for lists of 100.
OPS = "ops"
_OURS, _STORED = "crude order, 0.999", "two-step, 0.999"
#: Measures by name, with their keys in a JSON file. The last key that a result has is used: older results have no MAP
#: of the lists of each search, only that of the exhaustive scan of the same index.
#: MAP of the rows that a fit held out, by which it chose its epoch.
VALIDATION = "validation map"
MEASURES: dict[str, tuple[tuple[str, ...], ...]] = {
    "map": (("map",),),
    "map@100": (("map@100",), ("searches", _OURS, "map@100")),
    "precision@100": (("precision@100",),),
    "error": (("relative_error",),),
    "bytes": (("bytes",),),
    "recall@1": (("recall@1",),),
    "recall@10": (("recall@10",),),
    "recall@100": (("recall@100",),),
    "float": (("float", "map"),),
    "float@100": (("float", "map@100"),),
    OPS: (("searches", _OURS, "ops"),),
    "ops exact": (("searches", "crude order, exact", "ops"),),
    "agreement": (("searches", _OURS, "agreement"),),
    "in cells": (("searches", _OURS, "ops_in_cells"),),
    "in cells exact": (("searches", "crude order, exact", "ops_in_cells"),),
    "stored order": (("searches", _STORED, "ops"),),
    "stored order map@100": (("searches", _STORED, "map@100"),),
    "stored order map": (("two-step map",),),
    "paper ops": (("searches", "crude order, paper", "ops"),),
    "paper agreement": (("searches", "crude order, paper", "agreement"),),
    "codes sigma ops": (("searches", "crude order, paper, codes", "ops"),),
    "codes sigma agreement": (("searches", "crude order, paper, codes", "agreement"),),
    "psi": (("n_psi",),),
    "seconds": (("searches", _OURS, "seconds"),),
    "exhaustive seconds": (("exhaustive_seconds", "crude order"),),
}
#: Digits of a commit in tables.
COMMIT = 7
#: Measures in another unit than that of the JSON file.
FACTORS = {"milliseconds": ("seconds", 1e3), "exhaustive milliseconds": ("exhaustive seconds", 1e3)}


@dataclass(frozen=True)
class Mean:
    """Mean of a measure, or of paired differences, over seeds."""

    value: float
    spread: float  #: standard deviation; 0 for one seed
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Mean of at least one value."""
        return cls(mean(values), stdev(values) if len(values) > 1 else 0.0, len(values))

    @property
    def half(self) -> float:
        """Half of Student's 95 % interval of the mean; nan for one seed, for which it is unknown."""
        return t_quantile(self.n - 1) * self.spread / math.sqrt(self.n) if self.n > 1 else math.nan

    @property
    def p(self) -> float:
        """Probability of a mean this far from 0 if the true one is 0; nan for one seed."""
        if self.n < 2:
            return math.nan
        if self.spread == 0:
            return float(self.value == 0)
        return two_sided(self.value / (self.spread / math.sqrt(self.n)), self.n - 1)

    def sign(self, least: float = 0.0) -> int | None:
        """1 or -1 if the interval is above or below 0 and the mean at least ``least`` from it, else 0.

        None for one seed.
        """
        if self.n < 2:
            return None
        return 0 if abs(self.value) <= max(self.half, least) else 1 if self.value > 0 else -1

    def text(self, places: int = 3) -> str:
        """``0.894 ± 0.003``: the mean and the standard deviation."""
        spread = f" ± {self.spread:.{places}f}" if self.n > 1 else ""
        return f"{self.value:.{places}f}{spread}"

    def interval(self, places: int = 3) -> str:
        """``+0.012 [+0.004, +0.020]``: a difference and its interval."""
        low, high = self.value - self.half, self.value + self.half
        bounds = f" [{low:+.{places}f}, {high:+.{places}f}]" if self.n > 1 else " (one seed)"
        return f"{self.value:+.{places}f}{bounds}"


def value_of(result: Result, measure: str) -> float | None:
    """A measure of a result; None if the result does not have it."""
    if measure == "exhaustive":
        n_books = int(result["run"]["n_books"])
        return float(n_books) if n_books else None
    found: Any
    if measure == VALIDATION:
        found = result.get("fit", {}).get("validation_map")
        return None if found is None else float(found)
    name, factor = FACTORS.get(measure, (measure, 1.0))
    for keys in reversed(MEASURES[name]):
        found = result["measures"]
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            return factor * float(found)
    return None


def _untimed(measures: Any) -> Any:
    """Measures without seconds."""
    if isinstance(measures, dict):
        return {name: _untimed(value) for name, value in measures.items() if "seconds" not in name}
    return measures


class Results:
    """Results of one figure. ``order`` lists its labels; other labels follow by name, those of ICQ first."""

    def __init__(self, results: Iterable[Result], order: Sequence[str] = (), left_out: Sequence[str] = ()) -> None:
        self._results, self._order = list(results), list(order)
        self.left_out = list(left_out)  #: labels that were removed by :meth:`with_effect`
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
            Results((r for r in self._results if r["run"]["seed"] == seed), self._order, self.left_out)
            for seed in sorted(self._named("seed"))
        ]

    def only(self, data: str) -> Results:
        """The results of one data set."""
        return Results((r for r in self._results if r["run"]["data"] == data), self._order, self.left_out)

    def and_those(self, others: Results) -> Results:
        """These results and those of data sets that are not among them."""
        more = (r for r in others._results if r["run"]["data"] not in self.data)
        return Results([*self._results, *more], self._order, self.left_out)

    def with_effect(self, reference: str) -> Results:
        """Without variants of the reference whose measures equal its own in every fit: they measured nothing."""
        empty = [label for label in self.labels() if label != reference and self._equal(label, reference)]
        return Results((r for r in self._results if r["run"]["label"] not in empty), self._order, empty)

    def _equal(self, label: str, reference: str) -> bool:
        pairs = []
        for data in self.data:
            for k in self.books(data, label):
                ours, theirs = self.of(data, label, k), self.of(data, reference, k)
                if any(result["run"]["method"] != "ICQ" or seed not in theirs for seed, result in ours.items()):
                    return False
                pairs += [(result["measures"], theirs[seed]["measures"]) for seed, result in ours.items()]
        return bool(pairs) and all(_untimed(mine) == _untimed(other) for mine, other in pairs)

    def most_ops(self) -> dict[str, tuple[int, float, int]]:
        """Labels with more operations than books in some fits: the number of such fits, the most, and its books."""
        found: dict[str, tuple[int, float, int]] = {}
        for result in self._results:
            label, k, ops = result["run"]["label"], int(result["run"]["n_books"]), value_of(result, OPS)
            if k and ops is not None and ops > k * (1 + 1e-4):
                n, most, books = found.get(label, (0, 0.0, 0))
                found[label] = (n + 1, *max((most, books), (ops, k)))
        return found

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

    def shares_of_psi(self) -> list[tuple[dict[str, Any], float]]:
        """Run and share of the variance on psi, of every fit that has one and is no copy of another figure's."""
        found = [(r["run"], r.get("fit", {}).get("psi_share")) for r in self._results if "copied_from" not in r]
        return [(run, float(share)) for run, share in found if share is not None]

    def versions(self) -> list[str]:
        """Versions of interlace that made these results."""
        return sorted({str(result.get("versions", {}).get("interlace", "unknown")) for result in self._results})

    def origins(self) -> Counter[Origin]:
        """Number of results by the code that made them."""
        return origins(self._results)

    def other_recipes(self) -> dict[str, int]:
        """Number of results of each label with other values of the recipe than most."""
        return other_recipes(self._results)

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

    def commits(self, data: str, label: str, n_books: int) -> list[str]:
        """First digits of the commits of these results."""
        found = {Origin.of(result).commit[:COMMIT] for result in self.of(data, label, n_books).values()}
        return sorted(found)

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

    def pooled(
        self,
        ours: str,
        theirs: str,
        measure: str,
        their_measure: str | None = None,
        *,
        data: Sequence[str] | None = None,
        books: Callable[[int], bool] = lambda n: True,
    ) -> Mean | None:
        """Mean over seeds of ours minus theirs, averaged over the cases (data sets and books) that every seed has."""
        sets = self.data if data is None else [name for name in data if name in self.data]
        cases: list[dict[int, float]] = []
        for name in sets:
            for n_books in filter(books, self.books(name, ours)):
                a, b = self.of(name, ours, n_books), self.of(name, theirs, n_books)
                pairs = {
                    s: (value_of(a[s], measure), value_of(b[s], their_measure or measure)) for s in a.keys() & b.keys()
                }
                gaps = {s: x - y for s, (x, y) in pairs.items() if x is not None and y is not None}
                cases += [gaps] if gaps else []
        if not cases:
            return None
        seeds = sorted(set.intersection(*(set(gaps) for gaps in cases)))
        return Mean.of([mean(gaps[s] for gaps in cases) for s in seeds]) if seeds else None

    def effective_length(self, data: str, label: str, n_books: int, reference: str, of_theirs: str) -> float | None:
        """Code length with which the reference needs the same operations: l * ops / ops of the reference."""
        ours = self.mean(data, label, n_books, OPS)
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
