"""Values that Qdrant refuses, by its OpenAPI: with the same status, and with the name of the field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from serve_helpers import Running

from interlace.serve.problems import of_error
from interlace.serve.requests import models
from interlace.serve.requests.frequent import decoded_query
from interlace.serve.requests.parameters import Parameters

VECTORS = {"vectors": {"size": 4, "distance": "Dot"}}
QUERY = {"query": [1.0, 2.0, 3.0, 4.0]}
Case = tuple[Any, dict[str, Any], str, int]
#: Integers: the body, a valid rest of it, the field, and the least value that Qdrant takes.
LEAST: list[Case] = [
    (models.CreateCollection, VECTORS, "shard_number", 1),
    (models.CreateCollection, VECTORS, "replication_factor", 1),
    (models.CreateCollection, VECTORS, "write_consistency_factor", 1),
    (models.CreateCollection, VECTORS, "vectors.size", 1),
    (models.CreateCollection, VECTORS, "hnsw_config.m", 0),
    (models.CreateCollection, VECTORS, "hnsw_config.ef_construct", 4),
    (models.CreateCollection, VECTORS, "hnsw_config.full_scan_threshold", 10),
    (models.CreateCollection, VECTORS, "vectors.hnsw_config.ef_construct", 4),
    (models.CreateCollection, VECTORS, "wal_config.wal_capacity_mb", 1),
    (models.CreateCollection, VECTORS, "wal_config.wal_segments_ahead", 0),
    (models.CreateCollection, VECTORS, "optimizers_config.vacuum_min_vector_number", 100),
    (models.CreateCollection, VECTORS, "optimizers_config.max_segment_size", 1),
    (models.CreateCollection, VECTORS, "optimizers_config.indexing_threshold", 0),
    (models.CreateCollection, VECTORS, "optimizers_config.max_optimization_threads", 0),
    (models.CreateCollection, VECTORS, "strict_mode_config.max_query_limit", 1),
    (models.UpdateCollection, {}, "params.replication_factor", 1),
    (models.UpdateCollection, {}, "params.write_consistency_factor", 1),
    (models.UpdateCollection, {}, "hnsw_config.ef_construct", 4),
    (models.UpdateCollection, {}, "optimizers_config.vacuum_min_vector_number", 100),
    (models.Query, QUERY, "limit", 1),
    (models.Query, QUERY, "offset", 0),
    (models.Query, QUERY, "params.hnsw_ef", 1),
    (models.Queries, {}, "searches.0.limit", 1),
    (models.QueryGroups, {**QUERY, "group_by": "n"}, "limit", 1),
    (models.QueryGroups, {**QUERY, "group_by": "n"}, "group_size", 1),
    (models.Scroll, {}, "limit", 1),
    (models.Facet, {"key": "n"}, "limit", 1),
]
#: Fields that are ``NonZero`` in Qdrant: a zero is no value of their type, as a negative number is none of any.
NON_ZERO = ("shard_number", "replication_factor", "write_consistency_factor", "size")
#: Numbers between two limits.
BETWEEN = [
    (models.CreateCollection, VECTORS, "optimizers_config.deleted_threshold", 0.0, 1.0),
    (models.CreateCollection, VECTORS, "quantization_config.scalar.quantile", 0.5, 1.0),
    (models.Query, QUERY, "params.acorn.max_selectivity", 0.0, 1.0),
    (models.Query, QUERY, "params.quantization.oversampling", 1.0, float("inf")),
]


def with_value(body: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The body with a value at a path."""
    first, _, rest = path.partition(".")
    if not rest:
        return {**body, first: value}
    if rest.startswith("0."):
        return {**body, first: [with_value(QUERY, rest[2:], value)]}
    inner = body.get(first, {"type": "int8"} if first == "scalar" else {})
    return {**body, first: with_value(inner, rest, value)}


