"""Product books, each on its own range of dimensions, learned alone or together with a rotation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...codec.codebooks import Book, Codebooks
from ...inputs.arrays import FloatArray
from ...learn.axes import principal_axes
from ...learn.grouping import Dims, balanced_groups, near_words_together
from ...learn.kmeans import in_use, lloyd, nearest
from .vectors import FitRun

#: Rounds of k-means before words and rotation are learned together, and after it.
START_ROUNDS, LAST_ROUNDS = 8, 4
#: Start of the rotation: principal axes, assigned to the ranges, or the given axes.
STARTS = ("principal", "given")
#: Iterations from each start before the better one is chosen.
TRIED_TURNS = 5


@dataclass
class Product:
    """Words on ranges of dimensions of y = (x - mean) R."""

    supports: list[Dims]
    words: list[FloatArray]
    mean: FloatArray
    rotation: FloatArray | None

    def coded(self, y: FloatArray, threads: int) -> FloatArray:
        """Decoded rows y: their nearest words, and 0 in dimensions without a book."""
        out = np.zeros_like(y)
        for dims, words in zip(self.supports, self.words, strict=True):
            part = np.ascontiguousarray(y[:, dims])
            out[:, dims] = words[nearest(part, words, threads)[0]]
        return out

    def error(self, x: FloatArray, threads: int) -> float:
        """Mean squared error of rows x."""
        y = x - self.mean
        y = y if self.rotation is None else np.asarray(y @ self.rotation, np.float32)
        return float(((y - self.coded(y, threads)).astype(np.float64) ** 2).sum(1).mean())

    def improve(self, y: FloatArray, threads: int, iterations: int = 1) -> None:
        """Rounds of k-means in each range."""
        for j, dims in enumerate(self.supports):
            part = np.ascontiguousarray(y[:, dims])
            self.words[j] = lloyd(part, self.words[j], threads=threads, iterations=iterations)

    def drop_unused(self, y: FloatArray, threads: int) -> None:
        """Removes words that no row uses; a constant range needs only one."""
        for j, dims in enumerate(self.supports):
            part = np.ascontiguousarray(y[:, dims])
            self.words[j] = in_use(self.words[j], nearest(part, self.words[j], threads)[0])

    def books(self) -> list[Book]:
        """Books with similar words next to each other, which makes the scan faster."""
        pairs = zip(self.supports, self.words, strict=True)
        return [Book(near_words_together(words), dims.astype(np.uint32)) for dims, words in pairs]


def ranges(dim: int, n_books: int) -> list[Dims]:
    """Splits dimensions 0 to dim - 1 into at most n_books ranges whose lengths differ by at most one."""
    return [np.asarray(part, np.int64) for part in np.array_split(np.arange(dim), min(n_books, dim))]


def centre(x: FloatArray) -> FloatArray:
    """The mean of the rows, computed in double precision."""
    return np.asarray(x.mean(0, dtype=np.float64), np.float32)


def balanced_axes(x: FloatArray, supports: list[Dims]) -> FloatArray:
    """Principal axes, assigned to the ranges so that each has about the same product of variances.

    This is the "eigenvalue allocation" of optimized product quantization.
    """
    axes, variances = principal_axes(x)
    groups = balanced_groups(np.arange(x.shape[1]), variances, len(supports))
    # In both lists the longer ranges come first.
    return np.ascontiguousarray(axes[:, np.concatenate(groups)])


def procrustes(products: NDArray[np.float64]) -> FloatArray:
    """The rotation R that maximises the sum of x_i^T R c_i, for products = sum of x_i c_i^T."""
    left, _, right = np.linalg.svd(products)
    return np.ascontiguousarray(left @ right, np.float32)


def start(x: FloatArray, n_books: int, run: FitRun, *, rotation: FloatArray | None, iterations: int) -> Product:
    """Product books by k-means of the centred and rotated rows."""
    supports, mean = ranges(x.shape[1], n_books), centre(x)
    y = x - mean if rotation is None else np.asarray((x - mean) @ rotation, np.float32)
    words = []
    for j, dims in enumerate(supports):
        run.progress(f"book {j + 1} of {len(supports)}", j / len(supports))
        words.append(run.kmeans(y[:, dims], iterations=iterations))
    return Product(supports, words, mean, rotation)


def turn(x: FloatArray, product: Product, run: FitRun, *, iterations: int, translate: bool = False) -> None:
    """Learns words and rotation in turns: the mean of the rows of each word, then the best rotation.

    With ``translate``, each iteration also updates the mean, after the rotation.
    """
    assert product.rotation is not None
    centred = x - product.mean
    y = np.asarray(centred @ product.rotation, np.float32)
    for step in range(iterations):
        run.progress(f"rotation {step + 1} of {iterations}", step / iterations)
        product.improve(y, run.threads)
        coded = product.coded(y, run.threads)
        product.rotation = procrustes(centred.T.astype(np.float64) @ coded)
        if translate:
            product.mean = centre(x - coded @ product.rotation.T)
            centred = x - product.mean
        y = np.asarray(centred @ product.rotation, np.float32)
    product.improve(y, run.threads, LAST_ROUNDS)
    product.drop_unused(y, run.threads)


def rotated(x: FloatArray, n_books: int, run: FitRun, starts: tuple[str, ...], iterations: int) -> Product:
    """Product books and rotation, continued from the start with the smallest error after a few iterations."""
    tried, few = [], min(iterations, TRIED_TURNS)
    axes: dict[str, FloatArray] = {
        "principal": balanced_axes(x - centre(x), ranges(x.shape[1], n_books)),
        "given": np.eye(x.shape[1], dtype=np.float32),
    }
    for number, name in enumerate(starts):
        part = run.part(0.4 * number / len(starts), 0.4 * (number + 1) / len(starts))
        product = start(x, n_books, part.part(0.0, 0.5), rotation=axes[name], iterations=START_ROUNDS)
        if len(starts) > 1:
            turn(x, product, part.part(0.5, 1.0), iterations=few)
        tried.append(product)
    best = min(tried, key=lambda product: product.error(x, run.threads)) if len(tried) > 1 else tried[0]
    turn(x, best, run.part(0.4, 1.0), iterations=iterations - (few if len(tried) > 1 else 0))
    return best


def product_codebooks(x: FloatArray, product: Product, run: FitRun, layout: str) -> Codebooks:
    """Codebooks whose cells are the words of the first range."""
    y = x - product.mean
    if product.rotation is not None:
        y = y @ product.rotation
    variances = y.astype(np.float64).var(0)
    n_crude = run.crude(len(product.words))
    crude_dims = np.concatenate(product.supports[:n_crude])
    return Codebooks(
        product.books(),
        dim=x.shape[1],
        n_crude=n_crude,
        mean=product.mean,
        rotation=product.rotation,
        layout=layout,
        crude_dims=crude_dims,
        variances=variances,
        residual_variance=float(np.delete(variances, crude_dims).sum()),
    )
