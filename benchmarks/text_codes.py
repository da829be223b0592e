"""Recall of our codes and of faiss at equal code bytes on text vectors, by cosine, with the bytes of the whole index.

    python benchmarks/text_codes.py [--rows N] [--bytes 16,32,64] [--methods residual,opq,...] [--results FILE]

The rows are those of text128k (256 dimensions, length 1), the queries are its test queries, which nothing was tuned on.
All methods learn from at most 65,536 rows, as `Index.build` does, on one thread. Recall of ours is that of an index
searched exhaustively, and once more of the decoded rows ranked by products, as they were before format version 4. Those
of faiss are ranked by squared distances, products and cosines of the decoded rows, and RaBitQ also by its own search;
the best counts. Total bytes are those of the saved index divided by its rows: codes and codebooks, and the cells and
row numbers of ours.

Each method runs in a process of its own, which may take 20 minutes of processor time to learn. A method that is in the
file is not run again. Nothing here needs an idle machine, except that the times of learning are of little use then.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

import machine
from interlace import ICQ, Index
from peers import RESULTS, write
from plan import Plan

FORMAT, KIND = 2, "text-codes"
FloatArray = NDArray[np.float32]
Ids = NDArray[np.int64]
ROWS, TRAIN_ROWS, QUERIES, K = 127_979, 65_536, 2000, 10
BLOCK = 200  # queries compared with all rows at a time
LEARN_SECONDS = 20 * 60  # of processor time
RQ_BEAM = 5
RQ_GROUP = 16  # books of a group of the product residual quantizer
OURS = ("auto", "residual", "hybrid")


def main(argv: list[str] | None = None) -> int:
    """Run the methods that have no result."""
    options = _parser().parse_args(argv)
    x, queries = load(options.rows)
    truth = ranked(x, queries, "products")
    found: dict[str, Any] = {"format": FORMAT, "kind": KIND, "entries": []}
    if options.results.exists():
        found = json.loads(options.results.read_text())
        if found["format"] != FORMAT:
            raise SystemExit(f"{options.results} has format {found['format']}, expected {FORMAT}; move it away")
    found["data"] = {
        **{"name": "text128k", "rows": len(x), "dim": x.shape[1], "queries": len(queries)},
        **{"metric": "cosine", "k": K, "train_rows": min(len(x), TRAIN_ROWS), "learn_seconds": options.limit},
    }
    found["environment"] = machine.environment()
    for n_bytes in options.bytes:
        for method in options.methods:
            place = {"rows": len(x), "n_bytes": n_bytes, "method": method}
            if any(place.items() <= entry.items() for entry in found["entries"]):
                continue
            measured = in_own_process(method, n_bytes, len(x), truth, options.limit)
            entry = place | measured | {"commit": found["environment"]["commit"]}
            print(entry, file=sys.stderr, flush=True)
            found["entries"].append(entry)
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


def nearest(away: FloatArray) -> Ids:
    """The K smallest of each row, in any order."""
    return np.asarray(np.argpartition(away, K, axis=1)[:, :K])


def recall(away: FloatArray, truth: Ids) -> float:
    """Recall@K of rows by ascending ``away``."""
    return share(nearest(away), truth)


def share(ids: Ids, truth: Ids) -> float:
    """Mean share of the true rows among those found."""
    pairs = zip(ids.tolist(), truth.tolist(), strict=True)
    return round(float(np.mean([len(set(a) & set(b)) / K for a, b in pairs])), 4)


def ranked(decoded: FloatArray, queries: FloatArray, by: str) -> Ids:
    """The K rows that are first by products, cosines or squared distances."""
    squares = np.einsum("ij,ij->i", decoded, decoded)
    lengths = np.sqrt(np.maximum(squares, 1e-12))
    out = []
    for at in range(0, len(queries), BLOCK):
        away = -(queries[at : at + BLOCK] @ decoded.T)
        if by == "squares":
            away = squares + 2 * away
        elif by == "cosines":
            away /= lengths
        out.append(nearest(away))
    return np.concatenate(out)


def in_own_process(method: str, n_bytes: int, n_rows: int, truth: Ids, limit: int) -> dict[str, Any]:
    """What was measured, or why the method was left out; a fit cannot be stopped from within the process."""
    if (reason := impossible(method, n_bytes)) is not None:
        return {"left_out": reason}
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(theirs, method, n_bytes, n_rows, truth, limit))
    child.start()
    theirs.close()
    try:
        measured: dict[str, Any] = ours.recv()
    except EOFError:
        measured = {}
    child.join()
    if child.exitcode == -signal.SIGXCPU:
        return {"left_out": f"learning took more than {limit:,} s of processor time"}
    return measured or {"left_out": f"the process ended with code {child.exitcode}"}


def impossible(method: str, n_bytes: int) -> str | None:
    """Why a method has no code of these bytes."""
    if method.startswith("rabitq"):
        bits = _bits(method)
        if _rabitq_dims(bits, n_bytes) < 8:
            return f"{_factors(bits)} of {n_bytes} bytes are its factors"
    if method == "prq" and (n_bytes <= RQ_GROUP or n_bytes % RQ_GROUP):
        return f"it needs several groups of {RQ_GROUP} bytes"
    return None


def _child(to: Connection, method: str, n_bytes: int, n_rows: int, truth: Ids, limit: int) -> None:
    faiss.omp_set_num_threads(1)
    x, queries = load(n_rows)
    measure = _ours if method in OURS else _theirs
    to.send(measure(method, n_bytes, x, queries, truth, limit))


def _learned(learn: Callable[[], Any], limit: int) -> tuple[Any, float]:
    """What ``learn`` returns, and its processor time; the system ends the process beyond ``limit`` seconds."""
    started = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(started) + limit, resource.RLIM_INFINITY))
    found = learn()
    resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return found, time.process_time() - started


def _ours(method: str, n_bytes: int, x: FloatArray, queries: FloatArray, truth: Ids, limit: int) -> dict[str, Any]:
    """An index of ours, searched without skipping anything."""
    model = ICQ(n_bytes, layout=method, metric="cosine", max_train_rows=TRAIN_ROWS, threads=1)  # type: ignore[arg-type]
    model, learn = _learned(lambda: model.fit(x), limit)
    started, books = time.process_time(), model.codebooks_
    index = Index(books)
    index.add(x, threads=1)
    encode = time.process_time() - started
    with tempfile.TemporaryDirectory(prefix="interlace-text-codes-") as folder:
        path = Path(folder) / "index"
        index.save(path)
        total = path.stat().st_size / len(x)
    decoded = model.decode(model.encode(x))
    return {
        "recall": share(index.search(queries, K, margin=math.inf, threads=1).ids, truth),
        "recall_by_products": share(ranked(decoded, queries, "products"), truth),
        "layout": books.layout,
        "cells": books.n_cells,
        "code_bytes": books.n_bytes,
        "total_bytes": round(total, 2),
        **_error_and_times(x, decoded, learn, encode),
    }


def _theirs(method: str, n_bytes: int, x: FloatArray, queries: FloatArray, truth: Ids, limit: int) -> dict[str, Any]:
    """An index of faiss by its decoded rows, by the ranking that is best for it."""
    rng = np.random.default_rng(0)
    train = x if len(x) <= TRAIN_ROWS else x[np.sort(rng.choice(len(x), TRAIN_ROWS, replace=False))]
    index = LEARNERS[method](x.shape[1], n_bytes)
    _, learn = _learned(lambda: index.train(train), limit)
    empty = len(faiss.serialize_index(index))
    started = time.process_time()
    decoded = index.sa_decode(index.sa_encode(x))
    encode = time.process_time() - started
    by = {how: share(ranked(decoded, queries, how), truth) for how in ("squares", "products", "cosines")}
    if method.startswith("rabitq"):
        index.add(x)
        by["search"] = share(index.search(queries, K)[1], truth)
    size = int(index.sa_code_size())
    return {
        "recall": max(by.values()),
        "recall_by": by,
        "code_bytes": size,
        "total_bytes": round(size + empty / len(x), 2),
        **_error_and_times(x, decoded, learn, encode),
    }


def _error_and_times(x: FloatArray, decoded: FloatArray, learn: float, encode: float) -> dict[str, Any]:
    error = float(f"{np.square(x - decoded).sum(1, dtype=np.float64).mean():.5g}")
    return {"error": error, "cpu_seconds": {"learn": round(learn, 1), "encode": round(encode, 1)}}


Learner = Callable[[int, int], Any]  # dimensions, code bytes -> an index of faiss, not trained


def _factory(name: str) -> Learner:
    """By a factory string; ``{n}`` is the number of bytes, ``{twice}`` that of dimensions with 4 bits."""
    return lambda dim, n: faiss.index_factory(dim, name.format(n=n, twice=min(dim, 2 * n)))


def _opq(dim: int, n_bytes: int) -> Any:
    """As in faiss_peers.py: the rotation is learned from some of the rows, the books from all of them."""
    index = faiss.index_factory(dim, f"OPQ{n_bytes},PQ{n_bytes}np")
    faiss.downcast_VectorTransform(index.chain.at(0)).max_train_points = Plan.opq_rows
    return index


def _beam(quantizer: Any) -> None:
    quantizer.max_beam_size, quantizer.use_beam_LUT = RQ_BEAM, 1
    quantizer.train_type = faiss.ResidualQuantizer.Train_default


def _rq(dim: int, n_bytes: int) -> Any:
    index = faiss.IndexResidualQuantizer(dim, n_bytes, 8)
    _beam(index.rq)
    return index


def _prq(dim: int, n_bytes: int) -> Any:
    """A residual quantizer for each group of dimensions."""
    index = faiss.IndexProductResidualQuantizer(dim, n_bytes // RQ_GROUP, RQ_GROUP, 8)
    for group in range(index.prq.nsplits):
        _beam(faiss.downcast_AdditiveQuantizer(index.prq.subquantizer(group)))
    return index


def _bits(method: str) -> int:
    return int(method.removeprefix("rabitq") or 1)


def _factors(bits: int) -> int:
    """Bytes of RaBitQ beside its bits, in faiss 1.15."""
    return 8 if bits == 1 else 20


def _rabitq_dims(bits: int, n_bytes: int) -> int:
    """Principal axes whose bits fit beside the factors."""
    return 8 * ((n_bytes - _factors(bits)) // bits)


def _rabitq(bits: int) -> Learner:
    def make(dim: int, n_bytes: int) -> Any:
        dims = min(dim, _rabitq_dims(bits, n_bytes))
        return faiss.index_factory(dim, f"PCAR{dims},RaBitQ{bits if bits > 1 else ''}")

    return make


LEARNERS: dict[str, Learner] = {
    "pq": _factory("PQ{n}np"),
    "opq": _opq,
    "sq4": _factory("PCA{twice},SQ4"),
    "sq4 rotated": _factory("PCAR{twice},SQ4"),
    "sq8": _factory("PCA{n},SQ8"),
    "rabitq": _rabitq(1),
    "rabitq2": _rabitq(2),
    "rabitq4": _rabitq(4),
    "rq": _rq,
    "prq": _prq,
}


def _unit(x: FloatArray) -> FloatArray:
    return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), np.float32)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of text128k to encode")
    parser.add_argument("--bytes", type=lambda text: [int(n) for n in text.split(",")], default=[16, 32, 64])
    parser.add_argument("--methods", type=lambda text: text.split(","), default=[*OURS, *LEARNERS])
    parser.add_argument("--limit", type=int, default=LEARN_SECONDS, help="processor seconds of one fit")
    parser.add_argument("--results", type=Path, default=RESULTS / "text128k-codes.json")
    return parser


if __name__ == "__main__":
    sys.exit(main())
