"""L_E by default: contrastive, by labels or by pairs, on the distances that search ranks by."""

from __future__ import annotations

import torch
from torch import Tensor

from ....errors import InputError
from ....inputs.arrays import describe
from .rows import as_rows, check_labels, squared_distances


def supervised_contrastive(queries: Tensor, keys: Tensor, labels: Tensor, scale: float) -> Tensor:
    """mean over queries q of the mean over their positives p of -log(exp(-scale |q - p|^2) / sum over keys k != q of
    exp(-scale |q - k|^2)).

    Key i belongs to row i, as query i does. With queries = z and keys = straight-through zq this is asymmetric search:
    a query ranks codes by distance, and those of its class should come first. Positives are the other keys with the
    query's label. Queries without a positive do not count; the loss is 0 if no query counts. ``scale`` is in units of
    1 / squared distance: divide it by the total variance if that is not 1.
    """
    queries = as_rows(queries, "queries")
    keys, labels = as_rows(keys, "keys", queries), check_labels(labels, len(queries))
    itself = torch.eye(len(queries), dtype=torch.bool, device=queries.device)
    positive = (labels[:, None] == labels[None, :]) & ~itself
    return _contrastive(queries, keys, positive, itself, scale)


def pair_contrastive(queries: Tensor, keys: Tensor, targets: Tensor, scale: float) -> Tensor:
    """The same for pairs: mean over queries q of the mean over their positives p of -log(exp(-scale |q - p|^2) / sum
    over positives and negatives k of exp(-scale |q - k|^2)).

    ``targets`` [queries, keys] is 1 for a positive, 0 for a negative, and -1 for a key that is neither, such as the
    query itself.
    """
    queries, keys = as_rows(queries, "queries"), as_rows(keys, "keys")
    whole = isinstance(targets, Tensor) and not (targets.is_floating_point() or targets.is_complex())
    if not whole or targets.shape != (len(queries), len(keys)):
        raise InputError(f"targets must be -1, 0 or 1 [{len(queries)}, {len(keys)}], got {describe(targets)}")
    return _contrastive(queries, keys, targets > 0, targets < 0, scale)


def _contrastive(queries: Tensor, keys: Tensor, positive: Tensor, neither: Tensor, scale: float) -> Tensor:
    logits = -scale * squared_distances(queries, keys)
    # The smallest number instead of -inf: a batch of one row has no other key, and its gradient must be finite.
    logits = logits.masked_fill(neither, torch.finfo(logits.dtype).min)
    n_positive = positive.sum(1)
    # The weights of a query sum to 1, or to 0 if it does not count.
    weights = positive.to(logits.dtype) / n_positive.clamp_min(1)[:, None]
    return -(logits.log_softmax(1) * weights).sum() / (n_positive > 0).sum().clamp_min(1)
