"""Vectors and payloads at paths are changed, alone and in batches, as the client's own local mode changes them."""

from __future__ import annotations

import copy
import re
from typing import Any

import httpx
import numpy as np
import pytest
from serve_helpers import Running, running, vectors

import interlace as il
from interlace.serve.requests import paths

qdrant_client = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
from qdrant_client import QdrantClient, models  # noqa: E402
from qdrant_client.http.exceptions import UnexpectedResponse  # noqa: E402

X = vectors(80)
CONFIG = models.VectorParams(size=16, distance=models.Distance.EUCLID)


@pytest.fixture
def twins(client: QdrantClient, request: pytest.FixtureRequest) -> tuple[str, QdrantClient]:
    """A collection of 40 points, and the same in the client's local mode."""
    name = re.sub(r"\W", "_", request.node.name, flags=re.ASCII)[:100]
    local = QdrantClient(":memory:")
    points = [models.PointStruct(id=i, vector=X[i].tolist(), payload=payload(i)) for i in range(40)]
    for each in (client, local):
        each.create_collection(name, vectors_config=CONFIG)
        each.upsert(name, copy.deepcopy(points))
    client.create_payload_index(name, "n", field_schema="integer")
    return name, local


def payload(i: int) -> dict[str, Any]:
    return {
        "n": i,
        "a": {"b": i, "c": {"d": [1, 2]}},
        "list": [{"x": 1, "y": {"z": 2}}, {"x": 2}, 3][: i % 4],
        "with a blank": 1,
        "dot.ted": {"k": 1},
    }


def everything(client: QdrantClient, name: str) -> dict[Any, tuple[Any, Any]]:
    found, _ = client.scroll(name, limit=1000, with_vectors=True)
    return {point.id: (point.payload or {}, np.round(point.vector, 2).tolist()) for point in found}


def test_changes_are_those_of_the_local_mode(client: QdrantClient, twins: tuple[str, QdrantClient]) -> None:
    name, local = twins
    rng = np.random.default_rng(7)
    keys = [
        None,
        "a",
        "a.c",
        "a.c.d",
        "new",
        "new.deep",
        "n.x",
        "list[]",
        "list[0]",
        "list[1].y",
        "list[].y",
        "list[9]",
    ]
    keys += ['"dot.ted"', "a.c.d[0]", "a[].b", "absent[].b"]
    client.delete_payload_index(name, "n")  # n becomes an object
    for _ in range(40):
        chosen = rng.choice(40, rng.integers(1, 6), replace=False).tolist()
        key = keys[rng.integers(len(keys))]
        new: dict[str, Any] = {"v": int(rng.integers(100)), "b": None if rng.random() < 0.3 else [1, {"q": 2}]}
        kind = rng.integers(4)
        for each in (client, local):
            if kind < 2:
                each.set_payload(name, copy.deepcopy(new), points=chosen, key=key)
            elif kind == 2:
                each.delete_payload(name, [key or "a.b", "none.at.all"], points=chosen)
            else:
                vector = X[40 + chosen[0]].tolist()
                each.update_vectors(name, [models.PointVectors(id=i, vector=vector) for i in chosen])
        assert everything(client, name) == everything(local, name), (kind, key)
    assert client.query_points(name, X[5].tolist(), limit=1).points


def batch(rng: np.random.Generator) -> list[Any]:
    """Random operations."""

    def ids(n: int = 3) -> list[int]:
        found: list[int] = rng.choice(40, n, replace=False).tolist()
        return found

    def one() -> Any:
        kind = rng.integers(7)
        if kind == 0:
            points = [models.PointStruct(id=i, vector=X[i + 40].tolist(), payload={"n": i}) for i in range(40)]
            return models.UpsertOperation(upsert=models.PointsList(points=[points[i] for i in ids()]))
        if kind == 1:
            return models.SetPayloadOperation(set_payload=models.SetPayload(payload={"s": ids()}, filter=few))
        if kind == 2:
            return models.OverwritePayloadOperation(
                overwrite_payload=models.SetPayload(payload={"n": ids(1)[0]}, filter=few)
            )
        if kind == 3:
            return models.DeletePayloadOperation(delete_payload=models.DeletePayload(keys=["a.b", "list"], filter=few))
        if kind == 4:
            return models.ClearPayloadOperation(clear_payload=models.FilterSelector(filter=few))
        if kind == 5:
            return models.DeleteOperation(delete=models.PointIdsList(points=ids(1)))
        return models.SetPayloadOperation(set_payload=models.SetPayload(payload={"t": 1}, key="a.c", filter=few))

    low = int(rng.integers(40))
    few = models.Filter(must=models.FieldCondition(key="n", range=models.Range(gte=low, lt=low + 5)))
    return [one() for _ in range(rng.integers(1, 6))]


