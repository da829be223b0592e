"""Keys: without one nothing is readable, a read-only one changes nothing; paths and headers that try to get around."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from serve_helpers import Running, running, vectors

from interlace.client import wire
from interlace.errors import InputError
from interlace.serve import Keys, ServerSettings
from interlace.serve.routes.stored import WRITES

FULL, READ = "full-key-0123456789", "read-key-0123456789"
X = vectors(20, 4)


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("locked"), keys={"full": FULL, "read_only": READ}) as found:
        with httpx.Client(base_url=found.url, headers={"api-key": FULL}) as client:
            body = {"vectors": {"size": 4, "distance": "Euclid"}}
            assert client.put("/collections/c", json=body).status_code == 200
            points = [{"id": i, "vector": X[i].tolist(), "payload": {"n": i}} for i in range(20)]
            assert client.put("/collections/c/points", json={"points": points}).status_code == 200
        yield found


def routes(url: str) -> list[tuple[str, str]]:
    """Every route of the description of the API, with names filled in."""
    api = httpx.get(f"{url}/openapi.json", headers={"api-key": FULL}).json()
    found = [(method.upper(), path) for path, item in api["paths"].items() for method in item]
    assert len(found) > 20
    fill = {"name": "c", "id": "1", "field": "n", "snapshot": "s.tar", "call": "search"}
    return [(method, path.format(**fill)) for method, path in found]


OPEN = {"/", "/healthz", "/livez", "/readyz"}
#: Routes with the method POST that change nothing; every other one must refuse a read-only key.
READING = {
    "/collections/c/facet",
    *(f"/collections/c/insight/{view}" for view in ("funnel", "map")),
    "/collections/c/points",
    *(f"/collections/c/points/{call}" for call in ("count", "explain", "scroll")),
    *(f"/collections/c/points/query{more}" for more in ("", "/batch", "/groups")),
    "/collections/c/store/search",
}


@pytest.mark.parametrize("headers", [{}, {"api-key": "wrong"}, {"api-key": ""}, {"authorization": f"Basic {FULL}"}])
def test_without_a_key_nothing_is_readable(locked: Running, headers: dict[str, str]) -> None:
    for method, path in routes(locked.url):
        answer = httpx.request(method, locked.url + path, headers=headers)
        if path in OPEN:
            assert answer.status_code == 200
        else:
            assert answer.status_code == 401, (method, path)
            assert answer.headers["content-type"] == "application/json"
            assert answer.json()["code"] == "unauthorized"
    for path in (
        "/collections/c/points/../points/1",
        "//collections",
        "/collections/",
        "/COLLECTIONS",
        "/page/..%2fapp.py",
    ):
        answer = httpx.get(locked.url + path, headers=headers)
        assert answer.status_code in (400, 401, 404), path
        assert "0.1" not in answer.text


@pytest.mark.parametrize("header", ["api-key", "authorization"])
def test_a_read_only_key_reads_and_changes_nothing(locked: Running, header: str) -> None:
    headers = {header: READ if header == "api-key" else f"Bearer {READ}"}
    with httpx.Client(base_url=locked.url, headers=headers) as client:
        assert client.post("/collections/c/points/count", json={}).json()["result"]["count"] == 20
        found = client.post("/collections/c/points/query", json={"query": X[3].tolist(), "limit": 1}).json()
        assert found["result"]["points"][0]["id"] == 3
        before = state(locked)
        refused = 0
        for method, path in routes(locked.url):
            answer = client.request(method, path, json={})
            if method != "GET" and path not in READING:
                assert answer.status_code == 403, (method, path)
                assert answer.json()["code"] == "read_only"
                refused += 1
        assert refused >= 14
        assert client.post("/collections/c/points/count", json={}).json()["result"]["count"] == 20
        for call in WRITES:
            headers = {"content-type": wire.MEDIA_TYPE}
            answer = client.post(f"/collections/c/store/{call}", content=wire.pack({}), headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "read_only"), call
        chosen = {"points": [1], "payload": {"n": 7}, "keys": ["n"]}
        for path, keys in (
            ("payload", "points payload"),
            ("payload/delete", "points keys"),
            ("payload/clear", "points"),
        ):
            body = {key: chosen[key] for key in keys.split()}
            assert client.post(f"/collections/c/points/{path}", json=body).status_code == 403
        assert state(locked) == before


def state(locked: Running) -> list[Any]:
    """Everything that a request could have changed."""
    with httpx.Client(base_url=locked.url, headers={"api-key": FULL}) as client:
        points = client.post("/collections/c/points/scroll", json={"limit": 50, "with_vector": True})
        paths = ("/collections", "/collections/c/snapshots")
        schema = client.get("/collections/c").json()["result"]["payload_schema"]
        return [points.json()["result"], schema, *(client.get(path).json()["result"] for path in paths)]


def test_keys_do_not_appear_in_settings_answers_or_logs(locked: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    for headers in ({"api-key": FULL}, {"authorization": f"Bearer {FULL}"}, {"api-key": FULL + "x"}):
        answer = httpx.get(f"{locked.url}/collections", headers=headers)
        assert FULL not in answer.text + str(answer.headers)
    text = caplog.text + "".join(json.dumps(getattr(r, "fields", {})) for r in caplog.records)
    assert "request" in text
    assert FULL not in text
    settings = ServerSettings(str(locked.folder), keys=Keys(FULL, READ))
    assert FULL not in repr(settings)
    assert READ not in repr(settings)


def test_other_names_of_the_machine_are_accepted_if_they_are_listed(tmp_path: Path) -> None:
    with running(tmp_path, hosts=("search.example",)) as found:
        for host, status in (("search.example", 200), ("Search.Example:80", 200), ("other.example", 403)):
            assert httpx.get(f"{found.url}/collections", headers={"host": host}).status_code == status


def test_only_the_loopback_interface_is_served_without_a_key(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(InputError, match="without an API key the server listens on the loopback interface alone"):
            ServerSettings(str(tmp_path), host=host)
        ServerSettings(str(tmp_path), host=host, keys=Keys(FULL))
        ServerSettings(str(tmp_path), host=host, insecure=True)
    for host in ("127.0.0.1", "127.3.4.5", "::1", "localhost"):
        ServerSettings(str(tmp_path), host=host)


@pytest.mark.parametrize("key", ["", "short", "a key with spaces", "Schlüssel-mit-ü", "a\nb\nc\nd\ne\nf"])
def test_weak_and_unusable_keys_are_refused(key: str) -> None:
    with pytest.raises(InputError, match="at least 8 printable ASCII characters"):
        Keys(full=key)
    with pytest.raises(InputError, match="must differ"):
        Keys(full=FULL, read_only=FULL)


def raw(port: int, head: str, *, until_closed: bool) -> str:
    """The answer to a request that is sent as it is."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(head.encode("latin-1"))
        found = connection.recv(65536)
        while until_closed and (chunk := connection.recv(65536)):
            found += chunk
    return found.decode("latin-1")


