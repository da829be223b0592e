"""Which dimensions a book gets, and the order of its words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..inputs.arrays import FloatArray

Dims = NDArray[np.int64]
GROUPS = 128  # kGroups of cpp/simd/kernels.h
#: Residual books that share dimensions, without the first: at most, at least, and one for each of this many rows that
#: they are learned from. Cross terms take time and memory that are quadratic in the books of a group, and the more of
#: them the more they overfit. Recall@10 of text vectors of 256 dimensions, on rows learned from and on others: 16 bytes
#: from 9,000 rows in one group .637 and .467, in two .653 and .516, as product books (``hybrid``) .579 and .521; 32
#: bytes from 36,000 rows in two groups .762, in four .753, product books .722 (of rows learned from, nearly all).
MOST_TOGETHER, LEAST_TOGETHER, ROWS_PER_BOOK = 16, 4, 1024
POWER_ROUNDS = 10


def near_words_together(words: FloatArray) -> FloatArray:
    """Reorder words so that those with the same index modulo 128 are a compact cluster.

    The avx2 scan bounds a word by its pair first (cpp/simd/avx2.cpp), so near pairs make it faster. Groups are halved
    along the direction of largest spread, down to 128 groups of equal size; this needs no seed. Books with fewer than
    256 words are not reordered.
    """
    if len(words) != 2 * GROUPS:
        return words
    order = np.arange(len(words))[None]  # [groups, words of a group]
    while len(order) < GROUPS:
        centred = words[order].astype(np.float64)
        centred -= centred.mean(1, keepdims=True)
        along = np.einsum("gwd,gd->gw", centred, _leading_axes(centred))
        order = np.take_along_axis(order, np.argsort(along, axis=1, kind="stable"), axis=1)
        order = order.reshape(2 * len(order), -1)
    return np.ascontiguousarray(words[order.T.reshape(-1)])


def _leading_axes(centred: NDArray[np.float64]) -> NDArray[np.float64]:
    """Direction of largest spread of each group [groups, words, dim], of length 1, by power iterations.

    They start at the word farthest from the mean and need not converge, because any direction of large spread is good
    enough. Without BLAS, whose threads would cost more than this work.
    """
    squares = np.einsum("gwd,gwd->gw", centred, centred)
    axes: NDArray[np.float64] = centred[np.arange(len(centred)), squares.argmax(1)]
    for _ in range(POWER_ROUNDS):
        axes = np.einsum("gwd,gw->gd", centred, np.einsum("gwd,gd->gw", centred, axes))
        lengths = np.sqrt(np.einsum("gd,gd->g", axes, axes))
        axes = axes / np.where(lengths > 0, lengths, 1.0)[:, None]
    return np.asarray(axes)


def group_sizes(n_books: int, dim: int, n_train: int) -> tuple[int, ...]:
    """Residual books in each group, the first book left out; one group unless there are many for the rows."""
    n, together = n_books - 1, max(LEAST_TOGETHER, min(n_train // ROWS_PER_BOOK, MOST_TOGETHER))
    n_groups = max(1, min(-(-n // together), dim))
    return tuple(n // n_groups + (group < n % n_groups) for group in range(n_groups))


def _shares(variances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Variances divided by the largest one; ones if all are zero."""
    largest = float(variances.max(initial=0.0))
    return variances / largest if largest > 0 else np.ones_like(variances)


def fair_bits(variances: NDArray[np.float64], n_bits: float) -> NDArray[np.float64]:
    """Bits per dimension that minimize the error of Gaussian sources: reverse water-filling."""
    logs = np.log2(np.maximum(_shares(variances), 1e-12))
    low, high = logs.min() - 2 * n_bits, logs.max()
    for _ in range(200):
        level = (low + high) / 2
        if np.maximum(0.0, (logs - level) / 2).sum() > n_bits:
            low = level
        else:
            high = level
    return np.asarray(np.maximum(0.0, (logs - high) / 2))


#: A k-means book of 256 words on a few dimensions has about the error of this many ideal bits.
BOOK_BITS = 6.8


def leading_groups(
    variances: NDArray[np.float64], n_groups: int, n_bits: float, bits_per_group: float = BOOK_BITS
) -> list[Dims]:
    """The leading dimensions in ``n_groups`` runs, each with the bits of about one book. Variances descend.

    A run ends where the fair bits of its dimensions reach those of a book, so that the crude books get no more energy
    than they can encode.
    """
    fair = np.cumsum(fair_bits(variances, n_bits))
    bounds = [0]
    for group in range(n_groups):
        left = len(variances) - (n_groups - 1 - group)
        stop = int(np.searchsorted(fair, bits_per_group * (group + 1), "left")) + 1
        if stop > 1 and abs(fair[min(stop - 2, len(fair) - 1)] - bits_per_group * (group + 1)) < abs(
            fair[min(stop - 1, len(fair) - 1)] - bits_per_group * (group + 1)
        ):
            stop -= 1
        bounds.append(max(bounds[-1] + 1, min(stop, left)))
    return [np.arange(a, b) for a, b in zip(bounds[:-1], bounds[1:], strict=True)]


def balanced_groups(dims: Dims, variances: NDArray[np.float64], n_groups: int) -> list[Dims]:
    """Split ``dims`` into groups of equal size and nearly equal product of variances (eigenvalue allocation)."""
    logs = np.log(np.maximum(_shares(variances[dims]), 1e-9)) - np.log(1e-9)
    room = [len(dims) // n_groups + (g < len(dims) % n_groups) for g in range(n_groups)]
    groups: list[list[int]] = [[] for _ in range(n_groups)]
    load = np.zeros(n_groups)
    for i in np.argsort(-variances[dims], kind="stable"):
        open_groups = [g for g in range(n_groups) if len(groups[g]) < room[g]]
        g = min(open_groups, key=lambda i: (load[i], len(groups[i]), i))
        groups[g].append(int(dims[i]))
        load[g] += logs[i]
    return [np.array(sorted(group), np.int64) for group in groups]
