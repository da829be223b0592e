"""The best words for given codes: one least-squares problem for all books at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..codec.codebooks import Book
from ..codec.limits import shortest_direction
from ..inputs.arrays import FloatArray
from .schedule import REFIT_PASSES

#: Weight of a word's old value, in rows: words with few rows stay near it.
RIDGE_ROWS = 0.5
#: The same where words are shrunk. Books whose residuals spread over many dimensions have words that are small beside
#: the errors: without this, they follow single rows and correct each other, which fits the rows that are learned from
#: and no others. ARCHITECTURE.md has what it gains.
SHRUNK_RIDGE_ROWS = 4.0
#: Conjugate gradients stop when the gradient has fallen to this share, or after REFIT_PASSES. The error that is left is
#: far smaller than what the next codes change.
TOLERANCE = 1e-3

BLOCK = 4096  # rows whose targets are computed at a time


def refit(
    books: list[Book], y: FloatArray, codes: NDArray[np.uint8], threads: int, shrink: bool = False
) -> tuple[list[Book], float]:
    """Words with a lower squared error of y for codes [n, n_books], and the error of the old words.

    Dimensions that are quantized by the same books share one system of normal equations. A book alone on its dimensions
    gets the means of its rows (weighted with its old words); a word without rows does not change. Neither does a book
    of one word, which is only an offset. With ``shrink``, new words are near shrunk old ones (:func:`_shrunk`) instead
    of near these, and the error may rise.
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
        given = part, np.ascontiguousarray(codes[:, free]), starts.astype(np.uint32)
        if shrink:
            before = _native.refit_words(*given, RIDGE_ROWS, TOLERANCE, 0, threads, solved)  # changes nothing
            counts = np.concatenate([np.bincount(codes[:, j], minlength=len(words[j])) for j in free])
            solved = _shrunk(solved, counts, starts, before)
            _native.refit_words(*given, SHRUNK_RIDGE_ROWS, TOLERANCE, REFIT_PASSES, threads, solved)
            error += before
        else:
            error += _native.refit_words(*given, RIDGE_ROWS, TOLERANCE, REFIT_PASSES, threads, solved)
        for j, new in zip(free, np.split(solved, starts[1:-1]), strict=True):
            words[j][:, places[j]] = new
    return [Book(w, book.support) for w, book in zip(words, books, strict=True)], error


def _shrunk(words: FloatArray, counts: NDArray[np.int64], starts: NDArray[np.int64], error: float) -> FloatArray:
    """Words times energy / (energy + error), of all rows and of the words of their book; unused words as they are."""
    energies, out = counts * np.einsum("ij,ij->i", words, words, dtype=np.float64), words.copy()
    for start, stop in zip(starts[:-1], starts[1:], strict=True):
        energy = float(energies[start:stop].sum())
        out[start:stop] *= np.float32(energy / (energy + error) if energy > 0 else 1)
    out[counts == 0] = words[counts == 0]
    return out


def parallel_targets(
    books: list[Book], y: FloatArray, codes: list[NDArray[Any]], origin: FloatArray, weight: float, out: FloatArray
) -> float:
    """Into ``out``: rows whose squared error words shall minimize, so that the loss of y falls. Returns the loss of y.

    The loss (:mod:`interlace.codec.encode`) is that of the rows y + origin, with ``codes`` [n] of each book. Its
    gradient is M e for the errors e, with eigenvalues of M from 1 to the weight. Targets that are 2 / (1 + weight) M e
    from the decoded rows make the best step of a fixed length (Richardson's iteration). Rows that are too short to have
    a direction count by their squared error, as in the encoder.
    """
    loss, shortest = 0.0, shortest_direction(origin, books)  # the origin is the mean, rotated: as long as it
    for start in range(0, len(y), BLOCK):
        block = slice(start, start + BLOCK)
        decoded, row = np.zeros_like(y[block]), y[block] + origin
        for book, of in zip(books, codes, strict=True):
            decoded[:, book.support] += book.words[of[block]]
        error, squares = y[block] - decoded, np.einsum("ij,ij->i", row, row)
        along = np.einsum("ij,ij->i", error, row)
        over = np.divide(along, squares, out=np.zeros_like(along), where=squares > shortest**2)  # u.e / length
        loss += float(np.einsum("ij,ij->", error, error)) + (weight - 1) * float(along @ over)
        row *= np.float32(weight - 1) * over[:, None]
        out[block] = decoded + np.float32(2 / (1 + weight)) * (error + row)
    return loss


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
