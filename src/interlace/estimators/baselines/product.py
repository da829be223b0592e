"""Product books: each on a range of dimensions of its own, alone or in turns with the rotation before them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...codec.codebooks import Book, Codebooks
from ...inputs.arrays import FloatArray
from ...learn.axes import principal_axes
from ...learn.grouping import Dims, balanced_groups, near_words_together
from ...learn.kmeans import in_use, lloyd, nearest
from .vectors import Run

#: Rounds of the k-means that words start by where a rotation moves on with them, and of the one that ends it.
START_ROUNDS, LAST_ROUNDS = 8, 4
#: Where a rotation may start: principal axes, dealt out to the ranges, or the axes as they are.
STARTS = ("principal", "given")
#: Turns that each start gets before the better one goes on.
TRIED_TURNS = 5


@dataclass
class Product:
    """Words on ranges of dimensions of y = (x - mean) R, which are learned for centred rows y."""

    supports: list[Dims]
    words: list[FloatArray]
    mean: FloatArray
    rotation: FloatArray | None

    def coded(self, y: FloatArray, threads: int) -> FloatArray:
        """The nearest words of rows y, put together; 0 where no word is."""
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
        """Rounds of k-means in every range."""
        for j, dims in enumerate(self.supports):
            part = np.ascontiguousarray(y[:, dims])
            self.words[j] = lloyd(part, self.words[j], threads=threads, iterations=iterations)

    def drop_unused(self, y: FloatArray, threads: int) -> None:
        """Words that no row has: what is constant needs one word, not 256."""
        for j, dims in enumerate(self.supports):
            part = np.ascontiguousarray(y[:, dims])
            self.words[j] = in_use(self.words[j], nearest(part, self.words[j], threads)[0])

    def books(self) -> list[Book]:
        """Their words in the order that the scan likes."""
        pairs = zip(self.supports, self.words, strict=True)
        return [Book(near_words_together(words), dims.astype(np.uint32)) for dims, words in pairs]


def ranges(dim: int, n_books: int) -> list[Dims]:
    """Dimensions 0 to dim - 1 in runs whose lengths differ by one at most; no more of them than dimensions."""
    return [np.asarray(part, np.int64) for part in np.array_split(np.arange(dim), min(n_books, dim))]


def centre(x: FloatArray) -> FloatArray:
    """The mean of the rows, added up in double precision."""
    return np.asarray(x.mean(0, dtype=np.float64), np.float32)


def balanced_axes(x: FloatArray, supports: list[Dims]) -> FloatArray:
    """Principal axes, dealt out to the ranges such that the product of variances is about the same in each.

    The "eigenvalue allocation" that optimized product quantization starts from.
    """
    axes, variances = principal_axes(x)
    groups = balanced_groups(np.arange(x.shape[1]), variances, len(supports))
    # Ranges that are longer by one come first here as there.
    return np.ascontiguousarray(axes[:, np.concatenate(groups)])


def procrustes(products: NDArray[np.float64]) -> FloatArray:
    """The rotation R that makes the sum of x_i^T R c_i largest, for products = sum of x_i c_i^T."""
    left, _, right = np.linalg.svd(products)
    return np.ascontiguousarray(left @ right, np.float32)


def start(x: FloatArray, n_books: int, run: Run, *, rotation: FloatArray | None, iterations: int) -> Product:
    """Product books by k-means, for rows that are centred and rotated first."""
    supports, mean = ranges(x.shape[1], n_books), centre(x)
    y = x - mean if rotation is None else np.asarray((x - mean) @ rotation, np.float32)
    words = []
    for j, dims in enumerate(supports):
        run.progress(f"book {j + 1} of {len(supports)}", j / len(supports))
        words.append(run.kmeans(y[:, dims], iterations=iterations))
    return Product(supports, words, mean, rotation)


def turn(x: FloatArray, product: Product, run: Run, *, iterations: int, translate: bool = False) -> None:
    """Words and rotation in turns: means of the rows of each word, then the rotation that brings rows nearest to words.

    With ``translate`` the mean is learned with them: what is left on average after the rotation moved.
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


def rotated(x: FloatArray, n_books: int, run: Run, starts: tuple[str, ...], iterations: int) -> Product:
    """Product books and the rotation before them, from the start that codes x best after a few of the turns."""
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


def product_codebooks(x: FloatArray, product: Product, run: Run, layout: str) -> Codebooks:
    """Frozen codebooks, the first range making the cells."""
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
