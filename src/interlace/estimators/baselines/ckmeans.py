"""Cartesian k-means: product books after a rotation and a translation, all learned together."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...codec.codebooks import MAX_WORDS, Codebooks
from ...errors import InputError
from ...inputs.arrays import FloatArray
from ...inputs.literals import Auto
from ...learn.axes import principal_axes
from ...learn.settings import MAX_TRAIN_ROWS
from .product import START_ROUNDS, Product, centre, product_codebooks, ranges, start, turn
from .vectors import FitRun, VectorModel


class CKMeans(VectorModel):
    """Cartesian k-means (Norouzi, Fleet: Cartesian K-Means, 2013): words are sums of one centre from each subspace.

    The model is that of :class:`OPQ`, published in the same year: a rotation followed by product books. Two things
    differ here. Learning always starts from the given axes, never from principal axes, and each of the ``iterations``
    also learns the translation, after the rotation.

    ``orthogonal=True`` is orthogonal k-means, the first method of the paper: two centres on every axis, at the same
    distance from the mean, so that each bit of a code is a side of a hyperplane. A book of 256 words has eight axes. If
    there are more dimensions than bits, learning selects the axes.

    Not implemented: subspaces with fewer dimensions in total than the vectors, except with ``orthogonal=True``.
    """

    name_in_files = "CKMeans"
    books_layout = "rotated product"

    def __init__(
        self,
        n_books: int = 8,
        *,
        orthogonal: bool = False,
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
        self.orthogonal = orthogonal

    def check_parameters(self) -> None:
        """Validate ``orthogonal``, and ``n_words`` with it."""
        if not isinstance(self.orthogonal, bool | np.bool_):
            raise InputError(f"orthogonal must be True or False, got {self.orthogonal!r}")
        if self.orthogonal and self.n_words & (self.n_words - 1):
            raise InputError(f"n_words of orthogonal k-means must be a power of two, got {self.n_words}")

    def learn_codebooks(self, x: FloatArray, run: FitRun) -> Codebooks:
        """Product books, rotation and translation in turns."""
        if self.orthogonal:
            product: Product = _start_corners(x, run)
        else:
            axes = np.eye(x.shape[1], dtype=np.float32)
            product = start(x, run.n_books, run.part(0.0, 0.3), rotation=axes, iterations=START_ROUNDS)
        turn(x, product, run.part(0.3, 1.0), iterations=run.iterations, translate=True)
        return product_codebooks(x, product, run, self.books_layout)


class _Corners(Product):
    """Words at the corners of a box around the mean; the nearest word of a row is on its side of every axis."""

    def improve(self, y: FloatArray, threads: int, iterations: int = 1) -> None:
        """Sets the half-length of the box on each axis to the mean distance of the rows, which minimizes the error."""
        self.words = [_corners(np.abs(y[:, dims]).mean(0, dtype=np.float64)) for dims in self.supports]


def _corners(half: Any) -> FloatArray:
    bits = np.arange(2 ** len(half))[:, None] >> np.arange(len(half)) & 1
    return np.asarray((1 - 2 * bits) * half, np.float32)


def _start_corners(x: FloatArray, run: FitRun) -> _Corners:
    """Starts from the leading principal axes after a random rotation, which makes their variances similar."""
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
