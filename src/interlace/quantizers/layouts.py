"""The three layouts, learned from a sample by k-means: ``subspace``, ``residual``, ``hybrid``.

``subspace`` is the paper's split: principal axes, crude books on the leading dimensions, the others on the complement.
``residual`` lets every book span all dimensions, each coding what the ones before left, with a norm column.
``hybrid`` makes cells over all dimensions and applies the split to what the cells leave.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray
from ..codebooks import MAX_WORDS, Book, Codebooks, Norm
from ..encode import encode
from ..errors import InputError
from ..progress import Progress
from .grouping import Dims, balanced_groups, leading_groups, near_words_together
from .kmeans import kmeans, means, nearest

LAYOUTS = ("subspace", "residual", "hybrid")
HYBRID_BEAM = 8
N_CELLS = 256
REFITS = 6
RESIDUAL_BEAM = 5


@dataclass
class Learner:
    """What every layout needs: the sample, the budget, and where randomness comes from."""

    x: FloatArray  # [n, dim] rows of the sample; of length 1 for cosine
    n_bytes: int
    metric: str
    n_crude: int | None
    rng: np.random.Generator
    threads: int
    progress: Progress

    def kmeans(self, x: FloatArray, n_words: int = MAX_WORDS) -> FloatArray:
        """Words in scan order."""
        return near_words_together(kmeans(x, n_words, rng=self.rng, threads=self.threads))

    def crude(self, default: int, n_books: int) -> int:
        """Number of crude books."""
        return min(default if self.n_crude is None else self.n_crude, n_books)


def learn(
    x: FloatArray,
    *,
    n_bytes: int | None,
    n_books: int | None,
    layout: str,
    metric: str,
    n_crude: int | None,
    seed: int,
    threads: int,
    progress: Progress,
) -> Codebooks:
    """Codebooks of the given size for a sample; ``n_bytes`` counts norm columns, ``n_books`` does not."""
    if layout == "auto":
        layout = "hybrid" if (n_bytes or n_books or 0) > 1 and x.shape[1] > 1 else "subspace"
    if layout not in LAYOUTS:
        raise InputError(f"layout must be 'auto' or one of {', '.join(LAYOUTS)}, got {layout!r}")
    norms = 1 if layout == "residual" and metric == "l2" else 0
    if n_bytes is None:
        assert n_books is not None
        n_bytes = n_books + (norms if n_books > 2 else 0)
    books = n_bytes - (norms if n_bytes > 2 else 0)
    if n_crude is not None and not 1 <= n_crude <= books:
        raise InputError(f"n_crude must be 1 to {books} (the number of books), got {n_crude}")
    learner = Learner(x, n_bytes, metric, n_crude, np.random.default_rng(seed), threads, progress)
    return {"subspace": _subspace, "residual": _residual, "hybrid": _hybrid}[layout](learner)


def principal_axes(x: FloatArray) -> tuple[FloatArray, NDArray[np.float64]]:
    """Rotation [dim, dim] to axes of descending variance, with fixed signs, and the variances."""
    centred = x - x.mean(0, dtype=np.float64)
    variances, axes = np.linalg.eigh(centred.T.astype(np.float64) @ centred / max(1, len(x)))
    variances, axes = np.maximum(variances[::-1], 0.0), axes[:, ::-1]
    axes = axes * np.sign(axes[np.argmax(np.abs(axes), axis=0), np.arange(axes.shape[1])])
    return np.ascontiguousarray(axes, np.float32), variances


def _rotated(x: FloatArray, rotation: FloatArray) -> FloatArray:
    return np.asarray(x @ rotation, np.float32)


def _mean(x: FloatArray) -> FloatArray:
    return np.asarray(x.mean(0, dtype=np.float64), np.float32)


def _split(variances: NDArray[np.float64], n_books: int, n_leading: int, n_bits: float) -> list[Dims]:
    """Dimensions of each book: the first ones on the leading dimensions, the others balanced over the complement."""
    dim = len(variances)
    n_leading = min(n_leading, n_books - 1)
    leading = leading_groups(variances[: dim - (n_books - n_leading)], n_leading, n_bits) if n_leading else []
    start = int(leading[-1][-1]) + 1 if leading else 0
    return leading + balanced_groups(np.arange(start, dim), variances, n_books - n_leading)


def _leading(n_books: int, n_crude: int) -> int:
    """Books on the leading dimensions: a quarter, and no more than are crude.

    More of them prune better but starve the complement, and recall falls.
    """
    return min(max(1, n_books // 4), n_crude)


def _default_crude(n_bytes: int) -> int:
    """Crude books: three quarters, because a column of the scan is cheap and a survivor is not."""
    return min(9, max(1, 3 * n_bytes // 4))


def _product_books(learner: Learner, y: FloatArray, groups: list[Dims], done: float, share: float) -> list[Book]:
    books = []
    for i, dims in enumerate(groups):
        learner.progress(f"book {i + 1} of {len(groups)}", done + share * i / len(groups))
        books.append(Book(learner.kmeans(y[:, dims]), dims.astype(np.uint32)))
    return books


@dataclass(frozen=True)
class Split:
    """What the two layouts on principal axes share: the axes, and the dimensions of the crude books on them."""

    mean: FloatArray
    rotation: FloatArray
    variances: NDArray[np.float64]
    n_crude: int
    crude_dims: Dims

    def codebooks(self, learner: Learner, books: list[Book], layout: str, beam: int) -> Codebooks:
        return Codebooks(
            books,
            dim=learner.x.shape[1],
            n_crude=self.n_crude,
            metric=learner.metric,
            mean=self.mean,
            rotation=self.rotation,
            beam=beam,
            layout=layout,
            crude_dims=self.crude_dims,
            variances=self.variances,
            residual_variance=float(np.delete(self.variances, self.crude_dims).sum()),
        )


def _subspace(learner: Learner) -> Codebooks:
    mean = _mean(learner.x)
    rotation, variances = principal_axes(learner.x)
    n_books = min(learner.n_bytes, learner.x.shape[1])
    n_crude = learner.crude(_default_crude(n_books), n_books)
    groups = _split(variances, n_books, _leading(n_books, n_crude), 8.0 * learner.n_bytes)
    books = _product_books(learner, _rotated(learner.x - mean, rotation), groups, 0.0, 1.0)
    split = Split(mean, rotation, variances, n_crude, np.concatenate(groups[:n_crude]))
    return split.codebooks(learner, books, "subspace", beam=1)


def _hybrid(learner: Learner) -> Codebooks:
    mean = _mean(learner.x)
    centred = learner.x - mean
    learner.progress("cells", 0.0)
    cells = learner.kmeans(centred, N_CELLS)
    labels, _ = nearest(centred, cells, learner.threads)
    rotation, variances = principal_axes(centred - cells[labels])
    n_rest = min(learner.n_bytes - 1, learner.x.shape[1])
    n_crude = learner.crude(_default_crude(n_rest + 1), n_rest + 1)
    groups = _split(variances, n_rest, _leading(n_rest + 1, n_crude - 1), 8.0 * n_rest) if n_rest else []
    split = Split(mean, rotation, variances, n_crude, np.concatenate([np.zeros(0, np.int64), *groups[: n_crude - 1]]))
    y, rotated_cells = _rotated(centred, rotation), _rotated(cells, rotation)
    everything = np.arange(learner.x.shape[1], dtype=np.uint32)
    rest = _product_books(learner, y - rotated_cells[labels], groups, 0.3, 0.4)
    books = [Book(rotated_cells, everything), *rest]
    beam = min(HYBRID_BEAM, len(cells))
    for step in range(REFITS if groups else 0):
        learner.progress(f"refit {step + 1} of {REFITS}", 0.7 + 0.3 * step / REFITS)
        codes = encode(split.codebooks(learner, books, "hybrid", beam), learner.x, learner.threads)
        books = _refitted(books, y, codes.astype(np.int32), learner.threads)
    return split.codebooks(learner, books, "hybrid", beam)


def _refitted(books: list[Book], y: FloatArray, codes: NDArray[np.int32], threads: int) -> list[Book]:
    """Cells, then the other books, as the means of what the others leave to them.

    The beam codes a row in another cell than its nearest one when that leaves less; cells and books follow.
    """
    rest = np.zeros(y.shape, np.float32)
    for j, book in enumerate(books[1:], 1):
        rest[:, book.support] = book.words[codes[:, j]]
    cells, _ = means(y - rest, codes[:, 0].copy(), books[0].words, threads)
    left = y - cells[codes[:, 0]]
    refitted = [Book(cells, books[0].support)]
    for j, book in enumerate(books[1:], 1):
        words, _ = means(left[:, book.support], codes[:, j].copy(), book.words, threads)
        refitted.append(Book(words, book.support))
    return refitted


def _residual(learner: Learner) -> Codebooks:
    mean = _mean(learner.x)
    n_norms = 1 if learner.metric == "l2" and learner.n_bytes > 2 else 0
    n_books = learner.n_bytes - n_norms
    support = np.arange(learner.x.shape[1], dtype=np.uint32)
    left = learner.x - mean
    total = float((left.astype(np.float64) ** 2).sum(1).mean())
    books: list[Book] = []
    energies: list[float] = []
    for i in range(n_books):
        learner.progress(f"book {i + 1} of {n_books}", 0.9 * i / n_books)
        words = learner.kmeans(left)
        labels, _ = nearest(left, words, learner.threads)
        left = left - words[labels]
        books.append(Book(words, support))
        energies.append(float((left.astype(np.float64) ** 2).sum(1).mean()))
    n_crude = learner.crude(_default_crude(n_books), n_books)
    settings = {
        "dim": learner.x.shape[1],
        "n_crude": n_crude,
        "metric": learner.metric,
        "mean": mean,
        "beam": min(RESIDUAL_BEAM, len(books[0].words)),
        "layout": "residual",
        "variances": np.array([total, *energies]),
        "residual_variance": energies[n_crude - 1] - energies[-1],
    }
    if not n_norms:
        return Codebooks(books, **settings)
    learner.progress("norm column", 0.95)
    covers = tuple(range(1, n_books))
    draft = Codebooks(books, norms=[Norm(np.zeros(1, np.float32), covers, crude=True)], **settings)
    codes = encode(draft, learner.x, learner.threads)
    coded = [book.words[codes[:, 0 if i == 0 else draft.columns.index(i) + 1]] for i, book in enumerate(books)]
    whole = np.sum(coded[1:], axis=0, dtype=np.float32)
    cross = np.einsum("ij,ij->i", whole, whole) - sum(np.einsum("ij,ij->i", w, w) for w in coded[1:])
    values = np.sort(
        kmeans(cross[:, None].astype(np.float32), MAX_WORDS, rng=learner.rng, threads=learner.threads, iterations=30)[
            :, 0
        ]
    )
    return Codebooks(books, norms=[Norm(values, covers, crude=True)], **settings)
