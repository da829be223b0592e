"""Cost of Ray on one machine: building and searching four shards, against the library alone, and work by groups.

    python benchmarks/cluster.py [--quick] [--data sift300k] [--seconds 20] [--cached] [--no-work]
    python benchmarks/cluster.py --data sift-grown-10m --prepare   # makes the data, at any time
    python benchmarks/cluster.py --data sift-grown-10m             # about 20 minutes on two idle cores

Writes benchmarks/results/cluster-DATA.json. ``--data sift-grown-10m`` is used only if it is cached. One Ray node on the
loopback interface; both sides use the same number of threads of the same cores, in turn. Bars: a build takes at most
25 % longer than ``Index.build``; batches of 1,000 queries reach at least 80 % of the queries per second of one process;
a single query takes at most 5 ms longer at the median. Processor time is that of this process and of all processes
that Ray has started, and memory is the most that all of them had at once, with the pages of files and the object store
that they share counted once.

Both indexes are left in the cache; ``--cached`` takes them, and the times of their builds, if the code is the same.

The groups of the last part share the cores of one machine, so it records work and messages and no elapsed times: table
additions, rows scanned, processor time of the actors, calls, and bytes of queries and answers. ``tau_known`` are the
table additions of an exact search that knows the distance of the last hit from the start: what could be saved if groups
told each other.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # 15 by default: both sides have the same priority

import numpy as np
import ray

import bench_sets
import interlace as il
import machine
from cache import cache_folder, write_json
from interlace.index.machines import LOOKUPS, LOOKUPS_PER_ROOT, MULTIPLICATIONS
from interlace.ray.holder import Options
from partition_ours import code_version
from peers import RESULTS, write
from processes import Memory, cpu_of_tree, cpu_seconds

N_BYTES, K, SHARDS, BATCH = 8, 10, 4, 1000
ROUNDS = 3  # batches by which the processor time of actors is measured
SETTINGS: dict[str, Any] = {"n_bytes": N_BYTES}


def say(text: str) -> None:
    """Progress, to people."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


class Timed:
    """Elapsed and processor seconds of a block, and elapsed seconds of its phases."""

    def __init__(self, name: str) -> None:
        self._name, self._phase, self._said = name, "starting", 0.0
        self.phases: dict[str, float] = {}

    def __enter__(self) -> Timed:
        self._memory = Memory(os.getpid())
        self._cpu, self._began = cpu_of_tree(os.getpid()), time.perf_counter()
        self._since = self._began
        return self

    def __exit__(self, *error: object) -> None:
        self._count(time.perf_counter())
        self.facts = {
            "seconds": round(time.perf_counter() - self._began, 3),
            "cpu_seconds": round(cpu_of_tree(os.getpid()) - self._cpu, 2),
            "peak_bytes": self._memory.most(),
            "phases": {name: round(seconds, 2) for name, seconds in self.phases.items()},
        }
        say(f"{self._name}: {self.facts}")

    def __call__(self, what: str, done: float) -> None:
        """As the ``progress`` of a build."""
        now, phase = time.perf_counter(), what.partition(":")[0].strip()
        if phase != self._phase:
            self._count(now)
            self._phase = phase
        if now - self._said > 15:
            self._said = now
            say(f"{self._name}: {what}, {done:.0%} after {now - self._began:.0f} s")

    def _count(self, now: float) -> None:
        self.phases[self._phase] = self.phases.get(self._phase, 0.0) + now - self._since
        self._since = now


def in_turn(acts: dict[str, Callable[[], Any]], seconds: float, most: int) -> dict[str, dict[str, float]]:
    """Median elapsed and mean processor seconds of several acts, one after the other, for a number of seconds."""
    times: dict[str, list[float]] = {name: [] for name in acts}
    cpu = dict.fromkeys(acts, 0.0)
    for act in acts.values():
        act()
    end, tree = time.perf_counter() + seconds, most <= BATCH  # to read the times of all processes takes milliseconds
    while time.perf_counter() < end and len(next(iter(times.values()))) < most:
        for name, act in acts.items():
            before, began = cpu_of_tree(os.getpid()) if tree else 0.0, time.perf_counter()
            act()
            times[name].append(time.perf_counter() - began)
            cpu[name] += cpu_of_tree(os.getpid()) - before if tree else 0.0
    found = {name: {"seconds": median(many), "rounds": len(many)} for name, many in times.items()}
    return {name: one | ({"cpu_seconds": cpu[name] / one["rounds"]} if tree else {}) for name, one in found.items()}


