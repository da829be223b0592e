"""Bytes of rows in columns, from their offsets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import interlace as il

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from interlace.store.payload_sizes import stored_bytes  # noqa: E402

COLUMNS = {
    "int16": (pa.int16(), [1, None, 3, 4], [2, 2, 2, 2]),
    "bool": (pa.bool_(), [True, None, False, True], [1, 1, 1, 1]),
    "string": (pa.string(), ["", "ab", None, "ü"], [4, 6, 4, 6]),
    "large": (pa.large_binary(), [b"", b"ab", None, b"abc"], [8, 10, 8, 11]),
    "list": (pa.list_(pa.int32()), [[], [1, 2], None, [3]], [8, 16, 8, 12]),
    "words": (pa.list_(pa.string()), [["a", "bc"], [], None, ["def"]], [8 + 8 + 3, 8, 8, 8 + 4 + 3]),
    "fixed": (pa.list_(pa.float32(), 2), [[1, 2], [3, 4], None, [5, 6]], [8, 8, 8, 8]),
    "struct": (pa.struct({"a": pa.int8(), "s": pa.string()}), [{"a": 1, "s": "xyz"}, None, {}, {"s": "x"}], None),
    "map": (pa.map_(pa.string(), pa.int8()), [[("k", 1)], [], None, [("kk", 2), ("", 3)]], None),
}
COLUMNS["struct"] = (*COLUMNS["struct"][:2], [1 + 1 + 4 + 3, 6, 6, 1 + 1 + 4 + 1])
COLUMNS["map"] = (*COLUMNS["map"][:2], [8 + 1 + 5 + 1, 8, 8, 8 + 1 + 6 + 1 + 5 + 1])


@pytest.mark.parametrize("name", COLUMNS)
def test_sizes_of_each_type(name: str) -> None:
    kind, values, expected = COLUMNS[name]
    table = pa.table({"c": pa.array(values, kind)})
    rows = np.array([3, 0, 1, 2, 3])
    assert stored_bytes([table], rows).tolist() == [expected[row] for row in rows]
    # a part of a larger array, after another table, and beside another column
    part = pa.table({"c": pa.array(values[:1] * 3 + values, kind)}).slice(3)
    assert stored_bytes([table.slice(0, 0), table, part], rows + 4).tolist() == [expected[row] for row in rows]
    both = part.append_column("d", pa.array([1, 2, 3, 4], pa.int64()))
    assert stored_bytes([both], rows).tolist() == [expected[row] + 8 for row in rows]


def test_sizes_of_rows_of_a_store_in_segments_and_log(tmp_path: Path) -> None:
    x = np.eye(4, dtype=np.float32)
    with il.create(tmp_path / "s", dim=4, columns={"t": "string", "n": "int32"}) as store:
        store.add(x, payload={"t": ["a" * i for i in range(4)], "n": [0] * 4})
        store.compact()
        store.add(x, payload={"t": ["b" * 10 * i for i in range(4)], "n": [0] * 4})
        rows = store.snapshot.rows
        assert rows.table_bytes(["t"], np.array([1, 6, 3])).tolist() == [4 + 1, 4 + 20, 4 + 3]
        assert rows.table_bytes(["t", "n"], np.array([7])).tolist() == [4 + 30 + 4]
