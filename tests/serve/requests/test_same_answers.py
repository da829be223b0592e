"""Hand-written readers of bodies against pydantic: whatever the text is, both ways have the same answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from serve_helpers import Running, filled_server, vectors

from interlace.serve.collections.searching import as_vectors
from interlace.serve.problems import ProblemDetails
from interlace.serve.requests import ids as point_ids
from interlace.serve.requests.fields import to_text
from interlace.serve.requests.frequent import decoded_upsert
from interlace.serve.requests.models import Upsert

X = vectors(40, 3)
PATH = "/collections/c/points/query"

numbers = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False).map(repr),
    st.sampled_from(["-0", "-0.0", "0e0", "1E5", "1e+5", "1e-400", "1e999", "-1e999", "1.0", "2.5e0", "[1]"]),
    st.sampled_from(["01", "1.", ".5", "+1", "-", "1e", "0x1", "1_0"]),
    st.sampled_from(["NaN", "Infinity", "-Infinity", "null", "true", '"1"', "9" * 400, "0." + "1" * 400]),
)
space = st.sampled_from(["", "", "", " ", "\n\t\r ", "\u00a0", "\x00", "\ufeff", "/**/"])
texts = st.one_of(
    st.text(max_size=5).map(json.dumps),
    st.text(max_size=5).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(
        ['"\\u00e9"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\x41"', '"\t"', '"\\/"', '"a', "''", '"\\u0000"']
    ),
)


@st.composite
def vector(draw: st.DrawFn) -> str:
    n = draw(st.sampled_from([3, 3, 3, 3, 3, 2, 4, 0]))
    good = st.floats(-9, 9, width=32).map(repr)
    entries = [draw(st.one_of(good, good, good, good, numbers)) for _ in range(n)]
    comma = draw(st.sampled_from([",", ",", ",", " , ", ",,", ""]))
    return "[" + draw(space) + comma.join(entries) + draw(space) + "]"


def member(key: str, value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """``key: value``, the key now and then with an escape."""
    escaped = "".join(f"\\u{ord(c):04x}" for c in key)
    keys = st.sampled_from([f'"{key}"'] * 8 + [f'"{escaped}"', f"'{key}'", key, f'"{key.upper()}"'])
    return st.builds(lambda k, before, v, after: f"{k}{before}:{after}{v}", keys, space, value, space)


def joined(parts: st.SearchStrategy[list[str]], start: str = "{", end: str = "}") -> st.SearchStrategy[str]:
    return parts.map(lambda found: start + ",".join(found) + end)


payload_values = st.one_of(numbers, texts, st.just("{}"), st.just('{"a":1,"a":2}'), st.just('[[],{"b":null}]'))
payloads = st.one_of(
    st.just("null"), joined(st.lists(st.builds(lambda k, v: f"{k}:{v}", texts, payload_values), max_size=3)), numbers
)
ids = st.one_of(st.integers(0, 99).map(str), st.integers(0, 99).map(str), numbers, texts)


def ending(body: st.SearchStrategy[str]) -> st.SearchStrategy[bytes]:
    """Cut now and then, with something behind it, or with a byte that is not UTF-8."""

    def ended(text: str, cut: float, more: bytes) -> bytes:
        data = text.encode("utf-8", "surrogatepass")
        return (data if cut > 0.15 else data[: int(len(data) * cut * 6)]) + more

    return st.builds(
        ended, body, st.floats(0, 1), st.sampled_from([b""] * 9 + [b" ", b"\n", b"x", b"}", b"\xff", b"{}"])
    )


@st.composite
def point(draw: st.DrawFn) -> str:
    parts = [draw(member("id", ids)), draw(member("vector", vector()))]
    if draw(st.booleans()):
        parts.append(draw(member("payload", payloads)))
    if draw(st.integers(0, 9)) == 0:
        parts.append(draw(st.sampled_from([*parts, '"other":1'])))
    return "{" + ",".join(draw(st.permutations(parts))) + "}"


upserts = ending(
    st.one_of(
        joined(st.lists(point(), max_size=3), '{"points":[', "]}"),
        joined(st.lists(point(), max_size=2), '{"points":[', '],"batch":null,"shard_key":null}'),
        st.builds(
            lambda i, v, p: f'{{"batch":{{"ids":[{i}],"vectors":[{v}],"payloads":[{p}]}}}}', ids, vector(), payloads
        ),
    )
)


def by_pydantic(body: bytes) -> Any:
    """Ids, vectors and texts of payloads, or None if the body is refused."""
    try:
        given = Upsert.model_validate_json(body)
        if given.points is not None:
            assert given.batch is None
            columns = [(point.id, point.vector, point.payload) for point in given.points]
        else:
            assert given.batch is not None
            payloads = given.batch.payloads or [None] * len(given.batch.ids)
            columns = list(zip(given.batch.ids, given.batch.vectors, payloads, strict=True))
        listed = point_ids.all_to_store([id for id, _, _ in columns])
        array = as_vectors([vector for _, vector, _ in columns], 3, str)
        return listed, array.tobytes(), [to_text(payload, id) for id, _, payload in columns]
    except (ValidationError, ProblemDetails, ValueError):
        return None


@settings(max_examples=600, deadline=None)
@given(upserts)
def test_points_that_are_read_natively_are_those_of_pydantic(body: bytes) -> None:
    found = decoded_upsert(body, 3)
    if found is None:
        return  # pydantic reads it
    try:
        texts = [to_text(payload, i) for payload, i in zip(found.payloads, found.ids, strict=True)]
    except ProblemDetails:
        assert by_pydantic(body) is None
        return
    assert by_pydantic(body) == (found.ids, np.asarray(found.vectors, np.float32).tobytes(), texts)


def test_most_points_are_read_natively() -> None:
    """Or the test above would compare nothing."""
    body = {"points": [{"id": 1, "vector": [1, -0.0, 1e-3], "payload": {"é": [2**70, 1e5, None]}}]}
    for text in (json.dumps(body), json.dumps(body, ensure_ascii=False, indent=1)):
        found = decoded_upsert(text.encode(), 3)
        assert found is not None
        assert by_pydantic(text.encode())[0] == found.ids == point_ids.all_to_store([1])


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with filled_server(tmp_path_factory.mktemp("same"), X, limits={"k": 100}) as found:
        yield found


flags = st.sampled_from(["true", "false", "null", "1", '"true"', "[]", "True"])
params = joined(
    st.lists(
        st.one_of(
            member("exact", flags),
            member("margin", st.one_of(numbers, texts, st.sampled_from(['"exact"', '"inf"', "0.9"]))),
            member("rerank", numbers),
            member("recall", numbers),
            member("hnsw_ef", numbers),
            member("quantization", joined(st.lists(member("oversampling", numbers), max_size=2))),
        ),
        max_size=2,
    )
)


@st.composite
def query(draw: st.DrawFn) -> str:
    asked = draw(vector())
    parts = [draw(member("query", st.sampled_from([asked] * 3 + [f'{{"nearest":{asked}}}', "7", f"[{asked}]"])))]
    others = (
        ("limit", st.one_of(st.integers(1, 50).map(str), numbers)),
        ("offset", st.one_of(st.integers(0, 50).map(str), numbers)),
        ("with_payload", flags),
        ("with_vector", flags),
        ("score_threshold", numbers),
        ("params", params),
        ("filter", st.sampled_from(["null", "{}"])),
    )
    parts += [draw(member(*other)) for other in others if draw(st.integers(0, 3)) == 0]
    if draw(st.integers(0, 9)) == 0:
        parts.append(draw(st.sampled_from(parts)))
    return draw(space) + "{" + ",".join(draw(st.permutations(parts))) + "}"


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=ending(query()))
def test_queries_of_the_express_path_have_the_answers_of_the_routes(filled: Running, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    answers = []
    for path in (PATH, PATH + "?timeout=5"):  # a parameter sends a request to the routes
        answer = CLIENT.post(filled.url + path, content=body, headers=headers)
        found = answer.json()
        found.pop("time", None), found.pop("request_id", None)
        answers.append((answer.status_code, found))
    assert answers[0][0] < 500
    assert answers[0] == answers[1]


CLIENT = httpx.Client(timeout=60)
