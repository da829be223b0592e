"""Three Ray nodes on this machine: build, search, kill an actor, kill a node, and compare all answers.

    python benchmarks/cluster_demo.py [--rows 2000000] [--seconds 8]

``make cluster`` runs it. It prints a table and stops everything that it started. The nodes share the cores of one
machine: the rates say what a failure costs, not what a cluster can do.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import interlace as il
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


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each phase")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, loopback(3, 2) as nodes:
        data, out = Path(folder) / "rows.npy", Path(folder) / "shards"
        rows_of(args.rows, data)
        began = time.perf_counter()
        settings = {"n_bytes": 8, "layout": "hybrid", "effort": "fast"}
        manifest = il.ray.build(data, settings, out, shards=SHARDS, progress=sys.stderr.isatty())
        print(f"built {manifest} in {time.perf_counter() - began:.0f} s", flush=True)
        queries = np.load(data, mmap_mode="r")[:: args.rows // BATCH][:BATCH] + np.float32(0.1)
        table = [("phase", "queries/s", "errors", "wrong", "slowest batch")]
        with il.ray.open(out, replicas=2, timeout=120) as cluster:
            expected = cluster.search(queries, 10, margin="exact")

            def phase(name: str, act) -> None:
                with Searching(cluster, queries, expected) as searching:
                    time.sleep(args.seconds / 4)
                    act()
                    time.sleep(args.seconds * 3 / 4)
                rate = searching.queries / args.seconds
                table.append((name, f"{rate:,.0f}", searching.errors, searching.wrong, f"{searching.slowest:.2f} s"))

            phase("nothing is killed", lambda: None)
            phase("an actor is killed", lambda: kill_process(cluster.nodes()[0]["process"]))
            phase("a node is killed", lambda: nodes.kill(0))
        widths = [max(len(str(row[i])) for row in table) for i in range(len(table[0]))]
        for row in table:
            cells = [str(cell).rjust(width) for cell, width in zip(row, widths, strict=True)]
            print("  ".join([cells[0].strip().ljust(widths[0]), *cells[1:]]))
        bad = sum(int(row[2]) + int(row[3]) for row in table[1:])
        print("answers equal, no errors" if not bad else f"{bad} errors or wrong answers")
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    main()
