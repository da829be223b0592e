"""Long codes, 48 and 64 bytes, against FastScan of the same bytes: recall@10 and microseconds per query.

    python benchmarks/long_codes.py --build [--only SET]       # into the cache; may run on a busy machine
    python benchmarks/long_codes.py [--resume] [--only SET]    # the measurement: one idle core; processor time
    python benchmarks/long_codes.py --quick                    # small sizes, to see that it runs

Our codebooks and the trees of faiss learn from the same sample of 16,384 rows, ours with `effort="fast"`; everything
else is a default. Peers are `IndexPQFastScan`, and the same after OPQ where learning the rotation takes little time.
Built indexes are kept in the cache, by the version of our code. Each set is written to long-codes.json as soon as it is
measured; `--resume` keeps those that are there.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np

import bench_sets
import interlace as il
import machine
from bench_sets import FloatArray
from cache import cache_folder, finish, kept_array, partial, write_json
from interlace import _native
from interlace.evaluate.answers import recall
from measure import Ids, Method, one_thread, race
from partition_ours import code_version
from partitions import RESULTS

FORMAT, KIND = 1, "long-codes"
TRAIN, QUERIES, TIMED, ROUNDS, K = 16_384, 1000, 128, 7, 10
BYTES = (48, 64)
MARGINS: tuple[float | None, ...] = (None, 0.99)  # None: the default
TASKS = (("batch", K), ("single", K))
Say = Callable[[str], None]


@dataclass(frozen=True)
class LongSet:
    """A set of rows, and what is measured on it."""

    dim: int
    rows: int
    layouts: tuple[str, ...]
    text: bool = False  # rows of text128k; generated with a decaying spectrum otherwise
    opq: bool = False


SETS = {
    "text": LongSet(256, 40_000, ("hybrid", "residual"), text=True, opq=True),
    "spectrum384": LongSet(384, 40_000, ("hybrid", "residual")),
    "spectrum768": LongSet(768, 100_000, ("hybrid",)),
    "spectrum1536": LongSet(1536, 100_000, ("hybrid",)),
}
QUICK = {"spectrum48": LongSet(48, 3000, ("hybrid", "residual"), opq=True)}


def main(argv: list[str] | None = None) -> int:
    """Build, or measure and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", action="store_true", help="only build what the cache lacks")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--resume", action="store_true", help="keep the sets that the JSON has")
    parser.add_argument("--only", action="append", choices=[*SETS, *QUICK], help="only this set; may be repeated")
    parser.add_argument("--results", type=Path, help="folder of the JSON (default: benchmarks/results)")
    options = parser.parse_args(argv)
    started = time.perf_counter()

    def say(text: str) -> None:
        print(f"[{time.perf_counter() - started:7.1f} s] {text}", file=sys.stderr, flush=True)

    path = (options.results or (RESULTS / "quick" if options.quick else RESULTS)) / f"{KIND}.json"
    lines = json.loads(path.read_text())["results"] if options.resume and path.exists() else []
    for name, chosen in (QUICK if options.quick else SETS).items():
        if (options.only and name not in options.only) or any(line["set"] == name for line in lines):
            continue
        with one_thread():
            measured = _of_set(name, chosen, options.quick, say, only_build=options.build)
        if not options.build:
            lines += measured
            write_json(path, _found(lines, options.quick))
            say(f"wrote {name} to {path.name}")
    return 0


def _found(lines: list[dict[str, Any]], quick: bool) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "kind": KIND,
        "quick": quick,
        "environment": machine.environment() | {"load_at_end": round(machine.load(), 2)},
        "simd": _native.simd_level(),
        "code": code_version(),
        "protocol": {
            **{"k": K, "queries": QUERIES, "timed": TIMED, "rounds": ROUNDS, "train_rows": TRAIN, "threads": 1},
            "clock": "processor time of the process",
        },
        "results": lines,
    }


