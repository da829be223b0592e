"""`ICQ`: interleaved composite quantization, learned with labels, pairs or neither, whichever ``fit`` is given."""

from __future__ import annotations

from os import PathLike
from typing import Any, TypeVar

from ..errors import InputError
from ..inputs.literals import Auto, Cross, CrossWithLabels, Effort, Layout, Loss, Metric, Optimize, PriorFit, Rotation
from ..learn.recipe import Recipe
from ..learn.settings import ITERATIONS, MAX_TRAIN_ROWS
from .features import is_dataset
from .fitted import Fitted
from .models import Model
from .supervised_icq import SupervisedICQ
from .unsupervised_icq import UnsupervisedICQ

Self = TypeVar("Self", bound="ICQ")
Part = TypeVar("Part", SupervisedICQ, UnsupervisedICQ)

#: Values that parameters of learning without labels may have when there are labels: the last is what the method uses.
FIXED_WITH_LABELS = {"layout": ("auto", "subspace"), "rotation": ("auto", "principal"), "metric": ("l2",)}


class ICQ(Model):
    """Interleaved composite quantization: ``fit(X)`` learns codebooks, ``fit(X, y)`` and ``fit(X, pairs=...)`` also an
    embedding.

    ICQ has the parameters of two classes and fits as one of them:

    - ``fit(X)`` as :class:`interlace.UnsupervisedICQ`, which documents ``layout``, ``rotation``, ``prior``, ``metric``,
      ``effort``, ``parallel_weight``, ``cells``, ``iterations``, ``max_train_rows`` and ``max_memory``.
    - ``fit(X, y)``, ``fit(X, pairs=(queries, positives))``, or ``fit(dataset)`` with a torch ``Dataset`` or
      ``DataLoader``, as :class:`interlace.SupervisedICQ`, which documents ``dim``, ``embedding``, ``hidden``,
      ``loss``, ``optimize``, ``recipe``, ``validation``, ``checkpoint`` and ``device``.

    The other parameters belong to both. Setting a parameter that the fit does not use raises InputError. With
    ``supervised=False`` every fit is one without labels: y is ignored, and parameters for labels may be set.

    ``fit`` sets the attributes that the class in question sets. A model file holds the class that wrote it.
    """

    name_in_files = "ICQ"

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
        parallel_weight: float = 1.0,
        cells: int | Auto = "auto",
        iterations: int = ITERATIONS,
        max_train_rows: int = MAX_TRAIN_ROWS,
        max_memory: int | str | None = None,
        dim: int | None = None,
        embedding: Any = "linear",
        hidden: tuple[int, ...] = (),
        loss: Loss = "contrastive",
        optimize: Optimize = "joint",
        recipe: str | Recipe | dict[str, Any] = "default",
        validation: float = 0.1,
        checkpoint: str | PathLike[str] | None = None,
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
        self.parallel_weight = parallel_weight
        self.cells = cells
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

    @property
    def _ignores_y(self) -> bool:
        return not self.supervised

    def fit(self: Self, X: Any, y: Any = None, *, pairs: tuple[Any, Any] | None = None) -> Self:
        """Learn from rows X; with labels y or ``pairs`` also an embedding. After an error the model is unchanged.

        ``pairs`` are (queries, positives). Each is row numbers of X (integers [pairs]), or an array of inputs of their
        own [pairs, features]; the two may differ in kind. A query with several positives is listed several times.
        """
        self.set_fitted(self.learn(X, y, pairs))
        return self

    def learn(self, X: Any, y: Any = None, pairs: tuple[Any, Any] | None = None) -> Fitted:
        """Learn from rows X [n, dim]; with labels y, pairs, or from a torch data set, also an embedding."""
        if pairs is not None and not self.supervised:
            raise InputError("pairs must be None with supervised=False")
        if self.supervised and (y is not None or pairs is not None or is_dataset(X)):
            self._refuse_unused(SupervisedICQ, "learning without labels; with labels, see recipe")
            self._check_fixed_with_labels()
            return self._as(SupervisedICQ).learn(X, y, pairs)
        if self.supervised:
            self._refuse_unused(UnsupervisedICQ, "learning with labels: pass y, or set supervised=False")
        else:
            self._as(SupervisedICQ).checked_training()  # unused, but still validated
        return self._as(UnsupervisedICQ).learn(X)

    def _as(self, kind: type[Part]) -> Part:
        """An estimator of that class with the parameters that the two classes share."""
        return kind(**{name: getattr(self, name) for name in kind.parameter_defaults()})

    def _check_fixed_with_labels(self) -> None:
        for name, allowed in FIXED_WITH_LABELS.items():
            if getattr(self, name) not in allowed:
                names = " or ".join(map(repr, allowed))
                raise InputError(f"{name} must be {names} when learning with labels, got {getattr(self, name)!r}")

    def _refuse_unused(self, kind: type[Model], where: str) -> None:
        """Raises InputError if a parameter was set that a fit as ``kind`` does not use."""
        used = {"supervised", *FIXED_WITH_LABELS, *kind.parameter_defaults()}
        given = [f"{name}={value!r:.60}" for name, value in self.changed_parameters().items() if name not in used]
        if given:
            raise InputError(f"{', '.join(given)} {'belongs' if len(given) == 1 else 'belong'} to {where}")
