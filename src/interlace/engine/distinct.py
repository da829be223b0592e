"""Which queries of a calibration repeat each other: confidence counts different ones only.

Two queries are one if

- their answers by code, which are as long as a calibration looks at, are the same rows in the same order, or
- more than half of their ``K`` nearest rows are the same, and so are the queries but for a little noise: the difference
  between them is at most ``NEAR`` of the way from the mean of the data to the query (by inner product, where only
  directions matter: of its length).

Noise moves rows at the edge of an answer in or out and up or down, hence the second rule. Common rows alone say too
little: in clusters of few rows, and by inner product those of the longest ones, many different queries have them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codebooks
from ..inputs.arrays import FloatArray

K = 10
#: Noise of 1 % of the spread in each dimension of both queries makes about 0.014. Random queries of more than three
#: dimensions are hardly ever so near.
NEAR = 0.05
#: Pairs of queries that are compared at a time, which bounds memory.
PAIRS = 1 << 20


def repeated(codebooks: Codebooks, queries: FloatArray, answers: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each query [n, dim] the number of the first one that it repeats, its own if there is none.

    ``answers`` are its nearest rows by code, the nearest first: [n, depth].
    """
    _, first, same = np.unique(answers, axis=0, return_index=True, return_inverse=True)
    found = first[same.reshape(-1)]
    heads = np.unique(found)
    vectors, nearest = _compared(codebooks, queries[heads]), answers[heads, :K]
    squares, own = np.einsum("ij,ij->i", vectors, vectors), np.arange(len(heads))
    step = max(1, PAIRS // max(1, len(heads)))
    for start in range(0, len(heads), step):
        stop = min(start + step, len(heads))
        apart = squares[start:stop, None] + squares[:stop] - 2 * (vectors[start:stop] @ vectors[:stop].T)
        later, before = np.nonzero(apart <= NEAR**2 * squares[start:stop, None])
        later += start
        later, before = later[before < later], before[before < later]
        shared = sum((nearest[before] == column[later, None]).sum(1) for column in nearest.T)
        for i, j in np.stack([later, before])[:, 2 * shared > nearest.shape[1]].T.tolist():  # ascending
            if own[i] == i and own[j] == j:
                own[i] = j
    return heads[own][np.searchsorted(heads, found)]


def _compared(codebooks: Codebooks, queries: FloatArray) -> FloatArray:
    """Vectors whose lengths are the unit of the noise."""
    metric = codebooks.metric_type
    lengths = np.maximum(metric.limit_scales(queries), np.finfo(np.float32).tiny)
    return np.asarray(queries / lengths[:, None] - (codebooks.mean if metric.is_squared else 0), np.float32)
