"""Cells: rows whose first word is the same. They share a base, and terms that depend on the cell alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..inputs.arrays import FloatArray
from .book import MAX_WORDS, Book, Norm
from .limits import uses
from .metric import Metric


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells that the first of some books makes, for vectors that are centred by ``mean`` and rotated."""

    books: tuple[Book, ...]
    norms: tuple[Norm, ...]
    mean: FloatArray
    rotation: FloatArray | None
    metric: Metric

    @property
    def n(self) -> int:
        """Number of cells: words of the first book."""
        return len(self.books[0].words)

    @property
    def n_bytes(self) -> int:
        """Bytes of the number of a cell in front of unpacked codes (cpp/core/code_rows.h)."""
        return 1 if self.n <= MAX_WORDS else 2

    def numbers(self, codes: NDArray[np.uint8]) -> NDArray[np.int64]:
        """The cells [...] of codes [..., n_bytes + n_columns]."""
        numbers = codes[..., 0].astype(np.int64)
        for byte in range(1, self.n_bytes):
            numbers |= codes[..., byte].astype(np.int64) << (8 * byte)
        return numbers

    def to_codes(self, numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Inverse of :meth:`numbers`: the bytes [..., n_bytes] of cells."""
        return np.stack([(numbers >> (8 * byte)).astype(np.uint8) for byte in range(self.n_bytes)], axis=-1)

    def bases(self, q: FloatArray) -> FloatArray:
        """Base [n, n_cells] of every cell for queries [n, dim]: what search adds for the first book, up to rounding."""
        dim, first = len(self.mean), self.books[0]
        words = np.zeros((self.n, dim), np.float32)
        words[:, first.support] = first.words
        y = q - self.mean if self.metric.is_squared else q
        if self.rotation is not None:
            y = y @ self.rotation
        products = y @ words.T
        if not self.metric.is_squared:
            return np.asarray(self.metric.offset - (q @ self.mean)[:, None] - products)
        n_uses = uses(self.books, dim)
        alone = [book.support for book in self.books[1:] if (n_uses[book.support] == 1).all()]
        covered = np.unique(np.concatenate([np.zeros(0, np.uint32), *alone]))
        # Dimensions that only later books cover are not part of the base.
        y = np.delete(y, np.setdiff1d(covered, first.support), axis=1)
        base = (y**2).sum(1)[:, None] - 2 * products + (words**2).sum(1)[None]
        constant = sum((norm.values[0] for norm in self.norms if not norm.stored), np.float32(0))
        return np.asarray(np.maximum(base, np.float32(0)) + constant, np.float32)
