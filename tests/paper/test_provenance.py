"""Results name the code that made them, and results of different code are not mixed in silence."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import interlace as il
from interlace.paper import provenance, runner
from interlace.paper.page import made_by
from interlace.paper.provenance import Origin, code_hash, current, differ, origins, other_recipes
from interlace.paper.report import page_text
from interlace.paper.results import ResultFolder
from interlace.paper.runs import Run
from interlace.paper.sizes import size_of
from raising import raises
from reproduce_data import made


def written(folder: Path, *commits: str | None) -> ResultFolder:
    """A folder with a result of each commit; None: of a version that recorded none."""
    (folder / "synthetic-cq").mkdir(parents=True)
    for number, commit in enumerate(commits):
        result = made(seed=number)
        if commit is None:
            del result["provenance"]
            result["format"] = 1
        else:
            result["provenance"] = {"commit": commit, "code": f"of-{commit}"}
        (folder / "synthetic-cq" / f"{number}.json").write_text(json.dumps(result))
    return ResultFolder(folder)


def test_a_page_of_mixed_commits_is_refused_unless_asked_for(tmp_path: Path) -> None:
    page = tmp_path / "RESULTS.md"
    assert "Results: 2 of commit abc (code of-abc)." in page_text(written(tmp_path / "one", "abc", "abc"), page)
    store = written(tmp_path / "two", "abc", "abc", "def")
    with raises(il.InputError, "2 of commit abc", "1 of commit def", "--mixed", "--out"):
        page_text(store, page)
    text = page_text(ResultFolder(store.folder, mixed=True), page)
    assert "**These results mix different code**: 2 of commit abc (code of-abc), 1 of commit def (code of-def)." in text
    assert "Results of different code (2 of commit abc (code of-abc), 1 of commit def (code of-def))" in text


def test_older_results_are_marked(tmp_path: Path) -> None:
    text = page_text(written(tmp_path, None, None), tmp_path / "RESULTS.md")
    assert "**2 of 2 results were made by older code" in text.split("## ")[0]
    with raises(il.InputError, "1 of an unrecorded commit"):
        page_text(written(tmp_path / "both", None, "abc"), tmp_path / "RESULTS.md")


def test_runs_are_not_added_to_results_of_other_code(tmp_path: Path, monkeypatch: Any) -> None:
    store, tiny = written(tmp_path, "abc"), size_of("tiny")
    run = Run(label="random codes", method="random codes", figure="synthetic-cq", data="synthetic1", n_books=0)
    monkeypatch.setattr(runner, "current", lambda: Origin("def", "code"))
    with raises(il.InputError, "1 of commit abc (code of-abc), now runs commit def (code code)"):
        runner.run_all([run], ResultFolder(store.folder), tiny)
    monkeypatch.setattr(runner, "current", lambda: Origin("abc", "of-abc"))
    for folder in (ResultFolder(tmp_path / "new", "tiny"), ResultFolder(store.folder, "tiny", mixed=True)):
        if folder.folder == store.folder:
            (store.folder / "synthetic-cq" / "0.json").unlink()
        outcome = runner.run_all([run], folder, tiny)
        assert len(outcome.done) == 1
        result = folder.read(run)
        assert result is not None
        assert result["provenance"] == {"commit": "abc", "code": "of-abc"}


@pytest.mark.parametrize("folder", ["tuning", "settings"])  # of another kind than figures
def test_settings_that_other_code_chose_are_refused(folder: str, tmp_path: Path, monkeypatch: Any) -> None:
    store = written(tmp_path, "abc")
    (tmp_path / "synthetic-cq").rename(tmp_path / folder)
    run = Run(label="random codes", method="random codes", figure=folder, data="synthetic1", n_books=0)
    monkeypatch.setattr(runner, "current", lambda: Origin("def", "code"))
    with raises(il.InputError, "1 of commit abc (code of-abc), now runs commit def (code code)"):
        runner.run_all([run], store, size_of("tiny"))


def test_the_hash_follows_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.py").write_text("x = 1")
    first = code_hash(tmp_path)
    (tmp_path / "notes.md").write_text("not code")
    assert code_hash(tmp_path) == first
    (tmp_path / "a" / "one.py").write_text("x = 2")
    second = code_hash(tmp_path)
    (tmp_path / "a" / "one.py").rename(tmp_path / "a" / "two.py")
    assert len({first, second, code_hash(tmp_path)}) == 3


def test_the_commit_is_that_of_the_checkout_with_this_code(tmp_path: Path, monkeypatch: Any) -> None:
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(tmp_path), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert current(tmp_path).commit == "unknown"  # no checkout
    source = tmp_path / "src" / "interlace"
    source.mkdir(parents=True)
    (source / "one.py").write_text("x = 1")
    git("init", "-q")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "one")
    current.cache_clear()
    assert current(tmp_path) == Origin("unknown", code_hash())  # another package
    monkeypatch.setattr(provenance, "PACKAGE", source)
    monkeypatch.setattr(provenance.code_hash, "__defaults__", (source,))
    current.cache_clear()
    assert current(tmp_path) == Origin(git("rev-parse", "HEAD"), code_hash(source))
    (source / "two.py").write_text("x = 1")
    current.cache_clear()
    assert current(tmp_path).commit.endswith("-dirty")
    current.cache_clear()


def test_recipes_unlike_most_are_counted() -> None:
    def fitted(label: str, seed: int, changes: dict[str, Any] | None = None, **recipe: Any) -> dict[str, Any]:
        result = made(label, seed=seed)
        result["run"]["changes"] = changes or {}
        result["fit"] = {"recipe": {"name": "default", "gamma1": 1.0, "pi2": 0.4, **recipe}}
        return result

    usual = [fitted("ICQ", s) for s in range(3)]
    swept = fitted("pi2 = 0.1", 0, {"pi2": 0.1}, pi2=0.1)
    assert other_recipes([*usual, swept]) == {}
    older = fitted("ICQ", 3, gamma1=2.0)
    assert other_recipes([*usual, swept, older]) == {"ICQ": 1}
    longer = fitted("SQ+CQ", 0, added=1)  # a field that most do not have
    assert other_recipes([*usual, longer, made("PQ")]) == {"SQ+CQ": 1}
    text = made_by([*usual, older])
    assert "**1 of 4 results have other values of the recipe than most of their kind**: ICQ (1)." in text
    assert origins([*usual, older]) == {Origin("c0ffee", "beef"): 4}


@pytest.mark.parametrize(
    ("commit", "text"), [("a" * 40, "commit aaaaaaaaaaaa (code x)"), ("unknown", "commit unknown (code x)")]
)
def test_origins_as_text(commit: str, text: str) -> None:
    assert Origin(commit, "x").text == text
    assert Origin().text == "an unrecorded commit"
    assert Origin.of(made()) == Origin("c0ffee", "beef")
    assert Origin("f" * 40 + "-dirty", "x").text == "commit ffffffffffff-dirty (code x)"


def test_an_unknown_commit_is_no_other_commit() -> None:
    known, elsewhere = Origin("abc", "code"), Origin("unknown", "code")
    assert not differ([])
    assert not differ([known, known])
    assert not differ([known, elsewhere])
    assert differ([known, Origin("def", "code")])
    assert differ([known, Origin("abc", "other code")])
    assert differ([known, Origin()])
