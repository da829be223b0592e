"""`VectorModel`, the base of quantizers that learn from vectors alone, and `FitRun`, its validated settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ..._threads import thread_count
from ...codec.codebooks import MAX_WORDS, Codebooks
from ...errors import FewRowsWarning, InputError, warn_user
from ...inputs.arrays import FloatArray, Rows, positive, refuse_tiny
from ...inputs.literals import Auto
from ...learn.kmeans import kmeans
from ...learn.registry import BookLearner
from ...learn.sample import training_rows, with_held_out_error
from ...learn.schedule import default_crude
from ...learn.settings import MAX_BYTES, MAX_TRAIN_ROWS
from ...progress import Progress, as_progress, part
from ..features import read_features
from ..fitted import Fitted
from ..models import Model


@dataclass(frozen=True)
class FitRun:
    """One fit: validated settings, the random generator, the number of threads and the progress function."""

    n_books: int
    n_words: int
    n_crude: int | None  #: None: three quarters of the books
    iterations: int
    rng: np.random.Generator
    threads: int
    progress: Progress

    def part(self, begin: float, end: float) -> FitRun:
        """The run of one step, whose progress from 0 to 1 is reported as ``begin`` to ``end``."""
        return replace(self, progress=part(self.progress, begin, end))

    def crude(self, n_books: int) -> int:
        """Number of crude books if there are ``n_books`` in all."""
        return min(default_crude(n_books) if self.n_crude is None else self.n_crude, n_books)

    def kmeans(self, x: FloatArray, n_words: int | None = None, iterations: int = 15) -> FloatArray:
        """Words [n_words, dim] of one book, by k-means."""
        return kmeans(
            np.ascontiguousarray(x), n_words or self.n_words, rng=self.rng, threads=self.threads, iterations=iterations
        )


class VectorModel(Model):
    """A quantizer that learns from vectors. ``fit(X, y)`` ignores labels, which pipelines pass to every step.

    - ``n_books``: all bytes of a code. ``n_words``: words of a book, 2 to 256.
    - ``n_crude``: books that the first step of a search reads (``"auto"``: three quarters).
    - ``max_train_rows``: maximum number of rows to learn from.
    - The same ``seed`` gives the same bytes for any number of ``threads``.
    - ``progress``: as for :class:`interlace.ICQ`.

    Distances are squared Euclidean distances. After an error or Ctrl-C the estimator is unchanged.

    A subclass sets ``name_in_files`` and defines :meth:`learn_codebooks`. The other members below are optional.
    """

    #: ``Codebooks.layout`` of the result. Stores use it to find the quantizer that relearns their codebooks.
    books_layout: ClassVar[str] = ""
    #: Bytes of a code that are not product books, such as the number of a cell.
    extra_bytes: ClassVar[int] = 0

    def __init__(
        self,
        n_books: int = 8,
        *,
        n_words: int = MAX_WORDS,
        n_crude: int | Auto = "auto",
        iterations: int = 25,
        max_train_rows: int = MAX_TRAIN_ROWS,
        seed: int = 0,
        threads: int | None = None,
        progress: Any = "auto",
    ) -> None:
        self.n_books = n_books
        self.n_words = n_words
        self.n_crude = n_crude
        self.iterations = iterations
        self.max_train_rows = max_train_rows
        self.seed = seed
        self.threads = threads
        self.progress = progress

    def learn_codebooks(self, x: FloatArray, run: FitRun) -> Codebooks:
        """Codebooks for the training rows x, float32 [n, dim], finite."""
        raise NotImplementedError(
            f"{type(self).__name__} must define learn_codebooks(x, run), which returns Codebooks; in versions before "
            "0.2.0 it was called _learn"
        )

    def check_parameters(self) -> None:
        """Raise InputError if a parameter that only this quantizer has is invalid."""

    def max_books(self, dim: int) -> int:
        """Maximum ``n_books`` for vectors of ``dim`` dimensions: each product book needs one."""
        return dim + self.extra_bytes

    @property
    def _ignores_y(self) -> bool:
        return True

    def learn(self, X: Any, y: Any = None) -> Fitted:
        """Learn from rows X [n, dim]; y is ignored."""
        run = self._start()
        self.check_parameters()
        given, names = read_features(X)
        rows = Rows(given, name="X", ids=False)
        if len(rows) == 0:
            raise InputError("X must have at least one row to learn from, got 0")
        sample = training_rows(len(rows), positive(self.max_train_rows, "max_train_rows"), run.rng)
        self._warn_if_few(len(sample), rows.dim, run)
        x = rows.take(sample)
        refuse_tiny(x, name="X", rows=sample)
        codebooks = self.learn_codebooks(x, run)
        if isinstance(codebooks, Codebooks):
            codebooks = with_held_out_error(codebooks, rows, sample, run.threads)
        run.progress("done", 1.0)
        return Fitted(codebooks, sample, len(rows), names=names)

    @classmethod
    def book_learner(cls, n_bytes: int, settings: Mapping[str, Any], progress: Progress) -> BookLearner:
        """A learner for :mod:`interlace.learn.registry`; ``settings`` are parameters of this class, or ``n_bytes``."""
        given = dict(settings)
        if "n_bytes" in given:
            if "n_books" in given:
                raise InputError("give n_bytes or n_books, not both")
            given["n_books"] = given.pop("n_bytes")  # each book is a byte
        if unknown := given.keys() - cls.parameter_defaults().keys():
            raise InputError(f"relearn has no setting {min(unknown)!r} for books of {cls.__name__}")
        model = cls(**{"n_books": n_bytes, **given}, progress=progress)
        return BookLearner(
            lambda x: model.learn(x).codebooks,
            positive(model.seed, "seed", least=0),
            positive(model.max_train_rows, "max_train_rows"),
            model.threads,
        )

    def _start(self) -> FitRun:
        """Validates the parameters that all quantizers share."""
        least = self.extra_bytes + 1
        n_books = positive(self.n_books, "n_books")
        if not least <= n_books <= MAX_BYTES:
            raise InputError(f"n_books of {self.name_in_files} must be {least} to {MAX_BYTES}, got {n_books}")
        if not 2 <= positive(self.n_words, "n_words") <= MAX_WORDS:
            raise InputError(f"n_words must be 2 to {MAX_WORDS}, got {self.n_words}")
        n_crude = None if self.n_crude == "auto" else positive(self.n_crude, "n_crude")
        if n_crude is not None and n_crude > n_books:
            raise InputError(f"n_crude must be 1 to {n_books} (the number of books), got {n_crude}")
        return FitRun(
            n_books=n_books,
            n_words=self.n_words,
            n_crude=n_crude,
            iterations=positive(self.iterations, "iterations", least=0),
            rng=np.random.default_rng(positive(self.seed, "seed", least=0)),
            threads=thread_count(self.threads),
            progress=as_progress(self.progress),
        )

    def _warn_if_few(self, n: int, dim: int, run: FitRun) -> None:
        """One warning if there are too few rows or dimensions for the parameters."""
        if n < run.n_words:
            warn_user(
                f"{n} training rows are fewer than n_words={run.n_words}: each book has at most {n} words",
                FewRowsWarning,
            )
        elif run.n_books > self.max_books(dim):
            warn_user(
                f"n_books={run.n_books} of {self.name_in_files} is too large for {dim} dimensions: "
                f"{self.max_books(dim)} are used",
                FewRowsWarning,
            )
