"""Bounds on memory: what is read as a size, and how many rows fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlace as il
from interlace.memory import FACTOR, LEAST_ROWS, parse_memory, rows_that_fit


@pytest.mark.parametrize(
    ("value", "n_bytes"),
    [
        (1, 1),
        (np.int64(5000), 5000),
        ("17B", 17),
        ("1KB", 1000),
        ("2GB", 2_000_000_000),
        ("2 gb", 2_000_000_000),
        ("512MiB", 512 << 20),
        (" 1.5 GiB ", 3 << 29),
        ("0.1KB", 100),
        ("3TB", 3 * 10**12),
        ("1TiB", 1 << 40),
        ("9007199254740993B", 2**53 + 1),
    ],
)
def test_sizes(value: Any, n_bytes: int) -> None:
    assert parse_memory(value) == n_bytes


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        True,
        1.5,
        2e9,
        None,
        [],
        b"2GB",
        "",
        "2",
        "GB",
        "2G",
        "2 G B",
        "-2GB",
        "2e9B",
        "1.GB",
        "0GB",
        "0.1B",
        "٣GB",
    ],
)
def test_what_is_no_size_is_refused(value: Any) -> None:
    with pytest.raises(il.InputError, match="^max_memory must be a positive number of bytes or a text such as '2GB'"):
        parse_memory(value)


@given(
    st.integers(0, 5000),
    st.integers(1, 3000),
    st.integers(1, 10**9),
    st.floats(0.5, 8),
    st.integers(1, 2000),
)
def test_as_many_rows_as_fit(n_rows: int, dim: int, allowed: int, factor: float, least: int) -> None:
    fits = sum(rows * dim * 4 * factor <= allowed for rows in range(1, n_rows + 1))
    if fits >= min(least, n_rows):
        assert rows_that_fit(n_rows, dim, allowed, factor=factor, least=least) == fits
    else:
        with pytest.raises(il.InputError, match=rf"^learning from {min(least, n_rows)} rows of {dim} dimensions"):
            rows_that_fit(n_rows, dim, allowed, factor=factor, least=least)


def test_the_defaults() -> None:
    row = 128 * 4 * FACTOR
    assert rows_that_fit(10**9, 128, None) == 10**9
    assert rows_that_fit(10**9, 128, "2GB") == 2 * 10**9 // row
    assert rows_that_fit(10**9, 128, LEAST_ROWS * row) == LEAST_ROWS
    assert rows_that_fit(10, 128, 10 * row) == 10  # all rows, though few
    with pytest.raises(il.InputError, match=r"takes about 4,096,000 bytes, limit allows 4,095,999$"):
        rows_that_fit(10**9, 128, LEAST_ROWS * row - 1, name="limit")
