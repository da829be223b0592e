"""Stores that learn by themselves: while they do, when they are closed, killed or fail, and when rows change."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from learning_stores import DIM, Gate, learners, made, rows
from store_helpers import LARGE

import interlace as il
from helpers import HANGS
from interlace.store import background, files, relearning, verify
from raising import raises


def named_files(folder: Path) -> bool:
    """Whether there are the files of the manifest, and no others."""
    names = set(il.open(folder).session.state.manifest.names)
    return {path.name for path in folder.iterdir()} - {"LOCK", "MANIFEST.json"} == names


@pytest.mark.parametrize("originals", ["float16", None])
def test_a_store_learns_when_it_has_enough_rows(tmp_path: Path, originals: Any) -> None:
    x = rows(620)
    with made(tmp_path / "s", originals=originals) as store:
        store.add(x[:499])
        assert store.wait_until_learned()
        assert (store.health().state, learners()) == ("collecting", [])
        store.add(x[499:])
        assert store.wait_until_learned(HANGS)
        health = store.health()
        assert (health.state, health.learning_due, health.learning_error) == ("learned", None, None)
        assert health.calibrated
        assert store.codebooks.n_bytes == 4
        assert store.ids.tolist() == list(range(620))
        assert store.search(x[:3], 2, margin=0.99).stats.rule == "calibrated"
        assert not learners()
        store.verify()
    assert named_files(tmp_path / "s")


def test_the_same_books_as_relearn_learns(tmp_path: Path) -> None:
    """The thread and its number of cores change nothing."""
    x, found = rows(600), []
    for name, settings in {"auto": {}, "manual": {"relearn": "manual"}}.items():
        with made(tmp_path / name, **{**settings, "threads": None, "limits": LARGE}) as store:
            store.add(x)
            if settings:
                store.relearn()
            assert store.wait_until_learned(HANGS)
            found.append((store.codebooks, store.get(store.ids)))
    assert found[0][0] == found[1][0]
    assert np.array_equal(found[0][1], found[1][1])


STEPS = {
    "begin": (background, "relearned"),
    "learn": (relearning, "learn_codebooks"),
    "encode": (relearning, "encode"),
    "catch up": (relearning.Relearned, "missing"),
}


@pytest.mark.parametrize("step", STEPS)
def test_writes_and_searches_go_on_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Rows that come, go and are replaced while codebooks are learned are those of the store afterwards."""
    gate = Gate(monkeypatch, *STEPS[step])
    x = rows(900)
    store = made(tmp_path / "s", columns={"n": "int32"})
    store.add(x[:600], payload={"n": np.arange(600)})
    gate.wait()
    assert store.health().state == "learning"
    expected = {i: x[i] for i in range(600)}
    store.remove(np.arange(0, 100))
    store.upsert(x[600:610], np.arange(95, 105), payload={"n": np.full(10, -1)})
    with store.batch():
        store.add(x[610:700], payload={"n": np.arange(90)})
        store.remove([300])
    store.compact()
    store.add(x[700:703], payload=[{}, {}, {}])
    for i in [*range(100), 300]:
        del expected[i]
    for i in range(10):
        expected.pop(95 + i, None)
        expected[95 + i] = x[600 + i]
    for i, row in enumerate(x[610:703]):
        expected[600 + i] = row
    reader, snapshot, payload = il.open(tmp_path / "s"), store.snapshot, store.payload()
    for one in (store, reader, snapshot):  # exact, because codes are not there yet
        assert one.ids.tolist() == list(expected)
        away = ((np.array(list(expected.values())) - x[5]) ** 2).sum(1)
        assert one.search(x[5], 10).distances.tolist() == np.sort(away)[:10].tolist()
    gate.open()
    assert store.wait_until_learned(HANGS)
    assert store.health().state == "learned"
    assert reader.refresh()
    for one in (store, reader):
        assert one.ids.tolist() == list(expected)
        assert np.array_equal(one.get(list(expected), originals=True), np.array(list(expected.values())))
        assert one.search(x[5], 10, rerank=700, margin="exact").distances.tolist() == np.sort(away)[:10].tolist()
    assert store.payload().equals(payload)
    assert snapshot.search(x[5], 10).distances.tolist() == np.sort(away)[:10].tolist()
    codes = store.codebooks.decode(relearning.encode(store.codebooks, np.array(list(expected.values())), 1))
    assert np.array_equal(store.get(list(expected)), codes)
    store.close()
    verify(str(tmp_path / "s"))
    assert named_files(tmp_path / "s")


