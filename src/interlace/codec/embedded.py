"""Raw inputs as embedded rows and queries: from here on they go the way of all vectors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inputs.arrays import FloatArray, Rows, to_matrix
from .embedding import Embedding


class EmbeddedRows(Rows):
    """Inputs that are read in blocks and come out as vectors: [n, *input_shape], or flat rows."""

    def __init__(self, x: Any, embedding: Embedding, *, name: str = "x", ids: Any = None) -> None:
        super().__init__(x, name=name, inputs=embedding.input_shape, ids=ids)
        self._embedding = embedding
        self.dim = embedding.dim

    def part(self, start: int, stop: int) -> FloatArray:
        """Vectors of consecutive inputs, read and embedded a few at a time."""
        out, step = np.empty((stop - start, self.dim), np.float32), self._embedding.block_rows
        for first in range(start, stop, step):
            block = super().part(first, min(first + step, stop))
            at = first - start
            out[at : at + len(block)] = self._embedding.embed(block, name=self.name, first_row=first)
        return out

    def take(self, rows: NDArray[np.int64]) -> FloatArray:
        """Vectors of the given inputs, ascending."""
        out, step = np.empty((len(rows), self.dim), np.float32), self._embedding.block_rows
        for start in range(0, len(rows), step):
            chosen = rows[start : start + step]
            block = super().take(chosen)
            out[start : start + len(block)] = self._embedding.embed(block, name=self.name, rows=chosen)
        return out


def embed_queries(embedding: Embedding, q: Any) -> tuple[FloatArray, bool]:
    """Vectors [n, dim] and whether a single query was given: one input, in its shape or flat."""
    x = q if hasattr(q, "shape") else to_matrix(q, "queries")
    shape, width = tuple(x.shape), math.prod(embedding.input_shape)
    many = len(shape) == 2 and shape[1] == width  # also where one input of shape [1, width] looks like that
    single = not many and shape in ((width,), embedding.input_shape)
    if single:
        x = to_matrix(x, "queries").reshape(1, width)
    rows = EmbeddedRows(x, embedding, name="queries")
    return rows.part(0, len(rows)), single
