"""The three layouts: which dimensions each book gets, and what is crude. ``Learner`` trains the books.

``subspace`` is the paper's split: principal axes, the bi-modal prior on their variances tells psi, books on psi first,
the others on its complement. ``residual`` lets every book span all dimensions, each coding what the ones before left.
``hybrid`` makes cells over all dimensions and applies the split to what the cells leave.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codebooks
from ..codec.encode import encode
from ..codec.metric import METRICS
from ..errors import InputError
from ..inputs.arrays import FloatArray
from .grouping import BOOK_BITS, Dims, balanced_groups, fair_bits, leading_groups
from .kmeans import nearest
from .learner import BLOCK, Learner, principal_axes
from .prior import split_dimensions
from .schedule import CELL_ROUNDS, LEARNED_ROUNDS, TURN_ROUNDS, default_crude

ROTATIONS = ("auto", "principal", "learned", "none")
CROSS = ("auto", "none", "exact", "byte")
SPREAD_ROWS = 2048


def subspace(learner: Learner) -> Codebooks:
    """Books on psi, books on its complement; with ``cross``, additive books inside each of the two."""
    mean = _mean(learner.x)
    centred = learner.x - mean
    rotation, variances = _axes(learner, centred)
    y = centred if rotation is None else _rotated(centred, rotation)
    order = np.argsort(-variances, kind="stable")  # the identity for principal axes
    additive = learner.cross in ("exact", "byte")
    n_books = learner.n_bytes - (learner.cross == "byte" and METRICS[learner.metric].is_squared)
    if not additive:
        n_books = min(n_books, learner.dim)
    groups = _psi_groups(learner, variances[order], n_books, additive)
    supports = [np.sort(order[dims]) for dims in groups.supports]
    n_crude = learner.crude(max(groups.n_psi, default_crude(n_books)), n_books)
    if rotation is not None and learner.rotation == "learned" and not additive:
        rotation, y = _learned_rotation(learner, centred, rotation, supports)
    del centred  # a copy of the sample less
    crude_dims = np.unique(np.concatenate(supports[:n_crude]))
    settings = _settings(learner, mean, rotation, n_crude, "subspace") | {
        "crude_dims": crude_dims,
        "variances": variances,
        "residual_variance": float(np.delete(variances, crude_dims).sum()),
    }
    return learner.train(y, supports, settings)


def hybrid(learner: Learner) -> Codebooks:
    """Cells over all dimensions, then the split on what the cells leave."""
    mean = _mean(learner.x)
    centred = learner.x - mean
    cells = learner.kmeans(centred, CELL_ROUNDS)
    left = cells[nearest(centred, cells, learner.threads)[0]]
    rotation, variances = _axes(learner, np.subtract(centred, left, out=left))
    del left  # copies of the sample
    y = centred if rotation is None else _rotated(centred, rotation)
    del centred
    additive = learner.cross in ("exact", "byte")
    n_rest = learner.n_bytes - 1 - (learner.cross == "byte" and METRICS[learner.metric].is_squared)
    if not additive:
        n_rest = min(n_rest, learner.dim)
    order = np.argsort(-variances, kind="stable")
    n_crude = learner.crude(default_crude(n_rest + 1), n_rest + 1)
    if additive:
        groups = _psi_groups(learner, variances[order], n_rest, True).supports if n_rest else []
    else:
        groups = _leading_split(variances[order], n_rest, _leading(n_rest + 1, n_crude - 1)) if n_rest else []
    supports = [np.sort(order[dims]) for dims in groups]
    crude_dims = np.unique(np.concatenate([np.zeros(0, np.int64), *supports[: n_crude - 1]]))
    settings = _settings(learner, mean, rotation, n_crude, "hybrid") | {
        "crude_dims": crude_dims,
        "variances": variances,
        "residual_variance": float(np.delete(variances, crude_dims).sum()),
    }
    return learner.train(y, [np.arange(learner.dim), *supports], settings)


def residual(learner: Learner) -> Codebooks:
    """Every book over all dimensions; all of them are crude where cross terms are left to the second step."""
    mean = _mean(learner.x)
    y = learner.x - mean
    norm = learner.cross == "byte" and METRICS[learner.metric].is_squared and learner.n_bytes > 2
    n_books = learner.n_bytes - norm
    n_crude = learner.crude(n_books if not norm else default_crude(n_books), n_books)
    settings = _settings(learner, mean, None, n_crude, "residual")
    codebooks = learner.train(y, [np.arange(learner.dim)] * n_books, settings)
    # The paper's sigma: what the second step adds, by the energy of the words of its books and the spread of the cross
    # terms where it computes them.
    energies = np.array([float((book.words.astype(np.float64) ** 2).sum(1).mean()) for book in codebooks.books])
    arrays, description = codebooks.to_arrays()
    arrays["variances"] = _variances(y)
    spread = _cross_spread(codebooks, learner) if METRICS[learner.metric].is_squared and not codebooks.norms else 0.0
    description["residual_variance"] = float(energies[n_crude:].sum()) + spread
    return Codebooks.from_arrays(arrays, description)


def _cross_spread(codebooks: Codebooks, learner: Learner) -> float:
    """Standard deviation of the cross terms between the books after the first."""
    codes = encode(codebooks, np.ascontiguousarray(learner.x[:SPREAD_ROWS]), learner.threads)
    words = [book.words[codes[:, j]].astype(np.float64) for j, book in enumerate(codebooks.books) if j > 0]
    if not words:
        return 0.0
    squares = sum((w**2).sum(1) for w in words)
    return float(((np.sum(words, axis=0) ** 2).sum(1) - squares).std())


LAYOUTS: dict[str, Callable[[Learner], Codebooks]] = {"subspace": subspace, "hybrid": hybrid, "residual": residual}


def learn(learner: Learner, layout: str) -> Codebooks:
    """Codebooks of one layout."""
    if layout not in LAYOUTS:
        raise InputError(f"layout must be 'auto' or one of {', '.join(LAYOUTS)}, got {layout!r}")
    return LAYOUTS[layout](learner)


def _settings(learner: Learner, mean: FloatArray, rotation: FloatArray | None, n_crude: int, layout: str) -> Any:
    return {
        "dim": learner.dim,
        "n_crude": n_crude,
        "metric": learner.metric,
        "mean": mean,
        "rotation": rotation,
        "layout": layout,
    }


def _axes(learner: Learner, centred: FloatArray) -> tuple[FloatArray | None, NDArray[np.float64]]:
    """The rotation to principal axes, or none, and the variances on the axes."""
    if learner.rotation == "none":
        return None, _variances(centred)
    return principal_axes(centred)


def _variances(centred: FloatArray) -> NDArray[np.float64]:
    """Of each column, added up in float64, a block at a time."""
    sums = np.zeros((2, centred.shape[1]))
    for start in range(0, len(centred), BLOCK):
        block = centred[start : start + BLOCK].astype(np.float64)
        sums += block.sum(0), (block * block).sum(0)
    mean, squares = sums / max(1, len(centred))
    return np.asarray(np.maximum(squares - mean * mean, 0.0))


def _rotated(x: FloatArray, rotation: FloatArray) -> FloatArray:
    return np.asarray(x @ rotation, np.float32)


def _mean(x: FloatArray) -> FloatArray:
    return np.asarray(x.mean(0, dtype=np.float64), np.float32)


class _Groups:
    """Supports of the books in order; the first ``n_psi`` of them are on psi."""

    def __init__(self, supports: list[Dims], n_psi: int) -> None:
        self.supports, self.n_psi = supports, n_psi


def _psi_groups(learner: Learner, variances: NDArray[np.float64], n_books: int, additive: bool) -> _Groups:
    """Books on psi and on its complement; variances descend, so psi is a prefix.

    psi gets as many books as were asked for, its fair share of the bits otherwise: more of them starve the complement,
    and recall falls.
    """
    dim = len(variances)
    if n_books == 1 or dim == 1:
        return _Groups([np.arange(dim)] * n_books, n_books)
    psi, learner.fitted_prior = split_dimensions(variances, method=learner.prior)
    n_dims = int(psi.sum())
    fair = float(fair_bits(variances, BOOK_BITS * n_books)[:n_dims].sum()) / BOOK_BITS
    n_psi = min(max(1, round(fair) if learner.n_psi is None else learner.n_psi), n_books - 1)
    if additive:
        return _Groups([np.arange(n_dims)] * n_psi + [np.arange(n_dims, dim)] * (n_books - n_psi), n_psi)
    n_dims = min(max(n_dims, n_psi), dim - (n_books - n_psi))
    inside = leading_groups(variances[:n_dims], n_psi, BOOK_BITS * n_psi)
    start = int(inside[-1][-1]) + 1
    if start < n_dims:  # the last one takes what is left of psi
        inside[-1] = np.arange(int(inside[-1][0]), n_dims)
    outside = balanced_groups(np.arange(n_dims, dim), variances, n_books - n_psi)
    return _Groups(inside + outside, n_psi)


def _leading_split(variances: NDArray[np.float64], n_books: int, n_leading: int) -> list[Dims]:
    """The first books on the leading dimensions, the others balanced over the complement."""
    dim = len(variances)
    n_leading = min(n_leading, n_books - 1)
    leading = leading_groups(variances[: dim - (n_books - n_leading)], n_leading, 8.0 * n_books) if n_leading else []
    start = int(leading[-1][-1]) + 1 if leading else 0
    return leading + balanced_groups(np.arange(start, dim), variances, n_books - n_leading)


def _leading(n_books: int, n_crude: int) -> int:
    """Books on the leading dimensions of a residual: a quarter, and no more than are crude."""
    return min(max(1, n_books // 4), n_crude)


def _learned_rotation(
    learner: Learner, centred: FloatArray, rotation: FloatArray, supports: list[Dims]
) -> tuple[FloatArray, FloatArray]:
    """Rotation and books in turns: words for the rotated rows, then the rotation that brings rows nearest to them."""
    for step in range(LEARNED_ROUNDS):
        learner.progress(f"rotation {step + 1} of {LEARNED_ROUNDS}", 0.0)
        y = _rotated(centred, rotation)
        coded = np.empty_like(y)
        for dims in supports:
            part = np.ascontiguousarray(y[:, dims])
            words = learner.kmeans(part, TURN_ROUNDS)
            labels, _ = nearest(part, words, learner.threads)
            coded[:, dims] = words[labels]
        left, _, right = np.linalg.svd(centred.T.astype(np.float64) @ coded)
        rotation = np.ascontiguousarray(left @ right, np.float32)
    return rotation, _rotated(centred, rotation)