def source_of(x: Any, folder: Path) -> Path:
    """A file with these rows: the one that they are mapped from, or a copy."""
    name = getattr(x, "filename", None)
    if name is not None and len(np.load(name, mmap_mode="r")) == len(x):
        return Path(name)
    if not (folder / "x.npy").exists():
        np.save(folder / "x.npy", x)
    return folder / "x.npy"


def builds(source: Path, folder: Path, threads: int) -> dict[str, Any]:
    """``Index.build`` and a build in shards, of the same file."""
    shutil.rmtree(folder / "shards", ignore_errors=True)
    with Timed("library") as library:
        rows = np.load(source, mmap_mode="r")
        il.Index.build(rows, threads=threads, progress=library, **SETTINGS).save(folder / "one")
    with Timed("ray") as shards:
        settings = SETTINGS | {"threads": threads}
        il.ray.build(source, settings, folder / "shards", shards=SHARDS, threads=1, progress=shards)
    alone, together = library.facts, shards.facts
    return {
        "library": alone,
        "ray": together,
        "overhead": together["seconds"] / alone["seconds"] - 1,
        "cpu_overhead": together["cpu_seconds"] / alone["cpu_seconds"] - 1,
        "bar": 0.25,
    }


def kept_builds(source: Path, folder: Path, threads: int, cached: bool) -> dict[str, Any]:
    """As :func:`builds`, or what an earlier run of the same code has left."""
    path, code = folder / "builds.json", code_version()
    if cached and path.exists():
        found = json.loads(path.read_text())
        if found.pop("code") == code:
            return dict(found)
        say("the indexes in the cache are of other code")
    path.unlink(missing_ok=True)
    found = builds(source, folder, threads)
    write_json(path, found | {"code": code})
    return found


def searches(one: il.Index, cluster: Any, q: Any, threads: int, seconds: float) -> dict[str, Any]:
    """Batches and single queries, of both in turn."""
    out: dict[str, Any] = {}
    for margin in (0.999, "exact"):
        acts = {
            "library": lambda: one.search(q, K, margin=margin, threads=threads),  # noqa: B023
            "ray": lambda: cluster.search(q, K, margin=margin, threads=threads),  # noqa: B023
        }
        batches = in_turn(acts, seconds, 50)
        lookups = {name: act().stats.lookups / len(q) for name, act in acts.items()}
        rates = {name: len(q) / found["seconds"] for name, found in batches.items()}
        cpu = {name: found["cpu_seconds"] for name, found in batches.items()}
        number = iter(range(10**9))
        single = {
            "library": lambda: one.search(q[next(number) % len(q)], K, margin=margin),  # noqa: B023
            "ray": lambda: cluster.search(q[next(number) % len(q)], K, margin=margin),  # noqa: B023
        }
        medians = {name: found["seconds"] for name, found in in_turn(single, seconds, 2000).items()}
        out[str(margin)] = {
            "batches": rates
            | {
                "share": rates["ray"] / rates["library"],
                "bar": 0.8,
                "cpu_share": cpu["library"] / cpu["ray"],
                "cpu_seconds": cpu,
                "lookups_per_query": lookups,
            },
            "single": medians | {"added_ms": 1e3 * (medians["ray"] - medians["library"]), "bar_ms": 5.0},
        }
        say(f"margin {margin}: {json.dumps(out[str(margin)])}")
    return out


def work(folder: Path, q: Any) -> list[dict[str, Any]]:
    """What 1, 2, 4 and 8 groups compute and send for the same queries."""
    manifest, out = il.ray.ShardManifest.read(folder / "eight"), []
    for groups in (1, 2, 4, 8):
        with il.ray.open(manifest, groups=groups, threads=1, timeout=600) as cluster:
            processes = [node["process"] for node in cluster.nodes()]
            for margin in (0.999, "exact"):
                cluster.search(q, K, margin=margin)
                turns = sum(group.turn for group in cluster.groups)
                before = sum(map(cpu_seconds, processes))
                for _ in range(ROUNDS):
                    found = cluster.search(q, K, margin=margin)
                cpu = sum(map(cpu_seconds, processes)) - before
                calls = (sum(group.turn for group in cluster.groups) - turns) / ROUNDS
                known = None if margin != "exact" else _tau_known(cluster, q, found)
                message = ("search", q, Options(K, margin, None), None)
                answers = [group.actors[0].ask.remote(*message) for group in cluster.groups]
                out.append(
                    {
                        "groups": groups,
                        "margin": str(margin),
                        "lookups_per_query": found.stats.lookups / len(q),
                        "tau_known": known,
                        "scanned_per_query": found.stats.scanned / len(q),
                        "cpu_us_per_query": 1e6 * cpu / ROUNDS / len(q),
                        "model": _model(manifest, groups) if margin == 0.999 else None,
                        "searched_again": found.stats.unlike,
                        "calls": calls,
                        "bytes_sent": _bytes(message),  # once for each node
                        "bytes_received": sum(map(_bytes, ray.get(answers))),
                    }
                )
                say(f"{out[-1]}")
    return out


