"""Where an index gets its store from: stores are built on indexes, so the package root provides the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_makers: list[Callable[..., Any]] = []


def provide(make: Callable[..., Any]) -> None:
    """Set the function that makes a store: that of :func:`interlace.create`."""
    _makers[:] = [make]


def make_store(*args: Any, **settings: Any) -> Any:
    """Call it."""
    return _makers[0](*args, **settings)
