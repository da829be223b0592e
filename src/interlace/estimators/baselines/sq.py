"""Supervised quantization: embedding and composite or product books learned together."""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal

from ...errors import InputError
from ...inputs.literals import Auto, CrossWithLabels, Loss, Optimize
from ...learn.recipe import Recipe
from ..supervised import SupervisedModel

QUANTIZERS = ("cq", "pq")


class SQ(SupervisedModel):
    """Supervised quantization (Wang, Zhang, Qi, Tang, Sebe, Shen: Supervised Quantization for Similarity Search, 2016).

    A linear embedding and ``"cq"`` (composite, as in the paper) or ``"pq"`` (product) books, learned together from
    labels. Embeddings, losses, recipe, training and defaults are those of :class:`interlace.SupervisedICQ`, so that the
    two differ only in their books. The loss of the paper is ``loss="regression"``. Not implemented: the closed-form
    updates of the paper; all parameters are learned by gradient.

    ``n_crude`` is the number of books that the first step of our search reads; ``margin=inf`` searches as the paper
    does.
    """

    name_in_files = "SQ"

    def __init__(
        self,
        quantizer: Literal["cq", "pq"] = "cq",
        *,
        n_bytes: int | None = None,
        n_books: int | None = None,
        n_words: int = 256,
        n_crude: int | Auto = "auto",
        cross: CrossWithLabels = "auto",
        dim: int | None = None,
        embedding: Any = "linear",
        hidden: tuple[int, ...] = (),
        loss: Loss = "contrastive",
        optimize: Optimize = "joint",
        recipe: str | Recipe | dict[str, Any] = "default",
        validation: float = 0.1,
        checkpoint: str | PathLike[str] | None = None,
        device: str = "auto",
        seed: int = 0,
        threads: int | None = None,
        progress: Any = "auto",
    ) -> None:
        super().__init__(
            n_bytes=n_bytes,
            n_books=n_books,
            n_words=n_words,
            n_crude=n_crude,
            cross=cross,
            dim=dim,
            embedding=embedding,
            hidden=hidden,
            optimize=optimize,
            recipe=recipe,
            validation=validation,
            checkpoint=checkpoint,
            device=device,
            seed=seed,
            threads=threads,
            progress=progress,
        )
        self.quantizer = quantizer
        self.loss = loss

    def books_kind(self) -> str:
        """The ``quantizer``."""
        if self.quantizer not in QUANTIZERS:
            raise InputError(f"quantizer must be one of {', '.join(QUANTIZERS)}, got {self.quantizer!r}")
        return self.quantizer
