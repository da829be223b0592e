"""Bounds on memory: what is read as a size, and how many rows fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace as il
from helpers import LAYOUTS
from interlace.learn.cost.limits import LEAST_ROWS, train_rows_that_fit
from interlace.learn.cost.memory import fit_memory
from interlace.learn.sample import train_count
from interlace.learn.settings import Settings, parse_memory
from raising import raises


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
    with raises(il.InputError, "max_memory", "2GB"):
        parse_memory(value)


@settings(deadline=None)
@given(st.integers(1, 200_000), st.integers(1, 500), st.integers(10**7, 10**9), st.sampled_from(["auto", *LAYOUTS]))
def test_as_many_rows_as_fit(n: int, dim: int, allowed: int, layout: str) -> None:
    given = Settings(layout=layout, n_bytes=4, max_memory=allowed, threads=1).checked()

    def needed(rows: int) -> int:
        return max(fit_memory(n, dim, given.for_rows(n), rows))

    most = train_count(n, 65_536)
    least = min(LEAST_ROWS, most)
    if needed(least) > allowed:
        with pytest.raises(il.InputError, match=f"{least} rows of {dim} dimensions .*max_memory={needed(least)} "):
            train_rows_that_fit(n, dim, given)
        return
    rows = train_rows_that_fit(n, dim, given)
    assert least <= rows <= most
    assert needed(rows) <= allowed
    assert rows == most or needed(rows + 1) > allowed


def test_without_a_bound_all_rows_may_be_learned_from() -> None:
    assert train_rows_that_fit(10**9, 128, Settings(max_train_rows=10**8).checked()) == 10**8
    assert train_rows_that_fit(10, 128, Settings().checked()) == 10
    assert train_rows_that_fit(10, 128, Settings(max_memory="1GB").checked()) == 10  # all rows, though few
    with pytest.raises(il.InputError, match=r"max_memory allows 5: give max_memory=\d+"):
        train_rows_that_fit(10, 128, Settings(max_memory=5).checked())
