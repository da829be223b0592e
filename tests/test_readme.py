"""Every Python snippet of the documentation runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SNIPPETS = [
    (page.name, i, code)
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for i, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize(("page", "number", "code"), SNIPPETS, ids=[f"{page}-{i}" for page, i, _ in SNIPPETS])
def test_snippet_runs(page, number, code, tmp_path, monkeypatch, capsys):
    if "import interlace" not in code:
        pytest.skip("a reader that has its own test")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, f"{page}:{number}", "exec"), {"__name__": "snippet"})
    printed = capsys.readouterr().out
    assert all(word in printed for word in ("ops per vector", "code bytes per vector"))


def test_the_readme_has_a_snippet():
    assert any(page == "README.md" for page, _, _ in SNIPPETS)
