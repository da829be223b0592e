"""Stores that calibrate by themselves: after learning, when they have grown, and what they keep."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from learning_stores import DIM, LEARNING, Gate, learners, made, rows
from store_helpers import LARGE

import interlace as il
from helpers import HANGS, clustered
from interlace.engine.calibrating import queries_needed
from interlace.engine.margins import DEFAULT
from interlace.store import background


def test_a_calibration_that_a_crash_prevented_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = rows(600)
    with monkeypatch.context() as patch:
        gate = Gate(patch, il.store.Snapshot, "calibrated")
        store = made(tmp_path / "s")
        store.add(x)
        gate.wait()
        assert not il.open(tmp_path / "s").health().calibrated  # learned, and nothing more
        closing = threading.Thread(target=store.close)
        closing.start()
        gate.open()
        closing.join(HANGS)
    with il.open(tmp_path / "s", mode="a") as again:
        assert again.wait_until_learned(HANGS)
        assert again.health().calibrated


def test_a_store_made_from_an_index_is_calibrated_again_when_it_has_grown(tmp_path: Path) -> None:
    """With originals by itself; without, searches are exact, and health() says what to do."""
    needed = queries_needed(DEFAULT)
    x = rows(6 * needed)
    index = il.Index.build(x[:needed], **{**LEARNING, "n_bytes": 4})
    for originals in ("float16", None):
        with il.create(tmp_path / f"{originals}", index.codebooks, originals=originals, limits=LARGE) as store:
            store.add(x[: needed - 1])
            assert store.wait_until_learned(HANGS)
            assert (store.health().calibrated, learners()) == (False, [])
            for n in (needed, len(x)):
                store.add(x[len(store) : n])
                assert store.wait_until_learned(HANGS)
                found = store.snapshot.books.calibration
                assert store.health().calibrated == (originals is not None)
                assert (None if found is None else found.n) == (n if originals else None)
            advised = any("calibrate(queries)" in text for text in store.health().advice)
            assert advised == (not store.health().default_calibrated)
            assert advised or originals is not None
            assert store.health().state == "learned"


def test_a_calibration_by_queries_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is made while the thread calibrates by rows."""
    x = rows(queries_needed(DEFAULT))
    books = il.Index.build(x, **LEARNING).codebooks
    gate = Gate(monkeypatch, background, "thread_count")  # before the thread calibrates
    with il.create(tmp_path / "s", books, originals="float16", limits=LARGE) as store:
        store.add(x)
        gate.wait()
        health = store.health()
        assert (health.state, health.calibrating, health.advice) == ("learned", True, [])
        assert "in the background" in str(health)
        store.calibrate(rows(500, seed=1), threads=1)
        made = store.snapshot.books.calibration
        gate.open()
        assert store.wait_until_learned(HANGS)
        assert made is not None
        assert store.snapshot.books.calibration is made
    with il.open(tmp_path / "s") as again:
        found = again.snapshot.books.calibration
        assert found is not None
        assert (found.queries, found.n) == (made.queries, len(x))


@pytest.mark.parametrize("metric", ["l2", "cosine"])
@pytest.mark.parametrize("by", ["thread", "relearn"])
def test_the_vectors_calibrate_although_they_are_not_kept(tmp_path: Path, metric: str, by: str) -> None:
    """Decoded rows would be nearer to the codes than queries are."""
    x = clustered(700, DIM)
    relearn = "auto" if by == "thread" else "manual"
    with made(tmp_path / "s", metric=metric, originals=None, relearn=relearn, learn_at=700) as store:
        store.add(x[:3])
        store.remove([1])
        store.add(x[3:])
        store.add(x[1:2])
        if by == "relearn":
            store.relearn()
        assert store.wait_until_learned(HANGS)
        rows = np.concatenate([x[:1], x[2:], x[1:2]])
        searcher, found = store.searcher, store.snapshot.books.calibration
        vectors = searcher.space.directed(rows, "x")
        expected = searcher.engine.calibrated(vectors, np.arange(700), threads=1)
        assert found is not None
        assert np.array_equal(found.shares, expected.shares, equal_nan=True)
        assert np.array_equal(found.slacks, expected.slacks, equal_nan=True)
        assert (found.n, found.queries) == (700, expected.queries)
