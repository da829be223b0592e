"""Values that fit JSON, but not 64 bits, a type or a limit: an answer that says so, and never a wrong one."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from numpy.lib import format as npy_format
from serve_helpers import Running, running, vectors

X = vectors(40, 4)
NPY, ARROW = "application/x-npy", "application/vnd.apache.arrow.stream"
FIELDS = {"n": "integer", "f": "float", "k": "keyword", "größe": "keyword", "d": "datetime"}
#: Integers that floating-point numbers of 24 or 53 bits do not have.
NUMBERS = [0, 5, -3, 2**24 + 1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 1_700_000_000_000]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("odd"), limits={"batch": 60}) as found:
        with httpx.Client(base_url=found.url) as client:
            create(client, "c")
            for key, kind in FIELDS.items():
                answer = client.put("/collections/c/index", json={"field_name": key, "field_schema": kind})
                assert answer.status_code == 200
            payloads = [{"n": n, "f": float(n), "k": [f"w{i}", "all"], "größe": f"w{i}"} for i, n in enumerate(NUMBERS)]
            points = [{"id": i, "vector": X[i].tolist(), "payload": p} for i, p in enumerate(payloads)]
            assert client.put("/collections/c/points", json={"points": points}).status_code == 200
        yield found


@pytest.fixture
def client(filled: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=filled.url, headers={"content-type": "application/json"}, timeout=60) as found:
        yield found


def create(client: httpx.Client, name: str, **more: Any) -> httpx.Response:
    return client.put(f"/collections/{name}", json={"vectors": {"size": 4, "distance": "Euclid"}, **more})


def matching(client: httpx.Client, filter: Any) -> list[int]:
    """Ids by scroll and by query, which evaluate filters in different ways."""
    scrolled = client.post("/collections/c/points/scroll", content=json.dumps({"filter": filter, "limit": 50}))
    assert scrolled.status_code == 200, scrolled.text
    body = {"query": X[0].tolist(), "limit": 50, "filter": filter}
    queried = client.post("/collections/c/points/query", content=json.dumps(body))
    assert queried.status_code == 200, queried.text
    ids: list[int] = [point["id"] for point in scrolled.json()["result"]["points"]]
    assert sorted(point["id"] for point in queried.json()["result"]["points"]) == ids
    return ids


@pytest.mark.parametrize(
    "bound", [5, 5.5, -3.5, 2**24 + 1, 2**53, 2**53 + 1, 2**63, 1e30, -1e30, 10**400, float("nan")]
)
def test_ranges_of_integers_are_exact(client: httpx.Client, bound: float) -> None:
    expected = {
        "lt": [i for i, n in enumerate(NUMBERS) if n < bound],
        "lte": [i for i, n in enumerate(NUMBERS) if n <= bound],
        "gt": [i for i, n in enumerate(NUMBERS) if n > bound],
        "gte": [i for i, n in enumerate(NUMBERS) if n >= bound],
    }
    for name, ids in expected.items():
        assert matching(client, {"must": [{"key": "n", "range": {name: bound}}]}) == ids, name
    for direction, ids in (("asc", expected["gte"]), ("desc", expected["lte"])):
        order = {"key": "n", "direction": direction, "start_from": bound}
        found = client.post("/collections/c/points/scroll", content=json.dumps({"order_by": order})).json()["result"]
        assert sorted(point["id"] for point in found["points"]) == ids, direction


def test_ranges_of_numbers_take_any_number(client: httpx.Client) -> None:
    for bound, ids in ((10**400, list(range(9))), (-(10**400), [])):
        assert matching(client, {"must": [{"key": "f", "range": {"lt": bound}}]}) == ids
    assert matching(client, {"must": [{"key": "k", "values_count": {"gte": 0, "lt": 10**30}}]}) == list(range(9))
    least = {"conditions": [{"key": "n", "match": {"value": 5}}], "min_count": 10**30}
    assert matching(client, {"min_should": least}) == []


@pytest.mark.parametrize("n", [2, 30, 20_000])
def test_many_values_are_compared(client: httpx.Client, n: int) -> None:
    others = [f"another-value-of-some-length-{i}" for i in range(n)]
    among, without = ({"must": [{"key": "k", "match": {how: ["w3", *others, "w5"]}}]} for how in ("any", "except"))
    assert matching(client, among) == [3, 5]
    assert matching(client, without) == list(range(9))  # all have another value beside it
    assert matching(client, {"must": [{"key": "k", "match": {"except": ["w3", *others, "all", "w5"]}}]}) == [
        i for i in range(9) if i not in (3, 5)
    ]


@pytest.mark.parametrize("n", [1, 33, 100, 400])
@pytest.mark.parametrize("character", "xé字😀")
def test_characters_of_any_width_are_compared(client: httpx.Client, character: str, n: int) -> None:
    """As those of ASCII: values that no point has, beside one that a point has."""
    word = character * n
    for key in ("k", "größe"):
        assert matching(client, {"must": [{"key": key, "match": {"value": word}}]}) == []
        assert matching(client, {"must": [{"key": key, "match": {"any": [word, "w3"]}}]}) == [3]
        assert matching(client, {"must": [{"key": key, "match": {"text": word}}]}) == []
        assert 3 not in matching(client, {"must": [{"key": key, "match": {"except": [word, "w3", "all"]}}]})
    assert matching(client, {"must_not": [{"key": "größe", "match": {"any": [word]}}]}) == list(range(9))


def test_a_filter_of_many_terms_is_the_same_for_all_routes(client: httpx.Client) -> None:
    terms = [{"key": "k", "match": {"any": ["w1", f"({i}"]}} for i in range(200)]
    assert matching(client, {"should": terms}) == [1]


@pytest.mark.parametrize(
    ("payload", "part"),
    [
        ({"f": 10**400}, "'f' is declared as float, but point 30 has a number that does not fit 64 bits"),
        ({"f": -(10**309)}, "does not fit 64 bits"),
        ({"n": 10**400}, "which does not fit 64 bits"),
        ({"n": 2**63}, "which does not fit 64 bits"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_values_beyond_64_bits_are_refused(client: httpx.Client, payload: Any, part: str) -> None:
    for more in ({}, {"update_mode": "upsert"}):  # the second is read by pydantic
        body = {"points": [{"id": 30, "vector": X[0].tolist(), "payload": payload}], **more}
        answer = client.put("/collections/c/points", content=json.dumps(body))
        assert (answer.status_code, answer.json()["code"]) == (400, "input")
        assert part in answer.json()["detail"]
        assert len(answer.text) < 600


def stream(**columns: Any) -> bytes:
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


VECTORS = pa.FixedSizeListArray.from_arrays(pa.array(X[:2].ravel()), 4)
IDS = [
    pa.array([1.5, 2.5]),
    pa.array([1, 2], pa.decimal128(20, 0)),
    pa.array([True, False]),
    pa.array([b"a", b"b"]),
    pa.array([b"", b""], pa.binary(0)),
    pa.array([1, 2], pa.timestamp("s")),
    pa.array([{}, {}], pa.struct([])),
    pa.array([[1], [2]]),
]


@pytest.mark.parametrize("ids", IDS, ids=lambda ids: str(ids.type))
def test_ids_of_a_table_are_integers_or_strings(client: httpx.Client, ids: Any) -> None:
    """Other numbers would be rounded to the ids of other points."""
    before = client.post("/collections/c/points", json={"ids": [1, 2], "with_vector": True}).json()["result"]
    content = stream(id=ids, vector=VECTORS)
    answer = client.put("/collections/c/points", content=content, headers={"content-type": ARROW})
    assert (answer.status_code, answer.json()["code"]) == (400, "input")
    assert "must hold integers or strings" in answer.json()["detail"]
    assert client.post("/collections/c/points", json={"ids": [1, 2], "with_vector": True}).json()["result"] == before


def test_rows_without_bytes_are_counted_before_they_are_listed(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A header of 128 bytes can promise any number of rows of no columns."""
    out, listed = io.BytesIO(), list[int]()
    npy_format.write_array_header_1_0(out, {"descr": "<f4", "fortran_order": False, "shape": (10**5, 0)})
    monkeypatch.setattr("interlace.serve.requests.ids.to_store", listed.append)
    url = "/collections/c/points?first_id=0"
    answer = client.put(url, content=out.getvalue(), headers={"content-type": NPY})
    assert (answer.status_code, answer.json().get("limit")) == (422, "batch")
    assert listed == []


