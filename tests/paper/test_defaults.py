"""Fits that decide whether a default should change, and the parts of the page about commits, controls and psi."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import interlace as il
from interlace.paper import defaults
from interlace.paper.behind import attempt
from interlace.paper.commits import other_commits
from interlace.paper.controls import GAP, HELD_OUT
from interlace.paper.coverage import controls_of_figures, lost_psi
from interlace.paper.defaults import DEFAULTS, GROUPS, RATES, REFERENCES
from interlace.paper.figures import FIGURES, runs_of
from interlace.paper.page import attempts_summary, defaults_summary
from interlace.paper.results import ResultFolder
from interlace.paper.runs import Run
from interlace.paper.sizes import SIZES
from interlace.paper.summary import Results
from interlace.paper.tuning import GRIDS, SEED
from reproduce_data import made

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


def written(folder: Path) -> ResultFolder:
    """Every fit, MAP@100 .5 with the defaults and .52 with other settings."""
    store = DEFAULTS.store(folder)
    for run in defaults.runs():
        found = made(run.label, run.data, run.n_books, run.seed, figure=run.figure)
        search = {"ops": 2.0, "ops_in_cells": 1.0, "agreement": 0.9, "map@100": 0.5 if run.label == "ICQ" else 0.52}
        found["measures"]["searches"] = {name: search for name in found["measures"]["searches"]}
        store.write(run, {name: found[name] for name in ("data", "measures", "fit", "provenance", "warnings")})
    return store


class TestRuns:
    def test_every_fit_has_a_file_of_its_own_and_a_line_to_compare_with(self) -> None:
        runs = defaults.runs()
        assert len({(run.figure, run.name) for run in runs}) == len(runs)
        assert {run.figure for run in runs} == set(GROUPS)
        assert {(run.figure, run.data) for run in runs} == set(REFERENCES)
        for run in runs:
            il.quantizers.method(run.method).make(n_books=run.n_books, recipe=il.Recipe(**dict(run.changes)))

    def test_settings_are_in_the_budget_of_the_tuning(self) -> None:
        tried = [changes for _, changes in (*defaults.SETTINGS.values(), *defaults.MORE.values())]
        assert set(tried) <= set(GRIDS["ICQ"][:4])

    def test_draws_are_those_of_no_figure(self) -> None:
        drawn = {run.seed for name in ("synthetic-pq", "unseen") for run in runs_of(FIGURES[name], SIZES["full"])}
        used = {run.seed for run in defaults.runs() if run.figure in (GAP, RATES)}
        assert not {*drawn, SEED} & used


class TestPage:
    def test_tables_come_from_the_results(self, tmp_path: Path) -> None:
        found = DEFAULTS.figures_of(written(tmp_path))
        told = defaults_summary(found)
        assert "| rate_embedding = 0.001 | Dataset 1 | 8 | +0.020 [+0.020, +0.020] | 2.00 | 3.0 | 3 | c0ffee |" in told
        assert "| axes not levelled | text vectors | 4 | +0.020 " in told
        assert "| Dataset 2 | 16 | +0.020 " in attempts_summary(found)
        assert attempt(found, "synthetic3", 16).startswith("16: half of the books on psi, ")
        assert defaults_summary({}) == ""

    def test_commits_are_listed_with_their_uses(self, tmp_path: Path) -> None:
        found = DEFAULTS.figures_of(written(tmp_path))
        told = other_commits(found, {"published": Results([made()])}, [made(), made()])
        lines = [line.partition(",")[0] for line in told.splitlines() if line.startswith("- ")]
        n = len(defaults.runs())
        assert lines == [f"- {count} of commit c0ffee (code beef)" for count in (n, 1, 2)]
        assert other_commits({}, {}, []) == ""

    def test_every_commit_of_a_result_that_the_page_uses_is_on_it(self) -> None:
        page = (EXPERIMENTS / "RESULTS.md").read_text().split("## The claims")[0]
        figures = {*FIGURES, "tuning", "controls", "attempts", "defaults", "full", "pqn-ablation"}
        paths = (path for name in figures for path in (EXPERIMENTS / "results" / name).rglob("*.json"))
        commits = {json.loads(path.read_text())["provenance"]["commit"][:12] for path in paths}
        assert len(commits) > 4
        assert all(commit in page for commit in commits)


def line(label: str, n_books: int, share: float | None = None, **measures: Any) -> dict[str, Any]:
    found = made(label, n_books=n_books, **measures)
    return found | {"fit": {**found["fit"], "psi_share": share}}


class TestControls:
    def test_a_missing_control_is_shown(self) -> None:
        results = Results([line("ICQ", 4), line("SQ+CQ", 4), line("class topline", 0)])
        row = "| synthetic-cq | Dataset 1 | **no** | yes | yes | yes | **no** | **no** |"
        assert row in controls_of_figures({"synthetic-cq": results})
        assert controls_of_figures({"codes": results}) == ""

    def test_fits_that_lost_psi_are_counted_without_copies(self) -> None:
        fits = [line("ICQ", 4, 0.4), line("ICQ", 8, 0.9), line("SQ+CQ", 8), line("ICQ", 16, 0.1)]
        fits[-1]["copied_from"] = "real-sq"
        told = lost_psi({"synthetic-cq": Results(fits)})
        assert "1 of the 2 fits with a psi" in told
        assert "ICQ, 4 books, Dataset 1 in `synthetic-cq` (1)" in told
        assert lost_psi({}) == ""


def test_held_out_fits_use_no_test_query() -> None:
    """The runner holds training rows out for a group with this name."""
    assert HELD_OUT == "tuning"
    kept: list[Run] = [run for run in defaults.runs() if run.data in defaults.KEPT]
    assert {run.figure for run in kept} == {HELD_OUT}
