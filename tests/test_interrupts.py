"""Native calls end soon after a signal whose handler raises, on every thread at work."""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import interlace as il
from books import index_of, random_codebooks, random_codes
from helpers import run_python
from interlace import _native
from interlace.engine.hits import WORK

#: Far more work than any machine does between the signal and the next checkpoint; without one it takes many seconds.
ROWS, QUERIES, CODED = 200_000, 3_000, 400_000


class AlarmError(Exception):
    pass


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise AlarmError

    before = signal.signal(signal.SIGALRM, stop)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def index() -> il.Index:
    rng = np.random.default_rng(0)
    codebooks = random_codebooks(rng, "additive", dim=16, n_books=6, n_words=256, n_crude=3)
    return index_of(codebooks, random_codes(rng, codebooks, ROWS))


def queries() -> NDArray[np.float32]:
    return np.random.default_rng(1).normal(size=(QUERIES, 16)).astype(np.float32)


def search(index: il.Index, threads: int, done: NDArray[np.int64]) -> None:
    rows, distances = np.empty((QUERIES, 10), np.int64), np.empty((QUERIES, 10), np.float32)
    work = np.empty((QUERIES, WORK), np.uint64)
    rule = il.engine.margins.rule_of(math.inf, k=10, n=ROWS, calibration=None, sigma=0.0)
    segments = [s.native for s in index.engine.segments]
    out = (rows, distances, done[:QUERIES], work, None)
    _native.search(index.codebooks.native, segments, [], queries(), rule.native, threads, *out)


def range_search(index: il.Index, threads: int, done: NDArray[np.int64]) -> None:
    radii, work = np.full(QUERIES, -1e9, np.float32), np.empty((QUERIES, WORK), np.uint64)  # no hits to keep
    segments = [s.native for s in index.engine.segments]
    _native.range_search(
        index.codebooks.native, segments, [], queries(), radii, _native.Rule.everything(), threads, done[:QUERIES], work
    )


def encode(index: il.Index, threads: int, done: NDArray[np.int64]) -> None:
    x = np.zeros((CODED, 16), np.float32)
    codes = done.view(np.uint8)[: CODED * index.codebooks.n_bytes].reshape(CODED, -1)
    _native.encode(index.codebooks.native, x, 32, 4, threads, codes)


def nearest(index: il.Index, threads: int, done: NDArray[np.int64]) -> None:
    x, words = np.zeros((8_000, 4096), np.float32), np.zeros((2_048, 4096), np.float32)
    _native.nearest(x, words, threads, done.view(np.int32)[:8_000], np.empty(8_000, np.float32))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("call", [search, range_search, encode, nearest])
def test_a_native_call_stops_at_a_signal(
    index: il.Index, call: Callable[[il.Index, int, NDArray[np.int64]], None], threads: int
) -> None:
    """The last part of what it had to fill in is untouched."""
    done = np.full(CODED, -1, np.int64)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with pytest.raises(AlarmError):
        call(index, threads, done)
    if call is encode:
        left = (done.view(np.uint8)[: CODED * index.codebooks.n_bytes] == 255).mean()
    else:
        left = (done[:QUERIES] == -1).mean()
    assert left > 0.3


def test_an_index_is_as_before_after_an_interrupted_call(index: il.Index) -> None:
    q = queries()
    before = index.search(q[:5], 10, margin="exact")
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with pytest.raises(AlarmError):
        index.add(np.zeros((CODED, 16)), effort="best")
    assert len(index) == ROWS
    for call in (lambda: index.calibrate(np.repeat(q, 400, axis=0)), lambda: index.search(q, margin=math.inf)):
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(AlarmError):
            call()
    assert index.calibration is None
    after = index.search(q[:5], 10, margin="exact")
    assert np.array_equal(after.ids, before.ids)
    assert np.array_equal(after.distances, before.distances)


def test_a_signal_without_an_exception_does_not_stop_a_call(index: il.Index) -> None:
    came: list[int] = []
    signal.signal(signal.SIGALRM, lambda number, _: came.append(number))
    q = queries()[:10]
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    found = index.search(q, margin=math.inf, threads=2)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert np.array_equal(found.ids, index.search(q, margin="exact", threads=1).ids)
    assert came


def test_only_the_main_thread_is_interrupted(index: il.Index) -> None:
    """Python runs handlers there; calls of other threads go on to their end."""
    q, answers = queries()[:10], []
    other = threading.Thread(target=lambda: answers.append(index.search(q, margin=math.inf, threads=2).ids))
    other.start()
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    with pytest.raises(AlarmError):
        index.search(queries(), margin=math.inf, threads=2)
    other.join()
    assert np.array_equal(answers[0], index.search(q, margin="exact").ids)


CTRL_C = """
import json, os, signal, sys, threading
import numpy as np
import interlace as il
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background of a shell ignore it
store = il.open(sys.argv[1], mode="a")
x = np.zeros((300_000, store.dim), np.float32)
before = len(store)
threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    store.add(x, effort="best", threads=2)
    ended = "added"
except KeyboardInterrupt:
    ended = "interrupted"
print(json.dumps([ended, len(store) - before, store.add(x[:3]).tolist()]))
"""


def test_ctrl_c_while_a_store_is_written_to(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    codebooks = random_codebooks(rng, "additive", dim=16, n_books=8, n_words=256, n_crude=3)
    il.create(tmp_path / "s", codebooks).close()
    assert run_python(CTRL_C, str(tmp_path / "s"), timeout=120) == ["interrupted", 0, [0, 1, 2]]
    assert len(il.open(tmp_path / "s")) == 3
