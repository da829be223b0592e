"""Optimized product quantization: product books behind a rotation that is learned with them."""

from __future__ import annotations

from ..arrays import FloatArray
from ..codebooks import Codebooks
from .product import START_ROUNDS, balanced_axes, centre, product_codebooks, ranges, start, turn
from .vectors import Run, VectorModel


class OPQ(VectorModel):
    """Optimized product quantization (Ge, He, Ke, Sun: Optimized Product Quantization, 2013), the non-parametric one.

    It starts from principal axes, dealt out to the ranges so that each has about the same product of variances (the
    paper's parametric solution), and takes ``iterations`` turns: the means of the rows of each word, then the rotation
    that brings the rows nearest to their words (orthogonal Procrustes).

    Left out: the choice between this start and the order of the dimensions as they are; :class:`CKMeans` has that one.
    """

    _estimator = "OPQ"

    def _learn(self, x: FloatArray, run: Run) -> Codebooks:
        rotation = balanced_axes(x - centre(x), ranges(x.shape[1], run.n_books))
        product = start(x, run.n_books, run, rotation=rotation, iterations=START_ROUNDS)
        turn(x, product, run, iterations=run.iterations)
        return product_codebooks(x, product, run, "rotated product")
