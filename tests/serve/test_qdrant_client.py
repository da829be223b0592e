"""The official client of Qdrant against the server: create, upsert, query, filter, scroll, delete, count."""

from __future__ import annotations

import re
import uuid
from importlib import metadata

import numpy as np
import pytest
from serve_helpers import vectors

qdrant_client = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
from qdrant_client import QdrantClient, models  # noqa: E402
from qdrant_client.common.version_check import is_compatible  # noqa: E402
from qdrant_client.http.exceptions import UnexpectedResponse  # noqa: E402

X = vectors(200)
D = models.Distance


def test_the_client_accepts_the_version_of_the_server(client: QdrantClient) -> None:
    """It asks for it in a thread of its own, which may outlive a test: other tests leave the check out."""
    assert is_compatible(metadata.version("qdrant-client"), client.info().version)


@pytest.fixture
def points(client: QdrantClient, request: pytest.FixtureRequest) -> str:
    """A collection with 200 points and some declared fields."""
    name = re.sub(r"\W", "_", request.node.name, flags=re.ASCII)[:100]
    client.create_collection(name, vectors_config=models.VectorParams(size=16, distance=D.EUCLID))
    kinds = {
        "city": "keyword",
        "n": "integer",
        "price": "float",
        "good": "bool",
        "day": "datetime",
        "a.b[].c": "integer",
    }
    for key, kind in kinds.items():
        client.create_payload_index(name, key, field_schema=kind)
    client.upsert(name, [models.PointStruct(id=i, vector=X[i].tolist(), payload=payload(i)) for i in range(200)])
    return name


def payload(i: int) -> dict[str, object]:
    return {
        "n": i,
        "city": ["Bern", "Rom", "Köln"][i % 3] if i % 5 else ["Bern", "Rom"],
        "price": i / 8,
        "good": i % 2 == 0,
        "day": f"2026-01-{1 + i % 28:02d}T10:00:00Z",
        "a": {"b": [{"c": i % 7}, {"c": i % 11}]},
        "other": {"deep": [1, None, "ü"], "i": i},
        **({"rare": 1} if i % 50 == 0 else {}),
    }


def test_collections_are_created_listed_described_and_deleted(client: QdrantClient) -> None:
    assert not client.collection_exists("one")
    assert client.create_collection("one", vectors_config=models.VectorParams(size=16, distance=D.COSINE))
    assert client.collection_exists("one")
    assert "one" in [c.name for c in client.get_collections().collections]
    info = client.get_collection("one")
    assert (info.status, info.points_count) == (models.CollectionStatus.GREEN, 0)
    assert info.config.params.vectors == models.VectorParams(size=16, distance=D.COSINE)
    with pytest.raises(UnexpectedResponse) as refused:
        client.create_collection("one", vectors_config=models.VectorParams(size=16, distance=D.COSINE))
    assert refused.value.status_code == 409
    assert refused.value.structured()["code"] == "conflict"
    assert client.delete_collection("one")
    assert not client.collection_exists("one")
    with pytest.raises(UnexpectedResponse) as unknown:
        client.get_collection("one")
    assert unknown.value.status_code == 404


@pytest.mark.parametrize("distance", [D.EUCLID, D.COSINE, D.DOT])
def test_queries_find_the_nearest_points(client: QdrantClient, distance: models.Distance) -> None:
    name = f"near-{distance.value}"
    client.create_collection(name, vectors_config=models.VectorParams(size=16, distance=distance))
    client.upload_collection(name, X, ids=list(range(200)), payload=[{"i": i} for i in range(200)])
    if distance is D.EUCLID:
        true = np.sqrt(((X[:, None] - X[None, :20]) ** 2).sum(2))
        order = np.argsort(true, axis=0)
    else:
        y = X if distance is D.DOT else X / np.linalg.norm(X, axis=1, keepdims=True)
        true = y @ y[:20].T
        order = np.argsort(-true, axis=0)
    for q in range(20):
        found = client.query_points(name, query=X[q].tolist(), limit=5, search_params=models.SearchParams(exact=True))
        assert [p.id for p in found.points] == order[:5, q].tolist()
        np.testing.assert_allclose([p.score for p in found.points], true[order[:5, q], q], rtol=0.01, atol=0.02)
        assert [p.payload for p in found.points] == [{"i": i} for i in order[:5, q].tolist()]
    requests = [
        models.QueryRequest(query=X[q].tolist(), limit=5, params=models.SearchParams(exact=True)) for q in range(20)
    ]
    batch = client.query_batch_points(name, requests)
    assert [[p.id for p in one.points] for one in batch] == order[:5].T.tolist()
    assert batch[0].points[0].payload is None
    threshold = float(true[order[2, 0], 0])
    limited = client.query_points(name, query=X[0].tolist(), limit=5, score_threshold=threshold)
    assert 2 <= len(limited.points) <= 4
    by_id = client.query_points(name, query=3, limit=4, search_params=models.SearchParams(exact=True))
    assert [p.id for p in by_id.points] == [i for i in order[:5, 3].tolist() if i != 3][:4]
    later = client.query_points(
        name, query=X[0].tolist(), limit=3, offset=2, search_params=models.SearchParams(exact=True)
    )
    assert [p.id for p in later.points] == order[2:5, 0].tolist()


