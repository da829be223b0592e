"""`SupervisedICQ`: interleaved composite quantization learned from labels or pairs, with the parameters for it."""

from __future__ import annotations

from os import PathLike
from typing import Any, TypeVar

from ..inputs.literals import Auto, CrossWithLabels, Loss, Optimize
from ..learn.recipe import Recipe
from .fitted import Fitted
from .joint import fit_jointly
from .supervised import SupervisedModel

Self = TypeVar("Self", bound="SupervisedICQ")


class SupervisedICQ(SupervisedModel):
    """ICQ that learns an embedding and interleaved books from labels or pairs.

    ``fit(X, y)``, or ``fit(dataset)`` with torch, learns from labels: rows of one class get codes that are found
    together. ``fit(X, pairs=(queries, positives))`` learns from pairs: a query should find its positives.

    ``loss`` is ``"contrastive"``, ``"cross_entropy"``, ``"regression"``, ``"triplet"``, ``"asymmetric_triplet"``,
    ``"pairwise"``, ``"soft_hard"`` or ``"soft_triplet"``; pairs need ``"contrastive"`` and ``optimize="joint"``.
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

    def learn(self, X: Any, y: Any = None, pairs: tuple[Any, Any] | None = None) -> Fitted:
        """Learn embedding and books from inputs X with labels y or pairs, or from a torch ``Dataset``."""
        return fit_jointly(self.checked_settings(), X, y, self.progress, pairs=pairs)

    def fit(self: Self, X: Any, y: Any = None, *, pairs: tuple[Any, Any] | None = None) -> Self:
        """Learn from inputs X with labels y, or with ``pairs``. After an error the model is unchanged.

        ``pairs`` are (queries, positives). Each is row numbers of X (integers [pairs]), or an array of inputs of their
        own [pairs, features]; the two may differ in kind. A query with several positives is listed several times.
        """
        self.set_fitted(self.learn(X, y, pairs))
        return self

    def books_kind(self) -> str:
        """Interleaved composite books."""
        return "icq"
