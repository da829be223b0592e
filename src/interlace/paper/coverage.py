"""Which runs of a size have results, and what the size leaves out: the page says what was not run."""

from __future__ import annotations

from collections.abc import Sequence

from .figures import FIGURES, Figure, runs_of
from .results import ResultFolder
from .runs import Run
from .sizes import SIZES, Size, size_of
from .tuning import FIGURE as TUNING
from .tuning import trials

COMPLETE, NOTHING = "complete", "not run"


def coverage_table(store: ResultFolder) -> str:
    """For each figure and the tuning: how many of its runs have results, and which are missing."""
    size = size_of(store.size)
    rows = [_row(store, TUNING, trials(size), "")]
    rows += [_row(store, name, runs_of(figure, size), _left_out(figure, size)) for name, figure in FIGURES.items()]
    lines = [
        "## What was run",
        "",
        "A figure in bold is incomplete: its verdicts and tables use the runs that there are.",
        "",
        "| figure | results | missing | left out of this size |",
        "| --- | --- | --- | --- |",
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
