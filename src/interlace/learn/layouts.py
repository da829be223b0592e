"""The three layouts: which dimensions each book gets, and which books are crude. ``Learner`` learns the books.

``subspace`` is the paper's split: principal axes; the bi-modal prior on their variances selects psi; the first books
are on psi, the others on its complement. ``residual`` lets every book span all dimensions, each encoding the residuals
of the previous books; many books after the first form groups, each of which spans a part of the dimensions. ``hybrid``
makes cells over all dimensions and splits the residuals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codebooks
from ..codec.encode import encode
from ..codec.metric import METRICS
from ..inputs.arrays import FloatArray
from .axes import column_variances, in_halves, principal_axes
from .books import Learner
from .cosine import with_query_length
from .grouping import BOOK_BITS, Dims, balanced_groups, fair_bits, group_sizes, leading_groups
from .kmeans import nearest
from .layout_rules import folds, scans_all
from .prior import split_dimensions
from .schedule import CELL_ROUNDS, ROTATION_KMEANS_ROUNDS, ROTATION_ROUNDS, default_crude

Variances = NDArray[np.float64]
#: Hybrid books on the leading dimensions, at most; a quarter of few books.
MOST_LEADING = 8
#: Rows that the spread of the cross terms is measured on, at most.
SPREAD_ROWS = 2048


def learn(learner: Learner, layout: str) -> Codebooks:
    """Codebooks of one layout."""
    return with_query_length(LAYOUTS[layout](learner), learner.x)


def subspace(learner: Learner) -> Codebooks:
    """Books on psi, books on its complement; additive books overlap inside each of the two."""
    settings, mean = learner.settings, _mean(learner.x)
    centred = learner.x - mean
    rotation, variances = _axes(learner, centred)
    y = centred if rotation is None else _rotated(centred, rotation)
    n_books = settings.max_books if settings.additive else min(settings.max_books, learner.dim)
    order = np.argsort(-variances, kind="stable")  # the identity for principal axes
    groups = _psi_groups(learner, variances[order], n_books)
    supports = [np.sort(order[dims]) for dims in groups.supports]
    n_crude = learner.crude(max(groups.n_psi, default_crude(n_books)), n_books)
    if rotation is not None and settings.rotation == "learned":
        rotation, y = _learned_rotation(learner, centred, rotation, supports)
    del centred  # frees a copy of the sample
    described = _described(learner, "subspace", mean, rotation, n_crude) | _crude(supports[:n_crude], variances)
    return learner.train(y, supports, described)


def hybrid(learner: Learner) -> Codebooks:
    """Cells over all dimensions, then the split on the residuals."""
    settings, mean = learner.settings, _mean(learner.x)
    centred = learner.x - mean
    rotation, variances = _residual_axes(learner, centred, mean)
    y = centred if rotation is None else _rotated(centred, rotation)
    del centred
    n_rest = settings.max_books - 1
    if not settings.additive:
        n_rest = min(n_rest, learner.dim)
    order = np.argsort(-variances, kind="stable")
    folded = folds(settings, n_rest + 1)
    usual = n_rest + 1 if scans_all(settings, n_rest + 1) else default_crude(n_rest + 1)
    n_crude = learner.crude(usual, n_rest + 1)
    groups: list[Dims] = []
    if n_rest and settings.additive:
        groups = _psi_groups(learner, variances[order], n_rest).supports
    elif n_rest:
        n_leading = min(max(1, (n_rest + 1) // 4), n_crude - 1, MOST_LEADING)  # no more than are crude
        groups = _leading_split(variances[order], n_rest, n_leading)
    supports = [np.sort(order[dims]) for dims in groups]
    described = _described(learner, "hybrid", mean, rotation, n_crude) | _crude(supports[: n_crude - 1], variances)
    codebooks = learner.train(y, [np.arange(learner.dim), *supports], described | {"folded": folded})
    if not folded:
        return codebooks
    return codebooks.with_sigma(codebooks.residual_variance + _cross_spread(codebooks, learner, first=0))


def residual(learner: Learner) -> Codebooks:
    """Every book over all dimensions; all of them are crude if the second step computes the cross terms.

    Many books form groups (:func:`group_sizes`): the first one spans all dimensions, those of a group a part of the
    principal axes.
    """
    settings, mean = learner.settings, _mean(learner.x)
    y = learner.x - mean
    n_books, sizes = settings.max_books, group_sizes(settings.max_books, learner.dim, len(y))
    rotation: FloatArray | None = None
    supports = [np.arange(learner.dim)] * n_books
    if len(sizes) > 1:
        rotation, variances = _residual_axes(learner, y, mean)
        y = y if rotation is None else _rotated(y, rotation)
        groups = balanced_groups(np.arange(learner.dim), variances, len(sizes))
        supports[1:] = [dims for dims, size in zip(groups, sizes, strict=True) for _ in range(size)]
    n_crude = learner.crude(default_crude(n_books) if settings.cross == "byte" else n_books, n_books)
    described = _described(learner, "residual", mean, rotation, n_crude)
    codebooks = learner.train(y, supports, described | {"folded": folds(settings, n_books)})
    # The paper's sigma: what the second step adds, which is the energy of the words of its books, and the spread of the
    # cross terms if it computes them.
    energies = np.array([float((book.words.astype(np.float64) ** 2).sum(1).mean()) for book in codebooks.books])
    arrays, description = codebooks.to_arrays()
    arrays["variances"] = column_variances(y)
    spread = _cross_spread(codebooks, learner) if METRICS[settings.metric].is_squared and not codebooks.norms else 0.0
    description["residual_variance"] = float(energies[n_crude:].sum()) + spread
    return Codebooks.from_arrays(arrays, description)


LAYOUTS: dict[str, Callable[[Learner], Codebooks]] = {"subspace": subspace, "hybrid": hybrid, "residual": residual}


def _described(learner: Learner, layout: str, mean: FloatArray, rotation: FloatArray | None, n_crude: int) -> Any:
    """Arguments of :class:`Codebooks` that all layouts have."""
    return {
        "dim": learner.dim,
        "n_crude": n_crude,
        "metric": learner.settings.metric,
        "mean": mean,
        "rotation": rotation,
        "layout": layout,
    }


def _crude(supports: list[Dims], variances: Variances) -> dict[str, Any]:
    """Arguments of :class:`Codebooks` about the dimensions of the crude books."""
    crude_dims = np.unique(np.concatenate([np.zeros(0, np.int64), *supports]))
    rest = float(np.delete(variances, crude_dims).sum())
    return {"crude_dims": crude_dims, "variances": variances, "residual_variance": rest}


def _cross_spread(codebooks: Codebooks, learner: Learner, first: int = 1) -> float:
    """Standard deviation of the cross terms between the books from ``first`` on."""
    coded = encode(codebooks, np.ascontiguousarray(learner.x[:SPREAD_ROWS]), learner.threads)
    codes = codebooks.code_numbers(coded)
    total, squares = np.zeros((len(codes), learner.dim)), np.zeros(len(codes))
    for j, book in enumerate(codebooks.books[first:], first):
        words = book.words[codes[:, j]].astype(np.float64)
        total[:, book.support] += words
        squares += (words**2).sum(1)
    return float(((total**2).sum(1) - squares).std())


def _residual_axes(learner: Learner, centred: FloatArray, mean: FloatArray) -> tuple[FloatArray | None, Variances]:
    """:func:`_axes` of what the cells leave of the rows, which are centred by ``mean``."""
    if learner.cells is None:
        cells, labels = learner.clusters(centred, CELL_ROUNDS, cells=True)
    else:
        cells = learner.cells - mean
        labels = nearest(centred, cells, learner.threads)[0]
    residuals = cells[labels]
    return _axes(learner, np.subtract(centred, residuals, out=residuals))


def _axes(learner: Learner, centred: FloatArray) -> tuple[FloatArray | None, Variances]:
    """The rotation to principal axes, or None, and the variances on the axes."""
    if learner.settings.rotation == "none":
        return None, column_variances(centred)
    rotation, variances = principal_axes(centred)
    return in_halves(rotation), variances


def _rotated(x: FloatArray, rotation: FloatArray) -> FloatArray:
    return np.asarray(x @ rotation, np.float32)


def _mean(x: FloatArray) -> FloatArray:
    return np.asarray(x.mean(0, dtype=np.float64), np.float32)


@dataclass(frozen=True)
class Groups:
    """Supports of the books in order; the first ``n_psi`` of them are on psi."""

    supports: list[Dims]
    n_psi: int


def _psi_groups(learner: Learner, variances: Variances, n_books: int) -> Groups:
    """Books on psi and on its complement; variances descend, so psi is a prefix of the dimensions.

    psi gets ``n_crude`` books if the user gave that, otherwise its fair share of the bits. With more than that, too few
    books are left for the complement, and recall falls.
    """
    dim, settings = len(variances), learner.settings
    if n_books == 1 or dim == 1:
        return Groups([np.arange(dim)] * n_books, n_books)
    psi, learner.fitted_prior = split_dimensions(variances, method=settings.prior)
    n_dims = int(psi.sum())
    fair = float(fair_bits(variances, BOOK_BITS * n_books)[:n_dims].sum()) / BOOK_BITS
    n_psi = min(settings.crude_books or max(1, round(fair)), n_books - 1)
    if settings.additive:
        return Groups([np.arange(n_dims)] * n_psi + [np.arange(n_dims, dim)] * (n_books - n_psi), n_psi)
    n_dims = min(max(n_dims, n_psi), dim - (n_books - n_psi))
    inside = leading_groups(variances[:n_dims], n_psi, BOOK_BITS * n_psi)
    if int(inside[-1][-1]) + 1 < n_dims:  # the last book takes the rest of psi
        inside[-1] = np.arange(int(inside[-1][0]), n_dims)
    outside = balanced_groups(np.arange(n_dims, dim), variances, n_books - n_psi)
    return Groups(inside + outside, n_psi)


def _leading_split(variances: Variances, n_books: int, n_leading: int) -> list[Dims]:
    """The first books on the leading dimensions, the others balanced over the complement."""
    dim = len(variances)
    n_leading = min(n_leading, n_books - 1)
    leading = leading_groups(variances[: dim - (n_books - n_leading)], n_leading, 8.0 * n_books) if n_leading else []
    start = int(leading[-1][-1]) + 1 if leading else 0
    return leading + balanced_groups(np.arange(start, dim), variances, n_books - n_leading)


def _learned_rotation(
    learner: Learner, centred: FloatArray, rotation: FloatArray, supports: list[Dims]
) -> tuple[FloatArray, FloatArray]:
    """Alternate between words for the rotated rows and the rotation that minimizes the error for these words."""
    for step in range(ROTATION_ROUNDS):
        learner.progress(f"rotation {step + 1} of {ROTATION_ROUNDS}", 0.0)
        y = _rotated(centred, rotation)
        decoded = np.empty_like(y)
        for dims in supports:
            part = np.ascontiguousarray(y[:, dims])
            words, labels = learner.clusters(part, ROTATION_KMEANS_ROUNDS)
            decoded[:, dims] = words[labels]
        left, _, right = np.linalg.svd(centred.T.astype(np.float64) @ decoded)
        rotation = in_halves(np.ascontiguousarray(left @ right, np.float32))
    return rotation, _rotated(centred, rotation)
