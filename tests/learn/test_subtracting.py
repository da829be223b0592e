"""What words leave of rows, in native code, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace import _native
from interlace.learn.kmeans import subtract


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_same_bits_as_numpy_for_any_number_of_threads(data: st.DataObject):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n, dim = data.draw(st.sampled_from([0, 1, 255, 256, 257, 700])), data.draw(st.integers(1, 9))
    support = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=dim, max_size=dim))).astype(np.uint32)
    words = rng.normal(size=(data.draw(st.integers(1, 300)), len(support))).astype(np.float32)
    labels = rng.integers(len(words), size=n).astype(np.int32)
    x = rng.normal(size=(n, dim)).astype(np.float32)
    expected = x.copy()
    expected[:, support] -= words[labels]
    subtract(x, labels, words, support, data.draw(st.integers(1, 4)))
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize(
    ("labels", "support", "text"),
    [
        ([0, 1], [0, 2], "wrong shape"),
        ([0, 1, 2], [0, 2], "a label is out of range"),
        ([0, 1, -1], [0, 2], "a label is out of range"),
        ([0, 1, 0], [0, 3], "support must ascend"),
        ([0, 1, 0], [2, 0], "support must ascend"),
        ([0, 1, 0], [1, 1], "support must ascend"),
        ([0, 1, 0], [0], "wrong shape"),
    ],
)
def test_bad_arrays_change_nothing(labels: list[int], support: list[int], text: str):
    x, words = np.ones((3, 3), np.float32), np.ones((2, 2), np.float32)
    with pytest.raises(ValueError, match=text):
        _native.subtract_words(x, np.array(labels, np.int32), words, np.array(support, np.uint32), 2)
    assert (x == 1).all()
