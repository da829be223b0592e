"""PQN's asymmetric triplets: float anchors, quantized positives and negatives, by plain loops."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace import InputError
from raising import raises

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from interlace.learn.joint.losses import asymmetric_triplet  # noqa: E402
from loss_checks import (  # noqa: E402
    SCALES,
    check_gradient,
    check_nothing_to_learn,
    some_labels,
    some_rows,
    value_and_gradients,
)


def inner(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def plain_of(anchors, positives, negatives, scale, unit):
    terms = [
        1 / (1 + math.exp(scale * (inner(a, p) - inner(a, n)) / unit))
        for a, p, n in zip(anchors, positives, negatives, strict=True)
    ]
    return sum(terms) / max(len(terms), 1)


def following(a, labels, most):
    """The next rows of a's class, from a on and round the batch."""
    n = len(labels)
    found = [(a + step) % n for step in range(1, n) if labels[(a + step) % n] == labels[a]]
    return found if most is None else found[:most]


def plain(rows, quantized, labels, scale, most=None):
    n = len(rows)
    index = [
        (a, p, q) for a in range(n) for p in following(a, labels, most) for q in range(n) if labels[a] != labels[q]
    ]
    triplets = (
        [rows[a] for a, _, _ in index],
        [quantized[p] for _, p, _ in index],
        [quantized[q] for _, _, q in index],
    )
    return plain_of(*triplets, scale, sum(inner(row, row) for row in rows) / n)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 12),
    dim=st.integers(1, 4),
    n_classes=st.integers(1, 5),
    scale=st.sampled_from([0.5, 4.0, 20.0]),
    most=st.sampled_from([None, 1, 2, 3]),
    seed=st.integers(0, 1000),
)
def test_equals_three_plain_loops(n, dim, n_classes, scale, most, seed):
    z, zq, labels = some_rows(n, dim, seed=seed), some_rows(n, dim, seed=seed + 1), some_labels(n, n_classes, seed=seed)
    expected = plain(z.tolist(), zq.tolist(), labels.tolist(), scale, most)
    found = asymmetric_triplet(z, zq, labels, scale=scale, most=most)
    assert float(found) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_eight_positives_tell_what_all_of_them_do():
    labels = some_labels(400, 4)
    z = some_rows(4, 6, seed=2)[labels] + some_rows(400, 6)
    zq = z + 0.3 * some_rows(400, 6, seed=1)
    all_of_them, gradients = value_and_gradients(lambda z, zq: asymmetric_triplet(z, zq, labels, most=None), z, zq)
    some, sampled = value_and_gradients(lambda z, zq: asymmetric_triplet(z, zq, labels), z, zq)
    assert some == float(asymmetric_triplet(z, zq, labels, most=8)) != all_of_them
    assert some == pytest.approx(all_of_them, rel=0.02)
    for one, other in zip(sampled, gradients, strict=True):
        assert float(torch.cosine_similarity(one.ravel(), other.ravel(), dim=0)) > 0.8


def test_gradients():
    labels = torch.tensor([0, 1, 0, 1, 2, 0, 2])
    for most in (None, 1):
        check_gradient(
            lambda z, zq, most=most: asymmetric_triplet(z, zq, labels, most=most),
            some_rows(7, 3),
            some_rows(7, 3, seed=1),
        )


@pytest.mark.parametrize("scale", SCALES)
def test_scale_does_not_matter(scale):
    z, zq = some_rows(30, 6, dtype=torch.float32), some_rows(30, 6, seed=1, dtype=torch.float32)
    labels = some_labels(30, 4)
    expected, gradients = value_and_gradients(lambda z, zq: asymmetric_triplet(z, zq, labels), z, zq)
    value, scaled = value_and_gradients(lambda z, zq: asymmetric_triplet(z, zq, labels), z * scale, zq * scale)
    assert value == pytest.approx(expected, rel=1e-5)
    for one, other in zip(scaled, gradients, strict=True):
        torch.testing.assert_close(one * scale, other, rtol=1e-3, atol=1e-6)


def test_no_triplet_no_loss():
    for labels in (torch.zeros(5, dtype=torch.long), torch.arange(5)):
        check_nothing_to_learn(lambda z, zq, y=labels: asymmetric_triplet(z, zq, y), some_rows(5, 3), some_rows(5, 3))
    check_nothing_to_learn(lambda z, zq: asymmetric_triplet(z, zq, torch.tensor([1])), some_rows(1, 3), some_rows(1, 3))
    zeros = torch.zeros(4, 3)
    value, _ = value_and_gradients(lambda z, zq: asymmetric_triplet(z, zq, torch.arange(4) % 2), zeros, zeros)
    assert value == 0.5


def test_bad_input():
    z = some_rows(4, 3)
    with raises(InputError, "zq", "(4, 3)"):
        asymmetric_triplet(z, z[:, :2], torch.arange(4))
    with raises(InputError, "most", "integer"):
        asymmetric_triplet(z, z, torch.arange(4), most=0)
    with raises(InputError, "labels", "numbers"):
        asymmetric_triplet(z, z, torch.zeros(4))
