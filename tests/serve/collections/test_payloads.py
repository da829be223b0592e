"""Payload updates, order_by and facets, through the official client of Qdrant."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve_helpers import running, vectors

import interlace as il
from interlace.serve.requests import fields

qdrant_client = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
from qdrant_client import QdrantClient, models  # noqa: E402
from qdrant_client.http.exceptions import UnexpectedResponse  # noqa: E402

X = vectors(60)


@pytest.fixture
def points(client: QdrantClient, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W", "_", request.node.name, flags=re.ASCII)[:100]
    client.create_collection(name, vectors_config=models.VectorParams(size=16, distance=models.Distance.COSINE))
    for key, kind in {"n": "integer", "city": "keyword", "price": "float", "day": "datetime"}.items():
        client.create_payload_index(name, key, field_schema=kind)
    client.upsert(name, [models.PointStruct(id=i, vector=X[i].tolist(), payload=payload(i)) for i in range(60)])
    return name


def payload(i: int) -> dict[str, Any]:
    found: dict[str, Any] = {"n": i * 7 % 60, "a": {"b": i, "c": 1}, "day": f"2026-01-{1 + i % 28:02d}T10:00:00Z"}
    found["city"] = ["Bern", "Rom"] if i % 10 == 0 else ["Bern", "Rom", "Ulm"][i % 3]
    return found if i % 4 else {**found, "price": i / 2}


def payloads(client: QdrantClient, name: str) -> dict[Any, Any]:
    found, _ = client.scroll(name, limit=100)
    return {point.id: point.payload for point in found}


def test_payloads_are_set_overwritten_deleted_and_cleared(client: QdrantClient, points: str) -> None:
    expected = {i: payload(i) for i in range(60)}
    before = {p.id: p.vector for p in client.scroll(points, limit=100, with_vectors=True)[0]}

    client.set_payload(points, {"new": [1], "n": 1000}, points=[3, 4])
    for i in (3, 4):
        expected[i].update(new=[1], n=1000)
    assert payloads(client, points) == expected
    found = models.Filter(must=models.FieldCondition(key="n", match=models.MatchValue(value=1000)))
    assert client.count(points, count_filter=found).count == 2

    client.overwrite_payload(points, {"city": "Oslo"}, points=models.FilterSelector(filter=found))
    expected[3] = expected[4] = {"city": "Oslo"}
    assert payloads(client, points) == expected
    assert client.count(points, count_filter=found).count == 0

    client.delete_payload(points, ["city", "a.b", "none"], points=[5, 6])
    for i in (5, 6):
        del expected[i]["city"], expected[i]["a"]["b"]
    assert payloads(client, points) == expected

    client.clear_payload(points, points_selector=[7])
    expected[7] = {}
    assert payloads(client, points) == expected
    after = {p.id: p.vector for p in client.scroll(points, limit=100, with_vectors=True)[0]}
    assert all(np.allclose(before[i], after[i], atol=1e-6) for i in range(60))
    assert [hit.id for hit in client.query_points(points, X[7].tolist(), limit=1).points] == [7]


def test_wrong_updates_change_nothing(client: QdrantClient, points: str) -> None:
    with pytest.raises(UnexpectedResponse, match="declared as integer"):
        client.set_payload(points, {"n": "x"}, points=[1, 2])
    with pytest.raises(UnexpectedResponse, match="must be a path of keys"):
        client.set_payload(points, {"n": 1}, points=[1], key="a..b")
    assert payloads(client, points) == {i: payload(i) for i in range(60)}


def test_payloads_without_kept_vectors_are_not_changed(tmp_path: Path) -> None:
    rows = vectors(400)
    codebooks = il.Index.build(rows, n_bytes=2, progress=None).codebooks
    with il.create(tmp_path / "codes", codebooks, columns={"n": "int64"}) as store:
        store.add(rows, payload={"n": np.arange(400)})
    with il.create(tmp_path / "kept", codebooks, columns={"n": "int64"}, originals="int8") as store:
        store.add(rows, payload={"n": np.arange(400)})
    with running(tmp_path) as found:
        client = QdrantClient(url=found.url, check_compatibility=False, timeout=60)
        with pytest.raises(UnexpectedResponse, match="does not keep vectors"):
            client.set_payload("codes", {"n": 3}, points=[1])
        client.set_payload("kept", {"n": 1000}, points=[1, 2])
        assert [point.payload for point in client.retrieve("kept", [1, 2, 3])] == [{"n": 1000}, {"n": 1000}, {"n": 3}]
        client.close()
    with il.open(tmp_path / "kept") as store:
        assert np.abs(store.get(1, originals=True) - rows[1]).max() < 0.05


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_scroll_in_the_order_of_a_field(client: QdrantClient, points: str, direction: str) -> None:
    order = models.OrderBy(key="n", direction=direction)
    found, offset = client.scroll(points, limit=60, order_by=order)
    values = [point.payload["n"] for point in found if point.payload]
    assert values == sorted(range(60), reverse=direction == "desc")
    assert [point.order_value for point in found] == values
    assert offset is None
    found, _ = client.scroll(points, limit=5, order_by=models.OrderBy(key="n", direction=direction, start_from=30))
    step = -1 if direction == "desc" else 1
    assert [point.payload["n"] for point in found if point.payload] == [30 + step * i for i in range(5)]


def test_order_leaves_out_points_without_the_field_and_refuses_what_has_no_order(
    client: QdrantClient, points: str
) -> None:
    found, _ = client.scroll(points, limit=60, order_by="price")
    assert [point.id for point in found] == list(range(0, 60, 4))
    wanted = models.Filter(must=models.FieldCondition(key="n", range=models.Range(gte=58)))
    found, _ = client.scroll(points, scroll_filter=wanted, order_by=models.OrderBy(key="day", direction="desc"))
    days = [point.payload["day"] for point in found if point.payload]
    assert len(days) == 2
    assert [datetime.datetime.fromisoformat(day.replace("Z", "+00:00")).timestamp() * 1e6 for day in days] == [
        point.order_value for point in found
    ]
    assert days == sorted(days, reverse=True)
    for key in ("city", "other"):
        with pytest.raises(UnexpectedResponse, match="order_by.key must be a declared field"):
            client.scroll(points, order_by=key)


def test_facets_count_values_also_in_lists(client: QdrantClient, points: str) -> None:
    listed = [payload(i)["city"] for i in range(60)]
    expected = Counter(city for value in listed for city in ([value] if isinstance(value, str) else value))
    found = client.facet(points, "city", limit=10)
    assert {hit.value: hit.count for hit in found.hits} == expected
    assert client.facet(points, "city", limit=1).hits[0].count == max(expected.values())
    wanted = models.Filter(must=models.HasIdCondition(has_id=[1, 2]))
    assert {hit.value: hit.count for hit in client.facet(points, "n", facet_filter=wanted).hits} == {7: 1, 14: 1}
    with pytest.raises(UnexpectedResponse, match="key must be a declared field"):
        client.facet(points, "price")


@pytest.mark.parametrize("values", [["a", "b\x01\x02\x03", ""], [1, -5, 2**62]])
def test_several_values_are_decoded(values: list[Any]) -> None:
    assert fields.decoded(fields.coded(values), "integer" if isinstance(values[0], int) else "keyword") == values
