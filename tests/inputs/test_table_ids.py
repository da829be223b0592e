"""A column ``id`` of a table holds the ids of its rows: at every door that takes rows with ids."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlace as il
from frames import FakeFrame
from interlace.data import read_vectors
from interlace.inputs.arrays import Rows, as_rows
from interlace.inputs.tables import id_column
from raising import raises

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

N = 20
X = np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32)
NUMBERS = np.arange(N) * 7 + 3
WORDS = [f"é{i}" for i in range(N)]
LISTS = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3)
SIDES = {f"f{i}": X[:, i] for i in range(3)}
NEAR: dict[str, Any] = {"n_bytes": 2, "threads": 1}
TINY: dict[str, Any] = {"n_bytes": 2, "n_words": 4, "threads": 1}


class Stream:
    """A frame of some other library that can hand itself over as an Arrow stream."""

    def __init__(self, table: Any) -> None:
        self.table, self.columns = table, table.column_names

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def in_file(table: Any, folder: Path) -> Any:
    parquet.write_table(table, folder / "x.parquet", row_group_size=7)
    return read_vectors(folder / "x.parquet")


def frame_of(columns: dict[str, Any]) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({name: np.asarray(column) for name, column in columns.items()})


KINDS: dict[str, Callable[[dict[str, Any], Path], Any]] = {
    "table of lists": lambda ids, folder: pa.table({**ids, "v": LISTS}),
    "table of numbers": lambda ids, folder: pa.table({**SIDES, **ids}),
    "batch": lambda ids, folder: pa.table({**ids, "v": LISTS}).to_batches()[0],
    "stream": lambda ids, folder: Stream(pa.table({**ids, "v": LISTS})),
    "reader": lambda ids, folder: pa.table({**ids, "v": LISTS}).to_reader(6),
    "batches": lambda ids, folder: iter(pa.table({**ids, "v": LISTS}).to_batches(6)),
    "parquet of lists": lambda ids, folder: in_file(pa.table({**ids, "v": LISTS}), folder),
    "parquet of numbers": lambda ids, folder: in_file(pa.table({**SIDES, **ids}), folder),
    "pandas": lambda ids, folder: frame_of({**SIDES, **ids}),
    "fake frame": lambda ids, folder: FakeFrame({name: np.asarray(c) for name, c in {**ids, **SIDES}.items()}),
}
IDS: dict[str, Any] = {
    "integers": NUMBERS,
    "small integers": pa.array(np.arange(N), pa.uint8()),
    "strings": WORDS,
    "large strings": pa.array(WORDS, pa.large_string()),
    "string views": pa.array(WORDS, pa.string_view()),
    "dictionary": pa.array(WORDS).dictionary_encode(),
}


def expected(kind: str) -> list[Any]:
    column = IDS[kind]
    return column.to_pylist() if isinstance(column, pa.Array) else list(column)


@pytest.mark.parametrize("ids", IDS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_column_id_of_any_table_holds_the_ids(kind: str, ids: str, tmp_path: Path) -> None:
    def table() -> Any:
        return KINDS[kind]({"id": IDS[ids]}, tmp_path)

    rows = Rows(table())
    np.testing.assert_array_equal(rows.take(np.arange(N)), X)
    assert list(rows.ids(None)) == expected(ids)
    assert list(rows.ids(WORDS)) == WORDS
    assert il.Index.build(table(), **TINY).ids.tolist() == expected(ids)
    model = il.ICQ(2, n_words=4, threads=1).fit(table())
    assert model.index(table()).ids.tolist() == expected(ids)
    with il.create(tmp_path / "s", model, originals="float16") as store:
        store.add(table())
        assert store.ids.tolist() == expected(ids)
        store.upsert(table() if kind != "reader" else table().read_all(), expected(ids))
        assert len(store) == N


#: Frames have only columns of numbers beside that of the ids.
NAMED = [kind for kind in KINDS if "frame" not in kind and kind != "pandas"]


@pytest.mark.parametrize("kind", NAMED)
def test_a_column_of_another_name_is_named(kind: str, tmp_path: Path) -> None:
    def table() -> Any:
        return KINDS[kind]({"name": WORDS}, tmp_path)

    assert Rows(table()).ids(None) is None
    assert il.Index.build(table(), **TINY).ids.tolist() == list(range(N))
    index = il.Index.build(table(), ids="name", **TINY)
    assert index.ids.tolist() == WORDS
    assert il.ICQ(2, n_words=4, threads=1).fit(table()).index(table(), "name").ids.tolist() == WORDS
    grown = il.Index(index.codebooks)
    grown.add(table(), "name")
    assert grown.ids.tolist() == WORDS
    with il.create(tmp_path / "s", il.ICQ(2, n_words=4, threads=1).fit(X)) as store:
        assert store.add(table(), "name").tolist() == WORDS
        assert store.upsert(table(), "name").tolist() == WORDS
        assert len(store) == N
    with raises(il.InputError, "'other'", "'name'"):
        il.Index.build(table(), ids="other", **TINY)


def test_blocks_of_a_store_take_a_named_column(tmp_path: Path) -> None:
    with il.create(tmp_path / "s", None, dim=3) as store:
        store.add(iter(pa.table({"name": WORDS, "v": LISTS}).to_batches(6)), "name")
        assert store.ids.tolist() == WORDS
        assert store.add(X[0], "one").tolist() == ["one"]  # a single row with a single id


def test_a_column_that_is_not_in_all_blocks_is_refused_by_the_block() -> None:
    tables = [pa.table({"sku": WORDS[:9], "v": LISTS[:9]}), pa.table({"v": LISTS[9:]})]
    with raises(il.InputError, "block 1 of x (from row 9)", "no column", "'sku'", "'v'"):
        il.Index.build(iter(tables), ids="sku", **TINY)
    with raises(il.InputError, "block 0 of x (from row 0)", "no table", "'sku'"):
        il.Index.build(iter([X[:9], X[9:]]), ids="sku", **TINY)


def test_ids_that_are_passed_come_before_a_column_of_blocks() -> None:
    table = pa.table({"id": np.arange(N) / 2, "v": LISTS})  # no ids: they would be refused
    assert il.Index.build(iter(table.to_batches(6)), ids=WORDS, **TINY).ids.tolist() == WORDS


@pytest.mark.parametrize("ids", [*IDS, "floats"])
@pytest.mark.parametrize("kind", KINDS)
def test_estimators_take_no_ids(kind: str, ids: str, tmp_path: Path) -> None:
    column = IDS.get(ids, pa.array(np.arange(N) / 2))

    def table() -> Any:
        return KINDS[kind]({"id": column}, tmp_path)

    model, wanted = il.Neighbors(3, **NEAR).fit(table()), il.Neighbors(3, **NEAR).fit(X)
    for found, rows in zip((model.kneighbors(table()), model.kneighbors()), (X, None), strict=True):
        for a, b in zip(found, wanted.kneighbors(rows), strict=True):
            np.testing.assert_array_equal(a, b)
    found, wanted = (il.ICQ(2, n_words=4, threads=1).fit(x()).encode(x()) for x in (table, lambda: X))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_ids_of_a_table_are_no_dimension_of_queries(metric: Any) -> None:
    index = il.Index.build(X, metric=metric, **TINY)
    for table in (pa.table({"id": NUMBERS, **SIDES}), FakeFrame({"id": NUMBERS, **SIDES})):
        np.testing.assert_array_equal(as_rows(table, name="q"), X)
        found, wanted = index.search(table, 3), index.search(X, 3)
        np.testing.assert_array_equal(found.ids, wanted.ids)
    integers = pa.table({"id": NUMBERS, "a": np.arange(N), "b": np.arange(N)})  # an id among integers looks like them
    assert Rows(integers).dim == 2


REFUSED = {
    "floats": (pa.array(np.arange(N) / 2), ("'id'", "double")),
    "nulls": (pa.array([*WORDS[:3], None, *WORDS[4:]]), ("'id'", "row 3")),
    "lists": (pa.array([[w] for w in WORDS], pa.list_(pa.string())), ("'id'",)),
    "twice": (np.zeros(N, np.int64), ("unique", 0, 1)),
    "not text": (pa.array([b"a", b"\xff"] * (N // 2)).view(pa.string()), ("'id'", "UTF-8", "row 1")),
}


@pytest.mark.parametrize("what", REFUSED)
def test_columns_that_are_no_ids_are_refused_by_name(what: str, tmp_path: Path) -> None:
    column, facts = REFUSED[what]
    table = pa.table({"id": column, "v": LISTS})
    with raises(il.InputError, *facts):
        il.Index.build(table, **TINY)
    assert il.Index.build(table, ids=WORDS, **TINY).ids.tolist() == WORDS
    il.ICQ(2, n_words=4, threads=1).fit(table)  # needs no ids
    with il.create(tmp_path / "s", None, dim=3) as store, raises(il.InputError, *facts):
        store.add(table)


def test_two_columns_of_one_name() -> None:
    table = pa.Table.from_arrays([pa.array(WORDS), pa.array(NUMBERS), LISTS], names=["id", "id", "v"])
    assert Rows(table).ids(None) == WORDS


def test_blocks_with_and_without_ids() -> None:
    table = pa.table({"id": WORDS, "v": LISTS})
    with raises(il.InputError, "ids", 2 * N, N):
        il.Index.build(iter([table, table.select(["v"])]), **TINY)


@given(st.lists(st.text(max_size=4), max_size=5))
def test_the_column_is_called_id_in_any_case(names: list[str]) -> None:
    found = id_column(names)
    assert (found is None) == all(name.lower() != "id" for name in names)
    assert found is None or names.index(found) == [name.lower() for name in names].index("id")
