"""Optimized product quantization: product books behind a rotation that is learned with them."""

from __future__ import annotations

from typing import Any

from ...codec.codebooks import MAX_WORDS, Codebooks
from ...errors import InputError
from ...inputs.arrays import FloatArray
from ...learn.settings import MAX_TRAIN_ROWS
from .product import STARTS, product_codebooks, rotated
from .vectors import Run, VectorModel


class OPQ(VectorModel):
    """Optimized product quantization (Ge, He, Ke, Sun: Optimized Product Quantization, 2013), the non-parametric one.

    It takes ``iterations`` turns: the means of the rows of each word, then the rotation that brings the rows nearest to
    their words (orthogonal Procrustes). This ends near where it ``start``s: from ``"principal"`` axes, dealt out to the
    ranges so that each has about the same product of variances (the paper's parametric solution), or from the axes as
    they are ``"given"``, which is far better where their order means something, as in SIFT. ``"auto"`` takes five turns
    from each and goes on from the better one.
    """

    _estimator = "OPQ"
    _layout = "rotated product"

    def __init__(
        self,
        n_books: int = 8,
        *,
        start: str = "auto",
        n_words: int = MAX_WORDS,
        n_crude: int | str = "auto",
        iterations: int = 25,
        max_train_rows: int = MAX_TRAIN_ROWS,
        seed: int = 0,
        threads: int | None = None,
        progress: Any = "auto",
    ) -> None:
        super().__init__(
            n_books,
            n_words=n_words,
            n_crude=n_crude,
            iterations=iterations,
            max_train_rows=max_train_rows,
            seed=seed,
            threads=threads,
            progress=progress,
        )
        self.start = start

    def _check(self) -> None:
        if self.start not in ("auto", *STARTS):
            raise InputError(f"start must be one of auto, {', '.join(STARTS)}, got {self.start!r}")

    def _learn(self, x: FloatArray, run: Run) -> Codebooks:
        starts = STARTS if self.start == "auto" else (self.start,)
        product = rotated(x, run.n_books, run, starts, run.iterations)
        return product_codebooks(x, product, run, self._layout)
