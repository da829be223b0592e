"""What the quantizers that learn from vectors alone have in common: settings, checked, and the rows to learn from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from ..._threads import thread_count
from ...codec.codebooks import MAX_WORDS, Codebooks
from ...errors import FewRowsWarning, InputError, warn_user
from ...inputs.arrays import FloatArray, Rows, positive
from ...learn.kmeans import kmeans
from ...learn.sample import training_rows, with_held_out_error
from ...learn.schedule import default_crude
from ...learn.settings import MAX_BYTES, MAX_TRAIN_ROWS
from ...progress import Progress, shown
from ..base import readable
from ..models import Fitted, Model

Self = TypeVar("Self", bound="VectorModel")


@dataclass(frozen=True)
class Run:
    """One fit: its settings, checked, and what it draws, computes and reports with."""

    n_books: int
    n_words: int
    n_crude: int | None  #: None: three quarters of the books
    iterations: int
    rng: np.random.Generator
    threads: int
    progress: Progress

    def part(self, begin: float, end: float) -> Run:
        """The same for a step of the fit that takes it from one share of the work to another."""
        said = self.progress
        return replace(self, progress=lambda what, done: said(what, begin + (end - begin) * done))

    def crude(self, n_books: int) -> int:
        """Crude books of so many."""
        return min(default_crude(n_books) if self.n_crude is None else self.n_crude, n_books)

    def kmeans(self, x: FloatArray, n_words: int | None = None, iterations: int = 15) -> FloatArray:
        """Words of one book."""
        return kmeans(
            np.ascontiguousarray(x), n_words or self.n_words, rng=self.rng, threads=self.threads, iterations=iterations
        )


class VectorModel(Model):
    """A quantizer that takes no labels: ``fit(X, y)`` accepts them, because pipelines pass them on, and ignores them.

    ``n_books`` counts every byte of a code, ``n_words`` the words of a book (2 to 256), ``n_crude`` the books that the
    first step of a search reads (``"auto"``: three quarters). At most ``max_train_rows`` rows are learned from. The
    same ``seed`` gives the same bytes for any ``threads``; ``progress`` is that of :class:`interlace.ICQ`. Distances
    are squared Euclidean ones. After an error, or Ctrl-C, the estimator is as it was.
    """

    #: Bytes of a code that name no product book.
    _other_bytes = 0
    #: ``Codebooks.layout`` of what it learns, by which a store finds the method that learns its books again.
    _layout: ClassVar[str] = ""

    def __init__(
        self,
        n_books: int = 8,
        *,
        n_words: int = MAX_WORDS,
        n_crude: int | str = "auto",
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

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Learn from rows X [n, dim]; y is ignored."""
        run = self._run()
        self._check()
        given, names = readable(X)
        rows = Rows(given, name="X")
        if len(rows) == 0:
            raise InputError("X has no rows; books are learned from at least one")
        sample = training_rows(len(rows), positive(self.max_train_rows, "max_train_rows"), run.rng)
        self._warn_if_few(len(sample), rows.dim, run)
        codebooks = self._learn(rows.take(sample), run)
        if isinstance(codebooks, Codebooks):
            codebooks = with_held_out_error(codebooks, rows, sample, run.threads)
        run.progress("done", 1.0)
        self._take(Fitted(codebooks, sample, len(rows), names=names))
        return self

    def _learn(self, x: FloatArray, run: Run) -> Codebooks:
        """Books for the rows x of the sample."""
        raise NotImplementedError

    def _check(self) -> None:
        """Raise on settings that only this quantizer has."""

    def _run(self) -> Run:
        least = self._other_bytes + 1
        n_books = positive(self.n_books, "n_books")
        if not least <= n_books <= MAX_BYTES:
            raise InputError(f"n_books of {self._estimator} must be {least} to {MAX_BYTES}, got {n_books}")
        if not 2 <= positive(self.n_words, "n_words") <= MAX_WORDS:
            raise InputError(f"n_words must be 2 to {MAX_WORDS}, got {self.n_words}")
        n_crude = None if self.n_crude == "auto" else positive(self.n_crude, "n_crude")
        if n_crude is not None and n_crude > n_books:
            raise InputError(f"n_crude must be 1 to {n_books} (the number of books), got {n_crude}")
        return Run(
            n_books=n_books,
            n_words=self.n_words,
            n_crude=n_crude,
            iterations=positive(self.iterations, "iterations", least=0),
            rng=np.random.default_rng(positive(self.seed, "seed", least=0)),
            threads=thread_count(self.threads),
            progress=shown(self.progress),
        )

    def _most_books(self, dim: int) -> int:
        """Product books need a dimension each."""
        return dim + self._other_bytes

    def _warn_if_few(self, n: int, dim: int, run: Run) -> None:
        """One warning when the data cannot fill what was asked for."""
        if n < run.n_words:
            warn_user(
                f"{n} rows to learn from are fewer than {run.n_words} words: books hold at most {n} words",
                FewRowsWarning,
            )
        elif run.n_books > self._most_books(dim):
            warn_user(
                f"{run.n_books} books of {self._estimator} do not fit {dim} dimensions: there will be "
                f"{self._most_books(dim)}",
                FewRowsWarning,
            )
