"""Online variance: of all rows seen, the paper's formula, and a gradient that does not fade."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace import InputError
from raising import raises

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from interlace.learn.joint.variance import OnlineVariance  # noqa: E402
from loss_checks import SCALES, some_rows  # noqa: E402


def plain_variances(rows):
    """Column by column: the mean squared distance from the mean."""
    out = []
    for column in zip(*rows, strict=True):
        mean = sum(column) / len(column)
        out.append(sum((x - mean) ** 2 for x in column) / len(column))
    return out


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8), paper=st.booleans(), seed=st.integers(0, 99))
def test_equals_the_variance_of_all_rows_seen(sizes, paper, seed):
    rows = some_rows(sum(sizes), 3, seed=seed, offset=2.0)
    online, seen = OnlineVariance(paper=paper), 0
    for batch in rows.split(sizes):
        variances = online.update(batch)
        seen += len(batch)
        np.testing.assert_allclose(variances, plain_variances(rows[:seen].tolist()), rtol=1e-9, atol=1e-12)
    assert online.count == len(rows)
    np.testing.assert_allclose(online.mean, rows.mean(0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(online.variances, variances)


def test_equals_the_formula_of_the_paper_for_equal_batches():
    online, mean, variance = OnlineVariance(), None, None
    for b, batch in enumerate(some_rows(60, 4, offset=1.0).split(10), 1):
        batch_mean, batch_variance = batch.mean(0), batch.var(0, correction=0)
        if mean is None:
            mean, variance = batch_mean, batch_variance
        else:
            step = batch_mean - mean
            variance = variance + (batch_variance - variance) / b + (1 / b) * (1 - 1 / b) * step**2
            mean = mean + step / b
        torch.testing.assert_close(online.update(batch), variance)


def gradients(paper, n_batches=20):
    """The length of each batch's gradient of the sum of variances."""
    online, out = OnlineVariance(paper=paper), []
    for seed in range(n_batches):
        batch = some_rows(50, 4, seed=seed).requires_grad_()
        online.update(batch).sum().backward()
        out.append(float(batch.grad.norm()))
    return out


def test_the_gradient_does_not_fade_and_the_papers_does():
    ours, paper = gradients(False), gradients(True)
    assert min(ours) > 0.8 * max(ours)
    assert ours[0] == pytest.approx(paper[0], rel=1e-9)
    assert paper[-1] == pytest.approx(ours[-1] / 20, rel=0.2)


def test_the_gradient_is_that_of_the_batch():
    online, batch = OnlineVariance(), some_rows(7, 3, seed=1).requires_grad_()
    online.update(some_rows(9, 3))
    weights = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    (online.update(batch) * weights).sum().backward()
    expected = 2 * (batch - batch.mean(0)) / 7 * weights
    torch.testing.assert_close(batch.grad, expected.detach())


def test_the_papers_gradient_is_that_of_its_value():
    before = some_rows(9, 3)

    def value(batch):
        online = OnlineVariance(paper=True)
        online.update(before)
        return online.update(batch)

    assert torch.autograd.gradcheck(value, [some_rows(4, 3, seed=1, offset=1.0).requires_grad_()])


def test_reset_forgets():
    online = OnlineVariance()
    online.update(some_rows(9, 3) * 100)
    online.reset()
    batch = some_rows(5, 2, seed=1)  # of another size, even
    torch.testing.assert_close(online.update(batch), batch.var(0, correction=0))
    assert online.count == 5


@pytest.mark.parametrize("paper", [False, True])
def test_batches_of_one_row(paper):
    online, rows = OnlineVariance(paper=paper), some_rows(6, 3, dtype=torch.float32)
    for i in range(6):
        batch = rows[i : i + 1].clone().requires_grad_()
        variances = online.update(batch)
        variances.sum().backward()
        assert torch.isfinite(batch.grad).all()
    torch.testing.assert_close(variances.detach(), rows.var(0, correction=0))
    assert OnlineVariance().update(rows[:1]).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_many_float32_batches_far_from_zero(scale, offset):
    rows = (some_rows(4000, 2, offset=offset) * scale).float()
    online = OnlineVariance()
    for batch in rows.split(7):
        variances = online.update(batch)
    assert variances.dtype == torch.float32
    np.testing.assert_allclose(variances, rows.double().var(0, correction=0), rtol=1e-5)


def test_half_precision_and_no_graph():
    rows = some_rows(40, 3, dtype=torch.bfloat16)
    assert OnlineVariance().update(rows).dtype == torch.float32
    with torch.no_grad():
        assert not OnlineVariance().update(rows.requires_grad_()).requires_grad


@pytest.mark.parametrize("paper", [False, True])
def test_a_checkpoint_goes_on_where_it_was(paper):
    batches = some_rows(30, 3).split(8)
    whole, first, second = (OnlineVariance(paper=paper) for _ in range(3))
    first.load_state_dict(whole.state_dict())  # before the first batch
    for batch in batches[:2]:
        whole.update(batch)
        first.update(batch)
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    for batch in batches[2:]:
        assert torch.equal(whole.update(batch), second.update(batch))
    assert first.count == 16  # a copy, not a view


def test_bad_input():
    online = OnlineVariance()
    with pytest.raises(InputError, match="at least one row"):
        online.update(torch.zeros(0, 3))
    with raises(InputError, "z", "tensor"):
        online.update(torch.zeros(3))
    online.update(torch.zeros(2, 3))
    with raises(InputError, "z", 2, 3):
        online.update(torch.zeros(2, 2))
    with raises(InputError, "count", "variances"):
        online.load_state_dict({"count": torch.tensor(3)})
