"""The best words for given codes: one least-squares problem for all books at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..codec.codebooks import Book
from ..inputs.arrays import FloatArray
from .schedule import REFIT_PASSES

#: Weight of a word's old value, in rows: words with few rows stay near it.
RIDGE_ROWS = 0.5
#: Conjugate gradients stop when the gradient has fallen to this share, or after REFIT_PASSES. The error that is left is
#: far smaller than what the next codes change.
TOLERANCE = 1e-3


def refit(books: list[Book], y: FloatArray, codes: NDArray[np.uint8], threads: int) -> tuple[list[Book], float]:
    """Words with a lower squared error of y for codes [n, n_books], and the error of the old words.

    Dimensions that are quantized by the same books share one system of normal equations. A book alone on its dimensions
    gets the means of its rows (weighted with its old words); a word without rows does not change. Neither does a book
    of one word, which is only an offset.
    """
    words, error = [book.words.copy() for book in books], 0.0
    for quantizers, dims in _patterns(books, y.shape[1]):
        places = {j: np.searchsorted(books[j].support, dims) for j in quantizers}
        free = [j for j in quantizers if len(books[j].words) > 1] or quantizers
        part = y if len(dims) == y.shape[1] else np.ascontiguousarray(y[:, dims])
        for j in quantizers:
            if j not in free and words[j][:, places[j]].any():
                part = part - words[j][:, places[j]]
        solved = np.ascontiguousarray(np.concatenate([words[j][:, places[j]] for j in free]))
        starts = np.cumsum([0, *(len(words[j]) for j in free)])
        error += _native.refit_words(
            part,
            np.ascontiguousarray(codes[:, free]),
            starts.astype(np.uint32),
            RIDGE_ROWS,
            TOLERANCE,
            REFIT_PASSES,
            threads,
            solved,
        )
        for j, new in zip(free, np.split(solved, starts[1:-1]), strict=True):
            words[j][:, places[j]] = new
    return [Book(w, book.support) for w, book in zip(words, books, strict=True)], error


def _patterns(books: list[Book], dim: int) -> list[tuple[list[int], NDArray[np.int64]]]:
    """Sets of books, each with the dimensions that exactly these books quantize."""
    member = np.zeros((dim, len(books)), bool)
    for j, book in enumerate(books):
        member[book.support, j] = True
    kinds, kind_of = np.unique(member, axis=0, return_inverse=True)
    return [
        (np.flatnonzero(kind).tolist(), np.flatnonzero(kind_of.reshape(-1) == i))
        for i, kind in enumerate(kinds)
        if kind.any()
    ]
