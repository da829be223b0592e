"""The best words for given codes: one least-squares problem for all books at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..codec.codebooks import Book
from ..inputs.arrays import FloatArray
from .schedule import REFIT_PASSES

#: Rows that the old word of each book counts for: words with few rows stay near where they were.
RIDGE_ROWS = 0.5
#: Conjugate gradients end when the gradient has fallen to this share, or after REFIT_PASSES. The words start near the
#: solution, and the next codes move it: what is left after this is far below what another round of coding changes.
TOLERANCE = 1e-3


def refit(books: list[Book], y: FloatArray, codes: NDArray[np.uint8], threads: int) -> tuple[list[Book], float]:
    """Words that lower the squared error of y for codes [n, n_books], in the order of the books; and that error before.

    Dimensions that are quantized by the same books share one system of normal equations. A book alone on its dimensions
    gets the means of its rows (and half its old word); a word without rows stays where it is. A book of one word is an
    offset that the others can take over: it stays too.
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
