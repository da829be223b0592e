"""`interlace reproduce` from end to end at the smallest size: what it writes, a kill, Ctrl-C, plugins, bad input."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from interlace import cli
from interlace.paper import runner, sources
from interlace.paper.figures import FIGURES, runs_of
from interlace.paper.problem import Problem
from interlace.paper.provenance import current
from interlace.paper.results import ResultFolder
from interlace.paper.runner import run_all
from interlace.paper.runs import Run
from interlace.paper.sizes import SIZES
from interlace.quantizers import methods, register, unregister

ROOT = Path(__file__).parents[2]
TINY = SIZES["tiny"]
TINY_RUN = ("--size", "tiny", "--threads", "1")
#: Of synthetic-cq: both methods with 2 and 4 books, exact cross terms, two baselines.
RUNS = 9

pytest.importorskip("torch", reason="the train extra is not installed")
pytest.importorskip("sklearn", reason="the synthetic sets are made by scikit-learn")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command in an empty folder -> exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*args: Any) -> tuple[int, str, str]:
        code = cli.main(["reproduce", *map(str, args)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


KILLED = """
import os, signal, sys
from interlace import cli
from interlace.paper.results import ResultFolder
write, written = ResultFolder.keep, []

def killed(*arguments):
    written.append(write(*arguments))
    if len(written) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return written[-1]