def test_mmr_chooses_hits_that_are_unlike_each_other(client: QdrantClient) -> None:
    client.create_collection("mmr", vectors_config=models.VectorParams(size=16, distance=D.COSINE))
    twins = np.concatenate([X[:20], X[:20] + 1e-3])
    client.upload_collection("mmr", twins, ids=list(range(40)))
    query = models.NearestQuery(nearest=X[0].tolist(), mmr=models.Mmr(diversity=0.0))
    plain = [p.id for p in client.query_points("mmr", X[0].tolist(), limit=6).points]
    assert [p.id for p in client.query_points("mmr", query, limit=6).points] == plain
    assert {0, 20} <= set(plain)
    query = models.NearestQuery(nearest=X[0].tolist(), mmr=models.Mmr(diversity=0.9, candidates_limit=40))
    found = client.query_points("mmr", query, limit=6).points
    assert found[0].id in (0, 20)
    assert len({int(p.id) % 20 for p in found}) == 6
    assert len(found) == 6


CONDITIONS = [
    (dict(key="n", match=models.MatchValue(value=7)), lambda p: p["n"] == 7),
    (dict(key="n", match=models.MatchAny(any=[1, 2, 500])), lambda p: p["n"] in (1, 2)),
    (dict(key="n", match=models.MatchExcept(**{"except": [1, 2]})), lambda p: p["n"] not in (1, 2)),
    (dict(key="n", range=models.Range(gte=10, lt=20.5)), lambda p: 10 <= p["n"] < 20.5),
    (dict(key="price", range=models.Range(gt=3, lte=4)), lambda p: 3 < p["price"] <= 4),
    (dict(key="city", match=models.MatchValue(value="Rom")), lambda p: "Rom" in p["city"]),
    (dict(key="city", match=models.MatchAny(any=["Rom", "Köln"])), lambda p: "Rom" in p["city"] or p["city"] == "Köln"),
    (dict(key="city", match=models.MatchExcept(**{"except": ["Bern", "Köln"]})), lambda p: "Rom" in p["city"]),
    (dict(key="city", match=models.MatchText(text="öl")), lambda p: p["city"] == "Köln"),
    (dict(key="city", values_count=models.ValuesCount(gt=1)), lambda p: isinstance(p["city"], list)),
    (dict(key="good", match=models.MatchValue(value=True)), lambda p: p["good"]),
    (
        dict(key="day", range=models.DatetimeRange(gte="2026-01-05T00:00:00Z", lt="2026-01-07T10:00:00Z")),
        lambda p: "2026-01-05" <= p["day"][:10] < "2026-01-07",
    ),
    (dict(key="a.b[].c", match=models.MatchValue(value=6)), lambda p: 6 in [b["c"] for b in p["a"]["b"]]),
]


def ids_of(client: QdrantClient, name: str, wanted: models.Filter) -> set[int]:
    found, following = client.scroll(name, scroll_filter=wanted, limit=200, with_payload=False)
    assert following is None
    assert client.count(name, count_filter=wanted).count == len(found)
    return {int(p.id) for p in found}


def test_filters_select_what_they_say(client: QdrantClient, points: str) -> None:
    for given, matches in CONDITIONS:
        condition = models.FieldCondition(**given)
        wanted = {i for i in range(200) if matches(payload(i))}
        assert ids_of(client, points, models.Filter(must=[condition])) == wanted, given
        assert ids_of(client, points, models.Filter(must_not=[condition])) == set(range(200)) - wanted, given
        found = client.query_points(points, X[0].tolist(), query_filter=models.Filter(must=condition), limit=200)
        assert {p.id for p in found.points} == wanted


