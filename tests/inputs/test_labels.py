"""Labels as users have them: whatever they come in they are the same array, and what is none is named."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import interlace as il
from helpers import FakeTensor
from interlace.inputs.labels import as_labels
from raising import Facts, raises

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)


@given(
    y=st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20),
        st.lists(TEXT, min_size=1, max_size=20),
        st.lists(st.booleans(), min_size=1, max_size=20),
    )
)
def test_containers_do_not_matter(y: list[Any]) -> None:
    n = len(y)
    found = as_labels(y, n)
    assert found.tolist() == y
    assert found.dtype.kind in "iubU"
    for again in (tuple(y), np.array(y, object), (v for v in y), iter(y), dict(enumerate(y)).values(), np.array(y)):
        other = as_labels(again, n)
        assert_array_equal(other, found)
        assert other.dtype.kind == found.dtype.kind


@given(y=st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=20))
def test_floats_that_are_whole_numbers_are_integers(y: list[int]) -> None:
    n, floats = len(y), [float(v) for v in y]
    some = [float(v) if i % 2 else v for i, v in enumerate(y)]
    arrays = (np.array(floats, dtype) for dtype in (np.float64, np.longdouble, object))
    for given_ in (floats, some, iter(floats), *arrays):
        found = as_labels(given_, n)
        assert found.dtype == np.int64
        assert found.tolist() == y


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@given(data=st.data())
def test_floats_of_any_type(dtype: Any, data: st.DataObject) -> None:
    """Whole ones are the same numbers; any other is refused."""
    width = 8 * np.dtype(dtype).itemsize
    y = np.array(data.draw(st.lists(st.floats(width=width), min_size=1, max_size=9)), dtype)
    whole = [bool(np.isfinite(v)) and float(v).is_integer() and abs(float(v)) < 2**63 for v in y]
    if all(whole):
        assert as_labels(y, len(y)).tolist() == [int(v) for v in y]
        return
    with raises(il.InputError, f"y[{whole.index(False)}]"):
        as_labels(y, len(y))


@given(y=st.lists(TEXT, min_size=1, max_size=20))
def test_bytes_are_text(y: list[str]) -> None:
    encoded = [text.encode() for text in y]
    for given_ in (encoded, tuple(encoded), np.array(encoded), np.array(encoded, object), iter(encoded)):
        assert as_labels(given_, len(y)).tolist() == y


def test_tensors_and_strings_of_any_length() -> None:
    assert_array_equal(as_labels(FakeTensor(np.array([3, -1])), 2), [3, -1])
    if hasattr(np.dtypes, "StringDType"):
        found = as_labels(np.array(["a", "long enough"], np.dtypes.StringDType()), 2)
        assert found.dtype.kind == "U"
        assert found.tolist() == ["a", "long enough"]


@pytest.mark.parametrize(
    ("y", "facts"),
    [
        (None, ("labels", "y_database", 3)),
        ([1, 2], ("y_database", 2, "X_database", 3)),
        ((v for v in [1, 2]), ("y_database", 2, "X_database", 3)),
        (itertools.count(), ("y_database", "X_database", "(3)")),
        ([b"a", b"\xff", b"\xfe"], ("labels", "UTF-8", "y_database[1]", "b'\\xff'")),
        ([b"a", "a", "b"], ("y_database[1]", "'a'", "y_database[0]", "b'a'")),
        (b"abc", ("1-D",)),
        ("abc", ("1-D",)),
        ({1, 2, 3}, ("1-D", "set")),
        ([0.0, 1.0, 2.5], ("float64", "y_database[2]", "2.5")),
        ((v for v in [0.5, 1.0, 2.0]), ("float64", "y_database[0]", "0.5")),
        ([1, 2.5, 3], ("float64", "y_database[1]", "2.5")),
        (np.array([0, np.inf, 1], np.float32), ("float32", "y_database[1]", "inf")),
        ([1.0, 2.0, 2.0**63], ("y_database[2]",)),
        ([True, 1.0, 0.0], ("y_database[1]", "1", "True")),
        ([0, 1, None], ("y_database[2]", "None")),
    ],
)
def test_what_is_no_label(y: Any, facts: Facts) -> None:
    with raises(il.InputError, *facts):
        as_labels(y, 3, name="y_database", rows="X_database")
