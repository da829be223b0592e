"""A server of several processes: one writes, the others answer. Every process may end at any time."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from serve_helpers import vectors

import interlace as il
from interlace.errors import DuplicateIdError, InputError, UnknownIdError
from interlace.serve.processes.gathering import added

X = vectors(200, 8)
CLIENT = httpx.Client(timeout=200, limits=httpx.Limits(max_keepalive_connections=0))


@dataclass
class Served:
    """A server in processes of its own."""

    process: subprocess.Popen[str]
    url: str

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """With a connection of its own, so that any of the processes may answer."""
        return CLIENT.request(method, self.url + path, json=body, **more)

    def patient(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """The same until it is answered with success: a process may have to start again."""
        for _ in range(600):
            with contextlib.suppress(httpx.TransportError):
                if (found := self.ask(method, path, body)).status_code == 200:
                    return found
            time.sleep(0.05)
        raise AssertionError(f"no answer for {method} {path}")

    def children(self) -> dict[int, str]:
        """Processes by number, with their listening sockets: readers have the port."""
        found = {}
        for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
            with contextlib.suppress(OSError):
                found[int(pid)] = Path(f"/proc/{pid}/cmdline").read_text()
        return {pid: line for pid, line in found.items() if "spawn_main" in line}

    def writer(self) -> int:
        """The process that holds the lock of the directory."""
        for pid in self.children():
            for file in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.readlink(file).endswith(".interlace-serve.lock"):
                        return pid
        raise AssertionError("nobody writes")


@contextlib.contextmanager
def serving(folder: Path, *more: str) -> Iterator[Served]:
    command = [sys.executable, "-m", "interlace", "serve", str(folder), "--port", "0", "--workers", "2", *more]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    assert " on http://" in line, line + process.stderr.read()
    try:
        found = Served(process, line.partition(" on ")[2].split()[0])
        drained = threading.Thread(target=process.stderr.read)
        drained.start()
        found.patient("GET", "/readyz")
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        drained.join()
        process.stderr.close()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("workers")) as found:
        yield found


def create(served: Served, name: str, n: int = 0) -> None:
    assert served.ask("PUT", f"/collections/{name}", {"vectors": {"size": 8, "distance": "Euclid"}}).status_code == 200
    if n:
        points = [{"id": i, "vector": X[i].tolist(), "payload": {"n": i}} for i in range(n)]
        assert served.ask("PUT", f"/collections/{name}/points", {"points": points}).status_code == 200


def nearest(served: Served, name: str, query: Any, **more: Any) -> list[int]:
    answer = served.ask("POST", f"/collections/{name}/points/query", {"query": query, "limit": 1, **more})
    assert answer.status_code == 200, answer.text
    return [point["id"] for point in answer.json()["result"]["points"]]


@pytest.mark.parametrize("more", [{}, {"filter": {"must_not": [{"has_id": [10**6]}]}}], ids=["express", "routes"])
def test_every_process_sees_an_acknowledged_write(served: Served, more: dict[str, Any]) -> None:
    name = f"own-{len(more)}"
    create(served, name, 100)
    for i in range(30):
        point = 1000 + i
        vector = (X[i % 100] + 100 + i).tolist()
        served.ask("PUT", f"/collections/{name}/points", {"points": [{"id": point, "vector": vector}]})
        assert all(nearest(served, name, vector, **more) == [point] for _ in range(4))
        served.ask("POST", f"/collections/{name}/points/delete", {"points": [point]})
        assert all(nearest(served, name, vector, **more) != [point] for _ in range(4))
        assert served.ask("GET", f"/collections/{name}/points/{point}").status_code == 404
    counts = {served.ask("POST", f"/collections/{name}/points/count", {}).json()["result"]["count"] for _ in range(8)}
    assert counts == {100}


def test_a_collection_that_was_created_again_is_the_new_one(served: Served) -> None:
    for i in range(3):
        create(served, "again")
        point = {"id": i, "vector": X[i].tolist()}
        served.ask("PUT", "/collections/again/points", {"points": [point]})
        for filter in (None, {"must_not": [{"has_id": [99]}]}):
            assert all(nearest(served, "again", X[0].tolist(), filter=filter) == [i] for _ in range(6))
        assert served.ask("DELETE", "/collections/again").json()["result"] is True
        statuses = {served.ask("POST", "/collections/again/points/query", {"query": 1}).status_code for _ in range(8)}
        assert statuses == {404}


def test_aliases_batches_and_groups_are_those_of_one_process(served: Served) -> None:
    create(served, "first", 20)
    create(served, "second", 10)
    points = "/collections/first/points"
    served.ask("PUT", "/collections/first/index", {"field_name": "n", "field_schema": "integer"})
    for i in range(10):
        changes = [
            {"update_vectors": {"points": [{"id": 3, "vector": (X[3] + 50 + i).tolist()}]}},
            {"set_payload": {"payload": {"n": 100 + i}, "points": [3]}},
        ]
        assert served.ask("POST", f"{points}/batch", {"operations": changes}).status_code == 200
        query = {"query": (X[3] + 50 + i).tolist(), "group_by": "n", "limit": 1, "group_size": 2}
        found = [served.ask("POST", f"{points}/query/groups", query).json()["result"]["groups"] for _ in range(4)]
        assert [(group["id"], group["hits"][0]["id"]) for groups in found for group in groups] == [(100 + i, 3)] * 4
        target = ["first", "second"][i % 2]
        action = {"create_alias": {"collection_name": target, "alias_name": "live"}}
        assert served.ask("POST", "/collections/aliases", {"actions": [action]}).status_code == 200
        count = [served.ask("POST", "/collections/live/points/count", {}).json()["result"]["count"] for _ in range(4)]
        assert count == [20 if i % 2 == 0 else 10] * 4
        assert nearest(served, "live", X[7].tolist()) == [7]


def test_metrics_are_those_of_all_processes(served: Served) -> None:
    create(served, "counted", 50)

    def queries() -> float:
        text = served.ask("GET", "/metrics").text
        lines = [line for line in text.splitlines() if line.startswith('interlace_queries_total{collection="counted"}')]
        assert text.count("# TYPE interlace_requests_total") == 1
        return float(lines[0].split()[-1]) if lines else 0.0

    before = queries()
    for i in range(40):
        nearest(served, "counted", X[i].tolist())
    assert queries() == before + 40


def test_metrics_are_added() -> None:
    one = '# HELP a_total A\n# TYPE a_total counter\na_total{x="1 \\"q\\""} 2.0\n# HELP g G\n# TYPE g gauge\ng 1.0\n'
    two = '# HELP a_total A\n# TYPE a_total counter\na_total{x="1 \\"q\\""} 3.0\na_total{x="2"} 1.0\n'
    found = added([one, two]).decode()
    assert 'a_total{x="1 \\"q\\""} 5.0\n' in found
    assert 'a_total{x="2"} 1.0\n' in found
    assert "g 1.0\n" in found


def test_errors_and_limits_are_those_of_one_process(tmp_path: Path) -> None:
    with serving(tmp_path, "--limit", "body_bytes=5000") as served:
        create(served, "c", 20)
        bad = served.ask("PUT", "/collections/c/points", {"points": [{"id": 1, "vector": [1.0]}]})
        assert (bad.status_code, bad.json()["code"]) == (400, "input")
        assert bad.headers["x-request-id"] == bad.json()["request_id"]
        assert served.ask("PUT", "/collections/c/points", {"points": "x" * 6000}).json()["limit"] == "body_bytes"
        assert served.ask("POST", "/collections/none/points/query", {"query": 1}).json()["code"] == "unknown_collection"
        assert served.ask("GET", "/nothing").json()["code"] == "unknown_path"
        assert served.ask("POST", "/collections/c/snapshots").status_code == 200
        (snapshot,) = served.ask("GET", "/collections/c/snapshots").json()["result"]
        data = served.ask("GET", f"/collections/c/snapshots/{snapshot['name']}").content
        assert len(data) == snapshot["size"]
        assert served.ask("HEAD", "/collections/c").status_code == 405


def test_a_process_that_is_killed_is_replaced(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        create(served, "c", 100)
        children = set(served.children())
        assert len(children) == 3
        for _ in range(20):  # readers open a collection when they are first asked for it
            assert nearest(served, "c", X[3].tolist()) == [3]
            time.sleep(0.05)
        os.kill(served.writer(), signal.SIGKILL)
        for _ in range(8):  # readers do not need the writer
            assert nearest(served, "c", X[3].tolist()) == [3]
        points = {"points": [{"id": 500, "vector": (X[0] + 50).tolist()}]}
        served.patient("PUT", "/collections/c/points", points)
        assert all(nearest(served, "c", points["points"][0]["vector"]) == [500] for _ in range(6))
        for reader in set(served.children()) - {served.writer()}:
            os.kill(reader, signal.SIGKILL)
        answer = served.patient("POST", "/collections/c/points/query", {"query": X[3].tolist(), "limit": 1})
        assert answer.json()["result"]["points"][0]["id"] == 3
        assert not children & set(served.children())


def test_all_end_with_the_supervisor_and_another_may_begin(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        create(first, "c", 50)
        port, children = first.url.rpartition(":")[2], first.children()
        first.process.kill()
        first.process.wait()
        with serving(tmp_path, "--port", port) as second:
            assert nearest(second, "c", X[3].tolist()) == [3]
        for pid in children:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


def test_one_directory_and_one_port_have_one_server(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with serving(tmp_path) as served:
        port = served.url.rpartition(":")[2]
        command = [sys.executable, "-m", "interlace", "serve", "--workers", "1"]
        again = subprocess.run([*command, str(tmp_path), "--port", "0"], capture_output=True, text=True)
        assert again.returncode != 0
        assert "is being served by another process" in again.stderr
        assert "Traceback" not in again.stderr
        taken = subprocess.run([*command, str(tmp_path / "other"), "--port", port], capture_output=True, text=True)
        assert taken.returncode != 0
        assert "in use" in taken.stderr
        assert "Traceback" not in taken.stderr
        with socket.create_connection(("127.0.0.1", int(port))):  # the first one is still there
            pass


def test_a_key_is_needed_for_what_is_forwarded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLACE_API_KEY", "a-long-enough-key")
    monkeypatch.setenv("INTERLACE_READ_ONLY_API_KEY", "another-long-key")
    with serving(tmp_path) as served:
        body = {"vectors": {"size": 8, "distance": "Euclid"}}
        assert served.ask("PUT", "/collections/c", body).status_code == 401
        assert served.ask("PUT", "/collections/c", body, headers={"api-key": "another-long-key"}).status_code == 403
        assert served.ask("PUT", "/collections/c", body, headers={"api-key": "a-long-enough-key"}).status_code == 200
        assert served.ask("GET", "/metrics").status_code == 401
        assert served.ask("GET", "/metrics", headers={"api-key": "another-long-key"}).status_code == 200


def test_a_client_gets_the_same_exceptions_from_a_reader_and_from_the_writer(served: Served) -> None:
    """Searches are answered by the process that was asked, the other calls by the one that writes."""
    with il.connect(served.url) as server:
        remote = server.create("errors", dim=8)
        remote.add(X[:5])
        for call, kind, code, status in (
            (lambda: remote.search(X[0, :3]), InputError, "input", 400),
            (lambda: remote.search_by_id(77), UnknownIdError, "unknown_id", 404),
            (lambda: remote.get([77]), UnknownIdError, "unknown_id", 404),
            (lambda: remote.remove([77]), UnknownIdError, "unknown_id", 404),
            (lambda: remote.add(X[:1], [3]), DuplicateIdError, "duplicate_id", 409),
            (lambda: remote.add(X[:1, :3]), InputError, "input", 400),
            (lambda: server.open("none"), InputError, "unknown_collection", 404),
            (lambda: server.declare("errors", "n", "geo"), InputError, "unsupported", 422),
        ):
            for _ in range(3):  # another connection may reach another process
                with pytest.raises(kind) as caught:
                    call()
                assert type(caught.value) is kind, (code, status)
    for method, path, body, status, code in (
        ("POST", "/collections/errors/points/query", {"query": [1.0]}, 400, "input"),
        ("POST", "/collections/errors/points/query", {"query": 77}, 404, "unknown_id"),
        ("PUT", "/collections/errors/points", {"points": [{"id": 1, "vector": [1.0]}]}, 400, "input"),
        ("GET", "/collections/none", None, 404, "unknown_collection"),
        ("PUT", "/collections/x", {"vectors": {"size": 0, "distance": "Dot"}}, 400, "input"),
        ("POST", "/collections/errors/points/query", {"query": 1, "limit": 0}, 422, "input"),
    ):
        answer = served.ask(method, path, body)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (status, code), problem
        assert problem["status"] == {"error": problem["detail"]}
        assert problem["request_id"] == answer.headers["x-request-id"]
