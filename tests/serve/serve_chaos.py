"""A server that is killed while clients write and search; ``make serve-faults`` runs it many times.

With ``--workers``, any of its processes is killed: the supervisor, the one that writes, or one of those that answer.

Every acknowledged point must be there after the restart, with its payload, and searches must have given right answers
or errors: the nearest point of a vector that was acknowledged, and not removed since, is that point.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import httpx
import numpy as np

DIM = 8
CLIENTS = 3


class Chaos:
    """One directory, many rounds."""

    def __init__(self, folder: Path, seed: int, workers: int = 0) -> None:
        self._folder, self._rng, self._workers = folder, random.Random(seed), workers
        self._process: subprocess.Popen[str] | None = None
        self._over = threading.Event()  # clients end
        self.killed = dict.fromkeys(("server", "writer", "reader") if workers else ("server",), 0)
        self._state: list[dict[int, int]] = [{} for _ in range(CLIENTS)]  # version of each acknowledged point
        self._doubtful: list[dict[int, set[int | None]]] = [{} for _ in range(CLIENTS)]  # writes without an answer
        self._version = 0
        self.acknowledged, self.searched, self.wrong = 0, 0, list[str]()

    def start(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "interlace", "serve", str(self._folder), "--port", "0", "--threads", "2"]
        command += ["--workers", str(self._workers)] * bool(self._workers)
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        for line in process.stderr:
            if "Uvicorn running on http" in line:
                self.url = "http://127.0.0.1:" + line.partition("http://127.0.0.1:")[2].partition(" ")[0].strip('",')
                threading.Thread(target=self._drain, args=[process], daemon=True).start()
                return process
        raise AssertionError("the server ended")

    @staticmethod
    def _drain(process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                if '"level": "error"' in line or "Traceback" in line:
                    print(line, end="", file=sys.stderr)

    def round(self) -> None:
        """Start, check, write and search, kill."""
        self._process = self._process or self.start()
        with httpx.Client(base_url=self.url, timeout=200) as client:
            while not self._is_ready(client):
                self._over.wait(0.02)
            if client.get("/collections/c/exists").json()["result"]["exists"]:
                self._check(client)
            else:
                body = {"vectors": {"size": DIM, "distance": "Euclid"}}
                assert client.put("/collections/c", json=body).status_code == 200
        self._over.clear()
        threads = [threading.Thread(target=self._work, args=[i, self._rng.random()]) for i in range(CLIENTS)]
        for thread in threads:
            thread.start()
        threading.Event().wait(0.05 + 0.6 * self._rng.random())
        self._kill()
        threading.Event().wait(0.3 * self._rng.random())
        self._over.set()
        for thread in threads:
            thread.join()

    @staticmethod
    def _is_ready(client: httpx.Client) -> bool:
        try:
            return client.get("/readyz").status_code == 200
        except httpx.TransportError:  # a process that was killed a moment ago
            return False

    def _kill(self) -> None:
        """One of the processes."""
        assert self._process is not None
        what = self._rng.choice(list(self.killed))
        self.killed[what] += 1
        if what == "server":
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
            return
        children = [pid for pid in _children(self._process.pid) if "spawn_main" in _text(f"/proc/{pid}/cmdline")]
        writers = [pid for pid in children if _holds_lock(pid)]
        chosen = writers if what == "writer" else [pid for pid in children if pid not in writers]
        if chosen:
            os.kill(self._rng.choice(chosen), signal.SIGKILL)

    def end(self) -> None:
        """Kill the last server."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def _work(self, number: int, seed: float) -> None:
        rng, state, doubtful = random.Random(seed), self._state[number], self._doubtful[number]
        with httpx.Client(base_url=self.url, timeout=60) as client:
            while not self._over.is_set():
                try:
                    if rng.random() < 0.3 and state:
                        self._search(client, rng.choice(list(state)), number)
                    elif rng.random() < 0.2 and state:
                        gone = rng.sample(list(state), min(3, len(state)))
                        for i in gone:
                            doubtful.setdefault(i, set()).add(None)
                        answer = client.post("/collections/c/points/delete", json={"points": gone})
                        if answer.status_code == 200:
                            for i in gone:
                                state.pop(i), doubtful.pop(i)
                    else:
                        self._write(client, number, rng)
                except httpx.TransportError:
                    return

    def _write(self, client: httpx.Client, number: int, rng: random.Random) -> None:
        state, doubtful = self._state[number], self._doubtful[number]
        ids = {rng.randrange(200) * CLIENTS + number for _ in range(rng.randint(1, 20))}
        self._version += 1
        version = self._version * CLIENTS + number
        for i in ids:
            doubtful.setdefault(i, set()).add(version)
        points = [{"id": i, "vector": vector(i, version).tolist(), "payload": {"version": version}} for i in ids]
        answer = client.put("/collections/c/points", json={"points": points})
        if answer.status_code == 200:
            for i in ids:
                state[i] = version
                doubtful.pop(i)
            self.acknowledged += len(ids)
        elif not (self._workers and answer.status_code == 503):  # 503: the process that writes was killed
            self.wrong.append(f"a write was answered {answer.status_code}: {answer.text}")

    def _search(self, client: httpx.Client, point: int, number: int) -> None:
        if point in self._doubtful[number]:
            return
        query = vector(point, self._state[number][point]).tolist()
        body = {"query": query, "limit": 1, "params": {"exact": True}}
        answer = client.post("/collections/c/points/query", json=body)
        hits = answer.json()["result"]["points"] if answer.status_code == 200 else []
        if answer.status_code == 200 and (not hits or hits[0]["id"] != point):
            self.wrong.append(f"point {point} is not the nearest of its own vector: {hits}")
        self.searched += 1

    def _check(self, client: httpx.Client) -> None:
        """Everything that was acknowledged is there; a write without an answer is there as a whole or not at all."""
        found: dict[int, Any] = {}
        offset = None
        while True:
            body = {"limit": 500, "offset": offset, "with_vector": True}
            page = client.post("/collections/c/points/scroll", json=body).json()["result"]
            found.update((p["id"], p) for p in page["points"])
            offset = page["next_page_offset"]
            if offset is None:
                break
        for number in range(CLIENTS):
            state, doubtful = self._state[number], self._doubtful[number]
            for i in {i for i in found if i % CLIENTS == number} | set(state) | set(doubtful):
                version = found[i]["payload"]["version"] if i in found else None
                allowed = {state.get(i)} | doubtful.get(i, set())
                if version not in allowed:
                    self.wrong.append(f"point {i} has version {version}, expected one of {allowed}")
                elif version is not None and np.abs(np.array(found[i]["vector"]) - vector(i, version)).max() > 0.01:
                    self.wrong.append(f"point {i} of version {version} has another vector")
                state.pop(i, None)
                if version is not None:
                    state[i] = version
            doubtful.clear()


def _children(pid: int) -> list[int]:
    return [int(child) for child in _text(f"/proc/{pid}/task/{pid}/children").split()]


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # it has ended
        return ""


def _holds_lock(pid: int) -> bool:
    """Whether it has the directory: the process that writes."""
    try:
        return any(os.readlink(file).endswith(".interlace-serve.lock") for file in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def vector(point: int, version: int) -> Any:
    """The vector of a version of a point."""
    return np.random.default_rng([point, version]).normal(size=DIM).astype(np.float32)


def main() -> int:
    """Many rounds in a temporary directory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0, help="processes that answer; 0: one does everything")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        chaos = Chaos(Path(folder), args.seed, args.workers)
        for i in range(args.kills):
            chaos.round()
            if chaos.wrong:
                break
            if i % 20 == 19:
                print(f"{i + 1} kills, {chaos.acknowledged} points acknowledged, {chaos.searched} searches", flush=True)
        chaos.end()
        done = f"{args.kills} kills ({chaos.killed}): every acknowledged point was there"
        print("\n".join(chaos.wrong[:20]) or done)
    return bool(chaos.wrong)


if __name__ == "__main__":
    sys.exit(main())
