"""One writer, many readers, many threads: who sees what, and who has to wait."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from store_helpers import BOOKS, SMALL, check, filled, vectors

import interlace as il
from helpers import HANGS
from interlace.store import Limits, files, loading

HOLD = """
import sys
import interlace as il
store = il.open(sys.argv[1], mode="a")
print("open", flush=True)
sys.stdin.read()  # until it is killed
"""


def test_two_writers(tmp_path: Path) -> None:
    """The second is told who the first is; when the first is killed, the lock is free at once."""
    il.create(tmp_path / "s", BOOKS).close()
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "s")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout.readline() == "open\n"
        with pytest.raises(il.StoreLockedError, match=f"by process {first.pid} since 20..-..-.. ..:..:.. UTC"):
            il.open(tmp_path / "s", mode="a")
        assert len(il.open(tmp_path / "s")) == 0  # readers take no notice
        first.send_signal(signal.SIGKILL)
        first.wait()
    finally:
        first.kill()
        first.stdin.close()
        first.stdout.close()
    il.open(tmp_path / "s", mode="a").close()


def test_two_writers_in_one_process(tmp_path: Path) -> None:
    store = il.create(tmp_path / "s", BOOKS)
    with pytest.raises(il.StoreLockedError, match=f"process {os.getpid()} since"):
        il.open(tmp_path / "s", mode="a")
    store.close()
    il.open(tmp_path / "s", mode="a").close()


FORK = """
import json, os, sys, warnings
import numpy as np
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads, which BLAS may have started
import interlace as il
store = il.open(sys.argv[1], mode="a")
pid = os.fork()
if pid == 0:
    try:
        store.add(np.zeros((1, 4)))
    except il.StoreError as error:
        message = str(error)
    found = len(store.search(np.zeros(4), threads=1).ids)  # reading works
    print(f"{found} {message}", file=sys.stderr, flush=True)
    if sys.argv[2] == "lives on":
        sys.stdin.read()
    os._exit(0)
if sys.argv[2] == "lives on":
    os._exit(0)
os.waitpid(pid, 0)
store.add(np.zeros((1, 4)))
print(json.dumps(len(store)))
"""


def test_a_forked_child_neither_writes_nor_keeps_the_lock(tmp_path: Path) -> None:
    il.create(tmp_path / "s", BOOKS).close()
    said = r"10 .* was opened by process \d+; open it again in this one\n"
    command = [sys.executable, "-c", FORK, str(tmp_path / "s")]
    done = subprocess.run([*command, "ends"], capture_output=True, text=True, check=True, timeout=HANGS)
    assert done.stdout == "1\n"
    assert re.fullmatch(said, done.stderr)
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "lives on"], **pipes) as parent:
        assert re.fullmatch(said, parent.stderr.readline())
        parent.wait(HANGS)
        il.open(tmp_path / "s", mode="a").close()  # while the child lives
        parent.stdin.close()  # and now it ends


def test_a_reader_sees_what_it_saw_until_it_asks(tmp_path: Path) -> None:
    store, model = filled(tmp_path / "s")
    reader = il.open(tmp_path / "s")
    before = model.copy()
    held = reader.snapshot
    for step in range(8):  # several checkpoints, whose old files are gone
        store.upsert(vectors(5, step), [1, 2, 3, 1000 + step, 2000 + step])
        model.put(vectors(5, step), [1, 2, 3, 1000 + step, 2000 + step])
    store.compact()
    check(reader, before)
    assert reader.refresh()
    check(reader, model)
    check(held, before)
    assert not reader.refresh()
    store.remove([1000])
    model.remove([1000])
    generation = reader.generation
    assert reader.refresh()
    assert reader.generation == generation  # only the log was read
    check(reader, model)
    assert not store.refresh()


@pytest.mark.parametrize("meanwhile", [False, True])
def test_a_reader_that_saw_a_write_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: bool) -> None:
    """It read a record before the writer knew that it was not on disk, and took it back; then another came there."""
    store = il.create(tmp_path / "s", BOOKS)
    store.add(vectors(2), [1, 2])
    reader = il.open(tmp_path / "s")

    def fails(name: str, *arguments: object, **where: int) -> object:
        if name == "fdatasync":
            reader.refresh()
            raise OSError(5, "Input/output error")
        return getattr(os, name)(*arguments, **where)

    monkeypatch.setattr(files, "call", fails)
    with pytest.raises(il.StoreError, match="Input/output error"):
        store.add(vectors(1, 7), [3])
    monkeypatch.undo()
    assert reader.ids.tolist() == [1, 2, 3]
    assert store.ids.tolist() == [1, 2]
    if meanwhile:
        assert reader.refresh()
        assert reader.ids.tolist() == [1, 2]
    del store  # the process ends
    with il.open(tmp_path / "s", mode="a") as again:
        again.add(vectors(1, 8), [4])  # as long as the other one
        assert again.generation == reader.generation
        assert reader.refresh()
        assert reader.ids.tolist() == again.ids.tolist() == [1, 2, 4]
        assert np.array_equal(reader.get([4]), again.get([4]))
        again.compact()
        assert reader.refresh()


def test_segments_are_opened_once(tmp_path: Path) -> None:
    store, _ = filled(tmp_path / "s")
    reader = il.open(tmp_path / "s")
    first = {part.name: part for part in reader.snapshot.rows.parts}
    generation = reader.generation
    for i in range(5):
        store.add(vectors(1), [5000 + i])
    reader.refresh()
    assert reader.generation > generation
    shared = [part for part in reader.snapshot.rows.parts if part.name in first]
    assert shared
    assert all(part is first[part.name] for part in shared)


def test_a_reader_that_opens_between_two_manifests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read the old manifest, and its files are gone: it reads the new one."""
    store, model = filled(tmp_path / "s")
    real, interventions = loading.base_of, []

    def base_of(*arguments: object, **named: object) -> object:
        if len(interventions) < 3:
            interventions.append(1)
            monkeypatch.setattr(loading, "base_of", real)
            store.compact()
            store.add(vectors(1), [7000 + len(interventions)])
            model.put(vectors(1), [7000 + len(interventions)])
            monkeypatch.setattr(loading, "base_of", base_of)
        return real(*arguments, **named)

    monkeypatch.setattr(loading, "base_of", base_of)
    reader = il.open(tmp_path / "s")
    assert len(interventions) == 3
    check(reader, model)