@pytest.mark.parametrize("step", STEPS)
def test_close_stops_learning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    x = rows(600)
    with monkeypatch.context() as patch:
        gate = Gate(patch, *STEPS[step])
        store = made(tmp_path / "s")
        store.add(x)
        gate.wait()
        closing = threading.Thread(target=store.close)
        closing.start()
        gate.open()
        closing.join(HANGS)
        assert not closing.is_alive()
    assert not learners()
    assert named_files(tmp_path / "s")
    reader = il.open(tmp_path / "s")
    assert (reader.health().state, len(reader)) == ("collecting", 600)
    assert reader.health().learning_due
    assert any("open for writing" in text for text in reader.health().advice)
    store.close()
    with il.open(tmp_path / "s", mode="a") as again:  # which goes on
        assert again.wait_until_learned(HANGS)
        assert again.health().state == "learned"
    with raises(il.StoreError, "closed"):
        again.add(x[:1])


def test_a_store_that_nobody_holds_lets_go_of_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, relearning, "learn_codebooks")
    store = made(tmp_path / "s")
    store.add(rows(600))
    gate.wait()
    del store
    gc.collect()
    il.open(tmp_path / "s", mode="r").close()
    gate.open()
    for thread in learners():
        thread.join(HANGS)
    gc.collect()
    with il.open(tmp_path / "s", mode="a") as again:
        assert len(again) == 600


def test_a_batch_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, background, "relearned")
    x = rows(600)
    store = made(tmp_path / "s")
    store.add(x)
    gate.wait()
    with store.batch():
        gate.open()
        store.add(x[:50])
        with raises(il.InputError, "batch"):
            store.close()
        with raises(il.InputError, "batch"):
            store.relearn()
        assert len(store) == 600
        assert store.health().state != "learned"  # it needs the lock
    assert store.wait_until_learned(HANGS)
    assert (store.health().state, len(store)) == ("learned", 650)
    store.close()


def test_relearn_takes_the_place_of_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, relearning, "learn_codebooks")
    store = made(tmp_path / "s")
    store.add(rows(600))
    gate.wait()
    gate.open()
    store.relearn(n_bytes=5)
    assert store.wait_until_learned(HANGS)
    assert (store.codebooks.n_bytes, store.health().state) == (5, "learned")
    store.close()


@pytest.mark.parametrize("again", ["rows", "relearn"])
def test_a_failure_is_told_and_tried_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, again: str
) -> None:
    x, tries = rows(900), []

    def fails(*arguments: Any) -> Any:
        tries.append(1)
        raise MemoryError("no memory")

    with monkeypatch.context() as patch:
        patch.setattr(background, "relearned", fails)
        store = made(tmp_path / "s")
        store.add(x[:550])
        assert store.wait_until_learned(HANGS)
        health = store.health()
        assert (health.state, health.learning_error) == ("collecting", "MemoryError: no memory")
        assert "no memory" in health.advice[0]
        assert "no memory" in caplog.text
        store.add(x[550:600])
        assert store.wait_until_learned(HANGS)
        assert len(tries) == 1  # not with every write
        assert store.search(x[0], 1).distances.tolist() == [0.0]
    if again == "relearn":
        store.relearn()
    else:
        store.add(x[600:])
    assert store.wait_until_learned(HANGS)
    assert (store.health().state, store.health().learning_error) == ("learned", None)
    store.close()


