"""Cost of Ray on one machine: building and searching four shards, against the library alone, and work by groups.

    python benchmarks/cluster.py [--quick] [--data sift300k] [--seconds 20]

Writes benchmarks/results/cluster.json. ``--data sift-grown-10m`` is used only if it is cached. One Ray node on the
loopback interface; both sides use the same number of threads of the same cores, in turn. Bars: a build takes at most
25 % longer than ``Index.build``; batches of 1,000 queries reach at least 80 % of the queries per second of one process;
a single query takes at most 5 ms longer at the median.

The groups of the last part share the cores of one machine, so it records work and messages and no times: table
additions, rows scanned, calls, and bytes of queries and answers.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import numpy as np
import ray

import bench_sets
import interlace as il
import machine
from cache import cache_folder
from peers import RESULTS, write

N_BYTES, K, SHARDS, BATCH = 8, 10, 4, 1000


def say(text: str) -> None:
    """Progress, to people."""
    print(text, file=sys.stderr, flush=True)


def in_turn(acts: dict[str, Callable[[], Any]], seconds: float, most: int) -> dict[str, list[float]]:
    """Times of several acts, one after the other, for so many seconds."""
    times: dict[str, list[float]] = {name: [] for name in acts}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end and len(next(iter(times.values()))) < most:
        for name, act in acts.items():
            began = time.perf_counter()
            act()
            times[name].append(time.perf_counter() - began)
    return times


def builds(x: Any, folder: Path, threads: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Seconds of ``Index.build`` and of a build in shards, of the same file."""
    np.save(folder / "x.npy", x)
    began = time.perf_counter()
    il.Index.build(np.load(folder / "x.npy", mmap_mode="r"), threads=threads, progress=False, **settings).save(
        folder / "one"
    )
    alone = time.perf_counter() - began
    began = time.perf_counter()
    il.ray.build(
        folder / "x.npy", settings | {"threads": threads}, folder / "shards", shards=SHARDS, threads=1, progress=False
    )
    shards = time.perf_counter() - began
    return {"library": alone, "ray": shards, "overhead": shards / alone - 1, "bar": 0.25}


def searches(one: il.Index, cluster: Any, q: Any, threads: int, seconds: float) -> dict[str, Any]:
    """Batches and single queries, of both in turn."""
    out: dict[str, Any] = {}
    for margin in (0.999, "exact"):
        acts = {
            "library": lambda: one.search(q, K, margin=margin, threads=threads),  # noqa: B023
            "ray": lambda: cluster.search(q, K, margin=margin, threads=threads),  # noqa: B023
        }
        rates = {name: len(q) / median(times) for name, times in in_turn(acts, seconds, 50).items()}
        number = iter(range(10**9))
        single = {
            "library": lambda: one.search(q[next(number) % len(q)], K, margin=margin),  # noqa: B023
            "ray": lambda: cluster.search(q[next(number) % len(q)], K, margin=margin),  # noqa: B023
        }
        medians = {name: median(times) for name, times in in_turn(single, seconds, 2000).items()}
        out[str(margin)] = {
            "batches": rates | {"share": rates["ray"] / rates["library"], "bar": 0.8},
            "single": medians | {"added_ms": 1e3 * (medians["ray"] - medians["library"]), "bar_ms": 5.0},
        }
    return out


def work(folder: Path, q: Any) -> list[dict[str, Any]]:
    """What 1, 2, 4 and 8 groups compute and send for the same queries."""
    manifest, out = il.ray.ShardManifest.read(folder / "eight"), []
    for groups in (1, 2, 4, 8):
        with il.ray.open(manifest, groups=groups, threads=1, timeout=600) as cluster:
            for margin in (0.999, "exact"):
                found = cluster.search(q, K, margin=margin)
                answer = found.ids.nbytes + found.distances.nbytes
                out.append(
                    {
                        "groups": groups,
                        "margin": str(margin),
                        "lookups_per_query": found.stats.lookups / len(q),
                        "scanned_per_query": found.stats.scanned / len(q),
                        "searched_again": found.stats.unlike,
                        "calls": groups,
                        "bytes_sent": q.nbytes,  # once for each node
                        "bytes_received": groups * answer,
                    }
                )
    return out


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows and short runs; nothing is written")
    parser.add_argument("--data", default="sift300k")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each comparison of searches")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.data == "sift-grown-10m" and not list(cache_folder().glob("sift-grown-10m*seed0.npy")):
        raise SystemExit("sift-grown-10m is not in the cache: benchmarks/growth.py --build makes it")
    data = bench_sets.load(args.data, seed=0, quick=args.quick, say=say)
    q = np.resize(np.asarray(data.queries, np.float32), (BATCH, data.queries.shape[1]))
    settings = {"n_bytes": N_BYTES, "layout": "hybrid", "effort": "fast"}
    seconds = 1.0 if args.quick else args.seconds
    out: dict[str, Any] = {
        "environment": machine.environment() | {"ray": ray.__version__},
        "format": 1,
        "kind": "cluster",
        "data": args.data,
        "rows": len(data.x),
        "dim": int(data.x.shape[1]),
        "shards": SHARDS,
        "threads": args.threads,
    }
    ray.init(
        address="local",
        include_dashboard=False,
        log_to_driver=False,
        num_cpus=args.threads,
        object_store_memory=1 << 30,
        _node_ip_address="127.0.0.2",
    )
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            say("building")
            out["build"] = builds(data.x, folder, args.threads, settings)
            one = il.Index.open(folder / "one")
            say("searching")
            with il.ray.open(folder / "shards", groups=1, threads=args.threads, timeout=600) as cluster:
                out["search"] = searches(one, cluster, q, args.threads, seconds)
            say("counting the work of 1 to 8 groups")
            il.ray.build(folder / "x.npy", one, folder / "eight", shards=8, threads=1, progress=False)
            out["work"] = work(folder, q)
    finally:
        ray.shutdown()
    if args.quick:
        print(json.dumps(out, indent=1))
    else:
        write(RESULTS / "cluster.json", out)


if __name__ == "__main__":
    main()
