"""Labels as class numbers, and triplets of rows by class."""

from __future__ import annotations

import collections
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

torch = pytest.importorskip("torch", reason="the train extra is not installed")


import interlace as il  # noqa: E402
from interlace.learn.joint.batches import Data, triplets  # noqa: E402
from interlace.learn.joint.labels import encode_labels  # noqa: E402

# --------------------------------------------------------------------------------------------------------------- labels


@given(
    y=st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=20),
        st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=2, max_size=20),
        st.lists(st.booleans(), min_size=2, max_size=20),
    )
)
@settings(max_examples=100, deadline=None)
def test_classes_stand_for_the_labels(y):
    if len(set(y)) < 2:
        with pytest.raises(il.InputError, match="at least two classes, all are"):
            encode_labels(y, len(y))
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers, classes = encode_labels(y, len(y))
        again, _ = encode_labels(np.array(y, object), len(y))
    assert classes[numbers].tolist() == y
    assert numbers.dtype == np.int64
    assert sorted(set(numbers.tolist())) == list(range(len(set(y))))
    assert_array_equal(again, numbers)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "labels are missing: pass y, an integer or a string for each of the 4 rows"),
        ([0, 1, 0], "y has 3 labels, x has 4 rows"),
        ([], "y has 0 labels, x has 4 rows"),
        ([5, 5, 5, 5], "at least two classes, all are 5"),
        (np.array(["a"] * 4), "at least two classes, all are 'a'"),
        ([0.0, 1.0, 0.0, 1.0], "got dtype float64; pass integers"),
        (np.array([0, 1, 0, 1], np.float32), "got dtype float32; pass integers"),
        (torch.tensor([0.0, 1.0, 0.0, 1.0]), "pass integers"),
        ([0, 1, np.nan, 1], r"y\[2\] is nan, y\[0\] is 0"),
        (np.array([0, 1, np.nan, 1]), r"y\[2\] is nan$"),
        (np.eye(4)[[0, 1, 2, 3]], r"shape \(4, 4\) and dtype float64, which is one-hot; pass y.argmax\(1\)"),
        (np.eye(2, dtype=bool)[[0, 1, 0, 1]].tolist(), "which is one-hot"),
        ([[0], [1], [0], [1]], r"pass y.ravel\(\)"),
        ([[0, 2], [1, 1], [0, 0], [1, 1]], "several labels per row"),
        (np.int64(3), "must be 1-D"),
        ("abab", "must be 1-D"),
        ([0, 1, "a", 1], r"all of one kind: y\[2\] is 'a', y\[0\] is 0"),
        ([0, 1, None, 1], r"y\[2\] is None"),
        ([0, 1, True, 1], r"y\[2\] is True"),
        ([None, 1, 0, 1], r"y\[0\] is None"),
        (np.array([1j, 2j, 1j, 2j]), "integers or strings"),
        (np.array(["2020-01-01"] * 4, "datetime64[D]"), "integers or strings"),
        ([[0], [1, 2], [0], [1]], "y cannot be read as an array"),
    ],
)
def test_bad_labels_are_named(y, message):
    with pytest.raises(il.InputError, match=message):
        Data(np.zeros((4, 2)), y)


def test_a_class_of_one_row_warns():
    with pytest.warns(il.FewRowsWarning, match=r"1 of 3 classes have a single row \(7\)"):
        Data(np.zeros((5, 2)), [0, 0, 1, 1, 7])


# ------------------------------------------------------------------------------------------------------------- triplets


@given(seed=st.integers(0, 2**32 - 1), counts=st.lists(st.integers(1, 6), min_size=2, max_size=6))
@settings(max_examples=60, deadline=None)
def test_triplets_are_what_they_say(seed, counts):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)) * 3 - 4, counts))
    if max(counts) == 1:
        with pytest.raises(il.InputError, match="two classes, one of them with two rows"):
            triplets(y, 5, seed)
        return
    found = triplets(y, 50, seed)
    assert (found.shape, found.dtype) == ((50, 3), np.int64)
    for a, p, n in found:
        assert a != p
        assert y[a] == y[p] != y[n]
    assert_array_equal(triplets(y, 50, seed), found)


def test_triplets_reach_every_row_evenly():
    y = np.array([0, 0, 1, 1, 1, 2])
    found = triplets(y, 30_000, 1)
    wanted = {
        (a, p, n): 1 / 5 / (list(y).count(y[a]) - 1) / (6 - list(y).count(y[a]))
        for a in range(6)
        for p in range(6)
        for n in range(6)
        if a != p and y[a] == y[p] != y[n]
    }
    counted = collections.Counter(map(tuple, found.tolist()))
    assert set(counted) == set(wanted)
    for triplet, share in wanted.items():
        assert counted[triplet] / 30_000 == pytest.approx(share, rel=0.2)


@pytest.mark.parametrize(
    ("y", "n", "message"),
    [
        ([0, 0, 0], 5, "two classes"),
        ([0.0, 1.0], 5, "integer labels"),
        ([0, 0, 1], 0, "n must be a positive integer"),
    ],
)
def test_bad_input_to_triplets_is_named(y, n, message):
    with pytest.raises(il.InputError, match=message):
        triplets(y, n)
