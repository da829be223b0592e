"""Product quantization network: triplets of a float query and softly assigned codes."""

from __future__ import annotations

from typing import Any

from ...errors import InputError
from .supervised import Supervised

QUANTIZERS = ("pq", "cq")


class PQN(Supervised):
    """Product quantization network (Yu, Yuan, Fang, Jin: Product Quantization Network for Fast Image Retrieval, 2018).

    ``"pq"`` (product, as in its paper) or ``"cq"`` (composite) books with soft codes, and the asymmetric triplet loss:
    a float row is to be more similar to the soft codes of its class than to those of others. Parameters and their
    defaults are those of :class:`interlace.quantizers.SQ`; ``softness`` of the recipe is that of the codes.
    ``ICQ(loss="soft_triplet")`` has ICQ's books on the same embedding, ``loss="asymmetric_triplet"`` is the same with
    hard codes and straight-through gradients.

    Left out: parts and words of length 1 (distances choose words, and similarities are in the unit of the rows), a
    fixed alpha of the softmax (the unit is the error of a book, so that ``softness`` holds for any of them), triplets
    drawn beforehand (all rows of a batch, up to 8 positives each), its network. Added for ``"cq"``: the constant cross
    term, and the quantization error (``error`` of the recipe). ``"pq"`` may have it too (``soft_error``), which has
    cost precision.
    """

    _estimator = "PQN"
    loss = "soft_triplet"

    def __init__(
        self,
        quantizer: str = "pq",
        *,
        n_bytes: int | None = None,
        n_books: int | None = None,
        n_words: int = 256,
        n_crude: int | str = "auto",
        cross: str = "auto",
        dim: int | None = None,
        embedding: Any = "linear",
        hidden: tuple[int, ...] = (),
        optimize: str = "joint",
        recipe: Any = "default",
        validation: float = 0.1,
        checkpoint: Any = None,
        device: str = "auto",
        seed: int = 0,
        threads: int | None = None,
        progress: Any = "auto",
    ) -> None:
        self.quantizer = quantizer
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

    def _kind(self) -> str:
        if self.quantizer not in QUANTIZERS:
            raise InputError(f"quantizer must be one of {', '.join(QUANTIZERS)}, got {self.quantizer!r}")
        return self.quantizer
