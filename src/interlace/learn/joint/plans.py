"""Which dimensions each book gets, and which books belong to psi."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...inputs.arrays import FloatArray
from ..grouping import balanced_groups
from ..recipe import Recipe


@dataclass(frozen=True)
class BookPlan:
    """Which dimensions each book gets, and which books belong together."""

    support: NDArray[np.bool_]  #: [n_books, dim]
    groups: tuple[tuple[int, ...], ...]  #: books that share dimensions; the first group is on psi if books are split
    xi: NDArray[np.bool_] | None  #: psi as a mask [dim]; None if the books are not split

    @property
    def n_psi(self) -> int:
        """Books that start on psi; 0 if all books start on all dimensions."""
        return len(self.groups[0]) if len(self.groups) > 1 else 0


def plan_for(
    kind: str, n_books: int, variances: NDArray[np.float64], xi: NDArray[np.bool_] | None, recipe: Recipe
) -> BookPlan:
    """``"icq"``: the first books on psi, the others on its complement. ``"cq"``: all books on all dimensions. ``"pq"``:
    parts of equal weight.

    One or two books are not split: both quantize the whole space, as in the paper.
    """
    dim = len(variances)
    everything = tuple(range(n_books))
    if kind == "pq":
        if n_books > dim:
            raise InputError(f"{n_books} product books need at least {n_books} dimensions, the embedding has dim={dim}")
        support = np.zeros((n_books, dim), np.bool_)
        for k, dims in enumerate(balanced_groups(np.arange(dim), variances, n_books)):
            support[k, dims] = True
        return BookPlan(support, tuple((k,) for k in everything), None)
    if kind == "cq" or n_books <= 2 or xi is None or xi.all() or not xi.any():
        return BookPlan(np.ones((n_books, dim), np.bool_), (everything,), None)
    if not recipe.split_start:  # as in the paper: L_ICQ alone separates the groups
        return BookPlan(np.ones((n_books, dim), np.bool_), (everything,), xi)
    n_psi = min(max(1, round(recipe.psi_share * n_books)), n_books - 1)
    support = np.where((np.arange(n_books) < n_psi)[:, None], xi, ~xi)
    return BookPlan(support, (everything[:n_psi], everything[n_psi:]), xi)


def books_on_psi(words: FloatArray, xi: NDArray[np.bool_], rule: str) -> list[int]:
    """Numbers of the books that L_ICQ has moved to psi; words [n_books, n_words, dim].

    ``"energy"``: books whose words have more of their squares on psi than off it, in total. ``"forall"`` is the paper's
    rule: books of which every single word is longer on psi than off it. One exception excludes the book, so it finds
    few.
    """
    inside, outside = ((words[:, :, part] ** 2).sum(2) for part in (xi, ~xi))
    found = inside.sum(1) > outside.sum(1) if rule == "energy" else (outside < inside).all(1)
    return [int(k) for k in np.flatnonzero(found)]
