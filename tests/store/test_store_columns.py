"""Columns of a store: what goes in comes out, whatever happens in between, and what does not fit is refused."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_helpers import BOOKS, LARGE, RICH, SMALL, filled, vectors

import interlace as il
from helpers import run_python
from interlace.store import Limits
from interlace.store.columns import Columns, taken
from raising import Facts, raises

pa = pytest.importorskip("pyarrow", reason="the io extra is not installed")

TYPES: dict[str, tuple[Any, Any]] = {
    "boolean": (pa.bool_(), st.booleans()),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "float32": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "string": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=6)),
    "large": (pa.large_string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=6)),
    "binary": (pa.binary(), st.binary(max_size=6)),
    "time": (pa.timestamp("us"), st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))),
    "date": (pa.date32(), st.dates()),
    "decimal": (pa.decimal128(9, 2), st.decimals(-9999, 9999, places=2)),
    "list": (pa.list_(pa.int16()), st.lists(st.integers(-9, 9), max_size=3)),
    "struct": (
        pa.struct([("a", pa.int8()), ("b", pa.string())]),
        st.fixed_dictionaries({"a": st.just(1), "b": st.text("xy")}),
    ),
}


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_type_survives_log_segment_and_compaction(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("store") / "s"
    names = data.draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=5, unique=True))
    row = st.fixed_dictionaries({name: st.none() | TYPES[name][1] for name in names})
    expected: dict[int, dict[str, Any]] = {}
    store = il.create(folder, BOOKS, columns=pa.schema([(name, TYPES[name][0]) for name in names]), limits=SMALL)
    for step in range(4):
        rows = data.draw(st.lists(row, min_size=1, max_size=8))
        ids = data.draw(st.lists(st.integers(0, 12), min_size=len(rows), max_size=len(rows), unique=True))
        store.upsert(vectors(len(rows), step), ids, payload=rows, threads=1)
        for i, values in zip(ids, rows, strict=True):
            expected.pop(i, None)
            expected[i] = values
        assert store.payload().to_pylist() == list(expected.values())
    gone = data.draw(st.lists(st.sampled_from(sorted(expected)), unique=True, max_size=3))
    store.remove(gone)
    expected = {i: v for i, v in expected.items() if i not in gone}
    for _ in range(2):
        assert store.payload().to_pylist() == list(expected.values())
        back = list(expected)[::-1]
        assert store.payload(back, names[:1]).to_pylist() == [{names[0]: expected[i][names[0]]} for i in back]
        store.verify()
        store.close()
        store = il.open(folder, mode="a", limits=SMALL)
        store.compact()
    store.close()


def test_all_ways_to_pass_columns(tmp_path: Path) -> None:
    store = il.create(tmp_path / "s", BOOKS, columns={"price": "float32", "tag": "string"}, limits=LARGE)
    rows = [{"price": 1.5, "tag": "a"}, {"price": None, "tag": "b"}, {"price": 3.0, "tag": None}]
    arrow = pa.table({"tag": ["a", "b", None], "price": [1.5, None, 3.0]})
    given_as = [
        rows,
        tuple(rows),
        arrow,
        arrow.to_batches()[0],
        pa.concat_tables([arrow.slice(0, 1), arrow.slice(1)]),
        {"price": [1.5, None, 3.0], "tag": ["a", "b", None]},
        {"price": pa.array([1.5, None, 3.0]), "tag": np.array(["a", "b", None], object)},
        {"price": pa.array([1.5, None, 3.0], pa.float64()), "tag": pa.array(["a", "b", None]).dictionary_encode()},
        _Stream(arrow),
    ]
    for payload in given_as:
        ids = store.add(vectors(3), payload=payload)
        assert store.payload(ids).to_pylist() == rows
    ids = store.add(vectors(2), payload={"price": np.array([1, 2], np.int16)})
    assert store.payload(ids).to_pylist() == [{"price": 1.0, "tag": None}, {"price": 2.0, "tag": None}]
    ids = store.add(vectors(2), payload={"tag": np.array(["x", "yy"])})
    assert store.payload(ids).to_pylist() == [{"price": None, "tag": "x"}, {"price": None, "tag": "yy"}]
    assert store.payload(store.add(vectors(1))).to_pylist() == [{"price": None, "tag": None}]
    assert store.add(vectors(0), payload=[]).tolist() == []
    assert store.payload([]).num_rows == 0
    store.upsert(vectors(1)[0], 7, payload={"price": 9, "tag": "one"})
    assert store.payload(7).to_pylist() == [{"price": 9.0, "tag": "one"}]
    store.upsert(vectors(1)[0], 7)
    assert store.payload([7]).to_pylist() == [{"price": None, "tag": None}]


class _Stream:
    """What polars and others speak."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def test_a_stream_of_blocks_with_columns(tmp_path: Path) -> None:
    store = il.create(tmp_path / "s", BOOKS, columns={"n": "int64"})
    assert store.add(iter([vectors(2), vectors(0), vectors(3)]), payload={"n": range(5)}).tolist() == [0, 1, 2, 3, 4]
    assert store.payload()["n"].to_pylist() == [0, 1, 2, 3, 4]
    store.add(iter([vectors(2), vectors(1)]))
    assert store.payload()["n"].to_pylist() == [0, 1, 2, 3, 4, None, None, None]
    with raises(il.PartlyAddedError, "block 1", "row 2", 3) as e:
        store.add(iter([vectors(2), vectors(2)]), payload={"n": range(3)})
    assert e.value.added == 2
    with raises(il.PartlyAddedError, "payload", 5, 2):
        store.add(iter([vectors(2)]), payload={"n": range(5)})
    assert len(store) == 12


