"""Actors and nodes that are killed at random instants while an index is built and searched; ``make ray-faults``.

    python tests/ray/ray_chaos.py [--actors 50] [--nodes 10] [--builds 4] [--seed 0] [--results FOLDER]

Builds must finish, if need be when they are called again, with verified shards and the same bytes as an undisturbed
one. Every answer of a search must be that of one index, or an explicit error. ``--actors`` and ``--nodes`` are kills
of both together: at most half of them in builds, the others while searching. Prints, and with ``--results`` writes to
``ray-faults.json``, how long it took until all replicas answered again and how long the slowest search took meanwhile.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import threading
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np

import interlace as il
import machine
from cache import write_json
from loopback import Loopback, kill_process, loopback

SETTINGS: dict[str, Any] = {"n_bytes": 4, "layout": "hybrid", "threads": 1}
WAIT = 120.0  # seconds until a replica must be back


class Chaos:
    """One cluster, many kills."""

    def __init__(self, nodes: Loopback, folder: Path, seed: int, rows: int, build_most: dict[str, int]) -> None:
        self.build_most = build_most
        self.nodes, self.folder, self.rng = nodes, folder, random.Random(seed)
        rng = np.random.default_rng(seed)
        x = np.round(rng.normal(size=(rows, 16)) * 4).astype(np.float32)
        np.save(folder / "x.npy", x)
        self.queries = x[:: rows // 40] + np.float32(0.25)
        self.reference = folder / "reference"
        began = time.monotonic()
        il.ray.build(folder / "x.npy", SETTINGS, self.reference, shards=4, progress=False)
        self.undisturbed, self.disturbed = time.monotonic() - began, list[float]()
        self.wrong: list[str] = []
        self.searches = self.errors = self.build_errors = 0
        self.without = 0  # nodes that were killed and held no replica
        self.build_kills = {"actor": 0, "node": 0}
        self.recoveries: dict[str, list[float]] = {"actor": [], "node": []}
        # From kill to recovery; "group" are nodes with all replicas of a group.
        self._windows: dict[str, list[tuple[float, float]]] = {"actor": [], "node": [], "group": []}
        self._calls: list[tuple[float, float]] = []  # when each search began, and how long it took

    def build(self, number: int) -> None:
        """Build while a worker, or a node, is killed; compare with the undisturbed files."""
        out, failed, began = self.folder / f"build-{number}", 0, time.monotonic()
        for attempt in range(10):
            found: list[Exception] = []

            def run(found: list[Exception] = found) -> None:
                try:
                    il.ray.build(self.folder / "x.npy", SETTINGS, out, shards=4, progress=False)
                except Exception as error:
                    found.append(error)

            thread = threading.Thread(target=run)
            thread.start()
            while thread.is_alive():
                thread.join(self.rng.uniform(0.5, 3.0))
                if attempt < 3 and thread.is_alive():
                    self._disturb()
            if not found:
                break
            if not isinstance(found[0], il.ray.ClusterError):
                self.wrong.append(f"build {number}: {found[0]!r:.300}")
            if (out / "manifest.json").exists():
                self.wrong.append(f"build {number} failed with a manifest")
            failed += 1
            print(f"explicit error: {str(found[0])[:300]}", flush=True)
        self.disturbed.append(time.monotonic() - began)
        self.build_errors += failed
        il.ray.verify(out)
        for path in self.reference.iterdir():
            if (out / path.name).read_bytes() != path.read_bytes():
                self.wrong.append(f"build {number}: {path.name} differs")
        print(f"build {number}: the same bytes, after {failed} explicit errors", flush=True)

    def _disturb(self) -> None:
        """Kill a node, or a process of a task; nodes can be started by the main thread alone."""
        done, most = self.build_kills, self.build_most
        if self.rng.random() < 0.3 and self.nodes.n_killable > 1 and done["node"] < most["node"]:
            self.nodes.kill(0)
            self.nodes.add()
            self.build_kills["node"] += 1
        elif done["actor"] < most["actor"] and (workers := self.nodes.workers()):
            self.build_kills["actor"] += kill_process(self.rng.choice(workers))

    def search(self, actors: int, kills_of_nodes: int) -> None:
        """Search in a thread while actors and nodes are killed."""
        one = il.Index.build(np.load(self.folder / "x.npy"), originals=None, progress=False, **SETTINGS)
        expected = one.search(self.queries, margin="exact")
        with il.ray.open(self.reference, replicas=2, groups=2, timeout=WAIT) as cluster:
            end = threading.Event()

            def run() -> None:
                while not end.is_set():
                    began = time.monotonic()
                    try:
                        found = cluster.search(self.queries, margin="exact")
                    except il.InterlaceError as error:
                        self.errors += 1
                        print(f"explicit error: {str(error)[:200]}", flush=True)
                        continue
                    self.searches += 1
                    self._calls.append((began, time.monotonic() - began))
                    if not np.array_equal(found.ids, expected.ids) or (found.distances != expected.distances).any():
                        self.wrong.append("an answer differs")

            thread = threading.Thread(target=run)
            thread.start()
            try:
                kinds = ["actor"] * actors + ["node"] * kills_of_nodes
                self.rng.shuffle(kinds)
                for number, kind in enumerate(kinds):
                    self._kill(cluster, kind)
                    took = self.recoveries[kind][-1:]
                    print(f"kill {number + 1} of {len(kinds)}, {kind}: {took} s", flush=True)
            finally:
                end.set()
                thread.join()

    def _kill(self, cluster: il.ray.Cluster, kind: str) -> None:
        time.sleep(self.rng.uniform(0, 1))
        window = kind
        if kind == "node":
            holding = self.nodes.killable(
                {one["node"] for one in cluster.nodes(WAIT)}
            )  # replicas, so that some are lost
            if not holding:  # replicas of lost nodes have moved to the first node, which is never killed
                self.without += 1
            chosen = self.rng.choice(holding or range(self.nodes.n_killable))
            began = time.monotonic()
            gone: Any = self.nodes.kill(chosen)
        else:
            gone = self.rng.choice(cluster.nodes(WAIT))["process"]
            began = time.monotonic()
            kill_process(gone)
        # Processes of a node may still answer for a moment after it was killed: they do not count.
        while sum(gone not in (one["node"], one["process"]) for one in cluster.nodes(2)) < 4:
            if time.monotonic() - began > WAIT:
                self.wrong.append(f"a replica was not back {WAIT:g} s after the kill of a {kind}")
                break
        end = time.monotonic()
        if kind == "actor" or holding:
            self.recoveries[kind].append(end - began)
            self._windows[window].append((began, end))
        if kind == "node":
            self.nodes.add()

    def facts(self) -> dict[str, Any]:
        """What was done, and how long recoveries took."""
        searched = {kind: len(many) for kind, many in self.recoveries.items()}
        searched["node"] += self.without
        return {
            "kills": {"build": self.build_kills, "search": searched},
            "nodes_without_replicas": self.without,
            "builds": len(self.disturbed),
            "build_seconds": {"undisturbed": round(self.undisturbed, 2), "disturbed": _summary(self.disturbed)},
            "build_errors": self.build_errors,
            "searches": self.searches,
            "search_errors": self.errors,
            "wrong": len(self.wrong),
            "recovery_seconds": {kind: _summary(many) for kind, many in self.recoveries.items()},
            "slowest_search_seconds": {kind: _summary(self._slowest(kind)) for kind in self._windows},
            "usual_search_seconds": _summary([took for _, took in self._calls]),
        }

    def _slowest(self, kind: str) -> list[float]:
        """The longest search between each kill and the recovery from it."""
        found = []
        for began, end in self._windows[kind]:
            found.append(max((took for at, took in self._calls if at <= end and at + took >= began), default=0.0))
        return found


def _summary(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {}
    high = quantiles(seconds, n=10, method="inclusive")[-1] if len(seconds) > 1 else seconds[0]
    return {"median": round(median(seconds), 3), "p90": round(high, 3), "longest": round(max(seconds), 3)}


def main() -> None:
    """Run all rounds; exit code 1 after a wrong answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", type=int, default=50, help="kills of workers and actors")
    parser.add_argument("--nodes", type=int, default=10, help="kills of nodes")
    parser.add_argument("--builds", type=int, default=4, help="builds that are disturbed")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, help="folder of the JSON; without it nothing is written")
    args = parser.parse_args()
    environment = machine.environment()
    with tempfile.TemporaryDirectory() as folder, loopback(3, 2) as nodes:
        build_most = {"actor": args.actors // 2, "node": args.nodes // 2}
        chaos = Chaos(nodes, Path(folder), args.seed, args.rows, build_most)
        for number in range(args.builds):
            chaos.build(number)
        left = {kind: asked - chaos.build_kills[kind] for kind, asked in (("actor", args.actors), ("node", args.nodes))}
        chaos.search(max(0, left["actor"]), max(0, left["node"]))
    facts = chaos.facts()
    for name, value in facts.items():
        print(f"{name}: {value}")
    for text in chaos.wrong[:20]:
        print(f"  {text}")
    if args.results is not None:
        about = {"format": 1, "kind": "ray-faults", "rows": args.rows, "seed": args.seed, "nodes": 3, "replicas": 2}
        environment["load_at_end"] = round(machine.load(), 2)
        write_json(args.results / "ray-faults.json", about | facts | {"environment": environment})
    raise SystemExit(bool(chaos.wrong))


if __name__ == "__main__":
    main()
