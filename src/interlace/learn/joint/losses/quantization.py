"""L_C: the error of the codes, and the variance of their cross terms.

A row is the sum of one word w_k per book, so |q - sum w|^2 = sum |q - w_k|^2 - (K - 1) |q|^2 + cross, with

    cross = |sum w|^2 - sum |w|^2,  the sum of <w_i, w_j> over all pairs i != j

which search needs. Composite quantization keeps it near a constant (:func:`cross_penalty`); :mod:`.norm_byte` stores
it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ....errors import InputError
from .rows import as_rows


def quantization_error(z: Tensor, zq: Tensor) -> Tensor:
    """mean over rows of |z - zq|^2; its weight in the recipe is for z of total variance 1."""
    z = as_rows(z)
    return (z - as_rows(zq, "zq", z)).square().sum(1).mean()


def cross_terms(words_of_rows: Sequence[Tensor]) -> Tensor:
    """cross [batch]; element k holds the words of book k that encode the rows, [batch, dim]."""
    if not len(words_of_rows):
        raise InputError("cross terms need the words of at least one book, got none")
    first = as_rows(words_of_rows[0], "words of book 0")
    words = torch.stack([as_rows(w, f"words of book {k}", first) for k, w in enumerate(words_of_rows)])
    return words.sum(0).square().sum(1) - words.square().sum((0, 2))


def cross_penalty(words_of_rows: Sequence[Tensor], groups: Sequence[Sequence[int]]) -> Tensor:
    """sum over groups of the variance over the rows of the batch of the cross terms between the group's books.

    ``groups`` are lists of book numbers. Crude sums are compared among each other, so the crude group has a constant of
    its own. Pairs of books in different groups do not count, because hard groups share no dimension.
    """
    n_books = len(words_of_rows)
    if any(not 0 <= k < n_books for group in groups for k in group):
        raise InputError(f"groups must hold book numbers 0 to {n_books - 1}, got {[list(g) for g in groups]}")
    total = cross_terms(words_of_rows).sum() * 0.0
    for group in groups:
        if len(group) > 1:
            cross = cross_terms([words_of_rows[k] for k in group])
            total = total + (cross - cross.mean()).square().mean()
    return total
