"""Vectors -> codebooks: take a sample, choose a layout, learn its books."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..codec.codebooks import Codebooks
from ..codec.metric import METRICS
from ..errors import FewRowsWarning, InputError, warn_user
from ..inputs.arrays import FloatArray, Rows
from ..progress import Progress, part, silent
from .auto import Choice, choose
from .books import Learner
from .cells import cell_sample, learn_cells, sample_size, warn_if_small_cells
from .cost.limits import train_rows_that_fit
from .layout_rules import TRIAL_REFITS
from .layouts import learn
from .prior import Prior
from .sample import RowNumbers, training_rows, warn_if_few_rows, with_held_out_error
from .settings import Settings

#: Share of the progress that comparing layouts takes; of the rest, the share that learning many cells takes.
TRIAL_SHARE, CELLS_SHARE = 0.2, 0.4


@dataclass(frozen=True)
class Learned:
    """The result of learning without labels."""

    codebooks: Codebooks
    sample: RowNumbers  #: rows that were learned from, ascending
    choice: Choice  #: the layout and why
    prior: Prior | None  #: the paper's Theta, of layouts that split the dimensions by it
    interrupted: bool  #: Ctrl-C ended the refits early


def learn_codebooks(rows: Rows, settings: Settings, progress: Progress, *, n_rows: int | None = None) -> Learned:
    """Codebooks for checked settings. The same seed gives the same bytes for any number of threads.

    ``n_rows``: of the index, if ``rows`` are a sample of them.
    """
    if len(rows) == 0:
        raise InputError("x has no rows; codebooks are learned from at least one row")
    wanted = len(rows) if n_rows is None else n_rows
    settings.check_rows(len(rows))
    asked, settings, rng = settings, settings.for_rows(wanted), np.random.default_rng(settings.seed)
    sample = training_rows(len(rows), train_rows_that_fit(len(rows), rows.dim, settings), rng)
    x, cells = _sampled(rows, sample, settings), None
    choice, done_before = Choice(settings.layout, settings.crude_books, "asked for"), 0.0
    if settings.layout == "auto":
        choice = choose(x, _trial(asked, wanted, progress), settings, n_rows=len(rows), rng=rng)
        settings = asked.for_rows(wanted, choice.layout)
        done_before = TRIAL_SHARE if choice.table else 0.0
    _warn_if_few(len(sample), rows.dim, settings, choice.layout)
    if asked.many_cells:
        advised = replace(asked, cells="auto").for_rows(wanted, choice.layout).n_cells
        warn_if_small_cells(sample_size(len(rows), len(sample), asked.n_cells), asked.n_cells, advised)

    report = part(progress, done_before, 1.0)
    if settings.many_cells:
        more = cell_sample(len(rows), sample, settings.n_cells, rng)
        own = x if more is sample else _sampled(rows, more, settings)
        cells = learn_cells(
            own, settings.n_cells, rng=rng, threads=settings.workers, progress=part(report, 0.0, CELLS_SHARE)
        )
        del own
        report = part(report, CELLS_SHARE, 1.0)
    learner = Learner(
        x, settings=settings, n_crude=choice.n_crude, iterations=settings.iterations, progress=report, cells=cells
    )
    codebooks = learn(learner, choice.layout)
    if not learner.interrupted:
        codebooks = with_held_out_error(codebooks, rows, sample, settings.workers)
    return Learned(codebooks, sample, choice, learner.fitted_prior, learner.interrupted)


def _sampled(rows: Rows, sample: RowNumbers, settings: Settings) -> FloatArray:
    """Some rows as they are coded."""
    return METRICS[settings.metric].prepare(rows.take(sample), name="x", rows=sample)


def _trial(asked: Settings, n_rows: int, progress: Progress) -> Callable[[FloatArray, str], Codebooks]:
    """A function that learns one layout in a few rounds, for :func:`choose`; the index will have n rows."""
    layouts = asked.for_rows(n_rows).layouts()

    def learn_quickly(rows: FloatArray, layout: str) -> Codebooks:
        progress(f"trying {layout}", TRIAL_SHARE * layouts.index(layout) / len(layouts))
        settings = asked.for_rows(n_rows, layout)
        settings = replace(settings, cells=min(settings.n_cells, settings.n_words))  # a trial has few rows
        rounds = min(TRIAL_REFITS, settings.iterations)
        learner = Learner(rows, settings=settings, n_crude=settings.crude_books, iterations=rounds, progress=silent)
        codebooks = learn(learner, layout)
        if learner.interrupted:  # there are no final codebooks yet that could be kept
            raise KeyboardInterrupt
        return codebooks

    return learn_quickly


def _warn_if_few(n: int, dim: int, settings: Settings, layout: str) -> None:
    """One warning if there are too few rows or dimensions for the books asked for."""
    most = dim + (layout == "hybrid")  # product books
    too_many = layout != "residual" and not settings.additive and settings.code_bytes > most
    if not warn_if_few_rows(n, settings.n_words) and too_many:
        text = f"{settings.code_bytes} product books do not fit {dim} dimensions: there will be {most}"
        warn_user(text, FewRowsWarning)
