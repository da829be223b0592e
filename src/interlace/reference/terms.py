"""Inner products, and cross terms between words of different books.

For a vector coded as the sum of words w_0 + w_1 + ...,

    |q - sum|^2 = |q|^2 + sum_j (|w_j|^2 - 2 q.w_j) + sum_{i<j} 2 w_i.w_j

The products 2 w_i.w_j are the cross terms; books without a common dimension have none. Cross terms with the first book
(the cell) are stored as *cell terms*, those between other books are computed from rounded words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Book, Codebooks
from ..inputs.arrays import FloatArray

F = np.float32
INF = F(np.inf)
Integers = NDArray[np.int64]
Pair = tuple[int, int]


def inner(x: FloatArray, columns: FloatArray) -> FloatArray:
    """sum_d x[d] * columns[d, :], added in the order of d."""
    total = np.zeros(columns.shape[1], F)
    for d in range(len(x)):
        total += columns[d] * x[d]
    return total


def squared(x: FloatArray, columns: FloatArray) -> FloatArray:
    """sum_d (columns[d, :] - x[d])^2, added in the order of d."""
    total = np.zeros(columns.shape[1], F)
    for d in range(len(x)):
        total += (columns[d] - x[d]) ** 2
    return total


def rotate(codebooks: Codebooks, x: FloatArray, centre: bool) -> FloatArray:
    """One vector in the coordinates of the books: (x - mean) R if ``centre``, else x R."""
    y = x - codebooks.mean if centre else x
    return y if codebooks.rotation is None else inner(y, codebooks.rotation)


def overlap(a: Book, b: Book) -> bool:
    """Whether two books share a dimension."""
    return bool(np.intersect1d(a.support, b.support).size)


def cross_terms(a: Book, b: Book, dim: int) -> FloatArray:
    """2 w_a . w_b for all pairs of words, float32 [words of a, words of b]."""
    dense = np.zeros((len(a.words), dim), F)
    dense[:, a.support] = a.words
    return np.stack([inner(row[b.support], b.words.T) * F(2) for row in dense])


def squares(book: Book) -> FloatArray:
    """|w|^2 of every word."""
    total = np.zeros(len(book.words), F)
    for d in range(len(book.support)):
        total += book.words[:, d] * book.words[:, d]
    return total


def to_steps(values: FloatArray, step: np.float32) -> Integers:
    """Values rounded to integer multiples of ``step``; all 0 if the step is 0."""
    return np.rint(values / step).astype(np.int64) if step > 0 else np.zeros(values.shape, np.int64)


def saturated(sums: Integers) -> Integers:
    """Clipped to the range of int16, as the native code saturates."""
    return np.clip(sums, -32768, 32767)


@dataclass(frozen=True)
class CellTerms:
    """Cross terms 2 c.w of the words c of cells and w of a later book, in steps: ``of[book]`` [n_cells, n_words]."""

    of: dict[int, Integers]
    step: np.float32  # the same for all books, so that integers can be added; 0 if there are no terms
    bound: np.float32  # sum over columns of the largest |term|


def cell_terms(codebooks: Codebooks) -> CellTerms:
    """The part of the tables that depends on the cell, rounded to int16 multiples of one step."""
    cell, exact = codebooks.books[0], {}
    bound = largest = F(0)
    for column in codebooks.columns:
        if column >= 0 and overlap(cell, codebooks.books[column]):
            exact[column] = cross_terms(cell, codebooks.books[column], codebooks.dim)
            bound += np.abs(exact[column]).max()
            largest = max(largest, np.abs(exact[column]).max())
    step = largest / F(32767)
    return CellTerms({book: to_steps(terms, step) for book, terms in exact.items()} if step > 0 else {}, step, bound)


@dataclass(frozen=True)
class PairTerms:
    """Cross terms 2 w_i.w_j of overlapping books 1 <= i < j in steps, for encoding: ``of[i, j]`` [words of i, of j]."""

    of: dict[Pair, Integers]
    step: np.float32

    def linked(self, j: int) -> bool:
        """Whether the best word of book j depends on the words of other books than the first."""
        return bool(self.step > 0) and any(j in pair for pair in self.of)


def pair_terms(codebooks: Codebooks) -> PairTerms:
    """Cross terms of all pairs of books after the first, in a quarter of the range of int16, so that sums fit."""
    books, exact = codebooks.books, {}
    largest = F(0)
    for i in range(1, len(books)):
        for j in range(i + 1, len(books)):
            if overlap(books[i], books[j]):
                exact[i, j] = cross_terms(books[i], books[j], codebooks.dim)
                largest = max(largest, np.abs(exact[i, j]).max())
    step = largest / F(8191)
    return PairTerms({pair: to_steps(terms, step) for pair, terms in exact.items()}, step)


@dataclass(frozen=True)
class DenseWords:
    """Words rounded to integer steps on all dimensions, for the cross terms of the second step.

    ``of[position of a column]`` is int [n_words, dim].
    """

    of: dict[int, Integers]
    unit: np.float32  # the square of a step

    def cross_sum(self, codes: NDArray[np.uint8]) -> int:
        """Sum of the cross terms of a row in units: |sum of words|^2 - sum of |word|^2. ``codes`` as stored."""
        words = [dense[codes[1 + position]] for position, dense in self.of.items()]
        return int((sum(words) ** 2).sum() - sum((word**2).sum() for word in words)) if words else 0

    def cross_term(self, cross_sum: int) -> np.float32:
        """The cross term as a float, to be added to a distance."""
        return self.unit * F(cross_sum)


def dense_words(codebooks: Codebooks) -> DenseWords:
    """Words of the books after the first that overlap; none if norms replace their cross terms."""
    books = codebooks.books
    of: dict[int, Book] = {}
    if codebooks.metric == "l2" and not codebooks.norms:
        for position, column in enumerate(codebooks.columns):
            if any(overlap(books[column], books[i]) for i in range(1, len(books)) if i != column):
                of[position] = books[column]
    reach = F(0)
    for book in of.values():
        reach += np.sqrt(squares(book).max())
    # The squared length of a sum of words fits in 31 bits, including rounding by half a step per book and dimension.
    step = reach / (F(32700) - F(0.5) * F(len(of)) * np.sqrt(F(codebooks.dim)))
    dense = {}
    for position, book in of.items():
        dense[position] = np.zeros((len(book.words), codebooks.dim), np.int64)
        dense[position][:, book.support] = to_steps(book.words, step)
    return DenseWords(dense, step * step)


def cross_floors(codebooks: Codebooks, codes: NDArray[np.uint8]) -> Integers:
    """The smallest cross sum of the rows in each cell, a lower bound for all of them; 0 for an empty cell."""
    dense = dense_words(codebooks)
    sums = [[dense.cross_sum(row) for row in codes[codes[:, 0] == cell]] for cell in range(codebooks.n_cells)]
    return np.array([min(of_cell, default=0) for of_cell in sums])
