"""Recall and speed at equal bytes of every layout, number of crude books and margin, and of the peers.

    python benchmarks/front.py [--quick] [--set sift300k] [--bytes 8]

One race in one process, one thread, k = 10; `python benchmarks/report.py` draws it.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import bench_sets
import faiss_peers
import machine
import ours
from interlace import Index, _native
from interlace.codec.codebooks import Codebooks
from interlace.evaluate.answers import recall
from measure import Method, one_thread, race
from peers import RESULTS, write
from plan import plan_for

FORMAT = 1
MARGINS: tuple[float | str, ...] = ("exact", 0.999, 0.99)
ROUNDS = 5


def main(argv: list[str] | None = None) -> int:
    """Build, measure recall and speed, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows, into results/quick: does it run?")
    parser.add_argument("--set", default="sift300k", help="data set (default: sift300k)")
    parser.add_argument("--bytes", type=int, default=8)
    parser.add_argument("--results", type=Path, help="folder of the JSON (default: benchmarks/results)")
    options = parser.parse_args(argv)
    data = bench_sets.load(options.set, seed=0, quick=options.quick, say=lambda text: print(text, file=sys.stderr))
    plan = plan_for(*data.x.shape, seed=0, quick=options.quick, everything=False)
    train = ours.training_rows(len(data.x), plan)
    with one_thread():
        methods = []
        for layout in ours.LAYOUTS:
            print(f"building {layout}", file=sys.stderr)
            index, _ = ours.build(data, options.bytes, layout, plan)
            methods += _variants(index, data, plan)
        peers = [
            builder(data, options.bytes, train, plan) for builder in (faiss_peers.fast_scan, faiss_peers.product_codes)
        ]
        for peer in peers:
            found = peer.answers(data.queries[: plan.answered], 10)
            peer.facts["recall"] = round(recall(found, data.truth[: plan.answered], 10), 5)
        rates = race([*methods, *peers], data.queries, ROUNDS, tasks=(("batch", 10), ("single", 10)))
    fastest = rates[faiss_peers.FASTSCAN]
    lines: list[dict[str, Any]] = []
    for method in [*methods, *peers]:
        speeds = {mode: rates[method.key][f"{mode}@10"]["median"] for mode in ("batch", "single")}
        ratios = {mode: round(speeds[mode] / fastest[f"{mode}@10"]["median"], 4) for mode in speeds}
        kept = {n: v for n, v in method.facts.items() if n not in ("build", "notes")}
        lines.append(kept | {"qps": speeds, "ratios": ratios})
    results = options.results or (RESULTS / "quick" if options.quick else RESULTS)
    write(
        results / f"front-{data.name}-{options.bytes}.json",
        {
            "format": FORMAT,
            "kind": "front",
            "data": {"name": data.name, "rows": len(data.x), "dim": data.x.shape[1]},
            "n_bytes": options.bytes,
            "quick": options.quick,
            "environment": machine.environment(),
            "simd": _native.simd_level(),
            "methods": lines,
        },
    )
    return 0


def _variants(index: Index, data: bench_sets.BenchSet, plan: Any) -> list[Method]:
    """The same codes with other numbers of crude books, calibrated on the same rows."""
    codes = index.engine.codes_of(np.arange(len(index)))
    arrays, description = index.codebooks.to_arrays()
    n_books = index.codebooks.n_books
    held_out = np.setdiff1d(np.arange(len(data.x)), ours.training_rows(len(data.x), plan))[:2000]
    out = []
    for n_crude in sorted({max(2, n_books // 2), index.codebooks.n_crude, n_books}):
        variant = Index.from_codes(Codebooks.from_arrays(arrays, description | {"n_crude": n_crude}), codes)
        engine = variant.engine
        engine = engine.with_calibration(engine.calibrated(data.x[held_out], held_out))
        variant = Index.of(replace(variant.searcher, engine=engine))
        for margin in MARGINS:
            method = ours.method(variant, margin, plan.timed)
            method.key = f"{method.key} {n_crude}"
            answers = variant.search(data.queries[: plan.answered], 10, margin=margin, threads=1)
            method.facts |= {
                "n_crude": n_crude,
                "recall": round(recall(answers, data.truth[: plan.answered], 10), 5),
                "bytes_per_vector": round(variant.report().code_bytes_per_vector, 4),
            }
            out.append(method)
    return out


if __name__ == "__main__":
    sys.exit(main())
