"""``il.connect``: the calls of a store over HTTP give the same answers and the same errors as the store itself."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from serve_helpers import Running, running, vectors

import interlace as il
from interlace.client import wire
from interlace.errors import DuplicateIdError, InputError, InterlaceError, PartlyAddedError, StoreError, UnknownIdError

X = vectors(900, 16)
Q = vectors(30, 16, seed=5)
COLUMNS = {"n": "int64", "tag": "string"}


def payload(ids: Any) -> dict[str, Any]:
    return {"n": [int(i) * 2 for i in ids], "tag": ["ab"[int(i) % 2] for i in ids]}


def make(path: Path, strings: bool = False) -> il.Store:
    """A coded store with columns, originals and removed rows."""
    index = il.Index.build(X[:700], n_bytes=6, threads=1)
    store = il.create(path, index.codebooks, columns=COLUMNS, originals="float16")
    ids = [f"id{i}" for i in range(900)] if strings else np.arange(900)
    store.add(X, ids, payload=payload(range(900)))
    store.remove(ids[5:9])
    store.calibrate(X[:400])
    return store


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[il.Store, Any, Any]]:
    """The store itself, the store of a server, and the server."""
    folder = tmp_path_factory.mktemp("connect")
    for name, strings in (("ints", False), ("strings", True)):
        make(folder / name, strings).close()
    with running(folder) as found, il.connect(found.url) as server:
        local = {name: il.open(folder / name) for name in ("ints", "strings")}
        yield local, server, found


@pytest.fixture(params=["ints", "strings"])
def pair(both: Any, request: pytest.FixtureRequest) -> tuple[Any, Any]:
    local, server, _ = both
    return local[request.param], server[request.param]


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    for name in ("ids", "distances", "scores", "counts"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.ids.dtype, a.ids.shape, a.metric) == (b.ids.dtype, b.ids.shape, b.metric)
    costs = ("queries", "rows", "cells", "scanned", "survivors", "lookups", "margin", "reranked", "simd")
    assert [getattr(a.stats, c) for c in costs] == [getattr(b.stats, c) for c in costs]


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"k": 3},
        {"k": 5, "offset": 2, "margin": "exact"},
        {"margin": float("inf")},
        {"rerank": 40},
        {"filter": "n < 500 and tag == 'a'"},
        {"k": 20, "filter": "n < 20"},
        {"threads": 1},
    ],
    ids=str,
)
def test_searches_are_the_same(pair: tuple[Any, Any], how: dict[str, Any]) -> None:
    store, remote = pair
    same(store.search(Q, **how), remote.search(Q, **how))
    same(store.search(Q[0], **how), remote.search(Q[0], **how))
    ids = store.ids[[3, 20, 77]]
    same(store.search_by_id(ids, **how), remote.search_by_id(ids, **how))
    same(store.search_by_id(ids[0], **how), remote.search_by_id(ids[0], **how))


def test_filters_by_ids_and_masks_are_the_same(pair: tuple[Any, Any]) -> None:
    store, remote = pair
    mask = np.arange(len(store)) % 3 == 0
    for given in (mask, store.ids[mask], list(store.ids[:30])):
        same(store.search(Q, filter=given), remote.search(Q, filter=given))


def test_other_calls_are_the_same(pair: tuple[Any, Any]) -> None:
    store, remote = pair
    found, expected = remote.range_search(Q, 4.0), store.range_search(Q, 4.0)
    for name in ("offsets", "ids", "distances"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    ids = store.ids
    np.testing.assert_array_equal(remote.ids, ids)
    assert list(remote) == ids.tolist()
    assert remote.explain(Q[0], ids[50], 5) == store.explain(Q[0], ids[50], 5)
    np.testing.assert_array_equal(remote.get(ids[:4]), store.get(ids[:4]))
    np.testing.assert_array_equal(remote.get(ids[0], originals=True), store.get(ids[0], originals=True))
    assert remote.payload(ids[:5]).equals(store.payload(ids[:5]))
    assert remote.payload(columns="n").equals(store.payload(columns="n"))
    assert remote.columns.equals(store.columns)
    assert (len(remote), remote.dim, remote.metric, remote.originals) == (896, 16, "l2", "float16")
    assert remote.health() == store.health()
    assert remote.report() == store.report()
    assert ids[0] in remote
    assert 12345 not in remote
    assert None not in remote
    remote.verify()


BAD: dict[str, Any] = {
    "dimension": lambda s: s.search(np.zeros((2, 7))),
    "nan": lambda s: s.search(np.full(16, np.nan)),
    "too small": lambda s: s.search(X[7] * 1e-20),
    "small rows": lambda s: s.upsert(X[:2] * [[1], [1e-20]], [1, 2]),
    "k": lambda s: s.search(Q, k=0),
    "margin": lambda s: s.search(Q, margin="quick"),
    "filter": lambda s: s.search(Q, filter="price < 3"),
    "mask": lambda s: s.search(Q, filter=np.ones(3, bool)),
    "recall and rerank": lambda s: s.search(Q, recall=0.9, rerank=20),
    "get": lambda s: s.get([10**6]),
    "id": lambda s: s.search_by_id(10**6),
    "kind of id": lambda s: s.explain(Q[0], "nothing"),
    "column": lambda s: s.payload(columns=["price"]),
    "add twice": lambda s: s.add(X[:1], [0]),
    "remove": lambda s: s.remove([10**6]),
    "missing": lambda s: s.remove([0], missing="maybe"),
    "upsert": lambda s: s.upsert(X[:2], [1, 1]),
    "length": lambda s: s.upsert(X[:2], [1]),
    "payload": lambda s: s.upsert(X[:1], [1], payload={"price": [1]}),
    "payload type": lambda s: s.upsert(X[:1], [1], payload={"n": ["x"]}),
    "effort": lambda s: s.upsert(X[:1], [1], effort="enormous"),
    "relearn": lambda s: s.relearn(n_bytes=-1),
    "columns": lambda s: s.add_columns({"n": "int64"}),
    "drop": lambda s: s.drop_columns(["price"]),
}


@pytest.mark.parametrize("call", BAD.values(), ids=BAD)
def test_errors_are_the_same(both: Any, tmp_path: Path, call: Any) -> None:
    _, server, _ = both
    remote = server["ints"]
    before = len(remote)
    with make(tmp_path / "s") as own, pytest.raises(InterlaceError) as expected:
        call(own)
    with pytest.raises(InterlaceError) as found:
        call(remote)
    assert type(found.value) is type(expected.value)
    assert str(found.value) == str(expected.value)
    assert len(remote) == before


def test_writes_are_those_of_a_store(tmp_path: Path) -> None:
    with running(tmp_path) as found, il.connect(found.url) as server:
        remote = server.create("c", dim=16, metric="cosine", n_bytes=8, columns=COLUMNS)
        assert server.names() == ["c"]
        assert "c" in server
        np.testing.assert_array_equal(remote.add(X[:5], payload=payload(range(5))), np.arange(5))
        np.testing.assert_array_equal(remote.upsert(X[5], 2, payload={"n": 7, "tag": "x"}), [2])
        assert remote.payload([2]).to_pylist() == [{"n": 7, "tag": "x"}]
        np.testing.assert_array_equal(remote.add(X[i : i + 10] for i in (10, 20)), np.arange(5, 25))
        with pytest.raises(PartlyAddedError, match="block 1 of x") as partly:
            remote.add(iter([X[:3], X[:3, :4]]))
        assert partly.value.added == 3
        assert remote.remove([0, 1, 999], missing="ignore") == 2
        with pytest.raises(UnknownIdError):
            remote.remove([0])
        with pytest.raises(DuplicateIdError):
            remote.add(X[:1], [5])
        remote.add_columns({"more": "float32"})
        assert remote.columns.names == ["n", "tag", "more"]
        remote.drop_columns("more")
        remote.compact()
        rows = len(remote)
        assert server.delete("c")
        with pytest.raises(InputError, match="no collection 'c'"):
            server.open("c")
        assert rows == 26
    with pytest.raises(StoreError, match="closed|did not answer"):
        remote.search(Q)


@pytest.mark.parametrize("column", ["id", "name"])
def test_ids_of_tables(tmp_path: Path, column: str) -> None:
    pa = pytest.importorskip("pyarrow")
    words, vectors = [f"w{i}" for i in range(9)], pa.FixedSizeListArray.from_arrays(pa.array(X[:9].ravel()), 16)
    table, named = pa.table({column: words, "v": vectors}), None if column == "id" else column
    with running(tmp_path) as found, il.connect(found.url) as server:
        remote = server.create("c", dim=16)
        assert remote.add(table.slice(0, 5), named).tolist() == words[:5]
        assert remote.add(iter(table.slice(5).to_batches(2)), named).tolist() == words[5:]
        assert remote.upsert(table, column).tolist() == words
        assert len(remote) == 9


def test_json_payloads_of_collections_of_the_server(tmp_path: Path) -> None:
    with running(tmp_path) as found, il.connect(found.url) as server:
        remote = server.create("c", dim=16)
        remote.add(X[:2], payload=[{"a": {"b": [1, 2]}, "n": 3}, {}])
        server.declare("c", "n", "integer")
        remote.upsert(X[3], 9, payload={"n": 4})
        assert remote.search(X[3], k=5, filter="n >= 3").counts == 2
        assert json.loads(remote.payload([0]).column("$payload")[0].as_py()) == {"a": {"b": [1, 2]}, "n": 3}
        with pytest.raises(InputError, match="declared as integer"):
            remote.add(X[:1], payload=[{"n": "x"}])
        with pytest.raises(InputError, match="is not dropped"):
            remote.drop_columns("$payload")


def test_coroutines_give_the_same(both: Any) -> None:
    local, server, _ = both

    async def run() -> None:
        async with server.open_async("ints", connections=8) as remote:
            found = await asyncio.gather(*(remote.search(q, k=4) for q in Q))
            for q, one in zip(Q, found, strict=True):
                same(local["ints"].search(q, k=4), one)
            assert await remote.count() == 896
            assert await remote.contains(3)
            np.testing.assert_array_equal(await remote.get([3, 4]), local["ints"].get([3, 4]))
            with pytest.raises(UnknownIdError):
                await remote.search_by_id(10**6)

    asyncio.run(run())


def test_many_threads_share_connections(both: Any) -> None:
    local, server, _ = both
    remote, expected, wrong = server["ints"], local["ints"].search(Q), list[int]()

    def ask() -> None:
        for i, q in enumerate(Q):
            if remote.search(q).ids.tolist() != expected.ids[i].tolist():
                wrong.append(i)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_keys_and_addresses(tmp_path: Path) -> None:
    for url in ("127.0.0.1:6333", "ftp://x", "http://", "http://a:b@localhost", "http://localhost?x=1"):
        with pytest.raises(InputError, match="url must"):
            il.connect(url)
    with running(tmp_path, keys={"full": "full-key-1", "read_only": "read-key-1"}) as found:
        il.connect(found.url, "full-key-1").create("c", dim=16).add(X[:3])
        reader = il.connect(found.url, api_key="read-key-1")["c"]
        assert len(reader) == 3
        for write in (lambda: reader.add(X[:1]), lambda: reader.remove([0]), reader.compact):
            with pytest.raises(StoreError, match="needs the full API key"):
                write()
        with pytest.raises(StoreError, match="401 unauthorized"):
            il.connect(found.url, "wrong-key")["c"]
    with pytest.raises(StoreError, match="did not answer"):
        il.connect("http://127.0.0.1:9", timeout=1).names()
    with pytest.warns(UserWarning, match="without encryption"):
        il.connect("http://example.org", "some-key-1")


def test_a_limit_of_the_server_is_an_input_error(tmp_path: Path) -> None:
    with running(tmp_path, limits={"batch": 20, "k": 50, "hits": 100}) as found, il.connect(found.url) as server:
        remote = server.create("c", dim=16)
        remote.add(X[:20])
        for call, limit in (
            (lambda: remote.add(X[:21]), "batch"),
            (lambda: remote.search(Q[:21]), "batch"),
            (lambda: remote.search(Q[0], k=51), "k"),
            (lambda: remote.search(Q[:3], k=40), "hits"),
            (lambda: remote.range_search(Q[:6], 1e9), "hits"),
        ):
            with pytest.raises(InputError, match=f"the limit {limit} is"):
                call()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x93NUMPY",
        wire.pack({}) + b"x",
        wire.pack({}, {"a": np.arange(3)})[:-1],
        wire.pack({}, {"a": np.arange(3)}).replace(b"(3,)", b"(9,)"),
        wire.pack({}, {"a": np.zeros(3)}).replace(b"(3,), }", b"(-3,),}"),
        wire.pack({}, {"a": np.zeros(3)}).replace(b"(3,), }", b"(3,,,, "),
        wire.pack({}).replace(b"|u1", b"|O1"),
        wire.pack({}).replace(b'"arrays": []', b'"arrays": 12'),
    ],
)
def test_bytes_that_are_no_arrays_are_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        wire.unpack(data)


def test_arrays_survive_the_wire() -> None:
    arrays = {
        "f": np.arange(6, dtype=np.float32).reshape(2, 3),
        "t": np.arange(6.0).reshape(2, 3).T,
        "b": np.array([True, False]),
        "empty": np.zeros((0, 4), np.float16),
        "scalar": np.array(3, np.uint8),
    }
    given, found = wire.unpack(wire.pack({"a": [1, None, "ü"]}, arrays))
    assert given == {"a": [1, None, "ü"]}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)


def test_a_server_that_is_something_else(served: Running) -> None:
    import http.server

    class Other(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *args: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        with pytest.raises(InputError, match="expected an interlace server"):
            il.connect(f"http://127.0.0.1:{other.server_address[1]}").open("c")
        other.shutdown()
        thread.join()
