"""DQN's pairs: squared errors of cosines, by two plain loops."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace import InputError
from raising import raises

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from interlace.learn.joint.losses import pairwise  # noqa: E402
from loss_checks import (  # noqa: E402
    SCALES,
    check_gradient,
    check_nothing_to_learn,
    some_labels,
    some_rows,
    value_and_gradients,
)


def cosine(a, b):
    length = math.sqrt(sum(x * x for x in a) * sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / length if length else 0.0


def plain(rows, labels, lengths=0.1):
    if len(rows) == 1:
        return 0.0
    terms, squares = [], [sum(x * x for x in row) for row in rows]
    unit = sum(squares) / len(rows) or 1.0
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            if i != j:
                wanted = 1 if labels[i] == labels[j] else -1
                terms.append((wanted - cosine(a, b)) ** 2)
    return sum(terms) / len(terms) + lengths * sum((s / unit - 1) ** 2 for s in squares) / len(rows)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 12),
    dim=st.integers(1, 4),
    n_classes=st.integers(1, 5),
    lengths=st.sampled_from([0.0, 0.1, 3.0]),
    seed=st.integers(0, 1000),
)
def test_equals_two_plain_loops(n, dim, n_classes, lengths, seed):
    z, labels = some_rows(n, dim, seed=seed, offset=0.5), some_labels(n, n_classes, seed=seed)
    expected = plain(z.tolist(), labels.tolist(), lengths)
    assert float(pairwise(z, labels, lengths=lengths)) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_row_at_the_origin_has_no_direction():
    z, labels = some_rows(6, 3), torch.tensor([0, 1, 0, 1, 0, 1])
    z[2] = 0.0
    assert float(pairwise(z, labels)) == pytest.approx(plain(z.tolist(), labels.tolist()), rel=1e-9)
    value_and_gradients(lambda z: pairwise(z, labels), z)
    value, gradients = value_and_gradients(lambda z: pairwise(z, labels), torch.zeros(6, 3))
    assert value == pytest.approx(1.1)
    assert (gradients[0] == 0).all()


def test_gradients():
    labels = torch.tensor([0, 1, 0, 1, 2, 0, 2])
    check_gradient(lambda z: pairwise(z, labels), some_rows(7, 3))


def test_two_classes_can_be_opposite_and_three_stand_in_a_triangle():
    opposite = torch.tensor([[1.0, 2.0]]) * torch.tensor([[3.0], [-1.0], [0.5], [-2.0]])
    assert float(pairwise(opposite, torch.arange(4) % 2, lengths=0)) == pytest.approx(0.0, abs=1e-6)
    assert float(pairwise(opposite, torch.arange(4) % 2)) > 0.01
    angles = torch.arange(6).double() * 2 * math.pi / 3
    triangle = torch.stack([angles.cos(), angles.sin()], 1)
    # 24 pairs of 30 at 120 degrees: (-1 + 1/2)^2 each
    best = float(pairwise(triangle, torch.arange(6) % 3))
    assert best == pytest.approx(24 / 30 * 0.25)
    for seed in range(20):
        moved = triangle + 0.2 * some_rows(6, 2, seed=seed)
        assert float(pairwise(moved, torch.arange(6) % 3)) > best


@pytest.mark.parametrize("scale", SCALES)
def test_scale_does_not_matter(scale):
    z, labels = some_rows(30, 6, dtype=torch.float32), some_labels(30, 4)
    expected, gradients = value_and_gradients(lambda z: pairwise(z, labels), z)
    value, scaled = value_and_gradients(lambda z: pairwise(z, labels), z * scale)
    assert value == pytest.approx(expected, rel=1e-5)
    torch.testing.assert_close(scaled[0] * scale, gradients[0], rtol=1e-3, atol=1e-6)


def test_half_precision_is_computed_in_float32():
    z, labels = some_rows(20, 4, dtype=torch.bfloat16), some_labels(20, 3)
    assert pairwise(z, labels).dtype == torch.float32
    assert float(pairwise(z, labels)) == pytest.approx(float(pairwise(z.double(), labels)), rel=1e-5)


def test_no_pair_no_loss():
    check_nothing_to_learn(lambda z: pairwise(z, torch.tensor([1])), some_rows(1, 3))


def test_bad_input():
    with raises(InputError, "labels", "[4]"):
        pairwise(some_rows(4, 3), torch.zeros(3, dtype=torch.long))
    with raises(InputError, "z", "tensor"):
        pairwise(torch.zeros(3), torch.zeros(3, dtype=torch.long))
