"""Hits in groups and recommendations, compared with the client's own local mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from serve_helpers import Running, vectors

qdrant_client = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
from qdrant_client import QdrantClient, models  # noqa: E402

#: What the local mode does not have; it compares all vectors anyway.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Local mode performs exact"),
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant"),
]
N = 600
X = np.random.default_rng(5).normal(size=(N, 16)).astype(np.float16).astype(np.float32)  # as they are kept
EXACT = models.SearchParams(exact=True)


def payload(i: int) -> dict[str, Any]:
    """One large group, many small ones, lists, and points without a value."""
    found: dict[str, Any] = {"parity": i % 2, "price": i / 4}
    if i % 11:
        found["kind"] = "large" if i % 4 else f"small-{i % 60}"
    if i % 7 == 0:
        found["kind"] = ["large", f"small-{i % 60}", "rare"][: 1 + i % 3]
    return found


@pytest.fixture(scope="module")
def clients(served: Running) -> Iterator[tuple[QdrantClient, QdrantClient]]:
    """One of the server and one in local mode, with the same points."""
    found = QdrantClient(url=served.url, check_compatibility=False, timeout=60), QdrantClient(":memory:")
    for client in found:
        client.create_collection("points", vectors_config=models.VectorParams(size=16, distance=models.Distance.EUCLID))
        client.upload_collection("points", X, ids=list(range(N)), payload=[payload(i) for i in range(N)])
    for key, kind in {"kind": "keyword", "parity": "integer", "price": "float"}.items():
        found[0].create_payload_index("points", key, field_schema=kind)
    yield found
    found[0].close()


def groups(client: QdrantClient, **given: Any) -> list[tuple[Any, list[Any]]]:
    found = client.query_points_groups("points", search_params=EXACT, **given).groups
    return [(group.id, [hit.id for hit in group.hits]) for group in found]


@pytest.mark.parametrize("size", [1, 3, 20])
@pytest.mark.parametrize("limit", [1, 4, 40])
def test_groups_are_those_of_all_hits_in_order(
    clients: tuple[QdrantClient, QdrantClient], limit: int, size: int
) -> None:
    for query in (X[3].tolist(), 17):
        for key in ("kind", "parity"):
            given = {"group_by": key, "query": query, "limit": limit, "group_size": size}
            assert groups(clients[0], **given) == groups(clients[1], **given)


def test_groups_have_scores_and_payload_and_obey_filters_and_thresholds(
    clients: tuple[QdrantClient, QdrantClient],
) -> None:
    cheap = models.Filter(must=models.FieldCondition(key="price", range=models.Range(lt=60)))
    given: dict[str, Any] = {"group_by": "kind", "query": X[3].tolist(), "limit": 6, "group_size": 4}
    found = groups(clients[0], query_filter=cheap, score_threshold=5.0, **given)
    assert found == groups(clients[1], query_filter=cheap, score_threshold=5.0, **given)
    assert all(i < 240 for _, ids in found for i in ids)
    for group in clients[0].query_points_groups("points", with_payload=["kind"], with_vectors=True, **given).groups:
        scores = [hit.score for hit in group.hits]
        assert scores == sorted(scores)
        for hit in group.hits:
            assert group.id in hit.payload["kind"]
            assert hit.payload.keys() == {"kind"}
            assert hit.score == pytest.approx(float(np.linalg.norm(X[hit.id] - X[3])), abs=0.01)
            np.testing.assert_allclose(hit.vector, X[hit.id], atol=1e-3)
    nothing = models.Filter(must=models.FieldCondition(key="price", range=models.Range(lt=-1)))
    assert groups(clients[0], query_filter=nothing, **given) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"group_by": "price"}, "group_by must be a declared field of type keyword, integer; 'price' is declared as"),
        ({"group_by": "colour"}, "'colour' is not declared"),
        ({}, "group_by: Field required"),
        ({"group_by": "kind", "group_size": 0}, "group_size"),
        ({"group_by": "kind", "limit": 500, "group_size": 500}, "the limit k is 10000"),
        ({"group_by": "kind", "offset": 3}, "offset"),
        ({"group_by": "kind", "with_lookup": "other"}, "not supported"),
        ({"group_by": "kind", "query": None}, "query is missing"),
        ({"group_by": "kind", "query": {"nearest": 3, "mmr": {}}}, "mmr in groups is not supported"),
        ({"group_by": "kind", "using": "image"}, "named vector 'image'"),
    ],
)
def test_bad_requests_for_groups_are_named(
    clients: tuple[QdrantClient, QdrantClient], served: Running, body: dict[str, Any], message: str
) -> None:
    answer = httpx.post(f"{served.url}/collections/points/points/query/groups", json={"query": 3, **body})
    out_of_range = body.get("group_size") == 0 or answer.json()["code"] != "input"
    assert answer.status_code == (422 if out_of_range else 400)
    assert message in answer.json()["detail"]


@pytest.mark.parametrize(
    ("positive", "negative"),
    [([3], None), ([3, 4, 5], []), ([3, 4], [5]), ([3, X[9].tolist()], [X[8].tolist(), 5, 6]), ([X[0].tolist()], None)],
)
def test_recommendations_are_near_the_average_of_the_examples(
    clients: tuple[QdrantClient, QdrantClient], positive: list[Any], negative: list[Any] | None
) -> None:
    query = models.RecommendQuery(recommend=models.RecommendInput(positive=positive, negative=negative))
    odd = models.Filter(must=models.FieldCondition(key="parity", match=models.MatchValue(value=1)))
    for wanted in (None, odd):
        given: dict[str, Any] = {"query": query, "limit": 8, "query_filter": wanted}
        found, expected = (each.query_points("points", search_params=EXACT, **given).points for each in clients)
        assert [hit.id for hit in found] == [hit.id for hit in expected]
        np.testing.assert_allclose([hit.score for hit in found], [hit.score for hit in expected], atol=0.01)
        assert not {hit.id for hit in found} & {i for i in (*positive, *(negative or [])) if isinstance(i, int)}
    given = {"query": query, "group_by": "kind"}
    assert groups(clients[0], **given) == groups(clients[1], **given)
    (found, *_) = clients[0].query_batch_points("points", [models.QueryRequest(query=query, limit=3)])
    assert len(found.points) == 3


@pytest.mark.parametrize(
    ("given", "status", "message"),
    [
        ({"positive": []}, 422, "positive"),
        ({"negative": [3]}, 400, "positive"),
        ({"positive": [3], "strategy": "best_score"}, 422, "strategy 'best_score' of recommend is not supported"),
        ({"positive": [9999]}, 404, "9999"),
        ({"positive": [[1.0, 2.0]]}, 400, "must have 16 dimensions"),
        ({"positive": ["name"]}, 404, "name"),
        (3, 400, "Recommend"),
    ],
)
def test_bad_recommendations_are_named(
    clients: tuple[QdrantClient, QdrantClient], served: Running, given: Any, status: int, message: str
) -> None:
    answer = httpx.post(f"{served.url}/collections/points/points/query", json={"query": {"recommend": given}})
    assert (answer.status_code, answer.json()["code"]) != (500, "internal")
    assert answer.status_code == status, answer.text
    assert message in answer.json()["detail"]


def test_collections_migrate_in_both_directions(clients: tuple[QdrantClient, QdrantClient]) -> None:
    server, there = clients[0], QdrantClient(":memory:")
    server.migrate(there, ["points"])
    assert there.count("points").count == N
    assert there.retrieve("points", [5])[0].payload == payload(5)
    there.create_collection("other", vectors_config=models.VectorParams(size=16, distance=models.Distance.COSINE))
    there.upload_collection("other", vectors(30), ids=list(range(30)))
    there.migrate(server, ["other"])
    assert server.count("other").count == 30
