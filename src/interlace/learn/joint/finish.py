"""The end of training: words and codes -> frozen codebooks, crude books first, with constants for the cross terms."""

from __future__ import annotations

from dataclasses import dataclass
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
from .batches import TrainingRows
from .books import Books
from .losses.norm_byte import norm_byte_values
from .plans import books_on_psi
from .state import SAMPLE_ROWS, TrainingState

Codes = NDArray[np.int64]

#: The number of crude books is chosen for lists of this length, by searches of this many queries.
LIST_LENGTH, TRIAL_QUERIES = 100, 200
LAYOUTS = {"icq": "subspace", "cq": "composite", "pq": "product"}


@dataclass(frozen=True, eq=False)
class Draft:
    """Books in their final order, without the number of crude books: what an epoch would leave if it were the last."""

    books: list[Book]
    words: FloatArray  #: [n_books, n_words, dim], zero off the supports
    codes: Codes  #: of the sample of rows that the constants were computed from
    leading: int  #: books on psi, which come first
    described: dict[str, Any]  #: the other arguments of :class:`Codebooks`
    sigma: float  #: factor of the constant of margin="paper"
    sigma_rule: str

    def codebooks(self, n_crude: int) -> Codebooks:
        """The codebooks with that many crude books. The exhaustive ranking does not depend on it."""
        rest = 0.0
        psi = self.described["crude_dims"]
        if n_crude < len(self.books):
            # The paper's sigma is the sum of lambda over the dimensions off psi; books without psi have none.
            rest = (
                off_psi(self.described["variances"], psi)
                if self.sigma_rule == "variances" and len(psi)
                else (float(_decoded(self.words[n_crude:], self.codes[:, n_crude:]).var(0).sum()))
            )
        return Codebooks(self.books, n_crude=n_crude, residual_variance=self.sigma * rest, **self.described)


def draft(state: TrainingState, z: FloatArray) -> Draft:
    """The books of the current state, which it leaves unchanged; ``z`` is a sample of embedded rows."""
    books, plan = state.planned_books()
    recipe, settings = state.recipe, state.settings
    support = plan.support if recipe.hard_end else books.support.cpu().numpy() > 0
    words = np.ascontiguousarray(state.final_words().detach().cpu().numpy())
    own = Books(torch.from_numpy(words), torch.from_numpy(support))
    codes = own.encode(torch.from_numpy(z), recipe.sweeps).numpy()
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
    return Draft(final, words, codes, len(leading), described, recipe.sigma, recipe.sigma_rule)


def finish(state: TrainingState, data: TrainingRows, n_crude: int | None) -> Codebooks:
    """Codebooks of the current state. Without ``n_crude`` the number of crude books with the least work is taken."""
    state.harden()
    z = state.embed(data, SAMPLE_ROWS)
    drafted, split = draft(state, z), state.planned_books()[1].xi is not None
    n_books, n_leading = len(drafted.books), drafted.leading
    if n_crude is not None:
        return drafted.codebooks(n_crude)
    if n_books <= 2 or (split and n_leading == 0):
        return drafted.codebooks(n_books)  # no second step, as in the paper with two books
    if not split:  # product and composite books have no crude group
        n_leading = max(1, n_books // 4)
    tried = [drafted.codebooks(crude) for crude in range(1, n_leading + 1)]
    if len(tried) == 1:
        return tried[0]
    coded = encode(tried[0], z, 1)  # once, because codes do not depend on the number of crude books
    return min(tried, key=lambda codebooks: _search_work(codebooks, z, coded, state.settings.threads))


def off_psi(variances: NDArray[np.floating[Any]], psi: Any) -> float:
    """Sum of the variances of the dimensions that are not in ``psi``."""
    return float(np.delete(np.asarray(variances, np.float64), psi).sum())


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
