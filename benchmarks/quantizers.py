"""The quantizers of interlace.quantizers that learn without labels, at equal bytes on real SIFT descriptors.

    python benchmarks/quantizers.py [--quick] [--bytes 8] [--methods PQ,CQ] [--others] [--table]

One JSON per method and number of bytes in results/quantizers; existing results are skipped, so an interrupted
run can be resumed. --table only prints existing results. 100,000 rows; all methods learn from the same 65,536 of them
on one thread. With --others they learn from the other 200,000 rows of the data set, so that no training row is encoded
(results/quantizers-others). Recall is that of the method's own exhaustive search: for CQ with its
constant, not with true distances to the decoded vectors. Compare seconds only with each other, at
the load given in the JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bench_sets
import machine
from codes import KS, ROUNDS, TIMED_ROWS, _load
from interlace import ICQ
from interlace.evaluate.answers import recall
from interlace.quantizers import methods
from measure import one_thread, quiet
from peers import RESULTS, write

FORMAT = 1
DATA = "sift100k"
REFERENCE = "ICQ, residual"


def main(argv: list[str] | None = None) -> int:
    """Run the requested methods that have no result, then print the table."""
    options = _parser().parse_args(argv)
    name = "quantizers-others" if options.others else "quantizers"
    folder = options.results or (RESULTS / "quick" if options.quick else RESULTS) / name
    names = options.methods or [*methods(labels=False), REFERENCE]
    wanted = [(name, n_bytes) for n_bytes in options.bytes or (8,) for name in names]
    missing = [] if options.table else [pair for pair in wanted if not _path(folder, *pair).exists()]
    data = _load(DATA, options.quick) if missing else {}
    if missing and options.others:
        whole = bench_sets.load(
            "sift300k", seed=0, quick=options.quick, say=lambda text: print(text, file=sys.stderr)
        ).x
        data["train"] = whole[len(data["x"]) :]
    for name, n_bytes in missing:
        print(f"{name}, {n_bytes} bytes", file=sys.stderr, flush=True)
        write(_path(folder, name, n_bytes), _measured(name, n_bytes, data, options.quick, options.others))
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    print(table(found))
    return 0


def _path(folder: Path, name: str, n_bytes: int) -> Path:
    return folder / f"{name.replace(', ', '-').lower()}-{n_bytes}.json"


def _made(name: str, n_bytes: int, n_train: int) -> Any:
    if name == REFERENCE:
        return ICQ(n_bytes, layout="residual", max_train_rows=n_train, threads=1)
    return methods()[name].make(n_books=n_bytes, seed=0, threads=1, progress=False).set_params(max_train_rows=n_train)


def _measured(name: str, n_bytes: int, data: dict[str, NDArray[Any]], quick: bool, others: bool) -> dict[str, Any]:
    x, queries, truth = data["x"], data["queries"], data["truth"]
    with one_thread():
        environment, started = machine.environment(), time.perf_counter()
        model = _made(name, n_bytes, len(data["train"])).fit(data["train"] if others else x)
        learned = time.perf_counter() - started
        with quiet():
            seconds = [_seconds(model, x[:TIMED_ROWS]) for _ in range(ROUNDS)]
        errors = ((x - model.transform(x)).astype(np.float64) ** 2).sum(1)
        unseen = np.arange(len(x)) if others else np.setdiff1d(np.arange(len(x)), model.sample_)
        index = model.index(x)
        found = index.search(queries, max(KS), margin=float("inf"), threads=1)
        exact = index.search(queries, 10, margin="exact", threads=1)
    return {
        "format": FORMAT,
        "kind": "quantizer",
        "method": name,
        "n_bytes": n_bytes,
        "data": {
            "name": DATA,
            "rows": len(x),
            "dim": x.shape[1],
            "queries": len(queries),
            "training_rows": len(data["train"]),
        },
        "quick": quick,
        "settings": {key: value for key, value in model.get_params().items() if isinstance(value, int | float | str)},
        "error": float(f"{errors.mean():.6g}"),
        "error_unseen": float(f"{errors[unseen].mean():.6g}"),  # of the rows that were not learned from
        "recall": {str(k): round(recall(found.ids[:, :k], truth, k), 5) for k in KS},
        "bytes_per_vector": round(index.report().code_bytes_per_vector, 3),
        "learned_bytes": index.report().learned,
        "ops_per_vector": round(exact.stats.ops_per_vector, 3),
        "train_seconds": round(learned, 2),
        "encode_microseconds": round(median(seconds) / min(TIMED_ROWS, len(x)) * 1e6, 2),
        "load": round(machine.load(), 2),
        "environment": environment,
    }


def _seconds(model: Any, x: NDArray[Any]) -> float:
    started = time.perf_counter()
    model.encode(x)
    return time.perf_counter() - started


def table(found: list[dict[str, Any]]) -> str:
    """Markdown, the smallest error first."""
    head = (
        "method",
        "bytes",
        "error",
        "of unseen rows",
        *(f"recall@{k}" for k in KS),
        "stored bytes",
        "learned MB",
        "ops, exact",
    )
    head += ("train s", "encode us")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for one in sorted(found, key=lambda one: (one["n_bytes"], one["error"])):
        cells = [one["method"], str(one["n_bytes"]), f"{one['error']:,.0f}", f"{one['error_unseen']:,.0f}"]
        cells += [f"{one['recall'][str(k)]:.3f}" for k in KS]
        cells += [f"{one['bytes_per_vector']:.2f}", f"{one['learned_bytes'] / 1e6:.1f}", f"{one['ops_per_vector']:.2f}"]
        cells += [f"{one['train_seconds']:.0f}", f"{one['encode_microseconds']:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows, into results/quick: does it run?")
    parser.add_argument("--bytes", type=int, action="append", help="of a code; may be given again (default: 8)")
    parser.add_argument("--methods", type=lambda text: text.split(","), help=f"of {', '.join(methods(labels=False))}")
    parser.add_argument("--others", action="store_true", help="learn from 200,000 rows that are not coded")
    parser.add_argument("--table", action="store_true", help="print the table of what is there, run nothing")
    parser.add_argument("--results", type=Path, help="folder of the JSON (default: benchmarks/results/quantizers)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
