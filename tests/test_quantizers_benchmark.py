"""What the committed measurements of the quantizers say, and that the documentation shows just them."""

from __future__ import annotations

import json
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOUND, OTHERS = (
    [json.loads(path.read_text()) for path in sorted((ROOT / "benchmarks/results" / name).glob("*.json"))]
    for name in ("quantizers", "quantizers-others")
)


def of(method: str, n_bytes: int = 8, measured: list[dict[str, Any]] = FOUND) -> dict[str, Any]:
    (found,) = [one for one in measured if (one["method"], one["n_bytes"]) == (method, n_bytes)]
    return found


def test_all_were_measured_on_the_same_rows_and_at_equal_bytes() -> None:
    assert len(FOUND) >= 7
    assert len({json.dumps(one["data"]) for one in FOUND}) == 1
    assert not any(one["quick"] for one in FOUND)
    assert all(one["n_bytes"] - 0.1 < one["bytes_per_vector"] < one["n_bytes"] + 1 for one in FOUND)


def test_composite_books_beat_product_books_and_cells_a_single_rotation() -> None:
    for better, worse in (("CQ", "PQ"), ("CQ", "OPQ"), ("OPQ", "PQ"), ("LOPQ", "OPQ")):
        assert of(better)["error"] < of(worse)["error"]
        assert of(better)["recall"]["10"] > of(worse)["recall"]["10"]


def test_so_they_do_on_rows_that_were_not_learned_from() -> None:
    assert all(one["data"]["training_rows"] == 200_000 for one in OTHERS)
    for better, worse in (("CQ", "PQ"), ("OPQ", "PQ"), ("LOPQ", "OPQ")):
        ours, theirs = of(better, measured=OTHERS), of(worse, measured=OTHERS)
        assert ours["error_unseen"] == ours["error"] < theirs["error"]
        assert ours["recall"]["10"] > theirs["recall"]["10"]


def test_the_documentation_shows_the_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # faiss's wrapper warns on newer Pythons
        pytest.importorskip("faiss")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for measured in (FOUND, OTHERS):
        table = import_module("quantizers").table(measured)
        assert len(table.splitlines()) == len(measured) + 2
        assert table in (ROOT / "docs/quantizers.md").read_text()
