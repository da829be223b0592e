"""L_ICQ: each word is nonzero on psi or on its complement, not on both."""

from __future__ import annotations

import torch
from torch import Tensor

from ....errors import InputError
from ....inputs.arrays import describe
from .rows import one_if_zero

#: Below this share of the words' length the norm becomes quadratic, so that it has a gradient at zero.
BEND = 1e-3


def interleaving(words: Tensor, xi: Tensor, *, raw: bool = False) -> Tensor:
    """mean over books and words of |c o xi| |c o (1 - xi)|, relative to the book's mean |c|^2: 0 (a clean split) to 1/2

    words [n_books, n_words, dim]; xi bool [dim] marks psi. The paper sums. With a mean in the unit of each book, the
    weight gamma2 is valid for any number and scale of words. With one unit for all books, books of short words would
    ignore the split, and lose their part on psi when groups become hard. The norms are sqrt(|.|^2 + e^2) - e, which is
    0 with gradient 0 at 0, so that words on one side stay there.

    ``raw=True`` is the paper's: the sum over all words of the plain product of both lengths.
    """
    words, on_psi = _checked(words, xi)
    if raw:
        # The gradient of vector_norm at 0 is 0.
        inside, outside = (torch.linalg.vector_norm(words * part, dim=2) for part in (on_psi, ~on_psi))
        total: Tensor = (inside * outside).sum()
        return total
    words = words / one_if_zero(words.square().sum(2).mean(1)).sqrt()[:, None, None]

    def length(part: Tensor) -> Tensor:
        return (part.square().sum(2) + BEND**2).sqrt() - BEND

    return (length(words * on_psi) * length(words * ~on_psi)).mean()


def _checked(words: Tensor, xi: Tensor) -> tuple[Tensor, Tensor]:
    if not isinstance(words, Tensor) or words.ndim != 3 or 0 in words.shape or not words.is_floating_point():
        raise InputError(f"words must be a floating tensor [n_books, n_words, dim], got {describe(words)}")
    if not isinstance(xi, Tensor) or xi.dtype != torch.bool or xi.shape != words.shape[2:]:
        raise InputError(f"xi must be a bool tensor [{words.shape[2]}], got {describe(xi)}")
    return words, xi.to(words.device)
