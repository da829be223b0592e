"""Cross-entropy: a plain loop, gradients, and a head that depends on its generator alone."""

from __future__ import annotations

import math

import pytest

from interlace import InputError
from raising import raises

torch = pytest.importorskip("torch", reason="the train extra is not installed")

from interlace.learn.joint.losses import CrossEntropy  # noqa: E402
from loss_checks import SCALES, check_gradient, some_labels, some_rows, value_and_gradients  # noqa: E402


def head(dim=5, n_classes=3, seed=0, dtype=torch.float64):
    return CrossEntropy(dim, n_classes, generator=torch.Generator().manual_seed(seed)).to(dtype)


def plain(weight, bias, rows, labels):
    total = 0.0
    for row, label in zip(rows, labels, strict=True):
        scores = [sum(w * x for w, x in zip(ws, row, strict=True)) + b for ws, b in zip(weight, bias, strict=True)]
        total -= scores[label] - math.log(sum(math.exp(s) for s in scores))
    return total / len(rows)


@pytest.mark.parametrize(("n", "n_classes"), [(1, 3), (2, 1), (20, 3), (7, 10)])
def test_equals_a_plain_loop(n, n_classes):
    loss, z, labels = head(5, n_classes), some_rows(n, 5), some_labels(n, n_classes)
    with torch.no_grad():
        loss.bias.copy_(some_rows(1, n_classes, seed=3)[0])
    expected = plain(loss.weight.tolist(), loss.bias.tolist(), z.tolist(), labels.tolist())
    assert loss(z, labels).item() == pytest.approx(expected, abs=1e-12)


def test_gradients():
    loss, labels = head(), some_labels(6, 3)
    check_gradient(lambda z: loss(z, labels), some_rows(6, 5))
    loss(some_rows(6, 5), labels).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in loss.parameters())


def test_straight_through_codes_teach_words_and_embedding():
    z, words = some_rows(6, 5).requires_grad_(), some_rows(6, 5, seed=1).requires_grad_()
    through = words + z - z.detach()
    head()(through, some_labels(6, 3)).backward()
    assert torch.equal(z.grad, words.grad)
    assert z.grad.abs().sum() > 0


@pytest.mark.parametrize("scale", SCALES)
def test_scales_and_one_class_are_finite(scale):
    loss = head(dtype=torch.float32)
    z = some_rows(8, 5, dtype=torch.float32) * scale
    for labels in (some_labels(8, 3), torch.zeros(8, dtype=torch.long)):
        value, (gradient,) = value_and_gradients(lambda z, labels=labels: loss(z, labels), z)
        assert value >= 0
        assert gradient.shape == z.shape


def test_the_generator_decides_the_head_and_the_global_one_is_left_alone():
    before = torch.get_rng_state()
    weights = [head(seed=seed).weight for seed in (0, 0, 1)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("z", "labels", "facts"),
    [
        (torch.zeros(3), torch.zeros(3, dtype=torch.long), ("z", "[batch, dim]")),
        (torch.zeros(0, 5), torch.zeros(0, dtype=torch.long), ("at least one row",)),
        (torch.zeros(2, 5), torch.zeros(3, dtype=torch.long), ("labels", "[2]")),
        (torch.zeros(2, 5), torch.zeros(2), ("whole", "numbers")),
        (torch.zeros(2, 5), torch.tensor([0, 3]), ("labels[1]", 3, 0, 2)),
        (torch.zeros(2, 5), torch.tensor([0, -1]), ("labels[1]", "-1")),
    ],
)
def test_bad_input(z, labels, facts):
    with raises(InputError, *facts):
        head(dtype=torch.float32)(z, labels)


def test_bad_sizes():
    with pytest.raises(InputError, match="n_classes"):
        CrossEntropy(4, 0)
    with pytest.raises(InputError, match="dim"):
        CrossEntropy(0, 4)
