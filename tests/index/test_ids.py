"""Ids: what is accepted, that they come back from searches, files and growth, and that look-ups find exactly them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace as il
from helpers import ID_KINDS, UNICODE, FakeTensor, clustered, hand_made, ids_of, same_index, small_index
from interlace.index.id_values import as_id_array, parse_ids
from interlace.index.ids import Ids
from raising import Facts, raises

INT64 = st.integers(-(2**63), 2**63 - 1).filter(lambda value: value != -1)  # which stands for no hit
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ANY_IDS = st.lists(INT64, unique=True, max_size=30) | st.lists(TEXT, unique=True, max_size=30)


def indexed(ids: Any, n: int) -> il.Index:
    index = il.Index(hand_made())
    index.add(clustered(n, 4), ids, threads=1)
    return index


# --- what is accepted -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ids",
    [
        [3, 1, 2],
        (3, 1, 2),
        range(3, 0, -1),
        np.array([3, 1, 2], np.int8),
        np.array([3, 1, 2], np.uint64),
        np.array([3, 1, 2], ">i4"),
        np.array([3, 1, 2], object),
        [np.int16(3), 1, np.uint8(2)],
        np.array([3, 9, 1, 9, 2])[::2],
        FakeTensor(np.array([3, 1, 2])),
    ],
    ids=repr,
)
def test_integers_of_every_kind(ids: Any) -> None:
    parsed = parse_ids(ids, 3)
    assert parsed.dtype == np.int64
    assert sorted(parsed.tolist()) == [1, 2, 3]
    assert parsed.tolist() == [int(v) for v in (ids.values if isinstance(ids, FakeTensor) else ids)]


@pytest.mark.parametrize(
    "ids",
    [
        ["b", "a", ""],
        np.array(["b", "a", ""]),
        np.array([b"b", b"a", b""]),
        [b"b", "a", ""],
        np.array(["b", "a", ""], object),
        [np.str_("b"), "a", ""],
    ],
    ids=repr,
)
def test_strings_of_every_kind(ids: Any) -> None:
    parsed = parse_ids(ids, 3)
    assert parsed.dtype == object
    assert parsed.tolist() == ["b", "a", ""]


def test_numpy_string_dtype() -> None:
    dtypes = pytest.importorskip("numpy.dtypes")
    if not hasattr(dtypes, "StringDType"):
        pytest.skip("NumPy 1 has no StringDType")
    assert parse_ids(np.array(["b", "日本"], dtypes.StringDType()), 2).tolist() == ["b", "日本"]


def test_the_array_given_is_copied() -> None:
    ids = np.arange(9)
    index = indexed(ids, 9)
    ids[:] = 0
    assert index.ids.tolist() == list(range(9))
    index.ids[:] = 0
    assert index.ids.tolist() == list(range(9))


@pytest.mark.parametrize(
    ("ids", "facts"),
    [
        ([1, 2], ("ids", 3, 2)),
        ([1, 2, 3, 4], ("ids", 3, 4)),
        ([[1, 2, 3]], ("ids", "ids[0]")),
        (
            np.array([[1, 2, 3]]),
            ("ids", "1-D", "ndarray", "(1, 3)"),
        ),
        ("abc", ("ids", "1-D", "'abc'")),
        ({1, 2, 3}, ("ids", "1-D", "set")),
        (7, ("ids", "1-D", "int", 7)),
        ((i for i in range(3)), ("ids", "1-D", "generator")),
        (np.arange(3.0), ("ids", "float64")),
        (np.array([True, False, True]), ("ids", "bool")),
        (np.array([1, 2, 3], "M8[s]"), ("ids", "datetime64")),
        ([1, 2.0, 3], ("ids", "ids[1]", "2.0")),
        ([1, 2, "3"], ("ids", "ids[2]", "'3'")),
        (["a", 2, "c"], ("ids", "ids[1]", 2)),
        (["a", "b", None], ("ids", "ids[2]", "NoneType", "None")),
        ([1, None, 3], ("ids", "ids[1]", "NoneType", "None")),
        ([1, True, 3], ("ids", "ids[1]")),
        ([1, 2, 2**63], ("ids", "int64", "ids[2]", 9223372036854775808)),
        ([-(2**63) - 1, 2, 3], ("ids", "int64", "ids[0]", "-9223372036854775809")),
        (np.array([1, 2**63, 3], np.uint64), ("ids", "int64", "ids[1]", 9223372036854775808)),
        ([1, 10**40, 3], ("ids", "int64", "ids[1]", 10**40)),
        (["a", "\ud800", "c"], ("ids", "UTF-8", "ids[1]", "'\\ud800'")),
        ([b"a", b"\xff", b"c"], ("ids", "UTF-8", "ids[1]", "b'\\xff'")),
    ],
)
def test_what_is_refused(ids: Any, facts: Facts) -> None:
    with raises(il.InputError, *facts):
        il.Index.build(clustered(3, 4), ids=ids, n_bytes=2, threads=1)


@pytest.mark.parametrize(
    ("ids", "facts"),
    [
        ([5, 7, 5], ("ids", "ids[0]", "ids[2]", 5)),
        (["x", "y", "y"], ("ids", "ids[1]", "ids[2]", "'y'")),
        ([b"x", "x", "y"], ("ids", "ids[0]", "ids[1]", "'x'")),
    ],
)
def test_duplicates_are_named(ids: list[Any], facts: Facts) -> None:
    for call in (
        lambda: il.Index.build(clustered(3, 4), ids=ids, n_bytes=2, threads=1),
        lambda: indexed(ids, 3),
    ):
        with raises(il.DuplicateIdError, *facts):
            call()


def test_strings_that_only_look_alike_are_different() -> None:
    index = indexed(list(UNICODE), len(UNICODE))  # "a" and "a\0", composed and decomposed é, "" and " "
    assert index.ids.tolist() == list(UNICODE)
    assert len({index.ids_of_rows.rows_of([v])[0] for v in UNICODE}) == len(UNICODE)


# --- round trips ------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(ANY_IDS)
def test_every_id_is_found_at_its_row(ids: list[Any]) -> None:
    stored = Ids.of(parse_ids(ids, len(ids)))
    assert stored.all().tolist() == ids
    np.testing.assert_array_equal(stored.find(as_id_array(ids, "ids")), np.arange(len(ids)))
    assert all(stored.contains(v) for v in ids)


@settings(max_examples=60, deadline=None)
@given(ANY_IDS, INT64 | TEXT)
def test_membership_is_that_of_a_list(ids: list[Any], other: int | str) -> None:
    stored = Ids.of(parse_ids(ids, len(ids)))
    assert stored.contains(other) == (other in ids)
    if other not in ids:
        with pytest.raises(il.UnknownIdError, match="is not in the index"):
            stored.rows_of([other])


@pytest.mark.parametrize("kind", ID_KINDS)
def test_ids_survive_saving_and_growing(kind: str, tmp_path: Path) -> None:
    index = small_index(ids=kind, n=12)
    index.save(tmp_path / "i")
    opened = il.open(tmp_path / "i")
    assert same_index(index, opened)
    for i in (index, opened):
        i.add(clustered(5, 4, seed=2), ids_of(kind, 5, first=12), threads=1)
    assert same_index(index, opened)
    opened.save(tmp_path / "i")  # over the file it is mapped from
    again = il.open(tmp_path / "i")
    again.verify()
    assert same_index(index, again)
    everything = list(range(17)) if kind == "default" else [*ids_of(kind, 12), *ids_of(kind, 5, first=12)]
    assert again.ids.tolist() == everything
    assert all(v in again for v in everything)


@pytest.mark.parametrize("kind", ID_KINDS)
def test_searches_return_the_ids_of_the_rows(kind: str) -> None:
    plain, named = small_index(n=12), small_index(ids=kind, n=12)
    q = clustered(3, 4, seed=4)
    rows, matches = plain.search(q, 15).ids, named.search(q, 15)
    nothing = None if kind == "string" else -1
    expected = [[nothing if r < 0 else named.ids[r] for r in row] for row in rows.tolist()]
    assert matches.ids.tolist() == expected
    assert (matches.ids[:, 12:] == np.array(nothing)).all()
    assert matches.ids.dtype == (object if kind == "string" else np.int64)
    assert named.search(q[0], 4).ids.tolist() == expected[0][:4]


# --- integers in little room ------------------------------------------------------------------------------------------


def integers(kind: str, n: int = 100_000) -> np.ndarray:
    rng = np.random.default_rng(4)
    return {
        "run": lambda: np.arange(n) + 1,
        "runs": lambda: np.delete(np.arange(n + 3), [5, n // 2, n]),
        "runs out of order": lambda: np.concatenate([np.arange(n // 2) + 10**12, np.arange(n - n // 2)]),
        "half of a range": lambda: np.sort(rng.choice(2 * n, n, replace=False)),
        "wide gaps": lambda: np.cumsum(rng.integers(1, 2**30, n)),
        "shuffled range": lambda: rng.permutation(n) + 17,
        "64 bits": lambda: rng.permutation(np.unique(rng.integers(-(2**62), 2**62, n + 9))[:n]),
    }[kind]()


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        ("run", 0.001),
        ("runs", 0.001),
        ("runs out of order", 0.001),
        ("half of a range", 1.1),
        ("wide gaps", 5),
        ("shuffled range", 6.5),
        ("64 bits", 12.2),
    ],
)
def test_integers_take_few_bytes(kind: str, most: float, tmp_path: Path) -> None:
    """Of each id, in memory and in a file; they took 20."""
    n, values = 100_000, integers(kind)
    ids = Ids.of(values)
    assert ids.kind == "int64"
    assert sum(array.nbytes for array in ids.sorted_section().values()) <= most * n
    rng = np.random.default_rng(6)
    rows = rng.integers(-1, n, (5, 200))
    np.testing.assert_array_equal(ids.take(rows), np.where(rows < 0, -1, values[rows]))
    np.testing.assert_array_equal(ids.find(values[rows[rows >= 0]]), rows[rows >= 0])
    others = np.setdiff1d(np.concatenate([values[:500] - 1, values[-500:] + 1, [-(2**63), 2**63 - 1]]), values)
    assert (ids.find(others) == -1).all()
    codes = rng.integers(0, 2, (n, hand_made().n_bytes)).astype(np.uint8)
    il.Index.from_codes(hand_made(), codes).save(tmp_path / "default")
    il.Index.from_codes(hand_made(), codes, values).save(tmp_path / "given")
    more = (tmp_path / "given").stat().st_size - (tmp_path / "default").stat().st_size
    assert more <= most * n + 1500  # the header and padding
    opened = il.open(tmp_path / "given")
    np.testing.assert_array_equal(opened.ids, values)
    assert opened.report().ids <= most * n
    assert values[77] in opened


EDGES = st.sampled_from([-(2**63), -(2**63) + 63, -(2**63) + 64, -2, 0, 1, 2**63 - 2, 2**63 - 1])


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_integers_come_back(data: st.DataObject) -> None:
    """Runs, gaps, disorder and the ends of int64, in any mixture."""
    parts: list[int] = []
    for _ in range(data.draw(st.integers(1, 4))):
        first, step = data.draw(INT64 | EDGES), data.draw(st.sampled_from([1, 1, 2, 1000, -1]))
        parts += [first + step * i for i in range(data.draw(st.integers(1, 150)))]
    values = np.array([v for v in dict.fromkeys(parts) if -(2**63) <= v < 2**63 and v != -1] or [5], np.int64)
    if data.draw(st.booleans()):
        values = np.random.default_rng(len(values)).permutation(values)
    ids = Ids.of(values)
    again = Ids.stored("int64", len(values), dict(ids.sorted_section()))
    asked = np.array([*values, data.draw(INT64), data.draw(EDGES)], np.int64)
    found = [values.tolist().index(v) if v in values else -1 for v in asked.tolist()]
    for one in (ids, again):
        assert one.all().tolist() == values.tolist()
        assert one.find(asked).tolist() == found
        assert one.take(np.array([[-1, 0]])).tolist() == [[-1, values[0]]]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_arrays_of_ids_that_lie(data: st.DataObject) -> None:
    """Right types and sizes, any numbers: an answer or DamagedFileError, never a crash or a row that is not there."""
    n = data.draw(st.sampled_from([1, 63, 64, 65, 200]))
    values = np.random.default_rng(n).permutation(n) * 5
    ids = Ids.of(values if data.draw(st.booleans()) else np.sort(values) // 5 * 5 + (np.arange(n) == n - 1))
    arrays = {name: np.array(array) for name, array in ids.sorted_section().items()}
    for _ in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from(sorted(arrays)))
        if len(arrays[name]):
            information = np.iinfo(arrays[name].dtype)
            numbers = st.sampled_from([information.min, information.max, 0, 1, 64, 65]) | st.integers(0, 300)
            arrays[name][data.draw(st.integers(0, len(arrays[name]) - 1))] = data.draw(numbers)
    if data.draw(st.booleans()) and "words" in arrays:
        arrays["words"] = arrays["words"][: data.draw(st.integers(0, len(arrays["words"])))]
    try:
        hostile = Ids.stored("int64", n, arrays)
        found = hostile.find(np.concatenate([values, [-(2**63), 2**63 - 1]]))
        assert ((found >= -1) & (found < n)).all()
        assert hostile.all().shape == (n,)
    except (il.DamagedFileError, ValueError):
        return


@pytest.mark.parametrize(
    "arrays",
    [
        {"run_starts": np.zeros(0, np.int64), "run_rows": np.zeros(0, np.uint32)},
        {"run_starts": np.zeros(2, np.int64), "run_rows": np.array([0], np.uint32)},
        {"run_starts": np.zeros(2, np.int64), "run_rows": np.array([0, 10], np.uint32)},
        {"run_starts": np.zeros(2, np.int64), "run_rows": np.array([1, 5], np.uint32)},
        {"run_starts": np.zeros(2, np.int64), "run_rows": np.array([0, 0], np.uint32)},
        {"run_starts": np.array([2**63 - 9]), "run_rows": np.array([0], np.uint32)},
        {"run_starts": np.zeros(1, np.int64), "run_rows": np.zeros(1, np.int64)},
        {"bases": np.zeros(1, np.int64), "starts": np.zeros(2, np.uint32)},
        {"bases": np.zeros(2, np.int64), "starts": np.zeros(3, np.uint32), "words": np.zeros(0, np.uint64)},
        {"bases": np.zeros(1, np.int64), "starts": np.zeros(2, np.uint32), "words": np.zeros((2, 2), np.uint64)},
        {"bases": np.zeros(1, np.int64), "starts": np.zeros(2, np.uint32), "words": np.zeros(0, np.uint64), "x": np.zeros(1)},  # noqa: E501
        {"values": np.zeros(10, np.int64), "order": np.zeros(10, np.uint32)},
    ],
)  # fmt: skip
def test_arrays_of_ids_that_do_not_fit(arrays: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="ids|runs"):
        Ids.stored("int64", 10, arrays)


def test_many_string_ids(tmp_path: Path) -> None:
    n = 20000
    ids = [f"document/{i * 2654435761 % 2**32:08x}" for i in range(n)]
    index = indexed(ids, n)
    index.save(tmp_path / "i")
    opened = il.open(tmp_path / "i")
    assert opened.ids.tolist() == ids
    rows = np.random.default_rng(0).permutation(n)[:500]
    np.testing.assert_array_equal(opened.ids_of_rows.rows_of([ids[r] for r in rows]), rows)
    assert "document/" not in opened
    with pytest.raises(il.DuplicateIdError, match=f"id '{ids[77]}' is in the index already"):
        opened.add(clustered(2, 4), ["new", ids[77]])


def test_strings_with_equal_hashes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def same_for_all(text: np.ndarray, offsets: np.ndarray, hashes: np.ndarray) -> None:
        hashes[:] = 7

    monkeypatch.setattr("interlace.index.ids._native.hash_strings", same_for_all)
    stored = Ids.of(parse_ids(["x", "y", "z"], 3))
    assert stored.find(as_id_array(["z", "w", "x", "y"], "ids")).tolist() == [2, -1, 0, 1]


def test_string_hashes_never_change() -> None:
    """They are part of the file format (docs/format.md): FNV-1a with a final mix, here in plain Python."""

    def hashed(text: str) -> int:
        h = 0xCBF29CE484222325
        for byte in text.encode():
            h = (h ^ byte) * 0x100000001B3 % 2**64
        h = (h ^ (h >> 32)) * 0x9E3779B97F4A7C15 % 2**64
        return h ^ (h >> 29)

    assert Ids.of(parse_ids(list(UNICODE), len(UNICODE))).keys().tolist() == [hashed(v) for v in UNICODE]


# --- growth -----------------------------------------------------------------------------------------------------------


def test_default_ids_go_on_and_may_become_explicit() -> None:
    index = small_index(n=5)
    index.add(clustered(3, 4))
    assert index.ids.tolist() == list(range(8))
    with raises(il.DuplicateIdError, "id 7"):
        index.add(clustered(2, 4), [100, 7])
    index.add(clustered(2, 4), [100, -7])
    assert index.ids.tolist() == [*range(8), 100, -7]
    assert 3 in index
    assert 8 not in index
    with raises(il.InputError, "int64", 1):
        index.add(clustered(1, 4))


@pytest.mark.parametrize(
    ("kind", "new", "came"), [("default", ["a"], "string"), ("int64", ["a"], "string"), ("string", [1], "int64")]
)
def test_kinds_do_not_mix(kind: str, new: list[Any], came: str) -> None:
    index = small_index(ids=kind)
    with pytest.raises(il.InputError, match=f"this index has {kind} ids, the new ones are {came}"):
        index.add(clustered(1, 4), new)
    assert len(index) == 9


@pytest.mark.parametrize("kind", ["int64", "string"])
def test_ids_already_there_are_refused(kind: str) -> None:
    index = small_index(ids=kind)
    taken = ids_of(kind, 9)[4]
    with pytest.raises(il.DuplicateIdError, match="is in the index already"):
        index.add(clustered(2, 4), [*ids_of(kind, 1, first=50), taken])
    assert same_index(index, small_index(ids=kind))


@pytest.mark.parametrize("kind", ID_KINDS)
def test_adding_no_rows_changes_nothing(kind: str) -> None:
    index = small_index(ids=kind)
    index.add(np.empty((0, 4)), None if kind == "default" else [])
    assert same_index(index, small_index(ids=kind))


# --- look-ups ---------------------------------------------------------------------------------------------------------


def test_membership() -> None:
    default, numbers, strings = (small_index(ids=kind) for kind in ID_KINDS)
    assert 0 in default
    assert np.uint8(8) in default
    assert 9 not in default
    assert -1 not in default
    assert -500 in numbers
    assert np.int64(-500) in numbers
    assert "" in strings
    assert "日本" in strings
    for index in (default, numbers, strings):
        for nothing in (2**63, -(2**80), "\ud800", 0.0, None, True, b"a", (0,), [0]):
            assert nothing not in index
    assert "0" not in default
    assert 0 not in strings


@pytest.mark.parametrize("kind", ID_KINDS)
def test_reconstruct_decodes_the_rows_asked_for(kind: str) -> None:
    index = small_index(ids=kind)
    everything = index.reconstruct(index.ids)
    assert everything.shape == (9, 4)
    assert everything.dtype == np.float32
    order = [4, 0, 8, 4]
    np.testing.assert_array_equal(index.reconstruct([index.ids[i] for i in order]), everything[order])
    one = index.ids.tolist()[3]
    assert index.reconstruct(one).shape == (4,)
    np.testing.assert_array_equal(index.reconstruct(one), everything[3])
    assert index.reconstruct([]).shape == (0, 4)


@pytest.mark.parametrize(
    ("kind", "ids", "error", "facts"),
    [
        ("default", 9, il.UnknownIdError, ("id 9", "(1 of 1 unknown)")),
        ("default", [0, -1, 44], il.UnknownIdError, ("-1", "(2 of 3 unknown)")),
        ("default", "0", il.UnknownIdError, ("'0'",)),
        ("int64", [-500, 3], il.UnknownIdError, ("id 3", "(1 of 2 unknown)")),
        ("string", "A", il.UnknownIdError, ("'A'",)),
        ("string", 3, il.UnknownIdError, ("id 3",)),
        ("default", 1.0, il.InputError, ("ids", "1-D", "float", "1.0")),
        ("default", None, il.InputError, ("ids", "1-D", "NoneType", "None")),
        ("default", True, il.InputError, ("ids[0]",)),
        ("default", [[1, 2], [3, 4]], il.InputError, ("ids[0]", "[1, 2]")),
        ("default", np.zeros((2, 2), int), il.InputError, ("ndarray", "(2, 2)")),
        ("default", 2**70, il.InputError, ("ids", "int64")),
    ],
)
def test_reconstruct_names_what_it_does_not_know(kind: str, ids: Any, error: type[Exception], facts: Facts) -> None:
    with raises(error, *facts):
        small_index(ids=kind).reconstruct(ids)


def test_an_unknown_id_is_a_key_error_that_reads_like_a_sentence() -> None:
    with pytest.raises(KeyError) as caught:
        small_index().reconstruct(77)
    assert str(caught.value) == "id 77 is not in the index (1 of 1 unknown)"


def test_the_padding_of_answers_is_refused_as_an_id():
    x = np.eye(4, dtype=np.float32)
    with pytest.raises(il.InputError, match=r"ids\[1\] is -1"):
        il.Index.build(x, n_bytes=2, ids=[5, -1, 7, 8])
