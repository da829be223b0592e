"""L_E of product quantization networks (PQN): triplets of a float query and quantized rows, as in search."""

from __future__ import annotations

import torch
from torch import Tensor

from ....errors import InputError
from ....inputs.arrays import positive
from .rows import as_rows, check_labels, one_if_zero, zero_loss

#: Scale of similarities. PQN's features are four parts of length 1, so its similarities range from -4 to 4.
SCALE = 4.0
#: Positives of an anchor. All of them would cost batch^3 / n_classes sigmoids without learning better.
MOST = 8


def asymmetric_triplet(
    z: Tensor, zq: Tensor, labels: Tensor, *, scale: float = SCALE, most: int | None = MOST
) -> Tensor:
    """mean over triplets (a, p, n) of the batch of 1 / (1 + exp(s(a, p) - s(a, n))).

    s(a, b) = scale <z_a, zq_b> / u with u = mean |z|^2, so the loss does not depend on the scale of z. p is one of the
    next ``most`` rows of a's class in the batch, cyclically (None: all of them), n every row of another class. Batches
    are shuffled, so the next rows are random ones.

    As in the paper (Yu et al., ECCV 2018), anchors are float, positives and negatives quantized; similarity is the
    inner product; and the sigmoid bounds the weight of a triplet. Unlike the paper, u replaces parts scaled to length
    1, and triplets are those of the batch instead of a list drawn in advance. zq may be straight-through or softly
    assigned.
    """
    z = as_rows(z)
    zq, labels = as_rows(zq, "zq", z), check_labels(labels, len(z))
    similarity = scale * (z @ zq.T) / _unit(z)
    same = labels[:, None] == labels[None, :]
    partners, there = _partners(labels, len(z) if most is None else positive(most, "most"))
    n_triplets = (there.sum(1) * (~same).sum(1)).sum()
    if not n_triplets:
        return zero_loss(z, zq)
    total, slopes = _sum(similarity.detach(), same, partners, there)
    # The derivatives are computed with the sum, so autograd stores no sigmoid: the second term is 0 in value.
    return (total + (slopes * (similarity - similarity.detach())).sum()) / n_triplets


def listed_triplet(z: Tensor, zq: Tensor, *, scale: float = SCALE) -> Tensor:
    """The same mean over the triplets of a list: rows are all anchors, then all positives, then all negatives."""
    z = as_rows(z)
    zq = as_rows(zq, "zq", z)
    if len(z) % 3:
        raise InputError(f"a list of triplets has three rows for each, got {len(z)} rows")
    n = len(z) // 3
    anchors, near, far = z[:n], zq[n : 2 * n], zq[2 * n :]
    gap = scale * ((anchors * far).sum(1) - (anchors * near).sum(1)) / _unit(z)
    return gap.sigmoid().mean()


def _unit(z: Tensor) -> Tensor:
    return one_if_zero(z.square().sum(1).mean())


def _partners(labels: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Row numbers [batch, at most ``most``] of the rows of a's class that follow a, and a mask of the real ones."""
    order = labels.argsort(stable=True)  # by class; a class is a run, in the order of the batch
    _, number, size = torch.unique_consecutive(labels[order], return_inverse=True, return_counts=True)
    start, count = (size.cumsum(0) - size)[number], size[number]
    step = torch.arange(1, 1 + min(most, int(size.max()) - 1), device=labels.device)
    place = torch.arange(len(labels), device=labels.device) - start  # within the run
    partners = torch.empty(len(labels), len(step), dtype=torch.int64, device=labels.device)
    there = torch.empty_like(partners, dtype=torch.bool)
    partners[order] = order[start[:, None] + (place[:, None] + step) % count[:, None]]
    there[order] = step < count[:, None]
    return partners, there


def _sum(similarity: Tensor, same: Tensor, partners: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
    """The sum over all triplets and its derivative by each similarity, with batch^2 numbers at a time."""
    # Pairs that form no triplet get a difference of -inf, whose sigmoid and derivative are 0.
    negatives = similarity.masked_fill(same, -torch.inf)
    positives = similarity.gather(1, partners).masked_fill(~there, torch.inf)
    total, slopes = similarity.new_zeros(()), torch.zeros_like(similarity)
    for j in range(partners.shape[1]):
        terms = (negatives - positives[:, j, None]).sigmoid_()
        total += terms.sum()
        slope = torch.addcmul(terms, terms, terms, value=-1.0)
        slopes += slope
        slopes.scatter_add_(1, partners[:, j, None], -slope.sum(1, keepdim=True))
    return total, slopes
