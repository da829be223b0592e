"""Nothing that was acknowledged is lost, whatever happens to the process, the disk or the machine."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scenario import Faults, Op, PowerCut, applied, holds, next_op, run
from store_helpers import BOOKS, EMPTY, RICH, SMALL, Model, put

import interlace as il
from helpers import HANGS
from interlace.store import files, verify

STEPS = 10
#: Every call fails in `make faults`, every third in the test suite.
STRIDE = int(os.environ.get("INTERLACE_FAULT_STRIDE", "3"))
#: Starts without codebooks, and learns when it is told to.
MANUAL = {**EMPTY, "relearn": "manual"}


def scenario(seed: int, learns: bool = False) -> list[Op]:
    """The same writes every time."""
    rng, model, ops = np.random.default_rng(seed), Model(), []
    for _ in range(STEPS):
        ops.append(next_op(rng, [int(i) for i in model.rows], model.next_id, learns=learns))
        model = applied(model, ops[-1])
    return ops


def calls(
    folder: Path, ops: list[Op], faults: Faults, monkeypatch: pytest.MonkeyPatch, extras: dict[str, Any] | None = None
) -> tuple[il.Store, Model]:
    """Run a scenario with faults; what fails must leave no trace, and later writes must not suffer."""
    model = Model(exact="dim" in (extras or {}))
    failed: list[Model] = []  # of which one may be on disk, whole, until the next write that succeeds
    store = created(folder, extras)
    monkeypatch.setattr(files, "call", faults)
    for number, op in enumerate(ops):
        if not _possible(op, model):
            continue  # it builds on one that failed
        after = applied(model, op)
        try:
            run(store, op)
        except il.StoreError as error:
            if error.errno != faults.error:
                raise
            assert holds(store, model), (number, op)  # in memory it never was
            failed.append(after)
            crashed = folder.with_name("crashed")
            shutil.copytree(folder, crashed)
            monkeypatch.setattr(files, "call", Faults())
            with il.open(crashed) as reader:
                assert any(holds(reader, state) for state in (model, *failed)), (number, op)
            verify(str(crashed))
            shutil.rmtree(crashed)
            monkeypatch.setattr(files, "call", faults)
        else:
            model, failed = after, [] if op.get("steps") != [] else failed  # an empty batch writes nothing
            assert holds(store, model), (number, op)
    monkeypatch.setattr(files, "call", Faults())
    last = {"what": "upsert", "ids": [10**5], "seed": 1}  # after which nothing of those that failed is left
    run(store, last)
    return store, applied(model, last)


def created(folder: Path, extras: dict[str, Any] | None) -> il.Store:
    return il.create(folder, **{"source": BOOKS, "limits": SMALL, **(extras or {})})


def _possible(op: Op, model: Model) -> bool:
    if op["what"] == "batch":
        probe = model
        for step in op["steps"]:
            if not _possible(step, probe):
                return False
            probe = applied(probe, step)
        return True
    if op["what"] == "relearn":
        return len(model.rows) > 3
    if op["what"] == "remove":
        return all(i in model.rows for i in op["ids"])
    if op["what"] in ("add", "large"):
        return op["ids"][0] == model.next_id
    return True


def count_calls(
    folder: Path, ops: list[Op], monkeypatch: pytest.MonkeyPatch, extras: dict[str, Any] | None = None
) -> int:
    faults = Faults()
    store, model = calls(folder, ops, faults, monkeypatch, extras)
    store.close()
    assert len(model.rows) > 5
    shutil.rmtree(folder)
    return faults.n


@pytest.mark.parametrize(
    ("error", "seed", "extras"),
    [
        (errno.ENOSPC, 1, {}),
        (errno.EIO, 2, {}),
        (errno.EIO, 5, RICH),
        (errno.EIO, 3, MANUAL),
        (errno.ENOSPC, 19, MANUAL),
    ],
)
def test_each_call_to_the_disk_fails_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, seed: int, extras: dict[str, Any]
) -> None:
    ops = scenario(seed, learns=extras is MANUAL)
    assert any(op["what"] == "relearn" for op in ops) == (extras is MANUAL)
    total = count_calls(tmp_path / "s", ops, monkeypatch, extras)
    assert total > 40
    for n in range(1, total + 1, STRIDE if STRIDE == 1 or not extras else 4 * STRIDE):
        store, model = calls(tmp_path / "s", ops, Faults(range(n, n + 1), error), monkeypatch, extras)
        store.close()
        with il.open(tmp_path / "s", mode="a") as again:
            x = np.zeros((1, 4), np.float32)
            put(again, "add", x, [10**6])  # and it goes on
            again.remove(10**6)
            put(again, "add", x, [10**6])
            model.put(x, [10**6])
            assert holds(again, model), n
        assert verify(str(tmp_path / "s")).rows == len(model.rows)
        shutil.rmtree(tmp_path / "s")


@pytest.mark.parametrize("length", [3, 9])
def test_the_disk_is_full_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    ops = scenario(3)
    total = count_calls(tmp_path / "s", ops, monkeypatch)
    for n in range(1, total + 1, STRIDE):
        store, model = calls(tmp_path / "s", ops, Faults(range(n, n + length), errno.ENOSPC), monkeypatch)
        store.close()
        with il.open(tmp_path / "s", mode="a") as again:
            assert holds(again, model), n
        assert verify(str(tmp_path / "s")).rows == len(model.rows)
        shutil.rmtree(tmp_path / "s")


def test_short_writes_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults(range(10**9), short=True)
    real = files.call

    def faults_or_real(name: str, *arguments: object, **where: int) -> object:
        return (faults if name == "write" else real)(name, *arguments, **where)

    store = il.create(tmp_path / "s", BOOKS, limits=SMALL)
    monkeypatch.setattr(files, "call", faults_or_real)
    model = Model()
    for op in scenario(4):
        run(store, op)
        model = applied(model, op)
    assert faults.n > 50
    store.close()
    with il.open(tmp_path / "s") as again:
        assert holds(again, model)
    assert verify(str(tmp_path / "s")).rows == len(model.rows)


@pytest.mark.parametrize("seed", range(7))
def test_the_power_goes_at_any_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The last ones with columns and originals, two of them without codebooks at first."""
    rng = np.random.default_rng(seed)
    store = created(tmp_path / "s", {4: RICH, 5: MANUAL, 6: MANUAL}.get(seed))
    disk = PowerCut(tmp_path / "s", rng)
    left: list[tuple[dict[str, bytes], Model, Model]] = []
    model = after = Model(exact=seed > 4)

    def call(name: str, *arguments: object, **where: int) -> object:
        result = disk(name, *arguments, **where)
        left.extend((disk.image(), model, after) for _ in range(2))
        return result

    monkeypatch.setattr(files, "call", call)
    for op in scenario({5: 19, 6: 23}.get(seed, 10 + seed), learns=seed > 4):
        after = applied(model, op)
        run(store, op)
        model = after
        left.extend((disk.image(), model, model) for _ in range(2))
    monkeypatch.undo()
    store.close()
    assert len(left) > 120
    for number, (image, before, later) in enumerate(left):
        folder = tmp_path / "cut"
        folder.mkdir()
        for name, data in image.items():
            (folder / name).write_bytes(data)
        with il.open(folder, mode="a") as again:
            assert holds(again, before) or holds(again, later), number
        verify(str(folder))
        shutil.rmtree(folder)