def _tau_known(cluster: Any, q: Any, found: Any) -> float:
    """Table additions for a query of all groups, if each knew the distance of the last hit of all."""
    return float(cluster.range_search(q, found.distances[:, -1]).stats.lookups / len(q))


def _model(manifest: il.ray.ShardManifest, groups: int) -> dict[str, float]:
    """What ``interlace plan --machines`` assumes for all groups together at a margin of 0.999."""
    lookups = groups * LOOKUPS_PER_ROOT * (manifest.rows / groups) ** 0.5
    cells = groups * manifest.open_shard(0).codebooks.n_cells * manifest.dim
    return {"lookups_per_query": lookups, "cpu_us_per_query": 1e6 * (lookups / LOOKUPS + cells / MULTIPLICATIONS)}


def _bytes(message: Any) -> int:
    """As Ray sends it."""
    return len(ray.cloudpickle.dumps(message, protocol=5))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows and short runs; nothing is written")
    parser.add_argument("--data", default="sift300k")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each comparison of searches")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cached", action="store_true", help="take the indexes that an earlier run has left")
    parser.add_argument("--no-work", action="store_true", help="leave out the work of 1 to 8 groups")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON")
    parser.add_argument("--prepare", action="store_true", help="make the data in the cache, and measure nothing")
    args = parser.parse_args()
    if args.data == "sift-grown-10m" and not args.prepare and not list(cache_folder().glob("sift-grown-10m*seed0.npy")):
        raise SystemExit("sift-grown-10m is not in the cache: --prepare makes it")
    data = bench_sets.load(args.data, seed=0, quick=args.quick, say=say)
    if args.prepare:
        return
    q = np.resize(np.asarray(data.queries, np.float32), (BATCH, data.queries.shape[1]))
    folder = cache_folder() / "cluster" / (f"{args.data}-quick" if args.quick else args.data)
    folder.mkdir(parents=True, exist_ok=True)
    out: dict[str, Any] = {
        "environment": machine.environment() | {"ray": ray.__version__},
        "format": 2,
        "kind": "cluster",
        "data": args.data,
        "rows": len(data.x),
        "dim": int(data.x.shape[1]),
        "shards": SHARDS,
        "threads": args.threads,
        "settings": SETTINGS,
    }
    ray.init(
        address="local",
        include_dashboard=False,
        log_to_driver=False,
        num_cpus=args.threads,
        object_store_memory=256 << 20,
        _node_ip_address="127.0.0.2",
    )
    try:
        source = source_of(data.x, folder)
        say(f"building {len(data.x):,} rows")
        out["build"] = kept_builds(source, folder, args.threads, args.cached)
        say(f"building takes {out['build']['overhead']:+.1%}, processor time {out['build']['cpu_overhead']:+.1%}")
        one = il.Index.open(folder / "one")
        with il.ray.open(folder / "shards", groups=1, threads=args.threads, timeout=600) as cluster:
            say("searching")
            out["search"] = searches(one, cluster, q, args.threads, 1.0 if args.quick else args.seconds)
        if not args.no_work:
            say("counting the work of 1 to 8 groups")
            shutil.rmtree(folder / "eight", ignore_errors=True)
            il.ray.build(source, one, folder / "eight", shards=8, threads=1, progress=False)
            out["work"] = work(folder, q)
    finally:
        ray.shutdown()
    out["environment"]["load_at_end"] = round(machine.load(), 2)
    if args.quick:
        print(json.dumps(out, indent=1))
        shutil.rmtree(folder)
    else:
        write(args.results / f"cluster-{args.data}.json", out)


if __name__ == "__main__":
    main()
