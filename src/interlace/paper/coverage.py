"""What was run: results and hours of each figure, its controls, and fits whose psi lost its variance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .figures import BASELINES, FIGURES, Figure, runs_of
from .names import title_of
from .results import Result, ResultFolder
from .runs import Run
from .sizes import SIZES, Size, size_of
from .summary import Results
from .tuning import FIGURE as TUNING
from .tuning import trials

COMPLETE, NOTHING = "complete", "not run"
#: Controls that are lines of a figure. The others are the baselines without codes, and the float embedding.
ONE_BOOK, CASCADE, FLOAT = "one book", "SQ+CQ", "float"
#: Figures that compare codes learned with labels.
WITHOUT_LABELS = ("codes",)
#: A psi with less than this share of the variance has lost it.
LEAST = 0.5


def coverage_table(store: ResultFolder) -> str:
    """For each figure and the tuning: how many of its runs have results, and which are missing."""
    size = size_of(store.size)
    rows = [_row(store, TUNING, trials(size), "")]
    rows += [_row(store, name, runs_of(figure, size), _left_out(figure, size)) for name, figure in FIGURES.items()]
    hours = {name: _hours(store.all(name)) for name in (TUNING, *FIGURES)}
    rows = [(row[0], row[1], f"{hours[row[0]]:.1f}", *row[2:]) for row in rows]
    lines = [
        "## What was run",
        "",
        "A figure in bold is incomplete: its verdicts and tables use the runs that there are. Hours are wall-clock "
        "time of fits and measures on a machine with other work, without results that are copies of another figure's: "
        f"{sum(hours.values()):.1f} in all.",
        "",
        "| figure | results | hours | missing | left out of this size |",
        "| --- | --- | --- | --- | --- |",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _row(store: ResultFolder, name: str, runs: Sequence[Run], left_out: str) -> tuple[str, ...]:
    there = [run for run in runs if store.path(run).exists()]
    missing = [run for run in runs if not store.path(run).exists()]
    count = f"{len(there)} of {len(runs)}"
    if not there:
        return name, f"**{NOTHING}** (0 of {len(runs)})", "everything", left_out or "-"
    if not missing:
        return name, f"{COMPLETE} ({count})", "-", left_out or "-"
    return name, f"**{count}**", _listed(missing), left_out or "-"


def _hours(found: Iterable[Result]) -> float:
    """Time of fits and measures; a copy took none."""
    return sum(float(result.get("seconds", 0.0)) for result in found if "copied_from" not in result) / 3600


def controls_of_figures(figures: Mapping[str, Results]) -> str:
    """Which controls each figure with labels has, by data set."""
    head = ("figure", "data", "one book", "SQ+CQ in our search", "float embedding", *BASELINES)
    rows = []
    for name, results in figures.items():
        for data in () if name in WITHOUT_LABELS else results.data:
            labels = {*results.labels(data), *results.labels(data, codes=False)}
            has_float = any(results.mean(data, label, k, FLOAT) for label in labels for k in results.books(data, label))
            has = (ONE_BOOK in labels, CASCADE in labels, has_float, *(label in labels for label in BASELINES))
            if not labels <= {*BASELINES} and data != "vectors":
                rows.append((name, title_of(results, data), *("yes" if one else "**no**" for one in has)))
    if not rows:
        return ""
    lines = [
        "## Controls of each figure",
        "",
        "PROTOCOL.md says why some are missing.",
        "",
        *(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)),
    ]
    return "\n".join(lines) + "\n"


def lost_psi(figures: Mapping[str, Results]) -> str:
    """How many fits end with a psi that holds little of the variance."""
    whole, lost = 0, dict[str, int]()
    for name, results in figures.items():
        for run, share in results.shares_of_psi():
            whole += 1
            if share < LEAST:
                where = f"{run['label']}, {run['n_books']} books, {title_of(results, run['data'])} in `{name}`"
                lost[where] = lost.get(where, 0) + 1
    if not whole:
        return ""
    listed = "; ".join(f"{where} ({n})" for where, n in lost.items())
    told = f"**psi can lose variance while learning**: {sum(lost.values())} of the {whole} fits with a psi"
    return f"{told} end with less than half of the variance on it{': ' if listed else ''}{listed}.\n"


def _listed(runs: Sequence[Run]) -> str:
    """Data sets with the seeds of their missing runs."""
    seeds: dict[str, set[int]] = {}
    for run in runs:
        seeds.setdefault(run.data, set()).add(run.seed)
    return "; ".join(f"{data}: some of seed {', '.join(map(str, sorted(found)))}" for data, found in seeds.items())


def _left_out(figure: Figure, size: Size) -> str:
    """Data sets and numbers of books that only the full size has."""
    whole, mine = (runs_of(figure, one, 1) for one in (SIZES["full"], size))
    texts = [data for data in dict.fromkeys(run.data for run in whole) if data not in {run.data for run in mine}]
    books = sorted({run.n_books for run in whole} - {run.n_books for run in mine})
    return "; ".join(texts + ([f"K = {', '.join(map(str, books))}"] if books else []))
