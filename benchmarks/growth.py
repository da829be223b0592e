"""Time per query against the number of rows, at equal agreement: our index and faiss IVF with its best number of lists.

    python benchmarks/growth.py --build [--only SET] [--peers]   # into the cache; may run on a busy machine
    python benchmarks/growth.py [--only SET] [--cached]          # the measurement: one idle core

All sizes are in one process and timed in the same rounds, so that their ratios are of one run. faiss takes the smallest
nprobe whose answers agree with those of all lists at the target, chosen on one half of the queries; agreement is that
of the other half, for both. Indexes are those of benchmarks/partitions.py, in the same cache.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_sets
import curves
import ivf_peers
import machine
import partition_ours
from cache import write_json
from interlace import _native
from interlace.evaluate.answers import agreement, recall
from measure import one_thread
from partition_ours import Spec
from partitions import RESULTS, folder_of

FORMAT, KIND, TARGET, K = 1, "growth", 0.99, 10
SETS = {  # lists that fit the number of rows
    "sift100k": ("IVF256,PQ8np", "IVF1024,PQ8np"),
    "sift300k": ("IVF1024,PQ8np", "IVF4096,PQ8np"),
    "sift-grown-1m": ("IVF1024,PQ8np", "IVF4096,PQ8np", "IVF16384_HNSW32,PQ8np"),
    "sift-grown-3m": ("IVF4096,PQ8np", "IVF16384_HNSW32,PQ8np"),
    "sift-grown-10m": ("IVF16384_HNSW32,PQ8np",),
}
OURS = Spec(8)


def main(argv: list[str] | None = None) -> int:
    """Build, or measure."""
    options = _parser().parse_args(argv)
    started = time.perf_counter()

    def say(text: str) -> None:
        print(f"[{time.perf_counter() - started:7.1f} s] {text}", file=sys.stderr, flush=True)

    names, path = options.only or list(SETS), (options.results or RESULTS) / f"{KIND}.json"
    if options.resume and not options.build and path.exists():
        say(f"{path.name} is there already")
        return 0
    with one_thread():
        if options.build:
            for name in names:
                data = bench_sets.load(name, seed=0, quick=False, say=say)
                plan = curves.plan_for(len(data.x), seed=0, quick=False)
                _build(name, data, folder_of(data, quick=False), plan, options, say)
            return 0
        found = measure(names, options, say)
    write_json(path, found)
    return 0


def _build(
    name: str,
    data: bench_sets.BenchSet,
    folder: Path,
    plan: curves.CurvePlan,
    options: argparse.Namespace,
    say: Callable[[str], None],
) -> None:
    for text in SETS[name]:
        if not options.cached:
            ivf_peers.ensure(text, data, folder, plan, say)
    if not options.peers:
        partition_ours.ensure(OURS, data, folder, plan, say, any_version=options.any_version)


def measure(names: list[str], options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, Any]:
    """All sizes in one race."""
    began, environment = time.perf_counter(), machine.environment()
    methods, lines, plans = [], [], []
    for name in names:
        data = bench_sets.load(name, seed=0, quick=False, say=say)
        plan = curves.plan_for(len(data.x), seed=0, quick=False)
        folder = folder_of(data, quick=False)
        plans.append(plan)
        _build(name, data, folder, plan, options, say)
        entries = [partition_ours.curve(OURS, data, folder, plan, any_version=options.any_version)]
        there = [text for text in SETS[name] if ivf_peers.is_there(text, folder, plan)]
        entries += [ivf_peers.curve(text, data, folder, plan) for text in there]
        for curve in entries:
            curve.name = f"{curve.name} {name}"
            say(f"settings of {curve.name}")
            curve.choose_levels(data.queries[:40])
            setting, agreed = _setting(curve, data, plan)
            method = curve.method(setting, plan.timed)
            found = method.answers(data.queries[: plan.answered], K)
            methods.append(method)
            lines.append(
                {
                    "name": curve.name.removesuffix(f" {name}"),
                    "kind": curve.kind,
                    "data": data.name,
                    "rows": len(data.x),
                    "setting": setting,
                    "agreement": round(agreed, 5),
                    "recall": round(recall(found, data.truth[: plan.answered], K), 5),
                    "bytes": {part: round(value, 4) for part, value in curve.n_bytes.items()},
                    "build": curve.build,
                    "facts": curve.facts,
                }
            )
    times = curves.times_of(methods, data.queries, plans[0], curves.TASKS, say)
    for line, method in zip(lines, methods, strict=True):
        line["us"] = times[method.key]
    return {
        "format": FORMAT,
        "kind": KIND,
        "quick": False,
        "environment": environment | {"load_at_end": round(machine.load(), 2)},
        "simd": _native.simd_level(),
        "target": TARGET,
        "k": K,
        "protocol": plans[0].as_json(),
        "results": lines,
        "seconds": round(time.perf_counter() - began, 1),
    }


def _setting(curve: curves.Curve, data: bench_sets.BenchSet, plan: curves.CurvePlan) -> tuple[curves.Setting, float]:
    """The cheapest setting that agrees at the target on the first half of the queries; agreement on the second."""
    assert curve.exhaustive is not None
    half = plan.agreed // 2
    asked, whole = data.queries[: 2 * half], curve.exhaustive[: 2 * half, :K]

    def agreed(setting: curves.Setting) -> tuple[float, float]:
        found = curve.method(setting, half).answers(asked, K)
        return agreement(found[:half], whole[:half]), agreement(found[half:], whole[half:])

    if curve.kind == "interlace":
        setting: curves.Setting = {"margin": TARGET}
        return setting, agreed(setting)[1]
    low, high = 1, min(1024, curve.facts["lists"])
    reached = agreed({"nprobe": high})[1]
    while low < high:
        middle = (low + high) // 2
        first, second = agreed({"nprobe": middle})
        if first >= TARGET:
            high, reached = middle, second
        else:
            low = middle + 1
    return {"nprobe": low}, reached


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", action="store_true", help="only fill the cache; times nothing")
    parser.add_argument("--peers", action="store_true", help="with --build: without our own indexes")
    parser.add_argument("--cached", action="store_true", help="leave out peers that are not in the cache")
    parser.add_argument("--any-version", action="store_true", help="take our cached indexes of older code as well")
    parser.add_argument("--resume", action="store_true", help="do nothing if the JSON is there")
    parser.add_argument("--only", choices=list(SETS), action="append", help="this size; may be given again")
    parser.add_argument("--results", type=Path, help="folder of the JSON (default: benchmarks/results)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
