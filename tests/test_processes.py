"""Processes that fork while threads are at work, end while they are, or are refused new threads."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import run_python
from interlace._threads import ForkLock, cached_property

SETUP = """
import json, os, signal, sys, threading, time, warnings
import numpy as np
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
import interlace as il
sys.path.insert(0, sys.argv[1])
from books import index_of, random_codebooks, random_codes

def waited(pid):  # its status; None where it hangs
    for _ in range(1000):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""
TESTS = str(Path(__file__).parent)

NO_THREADS = """
import resource
rng = np.random.default_rng(0)
codebooks = random_codebooks(rng, "additive", dim=16, n_books=6, n_words=64, n_crude=3)
index = index_of(codebooks, random_codes(rng, codebooks, 1_000))
q = rng.normal(size=(200, 16)).astype(np.float32)
helpers = int(sys.argv[2])
expected = index.search(q, threads=1 + helpers)  # starts so many helpers
before = len(os.listdir("/proc/self/task"))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**27, resource.RLIM_INFINITY))  # no room for the stack of a thread
for _ in range(5):
    found = index.search(q, threads=64)
    assert np.array_equal(found.ids, expected.ids)
    assert np.array_equal(found.distances, expected.distances)
codes = il.codec.encode.encode(codebooks, q, 64)
print(json.dumps(len(os.listdir("/proc/self/task")) - before))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize("helpers", [0, 1])
def test_calls_run_with_the_threads_there_are(helpers: int) -> None:
    """The system refuses new threads: here because the address space has no room for their stacks."""

    def large_stacks() -> None:
        resource.setrlimit(resource.RLIMIT_STACK, (2**28, resource.getrlimit(resource.RLIMIT_STACK)[1]))

    done = subprocess.run(
        [sys.executable, "-c", SETUP + NO_THREADS, TESTS, str(helpers)],
        capture_output=True,
        text=True,
        preexec_fn=large_stacks,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr


DAEMONS = """
rng = np.random.default_rng(0)
codebooks = random_codebooks(rng, "additive", dim=16, n_books=6, n_words=64, n_crude=3)
index = index_of(codebooks, random_codes(rng, codebooks, 20_000))
q = rng.normal(size=(64, 16)).astype(np.float32)
begun = threading.Barrier(4)

def search():
    begun.wait()
    while True:
        index.search(q, margin=float("inf"), threads=2)

def encode():
    begun.wait()
    while True:
        il.codec.encode.encode(codebooks, q, 2)

for work in (search, search, encode):
    threading.Thread(target=work, daemon=True).start()
begun.wait()
time.sleep(0.02)
print(json.dumps("end"))
"""


@pytest.mark.parametrize("turn", range(3))
def test_a_process_ends_while_daemon_threads_search(turn: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SETUP + DAEMONS, TESTS], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


FORKS = """
rng = np.random.default_rng(0)
codebooks = random_codebooks(rng, "additive", dim=16, n_books=6, n_words=64, n_crude=3)
store = il.create(sys.argv[2], codebooks)
store.add(rng.normal(size=(500, 16)))
q = rng.normal(size=(32, 16)).astype(np.float32)
over = False

def search():
    while not over:
        store.search(q, threads=2)

def write():
    while not over:
        store.add(rng.normal(size=(3, 16)), threads=2)

threads = [threading.Thread(target=work) for work in (search, search, write)]
for thread in threads:
    thread.start()
children = []
for _ in range(15):
    pid = os.fork()
    if pid == 0:
        found = store.search(q, threads=2)
        store.refresh()
        os._exit(0 if np.array_equal(found.ids, store.snapshot.search(q, threads=1).ids) else 1)
    children.append(waited(pid))
over = True
for thread in threads:
    thread.join()
print(json.dumps(children))
"""


def test_forked_children_search_while_threads_search_and_write(tmp_path: Path) -> None:
    assert run_python(SETUP + FORKS, TESTS, str(tmp_path / "s"), timeout=400) == [0] * 15


HELD = """
store = il.create(sys.argv[2], random_codebooks(np.random.default_rng(0), "additive"))
store.add(np.zeros((50, 12)))
held, over = threading.Event(), threading.Event()

def wait(*_):
    held.set()
    over.wait()

if sys.argv[3] == "batch":
    def work():
        with store.batch():
            store.add(np.ones((1, 12)))
            wait()
else:
    pack = il.engine.segments.Segment.pack  # searches pack the rows of the log, under a lock of theirs
    def packed(codes, codebooks):
        if threading.current_thread() is not threading.main_thread():
            wait()
        return pack(codes, codebooks)
    il.engine.segments.Segment.pack = packed
    def work():
        store.search(np.zeros(12))

thread = threading.Thread(target=work)
thread.start()
held.wait()
pid = os.fork()
if pid == 0:
    ids = store.search(np.zeros(12), 3, threads=1).ids.tolist()
    store.refresh()
    store.close()
    os._exit(ids != [0, 1, 2])
status = waited(pid)
over.set()
thread.join()
print(json.dumps([status, len(store)]))
"""


@pytest.mark.parametrize(("holder", "rows"), [("batch", 51), ("search", 50)])
def test_a_forked_child_does_not_wait_for_a_lock_of_the_parent(tmp_path: Path, holder: str, rows: int) -> None:
    assert run_python(SETUP + HELD, TESTS, str(tmp_path / "s"), holder, timeout=120) == [0, rows]


def test_a_lock_that_the_forking_thread_holds_stays_held() -> None:
    lock = ForkLock()
    with lock:
        lock.renew()
        with lock:
            pass
    lock.renew()
    with lock:
        pass


def test_a_cached_property_is_computed_once_and_needs_no_lock() -> None:
    class Owner:
        computed = 0

        @cached_property
        def value(self) -> list[int]:
            """What it is."""
            Owner.computed += 1
            return [1]

    owner = Owner()
    assert owner.value is owner.value
    assert (Owner.computed, Owner.value.__doc__) == (1, "What it is.")
    assert Owner().value is not owner.value
