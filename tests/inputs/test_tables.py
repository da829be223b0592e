"""Tables of Arrow and pandas, and what streams like Arrow: the same rows as the array, missing values named by row."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace as il
from frames import FakeFrame
from helpers import run_python
from interlace.inputs.arrays import Rows, as_queries, as_rows
from raising import raises

pa = pytest.importorskip("pyarrow")

X = (np.arange(60, dtype=np.float32) - 20).reshape(20, 3)
NUMBERS = ("int8", "int16", "int32", "int64", "float16", "float32", "float64")


def list_array(x: np.ndarray, kind: str) -> Any:
    """Rows of x as an Arrow array of lists, after one row that is sliced off: offsets must not be ignored."""
    x = np.concatenate([x[:1] * 0, x])
    flat, offsets = pa.array(x.ravel()), np.arange(len(x) + 1) * x.shape[1]
    array = {
        "list": lambda: pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat),
        "large_list": lambda: pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), flat),
        "fixed": lambda: pa.FixedSizeListArray.from_arrays(flat, x.shape[1]),
    }[kind]()
    return array[1:]


def chunked(x: np.ndarray, kind: str = "fixed") -> Any:
    return pa.chunked_array([list_array(x[:7], kind), list_array(x[7:8], kind), list_array(x[8:], kind)])


class Stream:
    """A frame of some other library that can hand itself over as an Arrow stream, and nothing else."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


def kinds() -> dict[str, Any]:
    names = [f"r{i}" for i in range(len(X))]
    columns = {f"f{i}": X[:, i] for i in range(3)}
    return {
        **{kind: list_array(X, kind) for kind in ("list", "large_list", "fixed")},
        **{f"chunked {kind}": chunked(X, kind) for kind in ("list", "large_list", "fixed")},
        "table": pa.table({"name": names, "v": chunked(X)}),
        "record batch": pa.RecordBatch.from_arrays([list_array(X, "fixed"), pa.array(names)], ["v", "name"]),
        "numbers side by side": pa.table({"name": names, **columns}),
        "columns of one name": pa.Table.from_arrays([pa.array(c) for c in columns.values()], names=["f"] * 3),
        "reader": pa.table({"v": chunked(X)}).to_reader(4),
        "batches": iter(pa.table(columns).to_batches(6)),
        "list of batches": pa.table(columns).to_batches(6),
        "stream": Stream(pa.table({"v": chunked(X)})),
        "stream of lists": Stream(chunked(X)),
    }


@pytest.mark.parametrize("kind", kinds())
def test_every_kind_of_table_gives_the_rows(kind: str) -> None:
    rows = Rows(kinds()[kind])
    assert (len(rows), rows.dim) == X.shape
    np.testing.assert_array_equal(np.concatenate(list(rows.blocks(6))), X)
    np.testing.assert_array_equal(rows.take(np.array([0, 6, 7, 8, 19])), X[[0, 6, 7, 8, 19]])
    if kind not in ("reader", "batches", "list of batches"):
        np.testing.assert_array_equal(as_rows(kinds()[kind], name="x"), X)
        np.testing.assert_array_equal(as_queries(kinds()[kind], 3)[0], X)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_type_of_number_keeps_its_dtype(dtype: str) -> None:
    x = X.astype(dtype)
    for table in (chunked(x), chunked(x, "list"), pa.table({f"f{i}": x[:, i] for i in range(3)})):
        rows = Rows(table)
        assert rows._source.dtype == x.dtype
        assert rows._source[:2].dtype == x.dtype
        np.testing.assert_array_equal(np.concatenate(list(rows.blocks())), X)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_rows_are_chosen_as_in_an_array(data: st.DataObject) -> None:
    table = Rows(chunked(X, data.draw(st.sampled_from(["list", "fixed"]))))._source
    slices = st.slices(len(X))
    numbers = st.lists(st.integers(-len(X), len(X) - 1), min_size=1).map(np.array)
    key = data.draw(slices | numbers | st.integers(-len(X), len(X) - 1))
    np.testing.assert_array_equal(table[key], X[key])