REFUSED: dict[str, tuple[Any, str]] = {
    "length": ({"n": [1], "tag": ["a", "b"]}, "column 'n' must have one value per row: 2, got 1"),
    "table": (pa.table({"n": [1, 2, 3]}), "one entry per row: 2, got 3"),
    "rows": ([{"n": 1}], "one entry per row: 2, got 1"),
    "unknown": (
        {"n": [1, 2], "prize": [1, 2]},
        r"a column 'prize' .* it has 'n' \(int32\), 'tag' \(string\)",
    ),
    "unknown in a row": ([{"n": 1}, {"x": 1}], "a column 'x'"),
    "text for numbers": ({"n": ["1", "2"]}, "payload column 'n' must be int32, got "),
    "array of text": ({"n": np.array(["1", "2"])}, "payload column 'n' must be int32, got string"),
    "numbers for text": ({"tag": np.array([1, 2])}, "payload column 'tag' must be string, got int64"),
    "fractions": ({"n": np.array([1.5, 2])}, "payload column 'n' must be int32, got double"),
    "overflow": ({"n": [2**40, 1]}, "payload column 'n' must be int32"),
    "large array": ({"n": np.array([2**40, 1])}, "payload column 'n' must be int32, got int64"),
    "truth": ({"n": np.array([True, False])}, "payload column 'n' must be int32, got bool"),
    "a value": ({"n": 3}, "payload column 'n' must be int32, got int 3: one value per row"),
    "a word": ({"tag": "ab"}, "payload column 'tag' must be string, got str 'ab': one value per row"),
    "surrogate": ({"tag": ["\ud800", "b"]}, "payload column 'tag' must be string"),
    "number": (7, "payload must be a table, a dict of arrays, a list of dicts or a data frame, got int 7"),
    "list": ([1, 2], "payload must be a table"),
    "twice": (pa.table([[1, 2], [1, 2]], names=["n", "n"]), "the column 'n' more than once"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    store = il.create(tmp_path / "s", BOOKS, columns=RICH["columns"])
    store.add(vectors(2), payload={"n": [5, 6]})
    payload, match = REFUSED[name]
    before = {path.name: path.read_bytes() for path in (tmp_path / "s").iterdir()}
    for act in (
        lambda: store.add(vectors(2), payload=payload),
        lambda: store.upsert(vectors(2), [0, 1], payload=payload),
    ):
        with pytest.raises(il.InputError, match=match):
            act()
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "s").iterdir()}
    assert store.payload()["n"].to_pylist() == [5, 6]


def test_columns_that_must_have_a_value(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), ("tag", pa.string())], metadata={"x": "y"})
    store = il.create(tmp_path / "s", BOOKS, columns=schema)
    assert store.columns == schema.remove_metadata()
    store.add(vectors(1), payload={"n": [1]})
    with raises(il.InputError, "payload", "'n'"):
        store.add(vectors(1), payload={"tag": ["a"]})
    with raises(il.InputError, "payload", "'n'", "row 1"):
        store.add(vectors(2), payload={"n": [1, None]})
    with pytest.raises(il.InputError, match="'n' is missing"):
        store.add(vectors(1))
    assert len(store) == 1


