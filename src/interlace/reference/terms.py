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
from ..codec.terms import F, Integers, dense_words, overlap, to_steps
from ..inputs.arrays import FloatArray

INF = F(np.inf)
MOST_STEPS = 127  # of the coarse part of a row
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


def cross_terms(a: Book, b: Book, dim: int) -> FloatArray:
    """2 w_a . w_b for all pairs of words, float32 [words of a, words of b]."""
    dense = np.zeros((len(a.words), dim), F)
    dense[:, a.support] = a.words
    return np.stack([inner(row[b.support], b.words.T) * F(2) for row in dense])


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


def cross_floors(codebooks: Codebooks, codes: NDArray[np.uint8]) -> Integers:
    """The smallest cross sum of the rows in each cell, a lower bound for all of them; 0 for an empty cell."""
    dense, numbers = dense_words(codebooks), codebooks.code_numbers(codes)
    sums = [[dense.cross_sum(row) for row in numbers[numbers[:, 0] == cell]] for cell in range(codebooks.n_cells)]
    return np.array([min(of_cell, default=0) for of_cell in sums])


def coarse_parts(codebooks: Codebooks, codes: NDArray[np.uint8]) -> Integers:
    """The part of each row's cross sum that belongs to its crude distance, for one segment (cpp/core/fixed_parts.h): a
    whole number of steps above the floor of its cell, at most MOST_STEPS; 0 unless cells are folded."""
    if not codebooks.folds_cells:
        return np.zeros(len(codes), np.int64)
    dense, numbers = dense_words(codebooks), codebooks.code_numbers(codes)
    above = (
        np.array([dense.cross_sum(row) for row in numbers], np.int64) - cross_floors(codebooks, codes)[numbers[:, 0]]
    )
    step = 1 + int(2 * (above.sum() / max(1, len(above))) / MOST_STEPS)
    return np.asarray(np.minimum(above // step, MOST_STEPS) * step)
