"""Speed of coding rows with learned books, ours and the residual quantizer of faiss, in processor time of one thread.

    python benchmarks/coding.py --build                      # learn the books into the cache; may be a busy machine
    python benchmarks/coding.py [--rows 10000] [--repeat 5] [--results FOLDER]

SIFT rows that were not learned from, 8 and 16 bytes. All books are learned from the same 100,000 rows. Ours are the
codes of layout ``residual`` at the efforts of the encoder; faiss' have its default beam, with and without its tables
for the beam (use_beam_LUT). The coders take turns, so that the load of the machine is the same for all; the smallest
time of each counts. The error is the mean squared one of the coded rows. Writes coding.json after each code length.
Our books are learned again whenever the installed code has changed, those of faiss once.
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
from cache import cache_folder, finish, partial
from interlace import ICQ, _native, data
from measure import one_thread
from partition_ours import code_version
from partitions import RESULTS
from peers import write

FORMAT, KIND = 1, "coding"
TRAIN_ROWS = 100_000
BYTES = (8, 16)
EFFORTS = ("fast", "balanced", "best")
Coders = dict[str, tuple[Callable[[FloatArray], Any], Callable[[Any], Any]]]


def coders(train: FloatArray, n_bytes: int, folder: Path) -> Coders:
    """Functions that code rows and decode codes, by name; the books are learned unless the cache has them."""
    ours = ICQ.load(_ours(train, n_bytes, folder))
    ours.threads = 1
    index = faiss.read_index(str(_theirs(train, n_bytes, folder)))
    rq = index.rq
    rq.compute_codebook_tables()  # those that use_beam_LUT reads; not among the bytes of a file

    def theirs(lut: int) -> Callable[[FloatArray], Any]:
        def run(x: FloatArray, kept: Any = index) -> Any:  # faiss keeps no references
            rq.use_beam_LUT = lut
            return rq.compute_codes(x)

        return run

    found: Coders = {
        f"interlace residual, effort {effort}": (lambda x, effort=effort: ours.encode(x, effort=effort), ours.decode)
        for effort in EFFORTS
    }
    beam = rq.max_beam_size
    found[f"faiss RQ, beam {beam}"] = (theirs(0), rq.decode)
    found[f"faiss RQ, beam {beam}, use_beam_LUT"] = (theirs(1), rq.decode)
    return found


def _ours(train: FloatArray, n_bytes: int, folder: Path) -> Path:
    path = folder / f"residual-{n_bytes}-{len(train)}-{code_version()}"
    if not path.exists():
        written = partial(path)
        ICQ(n_bytes, layout="residual", max_train_rows=len(train), threads=1, progress=False).fit(train).save(written)
        finish(written, path)
    return path


def _theirs(train: FloatArray, n_bytes: int, folder: Path) -> Path:
    path = folder / f"faiss-rq-{n_bytes}-{len(train)}-{faiss.__version__}"
    if not path.exists():
        index = faiss.IndexResidualQuantizer(train.shape[1], n_bytes, 8)
        index.rq.use_beam_LUT = 1  # the same books, learned in less time
        index.train(train)
        written = partial(path)
        faiss.write_index(index, str(written))
        finish(written, path)
    return path


def measured(methods: Coders, x: FloatArray, n_bytes: int, repeat: int) -> list[dict[str, Any]]:
    """Error and time of each coder, in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in methods}
    errors = {name: float(np.square(x - decode(run(x))).sum(1).mean()) for name, (run, decode) in methods.items()}
    for _ in range(repeat):
        for name, (run, _) in methods.items():
            started = time.process_time()
            run(x)
            seconds[name].append(time.process_time() - started)
    return [
        {
            "n_bytes": n_bytes,
            "method": name,
            "error": round(errors[name], 1),
            "microseconds": round(1e6 * min(seconds[name]) / len(x), 2),
        }
        for name in methods
    ]


def main(argv: list[str] | None = None) -> int:
    """Measure and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", action="store_true", help="only learn the books that the cache lacks")
    parser.add_argument("--rows", type=int, default=10_000, help="rows to code")
    parser.add_argument("--train", type=int, default=TRAIN_ROWS, help="rows to learn from")
    parser.add_argument("--bytes", type=lambda text: [int(n) for n in text.split(",")], default=list(BYTES))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the JSON")
    options = parser.parse_args(argv)
    sift = data.sift300k().x
    chosen = np.random.default_rng(0).permutation(len(sift))[: options.train + options.rows]
    train, x = (np.ascontiguousarray(sift[part], np.float32) for part in np.split(chosen, [options.train]))
    environment, entries = machine.environment(), []
    for n_bytes in options.bytes:
        with one_thread():
            methods = coders(train, n_bytes, cache_folder() / KIND)
            if options.build:
                continue
            entries += measured(methods, x, n_bytes, options.repeat)
        for entry in entries[-len(methods) :]:
            print(entry, file=sys.stderr, flush=True)
        found = {
            "format": FORMAT,
            "kind": KIND,
            "data": {"name": "sift300k", "rows": len(x), "train_rows": len(train)},
            "environment": environment | {"load_at_end": round(machine.load(), 2)},
            "simd": _native.simd_level(),
            "entries": entries,
        }
        write(options.results / f"{KIND}.json", found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
