"""`Model`, the base of all quantizers: a subclass defines ``learn``; encoding, indexes, scores and files are here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import thread_count
from ..codec.embedded import EmbeddedRows
from ..codec.encode import check_effort, checked_codes, encode_rows
from ..errors import InputError
from ..evaluate.measures import quantization_error
from ..index.index import Index
from ..inputs.arrays import FloatArray, Rows, positive, to_numpy
from ..inputs.literals import Effort, OriginalsKind
from ..inputs.spool import yields_blocks
from ..learn.recipe import Recipe
from ..progress import as_progress
from .features import dataset_inputs, dataset_labels, is_dataset
from .persistent import PersistentEstimator
from .scoring import mean_average_precisions, read_labels


class Model(PersistentEstimator):
    """A quantizer with the interface of scikit-learn.

    A subclass sets :attr:`name_in_files` and defines :meth:`learn`; its parameters must include ``seed``, ``threads``
    and ``progress``. docs/your_quantizer.md has an example.

    If the model has an ``embedding_``, the inputs X are raw (``[n, *input_shape]``, or flat rows) and are embedded
    first.
    """

    _preserves_dtype = ("float32",)

    seed: int
    threads: int | None
    progress: Any

    def embed(self, X: Any) -> FloatArray:
        """Vectors float32 [n, dim] of inputs X before encoding; X itself if there is no embedding."""
        rows = self._rows(X)
        out, start = np.empty((len(rows), rows.dim), np.float32), 0
        for block in rows.blocks():
            out[start : start + len(block)] = block
            start += len(block)
        return out

    def encode(self, X: Any, *, effort: Effort | None = None) -> NDArray[np.uint8]:
        """Codes uint8 [n, code_width] of inputs X: the cell, then a byte for each of :attr:`Codebooks.columns`.

        More than 256 cells take two bytes.
        """
        rows = self._rows(X)
        if effort is None and self.embedding_ is None:  # jointly learned books bring their own encoder settings
            effort = getattr(self, "effort", None)
        check_effort(effort)
        return encode_rows(self.codebooks_, rows, thread_count(self.threads), effort)

    def decode(self, codes: Any) -> FloatArray:
        """Vectors float32 [n, dim] of codes, in the space of the embedding if there is one."""
        self._check_fitted()
        return self.codebooks_.decode(checked_codes(self.codebooks_, codes))

    def transform(self, X: Any) -> Any:
        """Decoded vectors float32 [n, dim] of inputs X: ``decode(encode(X))``."""
        return self._wrap_output(self.decode(self.encode(X)), X)

    def index(self, X: Any, ids: Any = None, *, originals: OriginalsKind | None = None) -> Index:
        """An :class:`Index` of inputs X, calibrated on some of them.

        If the model has an embedding, the index contains it and takes raw queries. ``originals`` as for
        :meth:`Index.build`.
        """
        rows = self._rows(X, "x", ids)
        sample = self.sample_ if len(rows) == self.n_samples_fit_ else np.zeros(0, np.int64)
        index = Index.of_rows(
            self.codebooks_,
            rows,
            ids,
            sample=sample,
            seed=positive(self.seed, "seed", least=0),
            threads=self.threads,
            progress=as_progress(self.progress),
            embedding=self.embedding_,
            originals=originals,
        )
        index.choice = getattr(self, "choice_", None)
        return index

    def score(
        self, X: Any, y: Any = None, X_database: Any = None, y_database: Any = None, *, at: int | None = 1000
    ) -> float:
        """MAP@``at`` (None: the whole ranking) of queries X with labels y, ranked by the exhaustive scan of codes.

        A torch ``Dataset`` or ``DataLoader`` contains its labels: pass it without y or y_database.

        For a model fitted without labels, ``score(X)`` is minus the mean squared distance between the vectors X and
        their decoded vectors (:func:`interlace.evaluate.quantization_error`). Larger is better, 0 is best, and the unit
        is that of the data squared. A grid search without labels maximizes it. Models whose ``fit`` ignores y, which
        pipelines and grid searches pass to every step, ignore it here too, unless there is a database with labels.

        The database is ``X_database`` with labels ``y_database``, or else the rows that the model was fitted on with
        labels (its ``codes_`` and ``labels_``). A row is relevant if its label is that of the query; the average
        precision of a query is divided by the number of relevant rows in its ranking and is 0 without any. Labels have
        the types that ``fit`` accepts. Query labels that the database does not have cause a warning; if the database
        has none of them, an error is raised.
        """
        self._check_fitted()
        unlabelled = self._ignores_y or (y is None and not is_dataset(X) and not hasattr(self, "labels_"))
        if unlabelled and X_database is None and y_database is None:
            return -quantization_error(self, X).error
        return self.scores(X, y, X_database, y_database, at=(at,))[0]

    def scores(
        self, X: Any, y: Any = None, X_database: Any = None, y_database: Any = None, *, at: Sequence[int | None]
    ) -> list[float]:
        """MAP of :meth:`score` for several list lengths, from one ranking."""
        self._check_fitted()
        if y_database is None and is_dataset(X_database):
            y_database = dataset_labels(X_database)
        if (X_database is None) != (y_database is None):
            raise InputError("X_database and y_database must be given together: pass both or neither")
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
        labels = read_labels(y_database, len(codes), "y_database", "X_database")
        if y is None and is_dataset(X):
            y = dataset_labels(X)
        rows = self._rows(X)
        wanted = read_labels(y, len(rows), "y", "X")
        return mean_average_precisions(
            self._index_of_codes(codes), self.codebooks_, codes, labels, rows, wanted, at=at, threads=self.threads
        )

    @property
    def _ignores_y(self) -> bool:
        """Whether ``fit`` ignores labels."""
        return False

    def _nested(self, name: str) -> Any:
        """``recipe__pi2`` refers to a value of a recipe, also if the recipe is given by its name."""
        value = getattr(self, name)
        if name != "recipe" or not isinstance(value, str | dict):
            return value
        try:
            return Recipe.named(value)
        except InputError:
            return value  # fit raises the error

    def _rows(self, x: Any, name: str = "X", ids: Any = False) -> Rows:
        """Vectors of inputs X, read in blocks. ``ids`` as for ``Rows``: none, but for an index."""
        self._check_fitted()
        if self.embedding_ is None:
            return Rows(self._read_like_fit(x), name=name, dim=self.codebooks_.dim, ids=ids)
        if is_dataset(x):
            x = dataset_inputs(x)
        if isinstance(x, list | tuple) and not yields_blocks(x):
            x = to_numpy(x, name)
        if len(getattr(x, "shape", ())) <= 2:  # images have no columns
            x = self._read_like_fit(x)
        return EmbeddedRows(x, self.embedding_, name=name, ids=ids)

    def _n_features_out(self) -> int:
        return self.codebooks_.dim

    def _index_of_codes(self, codes: NDArray[np.uint8]) -> Index:
        """The index that ``score`` searches, without calibration."""
        return Index.from_codes(self.codebooks_, codes)
