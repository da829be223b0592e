"""`UnsupervisedICQ`: interleaved composite quantization learned from vectors, with the parameters of that case only."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import FitInterruptedWarning, warn_user
from ..inputs.arrays import Rows
from ..inputs.literals import Auto, Cross, Effort, Layout, Metric, PriorFit, Rotation
from ..learn.fit import learn_codebooks
from ..learn.settings import ITERATIONS, MAX_TRAIN_ROWS, Settings
from ..progress import as_progress
from .features import read_features
from .fitted import Fitted
from .models import Model


class UnsupervisedICQ(Model):
    """ICQ that learns codebooks from vectors: ``fit(X)``. Labels, which pipelines pass to every step, are ignored.

    - ``n_bytes``: all bytes of a code (default 8); ``n_books``: only the books. Give one of them.
    - ``n_words``: words of a book, 2 to 256. ``n_crude``: books of the crude step.
    - ``layout``: the dimensions of the books. ``"subspace"`` is the paper's split by the bimodal prior, ``"hybrid"``
      learns cells first and splits the residuals, ``"residual"`` lets all books span all dimensions (the most
      accurate), and ``"auto"`` compares them on a sample (``choice_`` is the result).
    - ``rotation``: ``"principal"`` axes, ``"learned"`` or ``"none"``.
    - ``cross``: the cross terms between overlapping books are computed in the second step (``"exact"``), stored in a
      ``"byte"``, or do not exist (``"none"``, product books).
    - ``prior``: fitted by ``"em"`` or ``"gradient"``. ``metric``: ``"l2"``, ``"ip"`` or ``"cosine"``.
    - ``effort``: ``"fastest"``, ``"fast"``, ``"balanced"`` or ``"best"``; more effort takes longer to learn and encode
      and is more accurate. ``iterations``: maximum rounds of learning.
    - ``parallel_weight``: for ``metric="ip"``, how often squared errors along the row itself count. 1 is the squared
      error; 1.5 to 2 gives better answers from short codes, and learning and encoding take twice as long.
    - ``cells``: groups that rows are sorted into, 1 to 65,536; a search visits the nearest. ``"auto"`` makes one for
      250 rows of X or more, and at least 256 (one for 512 rows with more than 24 bytes). Each doubling beyond 256
      costs one bit more for each row.
    - ``max_train_rows``: maximum number of rows to learn from; fewer if learning would need more than ``max_memory``
      (bytes, or a text such as ``"2GB"``).
    - The same ``seed`` gives the same bytes for any number of ``threads``.
    - ``progress``: ``"auto"`` (a bar on terminals), True, False, or a function of a text and the share that is done.

    ``fit`` sets ``codebooks_``, ``choice_``, ``prior_`` (None if the layout has none), ``sample_`` and
    ``n_features_in_``. Ctrl-C ends learning early and keeps the codebooks; before there are any, the estimator stays
    unchanged.

    ``il.ICQ(supervised=False)`` learns the same model.
    """

    name_in_files = "UnsupervisedICQ"

    def __init__(
        self,
        n_bytes: int | None = None,
        *,
        n_books: int | None = None,
        n_words: int = 256,
        layout: Layout = "auto",
        n_crude: int | Auto = "auto",
        rotation: Rotation = "auto",
        cross: Cross = "auto",
        prior: PriorFit = "em",
        metric: Metric = "l2",
        effort: Effort = "balanced",
        parallel_weight: float = 1.0,
        cells: int | Auto = "auto",
        iterations: int = ITERATIONS,
        max_train_rows: int = MAX_TRAIN_ROWS,
        max_memory: int | str | None = None,
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
        self.parallel_weight = parallel_weight
        self.cells = cells
        self.iterations = iterations
        self.max_train_rows = max_train_rows
        self.max_memory = max_memory
        self.seed = seed
        self.threads = threads
        self.progress = progress

    @property
    def _ignores_y(self) -> bool:
        return True

    def learn(self, X: Any, y: Any = None) -> Fitted:
        """Learn codebooks from rows X [n, dim]; y is ignored."""
        names = (field.name for field in dataclasses.fields(Settings))
        settings = Settings(**{name: getattr(self, name) for name in names}).checked()
        progress = as_progress(self.progress)
        given, columns = read_features(X)
        rows = Rows(given, name="X", ids=False)
        learned = learn_codebooks(rows, settings, progress)
        progress("done", 1.0)
        if learned.interrupted:
            warn_user("learning was interrupted; the codebooks are usable but not converged", FitInterruptedWarning)
        return Fitted(
            learned.codebooks, learned.sample, len(rows), prior=learned.prior, choice=learned.choice, names=columns
        )
