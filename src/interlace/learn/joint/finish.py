"""What was learned -> frozen codebooks: hard groups, crude books first, constants for the cross terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...codec.codebooks import Book, Codebooks, Norm
from ...codec.encode import encode
from ...engine import margins
from ...engine.searching import SURVIVORS, search_rows
from ...engine.segments import Segment
from ...inputs.arrays import FloatArray
from .batches import Data
from .books import Books
from .losses.interleave import crude_books
from .losses.quantization import norm_byte_values
from .state import SAMPLE_ROWS, State

#: The list length that the number of crude books is chosen for.
LIST_LENGTH = 100
TRIAL_QUERIES = 200


def finish(state: State, data: Data, n_crude: int | None) -> Codebooks:
    """Codebooks of what was learned from these rows, as it is now."""
    books, plan = state.planned_books()
    recipe, settings = state.recipe, state.settings
    state.harden()
    support = books.support.cpu().numpy() > 0
    words = np.ascontiguousarray(books.effective().detach().cpu().numpy())
    z = state.embed(data, SAMPLE_ROWS)
    codes = books.encode(torch.from_numpy(z).to(state.device), recipe.sweeps).cpu().numpy()
    leading = _leading(words, plan.xi, len(plan.groups[0]) if len(plan.groups) > 1 else 0, recipe.crude)
    order = _by_energy(words, codes, leading)
    words, support = words[order], support[order]
    # Anew, because in another order greedy codes are others: constants are to be those of the codes that rows get.
    codes = Books(torch.from_numpy(words), torch.from_numpy(support)).encode(torch.from_numpy(z), recipe.sweeps).numpy()
    known = {
        "dim": words.shape[2],
        "beam": 1,
        "sweeps": recipe.sweeps,
        "layout": {"icq": "subspace", "cq": "composite", "pq": "product"}[settings.kind],
        "crude_dims": [] if plan.xi is None else np.flatnonzero(plan.xi),
        "variances": z.astype(np.float64).var(0),
        "norms": _norms(words, support, codes, settings.cross),
    }
    found = [Book(w[:, dims], np.flatnonzero(dims).astype(np.uint32)) for w, dims in zip(words, support, strict=True)]

    def made(crude: int) -> Codebooks:
        unread = codes[:, crude:]
        rest = _sums(words[crude:], unread).var(0).sum() if unread.shape[1] else 0.0
        return Codebooks(found, n_crude=crude, residual_variance=recipe.sigma * float(rest), **known)

    n_books, n_leading = len(found), len(leading)
    if n_crude is not None:
        return made(n_crude)
    if n_books <= 2 or (plan.xi is not None and n_leading == 0):
        return made(n_books)  # nothing to skip: the whole code is read, as the paper does with two books
    if plan.xi is None:  # product and composite books have no crude group of their own
        n_leading = max(1, n_books // 4)
    tried = [made(crude) for crude in range(1, n_leading + 1)]
    if len(tried) == 1:
        return tried[0]
    coded = encode(tried[0], z, 1)  # codes do not depend on what is crude, and with many books they take long
    return min(tried, key=lambda one: _work(one, z, coded, settings.threads))


def _leading(words: FloatArray, xi: NDArray[np.bool_] | None, n_psi: int, rule: str) -> list[int]:
    """The books of psi: those that were put there, or those that the rule finds."""
    if n_psi:
        return list(range(n_psi))
    if xi is None:
        return []
    return crude_books(torch.from_numpy(words), torch.from_numpy(xi), rule)


def _by_energy(words: FloatArray, codes: NDArray[np.int64], leading: list[int]) -> list[int]:
    """Leading books first, each part by the variance that its words carry in the data."""
    energy = [float(words[k][codes[:, k]].astype(np.float64).var(0).sum()) for k in range(len(words))]
    return sorted(range(len(words)), key=lambda k: (k not in leading, -energy[k]))


def _sums(words: FloatArray, codes: NDArray[np.int64]) -> FloatArray:
    return np.asarray(sum(book[codes[:, k]] for k, book in enumerate(words)))


def _norms(words: FloatArray, support: NDArray[np.bool_], codes: NDArray[np.int64], cross: str) -> list[Norm]:
    """Cross terms between books after the first: a constant for each set of books that overlap, or one column for all.

    Those with the first book are exact in any case: rows with the same first code share a cell and its terms.
    """
    if cross == "exact":
        return []
    norms: list[Norm] = []
    stored: list[NDArray[np.floating[Any]]] = []
    seen: set[int] = set()
    for k in range(1, len(words)):
        group = [j for j in range(1, len(words)) if (support[j] & support[k]).any()]
        if len(group) < 2 or k in seen:
            continue
        seen.update(group)
        total = _sums(words[group], codes[:, group])
        squares = sum((words[j][codes[:, j]] ** 2).sum(1) for j in group)
        terms = (total**2).sum(1) - squares
        stored.append(terms)
        norms.append(Norm(np.array([np.mean(terms, dtype=np.float64)], np.float32), tuple(group)))
    if cross == "byte" and norms:  # sets share no dimension, so the sum of their terms is that of the books together
        return [Norm(norm_byte_values(sum(stored)), tuple(sorted(seen)))]
    return norms


def _work(codebooks: Codebooks, z: FloatArray, coded: NDArray[np.uint8], threads: int) -> float:
    """Table additions per row of an exact two-step search where every row pays for the crude books."""
    segments = (Segment.pack(coded, codebooks),)
    queries = np.ascontiguousarray(z[:: max(1, len(z) // TRIAL_QUERIES)][:TRIAL_QUERIES])
    k = min(LIST_LENGTH, max(1, len(z) // 10))
    work = search_rows(codebooks, segments, queries, k, margins.EXACT, threads)[3]
    survivors = float(work[:, SURVIVORS].mean()) / len(z)
    return codebooks.n_crude + (codebooks.n_books - codebooks.n_crude) * survivors
