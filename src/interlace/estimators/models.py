"""What every fitted quantizer does: inputs -> codes, an index, a score, one file. ``fit`` is its own."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from .._threads import thread_count
from ..codec.codebooks import Codebooks
from ..codec.embedded import EmbeddedRows
from ..codec.embedding import Embedding, Module, embedding_in
from ..codec.encode import EFFORTS, encode
from ..errors import InputError, NotAnIndexError, warn_user
from ..evaluate.measures import quantization_error
from ..evaluate.ranking import average_precision, scores_of_ranking, some_labels
from ..files import storage
from ..index.index import Index
from ..index.parts import books_in
from ..inputs.arrays import FloatArray, Rows, describe, normalize, positive, to_numpy
from ..inputs.labels import as_labels
from ..inputs.literals import Effort
from ..inputs.spool import yields_blocks
from ..learn.choice import Choice
from ..learn.prior import Prior
from ..learn.recipe import Recipe
from ..progress import shown
from .base import Transformer, is_dataset
from .cards import card

Self = TypeVar("Self", bound="Model")
Labels = NDArray[Any]

#: From lists of this length on ``score`` sorts all rows.
LONG_LIST = 4096
#: Ranked rows that ``score`` holds at a time: with their ids, distances and labels some 100 MB.
RANKED_ROWS = 1 << 22


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a fit leaves, and a file of a model holds. ``None`` is what a kind of fit does not have."""

    codebooks: Codebooks
    sample: NDArray[np.int64]  #: rows that the books were learned from, ascending; others calibrate an index
    n_rows: int  #: that were given to fit
    embedding: Embedding | None = None
    prior: Prior | None = None
    choice: Choice | None = None
    names: NDArray[Any] | None = None  #: of the columns, where they have some
    history: list[dict[str, Any]] | None = None  #: losses and the like, one entry for each epoch
    codes: NDArray[np.uint8] | None = None  #: of the rows that were fitted on, with their labels: what score searches
    labels: Labels | None = None
    info: dict[str, Any] = field(default_factory=dict)  #: of the fit, JSON-able: recipe, losses, what was measured


