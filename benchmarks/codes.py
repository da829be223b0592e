"""Accuracy and encoding time of our codes and the quantizers of faiss at equal bytes.

    python benchmarks/codes.py [--quick] [--only sift100k/8] [--methods pq,rq,...]

One JSON per data set and number of bytes; a method that is in it already is not run again, so a run can be cut short
and taken up later. The same rows for all to learn from, one thread. Recall is that of an exhaustive scan of the decoded
vectors, so it is the codes that are compared, not searches.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

import bench_sets
import machine
from interlace import ICQ
from interlace.evaluate.answers import exact_neighbours, recall
from measure import one_thread, quiet
from peers import RESULTS, write

FORMAT = 1
CASES = ("sift100k/8", "sift100k/16", "mnist784/8", "generated100k/8")
ROWS, QUERIES, TRAIN_ROWS, TIMED_ROWS, ROUNDS = 100_000, 1000, 65_536, 16_384, 5
EFFORTS = ("fastest", "fast", "balanced", "best")
KS = (1, 10, 100)

FloatArray = NDArray[np.float32]
Coder = tuple[Callable[[FloatArray], Any], Callable[[Any], FloatArray]]  # encode, decode


def _ours(layout: str) -> Callable[[FloatArray, int], dict[str, Coder]]:
    def learn(train: FloatArray, n_bytes: int) -> dict[str, Coder]:
        model = ICQ(n_bytes, layout=layout, max_train_rows=len(train), threads=1).fit(train)
        efforts = EFFORTS if layout == "residual" else ("balanced",)
        return {
            f"interlace {layout}, {effort}": (lambda x, e=effort: model.encode(x, effort=e), model.decode)
            for effort in efforts
        }

    return learn


def _pq(train: FloatArray, n_bytes: int) -> dict[str, Coder]:
    pq = faiss.ProductQuantizer(train.shape[1], n_bytes, 8)
    pq.train(train)
    return {"faiss PQ": (pq.compute_codes, pq.decode)}


def _opq(train: FloatArray, n_bytes: int) -> dict[str, Coder]:
    dim = train.shape[1]
    matrix = faiss.OPQMatrix(dim, n_bytes)
    matrix.train(train)
    pq = faiss.ProductQuantizer(dim, n_bytes, 8)
    pq.train(matrix.apply(train))
    return {
        "faiss OPQ+PQ": (
            lambda x: pq.compute_codes(matrix.apply(x)),
            lambda codes: matrix.reverse_transform(pq.decode(codes)),
        )
    }


def _rq(train: FloatArray, n_bytes: int) -> dict[str, Coder]:
    rq = faiss.ResidualQuantizer(train.shape[1], n_bytes, 8)
    rq.max_beam_size = 5
    rq.train(train)

    def by_tables(x: FloatArray) -> Any:  # its faster encoder: tables of inner products
        rq.use_beam_LUT = 1
        return rq.compute_codes(x)

    def plainly(x: FloatArray) -> Any:  # the default of faiss
        rq.use_beam_LUT = 0
        return rq.compute_codes(x)

    return {
        "faiss ResidualQuantizer, beam 5": (by_tables, rq.decode),
        "faiss ResidualQuantizer, beam 5, as it comes": (plainly, rq.decode),
    }


def _lsq(train: FloatArray, n_bytes: int) -> dict[str, Coder]:
    lsq = faiss.LocalSearchQuantizer(train.shape[1], n_bytes, 8)
    lsq.train(train)
    return {"faiss LocalSearchQuantizer": (lsq.compute_codes, lsq.decode)}


LEARNERS = {
    "subspace": _ours("subspace"),
    "hybrid": _ours("hybrid"),
    "residual": _ours("residual"),
    "pq": _pq,
    "opq": _opq,
    "rq": _rq,
    "lsq": _lsq,
}
SLOW = {("lsq", "mnist784"), ("opq", "mnist784")}  # hours on one thread


def main(argv: list[str] | None = None) -> int:
    """Run the requested cases that have no result."""
    options = _parser().parse_args(argv)
    results = options.results or (RESULTS / "quick" if options.quick else RESULTS)
    for case in options.only or CASES:
        name, n_bytes = case.split("/")
        path = results / f"codes-{name}-{n_bytes}.json"
        found = json.loads(path.read_text()) if path.exists() else None
        data = _load(name, options.quick)
        if found is None:
            found = _header(name, int(n_bytes), data, options.quick)
        for method in options.methods or LEARNERS:
            if any(entry["learner"] == method for entry in found["methods"]) or (method, name) in SLOW:
                continue
            print(f"{case}: {method}", file=sys.stderr, flush=True)
            found["methods"] += _measured(method, int(n_bytes), data)
            write(path, found)
    return 0


def _load(name: str, quick: bool) -> dict[str, FloatArray]:
    """Rows, queries, true neighbours, and the training rows, which are among the rows."""
    stem = {"sift100k": "sift300k", "generated100k": "generated300k"}.get(name, name)
    data = bench_sets.load(stem, seed=0, quick=quick, say=lambda text: print(text, file=sys.stderr))
    rng = np.random.default_rng(0)
    x, queries = data.x[: 5000 if quick else ROWS], data.queries[: 100 if quick else QUERIES]
    n_train = min(len(x), 4096 if quick else 10_240 if x.shape[1] > 256 else TRAIN_ROWS)
    truth = data.truth[: len(queries)]
    if len(x) != len(data.x):
        truth = exact_neighbours(x.astype(np.float32), queries, max(KS))[0]
    train = x[np.sort(rng.choice(len(x), n_train, replace=False))]
    return {"x": x, "queries": queries, "truth": truth, "train": train}


def _header(name: str, n_bytes: int, data: dict[str, FloatArray], quick: bool) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "kind": "codes",
        "data": {
            "name": name,
            "rows": len(data["x"]),
            "dim": data["x"].shape[1],
            "queries": len(data["queries"]),
            "training_rows": len(data["train"]),
        },
        "n_bytes": n_bytes,
        "quick": quick,
        "environment": machine.environment(),
        "methods": [],
    }


def _measured(method: str, n_bytes: int, data: dict[str, FloatArray]) -> list[dict[str, Any]]:
    x = data["x"]
    with one_thread():
        started = time.perf_counter()
        coders = LEARNERS[method](data["train"], n_bytes)
        learned = time.perf_counter() - started
        out = []
        for name, (encode, decode) in coders.items():
            decoded = decode(encode(x))
            error = float(((x - decoded).astype(np.float64) ** 2).sum(1).mean())
            with quiet():
                seconds = [_seconds(encode, x[:TIMED_ROWS]) for _ in range(ROUNDS)]
            truth = data["truth"]
            found = exact_neighbours(np.ascontiguousarray(decoded, np.float32), data["queries"], max(KS))[0]
            out.append(
                {
                    "learner": method,
                    "name": name,
                    "recall": {str(k): round(recall(found[:, :k], truth, k), 5) for k in KS},
                    "error": float(f"{error:.6g}"),
                    "train_seconds": round(learned, 2),
                    "encode_microseconds": round(median(seconds) / min(TIMED_ROWS, len(x)) * 1e6, 2),
                    "load": round(machine.load(), 2),
                }
            )
    return out


def _seconds(encode: Callable[[FloatArray], Any], x: FloatArray) -> float:
    started = time.perf_counter()
    encode(x)
    return time.perf_counter() - started


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few rows, into results/quick: does it run?")
    parser.add_argument("--only", action="append", choices=CASES, help="this case; may be given again")
    parser.add_argument("--methods", type=lambda text: text.split(","), help=f"of {', '.join(LEARNERS)}")
    parser.add_argument("--results", type=Path, help="folder of the JSON (default: benchmarks/results)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
