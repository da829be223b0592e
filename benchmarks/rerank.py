"""Re-ranking: a store with kept originals compared with faiss PQFastScan and RefineFlat, at equal code bytes.

    python benchmarks/rerank.py [--quick]     # about 4 minutes on an idle core: one minute of timing, the rest builds

Writes benchmarks/results/rerank.json: recall@10 and queries per second of every depth and of `recall=`, all methods in
one process, in interleaved rounds, on one thread. faiss refines with float32 rows in memory, four bytes per dimension;
the store with float16 or int8 rows of a mapped file. Depths of faiss are on a fixed grid; the depth of `recall=`
is chosen by the calibration of the store on its own rows, not on the queries.

A re-ranked row costs what a search that re-ranks 100 rows takes more than one that only finds these 100 by their codes,
divided by 100; and, where keeping more candidates counts as well, the difference of re-ranking 800 and 100, divided by
700. Both are processor time, in a batch and alone.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np

import bench_sets
import faiss_peers
import interlace as il
import machine
from interlace.evaluate.answers import recall
from measure import Method, one_thread, race, task_name
from peers import RESULTS, write

FORMAT = 1
N_BYTES, K, TRAIN, HELD_OUT = 8, 10, 100_000, 2000
DEPTHS = (50, 100, 150, 200, 300, 400, 600, 800)
RECALLS = (0.8, 0.9, 0.95, 0.98)
TASK = ("batch", K)
SHALLOW, DEEP, MARGIN = 100, 800, 0.99  # depths that tell the cost of a row; from 100 on the cells visited are the same
COST_TASKS = (("batch", K), ("single", K))
DEPTH_OF = {"shallow": SHALLOW, "deep": DEEP}
FAISS = "faiss PQFastScan + RefineFlat"
Costs = dict[str, dict[str, Method]]  # by method: codes only, shallow, deep


def say(text: str) -> None:
    """Progress, to people."""
    print(text, file=sys.stderr, flush=True)


def ours(data: bench_sets.BenchSet, folder: Path, n_timed: int) -> tuple[list[Method], Costs]:
    """Depths of both kinds of originals, and the depth chosen for a recall; then what tells the cost of a row."""
    index = il.Index.build(data.x[HELD_OUT:], n_bytes=N_BYTES, layout="hybrid", max_train_rows=TRAIN, threads=1)
    methods: list[Method] = []
    costs: Costs = {}
    for kind in ("float16", "int8"):
        store = il.create(folder / kind, index.codebooks, originals=kind)
        store.add(data.x, threads=1)
        store.compact()
        say(f"calibrating {kind}")
        store.calibrate(threads=1)
        settings: list[dict[str, Any]] = [{"rerank": depth, "margin": MARGIN} for depth in DEPTHS]
        for given in [*settings, *({"recall": r} for r in RECALLS)]:

            def search(q: bench_sets.FloatArray, k: int, s: il.Store = store, g: dict[str, Any] = given) -> Any:
                return s.search(q, k, threads=1, **g).ids

            options = {"recall_asked" if name == "recall" else name: value for name, value in given.items()}
            facts = {"method": f"interlace {kind}", **options, "code_bytes": N_BYTES}
            methods.append(Method(f"interlace {kind} {given}", search, n_timed, facts=facts))

        def codes(q: bench_sets.FloatArray, k: int, s: il.Store = store) -> Any:
            return s.search(q, SHALLOW, threads=1, margin=MARGIN).ids

        found = {name: m for m in methods for name, depth in DEPTH_OF.items() if m.key == _key(kind, depth)}
        costs[f"interlace {kind}"] = {"codes": Method(f"interlace {kind} codes", codes, n_timed), **found}
    return methods, costs


def _key(kind: str, depth: int) -> str:
    return f"interlace {kind} { ({'rerank': depth, 'margin': MARGIN}) }"


def theirs(data: bench_sets.BenchSet, n_timed: int) -> tuple[list[Method], Costs]:
    """RefineFlat over PQFastScan, at the best level of faiss here."""
    codes = faiss.IndexPQFastScan(data.x.shape[1], 2 * N_BYTES, 4)
    codes.pq.cp.max_points_per_centroid = TRAIN
    index = faiss.IndexRefineFlat(codes)
    faiss_peers.set_level(faiss_peers.best_level())
    index.train(data.x[HELD_OUT : HELD_OUT + TRAIN])
    index.add(data.x)
    methods = []
    for depth in DEPTHS:

        def prepare(mode: str, k: int, d: int = depth) -> None:
            faiss_peers.set_level(faiss_peers.best_level())
            index.k_factor = d / k

        facts = {"method": FAISS, "rerank": depth, "code_bytes": N_BYTES}
        methods.append(Method(f"faiss {depth}", lambda q, k: index.search(q, k)[1], n_timed, prepare, facts))
    found = {name: m for m in methods for name, depth in DEPTH_OF.items() if m.key == f"faiss {depth}"}
    only = Method("faiss codes", lambda q, k: codes.search(q, SHALLOW)[1], n_timed, methods[0].prepare)
    return methods, {FAISS: {"codes": only, **found}}


def per_row(us: dict[str, float]) -> dict[str, float]:
    """Microseconds of one re-ranked row, from those of a query by codes only and at two depths."""
    return {
        f"at {SHALLOW}": round((us["shallow"] - us["codes"]) / SHALLOW, 4),
        f"{SHALLOW} to {DEEP}": round((us["deep"] - us["shallow"]) / (DEEP - SHALLOW), 4),
    }


def row_costs(costs: Costs, queries: bench_sets.FloatArray, rounds: int) -> list[dict[str, Any]]:
    """A line for each method and mode."""
    methods = [m for by_name in costs.values() for m in by_name.values()]
    rates = race(methods, queries, rounds, COST_TASKS, say, clock=time.process_time, warm=True)
    lines = []
    for name, by_name in costs.items():
        for mode, k in COST_TASKS:
            us = {what: round(1e6 / rates[m.key][task_name(mode, k)]["median"], 2) for what, m in by_name.items()}
            lines.append({"method": name, "mode": mode, "us": us, "us_per_row": per_row(us)})
    return lines


def at_least(found: list[dict[str, Any]], method: str, wanted: float) -> dict[str, Any] | None:
    """The fastest line of a method with such a recall."""
    lines = [line for line in found if line["method"] == method and line["recall"] >= wanted]
    return max(lines, key=lambda line: line["qps"]["median"], default=None)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small: see that it runs")
    args = parser.parse_args()
    began = time.perf_counter()
    data = bench_sets.load("sift300k", seed=0, quick=args.quick, say=say)
    folder = Path(tempfile.mkdtemp(prefix="interlace-rerank-"))
    try:
        with one_thread():
            environment = machine.environment()
            (methods, costs), (others, their_costs) = ours(data, folder, 500), theirs(data, 500)
            methods += others
            found = [
                {**m.facts, "recall": round(recall(np.asarray(m.answers(data.queries, K)), data.truth, K), 5)}
                for m in methods
            ]
            rates = race(methods, data.queries, 2 if args.quick else 7, (TASK,), say)
            for line, method in zip(found, methods, strict=True):
                line["qps"] = rates[method.key][task_name(*TASK)]
                say(f"{method.key}: recall {line['recall']}, {line['qps']['median']:.0f} queries per second")
            rows = row_costs(costs | their_costs, data.queries, 2 if args.quick else 7)
            say(f"microseconds of a re-ranked row: {rows}")
        bars: dict[str, Any] = {}
        for wanted in (0.9, 0.95, 0.98):
            names = ("interlace float16", "interlace int8", FAISS)
            best = {name: at_least(found, name, wanted) for name in names}
            peer = best[names[-1]]
            bars[str(wanted)] = {
                name: None if line is None or peer is None else round(line["qps"]["median"] / peer["qps"]["median"], 3)
                for name, line in best.items()
            }
        say(f"times as fast as faiss at a recall of at least: {bars}")
        result = {
            "format": FORMAT,
            "kind": "rerank",
            "quick": args.quick,
            "environment": environment,
            "data": {"name": data.name, "rows": len(data.x), "dim": data.x.shape[1], "queries": len(data.queries)},
            "k": K,
            "methods": found,
            "ratio_to_faiss_at_recall": bars,
            "row_costs": rows,
            "seconds": round(time.perf_counter() - began, 1),
            "load_at_end": round(machine.load(), 2),
        }
        write((RESULTS / "quick" if args.quick else RESULTS) / "rerank.json", result)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
