"""Cost of a store: durable writes, adding compared with encoding, opening, searches after removals and during writes.

    python benchmarks/store.py [--quick]

Writes benchmarks/results/store.json. Everything runs on one thread. The speed of bare appends to the disk is
measured as well. Searches of a store before removals, after removals and after compaction are timed in interleaved
rounds in one process, in processor time, which other processes affect less. Searches during writes are timed by the
clock, interleaved with the same searches alone. The store of ten million rows has random codes and ids, because
opening does not read them. Targets are in store_bars.py.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bench_sets
import interlace as il
import machine
import store_bars
from interlace.codec.encode import encode_rows
from interlace.inputs.arrays import Rows
from interlace.store import Limits
from measure import one_thread, quiet
from peers import RESULTS, write

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
        "segments": len(store.snapshot.rows.parts),
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


BUSY = """
import sys
import numpy as np
import interlace as il
from interlace.inputs.arrays import Rows
from interlace.codec.encode import encode_rows
what, folder, rows = sys.argv[1:]
x = np.load(rows, mmap_mode="r")
store = il.open(folder, mode="a" if what == "add" else "r")
print("ready", flush=True)
n = 0
while True:
    block = x[n % len(x) : n % len(x) + 1000]
    if what == "add":
        store.add(block, threads=1)
    else:
        encode_rows(store.codebooks, Rows(block), 1)
    n += 1000
    print(n, flush=True)
"""


class Other:
    """A process that keeps another core busy on demand."""

    def __init__(self, what: str, folder: Path, rows: Path) -> None:
        command = [sys.executable, "-c", BUSY, what, str(folder), str(rows)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()
        self.pause()

    def pause(self) -> None:
        """Until :meth:`go_on`."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """From where it was."""
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> int:
        """How many rows it has done."""
        self._process.kill()
        assert self._process.stdout is not None
        lines = self._process.stdout.read().split()
        self._process.wait()
        return int(lines[-1]) if lines else 0


class OtherThread:
    """The same in a thread of this process: it shares the interpreter's lock with the searches."""

    def __init__(self, store: il.Store, x: FloatArray) -> None:
        self._store, self._x, self._rows = store, x, 0
        self._going, self._ended = threading.Event(), False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while self._going.wait() and not self._ended:
            first = self._rows % len(self._x)
            self._store.add(self._x[first : first + 1000], threads=1)
            self._rows += 1000

    def pause(self) -> None:
        """Until :meth:`go_on`."""
        self._going.clear()

    def go_on(self) -> None:
        """From where it was."""
        self._going.set()

    def end(self) -> int:
        """How many rows it has done."""
        self._ended = True
        self._going.set()
        self._thread.join()
        return self._rows


def while_writing(index: il.Index, x: FloatArray, queries: FloatArray, folder: Path, rounds: int) -> dict[str, Any]:
    """Searches while rows are added at full speed on another core, compared with the same searches alone.

    ``process``: another process adds, and the reader refreshes before every 500 queries in one call, or 200 single
    queries; ``thread``: a thread of the same process adds; ``coding``: another process only encodes the same rows,
    which is the cost of a busy machine. Each ratio compares a round with the rounds before and after it, alone.
    """
    np.save(folder / "rows.npy", x[:100_000])
    least_s = 0.2 * rounds
    found: dict[str, Any] = {}
    for name in ("process", "thread", "coding"):
        store = il.create(folder / name, index)
        if name != "thread":
            store.close()
            store = il.open(folder / name)
        other: Any = OtherThread(store, x[:100_000])
        if name != "thread":
            other.end()
            other = Other("add" if name == "process" else "code", folder / name, folder / "rows.npy")
        ratios: dict[str, list[float]] = {"batch": [], "single": []}
        of_processor: dict[str, list[float]] = {"batch": [], "single": []}
        busy_s, before = 0.0, len(store)
        for turn in range(rounds + 1):
            for mode, times in ratios.items():
                calls = [queries] if mode == "batch" else list(queries[:200])
                before_it = _searching(store, calls, least_s / 2)
                other.go_on()
                started = time.perf_counter()
                time.sleep(0.1)
                beside = _searching(store, calls, least_s)
                other.pause()
                busy_s += time.perf_counter() - started
                after_it = _searching(store, calls, least_s / 2)  # of more rows than before
                if turn:
                    alone = [(a + b) / 2 for a, b in zip(before_it, after_it, strict=True)]
                    times.append(alone[0] / beside[0])
                    of_processor[mode].append(alone[1] / beside[1])
        done = other.end()
        store.refresh()
        found[name] = {
            **{f"{mode}_ratio": round(median(times), 3) for mode, times in ratios.items()},
            **{f"{mode}_ratios": [round(ratio, 3) for ratio in times] for mode, times in ratios.items()},
            **{f"{mode}_processor_ratio": round(median(times), 3) for mode, times in of_processor.items()},
            "rows_per_s": round(done / busy_s, 1),
            "rows_at_the_end": round(len(store) / before, 4),
        }
        say(f"while writing, {name}: {found[name]}")
        store.close()
    return found


def _searching(store: il.Store, calls: list[FloatArray], least_s: float) -> tuple[float, float]:
    """Wall-clock and processor seconds for all calls.

    Means over as many rounds as take ``least_s``, because a writer works in bursts.
    """
    rounds, of_clock, of_processor = 0, time.perf_counter(), time.thread_time()
    with quiet():
        while time.perf_counter() - of_clock < least_s:
            rounds += 1
            store.refresh()
            for q in calls:
                store.search(q, K, margin="exact", threads=1)
    return (time.perf_counter() - of_clock) / rounds, (time.thread_time() - of_processor) / rounds


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
    """In a new process: files in the cache of the system, nothing in that of the process.

    The process before it leaves compiled modules behind, as an installed package has them.
    """
    with tempfile.TemporaryDirectory() as compiled:
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env["PYTHONPYCACHEPREFIX"] = compiled
        command = [sys.executable, "-c", OPEN, str(store), str(some_id)]
        for _ in range(2):
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
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
    in_log = store.snapshot.rows.tail.n
    size = store.report().file
    store.close()
    return {"rows": rows, "rows_in_log": in_log, "file_bytes": size, **opening(folder / "large", int(ids[-5]))}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small: see that it runs")
    parser.add_argument("--folder", help="where the stores are made; their disk is what is measured")
    args = parser.parse_args()
    data = bench_sets.load("sift-grown-1m", seed=0, quick=args.quick, say=say)
    rounds, folder = (2 if args.quick else 5), Path(tempfile.mkdtemp(prefix="interlace-store-", dir=args.folder))
    try:
        with one_thread():
            say("learning")
            index = il.Index.build(data.x, n_bytes=N_BYTES, layout="hybrid", threads=1)
            found: dict[str, Any] = {
                "format": store_bars.FORMAT,
                "kind": "store",
                "quick": args.quick,
                "environment": machine.environment(),
                "data": {"name": data.name, "rows": len(data.x), "dim": data.x.shape[1]},
                "n_bytes": N_BYTES,
                "codebooks": repr(index.codebooks),
                "search": searches(index, data.queries[:1000], folder, 3 * rounds),
            }
            found["while_writing"] = while_writing(index, data.x, data.queries[:500], folder, rounds)
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
            found["bars"] = store_bars.as_json(found)
            write((RESULTS / "quick" if args.quick else RESULTS) / "store.json", found)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
