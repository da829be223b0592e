"""DPQ's soft and hard codes: one classifier, one centre for each class and the Gini terms, by plain loops."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace import InputError
from raising import raises

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from interlace.learn.joint.losses import CrossEntropy, gini, joint_central, soft_hard  # noqa: E402
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


def mean(rows):
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def plain_central(soft, hard, labels):
    rows, labels = soft + hard, labels + labels
    total = 0.0
    for row, label in zip(rows, labels, strict=True):
        total += distance(row, mean([r for r, other in zip(rows, labels, strict=True) if other == label]))
    spread = sum(distance(row, mean(rows)) for row in rows)
    return total / spread if spread else 0.0


def plain_entropy(rows, labels, weight, bias):
    total = 0.0
    for row, label in zip(rows, labels, strict=True):
        scores = [sum(x * y for x, y in zip(row, w, strict=True)) + b for w, b in zip(weight, bias, strict=True)]
        total += math.log(sum(math.exp(s) for s in scores)) - scores[label]
    return total / len(rows)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 12),
    dim=st.integers(1, 4),
    n_classes=st.integers(1, 5),
    central=st.sampled_from([0.0, 0.1, 3.0]),
    seed=st.integers(0, 1000),
)
def test_equals_plain_loops(n, dim, n_classes, central, seed):
    soft, hard = some_rows(n, dim, seed=seed, offset=1.0), some_rows(n, dim, seed=seed + 1, offset=1.0)
    labels = some_labels(n, n_classes, seed=seed)
    head = CrossEntropy(dim, n_classes, generator=torch.Generator().manual_seed(seed)).double()
    rows, of_rows = (soft.tolist(), hard.tolist()), labels.tolist()
    weight, bias = head.weight.tolist(), head.bias.tolist()
    expected = sum(plain_entropy(r, of_rows, weight, bias) for r in rows) + central * plain_central(*rows, of_rows)
    value = soft_hard(head, soft, hard, labels, central=central).detach()
    assert float(value) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert float(joint_central(soft, hard, labels)) == pytest.approx(plain_central(*rows, of_rows), rel=1e-9)


def test_gradients():
    labels = torch.tensor([0, 1, 0, 1, 2, 0, 2])
    head = CrossEntropy(3, 3, generator=torch.Generator().manual_seed(0)).double()
    rows = some_rows(7, 3), some_rows(7, 3, seed=1)
    check_gradient(lambda soft, hard: soft_hard(head, soft, hard, labels, central=2.0), *rows)
    check_gradient(lambda soft, hard: joint_central(soft, hard, labels), *rows)
    check_gradient(gini, some_rows(6, 4).softmax(1).reshape(2, 3, 4))


def test_the_head_learns_from_both():
    labels, soft, hard = torch.tensor([0, 1]), some_rows(2, 3), some_rows(2, 3, seed=1)
    head = CrossEntropy(3, 2, generator=torch.Generator().manual_seed(0)).double()
    (both,) = torch.autograd.grad(soft_hard(head, soft, hard, labels, central=1.0), [head.weight])
    apart = [torch.autograd.grad(head(rows, labels), [head.weight])[0] for rows in (soft, hard)]
    torch.testing.assert_close(both, apart[0] + apart[1])


def test_from_a_point_for_each_class_to_no_classes_at_all():
    labels = torch.tensor([0, 1, 0, 1])
    points = torch.tensor([[1.0, 0], [0, 5]])[labels]
    assert float(joint_central(points, points, labels)) == 0.0
    crossed = torch.tensor([[1.0, 0], [1, 0], [-1, 0], [-1, 0]])  # both classes have the same mean
    assert float(joint_central(crossed, crossed, labels)) == pytest.approx(1.0)


@pytest.mark.parametrize("scale", SCALES)
def test_scale_and_offset_do_not_matter(scale):
    soft, hard = some_rows(30, 6, dtype=torch.float32), some_rows(30, 6, seed=1, dtype=torch.float32)
    labels = some_labels(30, 4)
    expected, gradients = value_and_gradients(lambda s, h: joint_central(s, h, labels), soft, hard)
    moved = soft * scale + 3 * scale, hard * scale + 3 * scale
    value, scaled = value_and_gradients(lambda s, h: joint_central(s, h, labels), *moved)
    assert value == pytest.approx(expected, rel=1e-3)
    for one, other in zip(scaled, gradients, strict=True):
        torch.testing.assert_close(one * scale, other, rtol=1e-2, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(
    books=st.integers(1, 3), n=st.integers(1, 5), words=st.integers(1, 5), soft=st.booleans(), seed=st.integers(0, 99)
)
def test_gini_equals_plain_loops(books, n, words, soft, seed):
    weights = some_rows(books * n, words, seed=seed).softmax(1).reshape(books, n, words)
    weights = weights if soft else (weights == weights.max(2, keepdim=True).values).double()
    total = 0.0
    for book in weights.tolist():
        for k in range(words):
            total += (sum(row[k] for row in book) / n) ** 2 / books
            total -= sum(row[k] ** 2 for row in book) / n / books
    assert float(gini(weights)) == pytest.approx(total, rel=1e-9, abs=1e-12)
    assert -1 <= float(gini(weights)) <= 1e-12


def test_gini_wants_rows_that_are_sure_and_words_that_are_in_use():
    sure_and_spread = float(gini(torch.eye(4)[None]))
    undecided = float(gini(torch.full((1, 4, 4), 0.25)))
    one_word = float(gini(torch.eye(4)[:1].repeat(4, 1)[None]))
    assert sure_and_spread == pytest.approx(-0.75)
    assert undecided == one_word == 0.0


def test_rows_that_are_equal_cost_nothing():
    equal = torch.full((4, 3), 0.1)
    check_nothing_to_learn(lambda s, h: joint_central(s, h, torch.arange(4) % 2), torch.zeros(4, 3), torch.zeros(4, 3))
    value, _ = value_and_gradients(lambda s, h: joint_central(s, h, torch.arange(4) % 2), equal, equal)
    assert value == pytest.approx(0.0, abs=1e-6)


def test_bad_input():
    z = some_rows(4, 3)
    with raises(InputError, "hard", "(4, 3)"):
        joint_central(z, z[:, :2], torch.arange(4))
    with raises(InputError, "labels", "numbers"):
        joint_central(z, z, torch.zeros(4))
    with raises(InputError, "weights", "[n_books, batch, n_words]"):
        gini(z)
