"""Latencies: import, opening a large file, a query before its first row, and the accuracy of `plan`.

    python benchmarks/latency.py

Medians of several runs on this machine, with what they are to be compared with; tests only count modules and bytes.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import interlace as il
from interlace import _native

RUNS = 7


def median(act: Callable[[], object], runs: int = RUNS) -> float:
    """Seconds."""
    taken = []
    for _ in range(runs):
        started = time.perf_counter()
        act()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def imports() -> None:
    """A fresh interpreter that imports NumPy, and one that imports interlace."""
    for name in ("numpy", "interlace"):
        code = f"import time; t = time.perf_counter(); import {name}; print(time.perf_counter() - t)"
        found = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(RUNS)]
        print(f"import {name:<12} {statistics.median(found) * 1e3:8.1f} ms")


def opening(rows: int = 3_000_000) -> None:
    """Opening a file of that many rows, which is mapped and not read."""
    rng = np.random.default_rng(0)
    books = [il.Book(rng.normal(size=(256, 1)), [d]) for d in range(32)]
    index = il.Index.from_codes(
        il.Codebooks(books, dim=32, n_crude=4), rng.integers(0, 256, (rows, 32), dtype=np.uint8)
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large"
        index.save(path)
        size = path.stat().st_size / 1e6
        print(f"open {size:,.0f} MB       {median(lambda: il.open(path)) * 1e3:8.1f} ms")


def cpu(act: Callable[[], object], calls: int = 500) -> float:
    """Microseconds of CPU time for a call: the least of several rounds, because other programs only add."""
    taken = []
    for _ in range(RUNS):
        started = time.process_time()
        for _ in range(calls):
            act()
        taken.append((time.process_time() - started) / calls * 1e6)
    return min(taken)


def fixed_cost(dim: int, layout: str, n_bytes: int) -> list[float]:
    """Microseconds of a query whatever the number of rows, of an index of one row.

    A query alone, the part of it in Python, a query of a batch of 64; and the product of one query, and of those of a
    batch, with a matrix [dim, dim] in NumPy: what a rotation costs there.
    """
    rng = np.random.default_rng(0)
    x, matrix = (rng.normal(size=(n, dim)).astype(np.float32) for n in (600, dim))
    settings = {"n_bytes": n_bytes, "layout": layout, "iterations": 1, "effort": "fastest", "threads": 1}
    index = il.Index(il.Index.build(x, **settings, progress=False).codebooks)
    index.add(x[:1], threads=1)
    query, batch, calls = x[3], x[:64].copy(), 500 if dim < 1000 else 50
    engine, rows, distances = index.engine, np.empty((1, 1), np.int64), np.empty((1, 1), np.float32)
    segments, rule = [segment.native for segment in engine.segments], engine.rule("exact", 1).native
    one = cpu(lambda: index.search(query, 1, threads=1), calls)
    native = cpu(
        lambda: _native.search_one(engine.codebooks.native, segments, query[None], rule, rows, distances), calls
    )
    many = cpu(lambda: index.search(batch, 1, threads=1), calls // 10) / len(batch)
    products = (cpu(lambda: query @ matrix, calls), cpu(lambda: batch @ matrix, calls // 10) / len(batch))
    return [one, one - native, many, *products]


def before_the_first_row() -> None:
    """The fixed cost of a query for some shapes."""
    print("us before the first row   one query  in Python  in a batch  NumPy's product: one, in a batch")
    for shape in ((32, "hybrid", 8), (128, "hybrid", 8), (128, "residual", 8), (1536, "hybrid", 16)):
        found = "".join(f"{value:>12.1f}" for value in fixed_cost(*shape))
        print(f"  {shape[0]:>5}, {shape[1]:<9}{shape[2]:>3} bytes {found}")


def planning() -> None:
    """Plans, and their times divided by the measured times of building."""
    for dim in (128, 768):
        print(f"plan 1e9 x {dim:<8} {median(lambda dim=dim: il.plan(10**9, dim), 3) * 1e3:8.1f} ms")
    rows, dim = 20_000, 64
    x = (np.random.default_rng(0).normal(size=(rows, dim)) / np.sqrt(1 + np.arange(dim))).astype(np.float32)
    for layout in ("subspace", "hybrid", "residual"):
        plan = il.plan(rows, dim, layout=layout, threads=1)
        started = time.perf_counter()
        il.Index.build(x, layout=layout, threads=1)
        built = time.perf_counter() - started
        ratio = "none" if plan.build_seconds is None else f"{plan.build_seconds / built:.2f}"
        print(f"{layout:<10} planned / real: build {ratio} of {built:.1f} s")


if __name__ == "__main__":
    imports()
    opening()
    before_the_first_row()
    planning()
