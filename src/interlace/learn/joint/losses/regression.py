"""L_E of supervised quantization (SQ): how well the labels follow linearly from the quantized vector."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from ....errors import InputError
from .rows import as_rows, check_labels, total_variance

RIDGE = 1e-3


def ridge_regression(zq: Tensor, labels: Tensor, n_classes: int, ridge: float = RIDGE) -> Tensor:
    """min over A, b of mean |y - A zq - b|^2 + ridge * s |A|^2: the first term at the best A and b.

    y [n_classes] is the one-hot label, s the mean square of the centred zq per dimension, so that the scale of zq
    changes nothing. A is solved for inside the batch, and the gradient runs through the solution: no parameters to
    learn, and no lag between them and the books.
    """
    if not ridge > 0:
        raise InputError(f"ridge must be more than 0, got {ridge!r}")
    rows = as_rows(zq, "zq")
    targets = F.one_hot(check_labels(labels, len(rows), n_classes=n_classes), n_classes)
    # The system is as ill-conditioned as dim / ridge; digits are cheap at this size, but not all devices have them.
    x = rows if rows.device.type == "mps" else rows.double()
    y = targets.to(x.dtype)
    n, dim = x.shape
    unit = (total_variance(x) / dim).sqrt()
    x, y = (x - x.mean(0)) / unit, y - y.mean(0)  # centring stands for the intercept
    if n < dim:  # the same prediction from the smaller of the two systems
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
