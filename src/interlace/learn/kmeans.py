"""Seeded k-means on native kernels. The same seed gives the same words for any number of threads."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..inputs.arrays import FloatArray

Labels = NDArray[np.int32]  #: the word of each row


def nearest(x: FloatArray, words: FloatArray, threads: int) -> tuple[Labels, FloatArray]:
    """For each row the index of the nearest word w, and its score |w|^2 - 2 x.w."""
    index, score = np.empty(len(x), np.int32), np.empty(len(x), np.float32)
    _native.nearest(np.ascontiguousarray(x), np.ascontiguousarray(words), threads, index, score)
    return index, score


def means(x: FloatArray, labels: Labels, old: FloatArray, threads: int) -> tuple[FloatArray, NDArray[np.int64]]:
    """Mean and number of the rows of each label; a label without rows keeps its old word."""
    sums, counts = np.empty(old.shape, np.float64), np.empty(len(old), np.int64)
    _native.cluster_sums(np.ascontiguousarray(x), labels, threads, sums, counts)
    filled = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], old)
    return filled.astype(np.float32), counts


def subtract(x: FloatArray, labels: Labels, words: FloatArray, support: NDArray[np.uint32], threads: int) -> None:
    """Subtract the word of its label, which is on the dimensions ``support``, from each row of x, in place."""
    _native.subtract_words(x, labels, np.ascontiguousarray(words), support, threads)


def kmeans(
    x: FloatArray, n_words: int, *, rng: np.random.Generator, threads: int, iterations: int = 15, spread: float = 1.0
) -> FloatArray:
    """The words of :func:`clusters`."""
    return clusters(x, n_words, rng=rng, threads=threads, iterations=iterations, spread=spread)[0]


def clusters(
    x: FloatArray, n_words: int, *, rng: np.random.Generator, threads: int, iterations: int = 15, spread: float = 1.0
) -> tuple[FloatArray, Labels]:
    """At most ``n_words`` words for the rows of x, fewer if the rows have fewer distinct values; the word of each row.

    Words start at random rows, moved towards the mean to the share ``spread`` of their distance.
    """
    if (unit := _unit(x)) != 1:
        words, labels = clusters(x / unit, n_words, rng=rng, threads=threads, iterations=iterations, spread=spread)
        return np.asarray(words * unit, np.float32), labels
    n_words = min(n_words, len(x))
    words = x[np.sort(rng.choice(len(x), n_words, replace=False))]
    if spread != 1.0:
        mean = x.mean(0, dtype=np.float64)
        words = (mean + spread * (words - mean)).astype(np.float32)
    words = lloyd(x, words, threads=threads, iterations=iterations)
    labels = nearest(x, words, threads)[0]
    used = np.bincount(labels, minlength=len(words)) > 0
    return in_use(words, labels), np.asarray((np.cumsum(used) - 1)[labels], np.int32)


def _unit(x: FloatArray) -> np.float32:
    """1, or a power of two to divide by, if squares of the values would overflow or underflow in float32."""
    largest = float(np.abs(x).max(initial=0))
    return np.float32(1 if largest == 0 or 1e-9 < largest < 1e12 else 2.0 ** math.frexp(largest)[1])


def lloyd(x: FloatArray, words: FloatArray, *, threads: int, iterations: int) -> FloatArray:
    """Lloyd's iterations. A word without rows restarts at the row with the largest error."""
    squares = np.einsum("ij,ij->i", x, x)
    for _ in range(iterations):
        labels, score = nearest(x, words, threads)
        words, counts = means(x, labels, words, threads)
        empty = np.flatnonzero(counts == 0)
        if len(empty):
            worst = np.argsort(-(score + squares), kind="stable")[: len(empty)]
            words[empty] = x[worst]
    return words


def in_use(words: FloatArray, labels: Labels) -> FloatArray:
    """The words that at least one row has."""
    return np.ascontiguousarray(words[np.bincount(labels, minlength=len(words)) > 0])
