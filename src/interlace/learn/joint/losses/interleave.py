"""L_ICQ: each word lives on psi or on its complement, not on both; and which books are crude."""

from __future__ import annotations

import torch
from torch import Tensor

from ....errors import InputError
from ....inputs.arrays import describe
from .rows import or_one

RULES = ("energy", "forall")
#: Below this share of the words' length the norm bends to a square, so that its gradient exists at zero.
BEND = 1e-3


def interleaving(words: Tensor, xi: Tensor) -> Tensor:
    """mean over books and words of |c o xi| |c o (1 - xi)|, relative to the book's mean |c|^2: 0 (a clean split) to 1/2

    words [n_books, n_words, dim], xi bool [dim] marks psi. The paper sums; as a mean in each book's own unit, the
    weight gamma2 holds for any number and scale of words. In one unit for all, books of short words could go wherever
    they like, and they do: what they hide on psi is lost when groups become hard. The norms are
    sqrt(|.|^2 + e^2) - e: 0 at 0 and with gradient 0 there, so that words on one side stay there.
    """
    words, on_psi = _checked(words, xi)
    words = words / or_one(words.square().sum(2).mean(1)).sqrt()[:, None, None]

    def length(part: Tensor) -> Tensor:
        return (part.square().sum(2) + BEND**2).sqrt() - BEND

    return (length(words * on_psi) * length(words * ~on_psi)).mean()


def crude_books(words: Tensor, xi: Tensor, rule: str = "energy") -> list[int]:
    """The numbers of the books that belong to psi.

    ``"energy"``: those with more of their squares on psi than off it, over all words. ``"forall"``: the paper's, those
    with every single word longer on psi than off it; one stray (or zero) word loses the book, so it finds few.
    """
    if rule not in RULES:
        raise InputError(f"rule must be one of {', '.join(RULES)}, got {rule!r}")
    words, on_psi = _checked(words.detach(), xi)
    inside, outside = ((words * part).square().sum(2) for part in (on_psi, ~on_psi))
    crude = inside.sum(1) > outside.sum(1) if rule == "energy" else (outside < inside).all(1)
    return [int(k) for k in crude.nonzero()[:, 0]]


def _checked(words: Tensor, xi: Tensor) -> tuple[Tensor, Tensor]:
    if not isinstance(words, Tensor) or words.ndim != 3 or 0 in words.shape or not words.is_floating_point():
        raise InputError(f"words must be a floating tensor [n_books, n_words, dim], got {describe(words)}")
    if not isinstance(xi, Tensor) or xi.dtype != torch.bool or xi.shape != words.shape[2:]:
        raise InputError(f"xi must be a bool tensor [{words.shape[2]}], got {describe(xi)}")
    return words, xi.to(words.device)