@pytest.mark.parametrize(
    ("columns", "facts"),
    [
        ({"a": "float33"}, ("column", "'a'", "'float33'")),
        ({"a": 3}, ("column", "'a'", 3)),
        ({}, ("columns", "empty")),
        ({"": "int8"}, ("names", "''")),
        ({3: "int8"}, ("names", 3)),
        (["a"], ("columns", "pyarrow.Schema")),
        (pa.schema([("a", pa.int8()), ("a", pa.int8())]), ("'a'",)),
        ({"a": pa.null()}, ("of type null",)),
        ({"a": pa.dictionary(pa.int8(), pa.string())}, ("which a store does not support",)),
        ({"a": pa.list_(pa.dictionary(pa.int8(), pa.string()))}, ("which a store does not support",)),
    ],
)
def test_columns_that_cannot_be(tmp_path: Path, columns: Any, facts: Facts) -> None:
    with raises(il.InputError, *facts):
        il.create(tmp_path / "s", BOOKS, columns=columns)
    assert not (tmp_path / "s").exists()


def test_stores_without_columns(tmp_path: Path) -> None:
    store = il.create(tmp_path / "s", BOOKS)
    assert store.columns is None
    with pytest.raises(il.InputError, match="payload needs.*columns"):
        store.add(vectors(1), payload={"n": [1]})
    with pytest.raises(il.InputError, match="payload needs.*columns"):
        store.payload()
    with pytest.raises(il.InputError, match="price < 3.*columns="):
        store.search(np.zeros(4), filter="price < 3")
    with pytest.raises(il.InputError, match="payload needs columns"):
        il.create(tmp_path / "t", BOOKS, payload=[])


def test_rows_of_an_index_get_columns(tmp_path: Path) -> None:
    index = il.Index(BOOKS)
    index.add(vectors(5), [10, 11, 12, 13, 14])
    store = il.create(tmp_path / "s", index, columns={"n": "int8"}, payload={"n": range(5)})
    assert store.payload([14, 10])["n"].to_pylist() == [4, 0]
    store.verify()
    assert il.create(tmp_path / "t", index, columns={"n": "int8"}).payload()["n"].to_pylist() == [None] * 5
    with raises(il.InputError, 5, 2):
        il.create(tmp_path / "u", index, columns={"n": "int8"}, payload={"n": [1, 2]})
    assert not (tmp_path / "u").exists()


def test_an_index_file_has_no_columns(tmp_path: Path) -> None:
    store, model = filled(tmp_path / "s", rich=True)
    with pytest.raises(il.InputError, match="columns.*payload=False"):
        store.to_file(tmp_path / "f")
    assert not (tmp_path / "f").exists()
    store.to_file(tmp_path / "f", payload=False)
    assert il.open(tmp_path / "f").ids.tolist() == list(model.rows)


def test_payload_of_hits(tmp_path: Path) -> None:
    """What stands for no hit has no row."""
    for kind in ("int64", "string"):
        store, model = filled(tmp_path / kind, kind=kind, rich=True)
        matches = store.search(np.zeros(4), 100, margin="exact")
        table = store.payload(matches.ids)
        assert table.num_rows == matches.counts == len(model.rows)
        order = {i: v for i, v in zip(model.rows, model.payload, strict=True)}
        assert table.to_pylist() == [order[i] for i in matches.ids[: matches.counts]]
        with pytest.raises(il.UnknownIdError):
            store.payload([10**9 if kind == "int64" else "no"])
        with raises(il.InputError, "'x'", "'n'"):
            store.payload(columns=["n", "x"])


@given(st.lists(st.integers(0, 7), min_size=1, max_size=4), st.data())
def test_rows_are_taken_from_many_tables(sizes: list[int], data: st.DataObject) -> None:
    first, tables, everything = 0, [], []
    for n in sizes:
        tables.append(
            pa.table(
                {"n": pa.array(range(first, first + n), pa.int64()), "t": [f"{i}" for i in range(first, first + n)]}
            )
        )
        tables[-1] = tables[-1].cast(pa.schema([("n", pa.int64()), ("t", pa.string())]))
        first += n
    everything = list(range(first))
    rows = data.draw(st.lists(st.sampled_from(everything), max_size=12)) if first else []
    found = taken(tables, np.array(rows, np.int64))
    assert found["n"].to_pylist() == rows
    assert found["t"].to_pylist() == [str(i) for i in rows]


