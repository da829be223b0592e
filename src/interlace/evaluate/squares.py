"""The part of a distance that does not depend on the query, for rankings of all rows by one matrix product."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..engine.engine import Engine
from ..engine.options import SearchOptions


def row_squares(engine: Engine, threads: int = 1) -> NDArray[np.float64]:
    """squares [rows] such that the distance of a search is |q|^2 - 2 <q, decoded row> + squares[row].

    For metrics of squared distances and engines without removed rows. They are the distances of the origin, with the
    constants or rounded bytes of the cross terms that the search adds, so they differ from |decoded row|^2.
    """
    origin = np.zeros((1, engine.codebooks.dim), np.float32)
    found = engine.search(origin, SearchOptions(k=engine.n_rows, margin=math.inf, threads=threads))
    squares = np.empty(engine.n_rows)
    squares[found.rows[0]] = found.distances[0]
    return squares
