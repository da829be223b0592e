"""Which dimensions each book gets: the paper's split, composite books, product books."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ..grouping import balanced_groups
from ..recipe import Recipe
from .books import Plan

KINDS = ("icq", "cq", "pq")


def plan_for(
    kind: str, n_books: int, variances: NDArray[np.float64], xi: NDArray[np.bool_] | None, recipe: Recipe
) -> Plan:
    """``"icq"``: the first books on psi, the others on its complement; ``"cq"``: all on all; ``"pq"``: parts of equal
    weight. With one or two books there is no split: both quantize the whole space, as in the paper."""
    dim = len(variances)
    everything = tuple(range(n_books))
    if kind == "pq":
        if n_books > dim:
            raise InputError(f"{n_books} product books need as many dimensions, the embedding has dim={dim}")
        support = np.zeros((n_books, dim), np.bool_)
        for k, dims in enumerate(balanced_groups(np.arange(dim), variances, n_books)):
            support[k, dims] = True
        return Plan(support, tuple((k,) for k in everything), None)
    if kind == "cq" or n_books <= 2 or xi is None or xi.all() or not xi.any():
        return Plan(np.ones((n_books, dim), np.bool_), (everything,), None)
    if not recipe.split_start:  # as written: L_ICQ alone is to tell the groups apart
        return Plan(np.ones((n_books, dim), np.bool_), (everything,), xi)
    n_psi = min(max(1, round(recipe.psi_share * n_books)), n_books - 1)
    support = np.where((np.arange(n_books) < n_psi)[:, None], xi, ~xi)
    return Plan(support, (everything[:n_psi], everything[n_psi:]), xi)
