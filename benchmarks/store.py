"""What a store costs: durable writes, adding against coding, opening, searching after removals and while rows come.

    python benchmarks/store.py [--quick]

Writes benchmarks/results/store.json. Everything on one thread; a number of the disk (waits for a bare append) stands
beside those that depend on it. Searches of a store before, after removals and after compaction are timed in turns, in
one process, by the time of the processor, which other processes disturb less. The store of ten million rows has
random codes and ids: opening does not look at them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import datasets
import interlace as il
import machine
from interlace.arrays import Rows
from interlace.encode import encode_rows
from interlace.store import Limits
from measure import one_thread, quiet
from peers import RESULTS, write

FORMAT = 1
N_BYTES, BLOCK, UPSERTS, OPENED, K = 8, 10_000, 1000, 10_000_000, 10
NEVER = Limits(removed_share=None)
FloatArray = NDArray[np.float32]


def say(text: str) -> None:
    """Progress, to people."""
    print(text, file=sys.stderr, flush=True)


def seconds(act: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> float:
    """Of one call."""
    with quiet():
        started = clock()
        act()
        return clock() - started


def upserts(store: il.Store, x: FloatArray, folder: Path) -> dict[str, Any]:
    """One row at a time, durable each; the same in one batch; and what the disk itself takes for such appends."""
    rng = np.random.default_rng(0)
    ids = rng.choice(store.ids, UPSERTS, replace=False).tolist()

    def one_by_one() -> None:
        for i, row in zip(ids, x, strict=False):
            store.upsert(row, i, threads=1)

    def in_a_batch() -> None:
        with store.batch():
            one_by_one()

    def bare() -> None:
        file = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for _ in range(UPSERTS):
            os.write(file, bytes(80))
            os.fdatasync(file)
        os.close(file)

    return {
        "durable_upserts_per_s": round(UPSERTS / seconds(one_by_one), 1),
        "upserts_per_s_in_one_batch": round(UPSERTS / seconds(in_a_batch), 1),
        "bare_appends_per_s": round(UPSERTS / seconds(bare), 1),
    }


def adding(codebooks: il.Codebooks, x: FloatArray, folder: Path) -> tuple[dict[str, Any], il.Store]:
    """All rows in blocks, durable each, against coding the same blocks; in turns, so that a slow spell hits both."""
    store = il.create(folder / "added", codebooks)
    coding = added = 0.0
    blocks = [x[i : i + BLOCK] for i in range(0, len(x), BLOCK)]
    for number, block in enumerate(blocks):
        if number % 10 == 0:
            say(f"adding: block {number} of {len(blocks)}")
        coding += seconds(lambda b=block: encode_rows(codebooks, Rows(b), 1))
        added += seconds(lambda b=block: store.add(b, threads=1))
    found = {
        "rows": len(x),
        "block": BLOCK,
        "coding_s": round(coding, 3),
        "adding_s": round(added, 3),
        "over_coding": round(added / coding - 1, 4),
        "segments": len(store.snapshot.parts),
    }
    return found, store


def searches(index: il.Index, queries: FloatArray, folder: Path, rounds: int) -> dict[str, Any]:
    """Queries per second of the same rows: none removed, 30 % removed, then compacted."""
    rng = np.random.default_rng(0)
    stores = {name: il.create(folder / name, index, limits=NEVER) for name in ("before", "removed", "compacted")}
    gone = rng.choice(len(index), len(index) * 3 // 10, replace=False)
    for name in ("removed", "compacted"):
        stores[name].remove(gone)
    compacting = seconds(stores["compacted"].compact)
    found: dict[str, Any] = {"rows": len(index), "removed": len(gone), "compact_s": round(compacting, 3), "qps": {}}
    singles = queries[:200]
    for margin in ("exact", 0.999):
        for mode in ("batch", "single"):
            spent: dict[str, list[float]] = {name: [] for name in stores}
            for turn in range(rounds + 1):
                for name, store in stores.items():
                    calls = [queries] if mode == "batch" else list(singles)
                    took = seconds(
                        lambda s=store, c=calls, m=margin: [s.search(q, K, margin=m, threads=1) for q in c],
                        time.process_time,
                    )
                    if turn:
                        spent[name].append(took / (len(queries) if mode == "batch" else len(singles)))
            rates = {name: round(1 / median(times), 1) for name, times in spent.items()}
            rates |= {f"{name}/before": round(rates[name] / rates["before"], 3) for name in ("removed", "compacted")}
            found["qps"][f"{margin} {mode}"] = rates
            say(f"search {margin} {mode}: {rates}")
    found["margin"] = stores["removed"].search(queries, K, threads=1).stats.margin
    return found


WRITER = """
import sys, time
import numpy as np
import interlace as il
store = il.open(sys.argv[1], mode="a")
x = np.load(sys.argv[2], mmap_mode="r")
print("ready", flush=True)
n = 0
while True:
    store.add(x[n % len(x) : n % len(x) + 1000], threads=1)
    n += 1000
    print(n, flush=True)
