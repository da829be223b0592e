"""The estimator: vectors -> books, codes, an index, with the calls of scikit-learn."""

from __future__ import annotations

import dataclasses
import warnings
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import storage
from ._threads import thread_count
from .arrays import FloatArray, Rows, describe, normalize, to_numpy
from .codebooks import Codebooks, codebooks_of
from .encode import EFFORTS, encode
from .errors import InputError, NotAnIndexError
from .estimators import Transformer, from_bytes, readable, to_bytes
from .index import Index
from .learning import ITERATIONS, MAX_TRAIN_ROWS, Learned, Settings, learn_codebooks
from .progress import shown
from .quantizers.choice import Choice
from .quantizers.prior import Prior


class ICQ(Transformer):
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

    _preserves_dtype = ("float32",)

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
        self._learned(learned, len(rows), names)
        return self

    def _learned(self, learned: Learned, n_rows: int, names: NDArray[Any] | None) -> None:
        self.codebooks_: Codebooks = learned.codebooks
        self.choice_: Choice = learned.choice
        self.prior_: Prior | None = learned.prior
        self._sample, self._n_rows = learned.sample, n_rows  # other rows calibrate an index of the same data
        self._remember(learned.codebooks.dim, names)

    def encode(self, X: Any, *, effort: str | None = None) -> NDArray[np.uint8]:
        """Codes uint8 [n, n_bytes] of rows X, the cell's code first; see :attr:`Codebooks.columns` for the others."""
        rows = Rows(self._like_fit(X), name="X", dim=self.codebooks_.dim)
        effort = self.effort if effort is None else effort
        if effort not in EFFORTS:
            raise InputError(f"effort must be one of {', '.join(EFFORTS)}, got {effort!r}")
        codes = np.empty((len(rows), self.codebooks_.n_bytes), np.uint8)
        threads, start = thread_count(self.threads), 0
        for block in rows.blocks():
            if self.codebooks_.metric == "cosine":
                block = normalize(block, name="X", first_row=start)
            codes[start : start + len(block)] = encode(self.codebooks_, block, threads, effort)
            start += len(block)
        return codes

    def decode(self, codes: Any) -> FloatArray:
        """The vectors float32 [n, dim] that codes stand for."""
        self._check_fitted()
        array = to_numpy(codes, "codes")
        n_bytes = self.codebooks_.n_bytes
        if array.ndim != 2 or array.shape[1] != n_bytes or array.dtype != np.uint8:
            raise InputError(f"codes must be uint8 [n, {n_bytes}], got {describe(codes)}")
        most = np.array(self.codebooks_.column_sizes)
        if (array.max(0, initial=0) >= most).any():
            column = int(np.argmax(array.max(0, initial=0) >= most))
            raise InputError(f"codes[:, {column}] names word {int(array[:, column].max())} of {int(most[column])}")
        return self.codebooks_.decode(array)

    def transform(self, X: Any) -> Any:
        """What the codes of rows X stand for, float32 [n, dim]: X with the error of the codes."""
        return self._contained(self.decode(self.encode(X)), X)

    def _n_features_out(self) -> int:
        return self.codebooks_.dim

    def index(self, X: Any, ids: Any = None) -> Index:
        """An :class:`Index` of rows X: coded by these books, its margin calibrated on some of them."""
        self._check_fitted()
        rows = Rows(self._like_fit(X), dim=self.codebooks_.dim)
        sample = self._sample if len(rows) == self._n_rows else np.zeros(0, np.int64)
        learned = Learned(self.codebooks_, sample, self.choice_, self.prior_, False)
        settings = dataclasses.replace(self._settings(), metric=self.codebooks_.metric)
        return Index.of_learned(learned, rows, ids, settings, shown(self.progress))

    def save(self, path: str | PathLike[str]) -> None:
        """Write parameters and books to one file, atomically; :meth:`Codebooks.load` reads it too."""
        self._check_fitted()
        arrays, description = self.codebooks_.to_arrays()
        names = getattr(self, "feature_names_in_", None)
        params = {name: _plain(value) for name, value in self.get_params().items() if name != "progress"}
        storage.write(
            path,
            {f"codebooks.{name}": array for name, array in arrays.items()} | {"sample": self._sample},
            {
                "kind": "model",
                "codebooks": description,
                "params": params,
                "choice": dataclasses.asdict(self.choice_),
                "prior": None if self.prior_ is None else self.prior_.to_dict(),
                "n_rows": self._n_rows,
                "feature_names": None if names is None else [*names],
            },
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> ICQ:
        """Read what :meth:`save` wrote."""
        file = storage.read(path)
        if file.meta.get("kind") != "model":
            raise NotAnIndexError(f"{file.path!r} holds {file.meta.get('kind')!r}, not a model")
        codebooks = codebooks_of(file)
        with file.damage_named("model"):
            model = cls(**file.meta["params"])
            choice = file.meta["choice"]
            names = file.meta["feature_names"]
            prior = None if file.meta["prior"] is None else Prior.from_dict(file.meta["prior"])
            file.check("sample")
            sample = np.array(file.array("sample"), np.int64)
            n_rows = int(file.meta["n_rows"])
            if sample.ndim != 1 or (len(sample) and not 0 <= sample[0] <= sample[-1] < n_rows):
                raise ValueError(f"a sample of shape {sample.shape} out of {n_rows} rows")
            learned = Learned(codebooks, sample, Choice(**choice | {"table": tuple(choice["table"])}), prior, False)
        model._learned(learned, n_rows, None if names is None else np.array(names, dtype=object))
        return model

    def __getstate__(self) -> dict[str, Any]:
        state = dict(vars(self))
        if "codebooks_" in state:
            del state["codebooks_"]
            state["saved"] = to_bytes(self.save)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved = state.pop("saved", None)
        vars(self).update(state)
        if saved is not None:
            self.codebooks_ = from_bytes(saved, Codebooks.load)


def _plain(value: Any) -> Any:
    """A parameter as JSON holds it."""
    return int(value) if isinstance(value, np.integer) else value
