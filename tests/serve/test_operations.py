"""Limits, errors, logs, metrics, health, shutdown, two servers, damaged stores, a full disk."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from serve_helpers import Running, running, vectors

import interlace as il
from interlace.errors import DamagedFileError, StoreError, StoreLockedError
from interlace.serve import ServerSettings
from interlace.serve.run import JsonLines
from interlace.store import Snapshot

X = vectors(40, 4)
CREATE = {"vectors": {"size": 4, "distance": "Euclid"}}
LIMITS = {"body_bytes": 20_000, "batch": 50, "k": 30, "filter_terms": 5, "read_seconds": 0.5}


def fill(client: httpx.Client, name: str, n: int = 40) -> None:
    assert client.put(f"/collections/{name}", json=CREATE).status_code == 200
    points = [{"id": i, "vector": X[i].tolist(), "payload": {"n": i}} for i in range(n)]
    assert client.put(f"/collections/{name}/points", json={"points": points}).status_code == 200


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("limited"), limits=LIMITS) as found:
        with httpx.Client(base_url=found.url) as client:
            fill(client, "c")
        yield found


@pytest.fixture
def client(limited: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=limited.url) as found:
        yield found


V = X[0].tolist()


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "limit"),
    [
        ("POST", "/points/query", {"query": V, "limit": 31}, 422, "k"),
        ("POST", "/points/query", {"query": V, "limit": 20, "offset": 20}, 422, "k"),
        ("POST", "/points/query", {"limit": 20, "offset": 20}, 422, "k"),
        ("POST", "/points/query/batch", {"searches": [{"query": V}] * 51}, 422, "batch"),
        ("PUT", "/points", {"points": [{"id": i, "vector": V} for i in range(51)]}, 422, "batch"),
        ("POST", "/points", {"ids": list(range(51))}, 422, "batch"),
        ("POST", "/points/delete", {"points": list(range(51))}, 422, "batch"),
        ("POST", "/points/scroll", {"limit": 51}, 422, "batch"),
        ("POST", "/points/count", {"filter": {"must": [{"has_id": [1]}] * 6}}, 422, "filter_terms"),
        ("PUT", "/points", {"points": [{"id": 1, "vector": V, "payload": {"t": "x" * 30_000}}]}, 413, "body_bytes"),
    ],
)
def test_limits_are_named(client: httpx.Client, method: str, path: str, body: Any, status: int, limit: str) -> None:
    answer = client.request(method, "/collections/c" + path, json=body)
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["limit"]) == (status, "limit", limit)
    assert str(LIMITS[limit]) in problem["detail"]
    assert client.post("/collections/c/points/count", json={}).json()["result"]["count"] == 40


def test_a_body_that_grows_beyond_the_limit_is_refused(limited: Running) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b"x" * 1000

    answer = httpx.put(f"{limited.url}/collections/c/points", content=endless())
    assert answer.status_code == 413
    assert answer.json()["limit"] == "body_bytes"


def test_slow_bodies_and_headers_are_given_up(limited: Running) -> None:
    with socket.create_connection(("127.0.0.1", limited.port), timeout=20) as slow:
        slow.sendall(b"POST /collections/c/points/count HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        answer = slow.recv(65536).decode()
        assert answer.startswith("HTTP/1.1 408 ")
        assert json.loads(answer.partition("\r\n\r\n")[2])["limit"] == "read_seconds"
    for start in (b"", b"GET /collec", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "):
        with socket.create_connection(("127.0.0.1", limited.port), timeout=20) as slow:
            slow.sendall(start)
            assert ended(slow)
    with socket.create_connection(("127.0.0.1", limited.port), timeout=20) as large:
        large.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 400_000)
        assert large.recv(65536).startswith(b"HTTP/1.1 4")


def ended(connection: socket.socket) -> bool:
    """Whether the server closes the connection without an answer."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_too_many_requests_at_once_are_refused(tmp_path: Path) -> None:
    with running(tmp_path, limits={"concurrent": 1, "read_seconds": 20.0}) as found:
        with socket.create_connection(("127.0.0.1", found.port), timeout=20) as waiting:
            waiting.sendall(
                b"POST /collections/c/points/count HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n"
            )
            answer = httpx.get(f"{found.url}/collections")
            while answer.status_code == 200:  # the request before it may not have been read yet
                answer = httpx.get(f"{found.url}/collections")
            assert (answer.status_code, answer.json()["limit"]) == (429, "concurrent")
            assert answer.headers["retry-after"] == "1"
            waiting.sendall(b"{}")
            assert waiting.recv(65536).startswith(b"HTTP/1.1 404")
        assert httpx.get(f"{found.url}/collections").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "code", "part"),
    [
        ("GET", "/nothing", None, 404, "unknown_path", "/nothing"),
        ("GET", "/collections/none", None, 404, "unknown_collection", "'none'"),
        ("DELETE", "/collections", None, 405, "method", "DELETE"),
        ("POST", "/collections/c/points/query", b"{", 400, "json", "not valid JSON"),
        ("POST", "/collections/c/points/query", b"\xff\xfe", 400, "json", "not valid JSON"),
        ("POST", "/collections/c/points/query", b"[]", 400, "input", "object"),
        ("POST", "/collections/c/points/query", b'{"quary": [1]}', 400, "input", "quary: Extra inputs"),
        ("POST", "/collections/c/points/query", b'{"query": [1, 2]}', 400, "input", "must have 4 dimensions"),
        ("POST", "/collections/c/points/query", b'{"query": [1, 2, 3, "x"]}', 400, "input", "query"),
        ("POST", "/collections/c/points/query", b'{"query": [1, 2, 3, 1e60]}', 400, "input", "query|inf|finite"),
        ("POST", "/collections/c/points/query", b'{"query": 777}', 404, "unknown_id", "777"),
        (
            "POST",
            "/collections/c/points/query",
            b'{"query": [1,2,3,4], "params": {"margin": 7}}',
            400,
            "input",
            "margin",
        ),
        ("POST", "/collections/c/points/query", b'{"query": [1,2,3,4], "limit": 0}', 422, "input", "limit"),
        ("POST", "/collections/c/points/query", b'{"query": [1,2,3,4], "filter": []}', 400, "input", "filter"),
        (
            "POST",
            "/collections/c/points/query",
            b'{"query": [1,2,3,4], "filter": {"musst": []}}',
            400,
            "input",
            "musst",
        ),
        ("PUT", "/collections/c/points", b'{"points": [{"id": 1, "vector": [1, 2]}]}', 400, "input", "4 dimensions"),
        ("PUT", "/collections/c/points", b'{"points": [{"id": -1, "vector": [1,2,3,4]}]}', 400, "input", "id"),
        ("PUT", "/collections/c/points", b'{"points": [{"id": true, "vector": [1,2,3,4]}]}', 400, "input", "id"),
        ("PUT", "/collections/c/points", b'{"points": [{"id": "a", "vector": [1,2,3,4]}]}', 400, "input", "int64 ids"),
        (
            "PUT",
            "/collections/c/points",
            b'{"points": [{"id": 7, "vector": [1,2,3,4]}, {"id": 7, "vector": [1,2,3,4]}]}',
            409,
            "duplicate_id",
            "both 7",
        ),
        ("PUT", "/collections/c/points", b"{}", 400, "input", "either points or batch"),
        ("PUT", "/collections/new", b'{"vectors": {"size": 0, "distance": "Dot"}}', 400, "input", "size"),
        ("PUT", "/collections/new", b'{"vectors": {"size": 4, "distance": "Dotty"}}', 400, "input", "Dotty"),
        ("GET", "/collections/c/points/41", None, 404, "unknown_id", "41"),
        ("GET", "/collections/c/points/x", None, 404, "unknown_id", "x"),
        ("DELETE", "/collections/c/index/n", None, 404, "unknown_field", "'n'"),
    ],
)
def test_errors_have_one_shape(
    client: httpx.Client, method: str, path: str, content: bytes | None, status: int, code: str, part: str
) -> None:
    answer = client.request(method, path, content=content, headers={"x-request-id": "mine-1"})
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), problem
    assert answer.headers["content-type"] == "application/json"
    assert problem["status"] == {"error": problem["detail"]}  # what Qdrant's clients show
    assert problem["time"] > 0
    assert any(each in problem["detail"] for each in part.split("|")), problem
    assert problem.keys() == {"status", "time", "code", "detail", "request_id"}
    assert problem["request_id"] == answer.headers["x-request-id"] == "mine-1"
    assert client.post("/collections/c/points/count", json={}).json()["result"]["count"] == 40


