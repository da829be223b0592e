"""One budget for every line: equal numbers of fits on training rows, enforced before figures run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import interlace as il
from interlace.paper import runner, tuning
from interlace.paper.figures import FIGURES, HEAD, runs_of
from interlace.paper.page import tuning_table
from interlace.paper.problem import Problem
from interlace.paper.results import ResultFolder
from interlace.paper.runs import Run
from interlace.paper.sizes import SIZES
from raising import raises
from reproduce_data import made

FULL, STANDARD = SIZES["full"], SIZES["standard"]


def kept(store: ResultFolder, family: str, method: str, scores: list[float]) -> None:
    for number, score in enumerate(scores):
        run = tuning._trial(family, method, number)
        result = made(map=score)
        store.write(run, {name: result[name] for name in ("data", "measures", "fit", "provenance", "warnings")})


def test_every_line_has_the_same_budget_and_no_setting_twice() -> None:
    for family in tuning.DATA:
        for method, grid in tuning.grids(family).items():
            assert len(grid) == tuning.MOST, method
            assert len({*map(frozenset, grid)}) == tuning.MOST, method
            assert grid[0] == ()
            for changes in grid:
                il.Recipe(**dict(changes))
    for size in (FULL, STANDARD):
        runs = tuning.trials(size)
        lines = sum(len(tuning.lines(family, size)) for family in tuning.DATA)
        assert len(runs) == len({run.name for run in runs}) == size.budget * lines
        assert size.budget <= tuning.MOST
    # Setting by setting, so that an interruption leaves no line ahead by more than one.
    done: dict[str, int] = {}
    for run in tuning.trials(STANDARD, ["linear"]):
        done[run.method] = done.get(run.method, 0) + 1
        assert max(done.values()) - min(done.get(m, 0) for m in tuning.lines("linear", STANDARD)) <= 1


def test_every_tuned_line_of_a_figure_has_a_grid() -> None:
    for name in tuning.FIGURES:
        lines = {(run.data, run.method) for run in runs_of(FIGURES[name], FULL, 1) if tuning.family_of(run)}
        assert lines
        assert {tuning.family_of(run) for run in runs_of(FIGURES[name], FULL, 1)} <= {*tuning.DATA, None}
    ablation = runs_of(FIGURES["ablation"], FULL, 1)
    assert {tuning.family_of(run) for run in ablation} == {None}


def test_no_test_query_is_used() -> None:
    x, labels = np.arange(100.0, dtype=np.float32)[:, None], np.arange(100) % 3
    whole = Problem("p", x, -1 - x[:7], labels, labels[:7])
    found = tuning.held_out(whole)
    assert len(found.x) + len(found.queries) == 100
    assert not {*found.x[:, 0].tolist()} & {*found.queries[:, 0].tolist()}
    assert min(found.queries.min(), found.x.min()) >= 0
    assert (found.labels == found.x[:, 0] % 3).all()
    assert (found.query_labels == found.queries[:, 0] % 3).all()


def test_the_best_setting_is_used_and_unequal_budgets_are_refused(tmp_path: Path) -> None:
    store = ResultFolder(tmp_path, "full")
    runs = runs_of(FIGURES["synthetic-cq"], FULL, 1)
    assert tuning.tuned(runs, store) == runs  # nothing was tuned
    kept(store, "synthetic", "ICQ", [0.1, 0.2, 0.9, 0.3, 0.9, 0.1, 0.1, 0.1])
    with raises(il.InputError, "8 tuning fits", "ICQ 8", "SQ+CQ 0", "--untuned"):
        tuning.tuned(runs, store)
    kept(store, "synthetic", "SQ+CQ", [0.5] * 3)
    with raises(il.InputError, "SQ+CQ 3"):
        tuning.tuned(runs, store)
    kept(store, "synthetic", "SQ+CQ", [0.5] * 8)
    for before, after in zip(runs, tuning.tuned(runs, store), strict=True):
        expected = {"ICQ": {"error": 0.05}, "SQ+CQ": {}}.get(before.label, dict(before.changes))
        assert dict(after.changes) == expected
        assert after.name == before.name


def test_heads_keep_their_length(tmp_path: Path) -> None:
    store = ResultFolder(tmp_path, "full")
    run = next(run for run in runs_of(FIGURES["pqn"], FULL, 1) if run.label == "PQN" and run.data == "mnist-lenet")
    kept(store, "heads", "PQN", [0.1] * 7 + [0.2])
    (found,) = tuning.tuned([run], store)
    assert dict(found.changes) == dict(HEAD) | {"rate_embedding": 1e-3, "softness": 1.0}
    rows = tuning.table(store)
    assert rows == [("heads", "PQN", "8", "rate_embedding = 0.001, softness = 1", "0.200", "0.100")]
    assert "| heads | PQN | 8 |" in tuning_table(rows, 8)
    assert tuning_table([], 8) == ""


def test_a_tuning_fit_is_a_run_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("torch")
    tiny = SIZES["tiny"]
    store = ResultFolder(tmp_path, "tiny")
    run = tuning.trials(tiny, ["synthetic"])[1]
    outcome = runner.run_all([run], store, tiny, debug=True)
    assert outcome.done == [run]
    result = store.read(run)
    assert result is not None
    assert (result["data"]["rows"], result["data"]["queries"]) == (640, 160)
    assert json.loads(store.path(run).read_text())["run"]["figure"] == "tuning"


def test_no_run_starts_after_the_hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [
        Run(label=name, method="random codes", figure="synthetic-cq", data="synthetic1", n_books=0, seed=seed)
        for name, seed in (("a", 0), ("b", 0), ("c", 0))
    ]
    pytest.importorskip("sklearn")
    hours = iter([0.0, 0.5, 2.0])
    monkeypatch.setattr(runner._Clock, "hours", property(lambda self: next(hours)))
    told: list[str] = []
    monkeypatch.setattr(runner, "BASELINES", ("random codes",))
    outcome = runner.run_all(runs, ResultFolder(tmp_path, "tiny"), SIZES["tiny"], hours=1.0, say=told.append)
    assert (outcome.done, outcome.left) == (runs[:2], runs[2:])
    assert "1 hours are over: 1 runs are left; run the same command again to continue" in told
