"""Hostile input: fuzzed JSON and bytes, half-open connections, kills. The server answers and loses nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from serve_chaos import Chaos
from serve_helpers import Running, running, vectors

X = vectors(50, 4)
CREATE = {"vectors": {"size": 4, "distance": "Euclid"}}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    limits = {"body_bytes": 200_000, "read_seconds": 2.0, "k": 1000, "hits": 100_000}
    with running(tmp_path_factory.mktemp("hostile"), limits=limits) as found:
        with httpx.Client(base_url=found.url) as client:
            assert client.put("/collections/c", json=CREATE).status_code == 200
            assert (
                client.put("/collections/c/index", json={"field_name": "n", "field_schema": "integer"}).status_code
                == 200
            )
            points = [{"id": i, "vector": X[i].tolist(), "payload": {"n": i}} for i in range(50)]
            assert client.put("/collections/c/points", json={"points": points}).status_code == 200
        yield found


BODIES: dict[str, Any] = {
    "points/query": {
        "query": X[0].tolist(),
        "limit": 3,
        "filter": {"must": [{"key": "n", "range": {"lt": 5}}], "must_not": [{"has_id": [1]}]},
        "params": {"exact": True, "rerank": 5, "quantization": {"oversampling": 2.0}},
        "with_payload": {"include": ["n"]},
        "with_vector": True,
        "score_threshold": 1.5,
    },
    "points/query/batch": {"searches": [{"query": 1}, {"query": X[1].tolist()}]},
    "points/scroll": {"limit": 3, "offset": 2, "filter": {"should": [{"is_empty": {"key": "n"}}]}},
    "points/count": {"filter": {"min_should": {"conditions": [{"key": "n", "match": {"any": [1]}}], "min_count": 1}}},
    "points": {"ids": [1, 2], "with_payload": ["n"]},
    "points/explain": {"query": X[0].tolist(), "id": 3, "limit": 2},
    "insight/map": {"sample": 5, "query": 3, "limit": 2},
    "insight/funnel": {"query": X[0].tolist(), "limit": 3},
}
ODD = [None, True, -1, 0, 2**63, 2**64, 10**40, 1e308, -1e-320, "", "\x00", "a" * 5000, "�", [], {}, [[]], {"": None}]


def mutated(value: Any, rng: random.Random) -> Any:
    """The same with one part replaced, dropped, doubled or nested."""
    if rng.random() < 0.25 or not isinstance(value, dict | list) or not value:
        return rng.choice([rng.choice(ODD), [value], {"must": [value]}, {"nearest": value}])
    if isinstance(value, dict):
        key, out = rng.choice(list(value)), dict(value)
        if rng.random() < 0.15:
            del out[key]
        elif rng.random() < 0.15:
            out[rng.choice(["x", "must", "key", "$payload", "$id", "n[]"])] = rng.choice(ODD)
        else:
            out[key] = mutated(value[key], rng)
        return out
    place = rng.randrange(len(value))
    if rng.random() < 0.2:
        return value + value[:place]
    return [mutated(v, rng) if i == place else v for i, v in enumerate(value)]


@pytest.mark.parametrize("path", BODIES)
def test_fuzzed_json_is_answered_without_a_crash(target: Running, path: str) -> None:
    rng = random.Random(path)
    statuses = set()
    with httpx.Client(base_url=target.url, timeout=60) as client:
        for _ in range(60):
            body = BODIES[path]
            for _ in range(rng.randint(1, 3)):
                body = mutated(body, rng)
            answer = client.post(
                f"/collections/c/{path}", content=json.dumps(body), headers={"content-type": "application/json"}
            )
            statuses.add(answer.status_code)
            assert answer.status_code in (200, 400, 404, 413, 422), (body, answer.text)
            assert "Traceback" not in answer.text
        assert client.post("/collections/c/points/count", json={}).json()["result"]["count"] == 50
    assert 400 in statuses


def test_fuzzed_bytes_are_answered_without_a_crash(target: Running) -> None:
    rng = random.Random(1)
    from interlace.client import wire

    seeds = [
        (
            wire.pack(
                {
                    "k": 3,
                    "offset": 0,
                    "margin": "exact",
                    "threads": 1,
                    "filter": None,
                    "embedded": False,
                    "rerank": None,
                    "recall": None,
                },
                {"q": X[:3]},
            ),
            wire.MEDIA_TYPE,
            "store/search",
        ),
        (wire.pack({"ids": [1], "originals": True}), wire.MEDIA_TYPE, "store/get"),
        (json.dumps(BODIES["points/query"]).encode(), "application/json", "points/query"),
    ]
    with httpx.Client(base_url=target.url, timeout=60) as client:
        for i in range(150):
            data, kind, path = seeds[i % len(seeds)]
            out = bytearray(data)
            for _ in range(rng.randint(1, 6)):
                out[rng.randrange(len(out))] = rng.choice([0, 255, 128, rng.randrange(256)])
            content = bytes(out[: rng.randrange(len(out))] if rng.random() < 0.2 else out)
            answer = client.post(f"/collections/c/{path}", content=content, headers={"content-type": kind})
            assert answer.status_code in (200, 400, 404, 413, 422), answer.text
            assert "Traceback" not in answer.text


def test_deep_json_does_not_overflow_the_stack(target: Running) -> None:
    with httpx.Client(base_url=target.url) as client:
        for start, end in (("[", "]"), ('{"must":[', "]}"), ('{"a":', "}")):
            for depth in (30, 5_000):
                inner = start * depth + "1" + end * depth
                body = (
                    f'{{"filter":{inner}}}'
                    if "must" in start
                    else f'{{"points":[{{"id":1,"vector":[1,2,3,4],"payload":{{"a":{inner}}}}}]}}'
                )
                method, path = ("POST", "points/count") if "must" in start else ("PUT", "points")
                answer = client.request(method, f"/collections/c/{path}", content=body)
                assert answer.status_code in (200, 400, 422), answer.text
        assert client.get("/livez").status_code == 200


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_half_open_and_reset_connections_leak_nothing(target: Running) -> None:
    with httpx.Client(base_url=target.url) as client:
        client.get("/livez")
        before, threads = descriptors(), threading.active_count()
        for i in range(150):
            connection = socket.create_connection(("127.0.0.1", target.port), timeout=20)
            if i % 3:
                connection.sendall(
                    b"POST /collections/c/points/query HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n{"
                )
            if i % 2:
                connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )  # closes with a reset
            connection.close()
        for _ in range(500):
            if descriptors() <= before + 3:
                break
            client.get("/livez")
        assert descriptors() <= before + 3
        assert threading.active_count() <= threads + 2


def test_many_requests_leak_no_descriptors_or_threads(target: Running) -> None:
    with httpx.Client(base_url=target.url) as client:

        def some() -> None:
            for i in range(200):
                client.post("/collections/c/points/query", json={"query": X[i % 50].tolist(), "limit": 2})
                client.post("/collections/c/points/query", json={"query": [1]})

        some()
        before = descriptors(), threading.active_count()
        some()
        assert descriptors() <= before[0] + 1
        assert threading.active_count() <= before[1]


def test_requests_that_fit_the_description_of_the_api(target: Running, tmp_path: Path) -> None:
    pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    httpx.put(f"{target.url}/collections/s", json=CREATE)
    httpx.put(f"{target.url}/collections/s/points", json={"points": [{"id": 1, "vector": X[0].tolist()}]})
    api = httpx.get(f"{target.url}/openapi.json").json()
    for item in api["paths"].values():
        item.pop("delete", None)
        for operation in item.values():
            for parameter in operation.get("parameters", []):
                if parameter["name"] == "name":
                    parameter["schema"] = {"enum": ["s"]}
    api["paths"] = {path: item for path, item in api["paths"].items() if item and "{call}" not in path}
    (tmp_path / "api.json").write_text(json.dumps(api))
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(tmp_path / "api.json"), "--url", target.url]
    command += ["--seed", "1", "--max-examples", "4", "--phases", "fuzzing", "--no-color"]
    done = subprocess.run([*command, "--checks", "not_a_server_error"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert httpx.get(f"{target.url}/livez").status_code == 200


def test_kills_lose_no_acknowledged_point(tmp_path: Path) -> None:
    """``make serve-faults`` does this 200 times."""
    chaos = Chaos(tmp_path, seed=3)
    for _ in range(4):
        chaos.round()
    chaos.end()
    assert chaos.acknowledged > 0
    assert chaos.wrong == []


def test_the_end_of_a_server_is_a_signal(tmp_path: Path) -> None:
    """A kill is really one: the process has no time to do anything."""
    chaos = Chaos(tmp_path, seed=5)
    process = chaos.start()
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert np.isfinite(chaos.acknowledged)
