"""L_E of deep quantization networks (DQN): cosines between rows are 1 within a class and -1 between classes."""

from __future__ import annotations

import torch
from torch import Tensor

from .rows import as_rows, check_labels, one_if_zero, zero_loss

#: Weight of the lengths. With ten times as much, only lengths are learned.
LENGTHS = 0.1


def pairwise(z: Tensor, labels: Tensor, *, lengths: float = LENGTHS) -> Tensor:
    """mean over pairs of rows i != j of (s_ij - cos(z_i, z_j))^2, plus ``lengths`` times the mean of (|z|^2 / u - 1)^2.

    s_ij is 1 for rows of one class, else -1; u is the mean of |z|^2. The first term is the paper's (Cao et al., AAAI
    2016), as a mean instead of a sum. Cosines do not depend on lengths, but search ranks by distance: the second term
    keeps lengths equal, as tanh does in the paper. The loss does not depend on the scale of z, but on its origin; a row
    at the origin has cosine 0 with all others. With more than two classes the minimum is above 0, at the corners of a
    simplex.
    """
    z = as_rows(z)
    labels = check_labels(labels, len(z))
    n_pairs = len(z) * (len(z) - 1)
    if not n_pairs:
        return zero_loss(z)
    squares = z.square().sum(1)
    unit = z / one_if_zero(squares).sqrt()[:, None]
    uneven = (squares / one_if_zero(squares.mean()) - 1.0).square().mean()
    wanted = torch.where(labels[:, None] == labels[None, :], 1.0, -1.0).to(z.dtype)
    other = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    return ((wanted - unit @ unit.T).square() * other).sum() / n_pairs + lengths * uneven
