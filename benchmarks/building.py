"""Time and memory of building an index from a file that is larger than one wants in memory.

    python benchmarks/building.py [--set sift-grown-10m] [--bytes 8] [--threads 2]   # one idle machine

The rows stay in a memory-mapped file. Peak memory is sampled, and split into pages of files, which the system may drop
at any time, and memory of the process, which is what a limit has to allow for. The index is left in the cache, where
benchmarks/growth.py finds it.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path
from typing import Any

import bench_sets
import curves
import machine
import partition_ours
from cache import finish, partial, write_json
from curves import Clock, size_of
from interlace import Index, _native
from ours import Phases
from partition_ours import Spec
from partitions import RESULTS, folder_of

FORMAT, KIND, SECONDS = 1, "building", 0.05


class Memory:
    """The largest resident memory of this process while the block runs: its own, and pages of files."""

    def __enter__(self) -> Memory:
        self.own, self.files = _resident()
        self.before = self.own
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(SECONDS):
            own, files = _resident()
            self.own, self.files = max(self.own, own), max(self.files, files)


def _resident() -> tuple[int, int]:
    """Bytes of anonymous memory and of mapped files (Linux)."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    anonymous, files = (int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile"))
    return anonymous, files


def measure(name: str, n_bytes: int, threads: int) -> dict[str, Any]:
    """One build with default settings."""
    environment, spec = machine.environment(), Spec(n_bytes)

    def say(text: str) -> None:
        print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)

    data = bench_sets.load(name, seed=0, quick=False, say=say)
    plan, folder = curves.plan_for(len(data.x), seed=0, quick=False), folder_of(data, quick=False)
    path = partition_ours.path_of(spec, folder, any_version=False)
    phases, clock, written = Phases(), Clock(), partial(path)
    say(f"building {spec.name} of {len(data.x):,} rows on {threads} threads")
    with Memory() as memory, clock.step("build"):
        index = Index.build(
            data.x, metric=data.metric, seed=plan.seed, threads=threads, progress=phases, **spec.keywords()
        )
    index.save(partition_ours.as_built(path))
    partition_ours.calibrate(index, data)
    index.save(written)
    finish(written, path)
    built = {"phases_wall_seconds": phases.seconds(), "code": partition_ours.code_version(), "threads": threads}
    write_json(partition_ours.facts_path(path), built | clock.facts)
    say(f"built in {clock.facts['build_wall_seconds']} s")
    return {
        "format": FORMAT,
        "kind": KIND,
        "environment": environment | {"load_at_end": round(machine.load(), 2)},
        "simd": _native.simd_level(),
        "data": data.name,
        "rows": len(data.x),
        "dim": data.x.shape[1],
        "n_bytes": n_bytes,
        "cells": index.codebooks.n_cells,
        "threads": threads,
        "seconds": phases.seconds()
        | {"all": clock.facts["build_wall_seconds"], "cpu": clock.facts["build_cpu_seconds"]},
        "bytes": {
            "file": size_of(path),
            "before": memory.before,
            "own_at_most": memory.own,
            "mapped_files_at_most": memory.files,
        },
    }


def main(argv: list[str] | None = None) -> int:
    """Build and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="sift-grown-10m", choices=("sift300k", "sift-grown-1m", "sift-grown-10m"))
    parser.add_argument("--bytes", type=int, default=8, help="bytes of a code")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=Path, help="folder of the JSON (default: benchmarks/results)")
    options = parser.parse_args(argv)
    found = measure(options.set, options.bytes, options.threads)
    write_json((options.results or RESULTS) / f"{KIND}-{options.set}.json", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
