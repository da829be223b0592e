"""What books must satisfy so that no distance overflows, vanishes or misses a cross term."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..inputs.arrays import FloatArray, describe
from .book import Book, Norm, frozen

#: Bounds of the reach of books, the sum of the lengths of their longest words. Search squares it in float32, next to
#: the square of a query: the largest must not overflow. Where books overlap, their terms are kept in steps of 2^-30 of
#: that square: the smallest must leave such a step a normal number. Without overlaps there are no such steps.
LARGEST_REACH, SMALLEST_REACH, SMALLEST_REACH_ALONE = 4e18, 1e-14, 1e-17
MAX_SUM = 32768  # of the coordinates of words in steps, which are kept in int16
#: The largest ``parallel_weight`` (the loss is defined in ``codec/encode.py``).
MAX_WEIGHT = 16.0
#: Rows shorter than this share of the words and the mean get the squared error: products with them are differences of
#: table entries (cpp/core/coding/parallel.cpp), and rounding would hide these.
SHORTEST = 2.0**-8


def reach_of(books: Sequence[Book]) -> float:
    """Sum over books of the length of their longest word: no decoded vector is farther from the mean."""
    return sum(float(np.sqrt((book.words.astype(np.float64) ** 2).sum(1).max())) for book in books if book.words.size)


def uses(books: Sequence[Book], dim: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Number of books on each dimension."""
    count = np.zeros(dim, np.int64)
    for book in books:
        count[book.support] += 1
    return count


def check_norms(books: Sequence[Book], norms: Sequence[Norm]) -> None:
    """Norms must cover all cross terms between books after the first; without norms search computes these."""
    if not norms:
        return
    covered = {(i, j) for norm in norms for i in norm.covers for j in norm.covers}
    for i in range(1, len(books)):
        for j in range(i + 1, len(books)):
            shared = np.intersect1d(books[i].support, books[j].support)
            if len(shared) and (i, j) not in covered:
                raise InputError(
                    f"books {i} and {j} share dimension {int(shared[0])} but no norm covers their cross term; "
                    "let norms cover all pairs, or give none"
                )


def check_magnitudes(books: Sequence[Book], norms: Sequence[Norm], mean: FloatArray, has_cross_sums: bool) -> None:
    """No sum that coding or search makes may leave float32, or int16 where terms are kept in steps."""
    dim, reach = len(mean), reach_of(books)
    if reach > LARGEST_REACH:
        raise InputError(
            f"words are too large: the longest of each book add up to a length of {reach:.3g}, {LARGEST_REACH:g} "
            "at most; scale the vectors down"
        )
    smallest = SMALLEST_REACH if (uses(books, dim) > 1).any() else SMALLEST_REACH_ALONE
    if 0 < reach < smallest:
        raise InputError(
            f"words are too small: the longest of each book add up to a length of {reach:.3g}, and float32 cannot "
            f"hold squared distances of vectors with less than {smallest:g}; scale the vectors up"
        )
    length = float(np.linalg.norm(mean.astype(np.float64)))
    if length > LARGEST_REACH:
        raise InputError(f"mean is too large: its length is {length:.3g}, {LARGEST_REACH:g} at most")
    for i, norm in enumerate(norms):
        if (largest := float(np.abs(norm.values).max())) > LARGEST_REACH**2:
            raise InputError(f"norm {i} holds a value of size {largest:.3g}, {LARGEST_REACH**2:g} at most")
    # Words are rounded to steps of reach / 32700, and sums of them stay within int16 (cpp/core/books.cpp).
    if has_cross_sums and len(books) * math.sqrt(dim) > MAX_SUM:
        raise InputError(f"{len(books)} overlapping books do not fit {dim} dimensions; use fewer books")


def checked_weight(value: Any) -> float:
    """A weight from 1 to :data:`MAX_WEIGHT` as float32 has it, or InputError."""
    numeric = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not numeric or not 1 <= value <= MAX_WEIGHT:
        raise InputError(f"parallel_weight must be a number from 1 to {MAX_WEIGHT:g}, got {value!r:.60}")
    return float(np.float32(value))


def shortest_direction(mean: FloatArray, books: Sequence[Book]) -> float:
    """Rows up to this length get the squared error."""
    longest = max(float(np.linalg.norm(mean.astype(np.float64))), reach_of(books))
    return float(np.float32(SHORTEST * longest))


def checked_rotation(rotation: Any, dim: int) -> FloatArray:
    """A frozen orthonormal matrix of float32 [dim, dim]."""
    found: FloatArray = frozen(rotation, np.float32, 2, "rotation")
    if found.shape != (dim, dim):
        raise InputError(f"rotation must be {dim} x {dim}, got {describe(found)}")
    error = np.abs(found.T.astype(np.float64) @ found - np.eye(dim)).max()
    if error > 1e-3:
        raise InputError(f"rotation must be orthonormal; R^T R differs from 1 by {error:.2g}")
    return found
