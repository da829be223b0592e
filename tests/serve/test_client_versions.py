"""Answers have the fields that Qdrant's clients require, of all versions from 1.12 on, whichever of them is installed.

``required_fields.json`` has what clients 1.12 to 1.18 require of each result. ``python test_client_versions.py FOLDER``
adds what the client in a folder requires: ``pip install --no-deps --target FOLDER "qdrant-client==1.12.*"``.
"""

from __future__ import annotations

import json
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

DATA = Path(__file__).with_name("required_fields.json")
#: Results by the name of their model in the client.
RESULTS = (
    *("CollectionInfo", "CollectionsResponse", "CollectionExistence", "CollectionsAliasesResponse"),
    *("QueryResponse", "GroupsResult", "ScrollResult", "FacetResponse", "CountResult", "Record"),
    *("UpdateResult", "SnapshotDescription", "VersionInfo"),
)


def required(model: Any, prefix: str = "") -> Iterator[str]:
    """Paths of the fields that a model of the client requires, ``[]`` for all values of a list or an object."""
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        if field.is_required():
            yield path
        inner, several = inner_model(field.annotation)
        if inner is not None:
            yield from required(inner, f"{path}{several}.")


def inner_model(annotation: Any) -> tuple[Any, str]:
    """The model of an annotation; None where it has none, or several to choose from."""
    kind, inside = typing.get_origin(annotation), [a for a in typing.get_args(annotation) if a is not type(None)]
    if kind is typing.Union:
        return inner_model(inside[0]) if len(inside) == 1 else (None, "")
    if kind in (list, dict):
        model, several = inner_model(inside[-1])
        return model, "[]" + several
    return (annotation, "") if hasattr(annotation, "model_fields") else (None, "")


def missing(value: Any, path: str) -> bool:
    """Whether a result lacks a field, or has null there. Nothing is missing inside of what is not there."""
    first, _, rest = path.partition(".")
    name, several = first.removesuffix("[]"), first.endswith("[]")
    if not rest:
        return value.get(name) is None
    inner = value.get(name)
    if inner is None:
        return False
    values = inner.values() if several and isinstance(inner, dict) else inner if several else [inner]
    return any(missing(each, rest) for each in values)


def answers(url: str, name: str) -> Iterator[tuple[str, Any]]:
    """Results of a server with a new collection, with the names of their models."""
    points = [{"id": i, "vector": [1.0, i, 2.0, 3.0], "payload": {"n": i}} for i in range(5)]
    of, query = f"/collections/{name}", {"query": [1.0, 2.0, 3.0, 4.0]}
    alias = {"actions": [{"create_alias": {"alias_name": f"{name}-2", "collection_name": name}}]}
    with httpx.Client(base_url=url) as client:

        def ask(method: str, path: str, body: Any = None) -> Any:
            answer = client.request(method, path, json=body)
            assert answer.status_code == 200, answer.text
            found = answer.json()
            return found.get("result", found)

        ask("PUT", of, {"vectors": {"size": 4, "distance": "Cosine"}})
        yield "UpdateResult", ask("PUT", f"{of}/index", {"field_name": "n", "field_schema": "integer"})
        yield "UpdateResult", ask("PUT", f"{of}/points", {"points": points})
        ask("POST", "/collections/aliases", alias)
        yield "CollectionInfo", ask("GET", of)
        yield "CollectionsResponse", ask("GET", "/collections")
        yield "CollectionExistence", ask("GET", f"{of}/exists")
        yield "CollectionsAliasesResponse", ask("GET", "/aliases")
        yield "QueryResponse", ask("POST", f"{of}/points/query", query)
        yield "QueryResponse", ask("POST", f"{of}/points/query", {})
        yield "GroupsResult", ask("POST", f"{of}/points/query/groups", {**query, "group_by": "n"})
        yield "ScrollResult", ask("POST", f"{of}/points/scroll", {})
        yield "ScrollResult", ask("POST", f"{of}/points/scroll", {"order_by": "n"})
        yield "FacetResponse", ask("POST", f"{of}/facet", {"key": "n"})
        yield "CountResult", ask("POST", f"{of}/points/count", {})
        yield "Record", ask("GET", f"{of}/points/1")
        yield "SnapshotDescription", ask("POST", f"{of}/snapshots")
        yield "VersionInfo", ask("GET", "/")


def check(found: Iterator[tuple[str, Any]], wanted: dict[str, list[str]]) -> None:
    checked = 0
    for name, result in found:
        assert [path for path in wanted[name] if missing(result, path)] == [], name
        checked += 1
    assert checked >= len(wanted)


def test_answers_have_what_clients_from_1_12_on_require(served: Any) -> None:
    wanted = json.loads(DATA.read_text())
    assert wanted.keys() == set(RESULTS)
    check(answers(served.url, "old"), wanted)


def test_answers_have_what_the_installed_client_requires(served: Any) -> None:
    models = pytest.importorskip("qdrant_client.http.models", reason="qdrant-client is not installed")
    check(answers(served.url, "new"), {name: list(required(getattr(models, name))) for name in RESULTS})


def test_a_collection_that_cannot_be_opened_is_described_too(tmp_path: Path) -> None:
    from serve_helpers import running

    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "MANIFEST.json").write_text("{")
    with running(tmp_path) as found:
        result = httpx.get(f"{found.url}/collections/bad").json()["result"]
    assert result["status"] == "red"
    assert [path for path in json.loads(DATA.read_text())["CollectionInfo"] if missing(result, path)] == []


def test_an_index_in_shards_is_described_too() -> None:
    from interlace.serve.collections.describing import described

    result = described("green", rows=3, vectors=(4, "ip"), own={"shards": 2})
    assert [path for path in json.loads(DATA.read_text())["CollectionInfo"] if missing(result, path)] == []


def test_the_settings_of_a_description_are_accepted_for_a_new_collection(served: Any) -> None:
    with httpx.Client(base_url=served.url) as client:
        vectors = {"vectors": {"size": 4, "distance": "Dot"}}
        assert client.put("/collections/first", json=vectors).status_code == 200
        config = client.get("/collections/first").json()["result"]["config"]
        tuned = {name: config[name] for name in ("hnsw_config", "wal_config")}
        body = {**config["params"], **tuned, "optimizers_config": config["optimizer_config"]}
        answer = client.put("/collections/second", json=body)
        assert answer.status_code == 200, answer.text


def test_a_field_that_is_not_there_is_noticed() -> None:
    assert missing({"a": [{"b": 1}, {}]}, "a[].b")
    assert missing({"a": {"x": {"b": 1}, "y": {"b": None}}}, "a[].b")
    assert not missing({"a": None}, "a[].b")
    assert missing({"a": None}, "a")


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    from qdrant_client.http import models

    stored = json.loads(DATA.read_text()) if DATA.exists() else {}
    for each in RESULTS:
        stored[each] = sorted({*stored.get(each, ()), *required(getattr(models, each))})
    DATA.write_text(json.dumps(stored, indent=1) + "\n")
