"""The snippets of docs/distributed.md and of the tutorial run, and the page has what it should."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import interlace as il

pytest.importorskip("ray.exceptions", reason="the ray extra is not installed")
pytestmark = [
    pytest.mark.usefixtures("cluster_of_ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]
DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "distributed.md").read_text()
TUTORIAL = (DOCS / "tutorials" / "ray.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_snippet_runs(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(SNIPPETS[number], f"distributed.md:{number}", "exec"), {"__name__": "snippet"})
    assert "ops per vector" in capsys.readouterr().out


def test_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    code = "".join(re.findall(r"```python\n(.*?)```", TUTORIAL, re.DOTALL))
    values: dict[str, object] = {"__name__": "snippet"}
    exec(compile(code, "tutorials/ray.md", "exec"), values)
    printed = capsys.readouterr().out
    assert "ops per vector" in printed
    assert "[0 1 2]" in printed
    assert "() ()" in printed
    assert "498" in printed


def test_the_page_names_every_public_function() -> None:
    assert len(SNIPPETS) == 2
    functions = [name for name in il.ray.__all__ if name[0].islower() and name != "open_store"]
    assert [name for name in functions if f"`{name}`" not in PAGE and f"il.ray.{name}" not in PAGE] == []
