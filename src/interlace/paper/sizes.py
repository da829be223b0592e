"""Sizes of runs: full, quick (shows that everything runs) and tiny (for tests)."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError
from .runs import Settings

#: Numbers of books of every figure.
BOOKS = (2, 4, 8, 16)


@dataclass(frozen=True)
class Size:
    """Limits; None means unlimited."""

    name: str
    books: tuple[int, ...] = BOOKS
    seeds: int | None = None  #: at most, unless the user passes a number
    rows: int | None = None
    queries: int | None = None
    recipe: Settings = ()  #: changes to every recipe
    network_epochs: int | None = None  #: epochs of the shared networks
    sweep: int | None = None  #: values of each swept setting
    data: int | None = None  #: data sets of each part
    dim: int | None = None  #: most dimensions of embeddings

    @property
    def folder(self) -> str:
        """Sub-folder of its results."""
        return "" if self.name == "full" else self.name


_SHORT = (("warm_up", 1), ("shape", 1), ("epochs", 2), ("hard_after", 1), ("triplets", 0))
_SHORTEST = (("warm_up", 1), ("shape", 1), ("epochs", 1), ("hard_after", 0), ("batch_size", 200), ("triplets", 0))
SIZES = {
    "full": Size("full"),
    "quick": Size(
        "quick", books=(2, 4), seeds=1, rows=2_000, queries=200, recipe=_SHORT, network_epochs=2, sweep=2, dim=256
    ),
    "tiny": Size(
        "tiny", books=(2, 4), seeds=1, rows=800, queries=60, recipe=_SHORTEST, network_epochs=1, sweep=1, data=1, dim=64
    ),
}


def size_of(name: str) -> Size:
    """The size of that name; the error lists all names."""
    if name not in SIZES:
        raise InputError(f"size must be one of {', '.join(SIZES)}, got {name!r}")
    return SIZES[name]
