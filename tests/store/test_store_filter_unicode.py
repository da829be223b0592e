"""Filters whose values and columns have characters of one to four bytes: as filters of ASCII, in text and in Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from store_helpers import BOOKS, vectors

import interlace as il
from interlace.store.columns import Columns
from interlace.store.filters import as_expression, columns_of, qualifying
from raising import raises

pa = pytest.importorskip("pyarrow", reason="the io extra is not installed")
pc = pytest.importorskip("pyarrow.compute")

#: Of one to four bytes in UTF-8; the last of each pair differs from the first in its last byte only.
WIDE = "xyéêß字孖\uffed😀😁\u0301"
#: The third and the fourth are in another form than the one that Python's parser gives names.
NAMES = ("price", "größe", "e\u0301cole", "ﬁeld", "価格", "𐐀x")
COLUMNS = Columns.of({**dict.fromkeys(NAMES, "string"), "n": "int64"})
VALUES = st.one_of(
    st.text(WIDE, max_size=8),
    st.builds(lambda a, c, n: a + c * n, st.text("ab", max_size=3), st.sampled_from(WIDE), st.integers(1, 140)),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\\"), max_size=130),
)  # fmt: skip


def table_of(name: str, values: list[str | None]) -> Any:
    return COLUMNS.table({name: values}, len(values))


@given(name=st.sampled_from(NAMES), value=VALUES, other=VALUES, how=st.sampled_from(["==", "!=", "in", "not in"]))
def test_values_of_any_width_are_found(name: str, value: str, other: str, how: str) -> None:
    table = table_of(name, [value, other, None, "", value + "x"])
    matching, listed = ((value,), repr(value)) if "=" in how else ((value, "x"), f"({value!r}, 'x')")
    inverted = how in ("!=", "not in")
    wanted = [v is not None and (v in matching) != inverted for v in (value, other, None, "", value + "x")]
    expression = as_expression(f"{name} {how} {listed}", COLUMNS)
    for found in (expression, as_expression(expression, COLUMNS)):  # an expression of Arrow is checked on its own
        assert qualifying(found, table).tolist() == wanted
        assert columns_of(found, COLUMNS) == [name]


PIECES = st.one_of(
    st.sampled_from([*NAMES, "n", "and", "or", "not", "in", "is null", "==", "<", *"(),'\"3#\n "]),
    VALUES,
    VALUES.map(repr),
    st.sampled_from(["\ud800", "\udcff", "\0", "\ufeff", "\u2028", "\r"]),
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map(" ".join))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        expression = as_expression(text, COLUMNS)
    except il.InputError as error:
        str(error).encode()
        return
    assert qualifying(expression, table_of("price", ["x", None])).shape == (2,)
    assert set(columns_of(expression, COLUMNS)) <= {*NAMES, "n"}


def refused(text: str) -> str:
    with pytest.raises(il.InputError) as caught:
        as_expression(text, COLUMNS)
    return str(caught.value)


PLACES = (
    "n == '{}'",
    "price == '{}' + 1",
    "'{}'",
    "price == '{}' price = 3",
    "price in ('{}', 3)",
    "{} < 3",
    "n == '{}",
)


@given(value=st.text("QJZ", min_size=1, max_size=200), place=st.sampled_from(PLACES))
def test_errors_of_wide_text_are_those_of_ascii(value: str, place: str) -> None:
    """Character by character: positions and abbreviations count characters."""
    wide = str.maketrans("QJZ", "ß字𐐀")
    assert refused(place.format(value.translate(wide))) == refused(place.format(value)).translate(wide)


def test_columns_of_two_forms_are_those_that_are_written() -> None:
    both = Columns.of({"ﬁeld": "int64", "field": "int64"})
    assert columns_of(as_expression("field == 1", both), both) == ["field"]
    assert columns_of(as_expression("ﬁeld == 1", Columns.of({"ﬁeld": "int64"})), COLUMNS) == ["ﬁeld"]


@pytest.mark.parametrize("character", "xé字😀")
def test_searches_with_wide_values(tmp_path: Path, character: str) -> None:
    """Rows of segments and of the log; as text and as an expression."""
    store = il.create(tmp_path / "s", BOOKS, columns={"größe": "string"})
    values = [character * n for n in (1, 33, 100, 400)]
    store.add(vectors(4), ids=[0, 1, 2, 3], payload={"größe": values})
    store.compact()
    store.add(vectors(4), ids=[4, 5, 6, 7], payload={"größe": values})
    for i, value in enumerate(values):
        listed = pc.field("größe").isin(pa.array([value, "no"]))
        for filter in (f"größe == '{value}'", f"größe in ['{value}', 'no']", pc.field("größe") == value, listed):
            assert sorted(store.search(vectors(1)[0], 8, filter=filter).ids[:2].tolist()) == [i, i + 4]
    with raises(il.InputError, "größe", "int64"):
        store.search(vectors(1)[0], filter=pc.field("größe").isin(pa.array([1])).cast(pa.int64()))


def test_an_expression_without_columns_is_abbreviated(tmp_path: Path) -> None:
    store = il.create(tmp_path / "s", BOOKS)
    with raises(il.InputError, "columns"):
        store.search(vectors(1)[0], filter=pc.field("s").isin(pa.array(["字" * 33])))
