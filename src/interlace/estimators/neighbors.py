"""Nearest neighbours for scikit-learn: the calls of its NearestNeighbors and KNeighborsTransformer, on an Index."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine import margins
from ..engine.margins import DEFAULT
from ..errors import InputError
from ..files import storage
from ..index.index import Index
from ..inputs.arrays import BLOCK_ROWS, FloatArray, Rows, positive
from ..inputs.literals import Layout, Margin, Metric
from ..learn.settings import MAX_TRAIN_ROWS
from .base import Transformer, optional, readable

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MODES = ("connectivity", "distance")
ROUNDING = 1e-6  # what squaring a radius and taking the root again may change, and more


class Neighbors(Transformer):
    """Nearest neighbours among the rows given to ``fit``, of which only codes of ``n_bytes`` each are kept.

    Neighbours and distances are those of the codes: ``index_.reconstruct`` gives the vectors they stand for.
    Distances are as in scikit-learn: Euclidean for ``l2``, 1 - cosine for ``cosine``; for ``ip``, which it does not
    have, minus the inner product (the nearest row is the one with the largest).

    Where ``X`` is None the training rows are asked for, each one itself left out. As their vectors are not kept, what
    their codes stand for is searched instead.

    Parameters are those of :meth:`Index.build` and :meth:`Index.search`; ``radius`` searches are always exact to the
    codes, whatever ``margin``. ``fit`` sets ``index_``, ``n_samples_fit_``, ``n_features_in_``, and, for tables whose
    columns have names, ``feature_names_in_``.
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
        """Learn codes from rows X [n, dim] and keep them; y is ignored."""
        rows, names = readable(X)
        positive(self.n_neighbors, "n_neighbors")  # all before minutes of learning
        _check_radius(self.radius, self.metric)
        margins.parse(self.margin, k=1, n=0, calibration=None, sigma=0.0)
        self.index_ = Index.build(
            rows,
            n_bytes=self.n_bytes,
            layout=self.layout,
            metric=self.metric,
            seed=self.seed,
            max_train_rows=self.max_train_rows,
            threads=self.threads,
        )
        self.n_samples_fit_ = len(self.index_)
        self._remember(self.index_.dim, names)
        return self

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """Distances float64 [n, n_neighbors], ascending, and row numbers int64 [n, n_neighbors], or these alone."""
        distances, rows = self._nearest(X, n_neighbors, own=X is None)
        return (distances, rows) if return_distance else rows

    def kneighbors_graph(self, X: Any = None, n_neighbors: int | None = None, mode: str = "connectivity") -> Any:
        """CSR matrix [n, n_samples_fit_] of ones, or of distances, at the neighbours of each row."""
        _check_mode(mode)
        distances, rows = self._nearest(X, n_neighbors, own=X is None)
        return self._graph(distances, rows, mode)

    def radius_neighbors(
        self, X: Any = None, radius: float | None = None, return_distance: bool = True, sort_results: bool = False
    ) -> Any:
        """Distances and row numbers of all rows within the radius: two object arrays [n] of arrays, or the second.

        They are sorted whatever ``sort_results``. A row is within a radius that equals its distance.
        """
        if sort_results and not return_distance:
            raise InputError("return_distance must be True if sort_results is True.")
        distances, rows = (_objects(arrays) for arrays in self._within(X, radius))
        return (distances, rows) if return_distance else rows

    def radius_neighbors_graph(
        self, X: Any = None, radius: float | None = None, mode: str = "connectivity", sort_results: bool = False
    ) -> Any:
        """CSR matrix [n, n_samples_fit_] of ones, or of distances, at the rows within the radius."""
        _check_mode(mode)
        return self._graph(*self._within(X, radius), mode)

    def transform(self, X: Any) -> Any:
        """CSR matrix [n, n_samples_fit_] of distances to the n_neighbors + 1 nearest training rows.

        One more, because estimators with ``metric="precomputed"`` do not count a row as its own neighbour.
        """
        self._check_fitted()
        _check_distance(self.index_.metric)
        distances, rows = self._nearest(X, positive(self.n_neighbors, "n_neighbors") + 1, own=False)
        return self._contained(self._graph(distances, rows, "distance"), X)

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """``fit``, and the graph of the training rows: each one itself at distance 0, and its n_neighbors nearest.

        ``transform(X)`` would give a row's distance to its own code, which is not 0 and need not be the smallest.
        """
        _check_distance(self.metric)
        self.fit(X, y)
        distances, rows = self._nearest(X, None, own=True)
        n = len(rows)
        distances = np.concatenate([np.zeros((n, 1)), distances], axis=1)
        rows = np.concatenate([np.arange(n)[:, None], rows], axis=1)
        return self._contained(self._graph(distances, rows, "distance"), X)

    def _n_features_out(self) -> int:
        return self.n_samples_fit_

    def _queries(self, x: Any) -> tuple[int, Iterator[FloatArray]]:
        """How many, and blocks of them."""
        self._check_fitted()
        if x is not None:
            rows = Rows(self._like_fit(x), name="X", dim=self.index_.dim)
            return len(rows), rows.blocks()
        n = self.n_samples_fit_
        starts = range(0, n, BLOCK_ROWS)
        return n, (self.index_.reconstruct(np.arange(s, min(n, s + BLOCK_ROWS))) for s in starts)

    def _nearest(self, x: Any, n_neighbors: int | None, *, own: bool) -> tuple[Floats, Ints]:
        """Distances and rows; with ``own``, queries are the training rows and none is its own neighbour."""
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
        """Exactly k hits of each query, k being no more than there are rows."""
        matches = self.index_.search(queries, k, margin=margin, threads=self.threads)
        ids, distances = matches
        if (short := np.flatnonzero(matches.counts < k)).size:  # a calibrated margin may pass over too many rows
            ids[short], distances[short] = self.index_.search(queries[short], k, margin="exact", threads=self.threads)
        return _as_sklearn(distances, self.index_.metric), ids

    def _within(self, x: Any, radius: float | None) -> tuple[list[Floats], list[Ints]]:
        """Distances and rows of each query, ascending."""
        _, blocks = self._queries(x)
        limit = _check_radius(self.radius if radius is None else radius, self.index_.metric)
        reach = _as_radius(limit, self.index_.metric)
        distances: list[Floats] = []
        rows: list[Ints] = []
        for block in blocks:
            start = len(rows)
            matches = self.index_.range_search(block, reach, threads=self.threads)
            for i in range(len(block)):
                found, ours = matches[i]
                d = _as_sklearn(ours, self.index_.metric)
                keep = d <= limit
                if x is None:
                    keep &= found != start + i
                distances.append(d[keep])
                rows.append(found[keep])
        return distances, rows

    def _graph(self, distances: Any, rows: Any, mode: str) -> Any:
        """CSR matrix of hits, given as 2-D arrays or as lists of arrays."""
        sparse = optional("scipy.sparse", "a graph of neighbours", "interlace[sklearn]")
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