@pytest.mark.parametrize("digits", [21, 400, 5_000])
def test_long_numbers_are_no_ids(client: httpx.Client, digits: int) -> None:
    assert client.get("/collections/c/points/" + "9" * digits).status_code == (404 if digits < 1000 else 400)
    out = io.BytesIO()
    np.save(out, X[:2])
    url = "/collections/c/points?first_id=" + "9" * digits
    answer = client.put(url, content=out.getvalue(), headers={"content-type": NPY})
    assert (answer.status_code, answer.json()["code"]) == (400, "input")


@pytest.mark.parametrize("kind", [["keyword"], {"a": 1}, 5, ""], ids=str)
def test_types_of_fields_and_compressions_are_words(client: httpx.Client, kind: Any) -> None:
    body = {"field_name": "z", "field_schema": {"type": kind}}
    assert client.put("/collections/c/index", json=body).status_code == 400
    answer = create(client, "new", quantization_config={"product": {"compression": kind}})
    assert (answer.status_code, answer.json()["code"]) == (400, "input")
    assert "product.compression: Input should be 'x4'" in answer.json()["detail"]


@pytest.mark.parametrize("columns", [{"$payload": "int64"}, {"$id": "int64"}], ids=str)
def test_columns_of_the_server_are_not_created(client: httpx.Client, columns: dict[str, str]) -> None:
    answer = create(client, "new", interlace={"columns": columns})
    assert (answer.status_code, answer.json()["code"]) == (400, "input")
    assert "must not begin with '$'" in answer.json()["detail"]


@pytest.mark.parametrize("keys", [("a", "a[]"), ("a[]", "a")])
@pytest.mark.parametrize("kind", ["float", "keyword"])
def test_a_field_has_one_name(client: httpx.Client, keys: tuple[str, str], kind: str) -> None:
    """``a[]`` is also the column with several values of ``a``."""
    name = f"{kind}-{len(keys[0])}"
    assert create(client, name).status_code == 200
    url = f"/collections/{name}"
    assert client.put(f"{url}/index", json={"field_name": keys[0], "field_schema": kind}).status_code == 200
    answer = client.put(f"{url}/index", json={"field_name": keys[1], "field_schema": kind})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    value = 1.5 if kind == "float" else "x"
    points = {"points": [{"id": 1, "vector": X[0].tolist(), "payload": {"a": [value]}}]}
    assert client.put(f"{url}/points", json=points).status_code == 200
    assert list(client.get(url).json()["result"]["payload_schema"]) == [keys[0]]


def test_an_upsert_without_points_says_so(client: httpx.Client) -> None:
    before = client.post("/collections/c/points/count", json={}).json()["result"]
    for body in ({"points": []}, {"batch": {"ids": [], "vectors": []}}):
        answer = client.put("/collections/c/points", json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "input")
        assert "no points" in answer.json()["detail"]
    assert client.post("/collections/c/points/count", json={}).json()["result"] == before
