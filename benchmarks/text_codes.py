"""Recall of our codes and of faiss at equal bytes on text vectors, by cosine.

    python benchmarks/text_codes.py [--rows 40000] [--bytes 16,32,64] [--methods residual,opq,...] [--results FILE]

The rows are the first ones of text128k (256 dimensions, length 1), the queries are its test queries, which nothing was
tuned on. All methods learn from the same rows: all of them, at most 65,536. Recall is that of an exhaustive scan of the
decoded vectors. Ours are ranked by the distance of the cosine metric, and once more by products, as they were before
format version 4; those of faiss by squared distances, products and cosines, the best of which counts (faiss itself
has the first two). A method that is in the file already is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

import machine
from interlace import ICQ
from interlace.learn.cost.shape import row_number_bytes
from peers import RESULTS, write
from plan import Plan

FloatArray = NDArray[np.float32]
TRAIN_ROWS, QUERIES, K = 65_536, 1000, 10
OURS = ("residual", "hybrid", "auto")
PEERS = ("pq", "opq", "rq", "sq", "rabitq")


def main(argv: list[str] | None = None) -> int:
    """Run the methods that have no result."""
    options = _parser().parse_args(argv)
    x, queries = load(options.rows)
    truth = nearest(-(queries @ x.T))
    found: dict[str, Any] = json.loads(options.results.read_text()) if options.results.exists() else _header(queries)
    for n_bytes in options.bytes:
        for method in options.methods:
            place = {"rows": len(x), "n_bytes": n_bytes, "method": method}
            if any(place.items() <= entry.items() for entry in found["entries"]):
                continue
            print(place, file=sys.stderr, flush=True)
            measured = _measured(method, n_bytes, x, queries, truth)
            if measured is not None:
                found["entries"].append(place | measured)
                write(options.results, found)
    return 0


def load(n_rows: int) -> tuple[FloatArray, FloatArray]:
    """Rows and test queries of text128k, of length 1."""
    folders = (os.environ.get("INTERLACE_DATA", "."), Path(__file__).resolve().parents[2] / "shared" / "data")
    paths = [Path(folder) / "text128k" / "text128k.npz" for folder in folders]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise SystemExit(f"text128k.npz was not found: {', '.join(map(str, paths))}; set INTERLACE_DATA")
    with np.load(path) as data:
        x, queries = data["base"][:n_rows].astype(np.float32), data["query"][:QUERIES].astype(np.float32)
    return _unit(x), _unit(queries)


def nearest(away: FloatArray) -> NDArray[np.int64]:
    """The K smallest of each row, in any order."""
    return np.asarray(np.argpartition(away, K, axis=1)[:, :K])


def recall(away: FloatArray, truth: NDArray[np.int64]) -> float:
    """Recall@K of rows by ascending ``away``."""
    pairs = zip(nearest(away).tolist(), truth.tolist(), strict=True)
    return round(float(np.mean([len(set(a) & set(b)) / K for a, b in pairs])), 4)


def _measured(
    method: str, n_bytes: int, x: FloatArray, queries: FloatArray, truth: NDArray[np.int64]
) -> dict[str, Any] | None:
    rng, started = np.random.default_rng(0), time.process_time()
    train = x if len(x) <= TRAIN_ROWS else x[np.sort(rng.choice(len(x), TRAIN_ROWS, replace=False))]
    if method in OURS:
        model = ICQ(n_bytes, layout=method, metric="cosine", max_train_rows=TRAIN_ROWS, threads=1).fit(x)
        learned = time.process_time()
        decoded = model.decode(model.encode(x))
        metric, books = model.codebooks_.metric_type, model.codebooks_
        facts: dict[str, Any] = {
            "recall": recall(metric.distances(queries, decoded), truth),
            "recall_by_products": recall(-(queries @ decoded.T), truth),
            "layout": books.layout,
            "query_length": metric.query_length,
            "code_bytes": books.n_bytes,
            "bytes_per_vector": round(books.n_bytes - 1 + row_number_bytes(len(x), books.n_cells) / len(x), 2),
        }
    else:
        coder = LEARNERS[method](train, n_bytes)
        if coder is None:
            return None
        learned = time.process_time()
        decoded, size = coder(x)
        products, squares = queries @ decoded.T, np.einsum("ij,ij->i", decoded, decoded)
        by = {
            "squares": recall(squares - 2 * products, truth),
            "products": recall(-products, truth),
            "cosines": recall(-products / np.sqrt(np.maximum(squares, 1e-12)), truth),
        }
        facts = {"recall": max(by.values()), "recall_by": by, "code_bytes": size, "bytes_per_vector": float(size)}
    facts["error"] = float(f"{np.square(x - decoded).sum(1, dtype=np.float64).mean():.5g}")
    facts["cpu_seconds"] = {
        "learn": round(learned - started, 1),
        "encode and judge": round(time.process_time() - learned, 1),
    }
    return facts


Coder = Callable[[FloatArray], tuple[FloatArray, int]]  # rows -> decoded rows, bytes of a code


def _factory(name: str) -> Callable[[FloatArray, int], Coder | None]:
    """A standalone codec of faiss; ``{n}`` in its name is the number of bytes."""

    def learn(train: FloatArray, n_bytes: int) -> Coder | None:
        index = faiss.index_factory(train.shape[1], name.format(n=n_bytes, dims=2 * n_bytes))
        index.train(train)
        return lambda x: (index.sa_decode(index.sa_encode(x)), int(index.sa_code_size()))

    return learn


def _opq(train: FloatArray, n_bytes: int) -> Coder | None:
    """As in faiss_peers.py: the rotation is learned from some of the rows, the books from all of them."""
    index = faiss.index_factory(train.shape[1], f"OPQ{n_bytes},PQ{n_bytes}np")
    faiss.downcast_VectorTransform(index.chain.at(0)).max_train_points = Plan.opq_rows
    index.train(train)
    return lambda x: (index.sa_decode(index.sa_encode(x)), int(index.sa_code_size()))


def _rq(train: FloatArray, n_bytes: int) -> Coder | None:
    """Beam 5; beyond 32 bytes in groups of 16 books (ProductResidualQuantizer), whose tables fit into memory."""
    if n_bytes > 32:
        grouped = faiss.ProductResidualQuantizer(train.shape[1], n_bytes // 16, 16, 8)
        grouped.train(train)
        return lambda x: (grouped.decode(grouped.compute_codes(x)), n_bytes)
    rq = faiss.ResidualQuantizer(train.shape[1], n_bytes, 8)
    rq.max_beam_size, rq.use_beam_LUT = 5, 1
    rq.train_type = faiss.ResidualQuantizer.Train_default
    rq.train(train)
    return lambda x: (rq.decode(rq.compute_codes(x)), n_bytes)


def _rabitq(train: FloatArray, n_bytes: int) -> Coder | None:
    """One bit for each principal axis that fits beside its two floats."""
    dims = 8 * (n_bytes - 8)
    if dims < 8:
        return None
    index = faiss.index_factory(train.shape[1], f"PCAR{min(dims, train.shape[1])},RaBitQ")
    index.train(train)
    return lambda x: (index.sa_decode(index.sa_encode(x)), int(index.sa_code_size()))


LEARNERS: dict[str, Callable[[FloatArray, int], Coder | None]] = {
    "pq": _factory("PQ{n}np"),
    "opq": _opq,
    "rq": _rq,
    "sq": _factory("PCAR{dims},SQ4"),
    "rabitq": _rabitq,
}


def _unit(x: FloatArray) -> FloatArray:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), np.float32)


def _header(queries: FloatArray) -> dict[str, Any]:
    return {
        "format": 1,
        "kind": "text codes",
        "data": {"name": "text128k", "dim": queries.shape[1], "queries": len(queries), "metric": "cosine", "k": K},
        "environment": machine.environment(),
        "entries": [],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=40_000, help="rows of text128k to encode")
    parser.add_argument("--bytes", type=lambda text: [int(n) for n in text.split(",")], default=[16, 32, 64])
    parser.add_argument("--methods", type=lambda text: text.split(","), default=[*OURS, *PEERS])
    parser.add_argument("--results", type=Path, default=RESULTS / "text128k-codes.json")
    return parser


if __name__ == "__main__":
    sys.exit(main())
