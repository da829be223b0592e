"""Stores that learn by themselves, and other processes: one that ends, a forked child, a reader."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from learning_stores import DIM, Gate, made, rows
from store_helpers import LARGE

import interlace as il
from helpers import HANGS
from interlace.store import background, verify

EXIT = """
import sys
import numpy as np
import interlace as il
store = il.create(sys.argv[1], dim=16, n_bytes=8, learn_at=2000)
store.add(np.random.default_rng(0).normal(size=(6000, 16)))
print(store.health().state, flush=True)
"""


def test_a_process_that_ends_while_it_learns(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EXIT, str(tmp_path / "s")], capture_output=True, text=True, timeout=HANGS, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "learning\n", "")
    assert verify(str(tmp_path / "s")).rows == 6000
    assert len(il.open(tmp_path / "s", mode="a", limits=LARGE)) == 6000


def test_a_forked_child_has_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, background, "relearned")
    store = made(tmp_path / "s")
    store.add(rows(600))
    gate.wait()
    pid = os.fork()
    if pid == 0:
        state = 1
        try:
            found = store.search(np.zeros(DIM), 3, threads=1)
            store.close()
            state = 0 if found.counts == 3 else 2
        finally:
            os._exit(state)
    assert os.waitpid(pid, 0)[1] == 0
    gate.open()
    assert store.wait_until_learned(HANGS)
    assert store.health().state == "learned"
    store.close()


READ = """
import sys, threading
import numpy as np
import interlace as il
reader, seen, ended = il.open(sys.argv[1]), [], threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set())).start()
q = np.zeros((2, reader.dim), np.float32)
last = False
while True:
    last = ended.is_set()  # one more look after the end
    reader.refresh()
    rows = reader.get(reader.ids, originals=True)
    found = reader.search(q, 5, rerank=len(rows), margin="exact", threads=1)
    assert np.array_equal(found.distances[0], np.sort((rows**2).sum(1))[:5]), (found, rows)
    state = reader.health().state
    if not seen or seen[-1] != state:
        seen.append(state)
        print(state, flush=True)
    if last:
        break
print(len(reader), flush=True)
"""


def test_a_reader_of_another_process_sees_it_pass(tmp_path: Path) -> None:
    """Its answers are right before and after; what it finds is what it has read."""
    x = rows(700)
    with made(tmp_path / "s") as store:
        store.add(x[:490])
        command = [sys.executable, "-c", READ, str(tmp_path / "s")]
        reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert reader.stdout is not None
            assert reader.stdin is not None
            assert reader.stdout.readline() == "collecting\n"
            for start in range(490, 700, 7):
                store.add(x[start : start + 7])
            assert store.wait_until_learned(HANGS)
            assert store.health().state == "learned"
            reader.stdin.close()
            assert reader.stdout.readline() == "learned\n"
            assert reader.stdout.readline() == "700\n"
            assert reader.wait(HANGS) == 0
        finally:
            reader.kill()
            reader.wait()
            reader.stdout.close()
