"""An index of rows that were coded elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace as il
from books import LAYOUTS, random_codebooks, random_codes
from helpers import clustered, hand_made, ids_of, same_index
from interlace.codec.encode import encode
from raising import Facts, raises


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(LAYOUTS), st.integers(0, 200), st.integers(0, 2**32))
def test_codes_come_back(layout: str, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    codebooks = random_codebooks(rng, layout)
    codes = random_codes(rng, codebooks, n)
    ids = rng.permutation(1000)[:n]
    index = il.Index.from_codes(codebooks, codes, ids)
    index.verify()
    assert len(index) == n
    np.testing.assert_array_equal(index.ids, ids)
    np.testing.assert_array_equal(index.reconstruct(ids), codebooks.decode(codes))


@pytest.mark.parametrize("ids", ["default", "int64", "string"])
def test_it_is_the_index_that_codes_rows_itself(ids: str) -> None:
    codebooks, x = hand_made(), clustered(60, 4)
    added = il.Index(codebooks)
    added.add(x, ids_of(ids, 60), threads=1)
    codes = encode(codebooks, x, 1)
    assert same_index(added, il.Index.from_codes(codebooks, codes, ids_of(ids, 60)))
    assert same_index(added, il.Index.from_codes(codebooks, np.asfortranarray(codes), ids_of(ids, 60)))


@pytest.mark.parametrize(
    ("codes", "facts"),
    [
        (np.zeros((5, 2), np.uint8), ("codes", "uint8", "[n, 3]")),
        (np.zeros((5, 3), np.int64), ("codes", "uint8", "[n, 3]")),
        (np.zeros(3, np.uint8), ("codes", "uint8", "[n, 3]")),
        (np.array([[0, 0, 0], [0, 2, 0], [0, 3, 9]], np.uint8), ("codes[2, 1]", 3)),
    ],
)
def test_codes_that_do_not_fit_are_refused(codes: Any, facts: Facts) -> None:
    with raises(il.InputError, *facts):
        il.Index.from_codes(hand_made(), codes)


def test_ids_that_do_not_fit_are_refused() -> None:
    with pytest.raises(il.InputError, match="2 expected, got"):
        il.Index.from_codes(hand_made(), np.zeros((2, 3), np.uint8), [1])
    with pytest.raises(il.InputError, match="^Index needs Codebooks"):
        il.Index.from_codes(None, np.zeros((2, 3), np.uint8))
