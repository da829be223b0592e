"""Seconds to learn codebooks, on all cores: the sizes that people with text embeddings have.

    python benchmarks/fitting.py [--threads 2]      # one idle machine

`Index.build` with default settings, its phases apart: learning, coding of all rows, calibrating. Writes fitting.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import bench_sets
import machine
from bench_sets import FloatArray
from cache import write_json
from interlace import Index, _native
from ours import Phases
from partitions import RESULTS

FORMAT, KIND = 1, "fitting"


def cases() -> dict[str, tuple[FloatArray, str, int, float]]:
    """Rows, metric, bytes of a code and the seconds that it may take."""
    text = bench_sets.load("text128k", seed=0, quick=False, say=lambda what: None)
    chosen = np.random.default_rng(0).permutation(len(text.x))[:100_000]
    generated, _ = bench_sets.spectrum(30_000, 384, 1, seed=0)
    return {
        f"{text.name}, 100,000 x {text.x.shape[1]}": (text.x[chosen], text.metric, 32, 120.0),
        "generated with a decaying spectrum, 30,000 x 384": (generated, "cosine", 16, 60.0),
    }


def main(argv: list[str] | None = None) -> int:
    """Measure and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=Path, help="folder of the JSON (default: benchmarks/results)")
    options = parser.parse_args(argv)
    environment, lines = machine.environment(), []
    for name, (x, metric, n_bytes, allowed) in cases().items():
        phases, started, worked = Phases(), time.perf_counter(), time.process_time()
        index = Index.build(x, metric=metric, n_bytes=n_bytes, threads=options.threads, progress=phases)
        line: dict[str, Any] = {
            "data": name,
            "n_bytes": n_bytes,
            "layout": index.codebooks.layout,
            "allowed": allowed,
            "seconds": phases.seconds()
            | {"all": round(time.perf_counter() - started, 2), "cpu": round(time.process_time() - worked, 2)},
        }
        print(line, file=sys.stderr, flush=True)
        lines.append(line)
    found = {
        "format": FORMAT,
        "kind": KIND,
        "environment": environment | {"load_at_end": round(machine.load(), 2)},
        "simd": _native.simd_level(),
        "threads": options.threads,
        "results": lines,
    }
    write_json((options.results or RESULTS) / f"{KIND}.json", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
