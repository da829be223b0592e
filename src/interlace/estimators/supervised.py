"""`SupervisedModel`, the base of quantizers that learn an embedding and codebooks together from labels."""

from __future__ import annotations

from numbers import Real
from os import PathLike
from typing import Any

from .._threads import thread_count
from ..errors import InputError
from ..inputs.arrays import positive
from ..inputs.literals import Auto, CrossWithLabels, Optimize
from ..learn.recipe import LOSSES, OPTIMIZERS, Joint, Recipe
from .fitted import Fitted
from .joint import fit_jointly
from .models import Model

EMBEDDINGS = ("identity", "linear", "mlp", "lenet", "cnn3", "alexnet")
CROSS = ("auto", "constant", "byte", "exact")
MAX_BOOKS = 64


class SupervisedModel(Model):
    """Learns an embedding and codebooks from inputs with labels (extra ``train``; docs/joint.md).

    A subclass defines :attr:`loss`, as an attribute of the class or as a parameter, and :meth:`books_kind`.

    - ``n_bytes``: all bytes of a code; ``n_books``: only the books (default 8). Give one of them.
    - ``n_words``: words of a book, 2 to 256. ``n_crude``: books of the crude step (``"auto"``: chosen by measurement).
    - ``cross``: how search handles the cross terms between books: ``"constant"`` (penalised in learning, then replaced
      by their mean), ``"byte"`` (stored with each code) or ``"exact"`` (computed). ``"auto"`` is ``"constant"``.
    - ``embedding``: ``"identity"``, ``"linear"``, ``"mlp"`` with the widths ``hidden``, ``"lenet"``, ``"cnn3"``,
      ``"alexnet"``, or a torch module, which is copied. ``dim``: its dimensions (default 16, or the number of classes
      if larger; CNNs have their own default).
    - ``optimize``: ``"joint"`` (all by gradient) or ``"alternate"`` (in turns). ``recipe``: ``"default"``, ``"paper"``
      or an :class:`interlace.Recipe` with all weights and rates; ``recipe__pi2`` is one of them in ``set_params``.
    - ``validation``: share of the rows that is held out to choose the best epoch.
    - ``checkpoint``: a file from which an interrupted run continues, or a directory for such files.
    - ``device``: ``"auto"`` or a torch device. The same ``seed`` gives the same result.
    - ``progress``: ``"auto"`` (a bar on terminals), True, False, or a function of a text and the share that is done.

    ``fit`` sets ``codebooks_``, ``embedding_``, ``prior_``, ``history_`` (losses of every epoch), ``codes_``,
    ``labels_``, ``fit_info_``, ``sample_`` and ``n_features_in_``. Ctrl-C ends learning early and keeps the best epoch;
    before the first epoch the estimator stays unchanged. During the final encoding it leaves ``codes_`` and ``labels_``
    out.
    """

    #: The embedding loss, a name in ``interlace.learn.recipe.LOSSES``.
    loss: str

    def __init__(
        self,
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

    def books_kind(self) -> str:
        """Kind of the books: ``"pq"`` (product), ``"cq"`` (composite) or ``"icq"`` (interleaved composite)."""
        return "pq"

    def learn(self, X: Any, y: Any = None) -> Fitted:
        """Learn embedding and books from inputs X with labels y, or from a torch ``Dataset`` or ``DataLoader``."""
        return fit_jointly(self.checked_settings(), X, y, self.progress)

    def checked_settings(self) -> Joint:
        """All parameters with defaults filled in; raises InputError for the first invalid one."""
        kind = self.books_kind()
        if self.n_bytes is not None and self.n_books is not None:
            raise InputError("give n_bytes or n_books, not both")
        if self.cross not in CROSS:
            raise InputError(f"cross must be one of {', '.join(CROSS)} when learning with labels, got {self.cross!r}")
        cross = "constant" if self.cross == "auto" else self.cross
        n_books = self._number_of_books(kind, cross)
        n_crude = None if self.n_crude in ("auto", None) else positive(self.n_crude, "n_crude")
        if n_crude is not None and n_crude > n_books:
            raise InputError(f"n_crude must be 1 to {n_books} (the number of books), got {n_crude}")
        if not 2 <= positive(self.n_words, "n_words") <= 256:
            raise InputError(f"n_words must be 2 to 256, got {self.n_words}")
        return Joint(
            kind=kind,
            n_books=n_books,
            n_words=self.n_words,
            n_crude=n_crude,
            cross=cross,
            seed=positive(self.seed, "seed", least=0),
            threads=thread_count(self.threads),
            **self.checked_training(),
        )

    def checked_training(self) -> dict[str, Any]:
        """The parameters that only learning with labels has; raises InputError for the first invalid one."""
        if isinstance(self.embedding, str) and self.embedding not in EMBEDDINGS:
            names = ", ".join(EMBEDDINGS)
            raise InputError(f"embedding must be one of {names} or a torch module, got {self.embedding!r}")
        for name, known in (("loss", LOSSES), ("optimize", OPTIMIZERS)):
            if getattr(self, name) not in known:
                raise InputError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        if not isinstance(self.hidden, tuple | list):
            raise InputError(f"hidden must be the widths of the hidden layers, such as (256,), got {self.hidden!r}")
        validation = self.validation
        if isinstance(validation, bool) or not isinstance(validation, Real) or not 0 <= float(validation) < 1:
            raise InputError(f"validation must be a share of the rows, at least 0 and below 1, got {validation!r}")
        return {
            "dim": None if self.dim is None else positive(self.dim, "dim"),
            "embedding": self.embedding,
            "hidden": tuple(positive(width, "hidden") for width in self.hidden),
            "loss": self.loss,
            "optimize": self.optimize,
            "recipe": Recipe.named(self.recipe),
            "validation": float(validation),
            "checkpoint": self.checkpoint,
            "device": self.device,
        }

    def _number_of_books(self, kind: str, cross: str) -> int:
        n_books = self.n_books
        if n_books is None:
            # Product books have no cross terms, and those of two books are in the terms of the cell: no byte needed.
            stored = cross == "byte" and kind != "pq" and self.n_bytes != 2
            if stored and self.n_bytes is not None and self.n_bytes < 4:
                raise InputError(f"cross='byte' requires n_bytes >= 4, got n_bytes={self.n_bytes}")
            n_books = 8 if self.n_bytes is None else positive(self.n_bytes, "n_bytes") - stored
        if not 1 <= positive(n_books, "n_books", least=0) <= MAX_BOOKS:
            raise InputError(f"the number of books must be 1 to {MAX_BOOKS}, got {n_books}")
        return n_books
