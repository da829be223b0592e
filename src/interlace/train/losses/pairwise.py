"""L_E of deep quantization networks (DQN): cosines between rows are 1 within a class and -1 between classes."""

from __future__ import annotations

import torch
from torch import Tensor

from .rows import as_rows, check_labels, nothing, or_one


def pairwise(z: Tensor, labels: Tensor) -> Tensor:
    """mean over pairs of rows i != j of (s_ij - cos(z_i, z_j))^2; s_ij is 1 for rows of one class, else -1.

    The paper's (Cao et al., AAAI 2016), as a mean where it sums. The scale of z changes nothing; the origin counts, and
    a row at it has cosine 0 with all. With more than two classes no z reaches 0: the best are corners of a simplex.
    """
    z = as_rows(z)
    labels = check_labels(labels, len(z))
    n_pairs = len(z) * (len(z) - 1)
    if not n_pairs:
        return nothing(z)
    unit = z / or_one(z.square().sum(1, keepdim=True)).sqrt()
    wanted = torch.where(labels[:, None] == labels[None, :], 1.0, -1.0).to(z.dtype)
    other = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    return ((wanted - unit @ unit.T).square() * other).sum() / n_pairs
