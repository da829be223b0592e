"""What the page shows is what happens: its routes compared with searches, explanations and plain NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from page_helpers import build_shapes, build_words
from serve_helpers import Running, running, vectors

import interlace as il
from interlace.engine.margins import DEFAULT
from interlace.serve.insight.sample_map import principal_axes


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("shown")
    build_shapes(folder / "shapes")
    build_words(folder / "words")
    with running(folder) as found:
        yield found


def ask(found: Running, path: str, body: Any = None) -> Any:
    url = f"{found.url}/collections/{path}"
    answer = httpx.get(url, timeout=60) if body is None else httpx.post(url, json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def opened(found: Running, name: str) -> Any:
    return il.open(found.folder / name).snapshot


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("rows", "dim"), [(300, 20), (2, 5), (1, 3), (40, 1)])
def test_the_axes_of_the_map_are_the_principal_ones(rows: int, dim: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(rows, dim)) * 0.7 ** np.arange(dim)).astype(np.float32)
    x -= x.mean(0)
    axes, wanted = principal_axes(x), np.linalg.svd(x, full_matrices=False)[1]
    got = np.linalg.norm(x @ axes, axis=0)
    assert axes.shape == (dim, 2)
    np.testing.assert_allclose(got, [*wanted, 0, 0][:2], rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(axes, principal_axes(x))


@pytest.mark.parametrize("margin", [0.999, "exact"])
def test_survivors_of_the_map_are_those_of_explain(shown: Running, margin: Any) -> None:
    body = {"query": 100, "limit": 5, "params": {"margin": margin, "rerank": 0}, "sample": 120}
    found = ask(shown, "shapes/insight/map", body)
    snapshot = opened(shown, "shapes")
    vector = snapshot.get(100, originals=True)
    wanted = []
    for point in found["points"]:
        told = snapshot.explain(vector, point["id"], 5, margin=margin)
        assert point["cell"] == told.cell
        if told.lost == "found" or (told.visited and told.value <= told.limit):
            wanted.append(point["id"])
    assert found["query"]["survivors"] == wanted
    assert 0 < len(wanted) < 120


def test_the_map_shows_the_hits_of_the_search(shown: Running) -> None:
    body = {"query": 103, "limit": 7, "filter": {"must": [{"key": "label", "match": {"value": 2}}]}}
    found = ask(shown, "shapes/insight/map", body)
    hits = ask(shown, "shapes/points/query", body)["points"]
    assert found["query"]["hits"] == [hit["id"] for hit in hits]
    assert len(found["query"]["hits_at"]) == 7
    at = {point["id"]: (point["x"], point["y"]) for point in found["points"]}
    for i, place in zip(found["query"]["hits"], found["query"]["hits_at"], strict=True):
        if i in at:
            np.testing.assert_allclose(place, at[i], atol=1e-4)
    assert sum(cell["rows"] for cell in found["cells"]) == len(found["points"]) == 2_000


def test_a_map_without_a_query_of_string_ids_and_cosine(shown: Running) -> None:
    found = ask(shown, "words/insight/map", {})
    assert found["query"] is None
    assert len(found["points"]) == 1_500
    again = ask(shown, "words/insight/map", {"query": "word-7", "limit": 3})
    assert again["points"] == found["points"]
    assert len(again["query"]["hits"]) == 3
    pasted = ask(shown, "words/insight/map", {"query": (vectors(1, 24, seed=1)[0] * 5).tolist(), "limit": 3})
    assert len(pasted["query"]["hits"]) == 3


@pytest.mark.parametrize("rerank", [0, 50])
def test_the_funnel_has_the_numbers_of_the_search(shown: Running, rerank: int) -> None:
    body = {"query": 100, "limit": 4, "params": {"rerank": rerank}}
    steps = ask(shown, "shapes/insight/funnel", body)
    options = {"rerank": rerank} if rerank else {"margin": DEFAULT}
    stats = opened(shown, "shapes").search_by_id(100, 4, **options).stats
    assert steps["steps"]["rows"] == 3_000
    assert steps["steps"]["cells_visited"] == stats.cells
    assert steps["steps"]["scanned"] == stats.scanned
    assert steps["steps"]["survivors"] == stats.survivors
    assert steps["steps"]["reranked"] == stats.reranked
    assert (steps["seconds"]["originals"] > 0) == bool(rerank)
    assert steps["seconds"]["codes"] >= 0
    assert [point["id"] for point in steps["points"]] == [
        point["id"] for point in ask(shown, "shapes/points/query", body)["points"]
    ]


def test_the_candidates_of_an_explanation_are_the_rows_that_are_compared_with_originals(shown: Running) -> None:
    """The search for rows to re-rank has rules of its own: an explanation by others would contradict the search."""
    for query in range(100, 300, 3):
        body = {"query": query, "limit": 140, "params": {"margin": "exact", "rerank": 0}}
        near = [point["id"] for point in ask(shown, "shapes/points/query", body)["points"]]
        for row in near[60::8]:
            request = {"query": query, "id": row, "limit": 11, "params": {"margin": 0.5, "rerank": 101}}
            told = ask(shown, "shapes/points/explain", request)["rerank"]
            assert told["candidate"] == (told["rank"] is not None) == (told["codes"]["lost"] == "found")
            assert (told["codes"]["k"], told["depth"]) == (101, 101)


def test_recall_by_bytes_ends_with_the_whole_code(shown: Running) -> None:
    found = ask(shown, "shapes/insight/recall")
    assert [row["bytes"] for row in found["bytes"]] == [1, 2, 3, 4]
    assert found["bytes"][-1]["recall"] > found["bytes"][0]["recall"]
    snapshot = opened(shown, "shapes")
    ids = snapshot.ids[np.sort(np.random.default_rng(0).choice(3_000, 2_000, replace=False))]
    coded, x = snapshot.get(ids, originals=False), snapshot.get(ids, originals=True)
    shared = []
    for i in np.linspace(0, 1_999, 64).astype(int):
        near, by_code = (((rows - x[i]) ** 2).sum(1) for rows in (x, coded))
        near[i] = by_code[i] = np.inf
        shared.append(len(set(np.argsort(near)[:10]) & set(np.argsort(by_code)[:10])) / 10)
    assert found["bytes"][-1]["recall"] == pytest.approx(np.mean(shared), abs=0.005)
    assert ask(shown, "words/insight/recall")["bytes"] == []  # there are no originals to compare with


@pytest.mark.parametrize("name", ["shapes", "words"])
def test_sizes_count_the_originals_that_are_kept(shown: Running, name: str) -> None:
    found = ask(shown, f"{name}/insight/overview")
    sizes = found["bytes"]
    kept = sizes["codes"] + sizes["row_numbers"] + sizes["originals"]
    assert (sizes["originals"] > 0) == (found["originals"] is not None)
    assert sizes["times_smaller"] == pytest.approx(4 * found["dim"] * found["rows"] / kept)


def test_empty_collections_have_empty_answers(tmp_path: Path) -> None:
    il.create(tmp_path / "empty", dim=3).close()
    with running(tmp_path) as found:
        assert ask(found, "empty/insight/map", {})["points"] == []
        assert ask(found, "empty/insight/recall")["bytes"] == []
        assert ask(found, "empty/insight/learned")["learned"] is False
        assert ask(found, "empty/insight/overview")["coded"] is False
        assert ask(found, "empty/insight/overview")["bytes"]["times_smaller"] is None