def refusal(model: Any, body: dict[str, Any]) -> tuple[int, str] | None:
    """Status and text with which a body is refused."""
    try:
        model.model_validate(body)
    except ValidationError as error:
        problem = of_error(error)
        return problem.status, problem.detail
    return None


@given(st.sampled_from(LEAST), st.integers(-(2**40), 2**40))
def test_integers_below_the_least_are_refused_by_name(case: Case, value: int) -> None:
    model, body, path, least = case
    name = path.rpartition(".")[2]
    for n in (value, least, least - 1, least - 2):
        found = refusal(model, with_value(body, path, n))
        if n < least:
            assert found is not None, (path, n)
            assert found[0] == (400 if n < 0 or name in NON_ZERO else 422), (path, n)
            assert name in found[1]
        elif n == least:
            assert found is None, (path, found)


@given(st.sampled_from(BETWEEN), st.floats(-10, 10))
def test_numbers_beyond_their_limits_are_refused_by_name(case: Any, value: float) -> None:
    model, body, path, least, most = case
    found = refusal(model, with_value(body, path, value))
    if least <= value <= most:
        assert found is None
    else:
        assert found is not None
        assert found[0] == 422
        assert path.rpartition(".")[2] in found[1]


@given(st.sampled_from(LEAST), st.sampled_from(["1", True, 1.5, [], {}]))
def test_values_of_other_types_are_bad_requests(case: Case, value: Any) -> None:
    model, body, path, _ = case
    found = refusal(model, with_value(body, path, value))
    assert found is not None
    assert found[0] == 400


@pytest.mark.parametrize(
    ("body", "status", "name"),
    [
        ({"vectors": {"size": 70_000, "distance": "Dot"}}, 422, "size"),
        ({"vectors": {"distance": "Dot"}}, 400, "size"),
        ({}, 400, "vectors"),
        ({**VECTORS, "quantization_config": {"product": {"compression": "x3"}}}, 400, "compression"),
        ({**VECTORS, "quantization_config": {"scalar": {}}}, 400, "type"),
        ({**VECTORS, "optimizers_config": {"max_optimization_threads": "all"}}, 400, "max_optimization_threads"),
        ({**VECTORS, "on_disk_payload": "yes"}, 400, "on_disk_payload"),
    ],
)
def test_bad_settings_of_a_collection_are_refused_by_name(body: dict[str, Any], status: int, name: str) -> None:
    found = refusal(models.CreateCollection, body)
    assert found is not None
    assert found[0] == status
    assert name in found[1]


def test_settings_of_newer_versions_and_usual_ones_are_accepted() -> None:
    tuned = {
        "hnsw_config": {"m": 0, "ef_construct": 100, "inline_storage": True, "new": 1},
        "optimizers_config": {"default_segment_number": 2, "max_optimization_threads": "auto"},
        "quantization_config": {"scalar": {"type": "int8", "quantile": 0.99, "always_ram": True}},
        "strict_mode_config": {"enabled": True, "search_max_hnsw_ef": 10},
    }
    assert refusal(models.CreateCollection, {**VECTORS, **tuned, "wal_config": {"wal_capacity_mb": 1}}) is None
    assert refusal(models.UpdateCollection, {**tuned, "vectors": {"": {"hnsw_config": {"m": 4}}}}) is None
    assert refusal(models.UpdateCollection, {"quantization_config": "Disabled"}) is None


def test_the_express_path_leaves_refused_values_to_the_routes() -> None:
    good = {**QUERY, "params": {"hnsw_ef": 1}}
    assert decoded_query(json.dumps(good).encode()) is not None
    for params in ({"hnsw_ef": 0}, {"exact": 1}, {"indexed_only": "no"}, {"quantization": {"oversampling": 0.5}}):
        assert decoded_query(json.dumps({**QUERY, "params": params}).encode()) is None


@given(st.integers(-5, 5), st.sampled_from(["timeout", "consistency"]))
def test_parameters_of_the_url(value: int, name: str) -> None:
    found = refusal(Parameters, {name: str(value)})
    assert (found is None) == (value >= 1)
    if found is not None:
        assert name in found[1]