def test_other_ways_to_choose_are_refused() -> None:
    table = Rows(chunked(X))._source
    for key in ((slice(None), 1), np.array([True] * 20), 1.0, None, [[1, 2]]):
        with pytest.raises((TypeError, ValueError)):
            table[key]
    for row in (20, -21, [3, 20]):
        with pytest.raises(IndexError, match=r"row -?\d+ of 20"):
            table[row]


def test_blocks_of_a_fixed_size_list_are_copies() -> None:
    """What is checked is what is coded, whatever becomes of the list meanwhile."""
    flat = np.arange(60, dtype=np.float32)
    rows = Rows(pa.FixedSizeListArray.from_arrays(pa.array(flat), 3))
    assert not any(np.shares_memory(block, flat) for block in rows.blocks(6))
    np.testing.assert_array_equal(np.concatenate([*rows.blocks(6)]).ravel(), flat)


def test_a_single_query_of_arrow() -> None:
    queries, single = as_queries(pa.array([1.0, 2.0, 3.0]), 3)
    assert single
    np.testing.assert_array_equal(queries, [[1, 2, 3]])
    with raises(il.InputError, "x", "2-D"):
        Rows(pa.array([1.0, 2.0]))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([[1.0, 2.0], [3.0, 4.0], None], r"row 2 of 'v' is missing \(null\)"),
        ([[1.0, 2.0], [3.0, 4.0], [5.0, None]], r"row 2 of 'v' holds a missing value \(null\)"),
        ([[1.0, 2.0], [3.0, 4.0], [5.0]], r"row 2 of 'v' has 1 values, row 0 has 2"),
        ([[1.0, 2.0], [3.0, 4.0], []], r"row 2 of 'v' has 0 values, row 0 has 2"),
        ([1.0, 2.0, None], r"row 2 of 'v' is missing \(null\)"),
    ],
)
def test_missing_and_ragged_values_are_named_by_row(column: list[Any], message: str) -> None:
    table = pa.table({"v": column})
    for x in (table, Stream(table), pa.concat_tables([table[:1], table[1:]])):
        with pytest.raises(il.InputError, match=f"^x: {message}"):
            list(Rows(x).blocks(1))
        with pytest.raises(il.InputError, match=f"^x: {message}"):
            Rows(x).take(np.arange(3))
    # As the second block of an iterator its rows come after those of the first.
    message = message.replace("row 2", "row 5").replace("row 0", "row 3")
    with pytest.raises(il.InputError, match=rf"^block 1 of x \(from row 3\): {message}"):
        Rows(iter([pa.table({"v": pa.array([column[0]] * 3)}), table]))


@pytest.mark.parametrize("kind", ["list", "fixed"])
def test_a_missing_row_of_lists_without_a_table(kind: str) -> None:
    array = pa.array([[1, 2], None], pa.list_(pa.int8(), 2 if kind == "fixed" else -1))
    with raises(il.InputError, "x", "row 1", "(null)"):
        list(Rows(array).blocks())


def test_a_choice_of_columns_is_left_to_the_user() -> None:
    table = pa.table({"n": np.arange(20), "a": X[:, 0], "b": X[:, 1]})
    with raises(il.InputError, "x", "('n')"):
        Rows(table)
    np.testing.assert_array_equal(next(Rows(table.select(["a", "b"])).blocks()), X[:, :2])
    with raises(il.InputError, "x", "'v'", "fixed_size_list"):
        Rows(pa.table({"v": chunked(X), "w": chunked(X)}))
    with raises(il.InputError, "x", "'name'", "(string)"):
        Rows(pa.table({"name": ["a"]}))
    with raises(il.InputError, "x", "columns"):
        Rows(pa.table({}))


