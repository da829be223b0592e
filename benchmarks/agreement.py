"""Measured agreement of calibrated margins, on data and queries that are hard for them.

    python benchmarks/agreement.py [--quick] [--resume] [--only sift300k] [--layout hybrid] [--list]

Writes one JSON for each data set and layout into benchmarks/results/agreement. `Index.build` calibrates the margin of
each index; then other queries are searched with each target and exactly. The loss is the share of the k rows of the
exact answer that are missing in the other one. A violation is an agreement below its target whose 95 % interval is
below it as well. Nothing is timed, so the load of the machine does not matter.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bench_sets
import interlace as il
import machine
from cache import write_json
from interlace import data as data_sets
from peers import RESULTS

FORMAT, KIND = 1, "agreement"
LAYOUTS = ("subspace", "hybrid", "residual")
KS, TARGETS = (1, 10, 100), (0.99, 0.999, 0.9999)
N_BYTES, QUERIES, DIM = 8, 5000, 32
TRAIN = {"max_train_rows": 15_000, "iterations": 3}  # worse codes than by default, the same calibration
Rows = NDArray[np.float32]
Queries = dict[str, Rows]


def say(text: str) -> None:
    """Print progress."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Slice:
    """Rows, and queries of each kind that have no part in building."""

    rows: NDArray[Any]
    queries: Queries
    metric: str = "l2"


def clusters(n: int, seed: int, spread: float = 1.0, centres_seed: int = 0) -> Rows:
    """Rows around 300 centres."""
    centres = np.random.default_rng(centres_seed).normal(size=(300, DIM)) * 3
    rng = np.random.default_rng(seed)
    return (centres[rng.integers(300, size=n)] + spread * rng.normal(size=(n, DIM))).astype(np.float32)


def _clustered(m: int, n: int, quick: bool) -> Slice:
    rng = np.random.default_rng(7)
    queries = {
        "fresh": clusters(m, 2),
        "between two rows": (clusters(m, 3) + clusters(m, 4)) / 2,
        "twice the spread": clusters(m, 3, spread=2.0),
        "other centres": clusters(m, 3, centres_seed=9),
        "half the length": clusters(m, 5) / 2,
        "normal, no clusters": (3 * rng.normal(size=(m, DIM))).astype(np.float32),
        "rows of the index": clusters(n, 1)[:m],
    }
    return Slice(clusters(n, 1), queries)


