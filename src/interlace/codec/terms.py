"""Cross terms between the words of a code, which search adds in whole numbers of a step (cpp/core/books.h)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..inputs.arrays import FloatArray
from .codebooks import Book, Codebooks

F = np.float32
Integers = NDArray[np.int64]


def overlap(a: Book, b: Book) -> bool:
    """Whether two books share a dimension."""
    return bool(np.intersect1d(a.support, b.support).size)


def squares(book: Book) -> FloatArray:
    """|w|^2 of every word."""
    total = np.zeros(len(book.words), F)
    for d in range(len(book.support)):
        total += book.words[:, d] * book.words[:, d]
    return total


def to_steps(values: FloatArray, step: np.float32) -> Integers:
    """The nearest whole numbers of steps; all 0 where a step is."""
    return np.rint(values / step).astype(np.int64) if step > 0 else np.zeros(values.shape, np.int64)


@dataclass(frozen=True)
class DenseWords:
    """Words in whole steps on all dimensions: ``of[position of a column]`` [n_words, dim], and those of the cells at
    position -1 if they are folded. For the second step."""

    of: dict[int, Integers]
    unit: np.float32  # the square of a step

    def cross_sum(self, codes: Integers) -> int:
        """Cross terms between the books of a row in units, |sum of words|^2 - sum of |word|^2.

        codes: the cell and then the columns.
        """
        words = [dense[codes[1 + position]] for position, dense in self.of.items()]
        return int((sum(words) ** 2).sum() - sum((word**2).sum() for word in words)) if words else 0

    def cross_term(self, cross_sum: int) -> np.float32:
        """What it adds to a distance."""
        return self.unit * F(cross_sum)


def dense_words(codebooks: Codebooks) -> DenseWords:
    """Books after the first that overlap, where no norm stands for their cross terms, and the cells if folded."""
    books = codebooks.books
    of: dict[int, Book] = {}
    if codebooks.metric_type.is_squared and not codebooks.norms:
        first = 0 if codebooks.folds_cells else 1
        for position, column in enumerate(codebooks.columns):
            if any(overlap(books[column], books[i]) for i in range(first, len(books)) if i != column):
                of[position] = books[column]
    if codebooks.folds_cells:
        of[-1] = books[0]
    reach = F(0)
    for book in of.values():
        reach += np.sqrt(squares(book).max())
    # The square of a sum of words fits 31 bits, with what rounding adds: half a step per book and dimension.
    step = reach / (F(32700) - F(0.5) * F(len(of)) * np.sqrt(F(codebooks.dim)))
    dense = {}
    for position, book in of.items():
        dense[position] = np.zeros((len(book.words), codebooks.dim), np.int64)
        dense[position][:, book.support] = to_steps(book.words, step)
    return DenseWords(dense, step * step)
