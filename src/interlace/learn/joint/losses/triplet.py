"""L_E as triplets: a row of the same class must be nearer than a row of another class, by a margin."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from .rows import as_rows, check_labels, squared_distances, total_variance

#: In units of the total variance, in which two random rows are 2 apart, as two random unit vectors are.
MARGIN = 0.2


def triplet(z: Tensor, labels: Tensor, *, margin: float = MARGIN) -> Tensor:
    """mean over active triplets of |a - p|^2 - |a - n|^2 + margin, distances in units of the total variance.

    All triplets of the batch: p is another row of a's class, n one of another class. A triplet is active where the
    term is positive; a mean over all would fade as most of them are solved. The scale of z changes nothing. Sorted
    negatives and their running sums give every (a, p) its active negatives at once: batch^2 numbers, not batch^3.
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


def triplet_of(anchor: Tensor, positive: Tensor, negative: Tensor, *, margin: float = MARGIN) -> Tensor:
    """The same for triplets that were drawn before, row i of each [batch, dim], as the paper's 400K are."""
    anchor = as_rows(anchor, "anchor")
    positive, negative = as_rows(positive, "positive", anchor), as_rows(negative, "negative", anchor)
    near, far = (anchor - positive).square().sum(1), (anchor - negative).square().sum(1)
    terms = F.relu((near - far) / total_variance(torch.cat([anchor, positive, negative])) + margin)
    return terms.sum() / (terms > 0).sum().clamp_min(1)