ResultFolder.keep = killed
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of synthetic-cq at the smallest size: made by a process that was killed, and by one that went on."""
    folder = tmp_path_factory.mktemp("reproduce")
    environment = {**os.environ, "PYTHONPATH": str(Path(il.__file__).resolve().parents[1])}
    command = [sys.executable, "-c", KILLED, "reproduce", "synthetic-cq", *TINY_RUN, "--out", "out"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    before = {path: path.read_bytes() for path in folder.glob("out/synthetic-cq/*.json")}
    assert len(before) == 2 < RUNS
    here = os.getcwd()
    os.chdir(folder)
    try:
        assert cli.main(["reproduce", "synthetic-cq", *TINY_RUN, "--out", "out", "--report"]) == 0
    finally:
        os.chdir(here)
    assert {path: path.read_bytes() for path in before} == before
    return folder / "out"


class TestFinished:
    def test_every_run_has_its_json_and_nothing_else_is_left(self, finished: Path) -> None:
        names = {path.name for path in (finished / "synthetic-cq").iterdir()}
        wanted = {f"{run.name}.json" for run in runs_of(FIGURES["synthetic-cq"], TINY)}
        assert names == wanted | {"synthetic-cq.png"}
        assert len(wanted) == RUNS

    def test_the_json_has_all_that_tables_need(self, finished: Path) -> None:
        for path in (finished / "synthetic-cq").glob("*-icq-4-*.json"):
            result = json.loads(path.read_text())
            assert result["run"]["n_books"] == 4
            found = result["measures"]
            assert {"map", "map@100", "precision@100", "relative_error", "float", "searches", "bytes"} <= found.keys()
            for order in ("two-step", "crude order"):
                for margin in ("0.999", "exact"):
                    search = found["searches"][f"{order}, {margin}"]
                    assert 0 < search["ops"] <= 4
                    assert 0.9 < search["agreement"] <= 1
                    assert 0 < search["map@100"] <= 1
                    assert search["seconds"] >= 0
            assert result["provenance"] == current().to_dict()
            assert result["fit"]["recipe"]["name"] == "default"
            assert result["data"]["rows"] == 800
            assert len(result["data"]["sha256"]) == 64
            assert result["versions"]["interlace"] == il.__version__
            assert result["fit"]["epochs"] == 3
            assert 0 <= result["fit_seconds"] <= result["seconds"]  # the one is a part of the other

    def test_learning_beats_random_codes(self, finished: Path) -> None:
        def found(name: str) -> float:
            return float(
                json.loads((finished / "synthetic-cq" / f"synthetic1-{name}-seed0.json").read_text())["measures"]["map"]
            )

        assert found("icq-4") > 2 * found("random-codes-0")
        assert found("class-topline-0") > 2 * found("random-codes-0")

    def test_a_second_run_does_nothing(self, finished: Path, run: Any) -> None:
        before = {path: path.stat().st_mtime_ns for path in finished.rglob("*.json")}
        code, out, err = run("synthetic-cq", *TINY_RUN, "--out", finished)
        assert code == 0
        assert f"0 runs done, {RUNS} skipped, 0 failed" in out
        assert err == ""
        table = out[out.index("Dataset 1\n") :].splitlines()
        assert table[1].split() == ["K", "MAP@100", "ops", "MAP", "error", "psi", "seeds"]
        names = [line.split()[0] for line in table[2 : 2 + RUNS]]
        assert names == ["ICQ", "ICQ", "SQ+CQ", "SQ+CQ", "SQ+CQ", "one", "class", "known", "random"]
        assert all(len(line) <= 80 for line in table[: 2 + RUNS])
        assert "claims (size tiny: not representative)" in out
        assert "not measured: 1 of 7, which need more runs" in out
        assert {path: path.stat().st_mtime_ns for path in finished.rglob("*.json")} == before

    def test_the_report_is_there(self, finished: Path) -> None:
        text = (finished / "RESULTS.md").read_text()
        assert "![ICQ and SQ+CQ on Datasets 1-3](synthetic-cq/synthetic-cq.png)" in text
        assert "| ICQ | 4 |" in text
        assert "| random codes |" in text

    def test_list_tells_what_is_there(self, finished: Path, run: Any) -> None:
        lines = run("synthetic-cq", "--list", *TINY_RUN, "--out", finished)[1].splitlines()
        assert len(lines) == RUNS
        assert all(line.startswith("done") for line in lines)
        missing = run("synthetic-cq", "--list", *TINY_RUN)[1].splitlines()
        assert all(line.startswith("-") for line in missing)

    def test_another_figure_takes_the_same_fits(self, finished: Path, tmp_path: Path, monkeypatch: Any) -> None:
        store = ResultFolder(tmp_path, "tiny")
        (tmp_path / "synthetic-cq").mkdir()
        for path in (finished / "synthetic-cq").glob("*.json"):
            (tmp_path / "synthetic-cq" / path.name).write_bytes(path.read_bytes())
        wanted = [run for run in runs_of(FIGURES["synthetic-pq"], TINY) if run.method != "SQ+PQ"]
        monkeypatch.setattr(runner, "load", lambda *_: pytest.fail("something was fitted"))
        outcome = run_all(wanted, store, TINY)
        assert outcome.copied == wanted
        copied = store.read(wanted[0])
        assert copied is not None
        assert copied["copied_from"] == "synthetic-cq"
        assert copied["run"]["figure"] == "synthetic-pq"

    def test_no_resume_never_overwrites(self, finished: Path, run: Any) -> None:
        code, _, err = run("synthetic-cq", "--no-resume", *TINY_RUN, "--out", finished)
        assert code == 1
        assert f"has results of {RUNS} of these runs" in err

    def test_results_of_another_size_are_refused(self, finished: Path, run: Any) -> None:
        code, _, err = run("synthetic-cq", "--quick", "--out", finished)
        assert code == 1
        assert "size 'tiny', this run has size 'quick'" in err


def only(method: str, n_books: int = 2, **changes: Any) -> Run:
    values = {"label": method, "method": method, "figure": "synthetic-cq", "data": "synthetic1", "n_books": n_books}
    return Run(**values | changes)


class TestRunner:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = np.random.default_rng(0)
        labels = rng.integers(0, 3, 400)
        rows = (3 * rng.normal(size=(3, 8))[labels] + rng.normal(size=(400, 8))).astype(np.float32)

        def load(name: str, *_: Any) -> Problem:
            if name == "mnist":
                raise FileNotFoundError("mnist/train-images was not found in here")
            return Problem(name, rows[:240], rows[240:], labels[:240], labels[240:])

        monkeypatch.setattr(runner, "load", load)

    def test_ctrl_c_leaves_what_is_finished(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store, runs = ResultFolder(tmp_path, "tiny"), [only("SQ+PQ"), only("SQ+CQ", 4)]
        fit = il.quantizers.SQ.fit

        def interrupted(self: Any, *args: Any) -> Any:
            if self.quantizer == "cq":
                raise KeyboardInterrupt
            return fit(self, *args)

        monkeypatch.setattr(il.quantizers.SQ, "fit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_all(runs, store, TINY, threads=1)
        assert store.missing(runs) == [runs[1]]

    def test_a_fit_that_ctrl_c_ended_early_is_not_a_result(self, tmp_path: Path, monkeypatch: Any) -> None:
        store, fit = ResultFolder(tmp_path, "tiny"), il.quantizers.SQ.fit

        def ended(self: Any, *args: Any) -> Any:
            fit(self, *args)
            warnings.warn("in whatever words", il.FitInterruptedWarning, stacklevel=2)
            return self

        monkeypatch.setattr(il.quantizers.SQ, "fit", ended)
        with pytest.raises(KeyboardInterrupt):
            run_all([only("SQ+PQ")], store, TINY, threads=1)
        assert store.missing([only("SQ+PQ")])
        assert store.checkpoint(only("SQ+PQ")).exists()  # the next run goes on from it
        monkeypatch.undo()

    def test_ctrl_c_says_that_nothing_is_lost(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: Any) -> Any:
            raise KeyboardInterrupt

        monkeypatch.setattr(il.quantizers.SQ, "fit", interrupted)
        code, _, err = run("synthetic-cq", "--only", "SQ+CQ", *TINY_RUN)
        assert code == 130
        assert err.endswith(
            "finished runs are kept; run the same command again to resume\ninterlace: error: interrupted\n"
        )

    def test_runs_on_other_rows_are_refused_before_the_fit(self, tmp_path: Path, monkeypatch: Any) -> None:
        store, first, second = ResultFolder(tmp_path, "tiny"), only("random codes", 0), only("SQ+PQ")
        run_all([first, only("random codes", 0, data="synthetic1-lenet")], store, TINY)
        load = runner.load

        def others(*args: Any) -> Problem:
            found = load(*args)
            return dataclasses.replace(found, x=found.x + 1)

        monkeypatch.setattr(runner, "load", others)
        monkeypatch.setattr(il.quantizers.SQ, "fit", lambda *_: pytest.fail("it was fitted"))
        outcome = run_all([second], store, TINY)
        assert f"{first.name}.json' was measured on other rows of synthetic1" in outcome.failed[second]
        assert store.missing([first, second]) == [second]

    def test_warnings_are_kept_with_the_result(self, tmp_path: Path) -> None:
        store = ResultFolder(tmp_path, "tiny")
        run_all([only("SQ+PQ")], store, TINY, threads=1)
        found = store.read(only("SQ+PQ"))
        assert found is not None
        assert any("fewer than 256 words" in text for text in found["warnings"])

    def test_a_run_that_fails_does_not_stop_the_others(self, tmp_path: Path) -> None:
        store, told = ResultFolder(tmp_path, "tiny"), []
        runs = [only("ICQ", data="mnist"), only("SQ+PQ", 16), only("SQ+PQ")]
        outcome = run_all(runs, store, TINY, threads=1, say=told.append)
        assert outcome.done == [runs[2]]
        assert outcome.failed[runs[0]] == "mnist/train-images was not found in here"
        assert "16 product books need at least 16 dimensions" in outcome.failed[runs[1]]
        assert store.missing(runs) == runs[:2]
        assert told[0] == "[1/3] synthetic-cq: ICQ on mnist, 2 books, seed 0"

    def test_an_error_in_a_method_of_a_user_does_not_either(self, tmp_path: Path) -> None:
        def broken(**_: Any) -> Any:
            raise TypeError("make() got an unexpected keyword")

        store, told, runs = ResultFolder(tmp_path, "tiny"), [], [only("mine"), only("mine", 4), only("SQ+PQ")]
        register("mine", broken, labels=True)
        try:
            outcome = run_all(runs, store, TINY, threads=1, say=told.append)
            with pytest.raises(TypeError, match="unexpected keyword"):
                run_all(runs, store, TINY, threads=1, debug=True)
        finally:
            unregister("mine")
        assert outcome.done == [runs[2]]
        why = "TypeError: make() got an unexpected keyword (--debug shows where)"
        assert outcome.failed == {runs[0]: why, runs[1]: why}
        assert [line for line in told if line.startswith("  ")] == [f"  failed: {why}", "  failed with the same error"]

    def test_what_a_method_makes_is_a_model(self, tmp_path: Path) -> None:
        register("mine", lambda **_: object(), labels=True)  # type: ignore[arg-type, return-value]
        try:
            failed = run_all([only("mine")], ResultFolder(tmp_path, "tiny"), TINY).failed
        finally:
            unregister("mine")
        assert failed == {
            only("mine"): "the method 'mine' must return an interlace.estimators.models.Model, got object"
        }

    def test_numbers_that_json_has_not_fail_the_run(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(runner, "measure", lambda *_: {"map": float("nan")})
        outcome = run_all([only("SQ+PQ")], ResultFolder(tmp_path, "tiny"), TINY, threads=1)
        assert "JSON" in outcome.failed[only("SQ+PQ")]
        assert not list(tmp_path.rglob("*.json"))

    def test_a_folder_that_cannot_be_written_is_told_before_the_first_fit(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        for folder in (tmp_path / "file", tmp_path / "file" / "below"):
            with pytest.raises(il.InputError, match="results cannot be written to '.*file.*': "):
                run_all([only("SQ+PQ")], ResultFolder(folder, "tiny"), TINY, say=pytest.fail)

    def test_a_disk_that_is_full_ends_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: Any) -> Any:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(ResultFolder, "keep", full)
        with pytest.raises(OSError, match="No space left"):
            run_all([only("SQ+PQ"), only("SQ+PQ", 4)], ResultFolder(tmp_path, "tiny"), TINY, threads=1)

    def test_settings_reach_the_estimator(self, tmp_path: Path) -> None:
        asked: list[dict[str, Any]] = []

        def make(**settings: Any) -> Any:
            asked.append(settings)
            return il.quantizers.SQ("pq", **settings)

        register("spy", make, labels=True)
        try:
            changed = only("spy", loss="triplet", dim=5, changes=(("pi2", 0.3),), settings=(("n_words", 16),), seed=3)
            run_all([changed], ResultFolder(tmp_path, "tiny"), TINY, threads=1)
            paper = only("spy", recipe="paper")
            run_all([paper], ResultFolder(tmp_path, "tiny"), TINY, threads=1)
        finally:
            unregister("spy")
        first, second = asked
        assert {name: first[name] for name in ("n_books", "seed", "loss", "dim", "n_words")} == {
            **{"n_books": 2, "seed": 3, "loss": "triplet", "dim": 5, "n_words": 16}
        }
        assert first["recipe"] == il.Recipe(pi2=0.3, **dict(TINY.recipe))
        assert second["recipe"] == il.Recipe.paper(**dict(TINY.recipe))
        assert "loss" not in second


def test_only_takes_methods_lines_data_sets_and_numbers_of_books(run: Any) -> None:
    def listed(*only: str) -> set[str]:
        code, out, _ = run("pqn", "--full", "--list", *(word for name in only for word in ("--only", name)))
        assert code == 0
        return {line.split()[-1] for line in out.splitlines()}

    everything = listed()
    assert listed("ICQ end to end") == {name for name in everything if "end-to-end" in name}
    assert listed("mnist-lenet", "2", "8") == {
        name
        for name in everything
        if name.startswith("mnist-lenet") and any(f"-{n}-seed" in name for n in (0, 2, 8))  # 0 are baselines
    }
    assert listed("pqn", "PQN+cq") == {name for name in everything if "-pqn-" in name and "icq" not in name}


class TestBadInput:
    @pytest.mark.parametrize(
        ("args", "message"),
        [
            (("fig3",), "NAME must be one of synthetic-pq, synthetic-cq, "),
            ((), "NAME is missing: pass a figure (synthetic-pq, "),
            (("report",), "there are no results in 'experiments/results' to report"),
            (("report", "--list"), "'report' has no runs"),
            (("synthetic-cq", "--only", "SQ+XQ"), "synthetic-cq has no runs of 'SQ+XQ'; choose from ICQ; SQ+CQ"),
            (("synthetic-cq", "--only", "SQ+PQ"), "random codes; synthetic1; synthetic2; synthetic3; 2; 4; 8; 16; 1\n"),
            (("synthetic-cq", "--plugin", "absent.py"), "Python file (.py), got 'absent.py'"),
            (("synthetic-cq", "--size", "huge"), "got 'huge'"),
            (("synthetic-cq", "--size", "tiny", "--quick"), "--quick and --size tiny"),
            (("synthetic-cq", "--full", "--quick"), "--quick and --full"),
        ],
    )
    def test_one_line_and_nothing_written(self, args: Any, message: str, run: Any, tmp_path: Path) -> None:
        code, out, err = run(*args)
        assert (code, out) == (1, "")
        assert message in err
        assert err.count("\n") == 1
        assert list(tmp_path.iterdir()) == []

    def test_missing_data_are_told_as_the_loader_tells_them(self, run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def absent(*_: Any) -> Any:
            raise FileNotFoundError("mnist/train-images-idx3-ubyte.gz was not found in /data; name its folder by root=")

        monkeypatch.setattr(sources.sets, "mnist", absent)
        monkeypatch.setattr(sources.cifar, "cifar10", absent)
        code, out, err = run("real-sq", "--only", "ICQ", *TINY_RUN)
        assert code == 1
        assert "0 runs done, 0 skipped, 2 failed" in out
        assert err.count("was not found in /data") == 2  # where it was met, and at the end
        assert "  failed with the same error" in err
        assert "interlace: error: mnist/train-images-idx3-ubyte.gz was not found in /data" in err


def plugin_of_the_docs() -> str:
    (code,) = re.findall(r"```python\n(# mine\.py.*?)```", (ROOT / "docs" / "your_quantizer.md").read_text(), re.DOTALL)
    return str(code)


class TestPlugin:
    def test_the_example_of_the_docs_is_in_every_table_by_itself(
        self, run: Any, tmp_path: Path, monkeypatch: Any
    ) -> None:
        pytest.importorskip("matplotlib", reason="the plot extra is not installed")
        code = plugin_of_the_docs()
        assert len([line for line in code.splitlines() if line.strip()]) <= 40
        (tmp_path / "mine.py").write_text(code)
        monkeypatch.setattr(sources.sets, "sift300k", lambda: (_ for _ in ()).throw(FileNotFoundError("not here")))
        before = set(methods())
        try:
            with_plugin = run("codes", "--plugin", "mine.py", "--only", "sampled words", *TINY_RUN, "--report")
            assert set(methods()) - before == {"sampled words"}
            code, out, _ = run("all", "--only", "sampled words", "--list", *TINY_RUN)
            figures = {line.split()[1] for line in out.splitlines() if "sampled-words" in line}
            assert (code, figures) == (0, FIGURES.keys() - {"ablation", "published"})
            register("mine too", il.ICQ, labels=True)
            (head, *_) = (r for r in runs_of(FIGURES["pqn"], TINY) if r.method == "mine too")
            assert dict(head.changes) == {"warm_up": 2, "shape": 1, "epochs": 4}  # not what suits one of the others
            # Where others learn from labels it learns from the rows; its ranking is judged by labels all the same.
            by_labels = run("synthetic-cq", "--only", "sampled words", "--only", "4", *TINY_RUN)
            assert by_labels[0] == 0
            assert re.search(r"sampled words +4 +0\.\d{3}", by_labels[1])
        finally:
            for name in set(methods()) - before:
                unregister(name)
        assert with_plugin[0] == 0
        assert "2 runs done" in with_plugin[1]
        assert with_plugin[2].count("SIFT file not found: vectors are generated") == 1
        page = (tmp_path / "experiments" / "results" / "tiny" / "RESULTS.md").read_text()
        assert "| sampled words | 2 |" in page
        assert "**generated vectors**" in page
        result = next((tmp_path / "experiments" / "results" / "tiny" / "codes").glob("*sampled-words-4*.json"))
        found = json.loads(result.read_text())["measures"]
        assert found["bytes"] == 4
        assert 0 < found["relative_error"] < 1
        assert found["recall@100"] > 0.2

    def test_the_example_of_the_docs_passes_the_conformance_suite(self, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text(plugin_of_the_docs())
        environment = os.environ | {"INTERLACE_PLUGINS": str(tmp_path / "mine.py")}
        suite = [
            str(ROOT / "tests" / "estimators" / "baselines" / "test_quantizers.py"),
            "-k",
            "sampled",
            "-q",
            "-p",
            "no:cacheprovider",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *suite], env=environment, cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-2000:]
        assert int(re.findall(r"(\d+) passed", done.stdout)[-1]) > 30


def test_all_figures_at_the_smallest_size(run: Any, tmp_path: Path) -> None:
    """Every line of every figure, on at most 800 rows."""
    try:
        il.data.mnist(), il.data.cifar10()
    except FileNotFoundError as error:
        pytest.skip(f"figures of images need their files: {error}")
    code, out, err = run("all", *TINY_RUN, "--report")
    assert (code, "0 failed" in out) == (0, True), err[-2000:]
    results = tmp_path / "experiments" / "results" / "tiny"
    for figure in FIGURES.values():
        runs = runs_of(figure, TINY)
        assert ResultFolder(results, "tiny").missing(runs) == []
        assert (results / figure.name / f"{figure.name}.png").exists()
    page = (results / "RESULTS.md").read_text()
    assert all(f"## {name}\n" in page for name in FIGURES)


def test_what_a_kill_left_of_a_checkpoint_goes_with_it(tmp_path: Path) -> None:
    store, run, other = ResultFolder(tmp_path, "tiny"), only("SQ+PQ"), only("SQ+PQ", 4)
    checkpoint = store.checkpoint(run)
    checkpoint.parent.mkdir(parents=True)
    for path in (
        checkpoint,
        Path(f"{checkpoint}.0a.tmp"),
        store.checkpoint(other),
        Path(f"{store.checkpoint(other)}.1.tmp"),
    ):
        path.touch()
    store.forget(run)
    assert {path.name for path in checkpoint.parent.iterdir()} == {
        store.checkpoint(other).name,
        f"{store.checkpoint(other).name}.1.tmp",
    }