def test_a_full_disk_leaves_the_store_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, real = rows(900), files.call

    def full(name: str, *arguments: Any, **where: int) -> Any:
        if threading.current_thread().name == "interlace-learning" and name in ("write", "fsync"):
            raise OSError(28, "No space left on device")
        return real(name, *arguments, **where)

    with monkeypatch.context() as patch:
        patch.setattr(files, "call", full)
        store = made(tmp_path / "s")
        store.add(x[:600])
        assert store.wait_until_learned(HANGS)
        assert "No space left" in str(store.health().learning_error)
        store.add(x[600:610])
    assert store.search(x[605], 1).distances.tolist() == [0.0]
    store.close()
    verify(str(tmp_path / "s"))
    with il.open(tmp_path / "s", mode="a") as again:
        assert again.wait_until_learned(HANGS)
        assert (again.health().state, len(again)) == ("learned", 610)


def test_manual_stores_recommend_it(tmp_path: Path) -> None:
    with made(tmp_path / "s", relearn="manual") as store:
        store.add(rows(600))
        assert (store.health().state, learners()) == ("collecting", [])
        assert "relearn(): 600 rows" in store.health().advice[0]
        store.relearn()
        assert not store.health().advice  # its searches re-rank, and 600 rows are enough for that
        store.add(rows(2500)[600:])
        assert "2,500 rows" in store.health().advice[0]
        assert not learners()


def test_all_rows_go_while_it_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, relearning, "learn_codebooks")
    store = made(tmp_path / "s")
    store.add(rows(600))
    gate.wait()
    store.remove(store.ids)
    gate.open()
    assert store.wait_until_learned(HANGS)
    assert (store.health().state, store.health().learning_error, len(store)) == ("learned", None, 0)
    store.add(rows(5))
    assert store.search(rows(5), 1, rerank=5).ids[:, 0].tolist() == store.ids.tolist()
    store.close()
    verify(str(tmp_path / "s"))


def test_equal_rows_are_learned_once(tmp_path: Path) -> None:
    """Their calibration has no queries, and would not get any."""
    with made(tmp_path / "s") as store:
        store.add(np.ones((600, DIM)))
        assert store.wait_until_learned(HANGS)
        generation = store.generation
        store.add(np.ones((10, DIM)))
        assert store.wait_until_learned(HANGS)
        assert store.health().state == "learned"
        assert store.generation <= generation + 1  # of the write
        assert store.search(np.ones(DIM), 3).ids.tolist() == [0, 1, 2]


def test_few_rows_are_not_learned_from_by_themselves(tmp_path: Path) -> None:
    with made(tmp_path / "s") as store:
        store.add(rows(40))
        store.relearn()
        first = store.codebooks
        store.add(rows(499)[40:])
        assert store.wait_until_learned(HANGS)
        assert store.codebooks == first
        store.add(rows(500)[499:])
        assert store.wait_until_learned(HANGS)
        assert store.codebooks != first


def test_growth_learns_again(tmp_path: Path) -> None:
    with made(tmp_path / "s") as store:
        x = rows(2100)
        store.add(x[:500])
        assert store.wait_until_learned(HANGS)
        first = store.codebooks
        store.add(x[500:1500])
        assert store.wait_until_learned(HANGS)
        assert store.codebooks == first
        made_for = store.snapshot.books.calibration
        assert made_for is not None
        assert made_for.n == 1500  # calibrated again, because the rows are three times as many
        store.add(x[1500:])
        assert store.wait_until_learned(HANGS)
        assert store.codebooks != first
        assert len(store) == 2100


def test_drift_learns_again(tmp_path: Path) -> None:
    with made(tmp_path / "s", limits=LARGE) as store:
        store.add(rows(5000))
        assert store.wait_until_learned(HANGS)
        first, before = store.codebooks, store.health()
        assert before.training_error is not None
        store.add(40 - rows(1500, seed=1)[:, ::-1])
        assert store.wait_until_learned(HANGS)
        assert store.codebooks != first
        assert not store.health().relearn
        assert len(store) == 6500
