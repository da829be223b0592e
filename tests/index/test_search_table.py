"""Search results as an Arrow table."""

from __future__ import annotations

import numpy as np
import pytest

import interlace as il
from helpers import build, clustered
from raising import raises

pa = pytest.importorskip("pyarrow", reason="the io extra is not installed")
Q = clustered(4, 6, seed=9)


@pytest.mark.parametrize("ids", ["default", "int64", "string"])
def test_a_row_for_each_hit(ids):
    index = build(60, 6, ids=ids)
    table, found = il.search_table(index, Q, k=3), index.search(Q, k=3)
    assert table.column_names == ["query", "rank", "id", "distance"]
    assert table["query"].to_pylist() == np.repeat(np.arange(4), 3).tolist()
    assert table["rank"].to_pylist() == [1, 2, 3] * 4
    assert table["id"].to_pylist() == found.ids.ravel().tolist()
    assert table["distance"].to_pylist() == found.distances.ravel().tolist()
    assert il.search_table(index, Q[0], k=3)["id"].to_pylist() == found.ids[0].tolist()
    assert il.search_table(index, Q, k=99).num_rows == 4 * 60  # no padding


def test_payload_columns_and_duckdb(tmp_path):
    payload = {"price": np.arange(60, dtype=np.float32), "tag": ["a", "b"] * 30}
    with build(60, 6).to_store(tmp_path / "s", columns={"price": "float32", "tag": "string"}, payload=payload) as store:
        hits = il.search_table(store, Q, k=5, columns=["tag"], filter="price < 30")
        assert hits.column_names == ["query", "rank", "id", "distance", "tag"]
        assert max(hits["id"].to_pylist()) < 30
        assert hits["tag"].to_pylist() == [payload["tag"][i] for i in hits["id"].to_pylist()]
        everything = il.search_table(store, Q, k=5, columns=True)
        assert everything.column_names[4:] == ["price", "tag"]
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    counted = duckdb.sql("select tag, count(*) as n from hits group by tag order by tag").fetchall()
    expected = hits["tag"].to_pylist()
    assert counted == [(tag, expected.count(tag)) for tag in sorted({*expected})]


def test_what_it_refuses(tmp_path):
    with raises(il.InputError, "Index", "str"):
        il.search_table("index", Q)
    with raises(il.InputError, "columns", "payload"):
        il.search_table(build(), Q, columns=["tag"])
    with (
        build(20, 6).to_store(tmp_path / "s", columns={"id": "int64"}, payload={"id": np.arange(20)}) as store,
        raises(il.InputError, "id"),
    ):
        il.search_table(store, Q, columns=True)
