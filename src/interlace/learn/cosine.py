"""The s of the cosine metric: how long queries are when codes are searched (``codec/metric.py`` says why)."""

from __future__ import annotations

import numpy as np

from ..codec.codebooks import Codebooks
from ..codec.metric import cosine
from ..inputs.arrays import FloatArray

#: Rows whose neighbours are looked up, at most, and which of their neighbours counts.
QUERIES, NEIGHBOUR = 128, 10
#: The largest s; beyond it recall hardly changes. Steps of s, so that rounding does not matter.
LARGEST, STEP = 4.0, 0.125


def with_query_length(codebooks: Codebooks, x: FloatArray) -> Codebooks:
    """The codebooks with the s for rows like the sample x; unchanged unless their metric is cosine by squares."""
    if not codebooks.metric_type.is_converted:
        return codebooks
    arrays, description = codebooks.to_arrays()
    return Codebooks.from_arrays(arrays, description | cosine(query_length(x)).described())


def query_length(x: FloatArray) -> float:
    """1 / c, with the mean cosine c of rows [n, dim] of length 1 and their tenth neighbours in x."""
    some = x[:: -(-len(x) // QUERIES)] if len(x) else x
    place = min(NEIGHBOUR, len(x) - 1)  # a row's first neighbour is itself
    if place < 1:
        return 1.0
    products = some @ x.T
    products.partition(len(x) - 1 - place, axis=1)
    near = float(products[:, len(x) - 1 - place].mean(dtype=np.float64))
    return float(np.clip(round(1 / max(near, 1 / LARGEST) / STEP) * STEP, 1.0, LARGEST))
