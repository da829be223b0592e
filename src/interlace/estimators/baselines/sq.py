"""Supervised quantization: the embedding learned with the books, without ICQ's split."""

from __future__ import annotations

from typing import Any

from ...errors import InputError
from ..joint import checked, fit_jointly
from ..models import Model

QUANTIZERS = ("cq", "pq")


class SQ(Model):
    """Supervised quantization (Wang, Zhang, Qi, Tang, Sebe, Shen: Supervised Quantization for Similarity Search, 2016).

    A linear embedding and ``"cq"`` (composite, as in its paper) or ``"pq"`` (product) books, learned together from
    labels. Embeddings, losses, recipe and training are those of :class:`interlace.ICQ` with labels, and so are the
    defaults (``dim``: 16, or as many as classes; ``loss="contrastive"``), so that the two differ only in their books.
    Its paper's own L_E is ``loss="regression"``. Left out: the closed-form updates of its alternation; here blocks move
    by gradient.

    ``n_books`` is 8 by default, ``n_crude`` the books of the crude step when searched by our cascade
    (``margin=inf`` searches as the paper does).
    """

    _estimator = "SQ"

    def __init__(
        self,
        quantizer: str = "cq",
        *,
        n_bytes: int | None = None,
        n_books: int | None = None,
        n_words: int = 256,
        n_crude: int | str = "auto",
        cross: str = "auto",
        dim: int | None = None,
        embedding: Any = "linear",
        hidden: tuple[int, ...] = (),
        loss: str = "contrastive",
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
        self.n_bytes = n_bytes
        self.n_books = n_books
        self.n_words = n_words
        self.n_crude = n_crude
        self.cross = cross
        self.dim = dim
        self.embedding = embedding
        self.hidden = hidden
        self.loss = loss
        self.optimize = optimize
        self.recipe = recipe
        self.validation = validation
        self.checkpoint = checkpoint
        self.device = device
        self.seed = seed
        self.threads = threads
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> SQ:
        """Learn embedding and books from inputs X with labels y, or from a torch ``Dataset`` or ``DataLoader``."""
        if self.quantizer not in QUANTIZERS:
            raise InputError(f"quantizer must be one of {', '.join(QUANTIZERS)}, got {self.quantizer!r}")
        joint = checked(self, self.quantizer, self.n_books, self.n_bytes, self.n_crude, self.cross)
        self._take(fit_jointly(joint, X, y, self.progress))
        return self
