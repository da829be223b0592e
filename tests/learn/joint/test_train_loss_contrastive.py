"""Supervised contrastive: plain loops, and what search would rank."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace import InputError
from raising import raises

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from interlace.learn.joint.losses import supervised_contrastive  # noqa: E402
from loss_checks import (  # noqa: E402
    SCALES,
    check_gradient,
    check_nothing_to_learn,
    some_labels,
    some_rows,
    value_and_gradients,
)


def plain(queries, keys, labels, scale):
    losses = []
    for i, query in enumerate(queries):
        logits = {
            j: -scale * sum((a - b) ** 2 for a, b in zip(query, key, strict=True))
            for j, key in enumerate(keys)
            if i != j
        }
        top = max(logits.values(), default=0.0)
        normaliser = top + math.log(sum(math.exp(v - top) for v in logits.values())) if logits else 0.0
        terms = [normaliser - v for j, v in logits.items() if labels[j] == labels[i]]
        if terms:
            losses.append(sum(terms) / len(terms))
    return sum(losses) / len(losses) if losses else 0.0


@settings(max_examples=80, deadline=None)
@given(
    n=st.integers(1, 12),
    dim=st.integers(1, 4),
    n_classes=st.integers(1, 5),
    scale=st.sampled_from([0.1, 1.0, 10.0]),
    seed=st.integers(0, 1000),
)
def test_equals_plain_loops(n, dim, n_classes, scale, seed):
    queries, keys = some_rows(n, dim, seed=seed, offset=1.0), some_rows(n, dim, seed=seed + 1, offset=1.0)
    labels = some_labels(n, n_classes, seed=seed)
    value = supervised_contrastive(queries, keys, labels, scale)
    expected = plain(queries.tolist(), keys.tolist(), labels.tolist(), scale)
    assert float(value) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_gradients():
    labels = torch.tensor([0, 1, 0, 1, 2, 0, 3])  # 2 and 3 have no positive
    check_gradient(lambda q, k: supervised_contrastive(q, k, labels, 2.0), some_rows(7, 3), some_rows(7, 3, seed=1))
    check_gradient(lambda z: supervised_contrastive(z, z, labels, 2.0), some_rows(7, 3))


def test_a_row_without_a_positive_counts_as_a_negative_only():
    z, labels = some_rows(5, 3), torch.tensor([0, 0, 1, 1, 2])
    _, gradients = value_and_gradients(lambda q, k: supervised_contrastive(q, k, labels, 1.0), z, z)
    assert (gradients[0][4] == 0).all()
    assert (gradients[1][4] != 0).any()


def test_the_perfect_order_costs_less_than_a_wrong_one():
    labels = torch.arange(20) % 2
    keys = labels[:, None] * 3.0 + some_rows(20, 1) * 0.01
    right = supervised_contrastive(keys, keys, labels, 5.0)
    wrong = supervised_contrastive(3.0 - keys, keys, labels, 5.0)
    assert float(right) == pytest.approx(
        math.log(9), abs=0.01
    )  # ten of a class, all alike: uniform over the other nine
    assert float(wrong) > 40


def test_distances_are_those_of_search_not_of_floats():
    """The value depends on the codes alone; the straight-through gradient still reaches the embedding."""
    z, words, labels = some_rows(8, 3), some_rows(8, 3, seed=1), some_labels(8, 2)

    def loss(z, words):
        return supervised_contrastive(z, words + z - z.detach(), labels, 1.0)

    value, gradients = value_and_gradients(loss, z, words)
    assert value == pytest.approx(float(supervised_contrastive(z, words, labels, 1.0)), rel=1e-9)
    assert all(g.abs().sum() > 0 for g in gradients)


@pytest.mark.parametrize("scale", SCALES)
def test_scales(scale):
    z, labels = some_rows(40, 6, dtype=torch.float32), some_labels(40, 5)
    expected, gradients = value_and_gradients(lambda z: supervised_contrastive(z, z, labels, 3.0), z)
    value, scaled = value_and_gradients(
        lambda z: supervised_contrastive(z, z, labels, 3.0 / scale**2), z * scale + 5 * scale
    )
    assert value == pytest.approx(expected, rel=1e-3)
    torch.testing.assert_close(scaled[0] * scale, gradients[0], rtol=1e-2, atol=1e-4)
    value_and_gradients(lambda z: supervised_contrastive(z, z, labels, 3.0), z * scale)  # finite as it is


def test_nothing_counts():
    for labels in (torch.tensor([0]), torch.arange(5)):
        n = len(labels)
        check_nothing_to_learn(
            lambda q, k, y=labels: supervised_contrastive(q, k, y, 2.0), some_rows(n, 3), some_rows(n, 3)
        )


def test_one_class_and_equal_rows():
    one = torch.zeros(6, dtype=torch.long)
    value_and_gradients(lambda z: supervised_contrastive(z, z, one, 2.0), some_rows(6, 3))
    value, gradients = value_and_gradients(
        lambda z: supervised_contrastive(z, z, some_labels(6, 2), 2.0), torch.full((6, 3), 0.1)
    )
    assert value == pytest.approx(math.log(5), rel=1e-6)
    assert gradients[0].abs().max() < 1e-5


def test_bad_input():
    z, labels = some_rows(4, 3), torch.arange(4)
    for keys in (z[:2], z[:, :2]):
        with raises(InputError, "keys", "(4, 3)"):
            supervised_contrastive(z, keys, labels, 1.0)
    with raises(InputError, "labels", "[4]"):
        supervised_contrastive(z, z, labels[:2], 1.0)
