"""Points in the order of a field, and facets: what a plain loop over the payloads finds."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from serve_helpers import Running, vectors

N = 120
KINDS = {"n": "integer", "price": "float", "day": "datetime", "tags": "keyword", "counts": "integer", "good": "bool"}
BEGIN = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def payload(i: int) -> dict[str, Any]:
    """Values that repeat, between points and within the list of one; some points have none."""
    rng = random.Random(i)
    day = BEGIN + datetime.timedelta(hours=rng.randrange(60), microseconds=rng.choice([0, 1, 500_000]))
    found: dict[str, Any] = {
        "n": rng.randrange(-20, 20),
        "price": rng.choice([-1.5, 0.0, 2.0, 2.5, 1e300]),
        "day": day.isoformat(),
        "tags": [rng.choice("abcdefghijklmnop") for _ in range(rng.randrange(4))],
        "counts": [rng.choice([-3, 2, 10, 100, 2**40]) for _ in range(rng.randrange(4))],
        "good": rng.random() < 0.3,
    }
    return {key: value for key, value in found.items() if rng.random() < 0.9}


PAYLOADS = [payload(i) for i in range(N)]


def values(i: int, key: str) -> list[Any]:
    """The different values of a point."""
    found = PAYLOADS[i].get(key, [])
    return list(dict.fromkeys(found if isinstance(found, list) else [found]))


def number(value: Any) -> Any:
    """As ``order_value`` has it: a time in microseconds."""
    if not isinstance(value, str):
        return value
    return (datetime.datetime.fromisoformat(value) - EPOCH) // datetime.timedelta(microseconds=1)


@pytest.fixture(scope="module")
def client(served: Running) -> Iterator[httpx.Client]:
    url = f"{served.url}/collections/listed"
    with httpx.Client(base_url=url) as found:
        assert found.put(url, json={"vectors": {"size": 16, "distance": "Euclid"}}).status_code == 200
        for key, kind in KINDS.items():
            assert found.put("/index", json={"field_name": key, "field_schema": kind}).status_code == 200
        points = [{"id": i, "vector": v.tolist(), "payload": PAYLOADS[i]} for i, v in enumerate(vectors(N))]
        assert found.put("/points", json={"points": points}).status_code == 200
        yield found


def result(client: httpx.Client, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


filters = st.none() | st.builds(
    lambda least, good: {"must": [{"key": "n", "range": {"gte": least}}], "must_not": good},
    st.integers(-25, 25),
    st.sampled_from([None, [{"key": "good", "match": {"value": True}}]]),
)


def passes(i: int, wanted: Any) -> bool:
    if wanted is None:
        return True
    least, unwanted = wanted["must"][0]["range"]["gte"], bool(wanted["must_not"])
    return bool(PAYLOADS[i].get("n", -100) >= least and not (unwanted and PAYLOADS[i].get("good")))


@given(
    st.sampled_from(["tags", "counts", "n", "good"]),
    filters,
    st.none() | st.integers(1, 30),
    st.sampled_from([None, False, True]),
)
def test_facets_count_each_point_once_for_each_of_its_values(
    client: httpx.Client, key: str, wanted: Any, limit: int | None, exact: bool | None
) -> None:
    expected = Counter(value for i in range(N) if passes(i, wanted) for value in values(i, key))
    listed = sorted(expected.items(), key=lambda item: (-item[1], item[0]))[: limit or 10]
    hits = result(client, "/facet", key=key, filter=wanted, limit=limit, exact=exact)["hits"]
    assert hits == [{"value": value, "count": n} for value, n in listed]


starts = (
    st.none()
    | st.integers(-25, 25)
    | st.floats(-25, 25)
    | st.sampled_from([2**70, -(2**70), 1e300, -1e300, number(BEGIN.isoformat()), float(number(BEGIN.isoformat()))])
    | st.sampled_from(["2026-01-02", "2026-01-02T03:00:00Z", "2026-01-02T03:00:00.5+02:00", "2026-01-01T00:00:00"])
)


def start_number(start: Any) -> Any:
    """A start as a number; UTC unless it says otherwise."""
    if not isinstance(start, str):
        return start
    text = start.replace("Z", "+00:00").replace(".5", ".500000")
    found = datetime.datetime.fromisoformat(text if "T" in text else f"{text}T00:00:00")
    return number((found if found.tzinfo else found.replace(tzinfo=datetime.timezone.utc)).isoformat())


@given(
    st.sampled_from(["n", "price", "day", "counts"]),
    st.sampled_from([None, "asc", "desc"]),
    starts,
    filters,
    st.none() | st.integers(1, 300),
)
def test_points_come_in_the_order_of_a_field_from_any_start(
    client: httpx.Client, key: str, direction: str | None, start: Any, wanted: Any, limit: int | None
) -> None:
    sign, first = -1 if direction == "desc" else 1, start_number(start)
    expected = sorted(
        (sign * number(value), i)
        for i in range(N)
        if passes(i, wanted)
        for value in values(i, key)
        if first is None or sign * number(value) >= sign * first
    )
    order = {"key": key, "direction": direction, "start_from": start}
    found = result(client, "/points/scroll", order_by=order, filter=wanted, limit=limit)
    shown = [(sign * point["order_value"], point["id"]) for point in found["points"]]
    assert shown == expected[: limit or 10]
    assert all(point["payload"] == PAYLOADS[point["id"]] for point in found["points"])
    assert found["next_page_offset"] is None


@pytest.mark.parametrize("key", ["n", "price", "day"])
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_pages_that_start_from_the_last_value_visit_all_points_once(
    client: httpx.Client, key: str, direction: str
) -> None:
    """As Qdrant's documentation pages: from the last value, without the points of that value that were seen."""
    seen, start, same = list[int](), None, set[int]()
    while True:
        order = {"key": key, "direction": direction, "start_from": start}
        wanted = {"must_not": [{"has_id": sorted(same)}]}
        page = result(client, "/points/scroll", order_by=order, limit=7, filter=wanted)["points"]
        seen += [point["id"] for point in page]
        if len(page) < 7:
            break
        last = page[-1]["order_value"]
        same = {point["id"] for point in page if point["order_value"] == last} | (same if last == start else set())
        start = last
    assert sorted(seen) == [i for i in range(N) if key in PAYLOADS[i]]


@pytest.mark.parametrize("start", [True, [1], {"a": 1}, "", "yesterday", "2026-13-01"])
def test_other_starts_are_refused_by_name(client: httpx.Client, start: Any) -> None:
    body = {"order_by": {"key": "n", "start_from": start}}
    answer = client.post("/points/scroll", json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "input")
    assert "order_by.start_from" in answer.json()["detail"].replace("OrderBy.", "")


@given(st.integers(0, 5), st.integers(1, 20), filters)
def test_a_query_without_a_query_lists_points_with_the_score_one(
    client: httpx.Client, offset: int, limit: int, wanted: Any
) -> None:
    found = result(client, "/points/query", limit=limit, offset=offset, filter=wanted)["points"]
    expected = [i for i in range(N) if passes(i, wanted)][offset : offset + limit]
    assert [(point["id"], point["score"]) for point in found] == [(i, 1.0) for i in expected]
