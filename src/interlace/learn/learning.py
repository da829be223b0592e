"""Vectors -> codebooks: the settings a learner takes, checked, and the sample it learns from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .._threads import thread_count
from ..codec.codebooks import MAX_WORDS, Codebooks
from ..codec.encode import EFFORTS, encode
from ..codec.metric import METRICS
from ..errors import FewRowsWarning, InputError, warn_user
from ..inputs.arrays import FloatArray, Rows, positive
from ..inputs.literals import Auto, Cross, Effort, Layout, Metric, PriorFit, Rotation
from ..progress import Progress, silent
from .choice import Choice, choose
from .cost import parse_memory, rows_that_fit, training_count
from .layouts import CROSS, LAYOUTS, ROTATIONS, learn
from .learner import Learner
from .prior import METHODS, Prior
from .schedule import TRIAL_REFITS

MAX_TRAIN_ROWS = 65536
MAX_BYTES = 64
ERROR_ROWS, LEAST_ERROR_ROWS = 1000, 200  # not learned from, whose error is measured: at most, at least
ITERATIONS = 10
_TRIAL_SHARE = 0.2  # of the progress


@dataclass(frozen=True)
class Settings:
    """What a learner was asked for. ``n_bytes`` counts every stored code column, ``n_books`` only the books."""

    n_bytes: int | None = None
    n_books: int | None = None
    n_words: int = MAX_WORDS
    layout: Layout = "auto"
    n_crude: int | Auto | None = "auto"
    rotation: Rotation = "auto"
    cross: Cross = "auto"
    prior: PriorFit = "em"
    metric: Metric = "l2"
    effort: Effort = "balanced"
    iterations: int = ITERATIONS
    max_train_rows: int = MAX_TRAIN_ROWS
    max_memory: int | str | None = None
    seed: int = 0
    threads: int | None = None

    def checked(self) -> Settings:
        """The same with defaults filled in, or an error that names the first setting that cannot be."""
        if self.n_bytes is not None and self.n_books is not None:
            raise InputError("give n_bytes or n_books, not both")
        n_crude = None if self.n_crude == "auto" else self.n_crude
        for name, value in (("n_bytes", self.n_bytes), ("n_books", self.n_books), ("n_crude", n_crude)):
            if value is not None and positive(value, name) > MAX_BYTES:
                raise InputError(f"{name} must be at most {MAX_BYTES}, got {value}")
        if not 2 <= positive(self.n_words, "n_words") <= MAX_WORDS:
            raise InputError(f"n_words must be 2 to {MAX_WORDS}, got {self.n_words}")
        choices = (
            ("layout", self.layout, ("auto", *LAYOUTS)),
            ("rotation", self.rotation, ROTATIONS),
            ("cross", self.cross, CROSS),
            ("prior", self.prior, METHODS),
            ("metric", self.metric, METRICS),
            ("effort", self.effort, tuple(EFFORTS)),
        )
        for name, chosen, known in choices:
            if chosen not in known:
                raise InputError(f"{name} must be one of {', '.join(known)}, got {chosen!r}")
        positive(self.max_train_rows, "max_train_rows")
        positive(self.iterations, "iterations", least=0)
        positive(self.seed, "seed", least=0)
        thread_count(self.threads)
        if self.max_memory is not None:
            parse_memory(self.max_memory)
        n_bytes = self.n_bytes if self.n_books is None else self.n_books + (self.cross == "byte")
        settings = replace(self, n_bytes=8 if n_bytes is None else n_bytes, n_crude=n_crude)
        settings._check_conflicts()
        return settings

    def _check_conflicts(self) -> None:
        assert self.n_bytes is not None
        if self.layout == "residual" and self.cross == "none":
            raise InputError("residual books share all dimensions, so cross='none' would give wrong distances")
        if self.layout == "residual" and self.rotation not in ("auto", "none"):
            raise InputError(f"residual books span all dimensions: rotation={self.rotation!r} would change nothing")
        if self.layout != "subspace" and self.rotation == "learned":
            raise InputError(f"rotation='learned' belongs to layout='subspace', got layout={self.layout!r}")
        if self.rotation == "learned" and self.cross in ("exact", "byte"):
            raise InputError("rotation='learned' belongs to product books; additive ones (cross) absorb a rotation")
        if self.cross == "byte":
            if not METRICS[self.metric].is_squared:
                raise InputError(f"cross='byte' is a column for l2; the {self.metric} metric has no cross terms")
            if self.n_bytes < 4:
                raise InputError(f"cross='byte' takes one of the bytes and pays from 4 on, got n_bytes={self.n_bytes}")
        n_books = self.n_bytes - (self.cross == "byte")
        if isinstance(self.n_crude, int):
            if self.n_crude > n_books:
                raise InputError(f"n_crude must be 1 to {n_books} (the number of books), got {self.n_crude}")
            if self.n_crude == n_books > 2 and not self.layouts():
                raise InputError(
                    f"n_crude={self.n_crude} makes all {n_books} books crude and leaves nothing for the second step; "
                    f"give at most {n_books - 1}"
                )

    def layouts(self) -> tuple[str, ...]:
        """The layouts that the other settings allow; for ``"auto"`` these are the candidates.

        Product books have no second step if all are crude; residual books have cross terms and no rotation.
        """
        assert self.n_bytes is not None
        asked = tuple(LAYOUTS) if self.layout == "auto" else (self.layout,)
        out = {"residual"} if self.cross == "none" or self.rotation == "principal" else set()
        all_crude = self.n_crude == self.n_bytes - (self.cross == "byte") > 2
        if all_crude and self.cross != "exact":
            out |= {"subspace", "hybrid"}
        return tuple(layout for layout in asked if layout not in out)


@dataclass(frozen=True)
class Learned:
    """What learning gives: codebooks, the rows they were learned from (ascending), and why this layout."""

    codebooks: Codebooks
    sample: NDArray[np.int64]
    choice: Choice
    prior: Prior | None  # the paper's Theta, of layouts that split the dimensions by it
    interrupted: bool


def learn_codebooks(rows: Rows, settings: Settings, progress: Progress) -> Learned:
    """Codebooks for checked settings, from a sample of the rows. Same seed, same bytes, for any number of threads."""
    if len(rows) == 0:
        raise InputError("x has no rows; books are learned from at least one")
    rng = np.random.default_rng(settings.seed)
    threads = thread_count(settings.threads)
    most = rows_that_fit(len(rows), rows.dim, settings, settings.max_train_rows, settings.max_memory, threads)
    sample = training_rows(len(rows), most, rng)
    x = METRICS[settings.metric].prepare(rows.take(sample), name="x", rows=sample)
    asked = settings.n_crude if isinstance(settings.n_crude, int) else None

    def learner(part: FloatArray, n_crude: int | None, iterations: int, said: Progress) -> Learner:
        assert settings.n_bytes is not None
        return Learner(
            part,
            n_bytes=settings.n_bytes,
            metric=settings.metric,
            rng=np.random.default_rng(settings.seed),
            threads=threads,
            progress=said,
            n_words=settings.n_words,
            n_crude=n_crude,
            n_psi=asked,
            rotation=settings.rotation,
            cross=settings.cross,
            prior=settings.prior,
            effort=settings.effort,
            iterations=iterations,
        )

    choice, begun = Choice(settings.layout, asked, "asked for"), 0.0
    if settings.layout == "auto":
        layouts = settings.layouts()

        def trial(part: FloatArray, layout: str) -> Codebooks:
            progress(f"trying {layout}", _TRIAL_SHARE * layouts.index(layout) / len(layouts))
            tried = learner(part, asked, min(TRIAL_REFITS, settings.iterations), silent)
            codebooks = learn(tried, layout)
            if tried.interrupted:  # there is nothing to keep yet
                raise KeyboardInterrupt
            return codebooks

        assert settings.n_bytes is not None
        choice = choose(
            x,
            trial,
            layouts,
            n_bytes=settings.n_bytes,
            n_crude=asked,
            n_rows=len(rows),
            rng=rng,
            threads=threads,
            effort=settings.effort,
        )
        begun = _TRIAL_SHARE if choice.table else 0.0
    _warn_if_few(len(sample), rows.dim, settings, choice.layout)
    last = learner(
        x, choice.n_crude, settings.iterations, lambda what, done: progress(what, begun + (1 - begun) * done)
    )
    codebooks = learn(last, choice.layout)
    if not last.interrupted:
        codebooks = with_held_out_error(codebooks, rows, sample, threads)
    return Learned(codebooks, sample, choice, last.fitted_prior, last.interrupted)


def _warn_if_few(n: int, dim: int, settings: Settings, layout: str) -> None:
    """One warning when the data cannot fill what was asked for."""
    assert settings.n_bytes is not None
    most = dim + (layout == "hybrid")  # product books
    product = layout in ("subspace", "hybrid") and settings.cross in ("auto", "none")
    if n < settings.n_words:
        text = f"{n} rows to learn from are fewer than {settings.n_words} words: books hold at most {n} words"
    elif product and settings.n_bytes > most:
        text = f"{settings.n_bytes} product books do not fit {dim} dimensions: there will be {most}"
    else:
        return
    warn_user(text, FewRowsWarning)


def training_rows(n: int, max_train_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The rows to learn from, ascending; some are left out where there are enough, to calibrate the margin on."""
    return np.sort(rng.choice(n, training_count(n, max_train_rows), replace=False))


