"""Supervised quantization in the protocol of its own paper: regression of labels, closed-form updates in turns."""

from __future__ import annotations

from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..._threads import thread_count
from ...codec.codebooks import MAX_WORDS, Book, Codebooks, Norm
from ...codec.embedding import Linear
from ...codec.encode import encode
from ...errors import InputError
from ...inputs.arrays import Rows, positive
from ...inputs.labels import as_labels
from ...learn.regression_books import RegressionBooks, learn_regression_books
from ...progress import as_progress, part
from ..features import read_features
from ..fitted import Fitted
from ..models import Model

CODES = ("labels", "rows")
MAX_BOOKS = 64


class ClosedFormSQ(Model):
    """Supervised quantization (Wang, Zhang, Qi, Tang, Sebe, Shen: Supervised Quantization for Similarity Search, 2016).

    A linear embedding P and dense books C are learned by a regression of the one-hot labels on the decoded rows:
    ``sum |y - W^T C b|^2 + ridge |W|^2 + gamma |C b - P^T x|^2 + mu (cross(b) - e)^2``. W, P and e have closed forms,
    words move by L-BFGS (closed form for ``mu=0``), and codes are chosen by ICM with the labels of the rows, in
    ``rounds`` turns. Features are standardized. :class:`SQ` learns other losses by gradient.

    - ``codes``: ``"labels"`` keeps codes of the fitted rows (``codes_``) that were chosen with their labels, as the
      paper does for its database; ``"rows"`` encodes them like new rows, without labels.
    - ``gamma``, ``mu``, ``ridge``: weights. ``dim``: dimensions of the embedding (default: 16, or the classes if more).
    - ``embedding``, ``recipe`` and ``checkpoint`` exist for the registry: only a linear embedding is possible, there is
      no recipe, and a fit of minutes keeps no checkpoint.

    Not in the paper: the constant of the cross terms does not cover those with the first book, which search computes.
    """

    name_in_files = "ClosedFormSQ"

    def __init__(
        self,
        *,
        n_books: int = 8,
        n_words: int = 256,
        dim: int | None = None,
        gamma: float = 1e-2,
        mu: float = 1e-1,
        ridge: float = 1.0,
        rounds: int = 20,
        codes: Literal["labels", "rows"] = "labels",
        embedding: str = "linear",
        recipe: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        seed: int = 0,
        threads: int | None = None,
        progress: Any = "auto",
    ) -> None:
        self.n_books = n_books
        self.n_words = n_words
        self.dim = dim
        self.gamma = gamma
        self.mu = mu
        self.ridge = ridge
        self.rounds = rounds
        self.codes = codes
        self.embedding = embedding
        self.recipe = recipe
        self.checkpoint = checkpoint
        self.seed = seed
        self.threads = threads
        self.progress = progress

    def learn(self, X: Any, y: Any = None) -> Fitted:
        """Learn embedding and books from rows X with labels y."""
        settings, rounds = self._checked()
        if y is None:
            raise InputError("ClosedFormSQ learns from labels: pass y")
        features, names = read_features(X)
        rows = np.concatenate([np.array(block) for block in Rows(features, name="X").blocks()])
        labels = as_labels(y, len(rows), name="y")
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise InputError(f"labels must name at least two classes, all are {classes[0].item()!r}, one class")
        mean, spread = rows.mean(0, dtype=np.float64), rows.std(0, dtype=np.float64)
        scale = np.where(spread > 1e-6 * max(float(spread.max()), 1e-300), 1.0 / np.maximum(spread, 1e-300), 0.0)
        settings["dim"] = settings["dim"] or max(16, len(classes))
        settings["n_words"] = min(settings["n_words"], len(rows))
        progress = as_progress(self.progress)
        state, history = learn_regression_books(
            ((rows - mean) * scale).astype(np.float32),
            numbers.reshape(-1),
            len(classes),
            rounds,
            part(progress, 0.0, 0.95),
            **settings,
        )
        weight = (state.p * scale[:, None]).T
        embedding = Linear(weight.astype(np.float32), (-weight @ mean).astype(np.float32))
        codebooks, order = codebooks_of(state)
        codes = state.codes[:, order].astype(np.uint8)
        if self.codes == "rows":
            codes = encode(codebooks, embedding(rows), settings["threads"])
        progress("done", 1.0)
        info = {"rounds": rounds, "objective": history[-1]["objective"] if history else None, "codes": self.codes}
        return Fitted(
            codebooks,
            np.arange(len(rows)),
            len(rows),
            embedding,
            names=names,
            history=list(history),
            codes=codes,
            labels=classes[numbers.reshape(-1)],
            info=info,
        )

    def _checked(self) -> tuple[dict[str, Any], int]:
        """Parameters of the learner, and the rounds."""
        if not 1 <= positive(self.n_books, "n_books", least=0) <= MAX_BOOKS:
            raise InputError(f"n_books must be 1 to {MAX_BOOKS}, got {self.n_books}")
        if not 2 <= positive(self.n_words, "n_words") <= MAX_WORDS:
            raise InputError(f"n_words must be 2 to {MAX_WORDS}, got {self.n_words}")
        for name in ("gamma", "mu", "ridge"):
            value = getattr(self, name)
            least = 0.0 if name == "mu" else 1e-12
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= 1e12:
                raise InputError(f"{name} must be a number from {least:g} to 1e+12, got {value!r}")
        if self.codes not in CODES:
            raise InputError(f"codes must be one of {', '.join(CODES)}, got {self.codes!r}")
        if self.embedding != "linear":
            raise InputError(f"embedding of ClosedFormSQ must be 'linear', got {self.embedding!r}")
        settings = {
            "n_books": self.n_books,
            "n_words": self.n_words,
            "dim": None if self.dim is None else positive(self.dim, "dim"),
            "gamma": float(self.gamma),
            "mu": float(self.mu),
            "ridge": float(self.ridge),
            "rng": np.random.default_rng(positive(self.seed, "seed", least=0)),
            "threads": thread_count(self.threads),
        }
        return settings, positive(self.rounds, "rounds")


def codebooks_of(state: RegressionBooks) -> tuple[Codebooks, NDArray[np.int64]]:
    """Codebooks of a learned state, and the order of its books in them: by the variance of their words in the data."""
    used = [book[state.codes[:, k]] for k, book in enumerate(state.words)]
    order = np.argsort([-float(words.var(0).sum()) for words in used], kind="stable")
    dims = np.arange(state.dim, dtype=np.uint32)
    books = [Book(state.words[k].astype(np.float32), dims) for k in order]
    later = [used[k] for k in order[1:]]
    norms = []
    if len(later) > 1:
        terms = (np.asarray(sum(later)) ** 2).sum(1) - sum((words**2).sum(1) for words in later)
        norms = [Norm(np.array([terms.mean()], np.float32), tuple(range(1, len(books))))]
    n_crude = len(books) if len(books) <= 2 else max(1, len(books) // 4)
    rest = np.asarray(sum(used[k] for k in order[n_crude:])) if n_crude < len(books) else np.zeros((1, state.dim))
    variances = (state.x @ state.p).var(0)
    settings = {"sweeps": 1, "layout": "composite", "variances": variances, "norms": norms}
    return Codebooks(
        books, dim=state.dim, n_crude=n_crude, residual_variance=float(rest.var(0).sum()), **settings
    ), order
