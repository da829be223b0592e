"""All methods by name: what tables and figures compare, ``interlace fit --method`` learns and files hold.

A new one needs :func:`register`, and is in all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any

from ...errors import InputError, NotAnIndexError
from ...files import storage
from ..models import Model


@dataclass(frozen=True)
class Method:
    """How to make a quantizer for a run.

    ``make(n_books=..., seed=..., threads=..., progress=...)`` returns an estimator that was not fitted; methods that
    learn from labels take ``embedding``, ``dim``, ``recipe`` and ``checkpoint`` as well.
    """

    name: str  #: in tables: "SQ+CQ"
    make: Callable[..., Model]
    labels: bool  #: learned from labels, with an embedding

    @property
    def model(self) -> type[Model] | None:
        """The class of its estimators; None where ``make`` is a function, which does not tell."""
        make = self.make.func if isinstance(self.make, partial) else self.make
        return make if isinstance(make, type) and issubclass(make, Model) else None


_METHODS: dict[str, Method] = {}


def register(name: str, make: Callable[..., Model], *, labels: bool = False) -> Method:
    """Add a method; its name must be new, and have a letter or a digit, by which its files are called."""
    if not isinstance(name, str) or not any(letter.isalnum() and letter.isascii() for letter in name):
        raise InputError(f"the name of a method is text with a letter (a to z) or a digit, got {name!r}")
    if not callable(make):
        raise InputError(f"make must be a class or a function that returns a quantizer, got {make!r}")
    if name in _METHODS:
        raise InputError(f"there is a method {name!r} already")
    _METHODS[name] = Method(name, make, labels)
    return _METHODS[name]


def methods(labels: bool | None = None) -> dict[str, Method]:
    """All methods by name, in the order they were registered; with or without ``labels`` only, where it is given."""
    return {name: method for name, method in _METHODS.items() if labels in (None, method.labels)}


def method(name: str) -> Method:
    """The one of that name, or an error that lists all."""
    if name not in _METHODS:
        raise InputError(f"no method {name!r}; there are {', '.join(_METHODS)}")
    return _METHODS[name]


def unregister(name: str) -> None:
    """Take a method out again, as tests do."""
    del _METHODS[method(name).name]


def learner_of(layout: str) -> type[Model] | None:
    """The first method that learns codebooks of this layout from vectors alone."""
    kinds = (known.model for known in _METHODS.values() if not known.labels)
    return next((kind for kind in kinds if kind is not None and getattr(kind, "_layout", None) == layout), None)


def load(path: str | PathLike[str], embedding: Any = None) -> Model:
    """A model that any registered method wrote by ``save``; ``embedding`` is the torch module of one that has its own.

    The class is that of the file: a file of :class:`PQ` gives a PQ, one of :class:`interlace.ICQ` an ICQ.
    """
    file = storage.read(path)
    if file.meta.get("kind") != "model":
        raise NotAnIndexError(f"{file.path!r} holds {file.meta.get('kind')!r}, not a model")
    name = file.meta.get("estimator", "ICQ")
    for known in _METHODS.values():
        if known.model is not None and known.model._estimator == name:
            return known.model.load(path, embedding)
    raise NotAnIndexError(
        f"{file.path!r} holds a model of {name!r}, which no registered method makes: a newer version of interlace, or "
        "the plug-in that registers it, can load it"
    )
