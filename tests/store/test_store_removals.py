"""Space and speed come back by themselves after removals, and ids stay small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from store_helpers import BOOKS, LARGE, Model, check, vectors

import interlace as il
from interlace.store import Limits
from interlace.store.compaction import WORTH, many_removed


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.name.startswith("segment-"))


def test_removals_in_many_calls_are_compacted(tmp_path: Path) -> None:
    """Half of the rows in calls of 500: no segment is left that has lost more than the share that the docs tell."""
    n = 20_000
    with il.create(tmp_path / "s", BOOKS) as store:
        store.add(vectors(n))
        gone = np.random.default_rng(0).permutation(n)[: n // 2]
        most = 0.0
        for i in range(0, len(gone), 500):
            store.remove(gone[i : i + 500])
            most = max(most, *(dead.count / dead.n for dead in store.snapshot.rows.removed[:-1]))
        assert most <= Limits().removed_share
        assert len(store) == n // 2
        assert sum(part.ids.n for part in store.snapshot.rows.parts) <= len(store) / 0.7
        assert set(store.ids.tolist()) == set(range(n)) - set(gone.tolist())
        store.verify()


@pytest.mark.parametrize("act", ["remove", "upsert"])
def test_rows_that_go_one_by_one_are_compacted(tmp_path: Path, act: str) -> None:
    with il.create(tmp_path / "s", BOOKS) as store:
        store.add(vectors(200))
        store.compact()
        model, generation = Model(), store.generation
        model.put(vectors(200), list(range(200)))
        for i in range(70):
            store.remove([i]) if act == "remove" else store.upsert(vectors(1, i), [i])
            model.remove([i]) if act == "remove" else model.put(vectors(1, i), [i])
        assert store.generation == generation + 1  # once, at 64 rows and more than 30 %
        assert store.snapshot.rows.ids.removed is None or store.snapshot.rows.ids.removed.count < 10
        check(store, model)


def test_it_does_not_happen_where_it_is_not_wanted(tmp_path: Path) -> None:
    with il.create(tmp_path / "s", BOOKS, limits=LARGE) as store:
        store.add(vectors(200))
        store.compact()
        generation = store.generation
        store.remove(np.arange(190))
        assert store.generation == generation


def test_a_rewrite_that_fails_is_not_tried_with_every_write() -> None:
    limits = Limits()
    assert many_removed([(1000, 301)], limits)
    assert not many_removed([(1000, 300)], limits)
    assert not many_removed([(100, WORTH - 1)], limits)
    assert not many_removed([(1000, 301)], limits, patience=8)
    assert many_removed([(5000, 0), (1000, 512)], limits, patience=8)


def test_one_row_less_takes_no_more_room(tmp_path: Path) -> None:
    """A run of ids that has a gap is two runs; it was a list of them all, twice as large as the codes."""
    with il.create(tmp_path / "s", BOOKS) as store:
        store.add(vectors(20_000))
        store.compact()
        before = size(tmp_path / "s")
        store.remove([7777])
        store.compact()
        assert size(tmp_path / "s") <= before + 512
        assert 7777 not in store
        assert store.get([7778, 19_999]).shape == (2, 4)


@pytest.mark.parametrize(("ids", "most"), [(np.arange(20_000) + 1, 0.05), (np.arange(20_000) * 3, 1.2)])
def test_ids_that_were_given_take_little_room(tmp_path: Path, ids: np.ndarray, most: float) -> None:
    with il.create(tmp_path / "d", BOOKS) as default, il.create(tmp_path / "s", BOOKS) as store:
        default.add(vectors(20_000))
        store.add(vectors(20_000), ids)
        assert (size(tmp_path / "s") - size(tmp_path / "d")) / 20_000 <= most
        np.testing.assert_array_equal(store.ids, ids)
