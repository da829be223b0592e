"""The express path answers plain queries as the routes do, and leaves everything else to them."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from serve_helpers import Running, filled_server, running, vectors

from interlace.serve import Keys, ServerSettings
from interlace.serve.gate.admission import Admission
from interlace.serve.gate.heads import LARGEST_BODY, Heads
from interlace.serve.work.threads import Workers

X = vectors(300, 8)
PATH = "/collections/c/points/query"
#: Any parameter sends a request to the routes.
ORDINARY = PATH + "?timeout=5"


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with 300 points, some of them with payloads."""
    with filled_server(tmp_path_factory.mktemp("express"), X, limits={"k": 100}) as found:
        yield found


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Batches that were joined, by their key; the routes and the express path have different keys."""
    found, join = list[Any](), Workers.join

    def noted(self: Workers, key: Any, *args: Any) -> None:
        found.append(key)
        join(self, key, *args)

    monkeypatch.setattr(Workers, "join", noted)
    return found


def without_time(answer: httpx.Response) -> Any:
    found = answer.json()
    found.pop("time", None), found.pop("request_id", None)
    return answer.status_code, answer.headers["content-type"], found


PLAIN = [
    {},
    {"limit": 3, "offset": 2},
    {"limit": None, "params": None, "filter": None, "with_payload": None},
    {"with_payload": True, "limit": 5},
    {"with_vector": True, "with_payload": False},
    {"score_threshold": 1.5},
    {"params": {"exact": True}},
    {"params": {"margin": 0.99, "rerank": 20}},
    {"params": {"margin": "inf", "quantization": {"rescore": False}}},
    {"params": {"hnsw_ef": 64, "indexed_only": False, "quantization": {"oversampling": 2.0}}},
]


@pytest.mark.parametrize("more", PLAIN, ids=str)
@pytest.mark.parametrize("nearest", [False, True])
def test_plain_queries_have_the_answer_of_the_routes(
    filled: Running, taken: list[Any], more: dict[str, Any], nearest: bool
) -> None:
    query: Any = X[7].tolist()
    body = {"query": {"nearest": query} if nearest else query, **more}
    with httpx.Client(base_url=filled.url) as client:
        express = client.post(PATH, json=body)
        assert len(taken) == 1  # the routes do not join a batch for {"nearest": ...}
        ordinary = client.post(ORDINARY, json=body)
    assert express.status_code == 200
    assert without_time(express) == without_time(ordinary)
    assert set(express.headers) == set(ordinary.headers)


NOT_PLAIN: list[tuple[Any, int]] = [
    ({"query": X[7].tolist()[:5]}, 400),
    ({"query": ["a"] * 8}, 400),
    ({"query": [float("nan")] * 8}, 400),
    ({"query": [1e300] * 8}, 400),
    ({"query": []}, 400),
    ({"query": 7}, 200),
    ({"query": X[7].tolist(), "limit": 0}, 422),
    ({"query": X[7].tolist(), "limit": "3"}, 400),
    ({"query": X[7].tolist(), "limit": 101}, 422),
    ({"query": X[7].tolist(), "unknown": 1}, 400),
    ({"query": X[7].tolist(), "params": {"hnsw_ef": 0}}, 422),
    ({"query": X[7].tolist(), "params": {"exact": "yes"}}, 400),
    ({"query": X[7].tolist(), "params": {"margin": "none"}}, 400),
    ({"query": X[7].tolist(), "params": {"recall": 0.9, "rerank": 3}}, 400),
    ({"query": X[7].tolist(), "with_stats": True}, 200),
    ({"query": X[7].tolist(), "filter": {"must": [{"has_id": [1, 2]}]}}, 200),
    ({"query": {"recommend": {"positive": [1]}}}, 200),
    ({"query": {"discover": {"target": 1}}}, 422),
    ("{", 400),
    ("[" * 5000, 400),
    ('{"query": "\ud800"}', 400),
]


@pytest.mark.parametrize(("body", "status"), NOT_PLAIN, ids=lambda value: repr(value)[:40])
def test_everything_else_is_answered_by_the_routes(filled: Running, body: Any, status: int) -> None:
    data = (body if isinstance(body, str) else json.dumps(body)).encode("utf-8", "surrogatepass")
    with httpx.Client(base_url=filled.url, headers={"content-type": "application/json"}) as client:
        first, second = client.post(PATH, content=data), client.post(ORDINARY, content=data)
    assert first.status_code == status
    if status != 200:
        assert without_time(first) == without_time(second)


def request(body: bytes, *more: str, path: str = PATH) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(body)}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def answers(connection: socket.socket, n: int) -> list[tuple[int, Any]]:
    """Status and body of the next answers."""
    found, data = list[tuple[int, Any]](), b""
    while len(found) < n:
        head, separator, rest = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]) if separator else 1
        if not separator or len(rest) < length:
            chunk = connection.recv(1 << 16)
            assert chunk, f"the connection was closed after {data!r:.200}"
            data += chunk
            continue
        found.append((int(head[9:12]), json.loads(rest[:length])))
        data = rest[length:]
    return found


def first_id(answer: tuple[int, Any]) -> Any:
    return answer[1]["result"]["points"][0]["id"]


@pytest.mark.parametrize("step", [1, 40, 100_000])
def test_parts_and_several_requests_on_one_connection(filled: Running, step: int) -> None:
    """Whatever the pieces are in which requests arrive, each gets its own answer, in their order."""
    bodies = [json.dumps({"query": X[i].tolist(), "limit": 1}).encode() for i in (3, 4, 5, 6)]
    sent = request(bodies[0]) + request(bodies[1], path=ORDINARY) + request(bodies[2]) + request(bodies[3])
    with socket.create_connection(("127.0.0.1", filled.port), timeout=20) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(0, len(sent), step):
            connection.sendall(sent[i : i + step])
        assert [first_id(answer) for answer in answers(connection, 4)] == [3, 4, 5, 6]


def test_the_end_of_a_body_that_nobody_read_is_no_request(filled: Running) -> None:
    """An answer may come before the body; what follows in the body must not be taken for a request."""
    inner = request(json.dumps({"query": X[1].tolist()}).encode())
    with socket.create_connection(("127.0.0.1", filled.port), timeout=20) as connection:
        connection.sendall(
            f"POST /nothing HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(inner)}\r\n\r\n".encode()
        )
        assert answers(connection, 1)[0][0] == 404
        connection.sendall(inner + request(b"{}", path="/collections/none/points/count"))
        assert answers(connection, 1)[0][1]["detail"] == "there is no collection 'none'"


def test_a_body_that_stays_away_is_given_up_by_the_routes(tmp_path: Path) -> None:
    with (
        running(tmp_path, limits={"read_seconds": 0.5}) as found,
        socket.create_connection(("127.0.0.1", found.port), timeout=20) as connection,
    ):
        connection.sendall(request(b"{" * 50)[:-10])
        status, problem = answers(connection, 1)[0]
        assert (status, problem["limit"]) == (408, "read_seconds")


def test_the_last_answer_comes_before_the_end_of_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from interlace.serve.work.plain import PlainBatch

    begun, go, call = threading.Event(), threading.Event(), PlainBatch.__call__

    def slowly(self: PlainBatch, given: Any) -> Any:
        begun.set()
        go.wait(20)
        return call(self, given)

    with running(tmp_path) as found, httpx.Client(base_url=found.url) as client:
        client.put("/collections/c", json={"vectors": {"size": 8, "distance": "Euclid"}})
        client.put("/collections/c/points", json={"points": [{"id": 1, "vector": X[1].tolist()}]})
        monkeypatch.setattr(PlainBatch, "__call__", slowly)
        with socket.create_connection(("127.0.0.1", found.port), timeout=20) as connection:
            connection.sendall(request(json.dumps({"query": X[1].tolist()}).encode()))
            assert begun.wait(20)
            found.server.should_exit = True
            threading.Timer(0.3, go.set).start()
            assert first_id(answers(connection, 1)[0]) == 1
            assert connection.recv(1) == b""


GOOD = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10"


@pytest.mark.parametrize(
    ("head", "accepted"),
    [
        (GOOD, True),
        (GOOD + "\r\nContent-Type: application/json\r\nConnection: keep-alive\r\nAccept: */*", True),
        (GOOD + "\r\nX-Request-Id: a-b.c_1", True),
        (GOOD.replace("HTTP/1.1", "HTTP/1.0"), False),
        (GOOD.replace("POST", "PUT"), False),
        (GOOD.replace("/query", "/query?a=b"), False),
        (GOOD.replace("/c/", "/%63/"), False),
        (GOOD.replace("/c/", "/../"), False),
        (GOOD.replace("Content-Length: 10", "Content-Length: 0"), False),
        (GOOD.replace("Content-Length: 10", "Content-Length: +10"), False),
        (GOOD.replace("Content-Length: 10", f"Content-Length: {LARGEST_BODY + 1}"), False),
        (GOOD + "\r\nContent-Length: 10", False),
        (GOOD + "\r\nTransfer-Encoding: chunked", False),
        (GOOD + "\r\nContent-Encoding: gzip", False),
        (GOOD + "\r\nExpect: 100-continue", False),
        (GOOD + "\r\nConnection: close", False),
        (GOOD + "\r\nConnection: upgrade\r\nUpgrade: websocket", False),
        (GOOD + "\r\nContent-Type: application/x-npy", False),
        (GOOD + "\r\nOrigin: http://evil.example", False),
        (GOOD.replace("localhost", "evil.example"), False),
        (GOOD + "\r\n folded: x", False),
        (GOOD + "\r\nbad name: x", False),
        (GOOD + "\r\nname : x", False),
        (GOOD + "\r\nname: a\rb", False),
        (GOOD + "\r\nname: a\nContent-Length: 3", False),
        (GOOD + "\r\nname: \x00", False),
        (GOOD + "\r\nname: \xff", False),
    ],
)
def test_heads_are_read_strictly(tmp_path: Path, head: str, accepted: bool) -> None:
    heads = Heads(Admission(ServerSettings(str(tmp_path))))
    for _ in range(2):  # from its bytes, and from memory
        found = heads.read(head.encode("latin-1"))
        assert (found is not None) == accepted
        assert found is None or (found.collection, found.length) == ("c", 10)


def test_heads_need_a_key_each_time(tmp_path: Path) -> None:
    heads = Heads(Admission(ServerSettings(str(tmp_path), keys=Keys("a-long-enough-key", "another-long-key"))))
    for _ in range(2):
        assert heads.read(GOOD.encode()) is None
        assert heads.read(f"{GOOD}\r\napi-key: a-long-enough-kez".encode()) is None
        assert heads.read(f"{GOOD}\r\napi-key: a-long-enough-key".encode()) is not None
        assert heads.read(f"{GOOD}\r\nauthorization: Bearer another-long-key".encode()) is not None