@pytest.fixture(scope="module")
def client(served: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url) as found:
        assert found.put("/collections/c", json=VECTORS).status_code == 200
        yield found


@pytest.mark.parametrize(
    ("method", "path", "body", "name"),
    [
        ("PUT", "", {"points": [{"id": 1, "vector": QUERY["query"]}, {"id": 2, "vector": []}]}, "points[1].vector"),
        ("PUT", "", {"points": [{"id": 1, "vector": {}}]}, "points[0].vector"),
        ("PUT", "", {"points": [{"id": 1, "vector": {"": []}}]}, "points[0].vector"),
        ("PUT", "", {"batch": {"ids": [1, 2], "vectors": [QUERY["query"], []]}}, "batch.vectors[1]"),
        ("PUT", "", {"batch": {"ids": [1], "vectors": {}}}, "batch.vectors"),
        ("PUT", "/vectors", {"points": [{"id": 1, "vector": []}]}, "points[0].vector"),
        ("PUT", "/vectors", {"points": [{"id": 1, "vector": {}}]}, "points[0].vector"),
        ("POST", "/query", {"query": []}, "query"),
        ("POST", "/query", {"query": {"nearest": []}}, "query"),
        ("POST", "/query", {"query": {"recommend": {"positive": [QUERY["query"], []]}}}, "recommend.positive[1]"),
        ("POST", "/query/batch", {"searches": [QUERY, {"query": 1}, {"query": []}]}, "searches[2].query"),
        ("POST", "/explain", {"query": [], "id": 1}, "query"),
    ],
)
def test_an_empty_vector_is_refused_by_name(client: httpx.Client, method: str, path: str, body: Any, name: str) -> None:
    points = "/collections/c/points"
    first = {"points": [{"id": 1, "vector": QUERY["query"]}]}
    assert client.put(points, json=first).status_code == 200
    answer = client.request(method, points + path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "input"), answer.text
    assert answer.json()["detail"].startswith(f"{name} is empty: "), answer.text
    assert client.post(f"{points}/count", json={}).json()["result"] == {"count": 1}


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "name"),
    [
        ("PUT", "/collections/new", {"vectors": {}}, 400, "vectors is empty"),
        ("PUT", "/collections/new", {**VECTORS, "shard_number": 0}, 400, "shard_number"),
        ("PUT", "/collections/new", {**VECTORS, "hnsw_config": {"ef_construct": 0}}, 422, "hnsw_config.ef_construct"),
        ("PUT", "/collections/new?timeout=0", VECTORS, 422, "timeout"),
        ("PATCH", "/collections/c", {"hnsw_config": {"ef_construct": 3}}, 422, "hnsw_config.ef_construct"),
        ("POST", "/collections/c/points/query", {**QUERY, "params": {"hnsw_ef": 0}}, 422, "params.hnsw_ef"),
        ("POST", "/collections/c/points/query?consistency=some", QUERY, 400, "consistency"),
        ("POST", "/collections/c/points/query/batch", {"searches": [{**QUERY, "limit": 0}]}, 422, "limit"),
        ("POST", "/collections/c/points/scroll?timeout=x", {}, 400, "timeout"),
        ("PUT", "/collections/c/points?ordering=strange", {"points": []}, 400, "ordering"),
        ("PUT", "/collections/c/points?wait=perhaps", {"points": []}, 400, "wait"),
        ("POST", "/collections/c/points/count", {"filter": {"must": {"key": "n"}}}, 400, "must"),
        ("POST", "/collections/c/points/query", {"query": ["1", "2", "3", "4"]}, 400, "query"),
    ],
)
def test_refused_values_over_http(
    client: httpx.Client, method: str, path: str, body: Any, status: int, name: str
) -> None:
    answer = client.request(method, path, json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, "input"), answer.text
    assert name in answer.json()["status"]["error"]
    assert client.get("/collections").json()["result"]["collections"] == [{"name": "c"}]