def _as_sklearn(distances: FloatArray, metric: str) -> Floats:
    """Squared distances -> Euclidean ones; rounding, and codes longer than 1, may have led out of the range."""
    wide = distances.astype(np.float64)
    if metric == "ip":
        return wide
    return np.sqrt(np.maximum(wide, 0.0)) if metric == "l2" else np.clip(wide, 0.0, 2.0)


def _as_radius(limit: float, metric: str) -> float:
    """A distance of scikit-learn -> one of ours that no row within it is beyond."""
    if metric == "ip":
        return limit
    if metric == "cosine":  # the largest there is, after clipping
        return math.inf if limit >= 2 else limit
    return limit * limit * (1 + ROUNDING)


def _without_own(distances: Floats, rows: Ints, first_row: int) -> tuple[Floats, Ints]:
    """Hits of consecutive rows less the row itself; where it was not found, less the last."""
    own = rows == np.arange(first_row, first_row + len(rows))[:, None]
    own[~own.any(1), -1] = True
    shape = (len(rows), rows.shape[1] - 1)
    return distances[~own].reshape(shape), rows[~own].reshape(shape)


def _objects(arrays: list[Any]) -> NDArray[Any]:
    """One object per array, also where all are of one length, which NumPy would stack."""
    out = np.empty(len(arrays), dtype=object)
    for i, array in enumerate(arrays):
        out[i] = array
    return out


def _check_radius(radius: Any, metric: str) -> float:
    real = isinstance(radius, int | float | np.integer | np.floating) and not isinstance(radius, bool)
    if not real or math.isnan(radius) or (radius < 0 and metric != "ip"):
        raise InputError(f"radius must be a number{'' if metric == 'ip' else ' of at least 0'}, got {radius!r}")
    return float(radius)


def _check_mode(mode: Any) -> None:
    if mode not in MODES:
        raise InputError(f'Unsupported mode, must be one of "connectivity", or "distance" but got {mode!r} instead')


def _check_distance(metric: str) -> None:
    if metric == "ip":
        raise InputError(
            "metric 'ip' is no distance, and a graph of distances is what transform makes; use l2 or cosine, "
            "or kneighbors_graph"
        )