class Model(Transformer):
    """A quantizer with the calls of scikit-learn. ``fit`` ends by :meth:`_take`; all else is here.

    Where there is an ``embedding_``, inputs X are raw ([n, *input_shape], or flat rows) and go through it.
    """

    _preserves_dtype = ("float32",)
    #: Its name in files; subclasses of users keep it.
    _estimator: ClassVar[str]

    seed: int
    threads: int | None
    progress: Any
    # Only after a fit that has them.
    choice_: Choice
    history_: list[dict[str, Any]]
    codes_: NDArray[np.uint8]
    labels_: Labels

    def _inside(self, name: str) -> Any:
        """``recipe__pi2`` reaches into a recipe by name, too."""
        value = getattr(self, name)
        if name != "recipe" or not isinstance(value, str | dict):
            return value
        try:
            return Recipe.named(value)
        except InputError:
            return value  # fit will tell

    def _take(self, fitted: Fitted) -> None:
        """Set what was fitted, all of it; nothing of an earlier fit stays."""
        self.codebooks_: Codebooks = fitted.codebooks
        self.embedding_: Embedding | None = fitted.embedding
        self.prior_: Prior | None = fitted.prior
        self.fit_info_: dict[str, Any] = fitted.info
        self._sample, self._n_rows = fitted.sample, fitted.n_rows
        for name in _OPTIONAL:
            vars(self).pop(f"{name}_", None)
            if (value := getattr(fitted, name)) is not None:
                setattr(self, f"{name}_", value)
        width = fitted.codebooks.dim if fitted.embedding is None else math.prod(fitted.embedding.input_shape)
        self._remember(width, fitted.names)

    def _fitted(self) -> Fitted:
        """Inverse of :meth:`_take`; what the user deleted (codes, say) is left out."""
        self._check_fitted()
        optional = {name: getattr(self, f"{name}_", None) for name in _OPTIONAL}
        return Fitted(
            self.codebooks_,
            self._sample,
            self._n_rows,
            self.embedding_,
            self.prior_,
            names=getattr(self, "feature_names_in_", None),
            info=self.fit_info_,
            **optional,
        )

    def _rows(self, x: Any, name: str = "X") -> Rows:
        """Inputs as vectors, read in blocks."""
        self._check_fitted()
        if self.embedding_ is None:
            return Rows(self._like_fit(x), name=name, dim=self.codebooks_.dim)
        if is_dataset(x):
            x = _inputs(x)
        if isinstance(x, list | tuple) and not yields_blocks(x):
            x = to_numpy(x, name)
        if len(getattr(x, "shape", ())) <= 2:  # images have no columns that scikit-learn could know
            x = self._like_fit(x)
        return EmbeddedRows(x, self.embedding_, name=name)

    def embed(self, X: Any) -> FloatArray:
        """Vectors float32 [n, dim] of inputs X, before they are coded: X itself where there is no embedding."""
        rows = self._rows(X)
        out, start = np.empty((len(rows), rows.dim), np.float32), 0
        for block in rows.blocks():
            out[start : start + len(block)] = block
            start += len(block)
        return out

    def encode(self, X: Any, *, effort: Effort | None = None) -> NDArray[np.uint8]:
        """Codes uint8 [n, n_bytes] of inputs X, the cell's code first; see :attr:`Codebooks.columns` for the others."""
        rows = self._rows(X)
        if effort is None and self.embedding_ is None:  # words learned with an embedding have the encoder of their own
            effort = getattr(self, "effort", None)
        if effort is not None and effort not in EFFORTS:
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
        """The vectors float32 [n, dim] that codes stand for, in the space of the embedding if there is one."""
        self._check_fitted()
        array = np.array(to_numpy(codes, "codes"))
        n_bytes = self.codebooks_.n_bytes
        if array.ndim != 2 or array.shape[1] != n_bytes or array.dtype != np.uint8:
            raise InputError(f"codes must be uint8 [n, {n_bytes}], got {describe(codes)}")
        most = np.array(self.codebooks_.column_sizes)
        if (array.max(0, initial=0) >= most).any():
            column = int(np.argmax(array.max(0, initial=0) >= most))
            raise InputError(f"codes[:, {column}] names word {int(array[:, column].max())} of {int(most[column])}")
        return self.codebooks_.decode(array)

    def transform(self, X: Any) -> Any:
        """What the codes of inputs X stand for, float32 [n, dim]: their vectors with the error of the codes."""
        return self._contained(self.decode(self.encode(X)), X)

    def _n_features_out(self) -> int:
        return self.codebooks_.dim

    def index(self, X: Any, ids: Any = None) -> Index:
        """An :class:`Index` of inputs X: coded by these books, its margin calibrated on some of them.

        It carries the embedding, if there is one, and takes raw queries.
        """
        rows = self._rows(X, "x")
        sample = self._sample if len(rows) == self._n_rows else np.zeros(0, np.int64)
        index = Index.of_rows(
            self.codebooks_,
            rows,
            ids,
            sample=sample,
            seed=positive(self.seed, "seed", least=0),
            threads=self.threads,
            progress=shown(self.progress),
            embedding=self.embedding_,
        )
        index.choice = getattr(self, "choice_", None)
        return index

    def score(
        self, X: Any, y: Any = None, X_database: Any = None, y_database: Any = None, *, at: int | None = 1000
    ) -> float:
        """MAP@``at`` (None: of the whole ranking) of queries X with labels y, ranked by the exhaustive scan of codes.

        A torch ``Dataset`` or ``DataLoader`` has its labels inside: give it without y, or without y_database.

        Of a model that was fitted without labels, ``score(X)`` is minus the mean squared distance of the vectors X from
        what their codes stand for (:func:`interlace.evaluate.quantization_error`): larger is better, 0 is best, and it
        has the unit of the data squared. A grid search without labels chooses by it.

        The database are the rows that the model was fitted on with labels, as long as it has their ``codes_`` and
        ``labels_``, or ``X_database`` with labels ``y_database``. A row is relevant to a query of its label; the
        average precision of a query is divided by the number of relevant rows among those ranked, 0 without any. Labels
        are what ``fit`` takes. Some that no row of the database has are warned of, none that it has is an error.
        """
        self._check_fitted()
        unlabelled = y is None and not is_dataset(X) and not hasattr(self, "labels_")
        if unlabelled and X_database is None and y_database is None:
            return -quantization_error(self, X).error
        return self.scores(X, y, X_database, y_database, at=(at,))[0]

    @property
    def sample_rows_(self) -> NDArray[np.int64]:
        """Numbers of the rows given to ``fit`` that the codebooks were learned from, ascending."""
        return self._sample

    def scores(
        self, X: Any, y: Any, X_database: Any = None, y_database: Any = None, *, at: Sequence[int | None]
    ) -> list[float]:
        """:meth:`score` for several list lengths ``at`` from one ranking."""
        self._check_fitted()
        if y_database is None and is_dataset(X_database):
            y_database = _labels_in(X_database)
        if (X_database is None) != (y_database is None):
            raise InputError("X_database and y_database belong together: give both, or none")
        if X_database is None and not (hasattr(self, "codes_") and hasattr(self, "labels_")):
            raise InputError(
                f"this {type(self).__name__} has no labelled rows to search: pass X_database and y_database"
            )
        if X_database is None:
            return self.scores_of_codes(X, y, self.codes_, self.labels_, at=at)
        return self.scores_of_codes(X, y, self.encode(X_database), y_database, at=at)

    def scores_of_codes(
        self, X: Any, y: Any, codes: NDArray[np.uint8], y_database: Any, *, at: Sequence[int | None]
    ) -> list[float]:
        """:meth:`scores` against a database of rows that are encoded already (:meth:`encode`), with labels."""
        labels = _labels(y_database, len(codes), "y_database", "X_database")
        if y is None and is_dataset(X):
            y = _labels_in(X)
        rows = self._rows(X)
        wanted = _labels(y, len(rows), "y", "X")
        if (labels.dtype.kind in "iu") != (wanted.dtype.kind in "iu"):
            raise InputError(f"y has dtype {wanted.dtype}, the database's labels {labels.dtype}: they never equal")
        if not len(rows) or not len(codes):
            raise InputError(f"a score needs queries and a database, got {len(rows)} and {len(codes)} rows")
        _check_known(wanted, labels)
        index = self._index_of(codes)
        cuts = [min(len(codes), len(codes) if k is None else positive(k, "at")) for k in at]
        if max(cuts) > LONG_LIST and self.codebooks_.metric == "l2":
            return self._scores_of_long_lists(index, codes, rows, wanted, labels, cuts)
        totals, start = np.zeros(len(cuts)), 0
        for block in rows.blocks(max(1, RANKED_ROWS // max(cuts))):
            found = index.search(block, max(cuts), margin=math.inf, threads=self.threads).ids
            hits = labels[found] == wanted[start : start + len(block), None]
            totals += [average_precision(hits[:, :k]).sum() for k in cuts]
            start += len(block)
        return [float(total / len(rows)) for total in totals]

    def _index_of(self, codes: Any) -> Index:
        """For a score, not calibrated."""
        return Index.from_codes(self.codebooks_, codes)

    def _scores_of_long_lists(
        self, index: Index, codes: Any, rows: Rows, wanted: Labels, labels: Labels, cuts: list[int]
    ) -> list[float]:
        """The same where one sort of all rows is quicker than a search for the best of them.

        Search's distance is |q|^2 - 2 <q, row> plus a number of the row, which a search for the origin tells.
        """
        origin = index.search(np.zeros((1, self.codebooks_.dim), np.float32), len(codes), margin=math.inf)
        squares = np.empty(len(codes))
        squares[origin.ids[0]] = origin.distances[0]
        decoded, totals, start = self.codebooks_.decode(codes), np.zeros(len(cuts)), 0
        for block in rows.blocks():
            mine = wanted[start : start + len(block)]
            found = scores_of_ranking(block, decoded, mine, labels, at=cuts, squares=squares)
            totals += [found[f"map@{k}"] * len(block) for k in cuts]
            start += len(block)
        return [float(total / len(rows)) for total in totals]

    def card(self) -> str:
        """The model in Markdown: data, embedding, books, bytes, ``fit_info_``. It is stored in its file, too."""
        fitted = self._fitted()
        return card(
            f"{self._estimator} model",
            fitted.codebooks,
            fitted.embedding,
            n_rows=fitted.n_rows,
            info=plain(fitted.info),
            history=plain(fitted.history),
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write parameters, books and embedding to one file, atomically; :meth:`Codebooks.load` reads it too.

        Parameters that JSON cannot hold (a module, a function) are left out.
        """
        fitted = self._fitted()
        arrays, description = fitted.codebooks.to_arrays()
        sections = {f"codebooks.{name}": array for name, array in arrays.items()}
        embedding, classes = None, None
        if fitted.embedding is not None:
            arrays, embedding = fitted.embedding.to_arrays()
            sections |= {f"embedding.{name}": array for name, array in arrays.items()}
        sections["sample"] = fitted.sample
        if fitted.codes is not None and fitted.labels is not None:
            names, numbers = np.unique(fitted.labels, return_inverse=True)
            sections |= {"codes": fitted.codes, "labels": numbers.reshape(-1).astype(np.int64)}
            classes = names.tolist()
        params = {name: plain(value) for name, value in self.get_params(deep=False).items() if name != "progress"}
        storage.write(
            path,
            sections,
            {
                "kind": "model",
                "estimator": self._estimator,
                "codebooks": description,
                "embedding": embedding,
                "params": {name: value for name, value in params.items() if _is_json(value)},
                "choice": None if fitted.choice is None else asdict(fitted.choice),
                "prior": None if fitted.prior is None else fitted.prior.to_dict(),
                "n_rows": fitted.n_rows,
                "feature_names": None if fitted.names is None else [*fitted.names],
                "classes": classes,
                "history": plain(fitted.history),
                "fit_info": plain(fitted.info),
                "card": self.card(),
            },
        )

    @classmethod
    def load(cls: type[Self], path: str | PathLike[str], embedding: Any = None) -> Self:
        """Read what :meth:`save` wrote; ``embedding`` is the torch module of a model that has one, see ``il.open``."""
        file = storage.read(path)
        if file.meta.get("kind") != "model":
            raise NotAnIndexError(f"{file.path!r} holds {file.meta.get('kind')!r}, not a model")
        if (kind := file.meta.get("estimator", "ICQ")) != cls._estimator:
            raise NotAnIndexError(
                f"{file.path!r} holds a model of {kind}, not of {cls._estimator}: interlace.quantizers.load(path) "
                "loads models of every kind"
            )
        fitted = _fitted_in(file, embedding)
        with file.damage_named("model"):
            model = cls(**_params_in(file))
        model._take(fitted)
        return model

    def __deepcopy__(self: Self, memo: dict[int, Any]) -> Self:
        """Parameters are copied; what was fitted never changes and is shared, a user's module with it."""
        fitted = self._fitted() if hasattr(self, "codebooks_") else None
        model = type(self)(**copy.deepcopy(self.get_params(deep=False), memo))
        if fitted is not None:
            model._take(fitted)
        return model

    def __getstate__(self) -> dict[str, Any]:
        """A file's bytes; the learned module of a user goes beside them, as pickle sees fit, for no file holds it."""
        state = dict(vars(self))
        if "codebooks_" in state:
            saved = storage.to_bytes(self.save)
            if isinstance(self.embedding_, Module):
                state["module"] = self.embedding_.module
            for name in ("codebooks_", "embedding_", "prior_", "fit_info_", "_sample", *(f"{n}_" for n in _OPTIONAL)):
                state.pop(name, None)
            state["saved"] = saved
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved, module = state.pop("saved", None), state.pop("module", None)
        vars(self).update(state)
        if saved is not None:
            self._take(storage.from_bytes(saved, lambda path: _fitted_in(storage.read(path), module)))


_OPTIONAL = ("choice", "history", "codes", "labels")


def _fitted_in(file: storage.File, module: Any = None) -> Fitted:
    """What a file of kind ``model`` holds, every byte of it checked; older ones lack some keys."""
    # Books in parts have all that a model asks of Codebooks; see baselines/parted.py.
    codebooks: Any = books_in(file)
    embedding, meta = embedding_in(file, module), file.meta
    with file.damage_named("model"):
        named = {"sample": np.int64} | ({} if meta.get("classes") is None else {"codes": np.uint8, "labels": np.int64})
        arrays: dict[str, Any] = {}
        for name, dtype in named.items():
            file.check(name)
            arrays[name] = np.array(file.array(name), dtype)  # not mapped: models outlive their files
        sample, n_rows, choice = arrays["sample"], int(meta["n_rows"]), meta["choice"]
        if sample.ndim != 1 or (len(sample) and not 0 <= sample[0] <= sample[-1] < n_rows):
            raise ValueError(f"a sample of shape {sample.shape} out of {n_rows} rows")
        if embedding is not None and embedding.dim != codebooks.dim:
            raise ValueError(f"an embedding of {embedding.dim} dimensions, books of {codebooks.dim}")
        labels = None if "labels" not in arrays else np.array(meta["classes"])[arrays["labels"]]
        if labels is not None and arrays["codes"].shape != (len(labels), codebooks.n_bytes):
            raise ValueError(f"codes of shape {arrays['codes'].shape} for {len(labels)} labels")
        return Fitted(
            codebooks,
            sample,
            n_rows,
            embedding,
            None if meta["prior"] is None else Prior.from_dict(meta["prior"]),
            None if choice is None else Choice(**choice | {"table": tuple(choice["table"])}),
            None if meta["feature_names"] is None else np.array(meta["feature_names"], dtype=object),
            meta.get("history"),
            arrays.get("codes"),
            labels,
            meta.get("fit_info", {}),
        )


def _params_in(file: storage.File) -> dict[str, Any]:
    """Parameters as they were given: JSON has no tuples, and a recipe is a dict there."""
    params: dict[str, Any] = dict(file.meta["params"])
    for name, value in params.items():
        if isinstance(value, list):
            params[name] = tuple(value)
        elif name == "recipe" and isinstance(value, dict):
            params[name] = Recipe(**value)
    return params


def _inputs(dataset: Any) -> Any:
    """The inputs of a torch Dataset or DataLoader in its order, block by block."""
    from ..learn.joint.batches import input_blocks

    return input_blocks(dataset)


def _labels_in(dataset: Any) -> Any:
    from ..learn.joint.batches import dataset_labels

    return dataset_labels(dataset)


def _labels(labels: Any, n: int, name: str, rows: str) -> Labels:
    """What ``fit`` takes; bools are numbers here, as 0 and 1 are equal to them."""
    array = as_labels(labels, n, name=name, rows=rows)
    return array.astype(np.int64) if array.dtype.kind == "b" else array


def _check_known(wanted: Labels, labels: Labels) -> None:
    """Queries of a class that the database has not got find nothing; if all are, the labels are of two worlds."""
    known = np.isin(wanted, labels)
    if known.all():
        return
    missing = some_labels(wanted[~known])
    if not known.any():
        raise InputError(
            f"no row of the database has a label of the queries: y has {missing}, it has {some_labels(labels)}"
        )
    warn_user(
        f"{int((~known).sum())} of {len(wanted)} queries have a label that no row of the database has ({missing}): "
        "their average precision is 0"
    )


def plain(value: Any) -> Any:
    """The same in types that JSON has: numbers of NumPy become Python's, tuples lists."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, Recipe):
        return value.to_dict()
    return value.item() if isinstance(value, np.generic) else value


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
