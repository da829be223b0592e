"""What a filter costs: searches of 1e-5 to all of the rows against the unfiltered exact scan of the same index.

    python benchmarks/filters.py [--quick]

Writes benchmarks/results/filters.json. One thread, k = 10, exact, all layouts. A batch is one call of 1,000 queries,
the filter made ready in it; ``single`` are calls of one query, each of which makes the filter ready; ``ready`` are such
calls with a filter that ``Index.allow`` made ready before. The unfiltered scan is timed in turns with each of them, by
the time of the processor, and ratios are medians over rounds. Recall is that against the exhaustive scan of the rows
allowed.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import bench_sets
import interlace as il
import machine
from measure import one_thread, quiet
from peers import RESULTS, write

FORMAT = 1
N_BYTES, K, QUERIES, SINGLES, ORDERED = 8, 10, 1000, 50, 50
SELECTIVITIES = (1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.2, 0.5, 1.0)
LAYOUTS = ("subspace", "hybrid", "residual")
#: Target: speed-up over an unfiltered scan in a batch if 1 % of the rows are allowed.
BAR = {"selectivity": 1e-2, "batch": 5.0}


def say(text: str) -> None:
    """Progress, to people."""
    print(text, file=sys.stderr, flush=True)


def seconds(act: Callable[[], Any]) -> float:
    """Of the processor, for one call."""
    with quiet():
        started = time.process_time()
        act()
        return time.process_time() - started


def ratio(plain: Callable[[], Any], filtered: Callable[[], Any], rounds: int) -> float:
    """How many times as long the plain one takes; both in turns."""
    filtered()
    return median(seconds(plain) / seconds(filtered) for _ in range(rounds))


def measured(index: il.Index, queries: Any, order: Any, share: float, rounds: int) -> dict[str, Any]:
    """One selectivity; ``order`` has all rows by the exhaustive scan, for some of the queries."""
    n = len(index)
    mask = np.zeros(n, bool)
    mask[np.random.default_rng(1).choice(n, max(1, round(share * n)), replace=False)] = True
    ready = index.allow(mask)
    singles = queries[:SINGLES]

    def one_by_one(allowed: Any) -> Callable[[], None]:
        return lambda: [index.search(q, K, margin="exact", threads=1, filter=allowed) for q in singles] and None

    found = index.search(queries, K, margin="exact", threads=1, filter=mask)
    hits = agreed = 0
    for i, rows in enumerate(order):
        expected = rows[mask[rows]][:K]
        hits += len(expected)
        agreed += len(np.intersect1d(expected, found.ids[i]))
    return {
        "selectivity": share,
        "rows": int(mask.sum()),
        "copied": ready.filters[0].copied,
        "ready_ms": round(1e3 * median(seconds(lambda: index.allow(mask)) for _ in range(rounds)), 4),
        "unfiltered/batch": round(
            ratio(
                lambda: index.search(queries, K, margin="exact", threads=1),
                lambda: index.search(queries, K, margin="exact", threads=1, filter=mask),
                rounds,
            ),
            3,
        ),
        "unfiltered/single": round(ratio(one_by_one(None), one_by_one(mask), rounds), 3),
        "unfiltered/ready": round(ratio(one_by_one(None), one_by_one(ready), rounds), 3),
        "scanned_per_query": found.stats.scanned / len(queries),
        "recall": agreed / hits,
        "least_hits": int(found.counts.min()),
    }


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small: see that it runs")
    args = parser.parse_args()
    data = bench_sets.load("sift300k", seed=0, quick=args.quick, say=say)
    queries, rounds = data.queries[:QUERIES], 2 if args.quick else 5
    found: dict[str, Any] = {
        "format": FORMAT,
        "kind": "filters",
        "quick": args.quick,
        "environment": machine.environment(),
        "data": {"name": data.name, "rows": len(data.x), "dim": data.x.shape[1], "queries": len(queries)},
        "n_bytes": N_BYTES,
        "k": K,
        "bar": BAR,
        "layouts": {},
    }
    with one_thread():
        for layout in LAYOUTS:
            say(f"learning {layout}")
            index = il.Index.build(data.x, n_bytes=N_BYTES, layout=layout, threads=1)
            index.search(queries, K, margin="exact", threads=1)
            plain = median(
                seconds(lambda i=index: i.search(queries, K, margin="exact", threads=1)) for _ in range(rounds)
            )
            order = index.search(queries[:ORDERED], len(index), margin=math.inf, threads=1).ids
            lines = []
            for share in SELECTIVITIES:
                lines.append(measured(index, queries, order, share, rounds))
                say(f"{layout} {lines[-1]}")
            found["layouts"][layout] = {
                "codebooks": repr(index.codebooks),
                "unfiltered_us": round(1e6 * plain / len(queries), 2),
                "selectivities": lines,
            }
    found["load_at_end"] = round(machine.load(), 2)
    write((RESULTS / "quick" if args.quick else RESULTS) / "filters.json", found)


if __name__ == "__main__":
    main()
