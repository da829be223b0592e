"""Locally optimized product quantization: cells, and for the rows of each a rotation of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...codec.codebooks import MAX_WORDS, Book, Codebooks
from ...errors import InputError
from ...index.parts import Parts
from ...inputs.arrays import FloatArray, positive
from ...learn.kmeans import means, nearest
from ...learn.settings import MAX_TRAIN_ROWS
from .parted import PartsModel
from .product import STARTS, Product, procrustes, rotated
from .vectors import Run

BOOKS = ("local", "shared")
#: Rows of all cells that count beside its own when the rotation of a cell is found, and when a word of it is.
COMMON_ROWS, PRIOR_ROWS = 400.0, 2.0
CELL_ROUNDS = 15


class LOPQ(PartsModel):
    """Locally optimized product quantization (Kalantidis, Avrithis: Locally Optimized Product Quantization for
    Approximate Nearest Neighbor Search, 2014).

    ``n_cells`` cells by k-means (at most 256); what a row differs from its cell by is rotated by the cell's own
    rotation and coded by product books. A code is a byte for the cell and one for each product book, of which there are
    ``n_books`` - 1.

    All cells start with the same rotation and books, those of :class:`OPQ` for what the cells leave. Then come
    ``iterations`` turns of codes, words and rotations, which each cell takes for itself; where it has few rows they
    stay near the common ones. ``books="local"`` has words for each cell, as in the paper, ``"shared"`` the same for all
    (rotations are always the cell's own): fewer bytes to store, and safer with few rows.

    Left out: the inverted multi-index, and visiting only the cells next to a query: a search asks all of them. The
    rotation of a cell takes 4 * dim^2 bytes, which :meth:`interlace.parts.PartsIndex.report` counts.
    """

    _estimator = "LOPQ"
    _other_bytes = 1

    def __init__(
        self,
        n_books: int = 8,
        *,
        n_cells: int = 64,
        books: str = "local",
        n_words: int = MAX_WORDS,
        n_crude: int | str = "auto",
        iterations: int = 25,
        max_train_rows: int = MAX_TRAIN_ROWS,
        seed: int = 0,
        threads: int | None = None,
        progress: Any = "auto",
    ) -> None:
        super().__init__(
            n_books,
            n_words=n_words,
            n_crude=n_crude,
            iterations=iterations,
            max_train_rows=max_train_rows,
            seed=seed,
            threads=threads,
            progress=progress,
        )
        self.n_cells = n_cells
        self.books = books

    def _check(self) -> None:
        if positive(self.n_cells, "n_cells") > MAX_WORDS:
            raise InputError(f"n_cells must be 1 to {MAX_WORDS}, got {self.n_cells}")
        if self.books not in BOOKS:
            raise InputError(f"books must be one of {', '.join(BOOKS)}, got {self.books!r}")

    def _compared(self, parts: Parts, x: FloatArray) -> FloatArray:
        return x

    def _learn_parts(self, x: FloatArray, run: Run) -> Parts:
        centres = run.kmeans(x, self.n_cells, CELL_ROUNDS)
        cells = nearest(x, centres, run.threads)[0]
        left = x - centres[cells]
        rows = [np.flatnonzero(cells == c) for c in range(len(centres))]
        n_books = min(run.n_books - 1, x.shape[1])
        products = _products(left, rows, n_books, self.books == "local", run)
        return Parts(
            [
                _part(left[mine], centre, product, run)
                for mine, centre, product in zip(rows, centres, products, strict=True)
            ],
            keys=centres,
        )


def _products(left: FloatArray, rows: list[NDArray[np.int64]], n_books: int, local: bool, run: Run) -> list[Product]:
    """Books and rotation of each cell, at first the same for all, then each for itself; ``rows`` are those of a cell.

    One turn is codes, words, rotations. With few rows in a cell its words keep near those that all cells have in
    common, and its rotation near the best one for all.
    """
    common = rotated(left, n_books, run.part(0.0, 0.5), STARTS, run.iterations)
    assert common.rotation is not None
    each = [Product(common.supports, [*common.words], common.mean, common.rotation) for _ in rows]
    left = left - common.mean
    y = np.asarray(left @ common.rotation, np.float32)
    for step in range(run.iterations):
        run.progress(f"cells {step + 1} of {run.iterations}", 0.5 + 0.5 * step / run.iterations)
        coded = np.empty_like(y)
        for j, dims in enumerate(common.supports):
            coded[:, dims] = _turn(np.ascontiguousarray(y[:, dims]), rows, common, each, j, local, run.threads)
        own = [left[mine].T.astype(np.float64) @ coded[mine] for mine in rows]
        mean = np.sum(own, axis=0) / len(left)
        for mine, products, product in zip(rows, own, each, strict=True):
            product.rotation = procrustes(products + COMMON_ROWS * mean)
            y[mine] = left[mine] @ product.rotation
    return each


def _turn(
    y: FloatArray,
    rows: list[NDArray[np.int64]],
    common: Product,
    each: list[Product],
    j: int,
    local: bool,
    threads: int,
) -> FloatArray:
    """New words of the j-th book, common and of each cell, for its part y of all rows; these as they are coded then."""
    labels = np.empty(len(y), np.int32)
    for mine, product in zip(rows, each, strict=True):
        labels[mine] = nearest(y[mine], product.words[j], threads)[0]
    common.words[j], _ = means(y, labels, common.words[j], threads)
    coded = np.empty_like(y)
    for mine, product in zip(rows, each, strict=True):
        product.words[j] = common.words[j]
        if local:
            found, counts = means(y[mine], labels[mine], common.words[j], threads)
            share = (counts / (counts + PRIOR_ROWS))[:, None]
            product.words[j] = (share * found + (1 - share) * common.words[j]).astype(np.float32)
        coded[mine] = product.words[j][labels[mine]]
    return coded


def _part(left: FloatArray, centre: FloatArray, product: Product, run: Run) -> Codebooks:
    """Codebooks of one cell. Their first book is a single word of no dimension: within the part there is one cell."""
    assert product.rotation is not None
    y = (left - product.mean) @ product.rotation
    variances = y.astype(np.float64).var(0) if len(y) else np.zeros(y.shape[1])
    n_crude = run.crude(1 + len(product.words))
    crude_dims = np.concatenate([np.zeros(0, np.int64), *product.supports[: n_crude - 1]])
    return Codebooks(
        [Book(np.zeros((1, 0), np.float32), np.zeros(0, np.uint32)), *product.books()],
        dim=left.shape[1],
        n_crude=n_crude,
        mean=centre + product.mean,
        rotation=product.rotation,
        layout="local product",
        crude_dims=crude_dims,
        variances=variances,
        residual_variance=float(np.delete(variances, crude_dims).sum()),
    )
