"""Locally optimized product quantization: cells, each with its own rotation and product books."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ...codec.codebooks import MAX_WORDS, Book, Codebooks
from ...errors import InputError
from ...index.parts import Parts
from ...inputs.arrays import FloatArray, positive
from ...inputs.literals import Auto
from ...learn.kmeans import means, nearest
from ...learn.settings import MAX_TRAIN_ROWS
from .parted import PartsModel
from .product import STARTS, Product, procrustes, rotated
from .vectors import FitRun

BOOKS = ("local", "shared")
#: Weight, in rows, of the rotation common to all cells and of the common words, when those of a cell are learned.
COMMON_ROWS, PRIOR_ROWS = 400.0, 2.0
CELL_ROUNDS = 15


class LOPQ(PartsModel):
    """Locally optimized product quantization (Kalantidis, Avrithis: Locally Optimized Product Quantization for
    Approximate Nearest Neighbor Search, 2014).

    k-means finds ``n_cells`` cells (at most 256). The residual of a row is rotated by the rotation of its cell and
    encoded by product books. A code has one byte for the cell and one for each of the ``n_books`` - 1 product books.

    All cells start with the same rotation and books, those of :class:`OPQ` for the residuals. Each of the
    ``iterations`` then updates codes, words and rotations of every cell; those of cells with few rows stay near the
    common ones. ``books="local"`` learns words for each cell, as in the paper; ``"shared"`` uses the same words for all
    cells, which needs less memory and overfits less with few rows. Rotations always belong to a cell.

    Not implemented: the inverted multi-index, and visiting only the cells near a query (a search visits all cells). The
    rotation of a cell takes 4 * dim^2 bytes, which :meth:`interlace.parts.PartsIndex.report` counts.
    """

    name_in_files = "LOPQ"
    extra_bytes = 1

    def __init__(
        self,
        n_books: int = 8,
        *,
        n_cells: int = 64,
        books: Literal["local", "shared"] = "local",
        n_words: int = MAX_WORDS,
        n_crude: int | Auto = "auto",
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

    def check_parameters(self) -> None:
        """Validate ``n_cells`` and ``books``."""
        if positive(self.n_cells, "n_cells") > MAX_WORDS:
            raise InputError(f"n_cells must be 1 to {MAX_WORDS}, got {self.n_cells}")
        if self.books not in BOOKS:
            raise InputError(f"books must be one of {', '.join(BOOKS)}, got {self.books!r}")

    def part_features(self, parts: Parts, x: FloatArray) -> FloatArray:
        """The rows themselves: the keys are the centres of the cells."""
        return x

    def learn_parts(self, x: FloatArray, run: FitRun) -> Parts:
        """Cells by k-means, then rotation and product books of each cell."""
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


def _products(left: FloatArray, rows: list[NDArray[np.int64]], n_books: int, local: bool, run: FitRun) -> list[Product]:
    """Books and rotation of each cell, starting from common ones; ``rows`` has the row numbers of each cell.

    An iteration updates codes, words and rotations. The words and the rotation of a cell with few rows stay near the
    common ones.
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
    """Updates the j-th book, common and of each cell, for the dimensions y of that book; returns the decoded y."""
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


def _part(left: FloatArray, centre: FloatArray, product: Product, run: FitRun) -> Codebooks:
    """Codebooks of one cell. The first book has one word without dimensions, because a part has only one cell."""
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
