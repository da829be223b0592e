"""Cartesian k-means: product books behind a rotation and a translation that are learned with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...codec.codebooks import MAX_WORDS, Codebooks
from ...errors import InputError
from ...inputs.arrays import FloatArray
from ...learn.axes import principal_axes
from ...learn.settings import MAX_TRAIN_ROWS
from .product import START_ROUNDS, Product, centre, product_codebooks, ranges, start, turn
from .vectors import Run, VectorModel


class CKMeans(VectorModel):
    """Cartesian k-means (Norouzi, Fleet: Cartesian K-Means, 2013): words are sums of one centre from each subspace.

    The model is that of :class:`OPQ`, found by other authors in the same year: a rotation before product books. Two
    things differ here. It always starts from the axes as they are, never from principal ones; and the translation is
    learned, too, in each of the ``iterations`` turns, after the rotation.

    ``orthogonal=True`` is orthogonal k-means, which the paper begins with: two centres on every axis, at the same
    distance from the mean, so that each bit of a code is a side of a hyperplane. A book of 256 words has eight axes; of
    more dimensions than there are bits it learns which ones to leave out.

    Left out: subspaces that have fewer dimensions in all than the vectors, but for orthogonal ones.
    """

    _estimator = "CKMeans"
    _layout = "rotated product"

    def __init__(
        self,
        n_books: int = 8,
        *,
        orthogonal: bool = False,
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
        self.orthogonal = orthogonal

    def _check(self) -> None:
        if not isinstance(self.orthogonal, bool | np.bool_):
            raise InputError(f"orthogonal must be True or False, got {self.orthogonal!r}")
        if self.orthogonal and self.n_words & (self.n_words - 1):
            raise InputError(f"n_words of orthogonal k-means must be a power of two, got {self.n_words}")

    def _learn(self, x: FloatArray, run: Run) -> Codebooks:
        if self.orthogonal:
            product: Product = _start_corners(x, run)
        else:
            axes = np.eye(x.shape[1], dtype=np.float32)
            product = start(x, run.n_books, run.part(0.0, 0.3), rotation=axes, iterations=START_ROUNDS)
        turn(x, product, run.part(0.3, 1.0), iterations=run.iterations, translate=True)
        return product_codebooks(x, product, run, self._layout)


class _Corners(Product):
    """Words at the corners of a box around the mean: the row nearest to one of them lies on its side of every axis."""

    def improve(self, y: FloatArray, threads: int, iterations: int = 1) -> None:
        """The best half-length on each axis for the sides that rows are on is their mean distance."""
        self.words = [_corners(np.abs(y[:, dims]).mean(0, dtype=np.float64)) for dims in self.supports]


def _corners(half: Any) -> FloatArray:
    bits = np.arange(2 ** len(half))[:, None] >> np.arange(len(half)) & 1
    return np.asarray((1 - 2 * bits) * half, np.float32)


def _start_corners(x: FloatArray, run: Run) -> _Corners:
    """On the leading principal axes, turned at random among themselves: two centres serve equal variances best."""
    dim, bits = x.shape[1], run.n_words.bit_length() - 1
    n_axes = min(dim, bits * run.n_books)
    mean = centre(x)
    axes = principal_axes(x - mean)[0].astype(np.float64)
    turned = np.linalg.qr(run.rng.normal(size=(n_axes, n_axes)))[0]
    axes[:, :n_axes] = axes[:, :n_axes] @ turned
    rotation = np.ascontiguousarray(axes, np.float32)
    product = _Corners(ranges(n_axes, run.n_books), [], mean, rotation)
    product.improve(np.asarray((x - mean) @ rotation, np.float32), run.threads)
    return product
