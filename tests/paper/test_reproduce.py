"""Figures as lists of runs, and the folder that holds their results."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlace as il
from interlace.learn.recipe import LOSSES, Recipe
from interlace.paper.claims import CLAIMS
from interlace.paper.figures import BASELINES, FIGURES, figure_of, joining, named_methods, runs_of
from interlace.paper.plugins import load_plugin
from interlace.paper.results import FORMAT, ResultFolder
from interlace.paper.runner import run_all
from interlace.paper.runs import Run, slug
from interlace.paper.sizes import SIZES, size_of
from interlace.paper.sources import NAMES
from interlace.quantizers import methods, register, unregister
from raising import Facts, raises

FULL, STANDARD, QUICK, TINY = (SIZES[name] for name in ("full", "standard", "quick", "tiny"))
RUN = Run(label="SQ+CQ", method="SQ+CQ", figure="synthetic-cq", data="synthetic1", n_books=4, seed=2)
SETTINGS = st.dictionaries(st.sampled_from(("pi2", "epochs", "theta")), st.floats(0, 1) | st.integers() | st.text())


class TestRuns:
    @given(SETTINGS, SETTINGS, st.text(max_size=8), st.integers(0, 99), st.none() | st.integers(1, 2000))
    def test_a_run_survives_json(self, changes: Any, settings: Any, label: str, seed: int, dim: int | None) -> None:
        run = Run(
            label=label,
            method="ICQ",
            figure="f",
            data="d",
            n_books=2,
            seed=seed,
            dim=dim,
            changes=tuple(changes.items()),
            settings=tuple(settings.items()),
        )
        assert Run.from_dict(json.loads(json.dumps(run.to_dict()))) == run

    def test_its_name_is_a_file_name_and_the_same_in_every_figure(self) -> None:
        assert RUN.name == "synthetic1-sq-cq-4-seed2"
        assert RUN.in_figure("real-sq").name == RUN.name
        assert slug("as written, pi2 = 0.4") == "as-written-pi2-0.4"

    def test_unknown_fields_are_refused(self) -> None:
        values = RUN.to_dict()
        fewer = {k: v for k, v in values.items() if k != "seed"}
        for bad, name in ((values | {"colour": 1}, "colour"), (fewer, "seed"), (3, "changes, data, .*")):
            with pytest.raises(il.InputError, match=f"fields .*; missing or unknown: {name}$"):
                Run.from_dict(bad)  # type: ignore[arg-type]
        with pytest.raises(il.InputError, match="changes and settings"):
            Run.from_dict(values | {"changes": None})


class TestFigures:
    @pytest.fixture(params=[name for name in FIGURES])
    def name(self, request: pytest.FixtureRequest) -> str:
        known = {*methods(), *BASELINES}
        unknown = {s.method for part in FIGURES[request.param].parts for s in part.series} - known
        if unknown:
            pytest.skip(f"not registered yet: {unknown}")
        return str(request.param)

    def test_every_run_can_be_made(self, name: str) -> None:
        for size in SIZES.values():
            runs = runs_of(FIGURES[name], size)
            assert len({run.name for run in runs}) == len(runs)
            for run in runs:
                assert run.data in NAMES
                assert run.figure == name
                assert run.loss is None or run.loss in LOSSES
                (Recipe.paper if run.recipe == "paper" else Recipe)(**dict(run.changes) | dict(size.recipe))
                control = run.label == "one book" and run.n_books == 1
                assert control or run.n_books in size.books or (run.n_books == 0) == (run.method in BASELINES)

    def test_books_are_those_of_the_paper(self, name: str) -> None:
        found = {run.n_books for run in runs_of(FIGURES[name], FULL) if run.label != "one book"} - {0}
        assert found == {"ablation": {8}, "published": {4, 6, 8}, "text": {4, 8, 16}}.get(name, {2, 4, 8, 16})

    def test_baselines_stand_beside_every_line(self, name: str) -> None:
        runs = runs_of(FIGURES[name], FULL, 1)
        if name == "codes":
            assert {run.method for run in runs if not run.n_books} == {"random codes"}
            return
        if name == "published":  # each in a protocol of its own
            return
        assert "SQ+CQ" in {run.method for run in runs}
        lines = {run.data for run in runs if run.n_books in (2, 4)}
        lines -= {"cifar10-alexnet"} if name == "effective" else set()  # which stand in for others' networks
        for data in lines:
            wanted = set(BASELINES) - ({"known labels"} if data.endswith("-unseen") else set())
            assert {run.method for run in runs if run.data == data and not run.n_books} == wanted

    def test_the_first_seed_comes_first(self, name: str) -> None:
        seeds = [run.seed for run in runs_of(FIGURES[name], FULL, 3)]
        assert seeds == sorted(seeds)

    def test_smaller_sizes_are_smaller(self, name: str) -> None:
        counts = [len(runs_of(FIGURES[name], size)) for size in (FULL, STANDARD, QUICK, TINY)]
        assert counts == sorted(counts, reverse=True)
        assert max(run.n_books for run in runs_of(FIGURES[name], QUICK)) == (6 if name == "published" else 4)
        assert {run.seed for run in runs_of(FIGURES[name], QUICK)} == {0}

    def test_the_standard_size_has_the_seeds_and_lines_of_the_full_one(self, name: str) -> None:
        full, mine = (runs_of(FIGURES[name], size) for size in (FULL, STANDARD))
        data = {run.data for run in mine}
        assert data <= {run.data for run in full}
        assert {run.seed for run in mine} == {run.seed for run in full}
        swept = {s.label for part in FIGURES[name].parts if part.sweep for s in part.series}
        shared = {run.label for run in full if run.data in data} - swept
        assert shared == {run.label for run in mine} - swept

    @pytest.mark.parametrize(("label", "epochs"), [("ICQ", 10), ("SQ+CQ", 10), ("SQ+PQ", 10)])
    def test_every_line_has_the_same_length(self, label: str, epochs: int) -> None:
        lengths = dict(STANDARD.lengths)
        runs = [run for run in runs_of(FIGURES["synthetic-pq"], STANDARD) if run.label == label]
        assert runs
        assert {(lengths | dict(run.changes))["epochs"] for run in runs} == {epochs}

    def test_all_have_claims(self) -> None:
        assert CLAIMS.keys() == FIGURES.keys()

    def test_every_method_is_in_a_figure(self) -> None:
        assert set(methods()) <= named_methods()

    def test_seeds_are_those_asked_for(self) -> None:
        assert {run.seed for run in runs_of(FIGURES["synthetic-cq"], QUICK, 4)} == {0, 1, 2, 3}

    def test_unknown_names_are_told(self) -> None:
        with raises(il.InputError, "NAME", "synthetic-pq", "synthetic-cq", "'fig7'"):
            figure_of("fig7")
        with raises(il.InputError, "standard", "full", "quick", "tiny", "'huge'"):
            size_of("huge")

    def test_registered_methods_join_figures_of_their_kind(self) -> None:
        register("mine", il.ICQ, labels=True)
        try:
            assert joining(labels=True) == ["mine"]
            assert joining(labels=False) == []
            found = [run for run in runs_of(FIGURES["synthetic-cq"], FULL, 1) if run.method == "mine"]
            assert {(run.data, run.n_books) for run in found} == {
                (f"synthetic{i}", k) for i in (1, 2, 3) for k in (2, 4, 8, 16)
            }
        finally:
            unregister("mine")

    def test_a_name_that_would_share_files_is_refused(self) -> None:
        register("sq cq", il.ICQ, labels=True)
        try:
            with pytest.raises(il.InputError, match="rename 'sq cq'"):
                runs_of(FIGURES["synthetic-cq"], FULL)
        finally:
            unregister("sq cq")


class TestResultFolder:
    def test_what_was_written_is_read_and_never_written_over(self, tmp_path: Path) -> None:
        store = ResultFolder(tmp_path)
        assert store.missing([RUN]) == [RUN]
        path = store.write(RUN, {"data": {}, "measures": {"map": 0.123456789}})
        assert path == tmp_path / "synthetic-cq" / "synthetic1-sq-cq-4-seed2.json"
        first = path.read_bytes()
        store.write(RUN, {"data": {}, "measures": {"map": 0.9}})
        assert path.read_bytes() == first
        found = store.read(RUN)
        assert found is not None
        assert found["measures"]["map"] == 0.12346
        assert store.missing([RUN]) == []
        assert [p.name for p in path.parent.iterdir()] == [path.name]

    def test_what_cannot_be_written_leaves_nothing(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="JSON"):
            ResultFolder(tmp_path).write(RUN, {"measures": {"map": float("nan")}})
        assert list(tmp_path.iterdir()) == []

    def test_the_same_fit_of_another_figure_is_found(self, tmp_path: Path) -> None:
        store = ResultFolder(tmp_path)
        store.write(RUN, {"data": {}, "measures": {"map": 0.5}})
        other = RUN.in_figure("synthetic-pq")
        found = store.same(other, FIGURES)
        assert found is not None
        assert found["run"]["figure"] == "synthetic-cq"
        changed = Run.from_dict(other.to_dict() | {"changes": {"pi2": 0.3}})
        assert store.same(changed, FIGURES) is None
        assert store.same(RUN, FIGURES) is None  # not of itself

    @pytest.mark.parametrize(
        ("change", "facts"),
        [
            ({"format": FORMAT + 1}, ("(format 3, this one reads 1, 2)",)),
            ({"size": "quick"}, ("size", "'quick'", "'standard'")),
            ({"run": RUN.to_dict() | {"loss": "triplet"}}, ("'triplet'", "None")),
            ({"run": 3}, ("seed2.json'",)),
            ({"measures": None}, ("seed2.json'",)),
        ],
    )
    def test_results_of_something_else_are_refused(self, change: Any, facts: Facts, tmp_path: Path) -> None:
        store = ResultFolder(tmp_path)
        path = store.write(RUN, {"data": {}, "measures": {}})
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
        with raises(il.InputError, *facts):
            store.read(RUN)

    def test_a_run_is_claimed_by_one_process(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        store = ResultFolder(tmp_path)
        claim = store.path(RUN).with_suffix(".running")
        assert store.claim(RUN)
        assert store.claim(RUN)  # by the same process
        claim.write_text(str(os.getppid()))
        assert not store.claim(RUN)
        for stale in ("999999999", "not a number", ""):  # its process is gone
            claim.write_text(stale)
            assert store.claim(RUN)
            assert claim.read_text() == str(os.getpid())
        store.release(RUN)
        store.release(RUN)
        assert not claim.exists()

    def test_a_run_of_another_process_is_left_to_it(self, tmp_path: Path) -> None:
        store = ResultFolder(tmp_path, "tiny")
        run = Run(label="random codes", method="random codes", figure="synthetic-cq", data="synthetic1", n_books=0)
        claim = store.path(run).with_suffix(".running")
        claim.parent.mkdir()
        claim.write_text(str(os.getppid()))
        outcome = run_all([run], store, TINY)
        assert (outcome.elsewhere, outcome.done) == ([run], [])
        claim.unlink()
        assert run_all([run], store, TINY).done == [run]
        assert not claim.exists()

    @pytest.mark.parametrize(
        ("content", "facts"),
        [("{", ("is damaged",)), ("[]", ("is not a result",)), ('{"map": 1}', ("is not a result",))],
    )
    def test_files_that_hold_no_result(self, content: str, facts: Facts, tmp_path: Path) -> None:
        store = ResultFolder(tmp_path)
        store.path(RUN).parent.mkdir()
        store.path(RUN).write_text(content)
        for call in (lambda: store.read(RUN), lambda: store.all("synthetic-cq")):
            with raises(il.InputError, *facts):
                call()


class TestPlugins:
    def test_the_methods_of_a_file_are_registered(self, tmp_path: Path) -> None:
        file = tmp_path / "mine.py"
        file.write_text("from interlace import ICQ\nfrom interlace.quantizers import register\nregister('mine', ICQ)\n")
        try:
            assert load_plugin(file) == ["mine"]
            assert "mine" in methods(labels=False)
            with raises(il.InputError, "plugin", "InputError", "'mine'"):
                load_plugin(file)
        finally:
            unregister("mine")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("x = 1 +", "failed: SyntaxError"),
            ("raise OSError('no disk')", "failed: OSError: no disk"),
            ("import interlace", "registers no method"),
            ("raise SystemExit(3)", "failed: SystemExit: 3"),
            (
                "from interlace.quantizers import register; register('', print)",
                "failed: InputError: name must be",
            ),
        ],
    )
    def test_files_that_are_no_plugin(self, content: str, message: str, tmp_path: Path) -> None:
        file = tmp_path / "bad.py"
        file.write_text(content)
        with pytest.raises(il.InputError, match=message):
            load_plugin(file)

    @pytest.mark.parametrize("name", ["absent.py", "mine.txt", "."])
    def test_what_is_no_python_file(self, name: str, tmp_path: Path) -> None:
        (tmp_path / "mine.txt").write_text("")
        with raises(il.InputError, "Python", "(.py)"):
            load_plugin(tmp_path / name)
