"""L_E of supervised quantization (SQ): how well a linear map predicts the labels from the quantized vector."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ....errors import InputError
from .rows import as_rows, check_labels, total_variance

RIDGE = 1e-3


def ridge_regression(zq: Tensor, labels: Tensor, n_classes: int, ridge: float = RIDGE) -> Tensor:
    """min over A, b of mean |y - A zq - b|^2 + ridge * s |A|^2: the first term at the best A and b.

    y [n_classes] is the one-hot label, s the mean square of the centred zq per dimension, so the loss does not depend
    on the scale of zq. A is solved for in each batch, with gradients through the solution, so it has no parameters that
    could lag behind the books.
    """
    if not ridge > 0:
        raise InputError(f"ridge must be more than 0, got {ridge!r}")
    rows = as_rows(zq, "zq")
    targets = F.one_hot(check_labels(labels, len(rows), n_classes=n_classes), n_classes)
    # The condition number is up to dim / ridge, so solve in float64, which MPS does not have.
    x = rows if rows.device.type == "mps" else rows.double()
    y = targets.to(x.dtype)
    n, dim = x.shape
    unit = (total_variance(x) / dim).sqrt()
    x, y = (x - x.mean(0)) / unit, y - y.mean(0)  # centring replaces the intercept b
    if n < dim:  # the same prediction from the smaller system
        gram = x @ x.T
        predicted = gram @ _solve(gram, n * ridge, y)
    else:
        gram = x.T @ x
        predicted = x @ _solve(gram, n * ridge, x.T @ y)
    return (y - predicted).square().sum(1).mean().to(rows.dtype)


def _solve(gram: Tensor, ridge: float, right: Tensor) -> Tensor:
    eye = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    solution: Tensor = torch.linalg.solve(gram + ridge * eye, right)
    return solution
