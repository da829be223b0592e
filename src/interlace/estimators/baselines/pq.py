"""Product quantization: k-means in ranges of dimensions, nothing else."""

from __future__ import annotations

from ...codec.codebooks import Codebooks
from ...inputs.arrays import FloatArray
from .product import product_codebooks, start
from .vectors import Run, VectorModel


class PQ(VectorModel):
    """Product quantization (Jégou, Douze, Schmid: Product Quantization for Nearest Neighbor Search, 2011).

    The dimensions are cut into ``n_books`` ranges in the order they have, and each range gets ``n_words`` words by
    ``iterations`` rounds of k-means. A code is one byte for each range. Where dimensions that depend on each other
    stand together, as in SIFT, that order is worth a lot.

    Left out: the inverted file (IVFADC), and distances between codes (SDC): queries are compared as they are. The words
    of the first range make the cells of an index, which costs nothing and lets a search skip some.
    """

    _estimator = "PQ"
    _layout = "product"

    def _learn(self, x: FloatArray, run: Run) -> Codebooks:
        product = start(x, run.n_books, run, rotation=None, iterations=run.iterations)
        return product_codebooks(x, product, run, self._layout)
