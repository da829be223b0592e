"""Kill a writer a thousand times and see what is left: `make faults`.

    PYTHONPATH=tests python tests/store/faults.py [--kills 1000] [--seed N] [--no-injection]

A child process writes to a store (add, upsert, remove, batches, compactions, with limits so small that all of it
happens all the time) and tells through a pipe what it begins and what was acknowledged. It is killed (SIGKILL) at a
random moment: every fourth one at any moment, also while opening, the others once they have begun to write. Then the
store is opened again: every acknowledged row must be there with its vector, the write that was under way must be there
whole or not at all, and every byte of every file must verify. The store goes on from kill to kill. A child is a fork,
so that a thousand take minutes.

Every second store has columns and originals.

A kill leaves what the system has in memory; power cuts and failing disks are simulated call by call, by
tests/store/test_store_faults.py, which runs first.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scenario import Op, applied, holds, next_op, run
from store_helpers import BOOKS, RICH, SMALL, Model

import interlace as il
from interlace.store import verify


def child(folder: Path, out: int, seed: int) -> None:
    """Write until killed."""
    rng = np.random.default_rng(seed)
    store = il.open(folder, mode="a", limits=SMALL)
    while True:
        op = next_op(rng, store.ids.tolist(), store.snapshot.next_id)
        os.write(out, (json.dumps(op) + "\n").encode())
        run(store, op)
        os.write(out, b"done\n")


def killed(folder: Path, seed: int, delay: float, opened: bool) -> tuple[list[Op], Op | None]:
    """What a child had acknowledged when it was killed, and what it was about to do.

    ``opened``: the delay begins with its first write, which on a busy machine may take its time.
    """
    incoming, out = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(incoming)
            child(folder, out, seed)
        except BaseException as error:
            os.write(out, f"failed {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(1)
    os.close(out)
    told = os.read(incoming, 1 << 16) if opened else b""
    end = time.monotonic() + delay
    while (left := end - time.monotonic()) > 0:
        if select.select([incoming], [], [], left)[0]:
            told += os.read(incoming, 1 << 16)
    os.kill(pid, signal.SIGKILL)
    while part := os.read(incoming, 1 << 16):
        told += part
    os.close(incoming)
    os.waitpid(pid, 0)
    lines = told.decode().split("\n")[:-1]
    if any(line.startswith("failed") for line in lines):
        raise SystemExit(f"the writer failed: {lines[-1]}")
    ops = [json.loads(line) for line in lines if line != "done"]
    acknowledged = len(lines) - len(ops)
    return ops[:acknowledged], ops[acknowledged] if len(ops) > acknowledged else None


def kills(folder: Path, count: int, seed: int, rich: bool) -> str:
    """Kill that many writers, one after the other; what was seen."""
    rng, model = np.random.default_rng(seed), Model()
    il.create(folder, BOOKS, limits=SMALL, **(RICH if rich else {})).close()
    if rich:
        importlib.import_module("pyarrow.ipc")  # once, and not in every child
    writes = under_way = survived = 0
    for number in range(count):
        done, begun = killed(folder, seed * 1_000_003 + number, float(rng.uniform(0, 0.12)), number % 4 > 0)
        for op in done:
            model = applied(model, op)
        writes += len(done)
        with il.open(folder, mode="r" if number % 2 else "a") as store:
            if begun is not None and not holds(store, model):
                model = applied(model, begun)
                survived += 1
            under_way += begun is not None
            if not holds(store, model):
                raise SystemExit(f"kill {number} of seed {seed}: rows were lost or are wrong; see {folder}")
        if verify(str(folder)).rows != len(model.rows):
            raise SystemExit(f"kill {number} of seed {seed}: another number of rows; see {folder}")
    kind = ", with columns and originals" if rich else ""
    return (
        f"{count} kills, seed {seed}{kind}: all {writes} acknowledged writes were there and every file verified; "
        f"{under_way} kills hit a write that was under way, {survived} of them were there, whole"
    )


def main() -> None:
    """Kills, after the tests that inject faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--no-injection", action="store_true", help="kills only")
    args = parser.parse_args()
    if not args.no_injection:
        tests = Path(__file__).resolve().with_name("test_store_faults.py")
        env = {**os.environ, "INTERLACE_FAULT_STRIDE": "1"}
        subprocess.run([sys.executable, "-m", "pytest", "-q", str(tests)], check=True, cwd=tests.parents[2], env=env)
    folder = Path(tempfile.mkdtemp(prefix="interlace-faults-"))
    print(f"{args.kills} kills with seed {args.seed}", flush=True)
    print(kills(folder / "store", (args.kills + 1) // 2, args.seed, False), flush=True)
    print(kills(folder / "rich", args.kills // 2, args.seed, True))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
