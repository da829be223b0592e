"""Microseconds of a query before the first row: rotation, tables, order of cells and the Python around them.

    python benchmarks/fixed_cost.py [--quick]      # one idle core; processor time

An index of one row has the cost of a query without that of rows. The same codebooks also search 2,000 rows, next to
what NumPy takes for the products of the queries with the vectors of these rows. Two kinds of codebooks:

- `auto`: what `Index.build` learns from 2,000 rows by default;
- `many rows`: residual books in the groups that they have when learned from 65,536 rows or more, over 512 cells. Their
  words are random: a table takes the same time for any words.

Writes fixed-cost.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import bench_sets
import interlace as il
import machine
from cache import write_json
from interlace import _native
from interlace.learn.grouping import group_sizes
from measure import one_thread, quiet, significant
from partitions import RESULTS

FORMAT, KIND = 1, "fixed-cost"
ROWS, BATCH, SINGLE, ROUNDS, K = 2000, 64, 24, 9, 10
DIMS, BYTES = (128, 384, 768, 784, 1536), (32, 64)
LEARNED_FROM, MANY_CELLS = 65536, 512
Act = Callable[[], object]


def main(argv: list[str] | None = None) -> int:
    """Measure and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--results", type=Path, help="folder of the JSON (default: benchmarks/results)")
    options = parser.parse_args(argv)
    environment, lines = machine.environment(), []
    shapes = [(16, 4)] if options.quick else [(dim, n_bytes) for dim in DIMS for n_bytes in BYTES]
    with one_thread():
        for dim, n_bytes in shapes:
            lines += measured(dim, n_bytes, rows=300 if options.quick else ROWS, rounds=2 if options.quick else ROUNDS)
    found = {
        "format": FORMAT,
        "kind": KIND,
        "quick": options.quick,
        "environment": environment | {"load_at_end": round(machine.load(), 2)},
        "simd": _native.simd_level(),
        "protocol": {"k": K, "batch": BATCH, "rounds": ROUNDS, "clock": "processor time", "learned_from": LEARNED_FROM},
        "results": lines,
    }
    write_json((options.results or (RESULTS / "quick" if options.quick else RESULTS)) / f"{KIND}.json", found)
    return 0


def measured(dim: int, n_bytes: int, *, rows: int, rounds: int) -> list[dict[str, Any]]:
    """The lines of one shape: both kinds of codebooks and NumPy, in the same rounds."""
    x, queries = bench_sets.spectrum(rows, dim, BATCH, seed=0)
    built = il.Index.build(x, n_bytes=n_bytes, effort="fastest", iterations=1, threads=1, progress=False)
    wide = many_rows(dim, n_bytes)
    indexes = {
        "auto": (built.codebooks, one_row(built.codebooks), built),
        "many rows": (wide, one_row(wide), None),
    }
    tasks: dict[tuple[str, str], tuple[Act, int]] = {
        ("NumPy", "rows, batch"): (lambda: queries @ x.T, BATCH),
        ("NumPy", "rows, single"): (lambda: [x @ query for query in queries[:SINGLE]], SINGLE),
    }
    for name, (codebooks, one, many) in indexes.items():
        tasks[name, "batch"] = batch(one, queries)
        tasks[name, "single"] = single(one, queries)
        tasks[name, "native single"] = native_single(codebooks, one, queries)
        if many is not None:
            tasks[name, "rows, batch"] = batch(many, queries)
            tasks[name, "rows, single"] = single(many, queries)
    spent = interleaved(tasks, rounds)
    lines = []
    for name in ("auto", "many rows", "NumPy"):
        line: dict[str, Any] = {"dim": dim, "n_bytes": n_bytes, "rows": rows, "name": name}
        if name in indexes:
            codebooks = indexes[name][0]
            line |= {"layout": codebooks.layout, "cells": codebooks.n_cells, "products": products(codebooks)}
        line["us"] = {task: us for (of, task), us in spent.items() if of == name}
        print(line, file=sys.stderr, flush=True)
        lines.append(line)
    return lines


def products(codebooks: il.Codebooks) -> dict[str, int]:
    """Multiplications of one query: what the rotation, the cells and the tables of the other books need."""
    first, *others = codebooks.books
    used = len({int(d) for book in codebooks.books for d in book.support})
    return {
        "rotation": 0 if codebooks.rotation is None else codebooks.dim * used,
        "cells": len(first.words) * len(first.support),
        "tables": sum(len(book.words) * len(book.support) for book in others),
    }


def many_rows(dim: int, n_bytes: int) -> il.Codebooks:
    """Residual books with random words, in the groups of books that are learned from many rows."""
    rng = np.random.default_rng(0)
    sizes = group_sizes(n_bytes, dim, LEARNED_FROM)
    parts = np.array_split(np.arange(dim), len(sizes))
    supports = [np.arange(dim), *(part for part, size in zip(parts, sizes, strict=True) for _ in range(size))]
    words = [rng.standard_normal((MANY_CELLS if i == 0 else 256, len(s)), np.float32) for i, s in enumerate(supports)]
    rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0] if len(sizes) > 1 else None
    books = [il.Book(of, dims) for of, dims in zip(words, supports, strict=True)]
    return il.Codebooks(books, dim=dim, n_crude=n_bytes, rotation=rotation, layout="residual")


def one_row(codebooks: il.Codebooks) -> il.Index:
    """An index whose only row has the code 0 in every column."""
    return il.Index.from_codes(codebooks, np.zeros((1, codebooks.code_width), np.uint8))


def batch(index: il.Index, queries: bench_sets.FloatArray) -> tuple[Act, int]:
    """All queries in one call."""
    k = min(K, len(index))
    return lambda: index.search(queries, k, threads=1), len(queries)


def single(index: il.Index, queries: bench_sets.FloatArray) -> tuple[Act, int]:
    """One call for each of some queries."""
    k, some = min(K, len(index)), list(queries[:SINGLE])
    return lambda: [index.search(query, k, threads=1) for query in some], len(some)


def native_single(codebooks: il.Codebooks, index: il.Index, queries: bench_sets.FloatArray) -> tuple[Act, int]:
    """The same without Python: what a call takes beyond this is Python's share."""
    engine, rows, distances = index.engine, np.empty((1, 1), np.int64), np.empty((1, 1), np.float32)
    books, rule = codebooks.native, engine.rule("exact", 1).native
    segments, some = [segment.native for segment in engine.segments], [query[None] for query in queries[:SINGLE]]
    return lambda: [_native.search_one(books, segments, query, rule, rows, distances) for query in some], len(some)


def interleaved(tasks: dict[tuple[str, str], tuple[Act, int]], rounds: int) -> dict[tuple[str, str], float]:
    """Median microseconds of each task; every round runs all of them, every other one backwards."""
    spent: dict[tuple[str, str], list[float]] = {key: [] for key in tasks}
    for act, _ in tasks.values():
        act()  # the first call makes what later ones reuse
    with quiet():
        for turn in range(rounds):
            for key in tasks if turn % 2 == 0 else reversed(tasks):
                act, n = tasks[key]
                act()  # finds its own data in the caches, as in a program that does nothing else
                started = time.process_time()
                act()
                spent[key].append((time.process_time() - started) / n * 1e6)
    return {key: significant(median(found), 4) for key, found in spent.items()}


if __name__ == "__main__":
    sys.exit(main())
