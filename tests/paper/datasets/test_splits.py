"""Classes left out and triplets: what they hold, by plain loops, for any labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import interlace as il
from interlace.data import DataSet, triplets, unseen_classes
from raising import raises

SEEDS = st.integers(0, 2**32 - 1)


def dataset(seed=0, n=200, q=60, classes=10, *, text=False):
    """Rows that tell their own number and class."""
    rng = np.random.default_rng(seed)
    labels, query_labels = (np.concatenate([np.arange(classes), rng.integers(0, classes, m)]) for m in (n, q))
    x = np.stack([np.arange(len(labels)), labels], 1).astype(np.float32)
    queries = np.stack([np.arange(len(query_labels)), query_labels], 1).astype(np.float32)
    if text:
        labels, query_labels = np.char.mod("c%d", labels), np.char.mod("c%d", query_labels)
    truth = np.zeros((len(queries), 3), np.int64)
    return DataSet("toy", x, queries, learn=x[:5], truth=truth, labels=labels, query_labels=query_labels)


@given(seed=SEEDS, n_classes=st.integers(1, 9), text=st.booleans())
@settings(max_examples=40, deadline=None)
def test_every_row_is_in_one_part_with_its_label(seed, n_classes, text):
    whole = dataset(seed % 7, text=text)
    seen, unseen = unseen_classes(whole, n_classes, seed)
    assert (seen.name, unseen.name) == ("toy-seen", "toy-unseen")
    left_out = set(unseen.labels.tolist())
    assert len(left_out) == n_classes
    assert set(unseen.query_labels.tolist()) == left_out
    assert set(seen.labels.tolist()) == set(seen.query_labels.tolist()) == set(whole.labels.tolist()) - left_out
    for part in (seen, unseen):
        assert part.learn is None
        assert part.truth is None
        for rows, labels, all_labels in (
            (part.x, part.labels, whole.labels),
            (part.queries, part.query_labels, whole.query_labels),
        ):
            numbers = rows[:, 0].astype(int)
            assert_array_equal(all_labels[numbers], labels)
            assert (np.diff(numbers) > 0).all()  # in their order
    assert len(seen.x) + len(unseen.x) == len(whole.x)
    assert len(seen.queries) + len(unseen.queries) == len(whole.queries)
    again = unseen_classes(whole, n_classes, seed)[1]
    assert_array_equal(again.x, unseen.x)


def test_seeds_draw_every_class():
    drawn = [tuple(np.unique(unseen_classes(dataset(), seed=seed)[1].labels)) for seed in range(60)]
    assert {c for classes in drawn for c in classes} == set(range(10))
    assert len(set(drawn)) > 30
    assert all(len(classes) == 3 for classes in drawn)


@pytest.mark.parametrize(
    ("keywords", "facts"),
    [
        ({"n_classes": 0}, ("n_classes", "integer")),
        ({"n_classes": 10}, ("n_classes", "'toy'", 10)),
        ({"seed": -1}, ("seed", 0)),
    ],
)
def test_bad_input_to_unseen_classes_is_named(keywords, facts):
    with raises(il.InputError, *facts):
        unseen_classes(dataset(), **keywords)


def test_classes_are_left_out_of_sets_that_have_them():
    bare = DataSet("bare", np.zeros((3, 2)), np.zeros((1, 2)))
    with pytest.raises(il.InputError, match="'bare' has none"):
        unseen_classes(bare)
    one_sided = DataSet("odd", np.zeros((4, 1)), np.zeros((1, 1)), labels=np.arange(4), query_labels=np.array([9]))
    with raises(il.InputError, "'odd'"):
        unseen_classes(one_sided, 1)


@given(
    seed=SEEDS,
    labels=st.lists(st.integers(0, 4), min_size=3, max_size=30),
    n=st.integers(0, 60),
    text=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_triplets_are_valid(seed, labels, n, text):
    counts = [labels.count(c) for c in set(labels)]
    named = np.array([f"class {c}" for c in labels]) if text else np.array(labels)
    if len(counts) < 2 or max(counts) < 2:
        with pytest.raises(il.InputError, match="triplets need two classes, one of them with two rows"):
            triplets(named, n, seed)
        return
    found = triplets(named, n, seed)
    assert (found.shape, found.dtype) == ((n, 3), np.int64)
    for anchor, positive, negative in found.tolist():
        assert anchor != positive
        assert labels[anchor] == labels[positive] != labels[negative]
    assert_array_equal(triplets(named, n, seed), found)


def test_every_triplet_has_the_same_chance():
    labels = [0, 1, 0, 2, 1, 0, 3]  # the last class has no pair, and is a negative only
    possible = [
        (a, p, n)
        for a in range(7)
        for p in range(7)
        for n in range(7)
        if a != p and labels[a] == labels[p] != labels[n]
    ]
    found = triplets(labels, 60_000, seed=1)
    drawn, counts = np.unique(found, axis=0, return_counts=True)
    assert {tuple(row) for row in drawn.tolist()} == set(possible)
    # Anchors are drawn alike, then the others among what is left: chances differ from class to class only.
    for (a, p, n), count in zip(drawn.tolist(), counts, strict=True):
        pairs = labels.count(labels[a]) - 1
        others = 7 - labels.count(labels[a])
        expected = 60_000 / 5 / pairs / others
        assert abs(count - expected) < 6 * np.sqrt(expected), (a, p, n)


def test_as_many_as_the_paper_draws_in_no_time():
    labels = np.random.default_rng(0).integers(0, 10, 50_000)
    found = triplets(labels)
    assert found.shape == (400_000, 3)
    assert (labels[found[:, 0]] == labels[found[:, 1]]).all()
    assert (labels[found[:, 0]] != labels[found[:, 2]]).all()
    assert (found[:, 0] != found[:, 1]).all()
    assert not np.array_equal(found, triplets(labels, seed=1))


@pytest.mark.parametrize(
    ("labels", "keywords", "message"),
    [
        ([[0, 1]], {}, r"labels must be integers or strings \[rows\]"),
        ([0.5, 1.0], {}, "labels must be integers or strings"),
        ([], {}, "labels must be integers or strings|triplets need two classes"),
        ([0, 0, 1], {"n": -1}, "n must be an integer of at least 0"),
        ([0, 0, 1], {"seed": 1.5}, "seed must be an integer of at least 0"),
    ],
)
def test_bad_input_to_triplets_is_named(labels, keywords, message):
    with pytest.raises(il.InputError, match=message):
        triplets(labels, **keywords)
