"""The estimator: vectors -> books, codes, an index, with the calls of scikit-learn."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

from .arrays import Rows, describe
from .errors import InputError
from .estimators import readable
from .learning import ITERATIONS, MAX_TRAIN_ROWS, Settings, learn_codebooks
from .models import Fitted, Model
from .progress import shown


class ICQ(Model):
    """Interleaved composite quantization of vectors, learned without labels.

    ``n_bytes`` (default 8) counts every byte that is stored for a row, ``n_books`` only the books: give one of them.
    ``layout`` says which dimensions a book gets: ``"subspace"`` is the paper's split by the bi-modal prior,
    ``"hybrid"`` makes cells first and splits what they leave, ``"residual"`` lets all books span all dimensions (the
    most accurate), ``"auto"`` tries them on a sample; ``choice_`` tells what came out. ``n_crude`` is the number of
    books of the crude step. ``rotation`` is ``"principal"`` axes, ``"learned"`` or ``"none"``; ``cross`` says where the
    terms between overlapping books go: computed in the second step (``"exact"``), a stored ``"byte"``, ``"none"`` for
    product books. ``prior`` is fitted by ``"em"`` or ``"gradient"``. ``effort`` (``"fast"``, ``"balanced"``,
    ``"best"``) trades the time of coding for accuracy, ``iterations`` that of learning. At most ``max_train_rows`` rows
    are learned from, fewer if ``max_memory`` (bytes, or ``"2GB"``) says so. The same ``seed`` gives the same bytes for
    any ``threads``. ``progress`` is True, False, ``"auto"`` (a bar if there is a terminal) or a function of what is
    done and its share.

    ``fit`` sets ``codebooks_``, ``choice_``, ``prior_`` (the fitted prior, None where the layout has none) and
    ``n_features_in_``. Ctrl-C ends learning early and leaves what was learned, or, before there are books, the
    estimator as it was.
    """

    _estimator = "ICQ"

    def __init__(
        self,
        n_bytes: int | None = None,
        *,
        n_books: int | None = None,
        n_words: int = 256,
        layout: str = "auto",
        n_crude: int | str = "auto",
        rotation: str = "auto",
        cross: str = "auto",
        prior: str = "em",
        metric: str = "l2",
        effort: str = "balanced",
        iterations: int = ITERATIONS,
        max_train_rows: int = MAX_TRAIN_ROWS,
        max_memory: int | str | None = None,
        seed: int = 0,
        threads: int | None = None,
        progress: Any = False,
    ) -> None:
        self.n_bytes = n_bytes
        self.n_books = n_books
        self.n_words = n_words
        self.layout = layout
        self.n_crude = n_crude
        self.rotation = rotation
        self.cross = cross
        self.prior = prior
        self.metric = metric
        self.effort = effort
        self.iterations = iterations
        self.max_train_rows = max_train_rows
        self.max_memory = max_memory
        self.seed = seed
        self.threads = threads
        self.progress = progress

    def _settings(self) -> Settings:
        names = (field.name for field in dataclasses.fields(Settings))
        return Settings(**{name: getattr(self, name) for name in names}).checked()

    def fit(self, X: Any, y: Any = None) -> ICQ:
        """Learn books from rows X [n, dim]; all of the estimator changes, or, after an error, nothing."""
        if y is not None:
            raise InputError(f"ICQ learns without labels: fit(X) takes no y, got {describe(y)}")
        settings = self._settings()
        progress = shown(self.progress)
        given, names = readable(X)
        rows = Rows(given, name="X")
        learned = learn_codebooks(rows, settings, progress)
        if learned.interrupted:
            warnings.warn("learning was interrupted; the books are usable, but not as good as they get", stacklevel=2)
        fitted = Fitted(
            learned.codebooks, learned.sample, len(rows), prior=learned.prior, choice=learned.choice, names=names
        )
        self._take(fitted)
        return self
