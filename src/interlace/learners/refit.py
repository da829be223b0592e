"""The best words for given codes: one least-squares problem for all books at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..arrays import FloatArray
from ..codebooks import Book

#: Rows that the old word of each book counts for: words with few rows stay near where they were.
RIDGE_ROWS = 0.5
#: Books solved for at once; more of them take turns. The system of 12 books of 256 words takes 75 MB.
MOST_TOGETHER = 12

Words = list[NDArray[np.float64]]


def refit(books: list[Book], y: FloatArray, codes: NDArray[np.uint8], threads: int) -> list[Book]:
    """Words that lower the squared error of y for codes [n, n_books], in the order of the books.

    Dimensions that are quantized by the same books share one system of normal equations, whose matrix counts how
    often two words occur together. A book alone on its dimensions gets the means of its rows (and half its old word);
    a word without rows stays where it is. A book of one word is an offset that the others can take over: it stays too.
    """
    words: Words = [book.words.astype(np.float64) for book in books]
    for quantizers, dims in _patterns(books, y.shape[1]):
        places = {j: np.searchsorted(books[j].support, dims) for j in quantizers}
        free = [j for j in quantizers if len(books[j].words) > 1] or quantizers
        for first in range(0, len(free), MOST_TOGETHER):
            together = free[first : first + MOST_TOGETHER]
            part = y if len(dims) == y.shape[1] else np.ascontiguousarray(y[:, dims])
            for j in quantizers:
                if j not in together and words[j][:, places[j]].any():
                    part = part - words[j][:, places[j]].astype(np.float32)[codes[:, j]]
            _solve(words, places, together, part, codes, threads)
    return [Book(w.astype(np.float32), book.support) for w, book in zip(words, books, strict=True)]


def _solve(
    words: Words,
    places: dict[int, NDArray[np.int64]],
    together: list[int],
    y: FloatArray,
    codes: NDArray[np.uint8],
    threads: int,
) -> None:
    """New words of some books, at their ``places``, for the rows y that these books alone are to code."""
    starts = np.cumsum([0, *(len(words[j]) for j in together)])
    parts = [slice(a, b) for a, b in zip(starts[:-1], starts[1:], strict=True)]
    matrix, right = np.zeros((starts[-1], starts[-1])), np.empty((starts[-1], y.shape[1]))
    for a, i in enumerate(together):
        for b, j in enumerate(together[a:], a):
            counts = _together(codes[:, i], codes[:, j], len(words[i]), len(words[j]))
            matrix[parts[a], parts[b]] = counts
            matrix[parts[b], parts[a]] = counts.T
        right[parts[a]] = _sums(y, codes[:, i], len(words[i]), threads) + RIDGE_ROWS * words[i][:, places[i]]
    matrix[np.diag_indices(len(matrix))] += RIDGE_ROWS
    solved = np.linalg.solve(matrix, right)
    for a, j in enumerate(together):
        words[j][:, places[j]] = solved[parts[a]]


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


def _sums(y: FloatArray, codes: NDArray[np.uint8], n_words: int, threads: int) -> NDArray[np.float64]:
    """Sum of the rows of each word."""
    sums, counts = np.empty((n_words, y.shape[1]), np.float64), np.empty(n_words, np.int64)
    _native.cluster_sums(y, codes.astype(np.int32), threads, sums, counts)
    return sums


def _together(a: NDArray[np.uint8], b: NDArray[np.uint8], n_a: int, n_b: int) -> NDArray[np.float64]:
    """How often words of two books occur in one row."""
    both = a.astype(np.int64) * n_b + b
    return np.bincount(both, minlength=n_a * n_b).reshape(n_a, n_b).astype(np.float64)
