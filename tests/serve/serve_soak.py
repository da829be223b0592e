"""Many requests, good and bad, to one server: memory and descriptors must not grow. ``make serve-soak`` runs it.

Points are replaced and removed within a fixed range of ids, so the collection does not grow either. Memory is the
resident set of all processes of the server without mapped files; what allocators and the collector keep is in it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

import numpy as np

DIM, POINTS, CONNECTIONS = 32, 4_000, 8
PARTS = 10
WARM = 1  # the part after which memory is compared
NOISE, GROWTH = 0.02, 0.3  # garbage is collected now and then, so memory goes up and down


class Load:
    """Requests of every kind."""

    def __init__(self, seed: int) -> None:
        self._rng, self._numbers = random.Random(seed), np.random.default_rng(seed)

    def request(self) -> bytes:
        """The next one."""
        kinds = (self.query,) * 10 + (self.filtered, self.upsert, self.delete, self.wrong, self.broken, self.unknown)
        kinds += (self.scroll, self.payload)
        return self._rng.choice(kinds)()

    def _vector(self, dim: int = DIM) -> list[float]:
        return self._numbers.normal(size=dim).round(4).tolist()  # type: ignore[no-any-return]

    def query(self) -> bytes:
        return sent("POST", "/collections/c/points/query", {"query": self._vector(), "limit": 10, "with_payload": True})

    def filtered(self) -> bytes:
        condition = {"key": "n", "range": {"gte": self._rng.randrange(POINTS)}}
        return sent("POST", "/collections/c/points/query", {"query": self._vector(), "filter": {"must": [condition]}})

    def upsert(self) -> bytes:
        ids = self._rng.sample(range(POINTS), 20)
        return sent("PUT", "/collections/c/points", {"points": [self.point(i) for i in ids]})

    def point(self, number: int) -> dict[str, object]:
        return {"id": number, "vector": self._vector(), "payload": {"n": number, "text": "x" * 50}}

    def delete(self) -> bytes:
        return sent("POST", "/collections/c/points/delete", {"points": self._rng.sample(range(POINTS), 5)})

    def payload(self) -> bytes:
        body = {"payload": {"text": "y"}, "points": [self._rng.randrange(POINTS)]}
        return sent("POST", "/collections/c/points/payload", body)

    def scroll(self) -> bytes:
        return sent("POST", "/collections/c/points/scroll", {"limit": 10, "offset": self._rng.randrange(POINTS)})

    def wrong(self) -> bytes:
        return sent("POST", "/collections/c/points/query", {"query": self._vector(DIM - 1)})

    def broken(self) -> bytes:
        return sent("POST", "/collections/c/points/query", b'{"query": [1, 2' + self._rng.randbytes(20))

    def unknown(self) -> bytes:
        return sent("POST", f"/collections/x{self._rng.randrange(10**6)}/points/query", {"query": self._vector()})


def sent(method: str, path: str, body: object) -> bytes:
    """The bytes of a request."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return head.encode() + b"content-length: %d\r\n\r\n" % len(data) + data


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket, self._data = socket.create_connection(("127.0.0.1", port)), b""

    def receive(self) -> int | None:
        """The status of an answer that is complete."""
        chunk = self.socket.recv(1 << 18)
        if not chunk:
            raise ConnectionError("the server closed the connection")
        self._data += chunk
        head, separator, rest = self._data.partition(b"\r\n\r\n")
        if not separator or len(rest) < int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]):
            return None
        self._data = b""
        return int(head[9:12])

    def ask(self, request: bytes) -> int:
        """One request."""
        self.socket.sendall(request)
        while (status := self.receive()) is None:
            pass
        return status


def run(port: int, load: Load, n: int, statuses: Counter[int]) -> None:
    """n requests, and some connections that are left with half a request."""
    selector, asked, open_ones = selectors.DefaultSelector(), 0, 0
    for _ in range(CONNECTIONS):
        client = Client(port)
        selector.register(client.socket, selectors.EVENT_READ, client)
        client.socket.sendall(load.request())
        asked, open_ones = asked + 1, open_ones + 1
    while open_ones:
        for key, _ in selector.select(60):
            status = key.data.receive()
            if status is None:
                continue
            statuses[status] += 1
            if asked < n:
                key.data.socket.sendall(load.request())
                asked += 1
                if asked % 500 == 0:
                    with socket.create_connection(("127.0.0.1", port)) as half:
                        half.sendall(load.request()[: asked % 97])
            else:
                selector.unregister(key.fileobj)
                key.data.socket.close()
                open_ones -= 1


def group(pid: int) -> list[int]:
    """A process and those that it has started."""
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError):
            found += map(int, Path(f"/proc/{each}/task/{each}/children").read_text().split())
    return found


def usage(pid: int) -> tuple[float, int]:
    """Megabytes of memory that is no file, and open descriptors, of the processes of a server."""
    megabytes, descriptors = 0.0, 0
    for each in group(pid):
        status = Path(f"/proc/{each}/status").read_text()
        megabytes += int(status.partition("RssAnon:")[2].split()[0]) / 1024
        descriptors += len(list(Path(f"/proc/{each}/fd").iterdir()))
    return megabytes, descriptors


def main() -> int:
    """Run the load in parts and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-m", "interlace", "serve", folder, "--port", "0"]
        command += ["--workers", str(args.workers)] * bool(args.workers)
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        found, statuses = list[tuple[float, int]](), Counter[int]()
        try:
            assert process.stderr is not None
            line = next(line for line in process.stderr if "Uvicorn running on http" in line)
            port = int(line.partition("http://127.0.0.1:")[2].partition(" ")[0].strip('",'))
            threading.Thread(target=process.stderr.read, daemon=True).start()
            load = Load(args.seed)
            client = Client(port)
            while client.ask(sent("GET", "/readyz", b"")) != 200:
                threading.Event().wait(0.05)
            assert client.ask(sent("PUT", "/collections/c", {"vectors": {"size": DIM, "distance": "Cosine"}})) == 200
            assert (
                client.ask(sent("PUT", "/collections/c/index", {"field_name": "n", "field_schema": "integer"})) == 200
            )
            assert (
                client.ask(sent("PUT", "/collections/c/points", {"points": [*map(load.point, range(POINTS))]})) == 200
            )
            for part in range(PARTS):
                run(port, load, args.requests // PARTS, statuses)
                found.append(usage(process.pid))
                done = (part + 1) * args.requests // PARTS
                print(f"{done:,} requests: {found[-1][0]:.1f} MB, {found[-1][1]} descriptors", flush=True)
        finally:
            process.terminate()
            process.wait()
    print(dict(sorted(statuses.items())))
    early, late = found[: PARTS // 2], found[PARTS // 2 :]
    wrong = []
    if min(late)[0] > max(early)[0] * (1 + NOISE) or late[-1][0] > early[WARM][0] * (1 + GROWTH):
        wrong.append(f"memory grew from {early[WARM][0]:.1f} to {late[-1][0]:.1f} MB")
    if min(each[1] for each in late) > max(each[1] for each in early) + 2 * CONNECTIONS:
        wrong.append(f"descriptors grew from {early[WARM][1]} to {late[-1][1]}")
    if set(statuses) - {200, 400, 404, 422}:
        wrong.append(f"unexpected answers: {dict(statuses)}")
    print("\n".join(wrong) or "nothing grew")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
