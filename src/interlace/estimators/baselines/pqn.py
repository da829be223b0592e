"""Product quantization network: triplets of an unquantized query and soft codes."""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal

from ...errors import InputError
from ...inputs.literals import Auto, CrossWithLabels, Optimize
from ...learn.recipe import Recipe
from ..supervised import SupervisedModel

QUANTIZERS = ("pq", "cq")


class PQN(SupervisedModel):
    """Product quantization network (Yu, Yuan, Fang, Jin: Product Quantization Network for Fast Image Retrieval, 2018).

    ``"pq"`` (product, as in the paper) or ``"cq"`` (composite) books with soft codes and the asymmetric triplet loss:
    an unquantized row should be more similar to the soft codes of its class than to those of others. Parameters and
    defaults are those of :class:`interlace.quantizers.SQ`; ``softness`` of the recipe applies to the codes.
    ``SupervisedICQ(loss="soft_triplet")`` learns ICQ's books with the same loss; ``loss="asymmetric_triplet"`` uses
    hard codes and straight-through gradients instead.

    Not implemented: parts and words of length 1 (words are selected by distance, and similarities are in the unit of
    the rows), a fixed alpha of the softmax (its unit is the error of a book, so that one ``softness`` suits all books),
    triplets drawn in advance (all rows of a batch are used, with up to 8 positives each), and the network of the paper.
    Added for ``"cq"``: the constant cross term and the quantization error (``error`` of the recipe). The error can be
    added for ``"pq"`` too (``soft_error``); this reduced precision.
    """

    name_in_files = "PQN"
    loss = "soft_triplet"

    def __init__(
        self,
        quantizer: Literal["pq", "cq"] = "pq",
        *,
        n_bytes: int | None = None,
        n_books: int | None = None,
        n_words: int = 256,
        n_crude: int | Auto = "auto",
        cross: CrossWithLabels = "auto",
        dim: int | None = None,
        embedding: Any = "linear",
        hidden: tuple[int, ...] = (),
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

    def books_kind(self) -> str:
        """The ``quantizer``."""
        if self.quantizer not in QUANTIZERS:
            raise InputError(f"quantizer must be one of {', '.join(QUANTIZERS)}, got {self.quantizer!r}")
        return self.quantizer
