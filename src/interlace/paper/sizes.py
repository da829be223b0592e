"""How much of a figure is run: all of it, enough to see that it runs, or enough for a test."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError
from .runs import Settings

#: K of every figure.
BOOKS = (2, 4, 8, 16)


@dataclass(frozen=True)
class Size:
    """Limits; None is none."""

    name: str
    books: tuple[int, ...] = BOOKS
    seeds: int | None = None  #: at most, unless the user asks for a number
    rows: int | None = None
    queries: int | None = None
    recipe: Settings = ()  #: changes to every recipe
    network_epochs: int | None = None  #: of the shared networks
    sweep: int | None = None  #: values tried of one setting
    data: int | None = None  #: data sets of a part
    dim: int | None = None  #: of embeddings, at most

    @property
    def folder(self) -> str:
        """Where its results go, below the results of full size."""
        return "" if self.name == "full" else self.name


_SHORT = (("warm_up", 1), ("shape", 1), ("epochs", 2), ("hard_after", 1))
_SHORTEST = (("warm_up", 1), ("shape", 1), ("epochs", 1), ("hard_after", 0), ("batch_size", 200))
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
    """The one of that name, or an error that lists all."""
    if name not in SIZES:
        raise InputError(f"no size {name!r}; there are {', '.join(SIZES)}")
    return SIZES[name]