def test_a_schema_comes_back() -> None:
    schema = pa.schema([pa.field("a", pa.int8(), nullable=False), ("é", pa.list_(pa.decimal128(5, 2)))])
    made = Columns.of(schema)
    assert Columns(made.text).schema == schema
    assert str(made).startswith("'a' (int8), 'é' (list<")
    for text in ("", "AAAA", "no base64!", made.text[:-8]):
        with raises(il.DamagedFileError, "columns", "manifest"):
            _ = Columns(text).schema


@given(st.binary(max_size=60))
def test_any_bytes_are_no_columns(data: bytes) -> None:
    columns = Columns.of({"n": "int32", "tag": "string"})
    with pytest.raises(il.DamagedFileError, match="columns"):
        columns.of_pieces([data], 1)
    sound = columns.to_pieces(columns.table({"n": [1, 2], "tag": ["a", "bc"]}, 2))
    with raises(il.DamagedFileError, 2, 3):
        columns.of_pieces(sound, 3)


def test_a_flipped_bit_in_a_piece_is_damage_or_another_value() -> None:
    """Never a crash: offsets that lead nowhere are found before they are used."""
    columns = Columns.of({"n": "int32", "tag": "string", "more": pa.list_(pa.string())})
    table = columns.table({"n": [1, None], "tag": ["a", "bc"], "more": [["x"], ["y", "z"]]}, 2)
    (piece,) = columns.to_pieces(table)
    named = 0
    for at in range(len(piece)):
        for bit in (0, 4, 7):
            try:
                found, unsound = columns.of_pieces([piece[:at] + bytes([piece[at] ^ 1 << bit]) + piece[at + 1 :]], 2)
                found.drop_columns(list(unsound)).to_pylist()
                named += bool(unsound)
            except il.DamagedFileError:
                named += 1
            except UnicodeDecodeError:
                raise AssertionError(f"text that is no text, at byte {at}") from None
    assert named > len(piece) // 4


PYARROW = """
import json, sys
import numpy as np
import interlace as il
folder, plain = sys.argv[1:]
store = il.create(plain, il.open(folder).codebooks, originals="float16")
store.add(np.zeros((3, 4)))
store.search(np.zeros(4), 2, rerank=3)
store.search(np.zeros(4), 2, filter=[1])
store.compact()
store.close()
store = il.open(folder)
found = [len(store), store.search(np.zeros(4), 2).counts, "pyarrow" in sys.modules]
store.payload()
print(json.dumps([*found, "pyarrow" in sys.modules]))
"""


def test_pyarrow_is_imported_for_columns_only(tmp_path: Path) -> None:
    store, model = filled(tmp_path / "s", rich=True)
    store.close()
    found = run_python(PYARROW, str(tmp_path / "s"), str(tmp_path / "plain"))
    assert found == [len(model.rows), 2, False, True]


def test_columns_count_for_the_length_of_the_log(tmp_path: Path) -> None:
    store = il.create(tmp_path / "s", BOOKS, columns={"text": "string"}, limits=Limits(bytes=10_000))
    store.add(vectors(1), payload={"text": ["x" * 20_000]})
    assert (len(store.snapshot.rows.parts), store.snapshot.rows.tail.n) == (1, 0)
    for i in range(6):
        store.upsert(vectors(1)[0], 100 + i, payload={"text": "y" * 2000})
    assert store.snapshot.rows.tail.n < 6


