"""`Neighbors`: an index with the interface of scikit-learn's NearestNeighbors and KNeighborsTransformer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.metric import METRICS, metric_of
from ..codec.metric import Metric as MetricType
from ..engine import margins
from ..engine.hits import but_own
from ..engine.margins import DEFAULT
from ..errors import InputError
from ..files import storage
from ..index.index import Index
from ..inputs.arrays import BLOCK_ROWS, FloatArray, Rows, positive
from ..inputs.literals import Layout, Margin, Metric
from ..learn.settings import MAX_TRAIN_ROWS
from .base import Transformer, import_optional
from .features import read_features

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MODES = ("connectivity", "distance")


class Neighbors(Transformer):
    """Nearest neighbours among the rows passed to ``fit``, of which only codes of ``n_bytes`` each are kept.

    Neighbours and distances are those of the decoded vectors (``index_.reconstruct``). Distances are as in
    scikit-learn: Euclidean for ``l2``, 1 - cosine for ``cosine``. For ``ip``, which scikit-learn does not have, they
    are negated inner products.

    With ``X=None`` the queries are the decoded training rows, and no row is its own neighbour. Rows are known by their
    numbers: a column ``id`` of a table is neither a feature nor names them.

    Parameters are those of :meth:`Index.build` and :meth:`Index.search`. Radius searches are always exact for the
    codes, whatever ``margin`` is. ``fit`` sets ``index_``, ``n_samples_fit_``, ``n_features_in_`` and, for tables with
    named columns, ``feature_names_in_``.
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        radius: float = 1.0,
        n_bytes: int = 8,
        layout: Layout = "auto",
        metric: Metric = "l2",
        margin: Margin = DEFAULT,
        seed: int = 0,
        max_train_rows: int = MAX_TRAIN_ROWS,
        threads: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.radius = radius
        self.n_bytes = n_bytes
        self.layout = layout
        self.metric = metric
        self.margin = margin
        self.seed = seed
        self.max_train_rows = max_train_rows
        self.threads = threads

    def fit(self, X: Any, y: Any = None) -> Neighbors:
        """Learn codebooks from rows X [n, dim] and index them; y is ignored."""
        rows, names = read_features(X)
        positive(self.n_neighbors, "n_neighbors")  # check everything before learning, which takes long
        _check_radius(self.radius, metric_of(self.metric))
        margins.check_margin(self.margin)
        self.index_ = Index.build(
            Rows(rows, name="X", ids=False),
            n_bytes=self.n_bytes,
            layout=self.layout,
            metric=self.metric,
            seed=self.seed,
            max_train_rows=self.max_train_rows,
            threads=self.threads,
        )
        self.n_samples_fit_ = len(self.index_)
        self._record_features(self.index_.dim, names)
        return self

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """Distances float64 [n, n_neighbors], ascending, and row numbers int64; only these without return_distance."""
        distances, rows = self._nearest(X, n_neighbors, own=X is None)
        return (distances, rows) if return_distance else rows

    def kneighbors_graph(self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity") -> Any:
        """CSR matrix ``[n, n_samples_fit_]`` with ones, or with ``mode="distance"`` distances, at the neighbours."""
        _check_mode(mode)
        distances, rows = self._nearest(X, n_neighbors, own=X is None)
        return self._graph(distances, rows, mode)

    def radius_neighbors(
        self, X: Any = None, radius: float | None = None, return_distance: bool = True, sort_results: bool = False
    ) -> Any:
        """Distances and row numbers of all rows within the radius: two object arrays [n] of arrays.

        Without ``return_distance``, only the row numbers. Results are always sorted. The radius is inclusive.
        """
        if sort_results and not return_distance:
            raise InputError("return_distance must be True if sort_results is True.")
        distances, rows = (_objects(arrays) for arrays in self._within(X, radius))
        return (distances, rows) if return_distance else rows

    def radius_neighbors_graph(
        self, X: Any = None, radius: float | None = None, mode: str = "connectivity", sort_results: bool = False
    ) -> Any:
        """CSR matrix ``[n, n_samples_fit_]`` of ones, or distances (``mode="distance"``), at rows within the radius."""
        _check_mode(mode)
        return self._graph(*self._within(X, radius), mode)

    def transform(self, X: Any) -> Any:
        """CSR matrix ``[n, n_samples_fit_]`` of distances to the n_neighbors + 1 nearest training rows.

        There is one more, because estimators with ``metric="precomputed"`` do not count a row as its own neighbour.
        """
        self._check_fitted()
        _check_distance(self._metric)
        distances, rows = self._nearest(X, positive(self.n_neighbors, "n_neighbors") + 1, own=False)
        return self._wrap_output(self._graph(distances, rows, "distance"), X)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """``fit``, then the graph of the training rows: each row itself at distance 0 and its n_neighbors nearest.

        ``transform(X)`` would return the distance of a row to its own code, which is not 0.
        """
        _check_distance(metric_of(self.metric))
        self.fit(X, y)
        distances, rows = self._nearest(X, None, own=True)
        n = len(rows)
        distances = np.concatenate([np.zeros((n, 1)), distances], axis=1)
        rows = np.concatenate([np.arange(n)[:, None], rows], axis=1)
        return self._wrap_output(self._graph(distances, rows, "distance"), X)

    @property
    def _metric(self) -> MetricType:
        return self.index_.codebooks.metric_type

    def _n_features_out(self) -> int:
        return self.n_samples_fit_

    def _queries(self, x: Any) -> tuple[int, Iterator[FloatArray]]:
        """The number of queries and blocks of them; the decoded training rows for None."""
        self._check_fitted()
        if x is not None:
            rows = Rows(self._read_like_fit(x), name="X", dim=self.index_.dim, ids=False)
            return len(rows), rows.blocks()
        n = self.n_samples_fit_
        starts = range(0, n, BLOCK_ROWS)
        return n, (self.index_.reconstruct(np.arange(s, min(n, s + BLOCK_ROWS))) for s in starts)

    def _nearest(self, x: Any, n_neighbors: int | None, *, own: bool) -> tuple[Floats, Ints]:
        """Distances and rows. With ``own``, the queries are the training rows, and no row is its own neighbour."""
        n, blocks = self._queries(x)
        k = positive(self.n_neighbors if n_neighbors is None else n_neighbors, "n_neighbors")
        if k + own > self.n_samples_fit_:
            raise InputError(
                f"Expected n_neighbors {'<' if own else '<='} n_samples_fit, but n_neighbors = {k}, "
                f"n_samples_fit = {self.n_samples_fit_}, n_samples = {n}"
            )
        distances, rows = np.empty((n, k)), np.empty((n, k), np.int64)
        start = 0
        for block in blocks:
            part = slice(start, start + len(block))
            found = self._search(block, k + own, self.margin)
            distances[part], rows[part] = _without_own(*found, start) if own else found
            start += len(block)
        return distances, rows

    def _search(self, queries: FloatArray, k: int, margin: Margin) -> tuple[Floats, Ints]:
        """Exactly k results of each query; k is at most the number of rows."""
        matches = self.index_.search(queries, k, margin=margin, threads=self.threads)
        ids, distances = matches
        if (short := np.flatnonzero(matches.counts < k)).size:  # a calibrated margin can discard too many rows
            ids[short], distances[short] = self.index_.search(queries[short], k, margin="exact", threads=self.threads)
        return self._metric.lengths(distances), ids

    def _within(self, x: Any, radius: float | None) -> tuple[list[Floats], list[Ints]]:
        """Distances, ascending, and rows of each query."""
        _, blocks = self._queries(x)
        limit = _check_radius(self.radius if radius is None else radius, self._metric)
        reach = self._metric.radius(limit)
        distances: list[Floats] = []
        rows: list[Ints] = []
        for block in blocks:
            start = len(rows)
            matches = self.index_.range_search(block, reach, threads=self.threads)
            for i in range(len(block)):
                found, ours = matches[i]
                d = self._metric.lengths(ours)
                keep = d <= limit
                if x is None:
                    keep &= found != start + i
                distances.append(d[keep])
                rows.append(found[keep])
        return distances, rows

    def _graph(self, distances: Any, rows: Any, mode: str) -> Any:
        """CSR matrix of results, which are 2-D arrays or lists of arrays."""
        sparse = import_optional("scipy.sparse", "a graph of neighbours", "interlace[sklearn]")
        starts = np.cumsum([0, *map(len, rows)])
        indices = np.concatenate(rows) if isinstance(rows, list) else rows.ravel()
        data = np.concatenate(distances) if isinstance(distances, list) else distances.ravel()
        if mode == "connectivity":
            data = np.ones(len(indices))
        return sparse.csr_matrix((data, indices, starts), shape=(len(rows), self.n_samples_fit_))

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if "index_" in state:
            state["index_"] = storage.to_bytes(self.index_.save)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if "index_" in state:
            self.index_ = storage.from_bytes(state["index_"], Index.open)


def _without_own(distances: Floats, rows: Ints, first_row: int) -> tuple[Floats, Ints]:
    """Results of consecutive rows without the row itself, or without the last if the row is not among them."""
    others = but_own(rows, np.arange(first_row, first_row + len(rows)))
    shape = (len(rows), rows.shape[1] - 1)
    return distances[others].reshape(shape), rows[others].reshape(shape)


def _objects(arrays: list[Any]) -> NDArray[Any]:
    """An object array of arrays; NumPy would stack arrays of equal length."""
    out = np.empty(len(arrays), dtype=object)
    for i, array in enumerate(arrays):
        out[i] = array
    return out


def _check_radius(radius: Any, metric: MetricType) -> float:
    real = isinstance(radius, int | float | np.integer | np.floating) and not isinstance(radius, bool)
    if not real or math.isnan(radius) or (radius < 0 and metric.is_distance):
        raise InputError(f"radius must be a number{' of at least 0' * metric.is_distance}, got {radius!r}")
    return float(radius)


def _check_mode(mode: Any) -> None:
    if mode not in MODES:
        raise InputError(f'Unsupported mode, must be one of "connectivity", or "distance" but got {mode!r} instead')


def _check_distance(metric: MetricType) -> None:
    if not metric.is_distance:
        usable = " or ".join(repr(m.name) for m in METRICS.values() if m.is_distance)
        raise InputError(
            f"transform returns a graph of distances, and metric {metric.name!r} is not a distance: use metric "
            f"{usable}, or call kneighbors_graph"
        )
