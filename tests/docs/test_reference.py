"""The reference documents every public name, once, and nothing else; every name has an example that a test runs."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
API: dict[str, dict[str, Any]] = json.loads((ROOT / "tests" / "data" / "public_api.json").read_text())
RAY = importlib.util.find_spec("ray") is not None  # its names can be looked at only where it is installed


def _is_there(name: str) -> bool:
    return RAY or not name.startswith("interlace.ray.")


NAMES = [f"{module}.{name}" for module, names in API.items() for name in names if _is_there(f"{module}.{name}")]
DOCUMENTED = [
    (page.stem, kind, name)
    for page in sorted((ROOT / "docs" / "reference").glob("*.md"))
    for kind, name in re.findall(r"^\.\. auto(\w+):: (\S+)$", page.read_text(), re.MULTILINE)
    if _is_there(name)
]


def found(name: str) -> Any:
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def test_every_public_name_is_documented() -> None:
    """Under one of its names: il.create is interlace.store.create."""
    documented = {name for _, _, name in DOCUMENTED}
    objects = [found(name) for name in documented]
    missing = [n for n in NAMES if n not in documented and not any(found(n) is o for o in objects)]
    assert missing == []


def test_only_public_names_are_documented_and_only_once() -> None:
    names = [name for _, _, name in DOCUMENTED]
    assert sorted(names) == sorted(set(names))
    assert [name for name in names if name not in NAMES] == []


@pytest.mark.parametrize(("page", "kind", "name"), DOCUMENTED, ids=[name for _, _, name in DOCUMENTED])
def test_names_are_documented_as_what_they_are(page: str, kind: str, name: str) -> None:
    value = found(name)
    if inspect.isclass(value):
        expected = "exception" if issubclass(value, BaseException) else "class"
    else:
        expected = "function" if callable(value) else "data"
    assert kind == expected
    assert expected == "data" or inspect.getdoc(value)


def test_every_public_name_has_an_example_that_runs() -> None:
    """Snippets of all pages are run by tests/test_readme.py, tests/serve and tests/docs."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    code = "\n".join(part for page in pages for part in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    words = set(re.findall(r"\w+", code))
    assert [name for name in NAMES if name.rpartition(".")[2] not in words] == []
