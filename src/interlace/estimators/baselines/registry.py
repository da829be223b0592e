"""The registry of quantizers: tables, figures, ``interlace fit --method`` and model files find them here by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any

from ...errors import InputError, NotAnIndexError
from ...learn.registry import register_learner, unregister_learner
from ..model_files import open_model
from ..models import Model
from .vectors import VectorModel


@dataclass(frozen=True)
class Method:
    """A registered quantizer.

    ``make(n_books=..., seed=..., threads=..., progress=...)`` returns an unfitted estimator; methods that learn from
    labels also take ``embedding``, ``dim``, ``recipe`` and ``checkpoint``.
    """

    name: str  #: in tables, such as "SQ+CQ"
    make: Callable[..., Model]
    labels: bool  #: whether it learns an embedding from labels
    compare: bool = True  #: whether tables, figures and the command line list it

    @property
    def model(self) -> type[Model] | None:
        """The class of the estimators; None if ``make`` is a function."""
        make = self.make.func if isinstance(self.make, partial) else self.make
        return make if isinstance(make, type) and issubclass(make, Model) else None

    @property
    def layout_learner(self) -> type[VectorModel] | None:
        """The class, if stores can relearn codebooks of its layout with it."""
        kind = self.model
        if self.labels or kind is None or not issubclass(kind, VectorModel):
            return None
        return kind if kind.books_layout else None


_METHODS: dict[str, Method] = {}


def register(name: str, make: Callable[..., Model], *, labels: bool = False, compare: bool = True) -> Method:
    """Add a method under a new name, which needs an ASCII letter or digit because file names are made of it.

    With ``compare=False``, model files of its class can be loaded, but tables, figures and the command line do not list
    it.
    """
    if not isinstance(name, str) or not any(letter.isalnum() and letter.isascii() for letter in name):
        raise InputError(f"name must be a string with an ASCII letter or digit, got {name!r}")
    if not callable(make):
        raise InputError(f"make must be a class or a function that returns a quantizer, got {make!r}")
    if name in _METHODS:
        raise InputError(f"a method {name!r} is already registered")
    new = Method(name, make, labels, compare)
    _METHODS[name] = new
    if (kind := new.layout_learner) is not None:
        register_learner(kind.books_layout, kind.book_learner)
    return new


def methods(labels: bool | None = None) -> dict[str, Method]:
    """Methods by name, in order of registration; ``labels`` selects those that learn with labels, or without."""
    listed = {name: method for name, method in _METHODS.items() if method.compare}
    return {name: method for name, method in listed.items() if labels in (None, method.labels)}


def method(name: str) -> Method:
    """The method of that name; InputError lists the names if there is none."""
    if name not in _METHODS:
        raise InputError(f"no method {name!r}; there are {', '.join(methods())}")
    return _METHODS[name]


def unregister(name: str) -> None:
    """Remove a method."""
    old = _METHODS.pop(method(name).name)
    if (kind := old.layout_learner) is not None:
        unregister_learner(kind.books_layout, kind.book_learner)


def load(path: str | PathLike[str], embedding: Any = None) -> Model:
    """Load a model file that any registered method saved. ``embedding`` is its torch module, if it has one.

    The file determines the class: a file of :class:`PQ` gives a PQ, a file of :class:`interlace.ICQ` an ICQ.
    """
    file, name = open_model(path)
    for known in _METHODS.values():
        if known.model is not None and known.model.name_in_files == name:
            return known.model.load(path, embedding)
    raise NotAnIndexError(
        f"{file.path!r} holds a model of {name!r}, which no registered method makes: load it with a newer version of "
        "interlace, or register the plug-in that wrote it"
    )
