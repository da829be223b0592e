"""Three Ray nodes on this machine: build, search, kill an actor, kill a node, and compare all answers.

    python benchmarks/cluster_demo.py [--rows 2000000] [--seconds 8] [--results FOLDER]

``make cluster`` runs it. It prints a table, writes it to ``cluster-demo.json``, and stops everything that it started.
The nodes share the cores of one machine: the rates say what a failure costs, not what a cluster can do.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import interlace as il
import machine
from cache import write_json
from loopback import kill_process, loopback

DIM, SHARDS, BATCH = 32, 4, 100


def rows_of(n: int, path: Path) -> None:
    """Clustered rows, written in blocks."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(2000, DIM)).astype(np.float32) * 3
    out = np.lib.format.open_memmap(path, "w+", np.float32, (n, DIM))
    for start in range(0, n, 1 << 18):
        m = min(1 << 18, n - start)
        out[start : start + m] = centres[rng.integers(0, len(centres), m)] + rng.normal(size=(m, DIM))
    out.flush()


class Searching:
    """Searches without a pause, in a thread, and compares every answer."""

    def __init__(self, cluster: il.ray.Cluster, queries: np.ndarray, expected: il.Matches) -> None:
        self._cluster, self._queries, self._expected = cluster, queries, expected
        self.queries, self.errors, self.wrong, self.slowest = 0, 0, 0, 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Searching:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.is_set():
            began = time.perf_counter()
            try:
                found = self._cluster.search(self._queries, 10, margin="exact")
            except il.InterlaceError:
                self.errors += 1
                continue
            same = np.array_equal(found.ids, self._expected.ids)
            self.wrong += not (same and found.distances.tobytes() == self._expected.distances.tobytes())
            self.queries += len(self._queries)
            self.slowest = max(self.slowest, time.perf_counter() - began)


def _print(phases: list[dict[str, Any]]) -> int:
    """The table; returns the number of errors and wrong answers."""
    table = [("phase", "queries/s", "errors", "wrong", "slowest batch")]
    for one in phases:
        rate, slowest = f"{one['queries_per_second']:,.0f}", f"{one['slowest_seconds']:.2f} s"
        table.append((one["phase"], rate, str(one["errors"]), str(one["wrong"]), slowest))
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    for row in table:
        print("  ".join([row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in range(1, len(row)))]))
    bad = sum(one["errors"] + one["wrong"] for one in phases)
    print("answers equal, no errors" if not bad else f"{bad} errors or wrong answers")
    return bad


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each phase")
    parser.add_argument("--results", type=Path, help="folder of the JSON; without it nothing is written")
    args = parser.parse_args()
    environment = machine.environment()
    with tempfile.TemporaryDirectory() as folder, loopback(3, 2) as nodes:
        data, out = Path(folder) / "rows.npy", Path(folder) / "shards"
        rows_of(args.rows, data)
        began = time.perf_counter()
        settings = {"n_bytes": 8, "layout": "hybrid", "effort": "fast"}
        manifest = il.ray.build(data, settings, out, shards=SHARDS, progress=sys.stderr.isatty())
        print(f"built {manifest} in {time.perf_counter() - began:.0f} s", flush=True)
        queries = np.load(data, mmap_mode="r")[:: args.rows // BATCH][:BATCH] + np.float32(0.1)
        phases: list[dict[str, Any]] = []
        with il.ray.open(out, replicas=2, timeout=120) as cluster:
            expected = cluster.search(queries, 10, margin="exact")

            def phase(name: str, act: Callable[[], Any]) -> None:
                began = time.perf_counter()
                with Searching(cluster, queries, expected) as searching:
                    time.sleep(args.seconds / 4)
                    act()
                    time.sleep(args.seconds * 3 / 4)
                phases.append(
                    {
                        "phase": name,
                        "queries_per_second": searching.queries / (time.perf_counter() - began),
                        "errors": searching.errors,
                        "wrong": searching.wrong,
                        "slowest_seconds": searching.slowest,
                    }
                )

            phase("nothing is killed", lambda: None)
            phase("an actor is killed", lambda: kill_process(cluster.nodes()[0]["process"]))
            phase("a node is killed", lambda: nodes.kill(0))
    bad = _print(phases)
    if args.results is not None:
        about = {"format": 1, "kind": "cluster-demo", "rows": args.rows, "shards": SHARDS, "batch": BATCH}
        environment["load_at_end"] = round(machine.load(), 2)
        write_json(args.results / "cluster-demo.json", about | {"phases": phases, "environment": environment})
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    main()