def test_batches_are_those_of_the_local_mode(client: QdrantClient, twins: tuple[str, QdrantClient]) -> None:
    name, local = twins
    rng = np.random.default_rng(3)
    for _ in range(15):
        operations = batch(rng)
        assert len(client.batch_update_points(name, copy.deepcopy(operations))) == len(operations)
        local.batch_update_points(name, operations)
        assert everything(client, name) == everything(local, name), operations


def test_later_operations_see_earlier_ones(client: QdrantClient, twins: tuple[str, QdrantClient]) -> None:
    name, _ = twins
    new = models.PointStruct(id=500, vector=X[70].tolist(), payload={"n": 500})
    found = models.Filter(must=models.FieldCondition(key="n", match=models.MatchValue(value=500)))
    moved = models.UpdateVectors(points=[models.PointVectors(id=500, vector=X[71].tolist())])
    client.batch_update_points(
        name,
        [
            models.UpsertOperation(upsert=models.PointsList(points=[new])),
            models.SetPayloadOperation(set_payload=models.SetPayload(payload={"seen": True}, filter=found)),
            models.UpdateVectorsOperation(update_vectors=moved),
            models.DeleteOperation(delete=models.PointIdsList(points=[0])),
        ],
    )
    (point,) = client.retrieve(name, [500, 0], with_vectors=True)
    assert point.payload == {"n": 500, "seen": True}
    np.testing.assert_allclose(point.vector, X[71], atol=2e-3)
    assert [hit.id for hit in client.query_points(name, X[71].tolist(), limit=1, query_filter=found).points] == [500]


def test_a_batch_ends_at_the_first_failure_which_is_named(
    client: QdrantClient, twins: tuple[str, QdrantClient]
) -> None:
    name, _ = twins
    operations = [
        models.DeleteOperation(delete=models.PointIdsList(points=[1])),
        models.SetPayloadOperation(set_payload=models.SetPayload(payload={"n": "text"}, points=[2])),
        models.DeleteOperation(delete=models.PointIdsList(points=[3])),
    ]
    with pytest.raises(UnexpectedResponse) as refused:
        client.batch_update_points(name, operations)
    assert refused.value.structured()["detail"].startswith("operations[1].set_payload: payload field 'n' is declared")
    assert "the 1 operations before it are done" in refused.value.structured()["detail"]
    assert {1, 2, 3} & everything(client, name).keys() == {2, 3}
    before = everything(client, name)
    bad = models.UpdateVectorsOperation(update_vectors=models.UpdateVectors(points=[]))
    with pytest.raises(UnexpectedResponse, match="operations.1.update_vectors"):  # not valid: nothing is done
        client.batch_update_points(name, [operations[2], bad])
    assert everything(client, name) == before


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({}, "exactly one of upsert, delete, set_payload"),
        ({"delete": {"points": [1]}, "clear_payload": {"points": [1]}}, "exactly one of"),
        ({"truncate": {}}, "truncate"),
        ({"delete_vectors": {"points": [1], "vector": [""]}}, "not supported"),
        ({"upsert": {"points": []}}, "has no points"),
        ({"set_payload": {"payload": {}, "points": [1], "key": "a..b"}}, "must be a path of keys"),
        ({"overwrite_payload": {"payload": {}, "points": [1], "key": "a"}}, "not supported"),
        ({"delete_payload": {"keys": ["[0]"], "points": [1]}}, "must be a path of keys"),
        ({"update_vectors": {"points": [{"id": 1, "vector": [1.0]}]}}, "must have 16 dimensions"),
        ({"update_vectors": {"points": [{"id": 1, "vector": {"image": [1.0] * 16}}]}}, "named vector 'image'"),
        ({"update_vectors": {"points": [{"id": 1, "vector": [1.0] * 16}] * 2}}, "unique"),
    ],
)
def test_bad_operations_are_named_and_change_nothing(
    client: QdrantClient, served: Running, twins: tuple[str, QdrantClient], operation: Any, message: str
) -> None:
    name, _ = twins
    before = everything(client, name)
    url = f"{served.url}/collections/{name}/points/batch"
    answer = httpx.post(url, json={"operations": [operation]})
    assert answer.status_code in (400, 409, 422)
    assert message in answer.json()["detail"]
    assert everything(client, name) == before