READ = """
import sys
import interlace as il
store = il.open(sys.argv[1])
print("ready", flush=True)
counts = [0]
while counts[-1] < int(sys.argv[2]):
    store.refresh()
    ids = store.ids
    assert (ids == sorted(ids)).all() and len(ids) % 3 == 0, ids  # whole writes only, in order
    assert len(store.get(ids)) == len(store) == len(ids)
    if len(ids):
        assert store.search(store.get(ids[-1]), 1, threads=1).counts == 1
    if len(ids) > counts[-1]:
        counts.append(len(ids))
        print(len(ids), flush=True)
store.verify()
"""


def test_a_reader_in_another_process_follows(tmp_path: Path) -> None:
    store = il.create(tmp_path / "s", BOOKS, limits=SMALL)
    reader = subprocess.Popen(
        [sys.executable, "-c", READ, str(tmp_path / "s"), "300"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout.readline() == "ready\n"
    for i in range(100):
        store.add(vectors(3, i))
        if i % 10 == 0:
            store.compact()
        if i % 25 == 24:  # it sees the store grow: sooner or later each of these states
            while int(reader.stdout.readline() or len(store)) < len(store):
                pass
    _, err = reader.communicate(timeout=HANGS)
    assert reader.returncode == 0, err


@pytest.mark.parametrize("limits", [SMALL, Limits()])
def test_searches_while_rows_come_and_go(tmp_path: Path, limits: Limits) -> None:
    """Near rows stay, far ones come and go: every search, at any moment, finds the near ones, and whole states."""
    store = il.create(tmp_path / "s", BOOKS, limits=limits)
    words = BOOKS.decode(np.zeros((1, 2), np.uint8))
    near = np.repeat(words, 8, axis=0)
    store.add(near, np.arange(8))
    q = words[0]
    wrong: list[str] = []
    stop = threading.Event()
    searched = [0] * 3

    def search(number: int) -> None:
        try:
            while not stop.is_set():
                snapshot = store.snapshot
                found = snapshot.search(q, 8, margin="exact", threads=1 + number % 2)
                if found.ids.tolist() != list(range(8)) or found.distances.any():
                    wrong.append(f"found {found.ids.tolist()}")
                far = len(snapshot) - 8
                if far % 5:  # every write changes five rows
                    wrong.append(f"{far} rows of fives")
                everything = snapshot.search(q, len(snapshot), margin=np.inf, threads=1)
                if sorted(everything.ids.tolist()) != sorted(snapshot):
                    wrong.append("rows and ids differ")
                searched[number] += 1
        except BaseException as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=search, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    far = np.repeat(words + 40, 5, axis=0)
    step = 0
    while not wrong and (step < 40 or min(searched) <= 5) and step < 20_000:  # which takes minutes
        ids = store.add(far)
        store.upsert(far, ids)
        if step % 3:
            store.remove(ids)
        if step % 20 == 19:
            store.compact()
        step += 1
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[:3]
    assert min(searched) > 5
    store.verify()


def test_writes_from_many_threads(tmp_path: Path) -> None:
    store = il.create(tmp_path / "s", BOOKS, limits=SMALL)
    given: list[list[int]] = [[] for _ in range(4)]

    def write(number: int) -> None:
        for i in range(20):
            with store.batch():
                given[number] += store.add(vectors(2, i), threads=1).tolist()
                store.upsert(vectors(1), [-10 - number], threads=1)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    mine = [i for part in given for i in part]
    assert len(set(mine)) == 160
    assert set(store) == {*mine, *(-10 - i for i in range(4))}
    store.close()
    with il.open(tmp_path / "s") as again:
        assert len(again) == 164
        again.verify()