def test_columns_of_the_log_are_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is searched between the writes; older states keep their rows."""
    store = il.create(tmp_path / "s", BOOKS, columns={"n": "int64"})
    decoded: list[int] = []
    real = Columns.of_pieces

    def of_pieces(self: Columns, pieces: Any, n: int) -> Any:
        decoded.append(n)
        return real(self, pieces, n)

    monkeypatch.setattr(Columns, "of_pieces", of_pieces)
    snapshots = []
    for i in range(80):
        store.upsert(vectors(1)[0], i, payload={"n": i})
        snapshots.append(store.snapshot)
        if i % 3 == 0:
            assert store.payload()["n"].to_pylist() == list(range(i + 1))
    for i, snapshot in enumerate(snapshots):
        assert snapshot.payload()["n"].to_pylist() == list(range(i + 1))
    assert sum(decoded) == 2 * 80  # once when rows are added, to validate them, and once when they are read
    assert store.snapshot.rows.tail_table.column(0).num_chunks <= 32


def test_decimals_and_dates_are_taken_as_they_are(tmp_path: Path) -> None:
    store = il.create(tmp_path / "s", BOOKS, columns={"d": pa.decimal128(5, 2), "t": "timestamp[ms]"})
    when = np.array(["2024-05-01T12:00", "2024-05-02"], "datetime64[s]")
    store.add(vectors(2), payload={"d": [decimal.Decimal("1.25"), None], "t": when})
    written = [{"d": "1.25", "t": "2024-05-01T12:00:00"}, {"d": None, "t": "2024-05-02"}]  # as JSON has them
    for payload in (written, pa.Table.from_pylist(written), {name: [row[name] for row in written] for name in "dt"}):
        store.add(vectors(2), payload=payload)
    assert store.payload().to_pylist() == 4 * store.payload([0, 1]).to_pylist()
    for bad in ({"d": ["1.257", None]}, {"d": ["x", None]}, {"t": ["soon", None]}, {"t": ["2024-05-01", 7]}):
        with pytest.raises(il.InputError, match=f"payload column '{min(bad)}' must be"):
            store.add(vectors(2), payload=bad)
    assert store.payload().to_pylist()[0] == {"d": decimal.Decimal("1.25"), "t": datetime.datetime(2024, 5, 1, 12)}


BAD = pa.array([b"ab", b"c", b"\xe9", b"d"]).view(pa.string())  # é as Latin-1 has it
OFFSETS = pa.array([0, 1, 2, 3, 4], pa.int32())
UNSOUND: dict[str, Any] = {
    "string": BAD,
    "large": pa.array([b"ab", b"c", b"\xe9", b"d"], pa.large_binary()).view(pa.large_string()),
    "list": pa.ListArray.from_arrays(OFFSETS, BAD),
    "fixed": pa.FixedSizeListArray.from_arrays(BAD, 1),
    "map": pa.MapArray.from_arrays(OFFSETS, pa.array(list("wxyz")), BAD),
    "struct": pa.StructArray.from_arrays([pa.array([1, 2, 3, 4]), BAD], ["n", "text"]),
    "nested": pa.ListArray.from_arrays(OFFSETS, pa.StructArray.from_arrays([BAD], ["text"])),
}


@pytest.mark.parametrize("kind", UNSOUND)
def test_text_that_is_not_utf8_is_refused_before_anything_is_written(tmp_path: Path, kind: str) -> None:
    array = UNSOUND[kind]
    store = il.create(tmp_path / "s", BOOKS, columns={"c": array.type})
    before = (tmp_path / "s" / store.session.state.manifest.log).stat().st_size
    for payload, row in (
        ({"c": array}, 2),
        ({"c": array.slice(1)}, 1),
        ({"c": pa.chunked_array([array.slice(0, 1), array.slice(1)])}, 2),
        (pa.table({"c": array}), 2),
        (pa.record_batch({"c": array}), 2),
    ):
        n = len(payload["c"]) if isinstance(payload, dict) else payload.num_rows
        with pytest.raises(il.InputError, match=rf"'c' .*UTF-8 in row {row}\b"):
            store.add(vectors(n), payload=payload)
    with pytest.raises(il.InputError, match=r"'c' .*UTF-8 in row 2\b"):  # all of it is checked before the first block
        store.add([vectors(2), vectors(2)], payload={"c": array})
    assert len(store) == 0
    assert (tmp_path / "s" / store.session.state.manifest.log).stat().st_size == before
    store.add(vectors(2), payload={"c": array.slice(0, 2)})  # the bad bytes are in the buffer, but in no row
    store.add(vectors(1), payload={"c": array.slice(3)})
    store.compact()
    store.verify()
    assert store.payload()["c"].to_pylist() == array.take([0, 1, 3]).to_pylist()
    with pytest.raises(il.InputError, match=r"'c' .*UTF-8 in row 2\b"):
        il.create(
            tmp_path / "t",
            il.Index.from_codes(BOOKS, np.zeros((4, 2), np.uint8)),
            columns={"c": array.type},
            payload={"c": array},
        )


def test_dictionaries_are_checked_before_they_are_decoded(tmp_path: Path) -> None:
    store = il.create(tmp_path / "s", BOOKS, columns={"c": "string"})
    named = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 2]), BAD)
    with pytest.raises(il.InputError, match=r"'c' .*UTF-8 in row 2\b"):
        store.add(vectors(4), payload={"c": named})
    with raises(il.InputError, "'c'", 9):
        store.add(
            vectors(2), payload={"c": pa.DictionaryArray.from_arrays(pa.array([0, 9]), pa.array(["a"]), safe=False)}
        )
    store.add(vectors(2), payload={"c": named.slice(0, 2)})
    store.add(
        vectors(2), payload={"c": pa.DictionaryArray.from_arrays(pa.array([3, None]), BAD)}
    )  # its entry 2 is unused
    store.verify()
    assert store.payload()["c"].to_pylist() == ["ab", "c", "d", None]


WILD = """
import sys
import numpy as np, pyarrow as pa
import interlace as il
store = il.open(sys.argv[1], mode="a")
for offsets in ([0, 1 << 30, 2], [0, -5, 2]):
    buffers = [None, pa.py_buffer(np.array(offsets, np.int32)), pa.py_buffer(b"ab")]
    array = pa.Array.from_buffers(pa.string(), 2, buffers)
    for payload in ({"tag": array}, {"tag": pa.chunked_array([array])}, pa.table({"tag": array})):
        try:
            store.add(np.zeros((2, 4)), payload=payload)
        except il.InputError as error:
            assert "'tag'" in str(error), error
        else:
            raise AssertionError(offsets)
