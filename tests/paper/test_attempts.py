"""The attempts, the ablation of PQN, and fits that two databases share."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import interlace as il
from interlace.paper import attempts, runner
from interlace.paper.attempts import ATTEMPTS, CROSS_ENTROPY, GROUPS, PROTOCOLS, REFERENCES
from interlace.paper.behind import attempt
from interlace.paper.figures import FIGURES, runs_of
from interlace.paper.page import attempts_summary, protocols_table
from interlace.paper.pqn_study import ablation, ablation_table
from interlace.paper.problem import Problem
from interlace.paper.results import ResultFolder
from interlace.paper.runner import run_all
from interlace.paper.runs import Run
from interlace.paper.sizes import SIZES
from raising import raises
from reproduce_data import made

RESULTS = Path(__file__).parents[2] / "experiments" / "results"
MAPS = {"ICQ": 0.5, "SQ+PQ": 0.6, "SQ+CQ": 0.55, "DPQ (CNN)": 0.7, "ICQ (CNN)": 0.6, CROSS_ENTROPY: 0.65}


def result_of(run: Run) -> dict[str, Any]:
    found = made(run.label, run.data, run.n_books, run.seed, figure=run.figure)
    value = MAPS.get(run.label, 0.52)
    search = {"ops": 2.0, "ops_in_cells": 1.0, "agreement": 0.9, "map@100": value}
    found["measures"]["searches"] = {name: search for name in found["measures"]["searches"]}
    return found | {"fit": {**found["fit"], "validation_map": value - 0.1}}


def written(folder: Path) -> ResultFolder:
    store = ATTEMPTS.store(folder)
    for run in attempts.runs():
        found = result_of(run)
        store.write(run, {name: found[name] for name in ("data", "measures", "fit", "provenance", "warnings")})
    return store


class TestRuns:
    def test_every_fit_has_a_file_of_its_own_and_a_line_to_compare_with(self) -> None:
        runs = attempts.runs()
        assert len({(run.figure, run.name) for run in runs}) == len(runs)
        assert {run.figure for run in runs} == set(GROUPS)
        assert {(run.figure, run.data) for run in runs} == set(REFERENCES)

    def test_attempts_use_no_draw_of_a_figure(self) -> None:
        for name in ("synthetic-pq", "unseen"):
            drawn = {run.seed for run in runs_of(FIGURES[name], SIZES["full"])}
            assert not drawn & {*attempts.DRAWS, *attempts.CLASSES}

    def test_protocols_have_the_recipe_of_the_figure(self) -> None:
        figure = {run.label: run for run in runs_of(FIGURES["published"], SIZES["full"]) if run.data == "cifar10-59k"}
        for run in attempts.runs():
            if run.figure == PROTOCOLS and run.label != CROSS_ENTROPY:
                assert dataclasses.replace(run, data="cifar10-59k", seed=0) == figure[run.label]


class TestPage:
    def test_tables_come_from_the_results(self, tmp_path: Path) -> None:
        found = ATTEMPTS.figures_of(written(tmp_path))
        assert "| DPQ (CNN) | " in protocols_table(found)
        assert "| Dataset 1 | 4 | +0.020 [+0.020, +0.020] | 2.00 | 3.0 | 3 | c0ffee |" in attempts_summary(found)
        text = attempt(found, "cifar10-54k", attempts.BOOKS)
        assert text.startswith("6: cross-entropy, -0.050 [")
        assert text.endswith("by the MAP of held-out images")
        assert protocols_table({}) == attempts_summary({}) == ""

    def test_the_ablation_is_a_table(self, tmp_path: Path) -> None:
        assert ablation_table(ablation(tmp_path), {}) == ""
        (tmp_path / "pqn-ablation").mkdir()
        for name in ("cross-entropy", "pqn-warm"):
            text = (RESULTS / "pqn-ablation" / f"{name}.json").read_text()
            (tmp_path / "pqn-ablation" / f"{name}.json").write_text(text)
        table = ablation_table(ablation(tmp_path), {})
        accuracy = json.loads((tmp_path / "pqn-ablation" / "cross-entropy.json").read_text())
        assert f"| 36 | {accuracy['measures']['accuracy']:.3f} | " in table
        accuracy["provenance"]["code"] = "other"
        (tmp_path / "pqn-ablation" / "cross-entropy.json").write_text(json.dumps(accuracy))
        with raises(il.InputError, "mixes results of different code"):
            ablation(tmp_path)


class TestSharedFits:
    @staticmethod
    def runs(*data: str) -> list[Run]:
        return [
            Run(label="ICQ", method="ICQ", figure=PROTOCOLS, data=name, n_books=2, changes=(("warm_up", 1),))
            for name in data
        ]

    @pytest.fixture
    def fits(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Names of the data that were fitted; the databases are parts of a small set."""
        whole = il.data.synthetic(2, 0)
        assert whole.labels is not None
        assert whole.query_labels is not None
        rows, labels = whole.x[:900], whole.labels[:900]
        learn = rows[:400], whole.queries[:60], labels[:400], whole.query_labels[:60]

        def load(name: str, *others: Any) -> Problem:
            first = 0 if name == "cifar10-59k" else 400
            return Problem(name, *learn, rows[first:], labels[first:])

        fitted: list[str] = []
        before = runner._Worker.fitted

        def counted(self: Any, run: Run, problem: Problem) -> Any:
            fitted.append(run.data)
            return before(self, run, problem)

        monkeypatch.setattr(runner, "load", load)
        monkeypatch.setattr(runner._Worker, "fitted", counted)
        return fitted

    def test_one_fit_is_measured_in_both_databases(self, fits: list[str], tmp_path: Path) -> None:
        store, runs = ResultFolder(tmp_path, "tiny"), self.runs("cifar10-54k", "cifar10-59k")
        outcome = run_all(runs, store, SIZES["tiny"])
        assert fits == ["cifar10-54k"]
        assert outcome.done == runs
        few, many = (store.read(run) for run in runs)
        assert few is not None
        assert many is not None
        assert few["fit"] == many["fit"]
        assert (few["data"]["database"], many["data"]["database"]) == (500, 900)
        assert few["measures"]["map"] != many["measures"]["map"]
        assert not list(tmp_path.rglob("*.running"))

    def test_a_database_that_is_missing_is_fitted_alone(self, fits: list[str], tmp_path: Path) -> None:
        store, (first, second) = ResultFolder(tmp_path, "tiny"), self.runs("cifar10-54k", "cifar10-59k")
        run_all([first], store, SIZES["tiny"])
        outcome = run_all([first, second], store, SIZES["tiny"])
        assert fits == ["cifar10-54k", "cifar10-59k"]
        assert (outcome.there, outcome.done) == ([first], [second])

    def test_other_sets_are_fitted_one_by_one(self, fits: list[str], tmp_path: Path) -> None:
        run_all(self.runs("synthetic1", "synthetic2"), ResultFolder(tmp_path, "tiny"), SIZES["tiny"])
        assert fits == ["synthetic1", "synthetic2"]
