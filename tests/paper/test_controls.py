"""The controls: fits that check how to read the figures, and their section of the page."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

import interlace as il
from interlace.paper import controls
from interlace.paper.behind import attempt
from interlace.paper.figures import FIGURES, runs_of
from interlace.paper.page import controls_summary, controls_tables
from interlace.paper.provenance import Origin
from interlace.paper.report import page_text
from interlace.paper.results import ResultFolder
from interlace.paper.runs import Run
from interlace.paper.sizes import SIZES
from interlace.paper.summary import Results
from interlace.paper.tuning import GRIDS, SEED, tuned
from raising import raises
from reproduce_data import made

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
MAPS = {"ICQ": 0.5, "SQ+PQ": 0.6, "SQ+CQ": 0.55, "DPQ": 0.55}


def result_of(run: Run) -> dict[str, Any]:
    found = made(run.label, run.data, run.n_books, run.seed, figure=run.figure)
    value = MAPS.get(run.label, 0.52) + 0.001 * run.seed * run.label.startswith("ICQ")
    search = {"ops": 2.0, "ops_in_cells": 1.0, "agreement": 0.9, "map@100": value}
    found["measures"]["searches"] = {name: search for name in found["measures"]["searches"]}
    return found


def written(folder: Path) -> ResultFolder:
    store = controls.CONTROLS.store(folder)
    for run in controls.runs():
        found = result_of(run)
        store.write(run, {name: found[name] for name in ("data", "measures", "fit", "provenance", "warnings")})
    return store


class TestRuns:
    def test_every_fit_has_a_file_of_its_own_and_can_be_made(self) -> None:
        runs = controls.runs()
        assert len({(run.figure, run.name) for run in runs}) == len(runs)
        for run in runs:
            il.quantizers.method(run.method).make(
                n_books=run.n_books, recipe=il.Recipe(**dict(run.changes)), seed=run.seed
            )
        assert {run.figure for run in runs} == set(controls.GROUPS)
        assert {(run.figure, run.data) for run in runs} == set(controls.REFERENCES)

    def test_settings_are_those_of_the_tuning_swapped(self) -> None:
        (ours, theirs) = (controls.SWAPPED[f"ICQ, {controls.RATE}"], controls.SWAPPED[f"SQ+CQ, {controls.SCALE}"])
        for method, changes in controls.SWAPPED.values():
            assert set(changes) <= {*ours[1], *theirs[1]}
            assert all((change,) in GRIDS[method][:4] for change in changes)
        chosen = tuned(runs_of(FIGURES["real-sq"], SIZES["standard"], 1), ResultFolder(EXPERIMENTS / "results"))
        used = {(run.label, run.changes) for run in chosen if run.data == "cifar10-gist" and run.n_books > 1}
        assert used == {ours, theirs}

    def test_attempts_use_no_draw_of_a_figure(self) -> None:
        drawn = {run.seed for name in ("synthetic-pq", "ablation") for run in runs_of(FIGURES[name], SIZES["full"])}
        assert not {*drawn, SEED} & set(controls.DRAWS)


class TestPage:
    def test_the_section_and_the_tables_come_from_the_results(self, tmp_path: Path) -> None:
        found = controls.CONTROLS.figures_of(written(tmp_path))
        text = controls_summary(found)
        assert text.startswith("## Controls and attempts\n\nControls are of commit c0ffee (code beef);")
        assert "  | 2 | " in text
        assert "Dataset 1: 0.900 (2.00 ops) with 0.25, 0.900 (2.00 ops) with 1, 0.900 (2.00 ops) with 4" in text
        assert attempt(found, "synthetic2", 4).startswith("4: half of the books on psi, ")
        assert attempt(found, "text", 4).startswith("4: half of the books on psi, ")
        tables = controls_tables(found)
        for title in controls.GROUPS.values():
            assert f"**{title}**" in tables
        assert "| Dataset 2 | 4 | SQ+PQ | 0.600 ± 0.000 | 2.00 ± 0.00 | 3.0 ± 0.0 | - | - | 3 |" in tables
        assert controls_summary({}) == controls_tables({}) == ""

    def test_some_of_the_fits_are_enough(self) -> None:
        run = next(run for run in controls.runs() if run.figure == controls.MARGIN)
        text = controls_summary({controls.key(controls.MARGIN): Results([result_of(run)])})
        assert "Dataset 1: 0.900 (2.00 ops) with 1." in text
        assert "Is the lead" not in text

    def test_a_page_has_them_and_does_not_count_them_among_its_results(self, tmp_path: Path) -> None:
        written(tmp_path)
        (tmp_path / "synthetic-cq").mkdir()
        result = made() | {"provenance": Origin("abc", "other").to_dict()}
        (tmp_path / "synthetic-cq" / "one.json").write_text(json.dumps(result))
        text = page_text(ResultFolder(tmp_path), tmp_path / "RESULTS.md")
        assert "Results: 1 of commit abc (code other)." in text
        first, appendix = text.split("# Appendix")
        assert "- 186 of commit c0ffee (code beef), controls: " in first
        assert "Controls are of commit c0ffee (code beef)" in appendix

    def test_different_code_is_refused(self, tmp_path: Path) -> None:
        store = written(tmp_path)
        path = store.path(controls.runs()[0])
        path.write_text(path.read_text().replace("c0ffee", "decaf"))
        with raises(il.InputError, "1 of commit decaf"):
            controls.CONTROLS.figures_of(store)


class TestScript:
    def test_what_it_lists_and_prints(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        main = runpy.run_path(str(EXPERIMENTS / "controls.py"))["main"]
        assert main(["--list", "--results", str(tmp_path)]) == 0
        listed = capsys.readouterr().out.splitlines()
        assert len(listed) == len(controls.runs())
        assert all(line.startswith("-") for line in listed)
        written(tmp_path)
        assert main(["--list", "--results", str(tmp_path)]) == 0
        assert all(line.startswith("done") for line in capsys.readouterr().out.splitlines())
        assert main(["--results", str(tmp_path)]) == 0  # nothing is left to run
        assert "| CIFAR-10 (GIST) | 8 | ICQ, both | " in capsys.readouterr().out
