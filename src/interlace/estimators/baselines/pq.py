"""Product quantization: k-means in ranges of dimensions."""

from __future__ import annotations

from ...codec.codebooks import Codebooks
from ...inputs.arrays import FloatArray
from .product import product_codebooks, start
from .vectors import FitRun, VectorModel


class PQ(VectorModel):
    """Product quantization (Jégou, Douze, Schmid: Product Quantization for Nearest Neighbor Search, 2011).

    The dimensions are split into ``n_books`` ranges in their given order, and each range gets ``n_words`` words by
    ``iterations`` rounds of k-means. A code has one byte for each range. The order matters: in SIFT, for example,
    dependent dimensions are next to each other.

    Not implemented: the inverted file (IVFADC) and symmetric distances between codes (SDC). The words of the first
    range are the cells of an index; this costs nothing and lets a search skip cells.
    """

    name_in_files = "PQ"
    books_layout = "product"

    def learn_codebooks(self, x: FloatArray, run: FitRun) -> Codebooks:
        """k-means in each range of dimensions."""
        product = start(x, run.n_books, run, rotation=None, iterations=run.iterations)
        return product_codebooks(x, product, run, self.books_layout)
