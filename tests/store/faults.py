"""Kill a writer a thousand times and see what is left: `make faults`.

    PYTHONPATH=tests python tests/store/faults.py [--kills 1000] [--seed N] [--no-injection] [--no-text]

A child process writes to a store (add, upsert, remove, batches, compactions, with limits so small that all of it
happens all the time) and tells through a pipe what it begins and what was acknowledged. It is killed (SIGKILL) at a
random moment: every fourth one at any moment, also while opening, the others once they have begun to write. Then the
store is opened again: every acknowledged row must be there with its vector, the write that was under way must be there
whole or not at all, and every byte of every file must verify. The store goes on from kill to kill. A child is a fork,
so that a thousand take minutes.

One store in three has columns and originals, and one learns its codebooks while it is written to: in the background
when it has rows enough, and again and again by relearn().

A twentieth as many writers are disturbed before they are killed: their directory is renamed or removed and another
store made at its path, or their lock is removed and a second writer comes. What they had acknowledged must be there
(unless it was removed), and what others wrote must be as they left it. And text that is not UTF-8 must be refused
before anything is written.

A kill leaves what the system has in memory; power cuts and failing disks are simulated call by call, by
tests/store/test_store_faults.py, which runs first.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import logging
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scenario import Op, applied, holds, next_op, run
from store_helpers import BOOKS, EMPTY, RICH, SMALL, Model, put, vectors

import interlace as il
from interlace.store import verify


def child(folder: Path, out: int, seed: int) -> None:
    """Write until killed."""
    rng = np.random.default_rng(seed)
    store = il.open(folder, mode="a", limits=SMALL)
    learns = store.snapshot.plan is not None
    begin: list[Op] = [{"what": "relearn"}] if learns and seed % 3 == 0 and len(store) > 3 else []
    while True:
        op = begin.pop() if begin else next_op(rng, store.ids.tolist(), store.snapshot.next_id, learns=learns)
        os.write(out, (json.dumps(op) + "\n").encode())
        run(store, op)
        os.write(out, b"done\n")


def killed(
    folder: Path,
    seed: int,
    delay: float,
    opened: bool,
    disturb: Callable[[], Any] | None = None,
    stops: bool = False,
) -> tuple[list[Op], Op | None]:
    """What a child had acknowledged when it was killed, and what it was about to do.

    ``opened``: the delay begins with its first write, which on a busy machine may take its time. ``disturb`` is called
    after half of the delay; ``stops``: then the child may fail because the store is no longer its own.
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
    for half in (True, False):
        end = time.monotonic() + delay / 2
        while (left := end - time.monotonic()) > 0:
            if select.select([incoming], [], [], left)[0]:
                part = os.read(incoming, 1 << 16)
                told += part
                if not part:  # it has ended
                    break
        if half and disturb is not None:
            disturb()
    os.kill(pid, signal.SIGKILL)
    while part := os.read(incoming, 1 << 16):
        told += part
    os.close(incoming)
    os.waitpid(pid, 0)
    lines = told.decode().split("\n")[:-1]
    if stops and lines and lines[-1].startswith(("failed StoreError", "failed MissingFileError")):
        lines.pop()
    if any(line.startswith("failed") for line in lines):
        raise SystemExit(f"the writer failed: {lines[-1]}")
    ops = [json.loads(line) for line in lines if line != "done"]
    acknowledged = len(lines) - len(ops)
    return ops[:acknowledged], ops[acknowledged] if len(ops) > acknowledged else None


#: What stores that are written to have: a name, and arguments of create().
KINDS: dict[str, dict[str, Any]] = {
    "": {},
    ", with columns and originals": RICH,
    ", learning by itself": {**EMPTY, "learn_at": 12},
}


#: A store that learns is created again after this many kills, so that some hit its first learning.
FRESH = 5


def begun_anew(folder: Path, extras: dict[str, Any]) -> Model:
    """A store without rows, and its model."""
    shutil.rmtree(folder, ignore_errors=True)
    il.create(folder, **{"source": BOOKS, "limits": SMALL, **extras}).close()
    return Model(exact="dim" in extras)


def warm_up(folder: Path) -> None:
    """Import what learning needs."""
    with il.create(folder, **{**EMPTY, "relearn": "manual", "limits": SMALL}) as store:
        put(store, "add", vectors(30), list(range(30)))
        store.relearn(progress=False)


