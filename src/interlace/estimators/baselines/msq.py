"""Multiscale quantization: scalar-quantized lengths of the residuals, product books for their directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...codec.codebooks import MAX_WORDS, Book, Codebooks
from ...errors import InputError
from ...index.parts import Parts
from ...inputs.arrays import FloatArray, positive
from ...inputs.literals import Auto
from ...learn.grouping import Dims, near_words_together
from ...learn.kmeans import means, nearest
from ...learn.settings import MAX_TRAIN_ROWS
from .parted import PartsModel
from .product import START_ROUNDS, STARTS, centre, procrustes, rotated
from .vectors import FitRun

CELL_ROUNDS, LEVEL_ROUNDS = 15, 30
#: Iterations of OPQ before lengths and directions are separated.
START_TURNS = 10
#: Smallest level relative to the largest, so that residuals of length 0 can be divided by their level.
LEAST_LEVEL = 1e-6


class MSQ(PartsModel):
    """Multiscale quantization (Wu, Guo, Suresh, Kumar, Holtmann-Rice, Simcha, Yu: Multiscale Quantization for Fast
    Similarity Search, 2017).

    The residual of a row to its cell (there are ``n_words`` cells) is split: its length is replaced by the nearest of
    ``n_levels`` levels, a scalar quantizer, and its direction is rotated and encoded by product books. Rows far from
    and rows near their cell then share the words of the books. A code has one byte for the level (of which only the
    necessary bits are used), one for the cell, and ``n_books`` - 2 for the direction.

    Learning finds the cells first. Each of the ``iterations`` then computes words, rotation and levels in closed form,
    each optimal for the others. Not implemented: learning all of it, cells included, by stochastic gradient; separate
    levels for each cell; visiting only the cells near a query.
    """

    name_in_files = "MSQ"
    extra_bytes = 2
    n_candidates = 3

    def __init__(
        self,
        n_books: int = 8,
        *,
        n_levels: int = 16,
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
        self.n_levels = n_levels

    def check_parameters(self) -> None:
        """Validate ``n_levels``."""
        if positive(self.n_levels, "n_levels") > MAX_WORDS:
            raise InputError(f"n_levels must be 1 to {MAX_WORDS}, got {self.n_levels}")

    def part_features(self, parts: Parts, x: FloatArray) -> FloatArray:
        """Lengths of the residuals to the nearest cell; all parts have the same cells, in rotated coordinates."""
        books = parts.codebooks[0]
        assert books.rotation is not None
        cells = np.asarray(books.books[0].words @ books.rotation.T + books.mean, np.float32)
        left = x - cells[nearest(x, cells, 1)[0]]
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", left, left))[:, None])

    def learn_parts(self, x: FloatArray, run: FitRun) -> Parts:
        """Cells by k-means, then words, rotation and levels in turns; one part for each level."""
        mean = centre(x)
        centred = x - mean
        cells = run.kmeans(centred, iterations=CELL_ROUNDS)
        left = centred - cells[nearest(centred, cells, run.threads)[0]]
        scaled = _start(left, min(run.n_books - 2, x.shape[1]), self.n_levels, run)
        for step in range(run.iterations):
            run.progress(f"scales {step + 1} of {run.iterations}", 0.4 + 0.6 * step / run.iterations)
            _turn(left, scaled, run)
        return scaled.parts(cells, mean, left, run)


@dataclass
class _Scaled:
    """``levels`` are ascending; words have unit scale, in rotated coordinates."""

    supports: list[Dims]
    words: list[FloatArray]
    rotation: FloatArray
    levels: FloatArray
    level_of: NDArray[np.int64]  #: level number of each training row

    def parts(self, cells: FloatArray, mean: FloatArray, left: FloatArray, run: FitRun) -> Parts:
        """One part for each level, with the same cells and with the words multiplied by the level."""
        supports = [dims.astype(np.uint32) for dims in self.supports]
        words = [near_words_together(w) for w in self.words]
        first = Book(cells @ self.rotation, np.arange(cells.shape[1], dtype=np.uint32))
        variances = (left @ self.rotation).astype(np.float64).var(0)
        n_crude = max(1, run.crude(2 + len(words)) - 1)  # the level is not a book of a part
        crude_dims = np.concatenate([np.zeros(0, np.int64), *self.supports[: n_crude - 1]])
        common: dict[str, Any] = {
            "dim": cells.shape[1],
            "n_crude": n_crude,
            "mean": mean,
            "rotation": self.rotation,
            "layout": "multiscale",
            "crude_dims": crude_dims,
            "variances": variances,
            "residual_variance": float(np.delete(variances, crude_dims).sum()),
        }
        return Parts(
            [
                Codebooks([first, *(Book(level * w, dims) for w, dims in zip(words, supports, strict=True))], **common)
                for level in self.levels
            ],
            keys=self.levels[:, None],
        )


def _start(left: FloatArray, n_books: int, n_levels: int, run: FitRun) -> _Scaled:
    """Levels by k-means of the lengths, rotation by OPQ, words by k-means of the rotated directions."""
    product = rotated(left, n_books, run.part(0.0, 0.3), STARTS, START_TURNS)
    supports, rotation = product.supports, product.rotation
    assert rotation is not None
    lengths = np.sqrt(np.einsum("ij,ij->i", left, left))
    levels = np.sort(run.kmeans(lengths[:, None], n_levels, LEVEL_ROUNDS)[:, 0])
    least = LEAST_LEVEL * float(levels.max()) if levels.max() > 0 else 1.0
    levels = np.maximum(levels, least).astype(np.float32)
    level_of = np.abs(lengths[:, None] - levels).argmin(1)
    y = left @ rotation / levels[level_of, None]
    words = []
    for j, dims in enumerate(supports):
        run.progress(f"book {j + 1} of {n_books}", 0.3 + 0.1 * j / n_books)
        words.append(run.kmeans(y[:, dims], iterations=START_ROUNDS))
    return _Scaled(supports, words, rotation, levels, level_of)


def _turn(left: FloatArray, scaled: _Scaled, run: FitRun) -> None:
    """One iteration: codes, words, rotation, levels. Each step reduces the sum of |left - level * R words|^2."""
    y, scale = left @ scaled.rotation, scaled.levels[scaled.level_of]
    unit = np.empty_like(y)  # concatenated words of each row
    for j, dims in enumerate(scaled.supports):
        part = np.ascontiguousarray(y[:, dims])
        labels = nearest(np.asarray(part / scale[:, None], np.float32), scaled.words[j], run.threads)[0]
        # The words w that minimise the sum of |y - scale * w|^2 over their rows: sum scale * y / sum scale^2.
        weighted, counts = means(part * scale[:, None], labels, scaled.words[j], run.threads)
        weights = np.bincount(labels, weights=scale.astype(np.float64) ** 2, minlength=len(counts))
        share = np.divide(counts, weights, out=np.ones(len(counts)), where=counts > 0)
        scaled.words[j] = (weighted * share[:, None]).astype(np.float32)
        unit[:, dims] = scaled.words[j][labels]
    scaled.rotation = procrustes(left.T.astype(np.float64) @ (unit * scale[:, None]))
    y = left @ scaled.rotation
    products = np.einsum("ij,ij->i", y, unit, dtype=np.float64)
    squares = np.einsum("ij,ij->i", unit, unit, dtype=np.float64)
    best = np.divide(products, squares, out=scale.astype(np.float64), where=squares > 0)  # optimal scale of each row
    scaled.level_of = np.abs(best[:, None] - scaled.levels).argmin(1)
    n_levels = len(scaled.levels)
    above = np.bincount(scaled.level_of, weights=products, minlength=n_levels)
    below = np.bincount(scaled.level_of, weights=squares, minlength=n_levels)
    levels = np.divide(above, below, out=scaled.levels.astype(np.float64), where=below > 0)
    levels = np.maximum(levels, LEAST_LEVEL * levels.max())
    order = np.argsort(levels, kind="stable")
    scaled.levels = levels[order].astype(np.float32)
    scaled.level_of = np.argsort(order)[scaled.level_of]
