"""The data of one run: training rows, database and queries."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..evaluate.answers import exact_neighbours

#: True neighbours per query, computed by brute force.
NEIGHBOURS = 100


@dataclass(frozen=True, eq=False)
class Problem:
    """Training rows, a database to search, and queries, with labels if there are some."""

    name: str
    x: NDArray[Any]  #: training rows
    queries: NDArray[Any]
    labels: NDArray[Any] | None = None
    query_labels: NDArray[Any] | None = None
    database: NDArray[Any] | None = None  #: rows to search; None: the training rows
    database_labels: NDArray[Any] | None = None

    @property
    def searched(self) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """The database and its labels."""
        return (self.x, self.labels) if self.database is None else (self.database, self.database_labels)

    @cached_property
    def truth(self) -> NDArray[np.int64]:
        """Rows of the database nearest to each query."""
        rows = self.searched[0]
        return exact_neighbours(rows, self.queries, min(NEIGHBOURS, len(rows)), dtype=np.float32)[0]

    @cached_property
    def learned(self) -> str:
        """A checksum of the training rows and the queries."""
        return _checksum(self.x, self.labels, self.queries, self.query_labels)

    @cached_property
    def description(self) -> dict[str, Any]:
        """Shapes and a checksum, for JSON."""
        parts = self.x, self.labels, self.queries, self.query_labels, self.database, self.database_labels
        return {
            "name": self.name,
            "rows": len(self.x),
            "database": len(self.searched[0]),
            "queries": len(self.queries),
            "shape": list(self.x.shape[1:]),
            "sha256": _checksum(*parts),
        }


def _checksum(*arrays: NDArray[Any] | None) -> str:
    found = hashlib.sha256()
    for array in arrays:
        if array is not None:
            found.update(repr((array.shape, array.dtype.str)).encode())
            found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()
