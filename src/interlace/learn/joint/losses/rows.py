"""Shared by all losses: checks of rows and labels, distances between rows, and their unit."""

from __future__ import annotations

import torch
from torch import Tensor

from ....errors import InputError
from ....inputs.arrays import describe


def as_rows(z: Tensor, name: str = "z", like: Tensor | None = None) -> Tensor:
    """Floating rows [batch, dim], neither empty, of the shape of ``like``; half precision becomes float32."""
    if not isinstance(z, Tensor) or z.ndim != 2 or 0 in z.shape or not z.is_floating_point():
        raise InputError(f"{name} must be a floating tensor [batch, dim] with at least one row, got {describe(z)}")
    if like is not None and z.shape != like.shape:
        raise InputError(f"{name} must be of shape {tuple(like.shape)}, got {describe(z)}")
    return z.float() if z.dtype in (torch.float16, torch.bfloat16) else z


def check_labels(labels: Tensor, n_rows: int, name: str = "labels", n_classes: int | None = None) -> Tensor:
    """Integers [n_rows], from 0 to n_classes - 1 if that is given."""
    whole = isinstance(labels, Tensor) and not (labels.is_floating_point() or labels.is_complex())
    if not whole or labels.shape != (n_rows,):
        raise InputError(f"{name} must be whole numbers [{n_rows}], one per row, got {describe(labels)}")
    labels = labels.long()
    if n_classes is not None and n_rows and not 0 <= int(labels.min()) <= int(labels.max()) < n_classes:
        bad = int(((labels < 0) | (labels >= n_classes)).nonzero()[0])
        raise InputError(f"{name}[{bad}] is {int(labels[bad])}, expected 0 to {n_classes - 1}")
    return labels


def squared_distances(rows: Tensor, others: Tensor) -> Tensor:
    """|row - other|^2 as [rows, others], by one matrix product.

    Both are centred first, because far from the origin the squares would cancel. The shift changes no distance, so it
    needs no gradient.
    """
    centre = others.detach().mean(0)
    rows, others = rows - centre, others - centre
    squares = rows.square().sum(1)[:, None] + others.square().sum(1)[None, :]
    return (squares - 2 * rows @ others.T).clamp_min(0.0)


def total_variance(rows: Tensor) -> Tensor:
    """The mean squared distance of rows from their mean, the unit of squared distances; 1 if all rows are equal."""
    variance = (rows - rows.mean(0)).square().sum(1).mean()
    rounding = (8 * torch.finfo(rows.dtype).eps) ** 2 * rows.detach().square().sum(1).mean()
    return one_if_zero(torch.where(variance > rounding, variance, torch.zeros_like(variance)))


def one_if_zero(unit: Tensor) -> Tensor:
    """A divisor: the unit, or 1 (without gradient) where it is 0, so that 0 / 0 is 0 with a finite gradient."""
    return torch.where(unit > 0, unit, torch.ones_like(unit))


def zero_loss(*rows: Tensor) -> Tensor:
    """0 with a graph to the rows, so that a batch with nothing to learn from has zero gradients instead of None."""
    return torch.stack([r.sum() * 0.0 for r in rows]).sum()