@pytest.mark.parametrize(
    ("line", "headers", "status"),
    [
        ("GET /collections HTTP/1.1", "Host: evil.example", 403),  # a name that was bound to this address
        ("GET /collections HTTP/1.1", "Host: 127.0.0.1\r\nOrigin: http://evil.example", 403),
        ("GET /collections HTTP/1.1", "Host: 127.0.0.1\r\nOrigin: http://127.0.0.1", 200),
        ("GET /collections HTTP/1.1", "Host: localhost:1234", 200),
        ("GET /collections HTTP/1.1", "Host: [::1]:6333", 200),
        ("GET /collections/..%2f..%2fetc HTTP/1.1", "Host: localhost", 400),
        ("GET /collections/../../etc/passwd HTTP/1.1", "Host: localhost", 400),
        ("GET /page/../app.py HTTP/1.1", "Host: localhost", 400),
        ("GET /page/%2e%2e/app.py HTTP/1.1", "Host: localhost", 400),
        ("GET /collections/%2e%2e HTTP/1.1", "Host: localhost", 400),
        ("GET /collections/.%2E/points/1 HTTP/1.1", "Host: localhost", 400),
        ("DELETE /collections/%2e%2e HTTP/1.1", "Host: localhost", 400),
        ("PUT /collections/%2e HTTP/1.1", "Host: localhost\r\nContent-Length: 51", 422),
        ("GET /collections/%252e%252e HTTP/1.1", "Host: localhost", 404),  # a name, which is not decoded twice
        ("GET /page//etc/passwd HTTP/1.1", "Host: localhost", 404),
        ("GET /collections/a%00b HTTP/1.1", "Host: localhost", 400),
        ("PUT /collections/.. HTTP/1.1", "Host: localhost\r\nContent-Length: 0", 400),
        ("PUT /collections/.hidden HTTP/1.1", "Host: localhost\r\nContent-Length: 51", 422),
        ("PUT /collections/a.b HTTP/1.1", "Host: localhost\r\nContent-Length: 51", 422),
        ("NONSENSE /collections HTTP/1.1", "Host: localhost", 400),
        ("TRACE /collections HTTP/1.1", "Host: localhost", 405),
        ("GET /collections HTTP/1.1", "Host: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade", 200),
    ],
)
def test_tricks_with_paths_and_headers_are_refused(served: Running, line: str, headers: str, status: int) -> None:
    body = '{"vectors": {"size": 4, "distance": "Euclid"}}     ' if "51" in headers else ""
    upgrades = "Upgrade" in headers  # the connection stays open
    head = f"{line}\r\n{headers}\r\n" + "Connection: close\r\n" * (not upgrades)
    answer = raw(served.port, f"{head}\r\n{body}", until_closed=not upgrades)
    assert answer.split(" ", 2)[1] == str(status), answer
    assert "Traceback" not in answer
    assert "/etc" not in answer.partition("\r\n\r\n")[2].replace(line.split()[1], "")
    assert {path.name for path in served.folder.iterdir()} <= {".interlace-serve.lock"}
