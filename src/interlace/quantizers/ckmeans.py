"""Cartesian k-means: product books behind a rotation and a translation that are learned with them."""

from __future__ import annotations

import numpy as np

from ..arrays import FloatArray
from ..codebooks import Codebooks
from .product import START_ROUNDS, product_codebooks, start, turn
from .vectors import Run, VectorModel


class CKMeans(VectorModel):
    """Cartesian k-means (Norouzi, Fleet: Cartesian K-Means, 2013): words are sums of one centre from each subspace.

    The model is that of :class:`OPQ`, found by other authors in the same year: a rotation before product books. Two
    things differ here. It always starts from the axes as they are, never from principal ones; and the translation is
    learned, too, in each of the ``iterations`` turns, after the rotation.

    Left out: orthogonal k-means (two words on each axis), which the paper begins with, and subspaces that have fewer
    dimensions in all than the vectors.
    """

    _estimator = "CKMeans"

    def _learn(self, x: FloatArray, run: Run) -> Codebooks:
        axes = np.eye(x.shape[1], dtype=np.float32)
        product = start(x, run.n_books, run.part(0.0, 0.3), rotation=axes, iterations=START_ROUNDS)
        turn(x, product, run.part(0.3, 1.0), iterations=run.iterations, translate=True)
        return product_codebooks(x, product, run, "rotated product")