def test_conditions_combine(client: QdrantClient, points: str) -> None:
    below = models.FieldCondition(key="n", range=models.Range(lt=50))
    good = models.FieldCondition(key="good", match=models.MatchValue(value=True))
    rom = models.FieldCondition(key="city", match=models.MatchValue(value="Rom"))
    some = models.HasIdCondition(has_id=[1, 2, 3, 4, 60, 1000])
    sets = {
        "below": set(range(50)),
        "good": set(range(0, 200, 2)),
        "rom": {i for i in range(200) if "Rom" in payload(i)["city"]},  # type: ignore[operator]
    }
    expected = {
        models.Filter(must=[below, good], must_not=[rom]).model_dump_json(): sets["below"] & sets["good"] - sets["rom"],
        models.Filter(should=[good, rom], must=[below]).model_dump_json(): sets["below"] & (sets["good"] | sets["rom"]),
        models.Filter(must=[some, below]).model_dump_json(): {1, 2, 3, 4},
        models.Filter(must_not=[some]).model_dump_json(): set(range(200)) - {1, 2, 3, 4, 60},
        models.Filter(must=[models.Filter(should=[some, models.Filter(must=[good, rom])])]).model_dump_json(): {
            1,
            2,
            3,
            4,
            60,
        }
        | sets["good"] & sets["rom"],
        models.Filter(min_should=models.MinShould(conditions=[below, good, rom], min_count=2)).model_dump_json(): {
            i for i in range(200) if sum(i in s for s in sets.values()) >= 2
        },
        models.Filter(must=[models.HasIdCondition(has_id=[])]).model_dump_json(): set(),
        models.Filter().model_dump_json(): set(range(200)),
    }
    for text, wanted in expected.items():
        given = models.Filter.model_validate_json(text)
        assert ids_of(client, points, given) == wanted, text
        found = client.query_points(points, X[0].tolist(), query_filter=given, limit=200)
        assert {p.id for p in found.points} == wanted, text


def test_fields_that_are_not_declared_are_refused_until_they_are(client: QdrantClient, points: str) -> None:
    rare = models.Filter(must=[models.FieldCondition(key="rare", match=models.MatchValue(value=1))])
    with pytest.raises(UnexpectedResponse) as refused:
        client.count(points, count_filter=rare)
    assert refused.value.status_code == 400
    assert refused.value.structured()["code"] == "undeclared_field"
    assert "'rare'" in refused.value.structured()["detail"]
    client.create_payload_index(points, "rare", field_schema="integer")
    assert ids_of(client, points, rare) == {0, 50, 100, 150}
    empty = models.Filter(must=[models.IsEmptyCondition(is_empty=models.PayloadField(key="rare"))])
    assert len(ids_of(client, points, empty)) == 196
    assert client.get_collection(points).payload_schema["rare"].data_type == models.PayloadSchemaType.INTEGER
    client.delete_payload_index(points, "rare")
    assert "rare" not in client.get_collection(points).payload_schema
    assert client.retrieve(points, [50])[0].payload["rare"] == 1


def test_payload_and_vectors_come_back(client: QdrantClient, points: str) -> None:
    found = client.retrieve(points, [3, 9999, 5], with_vectors=True)
    assert [p.id for p in found] == [3, 5]
    assert [p.payload for p in found] == [payload(3), payload(5)]
    np.testing.assert_allclose([p.vector for p in found], X[[3, 5]], atol=2e-3)
    some = client.retrieve(points, [3], with_payload=["n", "city"])[0].payload
    assert some == {"n": 3, "city": "Bern"}
    less = client.retrieve(points, [3], with_payload=models.PayloadSelectorExclude(exclude=["other", "a"]))[0].payload
    assert less.keys() == payload(3).keys() - {"other", "a"}
    assert client.retrieve(points, [3], with_payload=False)[0].payload is None


def test_scrolling_visits_every_point_once_in_the_order_of_ids(client: QdrantClient, points: str) -> None:
    client.upsert(points, [models.PointStruct(id=7, vector=X[0].tolist(), payload={"n": 1000})])
    seen, offset = [], None
    while True:
        page, offset = client.scroll(points, limit=33, offset=offset)
        seen += [p.id for p in page]
        if offset is None:
            break
    assert seen == list(range(200))


def test_upserts_replace_and_deletions_remove(client: QdrantClient, points: str) -> None:
    client.upsert(points, models.Batch(ids=[5, 300], vectors=X[[1, 2]].tolist(), payloads=[{"n": 1}, {}]))
    assert client.count(points).count == 201
    assert client.retrieve(points, [5])[0].payload == {"n": 1}
    client.delete(points, [5, 6, 12345])
    assert client.count(points).count == 199
    client.delete(
        points,
        models.FilterSelector(filter=models.Filter(must=models.FieldCondition(key="n", range=models.Range(lt=100)))),
    )
    assert ids_of(client, points, models.Filter()) == {*range(100, 200), 300}


