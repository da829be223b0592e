"""L_E by triplets: a row of the same class must be nearer than a row of another class, by a margin."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from .rows import as_rows, check_labels, squared_distances, total_variance

#: In units of the total variance. In these, the squared distance of two random rows is 2, as of random unit vectors.
MARGIN = 0.2


def triplet(z: Tensor, labels: Tensor, *, margin: float = MARGIN) -> Tensor:
    """mean over active triplets of |a - p|^2 - |a - n|^2 + margin, distances in units of the total variance.

    Over all triplets of the batch: p is another row of a's class, n a row of another class. A triplet is active if its
    term is positive; a mean over all triplets would vanish as most of them are solved. The loss does not depend on the
    scale of z. Sorted negatives and their cumulative sums give the active negatives of every (a, p) at once, in batch^2
    memory instead of batch^3.
    """
    z = as_rows(z)
    labels = check_labels(labels, len(z))
    same = labels[:, None] == labels[None, :]
    positive = same & ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    distances = squared_distances(z, z) / total_variance(z)
    negatives = distances.masked_fill(same, torch.inf).sort(1).values  # ascending, then inf
    sums = F.pad(negatives.masked_fill(negatives.isinf(), 0.0).cumsum(1), (1, 0))  # of the nearest 0, 1, 2, ...
    limits = distances + margin
    n_active = torch.searchsorted(negatives.detach(), limits.detach())
    terms = n_active * limits - sums.gather(1, n_active)
    return (terms * positive).sum() / (n_active * positive).sum().clamp_min(1)
