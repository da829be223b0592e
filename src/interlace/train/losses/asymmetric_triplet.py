"""L_E of product quantization networks (PQN): triplets as search sees them, a float query against codes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .rows import as_rows, check_labels, nothing, or_one

#: Similarities are worth this much: PQN's features are four parts of length 1, so that theirs run from -4 to 4.
SCALE = 4.0
#: Triplets that are looked at in one go.
BLOCK = 1 << 22


def asymmetric_triplet(z: Tensor, zq: Tensor, labels: Tensor, *, scale: float = SCALE) -> Tensor:
    """mean over all triplets (a, p, n) of the batch of 1 / (1 + exp(s(a, p) - s(a, n))).

    s(a, b) = scale <z_a, zq_b> / u; p is another row of a's class, n one of another class; u = mean |z|^2, so that the
    scale of z changes nothing.

    Kept of the paper (Yu et al., ECCV 2018): anchors are float, positives and negatives quantized; similarity is the
    inner product; the difference of similarities goes through the sigmoid, so that a hopeless triplet weighs no more
    than any other. Not kept: soft assignment (zq is straight-through here, its words are those of the codes), parts
    scaled to length 1 (u stands in), and triplets drawn beforehand (:func:`asymmetric_triplet_of` takes them).
    """
    z = as_rows(z)
    zq, labels = as_rows(zq, "zq", z), check_labels(labels, len(z))
    similarity = scale * (z @ zq.T) / _unit(z)
    same = labels[:, None] == labels[None, :]
    positive = same & ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    n_triplets = (positive.sum(1) * (~same).sum(1)).sum()
    if not n_triplets:
        return nothing(z, zq)
    total = nothing(similarity)
    for pairs in torch.split(positive.nonzero(), max(1, BLOCK // len(z))):
        # Recomputed for the gradient: a batch of 500 would keep some ten million numbers otherwise.
        total = total + checkpoint(_sum, similarity, same, pairs, use_reentrant=False, preserve_rng_state=False)
    return total / n_triplets


def asymmetric_triplet_of(anchor: Tensor, positive: Tensor, negative: Tensor, *, scale: float = SCALE) -> Tensor:
    """The same for triplets that were drawn before: float anchors, quantized positives and negatives [batch, dim]."""
    anchor = as_rows(anchor, "anchor")
    positive, negative = as_rows(positive, "positive", anchor), as_rows(negative, "negative", anchor)
    gaps = (anchor * (negative - positive)).sum(1)
    return torch.sigmoid(scale * gaps / _unit(anchor)).mean()


def _unit(z: Tensor) -> Tensor:
    return or_one(z.square().sum(1).mean())


def _sum(similarity: Tensor, same: Tensor, pairs: Tensor) -> Tensor:
    """Over pairs (a, p) and the negatives of a."""
    anchor, positive = pairs.T
    gaps = similarity[anchor] - similarity[anchor, positive][:, None]
    return torch.sigmoid(gaps).masked_fill(same[anchor], 0.0).sum()
