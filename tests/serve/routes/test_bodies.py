"""Vectors as .npy and Arrow bodies, statistics, explanations, snapshots, and what the page asks for."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from serve_helpers import Running, running, vectors

import interlace as il

X = vectors(600, 16)
Q = vectors(25, 16, seed=3)
NPY, ARROW = "application/x-npy", "application/vnd.apache.arrow.stream"


def npy(x: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, x)
    return out.getvalue()


def stream(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def table(x: Any, **columns: Any) -> pa.Table:
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(x).ravel()), x.shape[1])
    return pa.table({"vector": lists, **columns})


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """With the collection "c" of 600 points, whose codes are learned."""
    folder = tmp_path_factory.mktemp("bodies")
    with running(folder) as found, httpx.Client(base_url=found.url, timeout=60) as client:
        body = {"vectors": {"size": 16, "distance": "Euclid"}, "interlace": {"n_bytes": 6}}
        assert client.put("/collections/c", json=body).status_code == 200
        payload = [json.dumps({"n": i}) for i in range(600)]
        data = stream(table(X, id=pa.array(range(600), pa.uint64()), payload=payload))
        answer = client.put("/collections/c/points", content=data, headers={"content-type": ARROW})
        assert answer.status_code == 200, answer.text
        with il.connect(found.url) as server:
            server["c"].relearn()
            server.declare("c", "n", "integer")
        yield client


def ask(
    client: httpx.Client, body: bytes, kind: str, accept: str = "application/json", **params: Any
) -> httpx.Response:
    headers = {"content-type": kind, "accept": accept}
    return client.post("/collections/c/points/query", content=body, headers=headers, params=params)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_queries_as_arrays_are_those_of_json(client: httpx.Client, dtype: Any) -> None:
    q = Q.astype(np.float16).astype(dtype)
    searches = [{"query": row.tolist(), "limit": 4, "with_payload": True} for row in q.astype(np.float32)]
    expected = client.post("/collections/c/points/query/batch", json={"searches": searches}).json()["result"]
    for body, kind in ((npy(q), NPY), (npy(np.asfortranarray(q)), NPY), (stream(table(q)), ARROW)):
        assert ask(client, body, kind, limit=4, with_payload=True).json()["result"] == expected
        found = pa.ipc.open_stream(ask(client, body, kind, ARROW, limit=4, with_payload=True).content).read_all()
        points = [p for one in expected for p in one["points"]]
        assert found.column("query").to_pylist() == [i for i, one in enumerate(expected) for _ in one["points"]]
        assert found.column("id").to_pylist() == [p["id"] for p in points]
        np.testing.assert_allclose(found.column("score").to_numpy(), [p["score"] for p in points], rtol=1e-6)
        assert [json.loads(text) for text in found.column("payload").to_pylist()] == [p["payload"] for p in points]
    filtered = ask(client, npy(q), NPY, filter='{"must":[{"key":"n","range":{"lt":9}}]}').json()["result"]
    assert {p["id"] for one in filtered for p in one["points"]} <= set(range(9))


def test_points_as_arrays(client: httpx.Client) -> None:
    client.put("/collections/more", json={"vectors": {"size": 16, "distance": "Dot"}})
    lists = pa.table({"vector": pa.array(X[:3].tolist()), "id": ["a", "b", "c"]})
    url = "/collections/more/points"
    assert client.put(url, content=stream(lists), headers={"content-type": ARROW}).status_code == 200
    assert client.post(url + "/count", json={}).json()["result"]["count"] == 3
    client.put("/collections/more2", json={"vectors": {"size": 16, "distance": "Dot"}})
    url = "/collections/more2/points"
    answer = client.put(url, content=npy(X[:5]), headers={"content-type": NPY}, params={"first_id": 7})
    assert answer.status_code == 200
    assert [p["id"] for p in client.post(url + "/scroll", json={}).json()["result"]["points"]] == [7, 8, 9, 10, 11]


def bad_bodies() -> dict[str, tuple[bytes, str, str]]:
    good = stream(table(Q))
    bomb = npy(np.zeros((2, 16), np.float32)).replace(b"(2, 16)", b"(2**9,)")
    huge = npy(np.zeros((2, 16), np.float32)).replace(b"(2, 16), ", b"(9999999, 16), "[:9])
    return {
        "empty": (b"", NPY, "not a .npy array"),
        "text": (b"{}", NPY, "not a .npy array"),
        "cut": (npy(Q)[:-4], NPY, "fewer are there"),
        "more": (npy(Q) + b"x", NPY, "bytes follow"),
        "huge": (huge, NPY, "."),
        "bomb": (bomb, NPY, "."),
        "object": (npy(Q).replace(b"<f4", b"|O4"), NPY, "."),
        "text values": (npy(np.array(["a"])), NPY, "numbers"),
        "1-D": (npy(Q[0]), NPY, "2-D"),
        "dimension": (npy(Q[:, :5]), NPY, "16"),
        "nan": (npy(Q * np.nan), NPY, "nan|NaN|finite"),
        "no arrow": (b"ARROW1", ARROW, "not an Arrow IPC stream"),
        "cut arrow": (good[:-100], ARROW, "."),
        "no vector": (stream(pa.table({"x": [1]})), ARROW, "no column 'vector'"),
        "nulls": (stream(pa.table({"vector": pa.array([[1.0] * 16, None])})), ARROW, "nulls"),
        "lengths": (stream(pa.table({"vector": pa.array([[1.0] * 16, [1.0]])})), ARROW, "different lengths"),
        "strings": (stream(pa.table({"vector": pa.array([["a"]])})), ARROW, "lists of numbers"),
        "compressed": (
            stream(table(np.zeros((999, 16), np.float32)), options=pa.ipc.IpcWriteOptions(compression="lz4")),
            ARROW,
            "compressed",
        ),
        "dictionary": (stream(pa.table({"vector": pa.array(["a", "a"]).dictionary_encode()})), ARROW, "."),
    }


@pytest.mark.parametrize("name", bad_bodies())
def test_bad_arrays_are_refused(client: httpx.Client, name: str) -> None:
    import re

    body, kind, message = bad_bodies()[name]
    answer = ask(client, body, kind)
    assert (answer.status_code, answer.json()["code"]) == (400, "input"), answer.text
    assert re.search(message, answer.json()["detail"])
    put = client.put("/collections/c/points", content=body, headers={"content-type": kind}, params={"first_id": 0})
    assert put.status_code == 400
    assert client.post("/collections/c/points/count", json={}).json()["result"]["count"] == 600


def test_params_and_statistics(client: httpx.Client) -> None:
    def search(**params: Any) -> Any:
        body = {"query": Q[0].tolist(), "limit": 5, "params": params, "with_stats": True}
        return client.post("/collections/c/points/query", json=body).json()

    stats = search()["stats"]
    assert stats["rows"] == 600
    assert stats["chosen"] == "recall=0.95 by default"
    assert 5 <= stats["reranked"] < 600
    assert 0 < stats["survivors"] <= stats["scanned"] <= 600
    assert search(rerank=0)["stats"]["reranked"] == 0
    assert search(rerank=7)["stats"]["reranked"] == 7
    assert search(exact=True)["stats"]["reranked"] == 600
    assert search(quantization={"oversampling": 3.0})["stats"]["reranked"] == 15
    assert search(quantization={"rescore": False})["stats"]["reranked"] == 0
    assert search(margin="inf", rerank=0)["stats"]["margin"] == "inf"
    assert search(margin=0.9, rerank=0)["stats"]["margin"].startswith(("0.9", "exact"))
    true = np.argsort(((X - Q[0]) ** 2).sum(1))[:5].tolist()
    assert [p["id"] for p in search(exact=True)["result"]["points"]] == true
    refused = client.post(
        "/collections/c/points/query", json={"query": Q[0].tolist(), "params": {"recall": 0.9, "rerank": 5}}
    )
    assert refused.status_code == 400


def test_explanations(client: httpx.Client) -> None:
    true = np.argsort(((X - Q[0]) ** 2).sum(1))
    for point, found in ((int(true[0]), True), (int(true[-1]), False)):
        body = {"query": Q[0].tolist(), "id": point, "limit": 5}
        told = client.post("/collections/c/points/explain", json=body).json()["result"]
        assert told["id"] == point
        assert told["rerank"]["found"] is found
        assert told["verdict"] in told["text"]
        assert (told["lost"] == "found") or not found or told["rerank"]["candidate"]
    body = {"query": 3, "id": 4, "filter": {"must": [{"key": "n", "match": {"value": 9}}]}}
    assert client.post("/collections/c/points/explain", json=body).json()["result"]["lost"] == "filter"
    assert client.post("/collections/c/points/explain", json={"query": 3, "id": 12345}).status_code == 404


def test_snapshots_are_whole_copies(client: httpx.Client, tmp_path: Path) -> None:
    url = "/collections/c/snapshots"
    made = client.post(url).json()["result"]
    assert [s["name"] for s in client.get(url).json()["result"]] == [made["name"]]
    data = client.get(f"{url}/{made['name']}").content
    assert len(data) == made["size"]
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extractall(tmp_path, filter="data")
    with il.open(tmp_path / "c", mode="a") as copy:
        copy.verify()
        assert len(copy) == 600
        assert copy.ids.tolist() == list(range(600))
    for name in ("none.tar", "..%2f..%2fMANIFEST.json", "MANIFEST.json"):
        assert client.get(f"{url}/{name}").status_code in (400, 404)
    assert client.delete(f"{url}/{made['name']}").json()["result"] is True
    assert client.get(url).json()["result"] == []


def test_snapshots_with_the_client_of_qdrant(tmp_path: Path) -> None:
    qdrant = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    with running(tmp_path) as found:
        client = qdrant.QdrantClient(url=found.url, check_compatibility=False)
        config = qdrant.models.VectorParams(size=16, distance=qdrant.models.Distance.DOT)
        client.create_collection("s", vectors_config=config)
        made = client.create_snapshot("s")
        assert [s.name for s in client.list_snapshots("s")] == [made.name]
        assert client.delete_snapshot("s", made.name)
        client.close()


def test_what_the_page_asks_for(client: httpx.Client) -> None:
    base = "/collections/c/insight"
    overview = client.get(f"{base}/overview").json()["result"]
    assert (overview["rows"], overview["dim"]) == (600, 16)
    assert overview["bytes"]["codes"] > 0
    assert overview["health"]["state"] == "learned"
    body = {"query": Q[0].tolist(), "limit": 5, "with_stats": True}
    stats = client.post("/collections/c/points/query", json=body).json()["stats"]
    steps = client.post(f"{base}/funnel", json=body).json()["result"]["steps"]
    assert steps["rows"] >= steps["scanned"] >= steps["survivors"] >= steps["hits"] == 5
    assert steps["reranked"] == stats["reranked"] >= 5
    curve = client.get(f"{base}/margins?k=5").json()["result"]["margins"]
    assert curve[-1]["margin"] == "inf"
    assert curve[-1]["agreement"] == 1
    assert all(0 <= row["recall"] <= 1 for row in curve)
    drawn = client.post(f"{base}/map", json={"sample": 100, "query": Q[0].tolist()}).json()["result"]
    assert len(drawn["points"]) == 100
    assert len(drawn["query"]["hits"]) == len(drawn["query"]["hits_at"]) == 10
    assert sum(cell["rows"] for cell in drawn["cells"]) == 100
    sampled = {point["id"] for point in drawn["points"]}
    assert set(drawn["query"]["survivors"]) <= sampled
    assert set(drawn["query"]["hits"]) & sampled <= set(drawn["query"]["survivors"])
    learned = client.get(f"{base}/learned").json()["result"]
    assert learned["learned"]
    assert len(learned["variances"]) == len(learned["psi"])
    assert learned["books"]
    assert 0 <= client.get(f"{base}/random").json()["result"]["id"] < 600


def test_a_collection_learns_by_itself_while_it_is_used(served: Running) -> None:
    with httpx.Client(base_url=served.url, timeout=60) as client:
        body = {"vectors": {"size": 16, "distance": "Euclid"}, "interlace": {"n_bytes": 8, "learn_at": 400}}
        assert client.put("/collections/learning", json=body).status_code == 200
        url = "/collections/learning"
        true = np.argsort(((X[:400, None] - Q[None]) ** 2).sum(2), axis=0)[:5].T
        for first in range(0, 400, 100):
            part = npy(X[first : first + 100])
            params = {"first_id": first}
            assert client.put(f"{url}/points", content=part, headers={"content-type": NPY}, params=params).is_success
        states = set()
        while "learned" not in states:
            states.add(client.get(f"{url}/insight/overview").json()["result"]["health"]["state"])
            searches = [{"query": q.tolist(), "limit": 5, "params": {"exact": True}} for q in Q[:3]]
            found = client.post(f"{url}/points/query/batch", json={"searches": searches}).json()["result"]
            assert [[p["id"] for p in one["points"]] for one in found] == true[:3].tolist()
            assert client.put(f"{url}/index", json={"field_name": "n", "field_schema": "integer"}).is_success
        assert states <= {"collecting", "learning", "learned"}
        assert client.post(f"{url}/points/count", json={}).json()["result"]["count"] == 400
        assert "n" in client.get(url).json()["result"]["payload_schema"]


def test_the_page_of_an_empty_collection(served: Running) -> None:
    with httpx.Client(base_url=served.url) as client:
        client.put("/collections/empty", json={"vectors": {"size": 4, "distance": "Dot"}})
        base = "/collections/empty/insight"
        for path in ("overview", "margins", "learned"):
            assert client.get(f"{base}/{path}").status_code == 200, path
        assert client.post(f"{base}/map", json={}).json()["result"]["points"] == []
        assert client.get(f"{base}/random").status_code == 400
        assert client.post(f"{base}/funnel", json={"query": [1, 2, 3, 4]}).json()["result"]["steps"]["hits"] == 0
        assert client.post(f"{base}/funnel", json={}).status_code == 400