def test_another_media_type_is_refused(client: httpx.Client) -> None:
    answer = client.post("/collections/c/points/count", content="a=b", headers={"content-type": "text/plain"})
    assert (answer.status_code, answer.json()["code"]) == (415, "media_type")


def test_unexpected_errors_tell_nothing(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the inside of the server")

    monkeypatch.setattr("interlace.serve.collections.collection.Collection.count", broken)
    answer = client.post("/collections/c/points/count", json={})
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "inside" not in answer.text
    (logged,) = [r for r in caplog.records if r.exc_info]
    line = json.loads(JsonLines().format(logged))
    assert line["request_id"] == answer.headers["x-request-id"]
    assert "the inside of the server" in line["error"]


def test_requests_are_logged_and_counted(client: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "interlace.serve.access")
    assert client.post("/collections/c/points/query", json={"query": V, "limit": 3}).status_code == 200
    text = client.get("/metrics").text
    line = json.loads(JsonLines().format(next(r for r in caplog.records if r.name == "interlace.serve.access")))
    assert {"time", "level", "request_id", "milliseconds", "bytes_in", "bytes_out"} <= line.keys()
    assert (line["method"], line["path"], line["status"]) == ("POST", "/collections/c/points/query", 200)
    values = dict(row.rsplit(" ", 1) for row in text.splitlines() if not row.startswith("#"))
    assert (
        float(values['interlace_requests_total{method="POST",route="/collections/{name}/points/query",status="200"}'])
        >= 1
    )
    assert float(values['interlace_request_seconds_count{route="/collections/{name}/points/query"}']) >= 1
    assert float(values['interlace_collection_rows{collection="c"}']) == 40
    assert float(values['interlace_collection_bytes{collection="c"}']) > 0
    assert float(values['interlace_collection_up{collection="c"}']) == 1
    assert float(values['interlace_queries_total{collection="c"}']) >= 1
    assert {"interlace_rows_scanned_total", "interlace_rows_survived_total"} <= {v.partition("{")[0] for v in values}
    assert "interlace_queue" in values


def test_labels_of_metrics_do_not_grow_with_paths(client: httpx.Client) -> None:
    for i in range(5):
        client.get(f"/unknown-{i}")
    assert "unknown-" not in client.get("/metrics").text


def test_the_api_describes_itself_without_another_host(client: httpx.Client) -> None:
    answer = client.get("/docs")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    page = answer.text
    assert "/collections/{name}/points/query" in page
    assert "http" not in page.replace("openapi.json", "").replace("HTTP", "")
    api = client.get("/openapi.json").json()
    assert api["paths"]["/collections/{name}/points"]["put"]["requestBody"]["content"]["application/json"][
        "schema"
    ] == {"$ref": "#/components/schemas/Upsert"}
    assert {"Upsert", "Query", "Point"} <= api["components"]["schemas"].keys()


def test_health_routes(client: httpx.Client) -> None:
    assert [client.get(path).status_code for path in ("/healthz", "/livez", "/readyz")] == [200] * 3
    assert client.get("/").json().keys() == {"title", "version", "interlace"}


def test_readiness_waits_for_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from interlace.serve.collections.catalog import Catalog

    opened, go = Catalog.open_all, threading.Event()

    def slowly(self: Catalog) -> None:
        go.wait(20)
        opened(self)

    monkeypatch.setattr(Catalog, "open_all", slowly)
    il.create(tmp_path / "c", dim=4).close()
    with running(tmp_path, ready=False) as found:
        assert httpx.get(f"{found.url}/livez").status_code == 200
        for path in ("/readyz", "/collections/c"):
            answer = httpx.get(found.url + path)
            assert (answer.status_code, answer.json()["code"]) == (503, "starting")
        go.set()
        while httpx.get(f"{found.url}/readyz").status_code != 200:
            time.sleep(0.01)
        assert httpx.get(f"{found.url}/collections/c").status_code == 200


def test_one_directory_has_one_server(tmp_path: Path) -> None:
    from interlace.serve.app import writing_service

    with running(tmp_path), pytest.raises(StoreLockedError, match="is being served by another process"):
        writing_service(ServerSettings(str(tmp_path)))
    with running(tmp_path) as found:
        assert httpx.get(f"{found.url}/collections").status_code == 200


def test_a_damaged_store_does_not_take_the_others_down(tmp_path: Path) -> None:
    with running(tmp_path) as found, httpx.Client(base_url=found.url) as client:
        for name in ("good", "bad", "cut"):
            fill(client, name)
    manifest = tmp_path / "bad" / "MANIFEST.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"generation":', b'"generatiom":'))
    (tmp_path / "not-a-store").mkdir()
    (tmp_path / "file").write_text("x")
    with running(tmp_path) as found, httpx.Client(base_url=found.url) as client:
        while client.get("/readyz").status_code != 200:
            time.sleep(0.01)
        names = [c["name"] for c in client.get("/collections").json()["result"]["collections"]]
        assert names == ["bad", "cut", "good"]
        assert client.post("/collections/good/points/query", json={"query": V}).status_code == 200
        state = client.get("/collections/bad").json()["result"]
        assert state["status"] == "red"
        assert "damaged" in state["optimizer_status"]["error"]
        answer = client.post("/collections/bad/points/query", json={"query": V})
        assert (answer.status_code, answer.json()["code"]) == (503, "damaged")
        for text in (answer.text, state["optimizer_status"]["error"]):  # the file, not where it is
            assert "'MANIFEST.json'" in text
            assert str(tmp_path) not in text
        assert 'interlace_collection_up{collection="bad"} 0.0' in client.get("/metrics").text
        assert client.delete("/collections/bad").json()["result"] is True
        assert client.get("/collections/bad").status_code == 404


def test_damage_that_a_request_finds_is_told_without_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: Any, **__: Any) -> None:
        raise DamagedFileError(f"{str(tmp_path / 'c' / 'segment-1.interlace')!r} is damaged: it is 'short'")

    with running(tmp_path) as found, httpx.Client(base_url=found.url) as client:
        fill(client, "c")
        monkeypatch.setattr(Snapshot, "search", damaged)
        answer = client.post("/collections/c/points/query", json={"query": V})
        expected = "'segment-1.interlace' is damaged: it is 'short'"
        assert (answer.status_code, answer.json()["detail"]) == (500, expected)
        assert client.get("/collections/c").json()["result"]["optimizer_status"]["error"] == expected