def _of_set(name: str, chosen: LongSet, quick: bool, say: Say, *, only_build: bool) -> list[dict[str, Any]]:
    """The lines of one set, all methods in the same rounds; none if they are only built."""
    x, queries = _vectors(chosen)
    folder = cache_folder() / "long-codes" / f"{name}-{chosen.rows}"
    metric = "cosine" if chosen.text else "l2"
    truth = kept_array(
        None if quick else folder / "truth.npy", lambda: bench_sets.neighbours(x, queries, metric)[:, :K]
    )
    methods = []
    for n_bytes in (6, 8) if quick else BYTES:
        for layout in chosen.layouts:
            say(f"{name}: {n_bytes} bytes, {layout}")
            methods += _ours(x, n_bytes, layout, metric, None if quick else folder)
        for rotated in (False, True) if chosen.opq else (False,):
            say(f"{name}: {n_bytes} bytes, {'OPQ and ' if rotated else ''}FastScan")
            methods.append(_fast_scan(x, n_bytes, rotated, None if quick else folder))
    if only_build:
        return []
    rates = race(
        methods, queries, 2 if quick else ROUNDS, TASKS, lambda text: say(f"{name}: {text}"), clock=time.process_time
    )
    lines = []
    for method in methods:
        us = {mode: round(1e6 / rates[method.key][f"{mode}@{K}"]["median"], 1) for mode, _ in TASKS}
        found = round(recall(method.answers(queries, K), truth, K), 4)
        place = {"set": name, "dim": chosen.dim, "rows": len(x), "name": method.key}
        lines.append(place | method.facts | {"recall": found, "us": us})
    return lines


def _vectors(chosen: LongSet) -> tuple[FloatArray, FloatArray]:
    """Rows and queries; those of text have length 1."""
    if not chosen.text:
        return bench_sets.spectrum(chosen.rows, chosen.dim, QUERIES, seed=0)
    path = bench_sets.data_file("text128k", "text128k.npz")
    if path is None:
        raise SystemExit("text128k.npz was not found; set INTERLACE_DATA, or choose other sets by --only")
    with np.load(path) as file:
        both = (file["base"][: chosen.rows].astype(np.float32), file["query"][:QUERIES].astype(np.float32))
    x, queries = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in both)
    return x, queries


def _ours(x: FloatArray, n_bytes: int, layout: str, metric: str, folder: Path | None) -> list[Method]:
    """One index, once for each margin."""

    def build() -> il.Index:
        keywords = {"n_bytes": n_bytes, "layout": layout, "metric": metric, "effort": "fast"}
        return il.Index.build(x, **keywords, max_train_rows=TRAIN, threads=1, progress=False)

    if folder is None:
        index = build()
    else:
        path = folder / f"{layout}-{n_bytes}-{code_version()}"
        if not path.exists():
            written = partial(path)
            build().save(written)
            finish(written, path)
        index = il.open(path)
    facts = {"n_bytes": n_bytes, "layout": layout, "cells": index.codebooks.n_cells}
    methods = []
    for margin in MARGINS:
        given: dict[str, Any] = {} if margin is None else {"margin": margin}

        def search(queries: FloatArray, k: int, given: dict[str, Any] = given) -> Ids:
            return index.search(queries if len(queries) > 1 else queries[0], k, threads=1, **given).ids.reshape(-1, k)

        key = f"interlace {layout}, {n_bytes} bytes, margin {'default' if margin is None else margin}"
        methods.append(Method(key, search, TIMED, facts=facts | {"margin": margin, "kind": "ours"}))
    return methods


def _fast_scan(x: FloatArray, n_bytes: int, rotated: bool, folder: Path | None) -> Method:
    """FastScan; vectors get zeros behind them until the codes divide them."""
    n_codes = 2 * n_bytes
    pad = -x.shape[1] % n_codes
    name = f"{'OPQ and ' if rotated else ''}PQ{n_codes}x4fs"

    def build() -> Any:
        rows = np.pad(x, ((0, 0), (0, pad)))
        fast = faiss.IndexPQFastScan(rows.shape[1], n_codes, 4)
        index = fast
        if rotated:
            rotation = faiss.OPQMatrix(rows.shape[1], n_codes)
            of_halves = faiss.ProductQuantizer(rows.shape[1], n_codes, 4)
            rotation.pq = of_halves  # learned for words of 4 bits, as they are used
            index = faiss.IndexPreTransform(rotation, fast)
        chosen = np.sort(np.random.default_rng(0).choice(len(rows), min(TRAIN, len(rows)), replace=False))
        index.train(rows[chosen])
        index.add(rows)
        return index

    if folder is None:
        index = build()
    else:
        path = folder / f"faiss-{'opq-' if rotated else ''}{n_codes}-{faiss.__version__}"
        if not path.exists():
            written = partial(path)
            faiss.write_index(build(), str(written))
            finish(written, path)
        index = faiss.read_index(str(path))
    facts = {"n_bytes": n_bytes, "layout": "opq" if rotated else "pq", "kind": "faiss"}
    return Method(name, lambda queries, k: index.search(queries, k)[1], TIMED, facts=facts, pad=pad)


if __name__ == "__main__":
    sys.exit(main())
