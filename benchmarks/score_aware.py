"""Recall of inner products by codes of the squared error (weight 1) and of the score-aware loss (``parallel_weight``).

    python benchmarks/score_aware.py [--rows 10000] [--cases text,lengths,sift] [--bytes 8,16] [--seeds 0,1,2]
                                     [--layouts residual] [--weights 1,1.5,2] [--results FILE]

``text``: rows of text128k, of length 1. ``lengths``: the same times random lengths (log-normal, .3). ``sift``: rows of
sift300k by inner product, a control whose rows have nearly the same length. A seed chooses the rows, the queries and
the random numbers of learning. All rows are learned from. Recall@10 and recall@1 are those of an exhaustive scan of the
decoded rows, for 1,000 held-out rows as queries (``held_out``), by which a weight may be chosen, and for 1,000 test
queries (``test``). With ``--metrics cosine`` the rows are coded for cosines, which has weight 1 only: for rows of
length 1 the answers to look for are the same. Entries that are in the file are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import machine
from interlace import ICQ
from peers import RESULTS, write

FloatArray = NDArray[np.float32]
QUERIES, K = 1000, 10
LENGTH_SPREAD = 0.3  # of the logarithm of the lengths
FILES = {"text": "text128k", "lengths": "text128k", "sift": "sift300k"}


def main(argv: list[str] | None = None) -> int:
    """Run what has no entry, and print a table of all entries."""
    options = _parser().parse_args(argv)
    found: dict[str, Any] = json.loads(options.results.read_text()) if options.results.exists() else _header()
    cases = product(options.cases, options.metrics, options.layouts, options.bytes, options.seeds)
    for case, metric, layout, n_bytes, seed in cases:
        place = {
            "data": case,
            "metric": metric,
            "layout": layout,
            "rows": options.rows,
            "n_bytes": n_bytes,
            "seed": seed,
        }
        known = {entry["weight"] for entry in found["entries"] if place.items() <= entry.items()}
        weights = [weight for weight in options.weights if weight not in known and (weight == 1 or metric == "ip")]
        if not weights:
            continue
        rows, held_out, test = load(case, options.rows, seed)
        for weight in weights:
            entry = place | {"weight": weight} | _measured(place, weight, rows, held_out, test)
            print(entry, file=sys.stderr, flush=True)
            found["entries"].append(entry)
            write(options.results, found)
    print(table(found["entries"]))
    return 0


def load(case: str, n: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Rows, held-out rows and test queries."""
    name = FILES[case]
    folders = (os.environ.get("INTERLACE_DATA", "."), Path(__file__).resolve().parents[2] / "shared" / "data")
    paths = [Path(folder) / name / f"{name}.npz" for folder in folders]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise SystemExit(f"{name}.npz was not found: {', '.join(map(str, paths))}; set INTERLACE_DATA")
    rng = np.random.default_rng(seed)
    with np.load(path) as data:
        base, queries = data["base"], data["query"]
    order, chosen = rng.permutation(len(base)), rng.permutation(len(queries))[:QUERIES]
    parts = [base[np.sort(order[:n])], base[order[n : n + QUERIES]], queries[chosen]]
    x, held_out, test = (np.ascontiguousarray(part, np.float32) for part in parts)
    if case != "sift":
        x, held_out, test = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (x, held_out, test))
    if case == "lengths":
        x *= rng.lognormal(0.0, LENGTH_SPREAD, (len(x), 1)).astype(np.float32)
    return x, held_out, test


def _measured(
    place: dict[str, Any], weight: float, x: FloatArray, held_out: FloatArray, test: FloatArray
) -> dict[str, Any]:
    started = time.process_time()
    names = ("n_bytes", "layout", "metric", "seed")
    model = ICQ(**{name: place[name] for name in names}, parallel_weight=weight, threads=1, progress=False).fit(x)
    learned = time.process_time()
    codes = model.encode(x)
    coded = time.process_time()
    decoded, metric = model.decode(codes), model.codebooks_.metric_type
    errors = x - decoded
    along = np.einsum("ij,ij->i", errors, x) / np.linalg.norm(x, axis=1)
    return {
        "held_out": recalls(metric.distances(held_out, decoded), -(held_out @ x.T)),
        "test": recalls(metric.distances(test, decoded), -(test @ x.T)),
        "error": float(f"{np.square(errors).sum(1, dtype=np.float64).mean():.5g}"),
        "error_along": float(f"{np.square(along).mean(dtype=np.float64):.5g}"),
        "cpu_seconds": {"learn": round(learned - started, 1), "encode": round(coded - learned, 2)},
    }


def recalls(away: FloatArray, truth: FloatArray) -> dict[str, float]:
    """Recall@10 and @1 of rows by ascending ``away``, where ``truth`` ascends for the right answers."""
    found, wanted = _nearest(away), _nearest(truth)
    hits = [len(set(a) & set(b)) / K for a, b in zip(found.tolist(), wanted.tolist(), strict=True)]
    return {"10": round(float(np.mean(hits)), 4), "1": round(float((found[:, 0] == wanted[:, 0]).mean()), 4)}


def _nearest(away: FloatArray) -> NDArray[np.int64]:
    """The K smallest of each row, ascending."""
    some = np.argpartition(away, K, axis=1)[:, :K]
    return np.take_along_axis(some, np.argsort(np.take_along_axis(away, some, 1), axis=1, kind="stable"), 1)


def table(entries: list[dict[str, Any]]) -> str:
    """Means over seeds of the recalls by test queries, with the weight that the held-out rows of each seed choose."""
    names = ("data", "metric", "layout", "n_bytes")
    lines = [
        "| data | metric | layout | bytes | seeds | weight | recall@10 | recall@1 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for group in dict.fromkeys(tuple(entry[name] for name in names) for entry in entries):
        own = [entry for entry in entries if tuple(entry[name] for name in names) == group]
        by_weight = {weight: [e for e in own if e["weight"] == weight] for weight in sorted({e["weight"] for e in own})}
        rows = {f"{weight:g}": of for weight, of in by_weight.items()}
        if len(rows) > 1:
            seeds = sorted({e["seed"] for e in own})
            rows["chosen"] = [max((e for e in own if e["seed"] == s), key=lambda e: e["held_out"]["10"]) for s in seeds]
        for weight, of in rows.items():
            means = [np.mean([entry["test"][k] for entry in of]) for k in ("10", "1")]
            facts = (*group, len(of), weight, *(f"{mean:.4f}" for mean in means))
            lines.append(f"| {' | '.join(map(str, facts))} |")
    return "\n".join(lines)


def _header() -> dict[str, Any]:
    data = {"names": FILES, "queries": QUERIES, "metric": "ip", "k": K}
    return {"format": 1, "kind": "score-aware", "data": data, "environment": machine.environment(), "entries": []}


def _parser() -> argparse.ArgumentParser:
    def several(kind: Any) -> Any:
        return lambda text: [kind(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--cases", type=several(str), default=[*FILES])
    parser.add_argument("--metrics", type=several(str), default=["ip"], help="ip, cosine")
    parser.add_argument("--layouts", type=several(str), default=["residual"])
    parser.add_argument("--bytes", type=several(int), default=[8, 16])
    parser.add_argument("--seeds", type=several(int), default=[0, 1, 2])
    parser.add_argument("--weights", type=several(float), default=[1.0, 1.5, 2.0])
    parser.add_argument("--results", type=Path, default=RESULTS / "score-aware.json")
    return parser


if __name__ == "__main__":
    sys.exit(main())
