"""The snippets of docs/frameworks.md run where their framework is installed."""

from __future__ import annotations

import importlib.util
import re
import warnings
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
SNIPPETS = dict(re.findall(r"## (\w+)\n\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
MODULES = {"LangChain": "langchain_core", "LlamaIndex": "llama_index", "Haystack": "haystack", "Formats": "pyarrow"}


def test_all_snippets_are_found():
    assert set(SNIPPETS) == set(MODULES)
    assert PAGE.read_text().count("```python") == len(SNIPPETS)


@pytest.mark.parametrize("name", MODULES)
def test_the_snippet_runs(name, tmp_path, monkeypatch, capsys):
    if importlib.util.find_spec(MODULES[name]) is None:
        pytest.skip(f"{MODULES[name]} is not installed")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the frameworks
        exec(compile(SNIPPETS[name], str(PAGE), "exec"), {"__name__": "snippet"})
    assert "text" in capsys.readouterr().out
