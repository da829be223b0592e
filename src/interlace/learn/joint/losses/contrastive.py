"""L_E by default: supervised contrastive, on the very distances that search ranks by."""

from __future__ import annotations

import torch
from torch import Tensor

from ....errors import InputError
from .rows import as_rows, check_labels, squared_distances


def supervised_contrastive(
    queries: Tensor,
    keys: Tensor,
    labels: Tensor,
    scale: float,
    *,
    exclude_self: bool = True,
    key_labels: Tensor | None = None,
) -> Tensor:
    """mean over queries q of the mean over their positives p of -log(exp(-scale |q - p|^2) / sum over keys k of
    exp(-scale |q - k|^2)).

    With queries = z and keys = straight-through zq this is asymmetric search: a query ranks codes by distance, and all
    of its class should come first. Positives are the keys of the query's label. Key i is row i itself and is left
    out unless ``exclude_self`` is False. Queries without a positive do not count; when none counts the loss is 0.
    ``scale`` is in units of 1 / squared distance: divide by the total variance where that is not 1.
    ``key_labels`` are needed where there are other keys than the batch; the batch's own come first then.
    """
    queries, keys = as_rows(queries, "queries"), as_rows(keys, "keys")
    labels = check_labels(labels, len(queries))
    key_labels = labels if key_labels is None else key_labels
    key_labels = check_labels(key_labels, len(keys), "labels of keys")
    if queries.shape[1] != keys.shape[1]:
        raise InputError(f"queries have {queries.shape[1]} dimensions, keys {keys.shape[1]}")
    positive = labels[:, None] == key_labels[None, :]
    logits = -scale * squared_distances(queries, keys)
    if exclude_self:
        if len(keys) < len(queries):
            raise InputError(f"{len(queries)} queries cannot all be among {len(keys)} keys; give exclude_self=False")
        itself = torch.eye(len(queries), len(keys), dtype=torch.bool, device=queries.device)
        # The least number, not -inf: a batch of one row has no other key, and its gradient must stay finite.
        positive, logits = positive & ~itself, logits.masked_fill(itself, torch.finfo(logits.dtype).min)
    n_positive = positive.sum(1)
    # Of a query they are 1 in all, or 0 where it does not count.
    weights = positive.to(logits.dtype) / n_positive.clamp_min(1)[:, None]
    return -(logits.log_softmax(1) * weights).sum() / (n_positive > 0).sum().clamp_min(1)
