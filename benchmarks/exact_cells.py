"""The exact margin of `hybrid` with different numbers of cells, against FastScan of the same bytes.

    python benchmarks/exact_cells.py --build     # into the cache; may run on a busy machine
    python benchmarks/exact_cells.py             # the measurement: one idle core; processor time
    python benchmarks/exact_cells.py --quick     # small sizes, to see that it runs

An exact search bounds every cell, and makes the tables of each that it visits: many cells help the calibrated margin
and the recall of the codes, few cells help this one. Writes exact-cells.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_sets
import faiss_peers
import interlace as il
import machine
import ours
from bench_sets import BenchSet
from cache import cache_folder, finish, partial, write_json
from interlace import _native
from interlace.evaluate.answers import recall
from measure import one_thread, race
from partition_ours import code_version
from partitions import RESULTS
from plan import Plan, plan_for

FORMAT, KIND = 1, "exact-cells"
SET, BYTES, CELLS, K = "sift-grown-1m", (8, 16), (256, 4096), 10
TASKS = (("batch", K), ("single", K))
Say = Callable[[str], None]


def main(argv: list[str] | None = None) -> int:
    """Build, or measure and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", action="store_true", help="only build what the cache lacks")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--results", type=Path, help="folder of the JSON (default: benchmarks/results)")
    options = parser.parse_args(argv)
    started = time.perf_counter()

    def say(text: str) -> None:
        print(f"[{time.perf_counter() - started:7.1f} s] {text}", file=sys.stderr, flush=True)

    data = bench_sets.load(SET, seed=0, quick=options.quick, say=say)
    plan = plan_for(*data.x.shape, seed=0, quick=options.quick, everything=False)
    with one_thread():
        lines = []
        for n_bytes in BYTES[:1] if options.quick else BYTES:
            indexes = {cells: _index(data, n_bytes, cells, plan, say) for cells in _cells(options.quick)}
            if not options.build:
                lines += _measured(data, n_bytes, indexes, plan, say)
    if not options.build:
        path = (options.results or (RESULTS / "quick" if options.quick else RESULTS)) / f"{KIND}.json"
        write_json(path, _found(lines, data, plan))
        say(f"wrote {path.name}")
    return 0


def _cells(quick: bool) -> tuple[int, ...]:
    return (256, 512) if quick else CELLS


def _index(data: BenchSet, n_bytes: int, cells: int, plan: Plan, say: Say) -> il.Index:
    """An index with defaults but for its cells; from the cache if it is there."""
    path = cache_folder() / KIND / f"{data.name}-{len(data.x)}-{n_bytes}-{cells}-{code_version()}"
    if not path.exists():
        say(f"building {n_bytes} bytes, {cells} cells")
        written = partial(path)
        keywords: dict[str, Any] = {"n_bytes": n_bytes, "layout": "hybrid", "cells": cells}
        il.Index.build(data.x, **keywords, max_train_rows=plan.train_rows, seed=0, threads=1).save(written)
        finish(written, path)
    return il.open(path)


def _measured(data: BenchSet, n_bytes: int, indexes: dict[int, il.Index], plan: Plan, say: Say) -> list[dict[str, Any]]:
    """One line for each index and for FastScan, all timed in the same rounds."""
    fast_scan = faiss_peers.fast_scan(data, n_bytes, ours.training_rows(len(data.x), plan), plan)
    methods = {
        cells: ours.method(index, "exact", plan.timed, name=f"hybrid, {cells} cells")
        for cells, index in indexes.items()
    }
    rates = race([*methods.values(), fast_scan], data.queries, plan.rounds, TASKS, say, clock=time.process_time)
    queries, truth = data.queries[: plan.answered], data.truth[: plan.answered]
    lines = []
    for cells, method in [*methods.items(), (None, fast_scan)]:
        us = {mode: round(1e6 / rates[method.key][f"{mode}@{K}"]["median"], 1) for mode, _ in TASKS}
        found = {"name": method.facts["name"], "n_bytes": n_bytes, "cells": cells, "us": us}
        found["recall"] = round(recall(method.answers(queries, K), truth, K), 4)
        if cells is not None:
            stats = indexes[cells].search(queries, K, margin="exact", threads=1).stats
            found["scanned_share"] = round(stats.scanned / (len(queries) * len(data.x)), 4)
            found["bytes_per_vector"] = round(indexes[cells].report().code_bytes_per_vector, 4)
        else:
            found["bytes_per_vector"] = method.facts["bytes_per_vector"]
        lines.append(found)
    return lines


def _found(lines: list[dict[str, Any]], data: BenchSet, plan: Plan) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "kind": KIND,
        "quick": plan.quick,
        "data": {"name": data.name, "description": data.description, "rows": len(data.x), "dim": data.x.shape[1]},
        "environment": machine.environment() | {"load_at_end": round(machine.load(), 2)},
        "simd": _native.simd_level(),
        "code": code_version(),
        "protocol": plan.as_json() | {"ks": [K], "clock": "processor time of the process"},
        "results": lines,
    }


if __name__ == "__main__":
    sys.exit(main())
