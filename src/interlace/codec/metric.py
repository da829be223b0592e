"""The metrics: everything in which they differ, so that no other module compares their names.

| name | distance of q and x | rows and queries |
|---|---|---|
| ``l2`` | sum of (q - x)^2, never negative | as they are |
| ``ip`` | -(q . x) | as they are |
| ``cosine`` | 1 - q . x | divided by their lengths |

A smaller distance is nearer for all of them. To add a metric: an entry here, its name in ``inputs/literals.py``, its
number in ``cpp/core/books.h`` and what the kernels compute for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..inputs.arrays import FloatArray, normalize

#: Bounds the rounding error of squaring a radius and taking the root.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Metric:
    """One metric; the instances are in :data:`METRICS`."""

    name: str
    number: int  # in cpp/core/books.h
    #: Distances are squared lengths of q - x: never negative, with cross terms between overlapping books, and with
    #: queries centred by the mean of the books. Otherwise a distance is ``offset`` - q . x, a sum over books.
    is_squared: bool = False
    offset: float = 0.0
    #: Rows and queries are divided by their lengths.
    is_normalized: bool = False
    #: Distances grow with the length of the query, and so do limits that calibration learns.
    scales_with_query: bool = False

    def prepare(
        self, x: FloatArray, *, name: str, first_row: int = 0, rows: NDArray[np.int64] | None = None
    ) -> FloatArray:
        """Rows or queries [n, dim] as they are coded and searched; arguments as those of :func:`normalize`."""
        return normalize(x, name=name, first_row=first_row, rows=rows) if self.is_normalized else x

    def distances(self, queries: NDArray[Any], x: NDArray[Any], squares: NDArray[Any] | None = None) -> NDArray[Any]:
        """Distances [n, m] of prepared queries [n, dim] and rows [m, dim], by one matrix product.

        ``squares`` are the squared lengths of the rows, for callers that have them already.
        """
        out: NDArray[Any] = queries @ x.T
        if not self.is_squared:
            np.subtract(self.offset, out, out=out)
            return out
        out *= -2
        out += np.einsum("ij,ij->i", x, x) if squares is None else squares
        out += np.einsum("ij,ij->i", queries, queries)[:, None]
        np.maximum(out, 0, out=out)  # rounding may fall below zero
        return out

    def pair_distances(self, q: NDArray[Any], x: NDArray[Any]) -> NDArray[Any]:
        """Distances of vectors of q and x, pair by pair, over the last axis; the others are broadcast."""
        return np.asarray(((x - q) ** 2).sum(-1) if self.is_squared else self.offset - (x * q).sum(-1))

    def scores(self, distances: FloatArray) -> FloatArray:
        """Squared distances as they are (l2), inner products (ip) and cosines (cosine) of distances."""
        return distances if self.is_squared else np.asarray(self.offset - distances, np.float32)

    def limit_scales(self, queries: NDArray[Any]) -> NDArray[Any]:
        """What learned limits are multiplied by for each query: its length, or 1."""
        return np.sqrt((queries**2).sum(1)) if self.scales_with_query else np.ones(len(queries), queries.dtype)

    @property
    def is_distance(self) -> bool:
        """Distances are never negative, except by rounding; inner products can be."""
        return self.is_squared or self.is_normalized

    @property
    def largest(self) -> float:
        """No distance is larger, except by rounding."""
        return 2.0 if self.is_normalized else math.inf

    def lengths(self, distances: FloatArray) -> NDArray[np.float64]:
        """Distances as scikit-learn defines them: Euclidean for l2, the others as they are; clipped to what can be."""
        wide = distances.astype(np.float64)
        if self.is_distance:
            wide = np.clip(wide, 0.0, self.largest)
        return np.sqrt(wide) if self.is_squared else wide

    def radius(self, length: float) -> float:
        """The smallest radius that is certain to include every row within this length (see :meth:`lengths`)."""
        if self.is_squared:
            return length * length * (1 + ROUNDING)
        return math.inf if length >= self.largest else length


METRICS = {
    metric.name: metric
    for metric in (
        Metric("l2", 0, is_squared=True),
        Metric("ip", 1, scales_with_query=True),
        Metric("cosine", 2, offset=1.0, is_normalized=True),
    )
}


def metric_of(name: Any) -> Metric:
    """The metric of this name, or an error that lists the names."""
    found = METRICS.get(name) if isinstance(name, str) else None
    if found is None:
        raise InputError(f"metric must be one of {', '.join(METRICS)}, got {name!r}")
    return found
