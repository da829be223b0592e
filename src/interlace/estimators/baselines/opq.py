"""Optimized product quantization: product books after a rotation, learned together."""

from __future__ import annotations

from typing import Any, Literal

from ...codec.codebooks import MAX_WORDS, Codebooks
from ...errors import InputError
from ...inputs.arrays import FloatArray
from ...inputs.literals import Auto
from ...learn.settings import MAX_TRAIN_ROWS
from .product import STARTS, product_codebooks, rotated
from .vectors import FitRun, VectorModel


class OPQ(VectorModel):
    """Optimized product quantization (Ge, He, Ke, Sun: Optimized Product Quantization, 2013), non-parametric.

    Each of the ``iterations`` computes the mean of the rows of each word, then the rotation that brings the rows
    nearest to their words (orthogonal Procrustes). The result depends on the ``start``: ``"principal"`` axes, assigned
    to the ranges so that each has about the same product of variances (the parametric solution of the paper), or the
    ``"given"`` axes, which is far better if their order has a meaning, as in SIFT. ``"auto"`` runs five iterations from
    each and continues from the better one.
    """

    name_in_files = "OPQ"
    books_layout = "rotated product"

    def __init__(
        self,
        n_books: int = 8,
        *,
        start: Literal["auto", "principal", "given"] = "auto",
        n_words: int = MAX_WORDS,
        n_crude: int | Auto = "auto",
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

    def check_parameters(self) -> None:
        """Validate ``start``."""
        if self.start not in ("auto", *STARTS):
            raise InputError(f"start must be one of auto, {', '.join(STARTS)}, got {self.start!r}")

    def learn_codebooks(self, x: FloatArray, run: FitRun) -> Codebooks:
        """Product books and rotation in turns."""
        starts = STARTS if self.start == "auto" else (self.start,)
        product = rotated(x, run.n_books, run, starts, run.iterations)
        return product_codebooks(x, product, run, self.books_layout)
