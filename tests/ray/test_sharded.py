"""Sharded stores: writes by the hash of ids, durable when acknowledged, also when a writer is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import interlace as il

pytest.importorskip("ray.exceptions", reason="the ray extra is not installed")
pytestmark = [
    pytest.mark.usefixtures("cluster_of_ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray"),
]


@pytest.fixture
def store(one: il.Index, tmp_path: Path) -> Iterator[il.ray.ShardedStore]:
    made = il.ray.create(
        tmp_path / "store",
        one.codebooks,
        shards=2,
        replicas=2,
        columns={"n": "int64"},
        originals="float16",
        threads=1,
        timeout=300,
    )
    yield made
    made.close()


def oracle(one: il.Index, rows: np.ndarray, ids: np.ndarray, path: Path) -> il.Store:
    """One store with the same rows."""
    found = il.create(path, one.codebooks, columns={"n": "int64"}, originals="float16")
    found.upsert(rows, ids, payload={"n": ids})
    return found


def test_writes_searches_kills_and_rebuilds(store, one, rows, queries, tmp_path) -> None:
    ids = np.arange(500) * 7
    assert np.array_equal(store.add(rows[:500], ids, payload={"n": ids}), ids)
    assert len(store) == 500
    assert 14 in store
    assert 15 not in store
    assert "a" not in store
    with pytest.raises(il.DuplicateIdError, match="id 14"):
        store.add(rows[:2], [14, 15], payload={"n": [14, 15]})
    assert 15 not in store, "nothing of it was added"
    with pytest.raises(il.InputError, match=r"x\[1\] is too small"):
        store.upsert(rows[:2] * np.array([[1], [1e-20]], np.float32), [15, 16], payload={"n": [15, 16]})
    assert 15 not in store
    with pytest.raises(il.InputError, match=r"queries\[0\] is too small"):
        store.search(queries[:2] * np.float32(1e-20))
    store.upsert(rows[600], 21, payload={"n": 21})
    assert store.remove([28, 35]) == 2
    with pytest.raises(il.UnknownIdError, match="id 28"):
        store.remove([28, 42])
    assert store.remove([28, 42], missing="ignore") == 1

    expected = oracle(one, rows[:500], ids, tmp_path / "one")
    expected.upsert(rows[600], 21, payload={"n": 21})
    expected.remove([28, 35, 42])

    def check() -> None:
        for options in ({}, {"filter": "n < 1000"}, {"filter": [7, 70, 700]}, {"rerank": 50}):
            found = store.search(queries, 8, margin="exact", **options)
            wanted = expected.search(queries, 8, margin="exact", **options)
            assert found.distances.tobytes() == wanted.distances.tobytes(), options
            for mine, theirs, distances in zip(found.ids, wanted.ids, found.distances, strict=True):
                inner = distances < distances[-1]  # of equal distances, another one may come first, or last
                assert set(mine[inner]) == set(theirs[inner])

    for _ in range(4):  # the writers and the readers in turn
        check()
    near, wanted = store.range_search(queries, 30.0), expected.range_search(queries, 30.0)
    assert np.array_equal(near.offsets, wanted.offsets)
    assert near.distances.tobytes() == wanted.distances.tobytes()
    best = expected.search(queries[0], 3, margin="exact")
    why = store.explain(queries[0], int(best.ids[0]), 3, margin="exact")
    assert (why.lost, why.distance) == ("found", best.distances[0])
    own = store.search_by_id([70], 1, exclude_self=False, margin="exact", rerank=50)
    assert own.distances[0, 0] == 0
    assert store.search_by_id([70], 5, margin="exact", rerank=50).ids[0, 0] != 70
    store.calibrate(rows[:1000])
    assert store.search(queries, 8, margin=0.99).groups[0].rule == "calibrated"
    assert np.array_equal(store.vectors([70, 7], originals=True), expected.get([70, 7], originals=True))
    assert store.payload([70, 7]).column("n").to_pylist() == [70, 7]

    for info in store.nodes():  # every actor, the writers too
        os.kill(info["process"], signal.SIGKILL)
    store.upsert(rows[601], 70001, payload={"n": 1})
    expected.upsert(rows[601], 70001, payload={"n": 1})
    check()
    store.compact()
    store.verify()
    assert [health.removed for health in store.health()] == [0, 0]
    with pytest.raises(il.InputError, match="expression or a 1-D array of ids"):
        store.search(queries, filter=np.ones(498, bool))
    with pytest.raises(il.InputError, match="has 3 dimensions"):
        store.upsert(np.zeros((1, 3)), [1])
    with pytest.raises(il.InputError, match="needs ids"):
        store.add(rows[:3], None)
    with pytest.raises(il.InputError, match="payload column 'n' has 2 values for 1 rows"):
        store.upsert(rows[:1], [1], payload={"n": [1, 2]})

    store.close()
    layout = il.ray.rebuild(store.layout.path, shards=3, progress=False)
    assert (layout.shards, layout.generation) == (3, 2)
    assert sorted(path.name for path in Path(layout.path).iterdir()) == ["generation-0002", "sharded-store.json"]
    store = il.ray.open_store(layout.path, timeout=300)
    assert len(store) == len(expected) == 498
    found = store.search(queries, 8, margin="exact", rerank=498)
    assert found.distances.tobytes() == expected.search(queries, 8, margin="exact", rerank=498).distances.tobytes()
    store.close()
    seen: list[float] = []
    settings = {"n_bytes": 2, "layout": "hybrid", "threads": 1}
    relearned = il.ray.rebuild(layout.path, model=settings, progress=lambda what, done: seen.append(done))
    assert (seen, seen[-1], seen.count(1.0)) == (sorted(seen), 1.0, 1)
    assert relearned.model != layout.model
    first = il.open(relearned.folder(0))
    assert first.codebooks.n_bytes == 2
    first.close()


def test_string_ids_and_a_bad_place(one, rows, tmp_path) -> None:
    with il.ray.create(tmp_path / "store", one, shards=2, timeout=300) as store:
        names = [f"item {i}" for i in range(50)]
        store.upsert(rows[:50], names)
        assert store.search(rows[7], 1, margin="exact").ids[0] in names
        assert store.remove("item 3") == 1
        store.close()
        with pytest.raises(il.InputError, match="keeps no originals"):
            il.ray.rebuild(tmp_path / "store", progress=False)
    with pytest.raises(il.InputError, match="already has a sharded store"):
        il.ray.create(tmp_path / "store", one, shards=2)
    with pytest.raises(il.InputError, match="learned already"):
        il.ray.create(tmp_path / "other", {"n_bytes": 8}, shards=2)
    with pytest.raises(il.InputError, match="a disk that all nodes see"):
        il.ray.create("s3://bucket/store", one, shards=2)
    with pytest.raises(FileNotFoundError, match="il.ray.create"):
        il.ray.open_store(tmp_path / "nothing")
