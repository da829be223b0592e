"""What the page says of a row that is no hit: lost only if it is one of the k nearest; no cells without codes."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from page_helpers import build_shapes, build_words
from serve_helpers import Running, running, vectors

import interlace as il
from interlace.serve.routes.page import PAGE

#: The page's own functions, with the requests of the page.
SCRIPT = """
import { readFileSync } from "node:fs";
import { stepsOf, traced, verdictOf } from "./trail.js";
const { url, cases } = JSON.parse(readFileSync(0));
const explain = async (body) => {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url, { method: "POST", body: JSON.stringify(body), headers });
  if (!answer.ok) throw new Error(await answer.text());
  return (await answer.json()).result;
};
const found = [];
for (const { request, own } of cases) {
  const { whole, codes } = await traced(explain, request, own);
  const steps = stepsOf(whole, codes, (rank) => String(rank), own);
  found.push({ ...verdictOf(String(request.id), whole, steps, own), steps });
}
console.log(JSON.stringify(found));
"""
Say = Callable[[str, list[dict[str, Any]]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Codes beside vectors, codes alone, and a collection that still collects rows."""
    folder = tmp_path_factory.mktemp("trail")
    build_shapes(folder / "shapes")
    build_words(folder / "words")
    with il.create(folder / "new", dim=16, columns={"label": "int64"}) as store:
        store.add(vectors(400), payload={"label": np.arange(400) % 5})
    with running(folder) as found:
        yield found


@pytest.fixture(scope="module")
def say(shown: Running, tmp_path_factory: pytest.TempPathFactory) -> Say:
    """What the page says of rows, run by node."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    folder = tmp_path_factory.mktemp("page")
    for path in PAGE.glob("*.js"):
        shutil.copy(path, folder)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "run.js").write_text(SCRIPT)

    def said(name: str, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
        url = f"{shown.url}/collections/{name}/points/explain"
        given = json.dumps({"url": url, "cases": cases}).encode()
        ran = subprocess.run([node, folder / "run.js"], input=given, capture_output=True, check=False, timeout=120)
        assert ran.returncode == 0, ran.stderr.decode()
        found: list[dict[str, Any]] = json.loads(ran.stdout)
        return found

    return said


def hits(shown: Running, name: str, **body: Any) -> list[Any]:
    answer = httpx.post(f"{shown.url}/collections/{name}/points/query", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    return [point["id"] for point in answer.json()["result"]["points"]]


def nearest(shown: Running, name: str, **body: Any) -> list[Any]:
    """The hits if nothing were lost: all vectors are compared, or all codes where vectors are not kept."""
    params = {"exact": True} if name != "words" else {"margin": "exact"}
    return hits(shown, name, **{**body, "params": params})


@pytest.mark.parametrize("margin", [None, 0.5, "exact"])
@pytest.mark.parametrize("rerank", [None, 0, 12])
@pytest.mark.parametrize("name", ["shapes", "words", "new"])
def test_only_rows_among_the_nearest_are_called_lost(
    shown: Running, say: Say, name: str, margin: Any, rerank: int | None
) -> None:
    rerank = None if name == "words" else rerank  # there are no vectors to compare with
    params = {key: value for key, value in (("margin", margin), ("rerank", rerank)) if value is not None}
    first = {"shapes": 100, "words": "word-3", "new": 7}[name]
    body = {"query": first, "limit": 6, "params": params}
    found, true = hits(shown, name, **body), nearest(shown, name, query=first, limit=6)
    near = nearest(shown, name, query=first, limit=60)
    others = [*near[::3], near[0], near[-1], *true, *found]
    rows = [row for row in dict.fromkeys(others) if row != first]
    told = say(name, [{"request": {**body, "id": row}, "own": 1} for row in rows])
    for row, one in zip(rows, told, strict=True):
        texts = " ".join(step["text"] for step in one["steps"])
        if row in found:
            assert (one["kind"], one["text"]) == ("ok", f"Row {row} is found")
        elif row in true:
            assert one["kind"] == "lost"
            assert f"Row {row} was lost: " in one["text"]
        else:
            assert (one["kind"], one["text"]) == ("left", f"Row {row} is not among the 6 nearest"), texts
        assert "-1" not in texts.split()
        assert "–" not in texts  # what the page shows where there is no number
        assert ("cell" in texts) == (name != "new"), texts
    assert {one["kind"] for one in told} >= {"ok", "left"}


def test_a_loose_search_does_lose_rows(shown: Running, say: Say) -> None:
    """The test above would pass if nothing were ever called lost."""
    lost = 0
    for first in range(100, 140):
        body = {"query": first, "limit": 6, "params": {"margin": 0.5, "rerank": 0}}
        missed = set(nearest(shown, "shapes", query=first, limit=6)) - set(hits(shown, "shapes", **body))
        told = say("shapes", [{"request": {**body, "id": row}, "own": 1} for row in sorted(missed)[:2]])
        assert [one["kind"] for one in told] == ["lost"] * len(told)
        lost += len(told)
    assert lost > 10


def test_a_filter_is_the_reason_for_rows_that_it_leaves_out(shown: Running, say: Say) -> None:
    wanted = {"must": [{"key": "label", "match": {"value": 3}}]}
    for name, row in (("shapes", 101), ("new", 1)):
        vector = vectors(3_000, 16)[row % 100].tolist()
        (told,) = say(name, [{"request": {"query": vector, "id": row, "limit": 3, "filter": wanted}, "own": 0}])
        assert (told["kind"], told["text"]) == ("left", f"Row {row} is left out by the filter")
        (kept,) = hits(shown, name, query=vector, limit=1, filter=wanted)
        (told,) = say(name, [{"request": {"query": vector, "id": kept, "limit": 3, "filter": wanted}, "own": 0}])
        assert told["kind"] == "ok"


def test_a_map_of_rows_without_codes_has_no_cells(shown: Running) -> None:
    url = f"{shown.url}/collections/new/insight/map"
    found = httpx.post(url, json={"query": 3, "limit": 4}).json()["result"]
    assert found["cells"] == []
    assert {point["cell"] for point in found["points"]} == {None}
    assert found["query"]["visited"] is None
    assert len(found["query"]["hits"]) == 4
