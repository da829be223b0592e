"""Clients that go away, collections and snapshots that are deleted, and stores that belong to somebody else."""

from __future__ import annotations

import errno
import gc
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from serve_helpers import Running, running, vectors

import interlace as il
from interlace.client import wire
from interlace.serve import ServerSettings
from interlace.serve.collections.catalog import SNAPSHOTS
from interlace.serve.collections.collection import Collection
from interlace.serve.processes.reading import ReadCatalog

X = vectors(60, 4)
CREATE = {"vectors": {"size": 4, "distance": "Euclid"}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("lifecycle"), limits={"batch": 100}) as found:
        yield found


@pytest.fixture
def client(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as found:
        yield found


def fill(client: httpx.Client, name: str) -> None:
    assert client.put(f"/collections/{name}", json=CREATE).status_code == 200
    points = [{"id": i, "vector": X[i].tolist(), "payload": {"n": i}} for i in range(60)]
    assert client.put(f"/collections/{name}/points", json={"points": points}).status_code == 200


def test_a_client_that_goes_away_is_no_error_of_the_server(
    server: Running, client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "interlace.serve.access")
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as half:
        half.sendall(b"PUT /collections/half HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
    logged = list[Any]()
    while not logged:  # the server needs a moment to see it
        client.get("/livez")
        logged = [
            r.fields["status"] for r in caplog.records if getattr(r, "fields", {}).get("path", "").endswith("half")
        ]
    assert logged == [499]
    assert not [record for record in caplog.records if record.exc_info]


def test_a_deleted_collection_is_forgotten(client: httpx.Client) -> None:
    """Its files are mapped, and would take space on the disk until the server ends."""

    def held() -> list[Collection]:
        # Not isinstance(), which asks proxies of other libraries for their class.
        return [found for found in gc.get_objects() if type(found) is Collection and found.name == "gone"]

    fill(client, "gone")
    for i in range(3):  # on the express path
        assert client.post("/collections/gone/points/query", json={"query": X[i].tolist()}).status_code == 200
    assert len(held()) == 1
    assert client.delete("/collections/gone").json()["result"] is True
    gc.collect()
    assert held() == []


@dataclass
class Written:
    value: int = 0


def test_readers_let_go_of_deleted_collections(tmp_path: Path) -> None:
    with il.create(tmp_path / "c", dim=4) as store:
        store.add(X)
        store.compact()
    catalog = ReadCatalog(ServerSettings(str(tmp_path)), Written())
    catalog.open_all()
    assert catalog.known("c") is not None
    catalog.forget_deleted()
    assert catalog.known("c") is not None
    os.rename(tmp_path / "c", tmp_path / ".deleted-c")
    catalog.forget_deleted()
    assert catalog.names == []
    catalog.close()


def test_a_store_of_another_writer_is_not_deleted(tmp_path: Path) -> None:
    with il.create(tmp_path / "held", dim=4) as other:
        other.add(X[:5])
        with running(tmp_path) as found, httpx.Client(base_url=found.url) as client:
            assert client.get("/collections/held").json()["result"]["status"] == "red"
            answer = client.delete("/collections/held")
            assert (answer.status_code, answer.json()["code"]) == (503, "locked")
            other.add(X[5:6])
            assert client.get("/collections/held").json()["result"]["status"] == "red"
            other.close()
            assert client.delete("/collections/held").json()["result"] is True
            assert client.get("/collections/held").status_code == 404
    assert not (tmp_path / "held").exists()


def test_a_snapshot_is_deleted_once(client: httpx.Client, server: Running) -> None:
    fill(client, "twice")
    name = client.post("/collections/twice/snapshots").json()["result"]["name"]
    begin, statuses = threading.Barrier(4), list[int]()

    def delete() -> None:
        begin.wait(20)
        statuses.append(httpx.delete(f"{server.url}/collections/twice/snapshots/{name}", timeout=60).status_code)

    threads = [threading.Thread(target=delete) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 404, 404, 404]
    assert client.get("/collections/twice/snapshots").json()["result"] == []


def test_snapshots_are_listed_off_the_event_loop(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(client, "listed")
    made = client.post("/collections/listed/snapshots").json()["result"]
    threads = list[str]()
    from interlace.serve.routes import snapshots

    described = snapshots._described

    def noted(path: Path) -> Any:
        threads.append(threading.current_thread().name)
        return described(path)

    monkeypatch.setattr(snapshots, "_described", noted)
    assert client.get("/collections/listed/snapshots").json()["result"] == [made]
    assert len(made["checksum"]) == 64
    assert threads
    assert all(name.startswith("search") for name in threads)


def test_a_snapshot_that_nobody_waits_for_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go, sync, url = threading.Event(), os.fsync, "/collections/c/snapshots"
    folder = tmp_path / SNAPSHOTS / "c"
    with running(tmp_path) as found, httpx.Client(base_url=found.url) as client:
        fill(client, "c")
        with monkeypatch.context() as patched:
            patched.setattr("interlace.serve.routes.snapshots.os.fsync", lambda file: (go.wait(60), sync(file)))
            answer = client.post(url, params={"wait": "false"})
            assert answer.status_code == 202
            assert answer.json().keys() == {"status", "time"}
            assert answer.json()["status"] == "accepted"
            assert client.get(url).json()["result"] == []  # it waits for the disk
            go.set()
            while not (made := client.get(url).json()["result"]):
                time.sleep(0.01)
        answer = client.delete(f"{url}/{made[0]['name']}", params={"wait": "false"})
        assert (answer.status_code, answer.json()["status"]) == (202, "accepted")
        while client.get(url).json()["result"]:
            time.sleep(0.01)
        assert client.delete(f"{url}/{made[0]['name']}", params={"wait": "false"}).status_code == 404
        assert client.post("/collections/none/snapshots", params={"wait": "false"}).status_code == 404
        assert client.post(url, params={"wait": "false"}).status_code == 202
    assert len(list(folder.glob("*.tar"))) == 1  # the server ends after what it has accepted


def test_a_snapshot_that_was_accepted_and_fails_is_logged(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fill(client, "late")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("interlace.serve.routes.snapshots.os.fsync", full)
        assert client.post("/collections/late/snapshots", params={"wait": "false"}).status_code == 202
        while not any("No space left" in record.getMessage() for record in caplog.records):
            time.sleep(0.01)
    assert client.get("/collections/late/snapshots").json()["result"] == []
    assert client.post("/collections/late/snapshots", params={"wait": "true"}).status_code == 200


def test_a_full_disk_refuses_a_snapshot(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(client, "full")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("interlace.serve.routes.snapshots.os.fsync", full)
        answer = client.post("/collections/full/snapshots")
    assert (answer.status_code, answer.json()["code"]) == (507, "full")
    assert client.get("/collections/full/snapshots").json()["result"] == []
    assert client.post("/collections/full/points/count", json={}).json()["result"]["count"] == 60


@pytest.mark.parametrize("call", ["get", "payload"])
def test_rows_of_one_request_are_limited(client: httpx.Client, call: str) -> None:
    """The same id many times would be an answer of any size."""
    name = f"many-{call}"
    fill(client, name)
    given = {"ids": None, "originals": True, "all": False, "columns": None}
    for n, status in ((100, 200), (101, 422)):
        body = wire.pack(given, {"ids": np.zeros(n, np.int64)})
        headers = {"content-type": wire.MEDIA_TYPE}
        answer = client.post(f"/collections/{name}/store/{call}", content=body, headers=headers)
        assert answer.status_code == status, answer.text
    assert answer.json()["limit"] == "batch"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:99999", "http://[::1", "http://h:x", "ftp://h", "", None, b"http://h"]
)
def test_urls_that_cannot_be_are_refused(url: Any) -> None:
    with pytest.raises(il.InputError, match="url must be like"):
        il.connect(url)


@pytest.mark.parametrize("key", ["a\nb", "Schlüssel", b"bytes", 5])
def test_keys_that_cannot_be_sent_are_refused(key: Any) -> None:
    with pytest.raises(il.InputError, match="api_key must be a string of printable ASCII"):
        il.connect("http://127.0.0.1:6333", key)


def test_an_answer_that_is_too_long_is_an_error(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    with il.connect(server.url) as remote:
        store = remote.create("long", dim=4)
        store.add(X)
        monkeypatch.setattr("interlace.client.transport.LARGEST", 200)
        with pytest.raises(il.StoreError, match="has more than 200 bytes"):
            store.get(np.arange(60))
        monkeypatch.undo()
        assert store.get(np.arange(60)).shape == (60, 4)  # the rest of it is no answer


@pytest.mark.parametrize("call", ["count", "delete"])
def test_a_request_to_a_collection_that_is_deleted_meanwhile(
    server: Running, client: httpx.Client, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The store that it has found is closed; for the client there is none."""
    name = f"meanwhile-{call}"
    fill(client, name)
    begun, go, function, answers = (
        threading.Event(),
        threading.Event(),
        getattr(Collection, call),
        list[httpx.Response](),
    )

    def slowly(self: Collection, given: Any) -> Any:
        if call == "count":
            begun.set()
            go.wait(20)
        return function(self, given)

    def blocking(self: Collection, given: Any) -> Any:
        begun.set()
        go.wait(20)
        return 0

    monkeypatch.setattr(Collection, call, slowly)
    monkeypatch.setattr(Collection, "put_rows", blocking)
    body = {} if call == "count" else {"points": [1]}

    def send() -> None:
        answers.append(httpx.post(f"{server.url}/collections/{name}/points/{call}", json=body, timeout=60))

    def remove() -> None:
        assert client.delete(f"/collections/{name}").status_code == 200

    threads = [threading.Thread(target=send)]
    if call == "count":
        threads[0].start()
        assert begun.wait(20)
        remove()  # it does not wait for readers
    else:  # one write runs, and behind it wait the deletion of the collection, and then that of a point
        point = {"points": [{"id": 99, "vector": X[0].tolist()}]}
        first = threading.Thread(target=lambda: httpx.put(f"{server.url}/collections/{name}/points", json=point))
        first.start()
        assert begun.wait(20)
        second = threading.Thread(target=remove)
        second.start()
        while "interlace_writes 2.0" not in client.get("/metrics").text:
            pass
        threads[0].start()
        while "interlace_writes 3.0" not in client.get("/metrics").text:
            pass
        threads += [first, second]
    go.set()
    for thread in threads:
        thread.join()
    assert (answers[0].status_code, answers[0].json()["code"]) == (404, "unknown_collection")


@pytest.mark.parametrize(
    ("call", "given", "arrays"),
    [
        ("search_by_id", {"ids": 1e308, "k": 3}, {}),
        ("search_by_id", {"ids": None, "k": 3}, {"ids": np.array(5)}),
        ("get", {"ids": float("nan"), "originals": True}, {}),
        ("payload", {"ids": [1], "all": False, "columns": 0}, {}),
        ("add", {"ids": None, "json": None, "effort": None, "embedded": False}, {"x": np.array(5.0)}),
        ("add", {"ids": None, "json": None, "effort": {"a": 1}, "embedded": False}, {"x": X[:2]}),
        ("upsert", {"ids": [1, 2], "json": 5, "effort": None, "embedded": False}, {"x": X[:2]}),
        ("drop_columns", {"names": True}, {}),
        ("relearn", {"settings": ["seed"]}, {}),
    ],
)
def test_arguments_of_another_form_are_refused(
    server: Running, client: httpx.Client, call: str, given: Any, arrays: Any
) -> None:
    if "forms" not in [each["name"] for each in client.get("/collections").json()["result"]["collections"]]:
        fill(client, "forms")
    headers = {"content-type": wire.MEDIA_TYPE}
    answer = client.post(f"/collections/forms/store/{call}", content=wire.pack(given, arrays), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "input")
    assert " must be " in answer.json()["detail"]
