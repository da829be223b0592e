"""Recall against time at equal bytes: our index, the partitions of faiss, and graphs. One JSON per data set.

    python benchmarks/partitions.py --build [--only SET] [--peers]   # into the cache; may run on a busy machine
    python benchmarks/partitions.py [--resume] [--only SET]          # the measurement: one idle core

Everything that is built is kept in the cache, so that a measurement only loads it. Our own indexes are built again
whenever the installed code has changed, unless `--any-version` accepts older ones; the JSON says which code built them.
`python benchmarks/report.py` makes tables and plots of the JSON.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import bench_sets
import curves
import graph_peers
import ivf_peers
import machine
import partition_ours
from cache import cache_folder, write_json
from interlace import _native
from measure import one_thread
from partition_ours import Spec

FORMAT, KIND = 1, "partitions"
RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class Case:
    """What is compared on one data set, the most important first."""

    ours: tuple[Spec, ...]
    faiss: tuple[str, ...]
    refined: tuple[str, ...] = ()  # of ``faiss``: also followed by float32 rows
    graphs: tuple[str, ...] = ()
    data: str = ""  # the set; that of the case's own name if empty


CASES = {
    "sift-grown-1m": Case(
        ours=(
            *(Spec(8), Spec(16)),
            *(Spec(16, originals="float16"), Spec(12, originals="float16"), Spec(8, originals="float16")),
        ),
        faiss=(
            *("IVF4096,PQ8np", "IVF4096,PQ16np", "IVF4096,PQ16x4fs", "IVF4096,PQ32x4fs"),
            *("IVF1024,PQ8np", "IVF1024,PQ16np", "IVF4096,RaBitQ", "IVF4096,RaBitQfs"),
            *("OPQ8_128,IVF4096,PQ8np", "OPQ16_128,IVF4096,PQ16np"),
            *("IVF16384_HNSW32,PQ8np", "IVF16384_HNSW32,PQ16np", "IVF4096,SQ4"),
        ),
        refined=("IVF4096,PQ32x4fs", "IVF4096,PQ16x4fs"),
        graphs=("hnswlib", "usearch", "svs"),
    ),
    # Default settings: the margins of `Index.build`, beside those of `calibrate(queries)` that the case above has.
    "sift-grown-1m-by-rows": Case(
        ours=(Spec(8, by_rows=True), Spec(16, by_rows=True), Spec(8), Spec(16)),
        faiss=("IVF4096,PQ8np", "IVF4096,PQ16np", "IVF4096,PQ16x4fs", "IVF4096,PQ32x4fs"),
        data="sift-grown-1m",
    ),
    "sift300k": Case(
        ours=(Spec(8), Spec(16), Spec(16, originals="float16")),
        faiss=(
            *("IVF1024,PQ8np", "IVF1024,PQ16np", "IVF1024,PQ16x4fs", "IVF1024,PQ32x4fs"),
            *("IVF4096,PQ8np", "IVF4096,PQ16np", "IVF1024,RaBitQ", "IVF1024,RaBitQfs", "IVF1024,SQ4"),
        ),
        refined=("IVF1024,PQ32x4fs", "IVF1024,PQ16x4fs"),
        graphs=("hnswlib", "usearch", "svs"),
    ),
    "text128k": Case(
        ours=(Spec(16), Spec(32), Spec(32, originals="float16")),
        faiss=(
            *("IVF256,PQ16np", "IVF256,PQ32np", "IVF256,PQ32x4fs", "IVF256,PQ64x4fs"),
            *("OPQ16_256,IVF256,PQ16np", "OPQ32_256,IVF256,PQ32np"),
            *("IVF1024,PQ16np", "IVF1024,PQ32np", "IVF256,RaBitQ", "IVF256,RaBitQfs", "IVF256,SQ4"),
        ),
        refined=("IVF256,PQ64x4fs",),
        graphs=("hnswlib", "usearch", "svs", "turbovec"),
    ),
    "spectrum768": Case(
        ours=(Spec(32), Spec(64), Spec(64, originals="float16")),
        faiss=(
            *("IVF256,PQ32np", "IVF256,PQ64np", "IVF256,PQ64x4fs", "IVF256,PQ128x4fs"),
            *("OPQ32_256,IVF256,PQ32np", "OPQ64_256,IVF256,PQ64np", "IVF256,RaBitQ", "IVF256,RaBitQfs", "IVF256,SQ4"),
        ),
        refined=("IVF256,PQ128x4fs",),
        graphs=("hnswlib",),
    ),
    "sift-grown-10m": Case(
        ours=(Spec(8),), faiss=("IVF16384_HNSW32,PQ8np", "IVF16384_HNSW32,PQ16x4fs", "IVF16384_HNSW32,PQ16np")
    ),
}
NEEDED_AT_LEAST = {"sift-grown-10m": 2}  # of the peers of faiss; the others are measured if the cache has them


def main(argv: list[str] | None = None) -> int:
    """Build, or measure the requested cases."""
    options = _parser().parse_args(argv)
    results = options.results or (RESULTS / "quick" if options.quick else RESULTS)
    started = time.perf_counter()

    def say(text: str) -> None:
        print(f"[{time.perf_counter() - started:7.1f} s] {text}", file=sys.stderr, flush=True)

    for name in options.only or CASES:
        path = results / f"{KIND}-{name}.json"
        if not options.build and options.resume and path.exists():
            say(f"{path.name} is there already")
            continue
        data = bench_sets.load(CASES[name].data or name, seed=options.seed, quick=options.quick, say=say)
        plan = curves.plan_for(len(data.x), seed=options.seed, quick=options.quick)
        case = fitting(CASES[name], len(data.x)) if options.quick else CASES[name]
        case = replace(case, ours=(*case.ours, *(options.ours or ())))
        folder = folder_of(data, quick=options.quick)
        with one_thread():
            found = _run(name, case, data, folder, plan, options, lambda text, name=name: say(f"{name}: {text}"))
        if found is not None:
            write_json(path, found)
            say(f"wrote {path.name}")
    return 0


def folder_of(data: bench_sets.BenchSet, *, quick: bool) -> Path:
    """Indexes of a set in the cache."""
    return cache_folder() / ("partitions-quick" if quick else "partitions") / f"{data.name}-seed{data.seed}"


def fitting(case: Case, n_rows: int) -> Case:
    """Lists that a small set can fill, for --quick."""

    def small(text: str) -> str:
        lists = ivf_peers.Factory(text).lists
        return text.replace(f"IVF{lists}", f"IVF{min(lists, max(16, n_rows // 300))}")

    return Case(case.ours, tuple(dict.fromkeys(map(small, case.faiss))), tuple(map(small, case.refined)), case.graphs)


def _run(
    name: str,
    case: Case,
    data: bench_sets.BenchSet,
    folder: Path,
    plan: curves.CurvePlan,
    options: argparse.Namespace,
    say: Callable[[str], None],
) -> dict[str, Any] | None:
    began, environment = time.perf_counter(), machine.environment()
    if options.build:
        build(case, data, folder, plan, options, say)
        return None
    needed = 0 if options.cached else NEEDED_AT_LEAST.get(name, len(case.faiss))
    loaded, left_out = load(case, data, folder, plan, options, say, needed)
    measured = curves.measured(loaded, data, plan, say)
    return {
        "format": FORMAT,
        "kind": KIND,
        "quick": options.quick,
        "data": {
            "name": name if CASES[name].data else data.name,
            "description": data.description,
            "generated": data.generated,
            "metric": data.metric,
            "rows": len(data.x),
            "dim": data.x.shape[1],
            "queries": len(data.queries),
            "seed": data.seed,
        },
        "environment": environment | {"load_at_end": round(machine.load(), 2)},
        "simd": _native.simd_level(),
        "libraries": {one: library.installed() for one, library in graph_peers.LIBRARIES.items()},
        "left_out": left_out,
        "protocol": plan.as_json(),
        "methods": measured,
        "seconds": round(time.perf_counter() - began, 1),
    }


def build(
    case: Case,
    data: bench_sets.BenchSet,
    folder: Path,
    plan: curves.CurvePlan,
    options: argparse.Namespace,
    say: Callable[[str], None],
) -> None:
    """Everything of a case, into the cache."""
    for text in case.faiss:
        ivf_peers.ensure(text, data, folder, plan, say)
    for name in case.graphs:
        graph_peers.ensure(name, data, folder, plan, say)
    if not options.peers:
        for spec in case.ours:
            partition_ours.ensure(spec, data, folder, plan, say, any_version=options.any_version)


def load(
    case: Case,
    data: bench_sets.BenchSet,
    folder: Path,
    plan: curves.CurvePlan,
    options: argparse.Namespace,
    say: Callable[[str], None],
    needed: int,
) -> tuple[list[curves.Curve], dict[str, str]]:
    """Curves of all indexes, and why peers have none; the first ``needed`` ones of faiss are built if missing."""
    found: list[curves.Curve] = []
    left_out: dict[str, str] = {}

    def leave_out(name: str, why: str) -> None:
        left_out[name] = why
        say(f"{name} is left out: {why}")

    for spec in case.ours:
        partition_ours.ensure(spec, data, folder, plan, say, any_version=options.any_version)
        found.append(partition_ours.curve(spec, data, folder, plan, any_version=options.any_version))
    absent = "not in the cache, and --cached builds no peer" if options.cached else "not in the cache"
    there = []
    for at, text in enumerate(case.faiss):
        if at < needed:
            ivf_peers.ensure(text, data, folder, plan, say)
        if ivf_peers.is_there(text, folder, plan):
            found.append(ivf_peers.curve(text, data, folder, plan))
            there.append(text)
        else:
            leave_out(ivf_peers.title(text), absent)
    if refined := [text for text in case.refined if text in there]:
        flat = ivf_peers.flat_rows(data)
        found += [ivf_peers.refined(text, data, folder, plan, flat) for text in refined]
    for text in case.refined:
        if text not in there:
            leave_out(ivf_peers.refined_title(text), f"{ivf_peers.title(text)} is {absent}")
    for name in case.graphs:
        library = graph_peers.LIBRARIES[name]
        if library.installed() is None:
            leave_out(library.title, "not installed")
        elif options.cached and not graph_peers.is_there(name, folder):
            leave_out(library.title, absent)
        else:
            graph_peers.ensure(name, data, folder, plan, say)
            found.append(graph_peers.curve(name, data, folder))
    for name, library in graph_peers.LIBRARIES.items():
        if name not in case.graphs:
            left_out[library.title] = "not a peer of this case"
    return found, left_out


def spec(text: str) -> Spec:
    """An index of ours from ``BYTES[:LAYOUT[:CELLS]]``."""
    try:
        n_bytes, layout, cells, *rest = [*text.split(":"), "", ""][: max(3, text.count(":") + 1)]
        if rest:
            raise ValueError
        return Spec(int(n_bytes), layout or "auto", int(cells) if cells else None)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not BYTES[:LAYOUT[:CELLS]], such as 16:hybrid:4096") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", action="store_true", help="only fill the cache; times nothing")
    parser.add_argument("--peers", action="store_true", help="with --build: without our own indexes")
    parser.add_argument("--cached", action="store_true", help="leave out peers that are not in the cache")
    parser.add_argument("--any-version", action="store_true", help="take our cached indexes of older code as well")
    parser.add_argument("--ours", type=spec, action="append", help="also this index of ours: BYTES[:LAYOUT[:CELLS]]")
    parser.add_argument("--quick", action="store_true", help="20,000 rows, into results/quick: does it run?")
    parser.add_argument("--resume", action="store_true", help="leave out the cases whose JSON is there")
    parser.add_argument("--only", choices=list(CASES), action="append", help="this set; may be given again")
    parser.add_argument("--results", type=Path, help="folder of the JSON (default: benchmarks/results)")
    parser.add_argument("--seed", type=int, default=0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
