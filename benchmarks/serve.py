"""Cost of the server: one query over HTTP, many clients with single queries, and upserts, each against the library.

    python benchmarks/serve.py [--quick] [--data sift300k] [--seconds 10]

Writes benchmarks/results/serve.json. Server and client are two processes on this machine, connected by the loopback
interface, so they share its cores: that is part of the result. The client sends prepared bytes over plain sockets, in
order to cost as little as possible. The library is measured in this process with the same store, the same queries and
the same settings. Bars: a single query has a median of at most twice the library call + 1 ms; 64 clients reach at least
60 % of the queries per second of the library with two threads; upserts of 1,000 rows reach at least 70 % of its rate.

No server of Qdrant installs from the package registries (its wheels are a client and an in-process engine), so there is
no comparison with one here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np

import datasets
import interlace as il
import machine
from interlace.client import wire
from peers import RESULTS, write

N_BYTES, K, CLIENTS, BLOCK = 8, 10, 64, 1000


def say(text: str) -> None:
    """Progress, to people."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[int]:
    """A server in a process of its own; its port."""
    command = [sys.executable, "-m", "interlace", "serve", str(folder), "--port", "0", "--log-level", "warning"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command[command.index("0")] = str(port)
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(3000):
            with contextlib.suppress(OSError):
                if ask(port, request("GET", "/readyz"))[0] == 200:
                    break
            time.sleep(0.02)
        yield port
    finally:
        process.terminate()
        process.wait()


def request(method: str, path: str, body: bytes = b"", kind: str = "application/json") -> bytes:
    """The bytes of a request."""
    head = f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Connection:
    """One client, which waits for an answer before its next request."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer, self._needed, self.sent = b"", -1, 0.0

    def send(self, data: bytes) -> None:
        self.sent = time.perf_counter()
        self.socket.sendall(data)

    def receive(self) -> tuple[int, bytes] | None:
        """Status and body of the answer once it is complete."""
        chunk = self.socket.recv(1 << 20)
        if not chunk:
            raise ConnectionError("the server closed the connection")
        self._buffer += chunk
        if self._needed < 0:
            head, separator, rest = self._buffer.partition(b"\r\n\r\n")
            if not separator:
                return None
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            self._needed, self._status, self._buffer = length, int(head[9:12]), rest
        if len(self._buffer) < self._needed:
            return None
        found = self._status, self._buffer
        self._buffer, self._needed = b"", -1
        return found


def ask(port: int, data: bytes, connection: Connection | None = None) -> tuple[int, bytes]:
    """One request and its answer."""
    one = connection or Connection(port)
    one.send(data)
    while (found := one.receive()) is None:
        pass
    if connection is None:
        one.socket.close()
    return found


def summary(seconds: list[float]) -> dict[str, float]:
    """Microseconds."""
    cuts = quantiles(seconds, n=100) if len(seconds) > 1 else seconds * 99
    return {"median_us": median(seconds) * 1e6, "p95_us": cuts[94] * 1e6, "p99_us": cuts[98] * 1e6}


def timed(act: Callable[[int], Any], n: int) -> list[float]:
    """Seconds of each of n calls."""
    taken = []
    for i in range(n):
        began = time.perf_counter()
        act(i)
        taken.append(time.perf_counter() - began)
    return taken


def queries_of(q: Any, params: dict[str, Any]) -> list[bytes]:
    bodies = [json.dumps({"query": row.tolist(), "limit": K, "params": params}).encode() for row in q]
    return [request("POST", "/collections/c/points/query", body) for body in bodies]


def single(port: int, store: Any, q: Any, how: dict[str, Any], n: int) -> dict[str, Any]:
    """One client, one query at a time: interleaved rounds of the library and the server."""
    sent, connection = queries_of(q, {"rerank": how.get("rerank") or 0}), Connection(port)
    ours, theirs = list[float](), list[float]()
    for _ in range(4):
        ours += timed(lambda i: store.search(q[i % len(q)], K, **how), n // 4)
        theirs += timed(lambda i: ask(port, sent[i % len(q)], connection), n // 4)
    library, http = summary(ours), summary(theirs)
    return {"library": library, "http": http, "bar_us": 2 * library["median_us"] + 1000}


def concurrent(port: int, sent: list[bytes], seconds: float, clients: int) -> dict[str, Any]:
    """Many clients with single queries, for some seconds."""
    selector, taken, errors, turn = selectors.DefaultSelector(), list[float](), 0, 0
    for _ in range(clients):
        connection = Connection(port)
        selector.register(connection.socket, selectors.EVENT_READ, connection)
        connection.send(sent[turn % len(sent)])
        turn += 1
    began = time.perf_counter()
    end, used = began + seconds, time.process_time()
    while (now := time.perf_counter()) < end:
        for key, _ in selector.select(1):
            connection = key.data
            found = connection.receive()
            if found is None:
                continue
            taken.append(time.perf_counter() - connection.sent)
            errors += found[0] != 200
            connection.send(sent[turn % len(sent)])
            turn += 1
    elapsed = now - began
    for key in list(selector.get_map().values()):
        key.data.socket.close()
    facts = {"clients": clients, "queries_per_second": len(taken) / elapsed, "errors": errors, **summary(taken)}
    return facts | {"client_cpu_share": (time.process_time() - used) / elapsed}


def throughput(store: Any, q: Any, how: dict[str, Any], seconds: float) -> dict[str, float]:
    """Queries per second of the library: batches with two threads, and single queries from two threads of Python."""
    block, n, began = np.tile(q, (max(1, 2000 // len(q)), 1)), 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        store.search(block, K, threads=2, **how)
        n += len(block)
    batch, counts = n / (time.perf_counter() - began), [0, 0]
    stop = time.perf_counter() + seconds

    def ask_alone(me: int) -> None:
        while time.perf_counter() < stop:
            store.search(q[counts[me] % len(q)], K, **how)
            counts[me] += 1

    threads = [threading.Thread(target=ask_alone, args=[i]) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"batch_two_threads": batch, "single_two_threads": sum(counts) / seconds}


def upserts(port: int, store: Any, x: Any, rounds: int) -> dict[str, Any]:
    """Blocks of 1,000 rows, durable each: the library, JSON, and arrays as il.connect sends them."""
    blocks = [x[(i * BLOCK) % (len(x) - BLOCK) :][:BLOCK] for i in range(rounds)]
    ids = [np.arange(i * BLOCK, (i + 1) * BLOCK) for i in range(rounds)]
    as_json, as_arrays = [], []
    for block, own in zip(blocks, ids, strict=True):
        points = [{"id": int(i), "vector": row} for i, row in zip(own, block.astype(float).tolist(), strict=True)]
        as_json.append(request("PUT", "/collections/w/points", json.dumps({"points": points}).encode()))
        packed = wire.pack({"ids": None, "json": None, "effort": None, "embedded": False}, {"x": block, "ids": own})
        as_arrays.append(request("POST", "/collections/w/store/upsert", packed, wire.MEDIA_TYPE))
    connection, found = Connection(port), dict[str, list[float]]()
    for i in range(rounds):  # interleaved
        for name, act in (
            ("library", lambda i=i: store.upsert(blocks[i], ids[i])),
            ("json", lambda i=i: ask(port, as_json[i], connection)),
            ("arrays", lambda i=i: ask(port, as_arrays[i], connection)),
        ):
            found.setdefault(name, []).extend(timed(lambda _, act=act: act(), 1))
    return {name: {"rows_per_second": BLOCK / median(taken)} for name, taken in found.items()}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows and short runs; nothing is written")
    parser.add_argument("--data", default="sift300k")
    parser.add_argument("--seconds", type=float, default=10.0)
    args = parser.parse_args()
    data = datasets.load(args.data, seed=0, quick=args.quick, say=say)
    x, q = np.asarray(data.x, np.float32), np.asarray(data.queries, np.float32)[:500]
    seconds, n, rounds = (1.0, 200, 4) if args.quick else (args.seconds, 4000, 40)
    out: dict[str, Any] = {
        "environment": machine.environment(),
        "format": 1,
        "kind": "serve",
        "data": args.data,
        "rows": len(x),
        "dim": x.shape[1],
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "served").mkdir()
        say("building")
        index = il.Index.build(x, n_bytes=N_BYTES, originals="float16", progress=None)
        index.to_store(folder / "served" / "c").close()
        for path in (folder / "served" / "w", folder / "w"):
            il.create(path, index.codebooks, originals="float16").close()
        with (
            il.open(folder / "served" / "c") as store,
            il.open(folder / "w", mode="a") as own,
            served(folder / "served") as port,
        ):
            for title, how in (("codes", {}), ("rerank 100", {"rerank": 100})):
                say(title)
                facts = {"single": single(port, store, q, how, n), "library": throughput(store, q, how, seconds)}
                sent = queries_of(q, {"rerank": how.get("rerank", 0)})
                facts["concurrent"] = [concurrent(port, sent, seconds, c) for c in (1, 8, CLIENTS)]
                facts["bar_queries_per_second"] = 0.6 * facts["library"]["batch_two_threads"]
                out[title] = facts
            say("upserts")
            out["upserts of 1,000 rows"] = upserts(port, own, x, rounds)
    if args.quick:
        print(json.dumps(out, indent=1))
    else:
        write(RESULTS / "serve.json", out)


if __name__ == "__main__":
    main()
