"""Triplets: all of a batch by three plain loops, those drawn before by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace import InputError
from raising import raises

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from interlace.learn.joint.losses import triplet  # noqa: E402
from loss_checks import (  # noqa: E402
    SCALES,
    check_gradient,
    check_nothing_to_learn,
    some_labels,
    some_rows,
    value_and_gradients,
)


def distance(a, b):
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def spread(rows):
    centre = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    return sum(distance(row, centre) for row in rows) / len(rows)


def plain(rows, labels, margin):
    n, unit, terms = len(rows), spread(rows), []
    for a in range(n):
        for p in range(n):
            for q in range(n):
                if p != a and labels[p] == labels[a] != labels[q]:
                    term = (distance(rows[a], rows[p]) - distance(rows[a], rows[q])) / unit + margin
                    if term > 0:
                        terms.append(term)
    return sum(terms) / max(len(terms), 1)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 12),
    dim=st.integers(1, 4),
    n_classes=st.integers(1, 5),
    margin=st.sampled_from([0.0, 0.2, 1.0, 30.0]),
    seed=st.integers(0, 1000),
)
def test_equals_three_plain_loops(n, dim, n_classes, margin, seed):
    z, labels = some_rows(n, dim, seed=seed, offset=1.0), some_labels(n, n_classes, seed=seed)
    expected = plain(z.tolist(), labels.tolist(), margin)
    assert float(triplet(z, labels, margin=margin)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_gradients():
    labels = torch.tensor([0, 1, 0, 1, 2, 0, 2])
    check_gradient(lambda z: triplet(z, labels), some_rows(7, 3))
    check_gradient(lambda z: triplet(z, labels, margin=5.0), some_rows(7, 3))


@pytest.mark.parametrize("scale", SCALES)
def test_scale_and_offset_do_not_matter(scale):
    z, labels = some_rows(30, 6, dtype=torch.float32), some_labels(30, 4)
    expected, gradients = value_and_gradients(lambda z: triplet(z, labels), z)
    value, scaled = value_and_gradients(lambda z: triplet(z, labels), z * scale + 3 * scale)
    assert value == pytest.approx(expected, rel=1e-3)
    torch.testing.assert_close(scaled[0] * scale, gradients[0], rtol=1e-2, atol=1e-4)


def test_digits_survive_far_from_the_origin():
    z, labels = some_rows(30, 6, dtype=torch.float32) + 1000, some_labels(30, 4)
    assert float(triplet(z, labels)) == pytest.approx(float(triplet(z.double(), labels)), rel=1e-4)


def test_no_triplet_no_loss():
    check_nothing_to_learn(lambda z: triplet(z, torch.tensor([1])), some_rows(1, 3))
    check_nothing_to_learn(lambda z: triplet(z, torch.zeros(5, dtype=torch.long)), some_rows(5, 3))
    check_nothing_to_learn(lambda z: triplet(z, torch.arange(5)), some_rows(5, 3))
    far_apart = some_rows(6, 2) * 1e-3 + torch.tensor([[0.0, 0], [9, 9]]).repeat(3, 1)
    check_nothing_to_learn(lambda z: triplet(z, torch.arange(6) % 2), far_apart)


def test_equal_rows_cost_the_margin():
    for equal in (torch.full((9, 5), 0.1), torch.zeros(9, 5)):
        value, gradients = value_and_gradients(lambda z: triplet(z, torch.arange(9) % 3, margin=0.3), equal)
        assert value == pytest.approx(0.3, rel=1e-4)
        assert gradients[0].abs().max() < 1e-3


def test_half_precision_is_computed_in_float32():
    z, labels = some_rows(20, 4, dtype=torch.bfloat16), some_labels(20, 3)
    assert triplet(z, labels).dtype == torch.float32
    assert float(triplet(z, labels)) == pytest.approx(float(triplet(z.double(), labels)), rel=1e-5)


def test_a_large_batch_needs_no_cubic_memory():
    z, labels = some_rows(1500, 4, dtype=torch.float32), some_labels(1500, 3)  # cubed: 13 GB
    value, _ = value_and_gradients(lambda z: triplet(z, labels), z)
    assert value == pytest.approx(float(triplet(z.double(), labels)), rel=1e-3)


def test_bad_input():
    z = some_rows(4, 3)
    with raises(InputError, "labels", "[4]"):
        triplet(z, torch.zeros(3, dtype=torch.long))
