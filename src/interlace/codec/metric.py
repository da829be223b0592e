"""The metrics: everything in which they differ, so that no other module compares their names.

| name | distance of q and x | rows and queries |
|---|---|---|
| ``l2`` | sum of (q - x)^2, never negative | as they are |
| ``ip`` | -(q . x) | as they are |
| ``cosine`` | 1 - q . x + (x . x - 1) / (2 s), which is 1 - q . x for x of length 1 | divided by their lengths |

A smaller distance is nearer for all of them. To add a metric: an entry here, its name in ``inputs/literals.py``, its
number in ``cpp/core/books.h`` and what the kernels compute for it.

**Cosine.** A row has length 1, its code x does not: the shorter it is, the more of the row is missing. A query q with
the cosine c to the row has about the product c (x . x) with the code, and c times the missing part, c (1 - x . x), is
lost. To rank by 1 - q . x is to forget that, and so is to rank by squared distances, which is s = 1. With s = 1 / c,
where c is the cosine of the nearest rows, the sum makes up for half of it (the other half is noise): recall@10 of
16-byte codes of text vectors is .593 by products, .527 with s = 1, .637 by cosines with the codes, .643 with s = 2.5.
Since 2 s times the distance is |s q - x|^2 - (s - 1)^2, search computes squared distances from queries of length s
(:meth:`Metric.searched`), and :meth:`Metric.reported` converts them. ``learn`` chooses s. Indexes of faiss are
ranked by 1 - q . x, and keep it: :data:`COSINE_BY_PRODUCTS`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..inputs.arrays import FloatArray, normalize, refuse_tiny

#: Bounds the rounding error of squaring a radius and taking the root.
ROUNDING = 1e-6
LONGEST_QUERY = 64.0


@dataclass(frozen=True)
class Metric:
    """One metric; the instances are in :data:`METRICS`."""

    name: str
    number: int  # in cpp/core/books.h
    #: Search adds up squared lengths of q - x: never negative, with cross terms between overlapping books, and with
    #: queries centred by the mean of the books. Otherwise it is ``offset`` - q . x, a sum over books.
    is_squared: bool = False
    offset: float = 0.0
    #: Scores are this minus the distance; None: they are the distances.
    best_score: float | None = 0.0
    #: Rows and queries are divided by their lengths.
    is_normalized: bool = False
    #: Distances grow with the length of the query, and so do limits that calibration learns.
    scales_with_query: bool = False
    #: Search computes something else than the distance: cosine by squares.
    is_converted: bool = False
    #: The s of cosine by squares: length of the queries that are searched.
    query_length: float = 1.0

    def prepare(
        self, x: FloatArray, *, name: str, first_row: int = 0, rows: NDArray[np.int64] | None = None
    ) -> FloatArray:
        """Rows or queries [n, dim] that a user passes, as they are coded and searched.

        Arguments are those of :func:`normalize`. Where lengths matter, vectors too small for float32 are refused.
        """
        if not self.is_normalized:
            refuse_tiny(x, name=name, first_row=first_row, rows=rows)
        return self.directed(x, name=name, first_row=first_row, rows=rows)

    def directed(
        self, x: FloatArray, *, name: str, first_row: int = 0, rows: NDArray[np.int64] | None = None
    ) -> FloatArray:
        """The same for vectors that were taken already, or decoded."""
        return normalize(x, name=name, first_row=first_row, rows=rows) if self.is_normalized else x

    def distances(self, queries: NDArray[Any], x: NDArray[Any], squares: NDArray[Any] | None = None) -> NDArray[Any]:
        """Distances [n, m] of prepared queries [n, dim] and rows [m, dim], by one matrix product.

        ``squares`` are the squared lengths of the rows, for callers that have them already.
        """
        out: NDArray[Any] = queries @ x.T
        if not self.is_squared:
            np.subtract(self.offset, out, out=out)
            return out
        lengths = np.einsum("ij,ij->i", x, x) if squares is None else squares
        if self.is_converted:
            np.subtract(1, out, out=out)
            out += (lengths - 1) * (0.5 / self.query_length)
            return out
        out *= -2
        out += lengths
        out += np.einsum("ij,ij->i", queries, queries)[:, None]
        np.maximum(out, 0, out=out)  # rounding may fall below zero
        return out

    def pair_distances(self, q: NDArray[Any], x: NDArray[Any]) -> NDArray[Any]:
        """Distances of vectors of q and x, pair by pair, over the last axis; the others are broadcast."""
        if not self.is_squared:
            return np.asarray(self.offset - (x * q).sum(-1))
        if not self.is_converted:
            return np.asarray(((x - q) ** 2).sum(-1))
        return np.asarray(1 - (x * q).sum(-1) + ((x * x).sum(-1) - 1) * (0.5 / self.query_length))

    def searched(self, queries: FloatArray) -> FloatArray:
        """Prepared queries [n, dim] as they are searched."""
        return queries if self.query_length == 1 else np.asarray(queries * np.float32(self.query_length), np.float32)

    def reported(self, computed: Any) -> Any:
        """Distances of what search computes for queries of :meth:`searched`: float32 of an array, else a float."""
        if not self.is_converted:
            return computed
        s = self.query_length
        wide = np.asarray(computed, np.float64) / (2 * s) - (s - 1) ** 2 / (2 * s)
        return wide.astype(np.float32) if isinstance(computed, np.ndarray) else float(wide)

    def difference(self, computed: float) -> float:
        """The difference of two distances, by that of what search computes."""
        return computed / (2 * self.query_length) if self.is_converted else computed

    def reported_error(self, errors: NDArray[np.float64], longest: float) -> NDArray[np.float64]:
        """Bounds of the error of distances, by those of what search computes; no decoded vector is longer."""
        if not self.is_converted:
            return errors
        s = self.query_length
        # Beside the conversion itself: the query was divided by its length and multiplied by s, both rounded.
        rounding = 2.0**-22 * ((s + longest) ** 2 + (s - 1) ** 2)
        return np.asarray((errors + rounding) / (2 * s) * 1.001)

    def computed(self, distances: FloatArray) -> FloatArray:
        """What search computes at distances; a little more, so that nothing is lost by rounding."""
        if not self.is_converted:
            return distances
        s, wide = self.query_length, distances.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # radii of any size, infinite ones too
            squares = wide * (2 * s) + (s - 1) ** 2
            more = 1e-6 * (np.abs(squares) + (s - 1) ** 2 + np.abs(wide) * (2 * s))
            return np.asarray(np.where(np.isfinite(squares), squares + more, squares), np.float32)

    @property
    def of_originals(self) -> Metric:
        """The metric of kept vectors. Those of cosine have length 1 but for the rounding of their bytes.

        1 - q . x would rank near rows by that rounding. Half of the squared distance is the same for a length of 1, and
        hardly depends on it.
        """
        return METRICS["cosine"] if self.is_normalized else self

    @property
    def is_euclidean(self) -> bool:
        """Distances are squared lengths of differences, of which the roots are lengths."""
        return self.is_squared and not self.is_normalized

    @property
    def larger_is_better(self) -> bool:
        """Of scores; of distances the smaller ones are."""
        return self.best_score is not None

    def similarity(self, distance: float) -> float:
        """A score of which larger is better: the cosine, the product, or 1 / (1 + squared distance)."""
        return 1.0 / (1.0 + max(0.0, distance)) if self.best_score is None else self.best_score - distance

    def scores(self, distances: FloatArray) -> FloatArray:
        """Squared distances as they are (l2), inner products (ip) and cosines (cosine) of distances."""
        return distances if self.best_score is None else np.asarray(self.best_score - distances, np.float32)

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
        return np.sqrt(wide) if self.is_euclidean else wide

    def radius(self, length: float) -> float:
        """The smallest radius that is certain to include every row within this length (see :meth:`lengths`)."""
        if self.is_euclidean:
            return length * length * (1 + ROUNDING)
        return math.inf if length >= self.largest else length

    def described(self) -> dict[str, Any]:
        """What a file says of the metric; the inverse is :func:`metric_in`."""
        return {"metric": self.name} | ({"query_length": self.query_length} if self.is_converted else {})


METRICS = {
    metric.name: metric
    for metric in (
        Metric("l2", 0, is_squared=True, best_score=None),
        Metric("ip", 1, scales_with_query=True),
        Metric("cosine", 0, is_squared=True, best_score=1.0, is_normalized=True, is_converted=True),
    )
}
#: 1 - q . x for codes x of any length: indexes of faiss.
COSINE_BY_PRODUCTS = Metric("cosine", 2, offset=1.0, best_score=1.0, is_normalized=True)


def cosine(query_length: float) -> Metric:
    """The cosine metric with its s, from 1 to :data:`LONGEST_QUERY`."""
    if not 1 <= query_length <= LONGEST_QUERY:
        raise InputError(f"query_length must be 1 to {LONGEST_QUERY:g}, got {query_length!r:.60}")
    return replace(METRICS["cosine"], query_length=float(query_length))


def metric_in(description: dict[str, Any]) -> Metric:
    """The metric that a file describes."""
    if description["metric"] != "cosine":
        return metric_of(description["metric"])
    length = description.get("query_length")
    return COSINE_BY_PRODUCTS if length is None else cosine(length)


def metric_of(name: Any) -> Metric:
    """The metric of this name, or an error that lists the names; a metric is returned as it is."""
    if isinstance(name, Metric):
        return name
    found = METRICS.get(name) if isinstance(name, str) else None
    if found is None:
        raise InputError(f"metric must be one of {', '.join(METRICS)}, got {name!r}")
    return found
