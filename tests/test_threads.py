"""Many threads of Python search at once, while rows come and go; ``make tsan`` runs these under ThreadSanitizer."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from books import LAYOUTS, index_of, random_codebooks, random_codes
from helpers import clustered, ids_of
from interlace.store import Limits


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Threads of Python take turns much more often than they do by themselves."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(*tasks: Callable[[], Any]) -> list[Any]:
    """All at once, from a common start; the first error is raised."""
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], Any]) -> Any:
        start.wait()
        return task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        return [future.result() for future in [pool.submit(run, task) for task in tasks]]


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "additive"])
def test_every_kind_of_search_at_once(layout: str) -> None:
    rng = np.random.default_rng(10)
    codebooks = random_codebooks(rng, layout, dim=16, n_books=6, n_words=64, n_crude=3)
    codes = random_codes(rng, codebooks, 4_000)
    q = rng.normal(size=(33, 16)).astype(np.float32)
    mask = rng.random(4_000) < 0.02
    kinds: list[Callable[[il.Index, int], Any]] = [
        lambda index, t: index.search(q[:9], margin="exact", threads=t, filter=mask).ids,
        lambda index, t: index.search(q, margin="exact", threads=t).ids,
        lambda index, t: index.search(q, margin="exact", threads=t, filter=~mask).ids,
        lambda index, t: index.range_search(q, radius, threads=t).ids,
        lambda index, t: index.search_by_id(np.arange(20), threads=t, margin="exact").ids,
        lambda index, t: index.explain(q[0], 5).rank,
    ]
    # What is made when it is first needed is made by many threads at once: the oracle is another index.
    other, index = (index_of(codebooks, codes[:3_000], codes[3_000:]) for _ in range(2))
    radius = float(other.search(q, 30, margin="exact").distances[:, -1].mean())
    expected = [kind(other, 1) for kind in kinds]

    def caller(number: int) -> None:
        for turn in range(9):
            which = 0 if turn == 0 else (number + turn) % len(kinds)
            assert np.array_equal(kinds[which](index, 1 + (number + turn) % 4), expected[which])

    together(*(lambda n=n: caller(n) for n in range(8)))


def test_coding_at_once() -> None:
    """The first coder makes tables that all others read."""
    for layout in LAYOUTS:
        rng = np.random.default_rng(11)
        codebooks = random_codebooks(rng, layout, dim=12, n_books=5, n_words=16)
        x = rng.normal(size=(200, 12)).astype(np.float32)
        indexes = [il.Index(codebooks) for _ in range(4)]
        together(*(lambda i=index, x=x: i.add(x, threads=2) for index in indexes))
        codes = [index.engine.codes_of(np.arange(200)) for index in indexes]
        assert all(np.array_equal(c, codes[0]) for c in codes)


@pytest.mark.parametrize("kind", ["default", "int64", "string"])
def test_an_index_is_searched_while_it_grows(kind: str) -> None:
    """An answer is that of the rows before an addition, or after it; every hit has its id."""
    rng = np.random.default_rng(12)
    codebooks = random_codebooks(rng, "hybrid")
    x = rng.normal(size=(300, codebooks.dim)).astype(np.float32)
    ids = ids_of(kind, 300)
    parts = [slice(i, i + 10) for i in range(0, 300, 10)]
    index = il.Index(codebooks)
    q = x[:4]
    allowed = []
    for part in parts:
        index.add(x[part], None if ids is None else ids[part], threads=1)
        allowed.append(index.search(q, 5, margin="exact", threads=1).ids.tolist())
    growing = il.Index(codebooks)
    growing.add(x[parts[0]], None if ids is None else ids[parts[0]], threads=1)
    done = threading.Event()

    def add() -> None:
        for part in parts[1:]:
            growing.add(x[part], None if ids is None else ids[part], threads=2)
        done.set()

    def search() -> int:
        last = 0
        while True:
            over = done.is_set()
            found = growing.search(q, 5, margin="exact", threads=2).ids.tolist()
            last = allowed.index(found, last)  # never backwards
            growing.range_search(q, 1.0, threads=1)
            if over:
                return last

    ends = together(add, search, search, search)[1:]
    assert all(allowed[end] == allowed[-1] for end in ends)


def test_a_store_is_searched_while_rows_come_and_go(tmp_path: Path) -> None:
    """One thread writes, compacts and writes again; what others see is one of the states it left."""
    rng = np.random.default_rng(13)
    codebooks = random_codebooks(rng, "hybrid")
    store = il.create(tmp_path / "s", codebooks, limits=Limits(rows=60, records=5, bytes=10**5, removed_share=0.3))
    store.add(rng.normal(size=(50, codebooks.dim)).astype(np.float32))
    done = threading.Event()

    def write() -> None:
        for step in range(30):
            new = store.add(rng.normal(size=(20, codebooks.dim)).astype(np.float32), threads=1)
            store.remove(new[:5])
            store.upsert(rng.normal(size=(2, codebooks.dim)).astype(np.float32), new[5:7])
            if step % 7 == 3:
                store.compact()
        done.set()

    q = rng.normal(size=(3, codebooks.dim)).astype(np.float32)

    def read() -> None:
        while not done.is_set():
            snapshot = store.snapshot
            found = snapshot.search(q, 10, margin="exact", threads=2)
            assert np.array_equal(found.ids, snapshot.search(q, 10, margin="exact", threads=1).ids)
            assert all(value in snapshot for value in found.ids.ravel().tolist())
            within = snapshot.range_search(q, found.distances[:, -1], threads=2)
            assert all({*a.tolist()} >= {*b.tolist()} for (a, _), b in zip(within, found.ids, strict=True))
            some = snapshot.ids[::3]
            assert np.isin(snapshot.search(q, 5, filter=some, threads=1).ids, some).all()

    together(write, read, read, read)
    store.verify()
    assert len(store) == 50 + 30 * 15


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads by /proc")
def test_the_pool_has_as_many_threads_as_one_call_asks_for() -> None:
    """Eight callers with two threads each share one helper, and do not make eight."""
    rng = np.random.default_rng(14)
    codebooks = random_codebooks(rng, "hybrid", dim=16, n_books=6, n_words=64, n_crude=3)
    index = index_of(codebooks, random_codes(rng, codebooks, 5_000))
    q = rng.normal(size=(64, 16)).astype(np.float32)
    widest = 6
    index.search(q, threads=widest)  # tests before this one may have asked for as many
    before = len(os.listdir("/proc/self/task"))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: index.search(q, margin="exact", threads=widest).ids, range(64)))
        during = len(os.listdir("/proc/self/task"))
    assert during - before <= 8


def test_adds_of_several_threads_do_not_mix() -> None:
    """Ids of one state must never be paired with rows of another."""
    x = clustered(600, 8)
    index = il.Index.build(x[:300], n_bytes=3, n_words=16, layout="hybrid", threads=1)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=lambda: [index.add(x[:20], threads=1) for _ in range(5)]) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert len(index) == index.engine.n_rows == 600
    index.verify()