def calibration_rows(n: int, sample: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """So many rows for the calibration, ascending: not learned from as far as there are some, filled up by others."""
    unlearned = _unlearned(n, sample, count, rng)
    missing = count - len(unlearned)
    if missing <= 0:
        return unlearned
    return np.sort(np.concatenate([unlearned, rng.choice(sample, min(missing, len(sample)), replace=False)]))


def _unlearned(n: int, sample: NDArray[np.int64], most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Some rows that were not learned from, ascending, without a list of all rows."""
    pool = n - len(sample)
    chosen = np.sort(rng.choice(pool, min(pool, most), replace=False))
    return np.asarray(chosen + np.searchsorted(sample - np.arange(len(sample)), chosen, "right"))


def with_held_out_error(codebooks: Codebooks, rows: Rows, sample: NDArray[np.int64], threads: int) -> Codebooks:
    """The codebooks with the error of rows that they were not learned from, where there are enough of these."""
    if len(rows) - len(sample) < LEAST_ERROR_ROWS:
        return codebooks
    chosen = _unlearned(len(rows), sample, ERROR_ROWS, np.random.default_rng(0))
    x = codebooks.metric_type.prepare(rows.take(chosen), name="x", rows=chosen)
    away = x.astype(np.float64) - codebooks.decode(encode(codebooks, x, threads))
    return codebooks.with_error(float((away**2).sum(1).mean()), len(chosen))
