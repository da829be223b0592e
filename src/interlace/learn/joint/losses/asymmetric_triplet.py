"""L_E of product quantization networks (PQN): triplets as search sees them, a float query against codes."""

from __future__ import annotations

import torch
from torch import Tensor

from ....inputs.arrays import positive
from .rows import as_rows, check_labels, nothing, or_one

#: Similarities are worth this much: PQN's features are four parts of length 1, so that theirs run from -4 to 4.
SCALE = 4.0
#: Positives of an anchor. All of them would cost batch^3 / n_classes sigmoids and learn nothing more.
MOST = 8


def asymmetric_triplet(
    z: Tensor, zq: Tensor, labels: Tensor, *, scale: float = SCALE, most: int | None = MOST
) -> Tensor:
    """mean over triplets (a, p, n) of the batch of 1 / (1 + exp(s(a, p) - s(a, n))).

    s(a, b) = scale <z_a, zq_b> / u; p is one of the next ``most`` rows of a's class, counted round the batch (None: all
    of them), n every row of another class; u = mean |z|^2, so that the scale of z changes nothing. Batches are
    shuffled: the next rows are random ones.

    Kept of the paper (Yu et al., ECCV 2018): anchors are float, positives and negatives quantized; similarity is the
    inner product; the difference of similarities goes through the sigmoid, so that a hopeless triplet weighs no more
    than any other. Not kept: parts scaled to length 1 (u stands in), and triplets drawn beforehand
    (:func:`asymmetric_triplet_of` takes them). zq may be straight-through or softly assigned, as the paper's are.
    """
    z = as_rows(z)
    zq, labels = as_rows(zq, "zq", z), check_labels(labels, len(z))
    similarity = scale * (z @ zq.T) / _unit(z)
    same = labels[:, None] == labels[None, :]
    partners, there = _partners(labels, len(z) if most is None else positive(most, "most"))
    n_triplets = (there.sum(1) * (~same).sum(1)).sum()
    if not n_triplets:
        return nothing(z, zq)
    total, slopes = _sum(similarity.detach(), same, partners, there)
    # The slopes are known, so that no sigmoid needs to be kept for the gradient: the second term is 0 in value.
    return (total + (slopes * (similarity - similarity.detach())).sum()) / n_triplets


def asymmetric_triplet_of(anchor: Tensor, positive: Tensor, negative: Tensor, *, scale: float = SCALE) -> Tensor:
    """The same for triplets that were drawn before: float anchors, quantized positives and negatives [batch, dim]."""
    anchor = as_rows(anchor, "anchor")
    positive, negative = as_rows(positive, "positive", anchor), as_rows(negative, "negative", anchor)
    gaps = (anchor * (negative - positive)).sum(1)
    return torch.sigmoid(scale * gaps / _unit(anchor)).mean()


def _unit(z: Tensor) -> Tensor:
    return or_one(z.square().sum(1).mean())


def _partners(labels: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Row numbers [batch, at most ``most``] of the rows of a's class that follow a, and which of them are there."""
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
    """Over all triplets, and its derivative by each similarity; batch^2 numbers at a time."""
    # What is no triplet has a gap of -inf, whose sigmoid is 0 and flat.
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
