"""How long-running calls tell where they are."""

from __future__ import annotations

from collections.abc import Callable

#: Called with what is being done and the share of the whole that is done, 0 to 1.
Progress = Callable[[str, float], None]


def silent(what: str, done: float) -> None:
    """The default: say nothing."""
