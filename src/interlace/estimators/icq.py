"""The estimator: vectors, with labels or without -> books, codes, an index, with the calls of scikit-learn."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import FitInterruptedWarning, InputError, warn_user
from ..inputs.arrays import Rows
from ..inputs.literals import Auto, Cross, CrossWithLabels, Effort, Layout, Loss, Metric, Optimize, PriorFit, Rotation
from ..learn.fit import learn_codebooks
from ..learn.recipe import Joint
from ..learn.settings import ITERATIONS, MAX_TRAIN_ROWS, Settings
from ..progress import shown
from .base import is_dataset, readable
from .joint import checked, fit_jointly, only_with_labels
from .models import Fitted, Model

#: Parameters that mean nothing with labels, and without.
WITHOUT_LABELS = ("effort", "iterations", "prior", "max_train_rows", "max_memory")
WITH_LABELS = (*("dim", "embedding", "hidden", "loss", "optimize", "recipe", "validation", "checkpoint", "device"),)


class ICQ(Model):
    """Interleaved composite quantization: ``fit(x)`` learns books for vectors, ``fit(x, y)`` an embedding with them.

    ``n_bytes`` (default 8) counts every byte that is stored for a row, ``n_books`` only the books: give one of them.
    ``layout`` says which dimensions a book gets: ``"subspace"`` is the paper's split by the bi-modal prior,
    ``"hybrid"`` makes cells first and splits what they leave, ``"residual"`` lets all books span all dimensions (the
    most accurate), ``"auto"`` tries them on a sample; ``choice_`` tells what came out. ``n_crude`` is the number of
    books of the crude step. ``rotation`` is ``"principal"`` axes, ``"learned"`` or ``"none"``; ``cross`` says where the
    terms between overlapping books go: computed in the second step (``"exact"``), a stored ``"byte"``, ``"none"`` for
    product books. ``prior`` is fitted by ``"em"`` or ``"gradient"``. ``effort`` (``"fastest"``, ``"fast"``,
    ``"balanced"``, ``"best"``) trades the time of learning and coding for accuracy, ``iterations`` bounds the rounds of
    learning. At most ``max_train_rows`` rows are learned from, fewer if learning would take more than ``max_memory``
    (bytes, or ``"2GB"``). The same ``seed`` gives the same bytes for any ``threads``. ``progress`` is ``"auto"`` (a bar
    if there is a terminal), True, False or a function of what is done and its share.

    ``supervised=False`` leaves labels alone, which a scikit-learn pipeline passes to all of its steps. Else a parameter
    that means nothing with labels, or without, is refused when it was set. With labels (extra ``train``;
    docs/joint.md), ``fit(x, y)`` or ``fit(dataset)`` of a torch ``Dataset`` or ``DataLoader``, learns an ``embedding``
    to ``dim`` dimensions (``"identity"``, ``"linear"``, ``"mlp"`` with ``hidden`` widths, ``"lenet"``, ``"alexnet"`` or
    a torch module, which is copied; 16 dimensions, or as many as classes, unless the network has its own) such that
    rows of a class are found by their codes. ``loss`` is ``"contrastive"``, ``"cross_entropy"``, ``"regression"``,
    ``"triplet"``, ``"asymmetric_triplet"``, ``"pairwise"``, ``"soft_hard"`` or ``"soft_triplet"``; ``optimize`` is
    ``"joint"`` (all by gradient) or ``"alternate"`` (in turns); ``recipe`` is ``"default"``, ``"paper"`` or an
    :class:`interlace.Recipe` with every weight and rate (``recipe__pi2`` names one of them to ``set_params``). The
    share ``validation`` of the rows chooses the epoch to keep, ``checkpoint`` is a file that a killed run goes on from,
    or a folder for such files, ``device`` is ``"auto"`` or torch's. ``n_books`` counts 8 by default, ``cross`` is
    ``"constant"`` (penalised), ``"byte"`` or ``"exact"``; the method gives ``layout``, ``rotation`` and ``metric``.

    ``fit`` sets ``codebooks_``, ``choice_``, ``prior_`` (the fitted prior, None where the layout has none) and
    ``n_features_in_``; with labels also ``embedding_``, ``history_`` (losses of every epoch), ``codes_``, ``labels_``
    and ``fit_info_``, and no ``choice_``. Ctrl-C ends learning early and leaves what was learned, or, before there are
    books, the estimator as it was; where it comes while rows are coded, after learning, there are no ``codes_`` and
    ``labels_``.
    """

    _estimator = "ICQ"

    def __init__(
        self,
        n_bytes: int | None = None,
        *,
        n_books: int | None = None,
        n_words: int = 256,
        layout: Layout = "auto",
        n_crude: int | Auto = "auto",
        rotation: Rotation = "auto",
        cross: Cross | CrossWithLabels = "auto",
        prior: PriorFit = "em",
        metric: Metric = "l2",
        effort: Effort = "balanced",
        iterations: int = ITERATIONS,
        max_train_rows: int = MAX_TRAIN_ROWS,
        max_memory: int | str | None = None,
        dim: int | None = None,
        embedding: Any = "linear",
        hidden: tuple[int, ...] = (),
        loss: Loss = "contrastive",
        optimize: Optimize = "joint",
        recipe: Any = "default",
        validation: float = 0.1,
        checkpoint: Any = None,
        device: str = "auto",
        supervised: bool = True,
        seed: int = 0,
        threads: int | None = None,
        progress: Any = "auto",
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
        self.dim = dim
        self.embedding = embedding
        self.hidden = hidden
        self.loss = loss
        self.optimize = optimize
        self.recipe = recipe
        self.validation = validation
        self.checkpoint = checkpoint
        self.device = device
        self.supervised = supervised
        self.seed = seed
        self.threads = threads
        self.progress = progress

    def _settings(self) -> Settings:
        names = (field.name for field in dataclasses.fields(Settings))
        return Settings(**{name: getattr(self, name) for name in names}).checked()

    def fit(self, X: Any, y: Any = None) -> ICQ:
        """Learn from rows X [n, dim], with labels y also an embedding; after an error nothing has changed."""
        if self.supervised and (y is not None or is_dataset(X)):
            self._take(fit_jointly(self._joint(), X, y, self.progress))
            return self
        self._check_without_labels()
        settings = self._settings()
        progress = shown(self.progress)
        given, names = readable(X)
        rows = Rows(given, name="X")
        learned = learn_codebooks(rows, settings, progress)
        if learned.interrupted:
            warn_user("learning was interrupted; the codebooks are usable but not converged", FitInterruptedWarning)
        fitted = Fitted(
            learned.codebooks, learned.sample, len(rows), prior=learned.prior, choice=learned.choice, names=names
        )
        self._take(fitted)
        return self

    def _joint(self) -> Joint:
        """The parameters of a fit with labels; those that only one without has must be left alone."""
        for name, only in (("layout", ("auto", "subspace")), ("rotation", ("auto", "principal")), ("metric", ("l2",))):
            if getattr(self, name) not in only:
                raise InputError(
                    f"with labels {name} is {only[-1]!r}, given by the method; got {getattr(self, name)!r}"
                )
        self._refuse(WITHOUT_LABELS, "a fit without labels, see recipe")
        return checked(self, "icq", self.n_books, self.n_bytes, self.n_crude, self.cross)

    def _check_without_labels(self) -> None:
        """The other way round; ``supervised=False`` turns labels off, and what belongs to them may stay."""
        if self.supervised:
            self._refuse(WITH_LABELS, "a fit with labels: pass y, or supervised=False to do without")
        else:
            only_with_labels(self)

    def _refuse(self, names: tuple[str, ...], where: str) -> None:
        """Parameters that were set, and would do nothing."""
        given = [f"{name}={value!r:.60}" for name, value in self._changed().items() if name in names]
        if given:
            raise InputError(f"{', '.join(given)} {'belongs' if len(given) == 1 else 'belong'} to {where}")
