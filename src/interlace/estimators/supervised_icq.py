"""`SupervisedICQ`: interleaved composite quantization learned from labels, with the parameters of that case only."""

from __future__ import annotations

from os import PathLike
from typing import Any

from ..inputs.literals import Auto, CrossWithLabels, Loss, Optimize
from ..learn.recipe import Recipe
from .supervised import SupervisedModel


class SupervisedICQ(SupervisedModel):
    """ICQ that learns an embedding and interleaved books from labels: ``fit(X, y)``, or ``fit(dataset)`` with torch.

    Rows of one class get codes that are found together. ``loss`` is ``"contrastive"``, ``"cross_entropy"``,
    ``"regression"``, ``"triplet"``, ``"asymmetric_triplet"``, ``"pairwise"``, ``"soft_hard"`` or ``"soft_triplet"``.
    :class:`~interlace.estimators.supervised.SupervisedModel` documents the other parameters; layout (``"subspace"``),
    rotation (``"principal"``) and metric (``"l2"``) are fixed by the method.

    ``il.ICQ(...).fit(X, y)`` learns the same model.
    """

    name_in_files = "SupervisedICQ"

    def __init__(
        self,
        n_bytes: int | None = None,
        *,
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
        self.loss = loss

    def books_kind(self) -> str:
        """Interleaved composite books."""
        return "icq"
