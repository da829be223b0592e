"""Locally optimized product quantization: cells, and for the rows of each a rotation of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import FloatArray, positive
from ..codebooks import MAX_WORDS, Book, Codebooks
from ..errors import InputError
from ..learners.kmeans import nearest
from ..learning import MAX_TRAIN_ROWS
from ..parts import Parts
from .parted import PartsModel
from .product import START_ROUNDS, Product, balanced_axes, procrustes, ranges, start, turn
from .vectors import Run

BOOKS = ("shared", "local")
#: Rows of all cells that count beside its own when a cell's rotation is found: one of few rows keeps near the others.
COMMON_ROWS = 512.0
CELL_ROUNDS = 15


class LOPQ(PartsModel):
    """Locally optimized product quantization (Kalantidis, Avrithis: Locally Optimized Product Quantization for
    Approximate Nearest Neighbor Search, 2014).

    ``n_cells`` cells by k-means (at most 256); what a row differs from its cell by is rotated by the cell's own
    rotation and coded by product books. A code is a byte for the cell and one for each product book, of which there are
    ``n_books`` - 1.

    ``books="shared"`` has one set of product books for all cells, and takes ``iterations`` turns: the means of the rows
    of each word, then the rotation of each cell. It is what few rows allow. ``books="local"`` learns product books and
    rotation of each cell from its rows alone, as the paper does; it wants thousands of rows in each.

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
        books: str = "shared",
        n_words: int = MAX_WORDS,
        n_crude: int | str = "auto",
        iterations: int = 25,
        max_train_rows: int = MAX_TRAIN_ROWS,
        seed: int = 0,
        threads: int | None = None,
        progress: Any = False,
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
        n_books = min(run.n_books - 1, x.shape[1])
        if self.books == "local":
            steps = np.linspace(0, 1, len(centres) + 1)
            products = [
                _alone(left[cells == c], n_books, run.part(steps[c], steps[c + 1])) for c in range(len(centres))
            ]
        else:
            products = _together(left, cells, len(centres), n_books, run)
        return Parts(
            [_part(left[cells == c], centres[c], product, run) for c, product in enumerate(products)], keys=centres
        )


def _alone(left: FloatArray, n_books: int, run: Run) -> Product:
    """The books and the rotation of one cell. The mean of its rows is the cell's centre already."""
    rotation = balanced_axes(left, ranges(left.shape[1], n_books))
    product = start(left, n_books, run, rotation=rotation, iterations=START_ROUNDS)
    turn(left, product, run, iterations=run.iterations)
    return product


def _together(left: FloatArray, cells: NDArray[np.int32], n_cells: int, n_books: int, run: Run) -> list[Product]:
    """One set of books, a rotation for each cell: at first the same for all, then each for itself, in turns."""
    common = _alone(left, n_books, run.part(0.0, 0.5))
    assert common.rotation is not None
    rows = [np.flatnonzero(cells == c) for c in range(n_cells)]
    left = left - common.mean
    rotations = [common.rotation] * n_cells
    y = np.asarray(left @ common.rotation, np.float32)
    for step in range(run.iterations):
        run.progress(f"rotations {step + 1} of {run.iterations}", 0.5 + 0.5 * step / run.iterations)
        coded = common.coded(y, run.threads)
        own = [left[mine].T.astype(np.float64) @ coded[mine] for mine in rows]
        mean = np.sum(own, axis=0) / len(left)
        for c, mine in enumerate(rows):
            rotations[c] = procrustes(own[c] + COMMON_ROWS * mean)
            y[mine] = left[mine] @ rotations[c]
        common.improve(y, run.threads)
    common.drop_unused(y, run.threads)
    return [Product(common.supports, common.words, common.mean, rotation) for rotation in rotations]


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
