"""How far a reported distance may be from the distance to the decoded vector: bounds that follow from the arithmetic.

Notation: z = q - mean, R the rotation, W the reach of the books, u = 2^-24 the rounding of one float32 operation. What
search computes for a row differs from |q - decoded|^2 by five things, whose bounds are added up:

1. terms kept as whole numbers of a step: those of cells, and cross terms (or norms, which stand for them)
2. z and z R in float32, which are off by a vector of length dy
3. the sums themselves: up to n roundings each, of terms whose sizes add up to at most (|z| + W)^2
4. a rotation that is not quite orthonormal
5. the decoded vector, which is computed in float32 as well and off by a vector of length dx
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..inputs.arrays import FloatArray
from .codebooks import Codebooks, Codes
from .terms import dense_words

U = 2.0**-24
TINY = 2.0**-149  # what an operation near 0 may lose
ROWS = 16384  # that are decoded at once
Doubles = NDArray[np.float64]


def distance_error(codebooks: Codebooks, codes: Iterable[Codes], queries: FloatArray) -> Doubles:
    """For each query [n, dim] as it is searched, a bound of |computed - true| over all rows with these codes.

    The codes are read only if the codebooks have norms.

    True is the squared distance (or product) of the query and what ``codebooks.decode`` gives for the row.
    """
    dim = codebooks.dim
    reach, mean = codebooks.reach, float(np.linalg.norm(codebooks.mean.astype(np.float64)))
    skew = 0.0  # |R R^T - 1|
    turned = 0.0  # length of what rounding adds to a vector of length 1 that is rotated
    if codebooks.rotation is not None:
        rotation = codebooks.rotation.astype(np.float64)
        skew = _largest_stretch(rotation.T @ rotation - np.eye(dim))
        turned = _rounded(dim + 1) * np.sqrt(dim * (1 + skew))
    dx = (_rounded(codebooks.n_books) + turned) * reach + 2 * U * (reach + mean)
    n = dim + len(codebooks.columns) + 16
    lost = TINY * (dim + 16) * (len(codebooks.columns) + 2)
    if not codebooks.metric_type.is_squared:
        lengths = np.linalg.norm(queries.astype(np.float64), axis=1)
        dy = (turned + 4 * U) * lengths  # 4: the query may have been divided by its length
        error = lengths * dx + dy * (reach + mean) + _rounded(n) * (1 + lengths * (reach + mean))
        return np.asarray((error + lost) * (1 + skew) * 1.001)
    z = np.linalg.norm(queries.astype(np.float64) - codebooks.mean, axis=1)
    dy = (turned + 2 * U) * z
    whole = (z + reach) * (1 + skew) + dy + dx  # no vector here is longer
    norms = sum(float(np.abs(norm.values).max()) for norm in codebooks.norms)
    error = (
        _step_error(codebooks)
        + _norm_error(codebooks, codes)
        + 2 * whole * (dy + dx)
        + dy**2
        + dx**2
        + skew * (z**2 + reach**2)
        + _rounded(n) * (whole**2 + norms)
    )
    return np.asarray((error + lost) * 1.001)  # the sums of this function, and products of the small terms


def _largest_stretch(symmetric: Doubles) -> float:
    """A bound of the spectral norm |E|, at most dim^(1/8) times as large: the Frobenius norm of E^4 bounds |E|^4.

    The Frobenius norm of E itself may be 39 times as large at 1,536 dimensions.
    """
    largest = float(np.abs(symmetric).max(initial=0.0))
    if largest == 0:
        return 0.0
    square = (symmetric / largest) @ (symmetric / largest)  # powers of small numbers would vanish
    return largest * math.sqrt(math.sqrt(float(np.linalg.norm(square @ square))))


def _rounded(n: int) -> float:
    """The relative error of n roundings, one after the other."""
    return n * U / (1 - n * U)


def _step_error(codebooks: Codebooks) -> float:
    """Of the terms that are kept in whole steps (cpp/core/books.h)."""
    words = [_dense(codebooks, book) for book in range(codebooks.n_books)]
    terms = [2 * np.abs(words[0] @ words[c].T).max() for c in codebooks.columns if c >= 0]
    overlapping = [
        c
        for c in codebooks.columns
        if c >= 0 and np.intersect1d(codebooks.books[0].support, codebooks.books[c].support).size
    ]
    # Half a step of 2^-15 of the largest term, and what rounding does to that step and to the term.
    error = 0.0 if codebooks.folds_cells else 0.51 / 32767 * max(terms, default=0.0) * len(overlapping)
    dense = dense_words(codebooks)
    kept = [
        (words[0 if position < 0 else codebooks.columns[position]], steps * np.sqrt(np.float64(dense.unit)))
        for position, steps in dense.of.items()
    ]
    for (exact, rounded), (other, other_rounded) in itertools.combinations(kept, 2):
        error += 2 * float(np.abs(rounded @ other_rounded.T - exact @ other.T).max())
    return error


def _norm_error(codebooks: Codebooks, blocks: Iterable[Codes]) -> float:
    """Of norms, by the codes of all rows: the largest difference from the cross terms that they stand for."""
    if not codebooks.norms:
        return 0.0
    columns = (0, *codebooks.columns)
    constant = float(sum(norm.values[0] for norm in codebooks.norms if not norm.stored))
    words = {c: _dense(codebooks, c) for c in columns if c > 0}
    largest = 0.0
    for codes in blocks:
        for start in range(0, len(codes), ROWS):
            part = codebooks.code_numbers(codes[start : start + ROWS])
            total, stands = np.zeros((len(part), codebooks.dim)), np.full(len(part), constant)
            for column, code in zip(columns, part.T, strict=True):
                if column > 0:
                    total += words[column][code]
                    stands += (words[column] ** 2).sum(1)[code]
                elif column < 0:
                    stands += codebooks.norms[-1 - column].values[code]
            largest = max(largest, float(np.abs((total**2).sum(1) - stands).max(initial=0)))
    return largest


def _dense(codebooks: Codebooks, book: int) -> Doubles:
    """Words of a book on all dimensions."""
    found = codebooks.books[book]
    dense = np.zeros((len(found.words), codebooks.dim))
    dense[:, found.support] = found.words
    return dense
