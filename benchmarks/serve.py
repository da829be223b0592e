"""Cost of the server: one query over HTTP, many clients with single queries, and upserts, each against the library.

    python benchmarks/serve.py [--quick] [--data sift300k] [--seconds 10]

Writes benchmarks/results/serve.json. Server and client are processes on this machine, connected by the loopback
interface, so they share its cores. The client sends prepared bytes over plain sockets and hardly reads the answers, in
order to cost little; the CPU time of the server (all of its processes) and that of the client are reported apart. The
library is measured in this process with the same store, the same queries and the same settings.

Bars: a single query has a median of at most twice the library call + 1 ms; 64 clients reach at least 60 % of the rate
of the library with two threads; upserts of 1,000 rows reach at least 70 % of its rate. The library has two
rates, in batches and query by query, and both shares are reported, by time (client and server on the same cores) and by
CPU time of the server alone. Servers with one process and with --workers 2 are measured.

No server of Qdrant installs from the package registries (its wheels are a client and an in-process engine), so there is
no comparison with one here.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np

import bench_sets
import interlace as il
import machine
from interlace.client import wire
from peers import RESULTS, write

N_BYTES, K, CLIENTS, BLOCK = 8, 10, 64, 1000


def say(text: str) -> None:
    """Progress, to people."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    port: int
    pid: int

    def cpu(self) -> float:
        """Seconds of CPU time of all of its processes."""
        pids, ticks = [self.pid], 0
        for pid in pids:
            with contextlib.suppress(OSError):
                pids += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def served(folder: Path, *more: str) -> Iterator[Server]:
    """A server in processes of its own."""
    command = [sys.executable, "-m", "interlace", "serve", str(folder), "--port", "0", "--log-level", "warning", *more]
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
        yield Server(port, process.pid)
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


def concurrent(server: Server, sent: list[bytes], seconds: float, clients: int) -> dict[str, Any]:
    """Many clients with single queries, for some seconds."""
    poll, taken, errors, turn = select.epoll(), list[float](), 0, 0
    waiting: dict[int, tuple[socket.socket, float]] = {}
    for _ in range(clients):
        connection = Connection(server.port).socket
        poll.register(connection, select.EPOLLIN)
        waiting[connection.fileno()] = connection, time.perf_counter()
        connection.send(sent[turn % len(sent)])
        turn += 1
    began, used, server_used = time.perf_counter(), time.process_time(), server.cpu()
    end = now = began + seconds
    while (now := time.perf_counter()) < end:
        for number, _ in poll.poll(1):
            connection, since = waiting[number]
            data = connection.recv(1 << 16)
            while not data.endswith(b"}"):  # an answer is JSON, and small
                data += connection.recv(1 << 16)
            now = time.perf_counter()
            taken.append(now - since)
            errors += data[9:12] != b"200"
            waiting[number] = connection, now
            connection.send(sent[turn % len(sent)])
            turn += 1
    elapsed, client, used_there = now - began, time.process_time() - used, server.cpu() - server_used
    for connection, _ in waiting.values():
        connection.close()
    return {
        "clients": clients,
        "queries_per_second": len(taken) / elapsed,
        "errors": errors,
        **summary(taken),
        "server_cpu_us_per_query": used_there / len(taken) * 1e6,
        "client_cpu_us_per_query": client / len(taken) * 1e6,
        "server_cores": used_there / elapsed,
        "client_cores": client / elapsed,
    }


def with_shares(found: dict[str, Any], library: dict[str, float]) -> dict[str, Any]:
    """Shares of what the library reaches, by time and by CPU time of the server."""
    rate, cost = found["queries_per_second"], found["server_cpu_us_per_query"]
    return found | {
        "share_of_batches": rate / library["batch_two_threads"],
        "share_of_single_queries": rate / library["single_two_threads"],
        "cpu_share_of_batches": library["batch_cpu_us"] / cost,
        "cpu_share_of_single_queries": library["single_cpu_us"] / cost,
    }


