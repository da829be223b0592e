"""Latencies: import, opening a large file, and the accuracy of `plan`; `fixed_cost.py` has those of queries.

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
    planning()
