"""Speed of coding rows with learned books, ours and the residual quantizer of faiss, in processor time of one thread.

    python benchmarks/coding.py [--rows 10000] [--repeat 2] [--results FOLDER]

SIFT rows that were not learned from, 8 and 16 bytes. All books are learned from the same rows. Ours are the codes of
layout ``residual`` at two efforts of the encoder; faiss' have its default beam, with and without its tables for the
beam (use_beam_LUT). The coders take turns, so that the load of the machine is the same for all; the smallest time of
each counts. The error is the mean squared one of the coded rows. Writes coding.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np

import machine
from bench_sets import FloatArray
from interlace import ICQ, _native, data
from partitions import RESULTS
from peers import write

TRAIN_ROWS = 18_000
EFFORTS = ("fast", "balanced")


def coders(train: FloatArray, n_bytes: int) -> dict[str, tuple[Callable[[FloatArray], Any], Callable[[Any], Any]]]:
    """Functions that code rows and decode codes, by name."""
    ours = ICQ(n_bytes, layout="residual", threads=1).fit(train)
    rq = faiss.ResidualQuantizer(train.shape[1], n_bytes, 8)
    rq.train(train)

    def theirs(lut: int) -> Callable[[FloatArray], Any]:
        def run(x: FloatArray) -> Any:
            rq.use_beam_LUT = lut  # training has computed the tables
            return rq.compute_codes(x)

        return run

    found: dict[str, Any] = {
        f"interlace residual, effort {effort}": (lambda x, effort=effort: ours.encode(x, effort=effort), ours.decode)
        for effort in EFFORTS
    }
    beam = rq.max_beam_size
    found[f"faiss RQ, beam {beam}"] = (theirs(0), rq.decode)
    found[f"faiss RQ, beam {beam}, use_beam_LUT"] = (theirs(1), rq.decode)
    return found


def main(argv: list[str] | None = None) -> int:
    """Measure and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON")
    options = parser.parse_args(argv)
    faiss.omp_set_num_threads(1)
    sift = data.sift300k().x
    chosen = np.random.default_rng(0).permutation(len(sift))[: TRAIN_ROWS + options.rows]
    train, x = (np.ascontiguousarray(sift[part], np.float32) for part in np.split(chosen, [TRAIN_ROWS]))
    environment, entries = machine.environment(), []
    for n_bytes in (8, 16):
        methods = coders(train, n_bytes)
        seconds: dict[str, list[float]] = {name: [] for name in methods}
        errors = {name: float(np.square(x - decode(run(x))).sum(1).mean()) for name, (run, decode) in methods.items()}
        for _ in range(options.repeat):
            for name, (run, _) in methods.items():
                started = time.process_time()
                run(x)
                seconds[name].append(time.process_time() - started)
        for name in methods:
            entry = {
                "n_bytes": n_bytes,
                "method": name,
                "error": round(errors[name], 1),
                "microseconds": round(1e6 * min(seconds[name]) / len(x), 2),
            }
            print(entry, file=sys.stderr, flush=True)
            entries.append(entry)
    found = {
        "format": 1,
        "kind": "coding",
        "data": {"name": "sift300k", "rows": len(x), "train_rows": len(train)},
        "environment": environment | {"load_at_end": round(machine.load(), 2)},
        "simd": _native.simd_level(),
        "entries": entries,
    }
    write(options.results / "coding.json", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