def throughput(store: Any, q: Any, how: dict[str, Any], seconds: float) -> dict[str, float]:
    """The library: batches with two threads, and single queries from two threads of Python; CPU time of a query."""
    block, n, began, used = np.tile(q, (max(1, 2000 // len(q)), 1)), 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        store.search(block, K, threads=2, **how)
        n += len(block)
    batch, batch_cpu = n / (time.perf_counter() - began), (time.process_time() - used) / n
    counts, used, stop = [0, 0], time.process_time(), time.perf_counter() + seconds

    def ask_alone(me: int) -> None:
        while time.perf_counter() < stop:
            store.search(q[counts[me] % len(q)], K, **how)
            counts[me] += 1

    threads = [threading.Thread(target=ask_alone, args=[i]) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {
        "batch_two_threads": batch,
        "single_two_threads": sum(counts) / seconds,
        "batch_cpu_us": batch_cpu * 1e6,
        "single_cpu_us": (time.process_time() - used) / sum(counts) * 1e6,
    }


def upserts(port: int, store: Any, x: Any, rounds: int) -> dict[str, Any]:
    """Blocks of 1,000 new rows, durable each: the library, JSON, and arrays as il.connect sends them.

    Each has a store of its own, which begins empty.
    """
    blocks = [x[(i * BLOCK) % (len(x) - BLOCK) :][:BLOCK] for i in range(rounds)]
    ids = [np.arange(i * BLOCK, (i + 1) * BLOCK) for i in range(rounds)]
    as_json, as_arrays = [], []
    for block, own in zip(blocks, ids, strict=True):
        points = [{"id": int(i), "vector": row} for i, row in zip(own, block.astype(float).tolist(), strict=True)]
        as_json.append(request("PUT", "/collections/by-json/points", json.dumps({"points": points}).encode()))
        packed = wire.pack({"ids": None, "json": None, "effort": None, "embedded": False}, {"x": block, "ids": own})
        as_arrays.append(request("POST", "/collections/by-arrays/store/upsert", packed, wire.MEDIA_TYPE))
    connection, found = Connection(port), dict[str, list[float]]()
    for i in range(rounds):  # interleaved
        for name, act in (
            ("library", lambda i=i: store.upsert(blocks[i], ids[i])),
            ("json", lambda i=i: ask(port, as_json[i], connection)),
            ("arrays", lambda i=i: ask(port, as_arrays[i], connection)),
        ):
            found.setdefault(name, []).extend(timed(lambda _, act=act: act(), 1))
    rates = {name: BLOCK / median(taken) for name, taken in found.items()}
    return {name: {"rows_per_second": rate, "share": rate / rates["library"]} for name, rate in rates.items()}


def measured(out: dict[str, Any], folder: Path, store: Any, q: Any, effort: tuple[float, int]) -> None:
    """All that is about queries: ``effort`` is seconds of a run, and single queries."""
    seconds, n = effort
    for more in ([], ["--workers", "2"]):
        with served(folder, *more) as server:
            for title, how in (("codes", {}), ("rerank 100", {"rerank": 100})):
                say(" ".join([title, *more]))
                sent = queries_of(q, {"rerank": how.get("rerank", 0)})
                facts = out.setdefault(title, {})
                if not more:
                    facts["single"] = single(server.port, store, q, how, n)
                    facts["library"] = throughput(store, q, how, seconds)
                concurrent(server, sent, min(1.0, seconds), CLIENTS)  # warm
                found = [concurrent(server, sent, seconds, c) for c in ((CLIENTS,) if more else (1, 8, CLIENTS))]
                facts["concurrent, two workers" if more else "concurrent"] = [
                    with_shares(each, facts["library"]) for each in found
                ]


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows and short runs; nothing is written")
    parser.add_argument("--data", default="sift300k")
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    data = bench_sets.load(args.data, seed=0, quick=args.quick, say=say)
    x, q = np.asarray(data.x, np.float32), np.asarray(data.queries, np.float32)[:500]
    seconds, n, rounds = (1.0, 200, 4) if args.quick else (args.seconds, 4000, 40)
    out: dict[str, Any] = {
        "environment": machine.environment(),
        "format": 2,
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
        for path in (folder / "served" / "by-json", folder / "served" / "by-arrays", folder / "own"):
            il.create(path, index.codebooks, originals="float16").close()
        with il.open(folder / "served" / "c") as store, il.open(folder / "own", mode="a") as own:
            measured(out, folder / "served", store, q, (seconds, n))
            with served(folder / "served") as server:
                say("upserts")
                out["upserts of 1,000 rows"] = upserts(server.port, own, x, rounds)
    if args.quick:
        print(json.dumps(out, indent=1))
    else:
        write(RESULTS / "serve.json", out)


if __name__ == "__main__":
    main()