def test_uuids_and_large_integers_are_ids(client: QdrantClient) -> None:
    for name, ids in (
        ("uuids", [str(uuid.UUID(int=i * 2**90)) for i in range(1, 6)]),
        ("large", [0, 1, 2**63 - 1, 2**63, 2**64 - 2]),
    ):
        client.create_collection(name, vectors_config=models.VectorParams(size=16, distance=D.COSINE))
        client.upsert(name, [models.PointStruct(id=i, vector=v.tolist()) for i, v in zip(ids, X, strict=False)])
        assert [p.id for p in client.scroll(name)[0]] == ids
        assert client.query_points(name, X[3].tolist(), limit=1).points[0].id == ids[3]
        assert [p.id for p in client.retrieve(name, [ids[4], ids[0]])] == [ids[4], ids[0]]
        without = models.Filter(must_not=[models.HasIdCondition(has_id=ids[:2])])
        assert [p.id for p in client.scroll(name, scroll_filter=without)[0]] == ids[2:]
        _, following = client.scroll(name, limit=3)
        assert [p.id for p in client.scroll(name, offset=following)[0]] == ids[3:]
        client.delete(name, ids[:1])
        assert client.count(name).count == 4
    given = uuid.uuid4()
    client.upsert("uuids", [models.PointStruct(id=given.hex.upper(), vector=X[9].tolist())])
    assert client.retrieve("uuids", [str(given)])[0].id == str(given)
    with pytest.raises(UnexpectedResponse, match="string ids"):
        client.upsert("uuids", [models.PointStruct(id=7, vector=X[9].tolist())])
    with pytest.raises(UnexpectedResponse, match="all integers or all strings"):
        client.upsert("large", [models.PointStruct(id=i, vector=X[9].tolist()) for i in (7, str(given))])
    with pytest.raises(UnexpectedResponse, match="between 0 and"):
        client.upsert("large", [models.PointStruct(id=2**64 - 1, vector=X[9].tolist())])


def test_what_is_not_supported_is_named(client: QdrantClient, points: str) -> None:
    calls = {
        "Manhattan": lambda: client.create_collection(
            "x", vectors_config=models.VectorParams(size=4, distance=D.MANHATTAN)
        ),
        "named vector 'image'": lambda: client.create_collection(
            "x", vectors_config={"image": models.VectorParams(size=4, distance=D.DOT)}
        ),
        "sparse_vectors": lambda: client.create_collection(
            "x",
            vectors_config=models.VectorParams(size=4, distance=D.DOT),
            sparse_vectors_config={"s": models.SparseVectorParams()},
        ),
        "prefetch": lambda: client.query_points(points, X[0].tolist(), prefetch=models.Prefetch(query=X[0].tolist())),
        "fusion": lambda: client.query_points(points, models.FusionQuery(fusion=models.Fusion.RRF)),
        "geo_radius": lambda: client.count(
            points,
            count_filter=models.Filter(
                must=models.FieldCondition(
                    key="n", geo_radius=models.GeoRadius(center=models.GeoPoint(lon=1, lat=1), radius=2)
                )
            ),
        ),
        "points/vectors": lambda: client.delete_vectors(points, [""], [1]),
        "field_schema 'text'": lambda: client.create_payload_index(points, "t", field_schema="text"),
        "search/": lambda: client.search_matrix_pairs(points, sample=5, limit=2),
    }
    for what, call in calls.items():
        with pytest.raises(UnexpectedResponse) as refused:
            call()
        problem = refused.value.structured()
        routes = ("points/vectors", "search/")
        assert (problem["code"], refused.value.status_code) == ("unsupported", 501 if what in routes else 422), what
        assert what in problem["detail"]


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        ([1.0] * 15, "must have 16 dimensions, as the collection has, got 15"),
        ([float("nan")] * 16, "nan|NaN|finite"),
    ],
)
def test_wrong_vectors_are_refused(client: QdrantClient, points: str, vector: list[float], message: str) -> None:
    import httpx

    url = client._client.rest_uri
    text = str(vector).replace("nan", "NaN")
    for path, body in (
        ("points/query", f'{{"query":{text}}}'),
        ("points", f'{{"points":[{{"id":1,"vector":{text}}}]}}'),
    ):
        send = httpx.post if "query" in path else httpx.put
        answer = send(f"{url}/collections/{points}/{path}", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 400
        assert re.search(message, answer.json()["detail"])
    assert client.count(points).count == 200