def test_tables_without_rows() -> None:
    for kind in ("list", "fixed"):
        assert len(Rows(list_array(X, kind)[:0])) == 0
        assert list(Rows(list_array(X, kind)[:0]).blocks()) == []
    assert Rows(list_array(X, "fixed")[:0]).dim == 3
    with raises(il.InputError, "x", "rows"):
        il.Index.build(list_array(X, "list")[:0])


def test_a_stream_without_pyarrow_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Stream(pa.table({"v": chunked(X)}))

    class Frame(Stream):
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return X

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with raises(il.InputError, "x", "(Stream)", "pyarrow", "'interlace[io]'"):
        Rows(stream)
    np.testing.assert_array_equal(next(Rows(Frame(None)).blocks()), X)


def test_a_stream_that_breaks_is_named() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise ValueError("no connection")

    with raises(il.InputError, "x", "(Broken)"):
        Rows(Broken())


def test_arrays_do_not_bring_pyarrow() -> None:
    code = """
import json, sys
import numpy as np
import interlace as il
il.Index.build(iter([np.ones((5, 2)), np.zeros((5, 2))]), n_bytes=2, n_words=8, threads=1)
print(json.dumps("pyarrow" in sys.modules))
"""
    assert run_python(code) is False


def frames() -> list[Any]:
    made = [FakeFrame]
    try:
        import pandas
    except ImportError:
        return made
    return [*made, pandas.DataFrame]


@pytest.mark.parametrize("frame", frames())
def test_frames_of_numbers(frame: Any) -> None:
    mixed = {"a": X[:, 0].astype(np.float64), "b": X[:, 1].astype(np.float16), 2: X[:, 2]}
    for columns in (mixed, {f"i{i}": X[:, i].astype(f"i{2**i}") for i in range(3)}):
        rows = Rows(frame(columns))
        assert rows.dim == 3
        np.testing.assert_array_equal(np.concatenate(list(rows.blocks(6))), X)
        np.testing.assert_array_equal(rows.take(np.array([0, 7, 19])), X[[0, 7, 19]])
        np.testing.assert_array_equal(as_rows(frame(columns), name="x"), X)
        np.testing.assert_array_equal(next(Rows(iter([frame(columns)])).blocks()), X)


@pytest.mark.parametrize("frame", frames())
def test_columns_of_a_frame_that_are_no_numbers_are_named(frame: Any) -> None:
    names = np.array(["a"] * 20, object)
    for call in (Rows, lambda x: as_rows(x, name="x")):
        with pytest.raises(il.InputError, match=r"^x: column 'n' has dtype (object|str); .*astype"):
            call(frame({"a": X[:, 0], "n": names}))
        with raises(il.InputError, "x", "'n'"):
            call(frame({"a": X[:, 0], "n": X[:, 0] > 3}))
        with raises(il.InputError, "x", "('label')"):
            call(frame({"a": X[:, 0], "label": np.arange(20)}))


def test_a_pandas_column_of_lists_names_stack() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"embedding": X.tolist()})
    for x in (frame["embedding"], frame[["embedding"]]):
        for call in (Rows, lambda x: as_rows(x, name="x")):
            with pytest.raises(il.InputError, match=r"np\.stack\(df\['embedding'\]\)"):
                call(x)
    np.testing.assert_array_equal(as_rows(np.stack(frame["embedding"]), name="x"), X)


def test_a_frame_is_converted_in_blocks() -> None:
    class Float32Dtype:  # pandas' own, which may hold missing values
        def __str__(self) -> str:
            return "Float32"

    with raises(il.InputError, "x", "'a'", "Float32"):
        Rows(FakeFrame({"a": X[:, 0]}, {"a": Float32Dtype()}))
    frame = FakeFrame({"a": X[:, 0], "b": X[:, 1].astype(np.float64)})
    list(Rows(frame).blocks(6))
    assert frame.largest == 6
