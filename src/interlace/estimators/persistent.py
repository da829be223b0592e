"""Estimators whose fitted state is one `Fitted`: set by ``fit``, and saved, loaded, copied and pickled as a whole."""

from __future__ import annotations

import copy
import math
from os import PathLike
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codebooks
from ..codec.embedding import Embedding, Module
from ..errors import NotAnIndexError
from ..files import storage
from ..learn.auto import Choice
from ..learn.prior import Prior
from .base import Transformer
from .cards import card
from .fitted import Fitted
from .model_files import open_model, read_fitted, read_parameters, to_json_types, write_model

Self = TypeVar("Self", bound="PersistentEstimator")

#: Fields of `Fitted` that become attributes (with an underscore appended) only if they are not None.
_OPTIONAL = ("choice", "history", "codes", "labels")
#: Attributes that are pickled as the bytes of a model file.
_FITTED_ATTRIBUTES = ("codebooks_", "embedding_", "prior_", "fit_info_", "sample_", *(f"{n}_" for n in _OPTIONAL))


class PersistentEstimator(Transformer):
    """Fits by :meth:`learn`, which a subclass defines, and stores the result in attributes and files."""

    #: Identifies the class in model files. Subclasses that users derive from a quantizer inherit it.
    name_in_files: ClassVar[str]

    codebooks_: Codebooks
    embedding_: Embedding | None
    prior_: Prior | None
    fit_info_: dict[str, Any]
    sample_: NDArray[np.int64]  #: row numbers that the books were learned from, ascending
    n_samples_fit_: int  #: number of rows passed to fit
    # These exist only if the fit produced them.
    choice_: Choice
    history_: list[dict[str, Any]]
    codes_: NDArray[np.uint8]
    labels_: NDArray[Any]

    def learn(self, X: Any, y: Any = None) -> Fitted:
        """Learn from inputs X and, if the method uses them, labels y, without changing this object."""
        raise NotImplementedError(f"{type(self).__name__} must define learn(X, y), which returns a Fitted")

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Learn from inputs X and, if the method uses them, labels y. After an error the model is unchanged."""
        self.set_fitted(self.learn(X, y))
        return self

    def set_fitted(self, fitted: Fitted) -> None:
        """Set all fitted attributes and delete those of an earlier fit."""
        self.codebooks_, self.embedding_, self.prior_ = fitted.codebooks, fitted.embedding, fitted.prior
        self.fit_info_, self.sample_, self.n_samples_fit_ = fitted.info, fitted.sample, fitted.n_rows
        for name in _OPTIONAL:
            vars(self).pop(f"{name}_", None)
            if (value := getattr(fitted, name)) is not None:
                setattr(self, f"{name}_", value)
        width = fitted.codebooks.dim if fitted.embedding is None else math.prod(fitted.embedding.input_shape)
        self._record_features(width, fitted.names)

    def get_fitted(self) -> Fitted:
        """Inverse of :meth:`set_fitted`. Attributes that the user deleted, such as ``codes_``, are None."""
        self._check_fitted()
        optional = {name: getattr(self, f"{name}_", None) for name in _OPTIONAL}
        return Fitted(
            self.codebooks_,
            self.sample_,
            self.n_samples_fit_,
            self.embedding_,
            self.prior_,
            names=getattr(self, "feature_names_in_", None),
            info=self.fit_info_,
            **optional,
        )

    def card(self) -> str:
        """The model card in Markdown: data, embedding, books, bytes and ``fit_info_``. Model files contain it."""
        fitted = self.get_fitted()
        return card(
            f"{self.name_in_files} model",
            fitted.codebooks,
            fitted.embedding,
            n_rows=fitted.n_rows,
            info=to_json_types(fitted.info),
            history=to_json_types(fitted.history),
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write parameters, books and embedding to one file, atomically. :meth:`Codebooks.load` reads it too.

        Parameters that JSON cannot hold (a torch module, a function) and ``progress`` are left out.
        """
        fitted, params = self.get_fitted(), self.get_params(deep=False)
        params.pop("progress", None)
        write_model(path, self.name_in_files, params, fitted, self.card())

    @classmethod
    def load(cls: type[Self], path: str | PathLike[str], embedding: Any = None) -> Self:
        """Read a file that :meth:`save` wrote. ``embedding`` is the model's torch module, if it has one (``il.open``).

        ``interlace.quantizers.load`` reads files of any class.
        """
        file, name = open_model(path)
        if name != cls.name_in_files:
            raise NotAnIndexError(
                f"{file.path!r} holds a model of {name}, not of {cls.name_in_files}: interlace.quantizers.load(path) "
                "loads models of every class"
            )
        fitted = read_fitted(file, embedding)
        with file.parsing("model"):
            model = cls(**read_parameters(file))
        model.set_fitted(fitted)
        return model

    def __deepcopy__(self: Self, memo: dict[int, Any]) -> Self:
        """Copies the parameters. Fitted arrays never change and are shared, a user's torch module included."""
        fitted = self.get_fitted() if hasattr(self, "codebooks_") else None
        model = type(self)(**copy.deepcopy(self.get_params(deep=False), memo))
        if fitted is not None:
            model.set_fitted(fitted)
        return model

    def __getstate__(self) -> dict[str, Any]:
        """Pickles the bytes of a model file and, as a file cannot hold it, the torch module of the embedding."""
        state = dict(vars(self))
        if "codebooks_" in state:
            saved = storage.to_bytes(self.save)
            if isinstance(self.embedding_, Module):
                state["module"] = self.embedding_.module
            for name in _FITTED_ATTRIBUTES:
                state.pop(name, None)
            state["saved"] = saved
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        saved, module = state.pop("saved", None), state.pop("module", None)
        vars(self).update(state)
        if saved is not None:
            self.set_fitted(storage.from_bytes(saved, lambda path: read_fitted(storage.read(path), module)))
