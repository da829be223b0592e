"""The limit answer_bytes: answers are counted before they are made."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from serve_helpers import Running, running, vectors

import interlace as il
from interlace.errors import InputError
from interlace.serve.collections.answer_size import BLOCK, NUMBER, ROWS, blocks
from interlace.store import Snapshot

DIM, N, LIMIT = 64, 60, 40_000
X = vectors(N, DIM)
ALL = list(range(N))
V = X[0].tolist()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("small"), limits={"answer_bytes": LIMIT}) as found:
        with httpx.Client(base_url=found.url) as client:
            made = client.put("/collections/c", json={"vectors": {"size": DIM, "distance": "Euclid"}})
            assert made.status_code == 200
            declared = client.put("/collections/c/index", json={"field_name": "n", "field_schema": "integer"})
            assert declared.status_code == 200
            points = [{"id": i, "vector": X[i].tolist(), "payload": {"n": i, "t": "ü" * 500}} for i in ALL]
            assert client.put("/collections/c/points", json={"points": points}).status_code == 200
        yield found


@pytest.fixture
def client(small: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=small.url) as found:
        yield found


VECTORS, PAYLOADS = {"with_vector": True, "with_payload": False}, {"with_vector": False, "with_payload": True}
SMALL = {"with_vector": False, "with_payload": ["n"]}  # of each payload
ROUTES: dict[str, Any] = {
    "query": ("points/query", {"query": V}, 40),
    "query by id": ("points/query", {"query": 3}, 40),
    "filter": ("points/query", {"query": V, "filter": {"must": [{"key": "n", "range": {"gte": 0}}]}}, 40),
    "mmr": ("points/query", {"query": {"nearest": V, "mmr": {"diversity": 0.5}}}, 40),
    "recommend": ("points/query", {"query": {"recommend": {"positive": [1, 2], "negative": [3]}}}, 40),
    "listed": ("points/query", {}, 40),
    "scroll": ("points/scroll", {}, 40),
    "ordered": ("points/scroll", {"order_by": "n"}, 40),
    "groups": ("points/query/groups", {"query": V, "group_by": "n", "group_size": 1}, 40),
}


@pytest.mark.parametrize("name", ROUTES)
def test_answers_that_are_too_large_are_refused_before_they_are_made(
    client: httpx.Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, body, limit = ROUTES[name]
    for more in (VECTORS, PAYLOADS):
        answer = client.post(f"/collections/c/{path}", json={**body, "limit": limit, **more})
        problem = answer.json()
        assert (answer.status_code, problem["code"], problem["limit"]) == (422, "limit", "answer_bytes"), problem
        assert f"the limit answer_bytes is {LIMIT}, got up to" in problem["detail"]
        assert ("vectors of 64 numbers" if more is VECTORS else "payloads") in problem["detail"]
        fits = client.post(f"/collections/c/{path}", json={**body, "limit": 3, **more})
        assert fits.status_code == 200, fits.text
    assert client.post(f"/collections/c/{path}", json={**body, "limit": limit, **SMALL}).status_code == 200


def test_points_by_ids_and_batches(client: httpx.Client) -> None:
    for more in (VECTORS, PAYLOADS):
        for path, many, few in (
            ("points", {"ids": ALL, **more}, {"ids": ALL[:3], **more}),
            # 60 queries of one hit each, which would fit alone; the same with ids, which are searched one by one
            *(
                (
                    "points/query/batch",
                    {"searches": [{"query": q, "limit": 1, **more}] * 60},
                    {"searches": [{"query": q, "limit": 1, **more}] * 3},
                )
                for q in (V, 3)
            ),
        ):
            refused = client.post(f"/collections/c/{path}", json=many)
            assert (refused.status_code, refused.json()["limit"]) == (422, "answer_bytes")
            assert client.post(f"/collections/c/{path}", json=few).status_code == 200


@pytest.mark.parametrize("accept", ["application/json", "application/vnd.apache.arrow.stream"])
def test_binary_queries(client: httpx.Client, accept: str) -> None:
    body = io.BytesIO()
    np.save(body, X[:20])
    headers = {"content-type": "application/x-npy", "accept": accept}
    path = "/collections/c/points/query?with_payload=true&limit="
    refused = client.post(path + "20", content=body.getvalue(), headers=headers)
    assert (refused.status_code, refused.json()["limit"]) == (422, "answer_bytes")
    assert client.post(path + "1", content=body.getvalue(), headers=headers).status_code == 200
    path = "/collections/c/points/query?limit=50"  # 1000 hits without a payload
    answer = client.post(path, content=body.getvalue(), headers=headers)
    assert answer.status_code == (422 if accept == "application/json" else 200)


def test_calls_of_a_store(small: Running, client: httpx.Client) -> None:
    ids = [i % N for i in range(200)]  # one row can be asked for many times
    with il.connect(small.url) as server:
        remote = server["c"]
        calls = (
            lambda: remote.get(ids),
            lambda: remote.payload(ids),
            lambda: remote.payload(),
            lambda: remote.search(np.repeat(X, 2, 0), k=40),
            lambda: remote.search_by_id(ids, k=40),
            lambda: remote.range_search(X, 1e9),
        )
        for call in calls:
            with pytest.raises(InputError, match=f"the limit answer_bytes is {LIMIT}, got"):
                call()
        assert remote.get(ids[:50]).shape == (50, DIM)
        assert remote.payload(ids[:20]).num_rows == 20
        assert remote.payload(columns=["n"]).num_rows == N
        assert len(remote.ids) == N
        strings = server.create("s", dim=2)
        strings.add(np.ones((50, 2), np.float32), [f"{i:0500d}" for i in range(50)])
        assert len(strings.search([1, 1], k=30)) == 30
        for many in (lambda: strings.search([1, 1], k=50), lambda: strings.ids):
            with pytest.raises(InputError, match="the limit answer_bytes is"):
                many()


def test_nothing_is_read_for_an_answer_that_is_known_to_be_too_large(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unexpected(*_: Any, **__: Any) -> None:
        raise AssertionError("read")

    monkeypatch.setattr(Snapshot, "get", unexpected)
    monkeypatch.setattr(Snapshot, "payload", unexpected)
    for more in (VECTORS, PAYLOADS):
        answer = client.post("/collections/c/points", json={"ids": ALL, **more})
        assert (answer.status_code, answer.json()["limit"]) == (422, "answer_bytes")


def test_what_is_counted_is_at_least_what_is_sent(tmp_path: Any) -> None:
    """With a limit of the bytes of an answer less one, the answer is refused."""
    odd = np.float32([[-1.1754944e-38, -12345.678, 1 / 3, -0.1]] * 5)
    with running(tmp_path) as found, il.connect(found.url) as server:
        made = {"vectors": {"size": 4, "distance": "Dot"}}
        assert httpx.put(f"{found.url}/collections/c", json=made).status_code == 200
        server["c"].add(odd, [2**62 + i for i in range(5)], payload=[{"t": '"\x01ü' * i} for i in range(5)])
        body = {"limit": 5, "with_vector": True, "with_payload": True}
        points = httpx.post(f"{found.url}/collections/c/points/query", json=body).json()["result"]["points"]
        assert len(points) == 5
        sent = len(json.dumps(points, separators=(",", ":"), ensure_ascii=False).encode())
    with running(tmp_path, limits={"answer_bytes": sent - 1}) as found:
        refused = httpx.post(f"{found.url}/collections/c/points/query", json=body)
        assert refused.json().get("limit") == "answer_bytes"


def test_no_number_of_a_vector_is_longer_than_it_is_counted() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, np.uint32)
    numbers = bits.view(np.float32)
    assert max(len(json.dumps(value)) for value in numbers[np.isfinite(numbers)].tolist()) + len(", ") <= NUMBER


def test_plain_queries_that_are_too_large_together_are_answered_one_by_one(small: Running) -> None:
    from interlace.serve.collections.collection import Collection
    from interlace.serve.problems import ProblemDetails
    from interlace.serve.requests.frequent import ExpressQuery
    from interlace.serve.settings import RequestLimits, ServerSettings
    from interlace.serve.work.plain import PlainBatch

    class Unmeasured:
        def searched(self, *_: Any) -> None:
            pass

    settings = ServerSettings(str(small.folder), limits=RequestLimits(answer_bytes=LIMIT))
    with il.open(small.folder / "c") as store:
        collection = Collection("c", store, settings)
        given = [ExpressQuery(row.tolist(), with_vector=True) for row in X[:8]]
        found = PlainBatch(collection, Unmeasured())(given)  # type: ignore[arg-type]
        assert [len(json.loads(text)) for text in found] == [10] * 8
        given = [ExpressQuery(row.tolist(), limit=40, with_vector=True) for row in X[:8]]
        found = PlainBatch(collection, Unmeasured())(given)  # type: ignore[arg-type]
        assert [isinstance(each, ProblemDetails) and each.more for each in found] == [{"limit": "answer_bytes"}] * 8


def test_payloads_are_read_in_blocks() -> None:
    def cut(sizes: Any) -> list[tuple[int, int]]:
        return [(block.start, block.stop) for block in blocks(np.array(sizes, np.int64))]

    assert cut([]) == []
    assert cut([1, 2, 3]) == [(0, 3)]
    assert cut([3 * BLOCK, BLOCK, 1, BLOCK - 1, 0]) == [(0, 1), (1, 2), (2, 5)]
    assert cut([0] * (ROWS + 5)) == [(0, ROWS), (ROWS, ROWS + 5)]


def test_stores_of_the_library_are_counted_as_json(tmp_path: Any) -> None:
    columns = pa.schema({"n": pa.int64(), "l": pa.list_(pa.string())})
    with il.create(tmp_path / "c", dim=4, columns=columns) as store:
        store.add(X[:50, :4], payload={"n": ALL[:50], "l": [["x" * i] * 20 for i in range(50)]})
    body = {"ids": list(range(50))}
    with running(tmp_path) as found:
        points = httpx.post(f"{found.url}/collections/c/points", json=body).json()["result"]
        assert points[7]["payload"] == {"n": 7, "l": ["x" * 7] * 20}
    with running(tmp_path, limits={"answer_bytes": 20_000}) as found:
        assert httpx.post(f"{found.url}/collections/c/points", json=body).json()["limit"] == "answer_bytes"
        assert httpx.post(f"{found.url}/collections/c/points", json={"ids": [1, 2]}).status_code == 200