def test_the_simulated_disk_forgets_what_was_not_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test before can fail: without syncs a cut does lose rows."""
    store = il.create(tmp_path / "s", BOOKS, limits=SMALL)
    disk = PowerCut(tmp_path / "s", np.random.default_rng(0))
    monkeypatch.setattr(files, "call", lambda name, *a, **k: None if name == "fdatasync" else disk(name, *a, **k))
    store.add(np.zeros((3, 4)))
    monkeypatch.undo()
    log = store.session.state.manifest.log
    assert min(len(disk.image()[log]) for _ in range(50)) < (tmp_path / "s" / log).stat().st_size


def test_killed_while_writing() -> None:
    """Thirty of the kills that `make faults` does a thousand of."""
    script = Path(__file__).with_name("faults.py")
    command = [sys.executable, str(script), "--kills", "30", "--seed", "5", "--no-injection", "--no-text"]
    paths = [str(script.parents[1]), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS, check=False, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 kills, seed 5: all" in done.stdout
    assert "10 kills, seed 5, with columns and originals: all" in done.stdout
    assert "10 kills, seed 5, learning by itself: all" in done.stdout
    assert "3 writers disturbed, seed 5: all" in done.stdout


def test_a_failed_checkpoint_does_not_fail_the_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The rows are safe in the log, which goes on growing until there is room again."""
    store, model = il.create(tmp_path / "s", BOOKS, limits=SMALL), Model()

    def no_room_for_segments(name: str, *arguments: object, **where: int) -> object:
        if name == "open" and "segment-" in str(arguments[0]):
            raise OSError(errno.ENOSPC, "No space left on device")
        return getattr(os, name)(*arguments, **where)

    monkeypatch.setattr(files, "call", no_room_for_segments)
    for i in range(30):
        op = {"what": "upsert", "ids": [i], "seed": i}
        run(store, op)
        model = applied(model, op)
    assert not store.snapshot.rows.parts
    assert "could not become a segment" in caplog.text
    assert len(caplog.records) < 6  # it does not try again with every write
    assert holds(store, model)
    with pytest.raises(il.StoreError, match="a write failed and is not part of the store .No space left"):
        store.add(np.zeros((50, 4)))
    assert holds(store, model)
    monkeypatch.undo()
    for i in range(60):
        run(store, {"what": "upsert", "ids": [i], "seed": i})
        model = applied(model, {"what": "upsert", "ids": [i], "seed": i})
    assert store.snapshot.rows.parts
    store.close()
    with il.open(tmp_path / "s") as again:
        assert holds(again, model)


def test_an_interrupted_write_is_not_built_upon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C between the record and the answer: the row may be there or not, later ones are right."""
    store = il.create(tmp_path / "s", BOOKS, limits=SMALL)
    store.add(np.zeros((2, 4)), [1, 2])

    def interrupted(name: str, *arguments: object, **where: int) -> object:
        result = getattr(os, name)(*arguments, **where)
        if name == "fdatasync":
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(files, "call", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.upsert(np.ones((1, 4)), [2])
    monkeypatch.undo()
    assert store.ids.tolist() == [1, 2]
    store.upsert(np.full((1, 4), 2.0), [2])
    store.remove([1])
    expected = store.get([2])
    store.close()
    with il.open(tmp_path / "s", mode="a") as again:
        assert again.ids.tolist() == [2]
        assert np.array_equal(again.get([2]), expected)
    verify(str(tmp_path / "s"))
