"""What the tests of all losses do: rows with classes, and gradients that are right, finite and there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the train extra is not installed")

SCALES = (1e-3, 1.0, 1e3)


def some_rows(n: int, dim: int, *, seed: int = 0, dtype: Any = None, offset: float = 0.0) -> Any:
    """Rows [n, dim], float64 unless said otherwise."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(n, dim, generator=generator, dtype=torch.float64) + offset).to(dtype or torch.float64)


def some_labels(n: int, n_classes: int, *, seed: int = 0) -> Any:
    return torch.randint(n_classes, (n,), generator=torch.Generator().manual_seed(seed))


def check_gradient(loss: Callable[..., Any], *inputs: Any) -> None:
    """Equal to finite differences, by every input."""
    assert torch.autograd.gradcheck(loss, [x.detach().double().requires_grad_() for x in inputs], atol=1e-6)


def value_and_gradients(loss: Callable[..., Any], *inputs: Any) -> tuple[float, Sequence[Any]]:
    """The value, a finite 0-d tensor with a graph, and finite gradients by every input, not None."""
    inputs = tuple(x.detach().clone().requires_grad_() for x in inputs)
    value = loss(*inputs)
    assert value.shape == ()
    assert torch.isfinite(value), value
    gradients = torch.autograd.grad(value, inputs)
    assert all(torch.isfinite(g).all() for g in gradients)
    return value.item(), gradients


def check_nothing_to_learn(loss: Callable[..., Any], *inputs: Any) -> None:
    """0 with zero gradients."""
    value, gradients = value_and_gradients(loss, *inputs)
    assert value == 0.0
    assert all((g == 0).all() for g in gradients)