"""


def while_writing(index: il.Index, x: FloatArray, queries: FloatArray, folder: Path, rounds: int) -> dict[str, Any]:
    """Searches of a reader, alone and beside a process that adds rows at full speed on another core."""
    il.create(folder / "busy", index).close()
    np.save(folder / "rows.npy", x[:100_000])
    reader = il.open(folder / "busy")

    def search() -> None:
        reader.refresh()
        reader.search(queries, K, margin="exact", threads=1)

    def qps() -> tuple[float, float]:
        """By the wall clock, and by that of the processor."""
        times = []
        for _ in range(rounds):
            spent = time.process_time()
            times.append((seconds(search), time.process_time() - spent))
        return len(queries) / median(t for t, _ in times), len(queries) / median(t for _, t in times)

    search()
    idle = qps()
    command = [sys.executable, "-c", WRITER, str(folder / "busy"), str(folder / "rows.npy")]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    writer.stdout.readline()
    started = time.perf_counter()
    busy = qps()
    took = time.perf_counter() - started
    writer.kill()
    lines = writer.stdout.read().split()
    writer.wait()
    reader.refresh()
    added = len(reader) - len(index)
    assert added >= int(lines[-1])
    per_row = len(reader) / len(index)  # more rows take longer, writer or not
    return {
        "idle_qps": round(idle[0], 1),
        "qps": round(busy[0], 1),
        "ratio": round(busy[0] / idle[0], 3),
        "ratio_by_processor_time": round(busy[1] / idle[1], 3),
        "rows_added_per_s": round(added / took, 1),
        "rows_at_the_end": round(per_row, 4),
    }


OPEN = """
import json, resource, sys, time
import numpy as np
import interlace as il
def rss():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
before = rss()
times = []
for _ in range(9):
    started = time.perf_counter()
    store = il.open(sys.argv[1])
    times.append(time.perf_counter() - started)
opened = rss()
started = time.perf_counter()
there = int(sys.argv[2]) in store
contains = time.perf_counter() - started
started = time.perf_counter()
store.get([int(sys.argv[2])])
got = time.perf_counter() - started
assert there
print(json.dumps({"first_open_ms": round(times[0] * 1e3, 2), "open_ms": round(sorted(times)[4] * 1e3, 2),
    "contains_ms": round(contains * 1e3, 3), "get_ms": round(got * 1e3, 3),
    "rss_open_mb": round((opened - before) / 1e6, 1), "rss_get_mb": round((rss() - before) / 1e6, 1)}))
"""


def opening(store: Path, some_id: int) -> dict[str, Any]:
    """In a new process: files in the cache of the system, nothing in that of the process."""
    done = subprocess.run(
        [sys.executable, "-c", OPEN, str(store), str(some_id)], capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def large(codebooks: il.Codebooks, rows: int, folder: Path) -> dict[str, Any]:
    """A store of random codes and ids with 3 % removed and some rows in its log, opened."""
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, rows, dtype=np.uint8) for size in codebooks.column_sizes], axis=1)
    ids = rng.permutation(rows) * 3
    store = il.create(folder / "large", il.Index.from_codes(codebooks, codes, ids))
    store.remove(ids[: rows // 33])
    for i in range(500):
        store.upsert(np.zeros(codebooks.dim, np.float32), int(ids[-1 - i]), threads=1)
    in_log = store.snapshot.tail.n
    size = store.report().file
    store.close()
    return {"rows": rows, "rows_in_log": in_log, "file_bytes": size, **opening(folder / "large", int(ids[-5]))}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small: see that it runs")
    parser.add_argument("--folder", help="where the stores are made; their disk is what is measured")
    args = parser.parse_args()
    data = datasets.load("sift1m", seed=0, quick=args.quick, say=say)
    rounds, folder = (2 if args.quick else 5), Path(tempfile.mkdtemp(prefix="interlace-store-", dir=args.folder))
    try:
        with one_thread():
            say("learning")
            index = il.Index.build(data.x, n_bytes=N_BYTES, layout="hybrid", threads=1)
            found: dict[str, Any] = {
                "format": FORMAT,
                "kind": "store",
                "quick": args.quick,
                "environment": machine.environment(),
                "data": {"name": data.name, "rows": len(data.x), "dim": data.x.shape[1]},
                "n_bytes": N_BYTES,
                "codebooks": repr(index.codebooks),
                "search": searches(index, data.queries[:1000], folder, rounds),
            }
            found["while_writing"] = while_writing(index, data.x, data.queries[:500], folder, rounds)
            say(str(found["while_writing"]))
            found["adding"], store = adding(index.codebooks, data.x, folder)
            say(str(found["adding"]))
            found["upserts"] = upserts(store, data.x[:UPSERTS], folder)
            store.close()
            say(str(found["upserts"]))
            found["opening"] = {
                "rows": len(data.x),
                **opening(folder / "added", 17),
            }
            found["opening_large"] = large(index.codebooks, 100_000 if args.quick else OPENED, folder)
            say(f"{found['opening']} {found['opening_large']}")
            found["load_at_end"] = round(machine.load(), 2)
            write((RESULTS / "quick" if args.quick else RESULTS) / "store.json", found)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
