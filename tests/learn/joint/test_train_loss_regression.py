"""Ridge regression inside the batch: the best coefficients by another way, gradients through them, any scale."""

from __future__ import annotations

import numpy as np
import pytest

from interlace import InputError
from raising import raises

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from interlace.learn.joint.losses import ridge_regression  # noqa: E402
from loss_checks import (  # noqa: E402
    SCALES,
    check_gradient,
    check_nothing_to_learn,
    some_labels,
    some_rows,
    value_and_gradients,
)


def plain(rows, labels, n_classes, ridge):
    """One class at a time: least squares with rows for the penalty and a column for the intercept, then a loop."""
    x = np.array(rows)
    n, dim = x.shape
    unit = sum(sum((v - m) ** 2 for v, m in zip(row, x.mean(0), strict=True)) for row in x) / n / dim
    system = np.vstack([np.c_[x, np.ones(n)], np.c_[np.sqrt(n * ridge * unit) * np.eye(dim), np.zeros(dim)]])
    total = 0.0
    for label in range(n_classes):
        target = np.array([1.0 * (own == label) for own in labels])
        coefficients = np.linalg.lstsq(system, np.r_[target, np.zeros(dim)], rcond=None)[0]
        for row, wanted in zip(x, target, strict=True):
            total += (wanted - row @ coefficients[:-1] - coefficients[-1]) ** 2
    return total / n


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize(("n", "dim"), [(30, 4), (6, 6), (5, 9), (2, 3)])
def test_equals_least_squares(n, dim, ridge):
    z, labels = some_rows(n, dim, offset=2.0), some_labels(n, 3)
    assert float(ridge_regression(z, labels, 3, ridge)) == pytest.approx(
        plain(z.tolist(), labels.tolist(), 3, ridge), rel=1e-7, abs=1e-10
    )


def test_the_two_systems_agree_where_they_meet():
    z, labels = some_rows(6, 6), some_labels(6, 3)
    primal = ridge_regression(z, labels, 3)
    wide = torch.cat([z, torch.zeros(6, 1, dtype=z.dtype)], 1)  # a useless dimension: more dimensions than rows
    assert float(ridge_regression(wide, labels, 3, 1e-3 * 7 / 6)) == pytest.approx(float(primal), rel=1e-9)


@pytest.mark.parametrize(("n", "dim"), [(12, 3), (4, 6)])
def test_gradient_runs_through_the_solution(n, dim):
    labels = some_labels(n, 3, seed=1)
    check_gradient(lambda z: ridge_regression(z, labels, 3, 0.05), some_rows(n, dim))


def test_following_the_gradient_makes_labels_linear():
    z, labels = some_rows(60, 3).requires_grad_(), some_labels(60, 3)
    first = ridge_regression(z, labels, 3).item()
    optimiser = torch.optim.Adam([z], 0.05)
    for _ in range(60):
        optimiser.zero_grad()
        loss = ridge_regression(z, labels, 3)
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.2 * first


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dim", [4, 64])
def test_scale_and_offset_do_not_matter(scale, dim):
    z, labels = some_rows(40, dim, dtype=torch.float32), some_labels(40, 5)
    expected, gradients = value_and_gradients(lambda z: ridge_regression(z, labels, 5), z)
    value, scaled = value_and_gradients(lambda z: ridge_regression(z, labels, 5), z * scale + scale)
    assert value == pytest.approx(expected, rel=1e-4)
    torch.testing.assert_close(scaled[0] * scale, gradients[0], rtol=1e-2, atol=1e-5)


def test_batches_with_nothing_to_learn():
    check_nothing_to_learn(lambda z: ridge_regression(z, torch.tensor([2]), 4), some_rows(1, 5))
    check_nothing_to_learn(lambda z: ridge_regression(z, torch.full((6,), 2), 4), some_rows(6, 5))
    equal = torch.full(
        (7, 5), 0.1, dtype=torch.float64
    )  # their mean rounds: what is left of them must not be taken for data
    value, gradients = value_and_gradients(lambda z: ridge_regression(z, some_labels(7, 3), 3), equal)
    assert 0 < value < 1  # the error of the class shares alone
    assert gradients[0].abs().max() < 1e-3


def test_bad_input():
    z, labels = some_rows(4, 3), some_labels(4, 3)
    with raises(InputError, "ridge", 0):
        ridge_regression(z, labels, 3, 0.0)
    with raises(InputError, "expected 0 to 0"):
        ridge_regression(z, torch.tensor([0, 0, 1, 0]), 1)
    with raises(InputError, "zq", "tensor"):
        ridge_regression(labels, labels, 3)