print("1")
"""


def test_arrow_arrays_with_wild_offsets_are_refused(tmp_path: Path) -> None:
    """Not even shown in a message: their text cannot be read."""
    il.create(tmp_path / "s", BOOKS, columns={"tag": "string"}).close()
    assert run_python(WILD, str(tmp_path / "s")) == 1


def with_bad_text(path: Path, monkeypatch: pytest.MonkeyPatch, *, in_log: bool) -> il.Store:
    """A store with a row (id 2) whose text is not UTF-8, as version 0.1.0 wrote it."""
    store = il.create(path, BOOKS, columns={"n": "int64", "tag": "string"}, limits=LARGE)
    table = pa.table({"n": [0, 1, 2, 3], "tag": BAD})
    with monkeypatch.context() as patched:
        patched.setattr("interlace.inputs.arrow_validation.has_valid_text", lambda array: True)
        store.add(vectors(4), payload=table)
        if not in_log:
            store.compact()
    store.close()
    return il.open(path, mode="a")


@pytest.mark.parametrize("how", ["remove", "upsert"])
@pytest.mark.parametrize("in_log", [True, False])
def test_a_store_with_text_that_is_not_utf8_can_be_mended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_log: bool, how: str
) -> None:
    store = with_bad_text(tmp_path / "s", monkeypatch, in_log=in_log)
    for use in (
        lambda: store.payload(),
        lambda: store.payload([1, 2]),
        lambda: store.search(np.zeros(4), 2, filter="tag == 'c'"),
        lambda: store.verify(),
        lambda: store.compact() if in_log else store.verify(),
    ):
        with raises(il.DamagedFileError, "'tag'", "id 2", "UTF-8", "compact()"):
            use()
    assert store.payload([0, 1, 3]).to_pylist()[1] == {"n": 1, "tag": "c"}
    assert store.payload(columns=["n"])["n"].to_pylist() == [0, 1, 2, 3]
    assert store.search(np.zeros(4), 4, filter="n > 1").counts == 2
    if how == "remove":
        store.remove([2])
        expected = ["ab", "c", "d"]
    else:
        store.upsert(vectors(1), [2], payload={"n": [2], "tag": ["é"]})
        expected = ["ab", "c", "d", "é"]
    assert store.payload()["tag"].to_pylist() == expected
    store.compact()
    store.verify()
    assert store.search(np.zeros(4), 4, filter="tag != 'c'").counts == len(expected) - 1
    store.close()
    assert il.open(tmp_path / "s").payload()["tag"].to_pylist() == expected
