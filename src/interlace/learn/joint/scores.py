"""The score of an epoch: MAP by the search itself, by labels or by pairs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...codec.codebooks import Codebooks
from ...codec.encode import encode
from ...engine.engine import Engine
from ...engine.segments import Segment
from ...evaluate.ranking import map_of_ranking
from ...evaluate.squares import row_squares
from ...inputs.arrays import FloatArray


def search_map(
    codebooks: Codebooks,
    rows: FloatArray,
    labels: NDArray[np.int64],
    queries: FloatArray,
    query_labels: NDArray[np.int64],
    threads: int = 1,
) -> float:
    """MAP of the whole ranking by an exhaustive search of an index of ``rows``; both are embedded already."""
    codes = encode(codebooks, rows, threads)
    engine = Engine(codebooks, (Segment.pack(codes, codebooks),))
    decoded = codebooks.decode(codes)
    found = map_of_ranking(queries, decoded, query_labels, labels, squares=row_squares(engine, threads))
    return float(found["map"])


def pair_precision(
    codebooks: Codebooks,
    rows: FloatArray,
    queries: FloatArray,
    relevant: NDArray[np.int64],
    left_out: NDArray[np.int64],
    threads: int = 1,
) -> float:
    """MAP of the whole ranking where only the pairs (query, row) in ``relevant`` [n, 2] count, ordered by query.

    ``left_out`` [n, 2] are (query, row) that are not ranked. Rows of equal distance rank after each other: the relevant
    one last.
    """
    codes = encode(codebooks, rows, threads)
    engine = Engine(codebooks, (Segment.pack(codes, codebooks),))
    distances = row_squares(engine, threads) - 2.0 * (queries.astype(np.float64) @ codebooks.decode(codes).T)
    distances = distances.astype(np.float32)  # equal rows have equal distances
    distances[left_out[:, 0], left_out[:, 1]] = np.inf
    precisions = []
    for query, found in enumerate(distances):
        own = np.sort(found[relevant[relevant[:, 0] == query, 1]])
        ranks = np.searchsorted(np.sort(found), own, side="right")
        precisions.append(float((np.arange(1, len(own) + 1) / ranks).mean()))
    return float(np.mean(precisions))
