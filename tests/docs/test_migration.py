"""Both sides of every row of the migration tables run, and give the results that the row promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "tutorials" / "migrate.md").read_text()
SECTIONS = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
#: What a name of the left side is compared with.
PAIRS = {"I": "ids", "D": "distances", "V": "vectors", "n": "rows"}


def rows(section: str) -> list[tuple[str, str, str, str]]:
    found = re.findall(r"^\| ([^|`]+) \| `(.+?)` \| `(.+?)` \| (.+?) \|$", SECTIONS[section], re.MULTILINE)
    lines = re.findall(r"^\| (?!idiom|---).*$", SECTIONS[section], re.MULTILINE)
    assert len(found) == len([line for line in lines if not line.startswith("|---")])
    return found


def run_rows(section: str, names: dict[str, Any]) -> list[str]:
    """Runs all rows in order; the idioms whose results were compared."""
    compared = []
    for idiom, theirs, ours, promise in rows(section):
        for name in (*PAIRS, *PAIRS.values()):
            names.pop(name, None)
        exec(compile(theirs, f"migrate.md, {idiom}, {section}", "exec"), names)
        exec(compile(ours, f"migrate.md, {idiom}, interlace", "exec"), names)
        kind = promise.partition(":")[0]
        assert kind in ("equal", "nearly equal", "different"), promise
        pairs = [(a, b) for a, b in PAIRS.items() if a in names and b in names]
        assert pairs or kind == "different", idiom
        for a, b in pairs:
            same(np.asarray(names[a]), np.asarray(names[b]), 1e-5 if kind == "equal" else 1e-3, f"{idiom}: {a}, {b}")
        compared += [idiom] if pairs and kind != "different" else []
    return compared


def same(theirs: np.ndarray, ours: np.ndarray, tolerance: float, where: str) -> None:
    assert theirs.shape == ours.shape, where
    if np.issubdtype(ours.dtype, np.floating):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance, err_msg=where)
    else:
        np.testing.assert_array_equal(ours, theirs, err_msg=where)


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the first snippet of the page makes."""
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    before = faiss.omp_get_max_threads()
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "snippet"}
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "migrate.md", "exec"), names)
    yield names
    faiss.omp_set_num_threads(before)


def test_faiss(setup: dict[str, Any]) -> None:
    assert len(rows("faiss")) >= 10
    assert len(run_rows("faiss", setup)) >= 10


def test_hnswlib(setup: dict[str, Any]) -> None:
    setup["hnswlib"] = pytest.importorskip("hnswlib", reason="hnswlib is not installed")
    assert len(run_rows("hnswlib", setup)) >= 4


@pytest.mark.filterwarnings("ignore")  # of the client in its local mode
def test_qdrant(setup: dict[str, Any]) -> None:
    client = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    setup |= {"QdrantClient": client.QdrantClient, "models": client.models}
    assert len(run_rows("Qdrant", setup)) >= 4
