"""What the deep methods share: the parameters of a fit with labels; loss and books are the method."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from ..joint import checked, fit_jointly
from ..models import Model

Self = TypeVar("Self", bound="Supervised")


class Supervised(Model):
    """Parameters are those of :class:`interlace.quantizers.SQ`, with the same defaults; see there."""

    #: L_E, a name of ``interlace.learn.recipe.LOSSES``.
    loss: ClassVar[str]

    def __init__(
        self,
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
        self.n_bytes = n_bytes
        self.n_books = n_books
        self.n_words = n_words
        self.n_crude = n_crude
        self.cross = cross
        self.dim = dim
        self.embedding = embedding
        self.hidden = hidden
        self.optimize = optimize
        self.recipe = recipe
        self.validation = validation
        self.checkpoint = checkpoint
        self.device = device
        self.seed = seed
        self.threads = threads
        self.progress = progress

    def _kind(self) -> str:
        """Of the books: ``"pq"`` or ``"cq"``."""
        return "pq"

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Learn embedding and books from inputs X with labels y, or from a torch ``Dataset`` or ``DataLoader``."""
        joint = checked(self, self._kind(), self.n_books, self.n_bytes, self.n_crude, self.cross)
        self._take(fit_jointly(joint, X, y, self.progress))
        return self
