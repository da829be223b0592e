"""The end of training: words and codes -> frozen codebooks, crude books first, with constants for the cross terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...codec.codebooks import Book, Codebooks, Norm
from ...codec.encode import encode
from ...engine.engine import Engine
from ...engine.options import SearchOptions
from ...engine.segments import Segment
from ...inputs.arrays import FloatArray
from .batches import Data
from .books import Books
from .losses.norm_byte import norm_byte_values
from .plans import books_on_psi
from .state import SAMPLE_ROWS, TrainingState

Codes = NDArray[np.int64]

#: The number of crude books is chosen for lists of this length, by searches of this many queries.
LIST_LENGTH, TRIAL_QUERIES = 100, 200
LAYOUTS = {"icq": "subspace", "cq": "composite", "pq": "product"}


def finish(state: TrainingState, data: Data, n_crude: int | None) -> Codebooks:
    """Codebooks of the current state. Without ``n_crude`` the number of crude books with the least work is taken."""
    books, plan = state.planned_books()
    recipe, settings = state.recipe, state.settings
    state.harden()
    support = books.support.cpu().numpy() > 0
    words = np.ascontiguousarray(books.effective().detach().cpu().numpy())
    z = state.embed(data, SAMPLE_ROWS)
    codes = books.encode(torch.from_numpy(z).to(state.device), recipe.sweeps).cpu().numpy()
    leading = list(range(plan.n_psi))
    if plan.xi is not None and not leading:
        leading = books_on_psi(words, plan.xi, recipe.crude)
    order = _by_energy(words, codes, leading)
    words, support = words[order], support[order]
    # Encode again, because greedy codes depend on the order of the books.
    codes = Books(torch.from_numpy(words), torch.from_numpy(support)).encode(torch.from_numpy(z), recipe.sweeps).numpy()
    final = [Book(w[:, dims], np.flatnonzero(dims).astype(np.uint32)) for w, dims in zip(words, support, strict=True)]
    described = {
        "dim": words.shape[2],
        "beam": 1,
        "sweeps": recipe.sweeps,
        "layout": LAYOUTS[settings.kind],
        "crude_dims": [] if plan.xi is None else np.flatnonzero(plan.xi),
        "variances": z.astype(np.float64).var(0),
        "norms": _norms(words, support, codes, settings.cross),
    }

    def with_crude(crude: int) -> Codebooks:
        rest = _decoded(words[crude:], codes[:, crude:]).var(0).sum() if crude < len(final) else 0.0
        return Codebooks(final, n_crude=crude, residual_variance=recipe.sigma * float(rest), **described)

    n_books, n_leading = len(final), len(leading)
    if n_crude is not None:
        return with_crude(n_crude)
    if n_books <= 2 or (plan.xi is not None and n_leading == 0):
        return with_crude(n_books)  # no second step, as in the paper with two books
    if plan.xi is None:  # product and composite books have no crude group
        n_leading = max(1, n_books // 4)
    tried = [with_crude(crude) for crude in range(1, n_leading + 1)]
    if len(tried) == 1:
        return tried[0]
    coded = encode(tried[0], z, 1)  # once, because codes do not depend on the number of crude books
    return min(tried, key=lambda codebooks: _search_work(codebooks, z, coded, settings.threads))


def _by_energy(words: FloatArray, codes: Codes, leading: list[int]) -> list[int]:
    """The order of the books: leading ones first, each part by the variance of its words in the data."""
    energy = [float(words[k][codes[:, k]].astype(np.float64).var(0).sum()) for k in range(len(words))]
    return sorted(range(len(words)), key=lambda k: (k not in leading, -energy[k]))


def _decoded(words: FloatArray, codes: Codes) -> FloatArray:
    """The sum of the words of each row."""
    return np.asarray(sum(book[codes[:, k]] for k, book in enumerate(words)))


def _norms(words: FloatArray, support: NDArray[np.bool_], codes: Codes, cross: str) -> list[Norm]:
    """Cross terms between books after the first: a constant for each set of books that overlap, or one column for all.

    Those with the first book are always exact, because rows with the same first code share a cell and its terms.
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
        squares = sum((words[j][codes[:, j]] ** 2).sum(1) for j in group)
        terms = (_decoded(words[group], codes[:, group]) ** 2).sum(1) - squares
        stored.append(terms)
        norms.append(Norm(np.array([np.mean(terms, dtype=np.float64)], np.float32), tuple(group)))
    if cross == "byte" and norms:  # sets of books share no dimension, so their terms add up
        return [Norm(norm_byte_values(sum(stored)), tuple(sorted(seen)))]
    return norms


def _search_work(codebooks: Codebooks, z: FloatArray, coded: NDArray[np.uint8], threads: int) -> float:
    """Table additions per row of an exact two-step search in which every row reads the crude books."""
    engine = Engine(codebooks, (Segment.pack(coded, codebooks),))
    queries = np.ascontiguousarray(z[:: max(1, len(z) // TRIAL_QUERIES)][:TRIAL_QUERIES])
    k = min(LIST_LENGTH, max(1, len(z) // 10))
    stats = engine.search(queries, SearchOptions(k=k, margin="exact", threads=threads)).stats
    return stats.two_step_ops(codebooks.n_books, codebooks.n_crude)
