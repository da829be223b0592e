"""The best words for given codes: one least-squares problem for all books at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..arrays import FloatArray
from ..codebooks import Book

#: Rows that the old word of each book counts for: words with few rows stay near where they were.
RIDGE_ROWS = 0.5


def refit(books: list[Book], y: FloatArray, codes: NDArray[np.uint8], threads: int) -> list[Book]:
    """Words that minimise the squared error of y for codes [n, n_books], in the order of the books.

    Dimensions that are quantized by the same books share one system of normal equations, whose matrix counts how
    often two words occur together. A book alone on its dimensions gets the means of its rows.
    """
    words = [book.words.astype(np.float64) for book in books]
    sums = [_sums(y, codes[:, j], book, threads) for j, book in enumerate(books)]
    counts: dict[tuple[int, int], NDArray[np.float64]] = {}
    for together, dims in _patterns(books, y.shape[1]):
        starts = np.cumsum([0, *(len(books[j].words) for j in together)])
        parts = [slice(a, b) for a, b in zip(starts[:-1], starts[1:], strict=True)]
        places = [np.searchsorted(books[j].support, dims) for j in together]
        matrix = np.zeros((starts[-1], starts[-1]))
        right = np.empty((starts[-1], len(dims)))
        for a, i in enumerate(together):
            for b, j in enumerate(together[a:], a):
                if (i, j) not in counts:
                    counts[i, j] = _together(codes[:, i], codes[:, j], len(books[i].words), len(books[j].words))
                matrix[parts[a], parts[b]] = counts[i, j]
                matrix[parts[b], parts[a]] = counts[i, j].T
            right[parts[a]] = sums[i][:, places[a]] + RIDGE_ROWS * words[i][:, places[a]]
        matrix[np.diag_indices(len(matrix))] += RIDGE_ROWS
        solved = np.linalg.solve(matrix, right)
        for a, j in enumerate(together):
            words[j][:, places[a]] = solved[parts[a]]
    return [Book(w.astype(np.float32), book.support) for w, book in zip(words, books, strict=True)]


def _patterns(books: list[Book], dim: int) -> list[tuple[list[int], NDArray[np.int64]]]:
    """Sets of books, each with the dimensions that just these books quantize."""
    member = np.zeros((dim, len(books)), bool)
    for j, book in enumerate(books):
        member[book.support, j] = True
    kinds, kind_of = np.unique(member, axis=0, return_inverse=True)
    return [
        (np.flatnonzero(kind).tolist(), np.flatnonzero(kind_of.reshape(-1) == i))
        for i, kind in enumerate(kinds)
        if kind.any()
    ]


def _sums(y: FloatArray, codes: NDArray[np.uint8], book: Book, threads: int) -> NDArray[np.float64]:
    """Sum of the rows of each word, on the support of the book."""
    sums, counts = np.empty(book.words.shape, np.float64), np.empty(len(book.words), np.int64)
    part = y if len(book.support) == y.shape[1] else np.ascontiguousarray(y[:, book.support])
    _native.cluster_sums(part, codes.astype(np.int32), threads, sums, counts)
    return sums


def _together(a: NDArray[np.uint8], b: NDArray[np.uint8], n_a: int, n_b: int) -> NDArray[np.float64]:
    """How often words of two books occur in one row."""
    both = a.astype(np.int64) * n_b + b
    return np.bincount(both, minlength=n_a * n_b).reshape(n_a, n_b).astype(np.float64)
