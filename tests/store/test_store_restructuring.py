"""Columns that are added and dropped later: rows, codes and other columns stay, searches see the new ones."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from store_helpers import BOOKS, RICH, SMALL, values, vectors

import interlace as il
from interlace.errors import InputError, StoreError

pytest.importorskip("pyarrow", reason="the io extra is not installed")

X = vectors(40)


def made(path: Path, **extras: object) -> il.Store:
    """A store with segments, removed rows and rows in its log."""
    store = il.create(path, BOOKS, limits=SMALL, **extras)  # type: ignore[arg-type]
    for first in range(0, 40, 8):
        some = X[first : first + 8]
        store.add(some, payload=values(some) if "columns" in extras else None)
    store.remove([1, 9, 17, 38])
    return store


@pytest.mark.parametrize("extras", [{}, RICH, {"columns": RICH["columns"]}, {"originals": "float16"}], ids=str)
def test_added_columns_have_their_values_and_nothing_else_changes(tmp_path: Path, extras: dict[str, object]) -> None:
    with made(tmp_path / "s", **extras) as store:
        before, ids = store.search(X, k=7, margin="exact"), store.ids
        old = store.payload().to_pylist() if "columns" in extras else [{}] * len(store)
        store.add_columns({"size": "int64", "name": "string"}, {"size": ids * 3, "name": [f"n{i}" for i in ids]})
        for again in (store, il.open(tmp_path / "s")):
            assert again.ids.tolist() == ids.tolist()
            found = again.search(X, k=7, margin="exact")
            np.testing.assert_array_equal(found.ids, before.ids)
            np.testing.assert_array_equal(found.distances, before.distances)
            rows = again.payload().to_pylist()
            assert rows == [{**o, "size": 3 * i, "name": f"n{i}"} for o, i in zip(old, ids.tolist(), strict=True)]
            assert again.search(X[0], k=40, filter="size >= 60").counts == sum(3 * i >= 60 for i in ids.tolist())
            again.verify()
        store.add(X[:2], [100, 101], payload=[{"size": 5}, {"name": "x"}])
        assert store.payload([100, 101], ["size", "name"]).to_pylist() == [
            {"size": 5, "name": None},
            {"size": None, "name": "x"},
        ]


def test_columns_without_values_are_null_and_can_be_dropped_again(tmp_path: Path) -> None:
    with made(tmp_path / "s", **RICH) as store:
        before = store.payload()
        store.add_columns({"more": "float32"})
        assert store.payload(columns=["more"]).column("more").null_count == len(store)
        store.drop_columns(["more"])
        assert store.payload().equals(before)
        store.drop_columns("n")
        assert store.columns.names == ["tag"]
    with il.open(tmp_path / "s") as again:
        assert again.payload().equals(before.select(["tag"]))


def test_an_empty_store_gets_columns(tmp_path: Path) -> None:
    with il.create(tmp_path / "s", BOOKS) as store:
        store.add_columns({"n": "int64"})
        store.add(X[:3], payload={"n": [1, 2, 3]})
    assert il.open(tmp_path / "s").payload().to_pydict() == {"n": [1, 2, 3]}


@pytest.mark.parametrize("learned", [False, True])
def test_a_store_that_started_empty_gets_columns(tmp_path: Path, learned: bool) -> None:
    x = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    with il.create(tmp_path / "s", dim=8, n_bytes=4, relearn="manual", columns={"n": "int64"}) as store:
        store.add(x[:290], payload={"n": np.arange(290)})
        store.remove([3, 4])
        if learned:
            store.relearn(progress=None)
        store.add(x[290:], payload={"n": np.arange(290, 300)})
        before, ids = store.search(x[:9], k=5, margin="exact"), store.ids
        store.add_columns({"twice": "int64"}, {"twice": 2 * ids})
        after = store.search(x[:9], k=5, margin="exact")
        np.testing.assert_array_equal(after.ids, before.ids)
        np.testing.assert_array_equal(after.distances, before.distances)
        if not learned:
            store.relearn(progress=None)
        assert store.payload().to_pydict() == {"n": ids.tolist(), "twice": (2 * ids).tolist()}
        assert store.search(x[0], k=300, filter="twice < 100").counts == 48
    with il.open(tmp_path / "s") as again:
        again.verify()
        assert again.columns.names == ["n", "twice"]


def test_a_reader_sees_the_columns_after_a_refresh(tmp_path: Path) -> None:
    with made(tmp_path / "s", **RICH) as store:
        reader = il.open(tmp_path / "s")
        assert isinstance(reader, il.Store)
        store.add_columns({"more": "int8"})
        assert reader.columns.names == ["n", "tag"]
        assert reader.refresh()
        assert reader.columns.names == ["n", "tag", "more"]


@pytest.mark.parametrize(
    ("columns", "payload", "message"),
    [
        ({"n": "int64"}, None, "already has a column 'n'"),
        ({"m": "int64"}, {"m": [1]}, "must have one value per row: 36, got 1"),
        ({"m": "int64"}, {"k": [1] * 36}, "payload has a column 'k'"),
        ({"m": "int64"}, {"m": ["a"] * 36}, "payload column 'm' must be int64"),
        ({}, None, "columns is empty"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, columns: object, payload: object, message: str) -> None:
    with made(tmp_path / "s", **RICH) as store:
        before = store.generation
        with pytest.raises(InputError, match=message):
            store.add_columns(columns, payload)
        with pytest.raises(InputError, match="at least one column must be left"):
            store.drop_columns(["n", "tag"])
        with pytest.raises(InputError, match="there is no column 'x'"):
            store.drop_columns(["x"])
        assert store.generation == before
    with il.open(tmp_path / "s") as reader, pytest.raises(StoreError, match="open for reading"):
        reader.add_columns({"m": "int64"})  # type: ignore[union-attr]


def test_rows_that_are_added_meanwhile_have_the_new_columns_or_are_refused(tmp_path: Path) -> None:
    store, refused = made(tmp_path / "s", **RICH), list[tuple[int, str]]()

    def add() -> None:
        for i in range(200, 300):
            try:
                store.add(X[:1], [i], payload=[{"n": i}])
            except InputError as error:
                refused.append((i, str(error)))

    thread = threading.Thread(target=add)
    thread.start()
    for i in range(8):
        store.add_columns({f"c{i}": "int8"})
    thread.join()
    store.close()
    assert all("columns of the store were changed" in message for _, message in refused)
    with il.open(tmp_path / "s") as again:
        assert len(again) == 36 + 100 - len(refused)
        assert again.columns.names == ["n", "tag", *(f"c{i}" for i in range(8))]