def test_points_that_are_missing_are_named_after_the_others_were_changed(
    client: QdrantClient, twins: tuple[str, QdrantClient]
) -> None:
    name, _ = twins
    calls = (
        lambda: client.set_payload(name, {"m": 1}, points=[3, 777]),
        lambda: client.update_vectors(name, [models.PointVectors(id=i, vector=X[0].tolist()) for i in (3, 777)]),
    )
    for call in calls:
        with pytest.raises(UnexpectedResponse) as refused:
            call()
        assert refused.value.status_code == 404
        assert refused.value.structured()["code"] == "unknown_id"
        text = "there is no point 777 (1 of 2 points are missing; the others were changed)"
        assert refused.value.structured()["detail"] == text
    found, vector = everything(client, name)[3]
    assert found["m"] == 1
    np.testing.assert_allclose(vector, X[0], atol=0.01)
    with pytest.raises(UnexpectedResponse, match="there is no point 778"):
        client.clear_payload(name, [778])


def test_vectors_change_without_kept_originals_and_with_other_columns(tmp_path: Any) -> None:
    rows = vectors(400)
    codebooks = il.Index.build(rows, n_bytes=2, progress=None).codebooks
    columns = {"n": "int64", "day": "timestamp[us]"}
    with il.create(tmp_path / "codes", codebooks, columns=columns) as store:
        days = np.arange(400).astype("datetime64[us]")
        store.add(rows, payload={"n": np.arange(400), "day": days})
    with il.create(tmp_path / "bare", codebooks) as store:
        store.add(rows)
    with running(tmp_path) as found:
        client = QdrantClient(url=found.url, check_compatibility=False)
        before = client.retrieve("codes", [7])[0].payload
        for name in ("codes", "bare"):
            client.update_vectors(name, [models.PointVectors(id=7, vector=rows[300].tolist())])
            hits = client.query_points(name, rows[300].tolist(), limit=2).points
            assert {7, 300} <= {hit.id for hit in hits} or hits[0].score == pytest.approx(hits[1].score)
            same = client.retrieve(name, [7, 300], with_vectors=True)
            assert same[0].vector == same[1].vector
        assert client.retrieve("codes", [7])[0].payload == before
        client.close()


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("a", ["a"]),
        ("a.b-c.ü", ["a", "b-c", "ü"]),
        ("a[]", ["a", None]),
        ("a[0][12].b", ["a", 0, 12, "b"]),
        ('"a.b".c', ["a.b", "c"]),
        ("with a blank", ["with a blank"]),
    ],
)
def test_paths_are_parsed(text: str, steps: list[Any]) -> None:
    assert paths.parsed(text) == steps


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a..b", "[0]", "a[", "a]", "a[x]", "a[-1]", '"a', 'a"b"', "a[0]b", "x" * 513]
)
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a path of keys"):
        paths.parsed(text)


@pytest.mark.parametrize(
    "keys", [["a.b"], ["a", "a.b"], ['"dot.ted".k'], ["list[].x"], ["list[]"], ["list"], ["list[0]"], ["n", "no"], []]
)
def test_parts_of_payloads_are_selected_as_the_local_mode_does(
    client: QdrantClient, twins: tuple[str, QdrantClient], keys: list[str]
) -> None:
    name, local = twins
    for wanted in (keys, models.PayloadSelectorInclude(include=keys), models.PayloadSelectorExclude(exclude=keys)):
        found, expected = ([p.payload for p in each.scroll(name, with_payload=wanted)[0]] for each in (client, local))
        assert found == expected