def _twice(m: int, n: int, quick: bool) -> Slice:
    return Slice(np.concatenate([clusters(n // 2, 1)] * 2), {"fresh": clusters(m, 2)})


def _copies(m: int, n: int, quick: bool) -> Slice:
    return Slice(np.repeat(clusters(n // 30, 1), 30, axis=0), {"fresh": clusters(m, 2)})


def _isotropic(m: int, n: int, quick: bool) -> Slice:
    normal = np.random.default_rng(7).normal(size=(n + m, DIM)).astype(np.float32)
    return Slice(normal[m:], {"fresh": normal[:m], "half the length": normal[:m] / 2})


def _sift(m: int, n: int, quick: bool) -> Slice:
    """The rows of ``learn`` and the queries come from photographs of which no row is in the index."""
    data = data_sets.sift300k()
    return Slice(data.x[:n] if quick else data.x, _sift_queries(data, m))


def _sift_queries(data: data_sets.DataSet, m: int) -> Queries:
    rng = np.random.default_rng(7)
    assert data.learn is not None
    learn = data.learn.astype(np.float32)[: 4 * m].reshape(4, -1, data.x.shape[1])
    return {
        "fresh, other photographs": learn[0],
        "given queries": data.queries.astype(np.float32)[:m],
        "between two rows": (learn[1] + learn[2]) / 2,
        "shuffled dimensions": learn[3][:, rng.permutation(data.x.shape[1])],
        "half the length": learn[3] / 2,
    }


def _grown(m: int, n: int, quick: bool) -> Slice:
    data = bench_sets.load("sift-grown-1m", seed=0, quick=quick, say=say)
    return Slice(data.x, _sift_queries(data_sets.sift300k(), m))


def _text(m: int, n: int, quick: bool) -> Slice:
    data = bench_sets.load("text128k", seed=0, quick=quick, say=say)
    rng = np.random.default_rng(7)
    held = rng.permutation(len(data.x))[:m]
    fresh = data.x[held]
    queries = {
        "fresh": fresh,
        "given queries": data.queries[:m],
        "sums of two rows": fresh + data.x[rng.permutation(held)],
        "random directions": rng.normal(size=(m, data.x.shape[1])).astype(np.float32),
    }
    return Slice(np.delete(data.x, held, axis=0), queries, data.metric)


def _mnist(m: int, n: int, quick: bool) -> Slice:
    data = data_sets.mnist()
    queries = data.queries.astype(np.float32)
    others = queries[-m:]
    shuffled = others[:, np.random.default_rng(7).permutation(others.shape[1])]
    kinds = {"fresh": queries[:m], "inverted": 255 - others, "shuffled pixels": shuffled, "half the length": others / 2}
    return Slice(data.x[:n] if quick else data.x, kinds)


SLICES: dict[str, Callable[[int, int, bool], Slice]] = {
    "clusters": _clustered,
    "isotropic": _isotropic,
    "sift300k": _sift,
    "text128k": _text,
    "mnist784": _mnist,
    "sift-grown-1m": _grown,
    "clusters, every row twice": _twice,
    "clusters, 30 copies of each row": _copies,
}


def measured(index: Any, name: str, layout: str, kind: str, queries: Rows) -> list[dict[str, Any]]:
    """One entry for each k and target. The exact answer for a smaller k is the beginning of that for a larger one."""
    found = []
    exact = index.search(queries, max(KS), margin="exact")
    for k in KS:
        for target in TARGETS:
            got = index.search(queries, k, margin=target)
            same = [len(np.intersect1d(a, b)) for a, b in zip(got.ids, exact.ids[:, :k], strict=True)]
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
                    "exact": got.stats.rule == "exact",
                    "unlike": got.stats.unlike,
                    "scanned": round(got.stats.scanned / len(queries) / len(index), 5),
                    "scanned_exact": round(exact.stats.scanned / len(queries) / len(index), 5),
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


def run(name: str, given: Slice, layout: str, quick: bool) -> dict[str, Any]:
    """One slice, as JSON."""
    index = il.Index.build(given.rows, n_bytes=N_BYTES, layout=layout, metric=given.metric, **TRAIN)  # type: ignore[arg-type]
    found = [e for kind, queries in given.queries.items() for e in measured(index, name, layout, kind, queries)]
    if name == "clusters":
        found += shrunk(index, layout, given.queries["fresh"])
    return {
        "format": FORMAT,
        "kind": KIND,
        "slice": f"{name}, {layout}",
        "quick": quick,
        "environment": machine.environment(),
        "n_bytes": N_BYTES,
        "settings": TRAIN,
        "results": found,
    }


def path_of(folder: Path, name: str, layout: str) -> Path:
    """The JSON of a slice."""
    return folder / KIND / f"{name.replace(', ', '-').replace(' ', '-')}-{layout}.json"


def main(argv: list[str] | None = None) -> int:
    """Measure and write the slices that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small: see that it runs")
    parser.add_argument("--resume", action="store_true", help="leave out the slices whose JSON is there")
    parser.add_argument("--only", choices=list(SLICES), action="append", help="this data set; may be given again")
    parser.add_argument("--layout", choices=LAYOUTS, action="append", help="this layout; may be given again")
    parser.add_argument("--list", action="store_true", help="name the slices and what is there")
    parser.add_argument("--results", type=Path, help="folder of the JSON (default: benchmarks/results)")
    args = parser.parse_args(argv)
    folder = args.results or (RESULTS / "quick" if args.quick else RESULTS)
    warnings.simplefilter("ignore", il.CalibrationWarning)
    for name in args.only or SLICES:
        layouts = [s for s in args.layout or LAYOUTS if not (args.resume and path_of(folder, name, s).exists())]
        if args.list:
            say(f"{name}: {', '.join(layouts)}")
            continue
        if not layouts:
            continue
        try:
            given = SLICES[name](500 if args.quick else QUERIES, 12_000 if args.quick else 60_000, args.quick)
        except FileNotFoundError as error:
            say(f"{name} is left out: {error}")
            continue
        for layout in layouts:
            found = run(name, given, layout, args.quick)
            write_json(path_of(folder, name, layout), found)
            entries = found["results"]
            broken = sum(e["agreement"] + e["half_interval"] < e["target"] for e in entries)
            say(f"{name}, {layout}: {len(entries)} measured, {broken} below their target by more than their interval")
    return 0


if __name__ == "__main__":
    sys.exit(main())
