"""Times and memory estimated by `il.plan`, compared with those of the build. CPU seconds of one thread.

    python benchmarks/costs.py [--quick]

CPU time rather than wall-clock time, because other programs run here too. Prints one line for each case: planned and
taken seconds of trying layouts, learning and coding, and their ratio, which should be between 1/2 and 2.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import interlace as il

CASES: tuple[tuple[int, int, dict[str, Any]], ...] = (
    (2000, 16, {}),
    (20_000, 64, {}),
    (20_000, 64, {"effort": "fast"}),
    (20_000, 64, {"layout": "subspace"}),
    (20_000, 64, {"layout": "hybrid", "n_bytes": 16}),
    (20_000, 128, {"layout": "residual", "n_bytes": 4}),
    (10_000, 32, {"layout": "residual", "n_bytes": 12, "effort": "best"}),
    (6000, 512, {"layout": "hybrid"}),
    (6000, 256, {"layout": "subspace", "rotation": "learned"}),
    (40_000, 32, {}),
    (100_000, 96, {"max_train_rows": 30_000}),
)


def taken(n: int, dim: int, settings: dict[str, Any]) -> dict[str, float]:
    """CPU seconds of each phase of a build."""
    x = (np.random.default_rng(0).normal(size=(n, dim)) / np.sqrt(1 + np.arange(dim))).astype(np.float32)
    marks: list[tuple[str, float]] = []

    def note(what: str, done: float) -> None:
        name = "trying" if "trying" in what else what.partition(":")[0]
        marks.append((name, time.process_time()))

    note("learning", 0.0)
    il.Index.build(x, threads=1, progress=note, **settings)
    spent: dict[str, float] = {}
    for (name, start), (_, stop) in zip(marks[:-1], marks[1:], strict=True):
        spent[name] = spent.get(name, 0.0) + stop - start
    return spent


def main() -> None:
    """One line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only the first three cases")
    cases = CASES[:3] if parser.parse_args().quick else CASES
    for n, dim, settings in cases:
        plan, real = il.plan(n, dim, threads=1, **settings), taken(n, dim, settings)
        parts = []
        for name in ("trying", "learning", "coding"):
            planned, spent = getattr(plan, f"{name}_seconds"), real.get(name, 0.0)
            if planned and spent:
                parts.append(f"{name} {planned:.2f} / {spent:.2f} s = {planned / spent:.2f}")
        print(f"{n} x {dim} {settings}: {', '.join(parts)}", flush=True)


if __name__ == "__main__":
    main()
