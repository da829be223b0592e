"""The score of an epoch: MAP by the search itself."""

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