def test_a_full_disk_refuses_writes_and_searches_go_on(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise StoreError(errno.ENOSPC, "a write failed and is not part of the store (No space left on device)", "/x")

    monkeypatch.setattr(il.Store, "upsert", full)
    answer = client.put("/collections/c/points", json={"points": [{"id": 99, "vector": V}]})
    assert (answer.status_code, answer.json()["code"]) == (507, "full")
    assert client.post("/collections/c/points/query", json={"query": V}).status_code == 200


def test_tls(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes the certificate of this test, is not installed")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(tmp_path / "k"), "-out", str(tmp_path / "c")]
    subprocess.run(command, check=True, capture_output=True)
    from interlace.serve.run import Tls

    (tmp_path / "stores").mkdir()
    with running(tmp_path / "stores", ready=False, tls=Tls(str(tmp_path / "c"), str(tmp_path / "k"))) as found:
        url = found.url.replace("http://", "https://")
        with il.connect(url, "some-key-1", context=ssl.create_default_context(cafile=str(tmp_path / "c"))) as server:
            server.create("c", dim=4).add(X)
            assert server["c"].search(X[3], k=1).ids.tolist() == [3]
        with pytest.raises(StoreError, match="certificate"):
            il.connect(url).names()
        with pytest.raises(StoreError, match="did not answer"):
            il.connect(found.url, timeout=5).names()


def test_the_command_names_a_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from interlace import cli

    monkeypatch.delitem(sys.modules, "interlace.serve.run", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert cli.main(["serve", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "the server needs uvicorn, which is not installed: pip install 'interlace[serve]'" in error


def start(folder: Path, *more: str, **environment: str) -> subprocess.Popen[str]:
    """The command, once it listens; its port is in the log."""
    command = [sys.executable, "-m", "interlace", "serve", str(folder), "--port", "0", *more]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})


def port_of(process: subprocess.Popen[str]) -> int:
    assert process.stderr is not None
    for line in process.stderr:
        if "Uvicorn running on" in line:
            return int(line.partition("http://127.0.0.1:")[2].partition(" ")[0].strip('",'))
    raise AssertionError("the server ended")


def test_the_command_serves_and_finishes_writes_when_it_is_told_to_end(tmp_path: Path) -> None:
    process = start(tmp_path, INTERLACE_API_KEY="some-long-key")
    url = f"http://127.0.0.1:{port_of(process)}"
    drained = threading.Thread(target=process.stderr.read)  # type: ignore[union-attr]
    drained.start()
    with httpx.Client(base_url=url, headers={"api-key": "some-long-key"}) as client:
        assert client.put("/collections/c", json=CREATE).status_code == 200
        acknowledged, stopped = [], threading.Event()

        def write() -> None:
            for i in range(10_000):
                try:
                    answer = client.put("/collections/c/points", json={"points": [{"id": i, "vector": V}]})
                except httpx.TransportError:
                    break
                if answer.status_code == 200:
                    acknowledged.append(i)
                if i == 20:
                    stopped.set()

        writer = threading.Thread(target=write)
        writer.start()
        stopped.wait()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)
        writer.join()
    drained.join()
    process.stderr.close()  # type: ignore[union-attr]
    with il.open(tmp_path / "c") as store:
        assert set(acknowledged) <= set(store.ids.tolist())
        assert len(acknowledged) > 20


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--host", "0.0.0.0"], "without an API key the server listens on the loopback interface alone"),
        (["--limit", "kk=3"], "--limit takes NAME=VALUE with one of the names body_bytes, batch, k"),
        (["--limit", "k=x"], "--limit k must be a number, got 'x'"),
        (["--limit", "k=0"], "the limit k must be positive"),
        (["--tls-cert", "x"], "--tls-cert and --tls-key belong together"),
        (["--api-key-file", "missing"], "missing"),
        (["--port", "70000"], "port must be between 0 and 65535"),
    ],
)
def test_the_command_refuses_what_does_not_fit(
    tmp_path: Path, more: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from interlace import cli

    assert cli.main(["serve", str(tmp_path), *more]) == 1
    assert message in capsys.readouterr().err
    assert cli.main(["serve", str(tmp_path / "none")]) == 1
    assert "is not a directory" in capsys.readouterr().err
