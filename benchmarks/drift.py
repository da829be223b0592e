"""Drift of a store: recall of its codebooks and of new codebooks, for rows that have changed.

    python benchmarks/drift.py [--quick]

Writes benchmarks/results/drift.json. Codebooks are learned from the first half of the rows. The other half is
changed by permuting some dimensions, added to a store, and also indexed alone: with the old codebooks and with new
ones. Nothing is timed, so the load of the machine does not matter.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import bench_sets
import interlace as il
import machine
from measure import one_thread
from peers import RESULTS, write

MOVED = (0, 4, 8, 16, 32, 64, 128)
N_BYTES, ROWS, QUERIES, K = 8, 60_000, 500, 10


def say(text: str) -> None:
    """Progress, to people."""
    print(text, file=sys.stderr, flush=True)


def settings() -> dict[str, Any]:
    """How books are learned."""
    return {"n_bytes": N_BYTES, "layout": "hybrid", "max_train_rows": 20_000, "threads": 1}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small: see that it runs")
    args = parser.parse_args()
    warnings.simplefilter("ignore", il.RelearnWarning)
    data = bench_sets.load("sift300k", seed=0, quick=args.quick, say=say)
    x = np.asarray(data.x[: 6000 if args.quick else ROWS])
    half, rng, found = len(x) // 2, np.random.default_rng(0), []
    with one_thread(), tempfile.TemporaryDirectory(prefix="interlace-drift-") as folder:
        before = il.Index.build(x[:half], **settings())
        for moved in (m for m in MOVED if m <= x.shape[1]):
            dims, rows = rng.choice(x.shape[1], moved, replace=False), x[half:].copy()
            rows[:, dims] = rows[:, np.roll(dims, 1)]
            store = il.create(Path(folder) / str(moved), before)
            store.add(rows, threads=1)
            old, new = il.Index(before.codebooks), il.Index.build(rows, **settings())
            old.add(rows, threads=1)
            recalls = [i.evaluate(k=K, x=rows, sample=QUERIES, margin="exact", threads=1).recall[K] for i in (old, new)]
            names = ("recall_old_books", "recall_new_books", "ratio")
            values = (*recalls, recalls[0] / recalls[1])
            found.append({"moved_dims": moved, "drift": round(float(store.health().drift or 0), 3)})
            found[-1] |= {name: round(value, 4) for name, value in zip(names, values, strict=True)}
            say(str(found[-1]))
            store.close()
    result = {
        "format": 1,
        "kind": "drift",
        "quick": args.quick,
        "environment": machine.environment(),
        "data": {"name": data.name, "rows": len(x), "dim": x.shape[1]},
        "n_bytes": N_BYTES,
        "k": K,
        "results": found,
    }
    write((RESULTS / "quick" if args.quick else RESULTS) / "drift.json", result)


if __name__ == "__main__":
    main()