def kills(folder: Path, count: int, seed: int, kind: str) -> str:
    """Kill that many writers, one after the other; what was seen."""
    rng, extras = np.random.default_rng(seed), KINDS[kind]
    model = begun_anew(folder, extras)
    seen, longest = {"collecting": 0, "learned": 0}, 0.12
    if "learn_at" in extras:
        warm_up(folder.with_name("learned"))  # once, and not in every child
        longest = 0.4
    if extras:
        importlib.import_module("pyarrow.ipc")  # once, and not in every child
    writes = under_way = survived = 0
    for number in range(count):
        if "learn_at" in extras and number % FRESH == 0:
            model = begun_anew(folder, extras)
        done, begun = killed(folder, seed * 1_000_003 + number, float(rng.uniform(0, longest)), number % 4 > 0)
        for op in done:
            model = applied(model, op)
        writes += len(done)
        with il.open(folder, mode="r" if number % 2 else "a") as store:
            seen["collecting" if store.snapshot.collecting else "learned"] += 1
            if begun is not None and not holds(store, model):
                model = applied(model, begun)
                survived += 1
            under_way += begun is not None
            if not holds(store, model):
                raise SystemExit(f"kill {number} of seed {seed}: rows were lost or are wrong; see {folder}")
        if verify(str(folder)).rows != len(model.rows):
            raise SystemExit(f"kill {number} of seed {seed}: another number of rows; see {folder}")
    learned = ""
    if "learn_at" in extras:
        if count >= 100 and not min(seen.values()):
            raise SystemExit(f"seed {seed}: no kill while it had no codebooks, or none after it had some")
        learned = f"; after {seen['collecting']} it had no codebooks, after {seen['learned']} it had learned some"
    return (
        f"{count} kills, seed {seed}{kind}: all {writes} acknowledged writes were there and every file verified; "
        f"{under_way} kills hit a write that was under way, {survived} of them were there, whole{learned}"
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def another(folder: Path, seed: int) -> dict[str, bytes]:
    """Another store at a path, and its files."""
    with il.create(folder, BOOKS, limits=SMALL) as store:
        store.add(vectors(20, seed))
    return contents(folder)


def disturbances(folder: Path, count: int, seed: int) -> str:
    """Disturb that many writers, one after the other, and kill them; what was seen."""
    rng, model = np.random.default_rng(seed), Model()
    store, moved = folder / "store", folder / "moved"
    il.create(store, BOOKS, limits=SMALL).close()
    logging.getLogger("interlace.store").setLevel(logging.ERROR)  # writers say that they could not tidy up
    writes = 0
    for number in range(count):
        kind, other, seconds = ("moved", "unlocked", "replaced")[number % 3], dict[str, bytes](), list[il.Store]()

        def disturb(kind: str = kind, other: dict[str, bytes] = other, seconds: list[il.Store] = seconds) -> None:
            if kind == "moved":
                store.rename(moved)
                other.update(another(store, seed))
            elif kind == "replaced":
                store.rename(moved)
                other.update(another(store, seed))
                shutil.rmtree(moved, ignore_errors=True)  # it may be written to meanwhile
            else:
                (store / "LOCK").unlink()
                with contextlib.suppress(il.StoreLockedError):  # the directory is locked too
                    seconds.append(il.open(store, mode="a", limits=SMALL))

        begin = model
        delay = float(rng.uniform(0.02, 0.2))
        done, begun = killed(store, seed * 1_000_003 + number, delay, True, disturb, kind != "moved")
        where = f"writer {number} ({kind}) of seed {seed}: "
        writes += len(done)
        for op in done:
            model = applied(model, op)
        if kind != "unlocked" and contents(store) != other:
            raise SystemExit(f"{where}the other store was changed; see {folder}")
        if kind == "replaced":
            shutil.rmtree(store)
            shutil.rmtree(moved, ignore_errors=True)
            model = Model()
            il.create(store, BOOKS, limits=SMALL).close()
            continue
        if kind == "moved":
            shutil.rmtree(store)
            moved.rename(store)
        with seconds[0] if seconds else il.open(store, mode="a", limits=SMALL) as again:
            if begun is not None and not holds(again, model):
                model = applied(model, begun)
            if not holds(again, model):
                raise SystemExit(f"{where}rows were lost or are wrong ({len(begin.rows)} before); see {folder}")
            op = next_op(rng, again.ids.tolist(), again.snapshot.next_id)
            run(again, op)
            model = applied(model, op)
        if verify(str(store)).rows != len(model.rows):
            raise SystemExit(f"{where}another number of rows; see {folder}")
    return (
        f"{count} writers disturbed, seed {seed}: all {writes} acknowledged writes were there, "
        "and no store of others was changed"
    )


def bad_text(folder: Path) -> str:
    """Text in Latin-1 that claims to be UTF-8 is refused, and leaves no trace."""
    pa = importlib.import_module("pyarrow")
    bad = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\4\0\0\0"), pa.py_buffer(b"caf\xe9")])
    with il.create(folder, BOOKS, limits=SMALL, **RICH) as store:
        put(store, "add", vectors(5), list(range(5)))
        before = contents(folder)
        try:
            store.add(vectors(1), [9], payload=pa.table({"n": pa.array([1], pa.int32()), "tag": bad}))
        except il.InputError:
            pass
        else:
            raise SystemExit("text that is not UTF-8 was acknowledged")
        if contents(folder) != before:
            raise SystemExit("text that is not UTF-8 left a trace")
        put(store, "add", vectors(30), list(range(10, 40)))
        store.compact()
    verify(str(folder))
    return "text that is not UTF-8 was refused"


def main() -> None:
    """Kills, after the tests that inject faults."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000)
    parser.add_argument("--no-injection", action="store_true", help="kills only")
    parser.add_argument("--no-text", action="store_true", help="without the store that is given bad text")
    args = parser.parse_args()
    if not args.no_injection:
        tests = Path(__file__).resolve().with_name("test_store_faults.py")
        env = {**os.environ, "INTERLACE_FAULT_STRIDE": "1"}
        subprocess.run([sys.executable, "-m", "pytest", "-q", str(tests)], check=True, cwd=tests.parents[2], env=env)
    folder = Path(tempfile.mkdtemp(prefix="interlace-faults-"))
    print(f"{args.kills} kills with seed {args.seed}", flush=True)
    for number, kind in enumerate(KINDS):
        print(kills(folder / f"kind {number}", -(-args.kills // len(KINDS)), args.seed, kind), flush=True)
    print(disturbances(folder, max(3, args.kills // 20), args.seed), flush=True)
    if not args.no_text:
        print(bad_text(folder / "text"))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
