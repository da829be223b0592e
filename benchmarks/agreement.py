"""Measured agreement of calibrated margins, on data and queries that are hard for them.

    python benchmarks/agreement.py [--quick]

Writes benchmarks/results/agreement.json. `Index.build` calibrates the margin of each index; then other queries are
searched with each target and exactly. The loss is the share of the k rows of the exact answer that are missing in the
other one. Nothing is timed, so the load of the machine does not matter.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import datasets
import interlace as il
import machine
from peers import RESULTS, write

LAYOUTS = ("subspace", "hybrid", "residual")
KS, TARGETS = (1, 10, 100), (0.99, 0.999)
N_BYTES, QUERIES, DIM = 8, 5000, 32
Rows = NDArray[np.float32]


def say(text: str) -> None:
    """Print progress."""
    print(text, file=sys.stderr, flush=True)


def clusters(n: int, seed: int, spread: float = 1.0, centres_seed: int = 0) -> Rows:
    """Rows around 300 centres."""
    centres = np.random.default_rng(centres_seed).normal(size=(300, DIM)) * 3
    rng = np.random.default_rng(seed)
    return (centres[rng.integers(300, size=n)] + spread * rng.normal(size=(n, DIM))).astype(np.float32)


def cases(quick: bool) -> Iterator[tuple[str, Rows, dict[str, Rows]]]:
    """Data sets with their rows and kinds of queries."""
    m, rng = (500 if quick else QUERIES), np.random.default_rng(7)
    n = 12_000 if quick else 60_000
    fresh = clusters(m, 2)
    yield (
        "clusters",
        clusters(n, 1),
        {
            "fresh": fresh,
            "between two rows": (clusters(m, 3) + clusters(m, 4)) / 2,
            "twice the spread": clusters(m, 3, spread=2.0),
            "other centres": clusters(m, 3, centres_seed=9),
            "half the length": clusters(m, 5) / 2,
            "normal, no clusters": (3 * rng.normal(size=(m, DIM))).astype(np.float32),
            "rows of the index": clusters(n, 1)[:m],
        },
    )
    yield "clusters, every row twice", np.concatenate([clusters(n // 2, 1)] * 2), {"fresh": fresh}
    yield "clusters, 30 copies of each row", np.repeat(clusters(n // 30, 1), 30, axis=0), {"fresh": fresh}
    normal = rng.normal(size=(n + m, DIM)).astype(np.float32)
    yield "isotropic normal", normal[m:], {"fresh": normal[:m], "half the length": normal[:m] / 2}
    data = datasets.load("sift300k", seed=0, quick=quick, say=say)
    x = np.asarray(data.x, np.float32)
    rows, others = x[4 * m :], x[: 4 * m].reshape(4, m, -1)
    yield (
        data.name,
        rows,
        {
            "fresh": others[0],
            "other photographs": np.asarray(data.queries, np.float32),
            "between two rows": (others[1] + others[2]) / 2,
            "shuffled dimensions": others[3][:, rng.permutation(x.shape[1])],
            "half the length": others[3] / 2,
        },
    )


def measured(index: Any, name: str, layout: str, kind: str, queries: Rows) -> list[dict[str, Any]]:
    """One entry for each k and target."""
    found = []
    for k in KS:
        exact = index.search(queries, k, margin="exact")
        for target in TARGETS:
            got = index.search(queries, k, margin=target)
            same = [len(np.intersect1d(a, b)) for a, b in zip(got.ids, exact.ids, strict=True)]
            loss = 1 - np.array(same) / k
            found.append(
                {
                    "data": name,
                    "rows": len(index),
                    "layout": layout,
                    "queries": kind,
                    "n_queries": len(queries),
                    "k": k,
                    "target": target,
                    "agreement": round(1 - float(loss.mean()), 6),
                    "half_interval": round(1.96 * float(loss.std()) / math.sqrt(len(loss)), 6),  # 95 %
                    "exact": got.stats.margin.startswith("exact"),
                    "unlike": got.stats.unlike,
                    "scanned": round(got.stats.scanned / len(queries) / len(index), 4),
                    "scanned_exact": round(exact.stats.scanned / len(queries) / len(index), 4),
                }
            )
    return found


def shrunk(index: Any, layout: str, queries: Rows) -> list[dict[str, Any]]:
    """The same for a store compacted to a half and to a twentieth of its rows, with its original calibration."""
    found = []
    for share in (0.5, 0.05):
        with tempfile.TemporaryDirectory(prefix="interlace-agreement-") as folder:
            store = index.to_store(f"{folder}/store")
            n = len(store)
            store.remove(np.random.default_rng(0).permutation(n)[int(share * n) :])
            store.compact()
            found += measured(store, f"clusters, compacted to {share:.0%}", layout, "fresh", queries)
            store.close()
    return found


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small: see that it runs")
    args = parser.parse_args()
    warnings.simplefilter("ignore", il.CalibrationWarning)
    found: list[dict[str, Any]] = []
    for name, x, asked in cases(args.quick):
        for layout in LAYOUTS:
            index = il.Index.build(x, n_bytes=N_BYTES, layout=layout, max_train_rows=15_000, iterations=3)
            for kind, queries in asked.items():
                found += measured(index, name, layout, kind, queries)
            if name == "clusters":
                found += shrunk(index, layout, asked["fresh"])
            broken = sum(e["agreement"] + e["half_interval"] < e["target"] for e in found)
            say(f"{name}, {layout}: {len(found)} measured, {broken} below their target by more than their interval")
    result = {
        "format": 1,
        "kind": "agreement",
        "quick": args.quick,
        "environment": machine.environment(),
        "n_bytes": N_BYTES,
        "results": found,
    }
    write((RESULTS / "quick" if args.quick else RESULTS) / "agreement.json", result)


if __name__ == "__main__":
    main()
