"""Sizes of runs: standard (the protocol), full (all rows, days), quick (shows that it runs) and tiny (for tests)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..errors import InputError
from .runs import Settings

#: Numbers of books of every figure.
BOOKS = (2, 4, 8, 16)
#: The size whose results are those of the project.
STANDARD = "standard"
#: All rows and long fits.
FULL = "full"


@dataclass(frozen=True)
class Limit:
    """What a size leaves of one figure; None means everything."""

    data: tuple[str, ...] | None = None
    books: tuple[int, ...] | None = None  #: of lines; controls and baselines stay


@dataclass(frozen=True)
class Size:
    """Limits; None means unlimited."""

    name: str
    books: tuple[int, ...] = BOOKS
    seeds: int | None = None  #: at most, unless the user passes a number
    rows: int | None = None
    queries: int | None = None
    recipe: Settings = ()  #: changes to every recipe
    lengths: Settings = ()  #: changes to recipes whose runs say nothing else
    network_epochs: int | None = None  #: epochs of the shared networks
    sweep: int | None = None  #: values of each swept setting
    data: int | None = None  #: data sets of each part
    dim: int | None = None  #: most dimensions of embeddings
    budget: int = 8  #: tuning fits of each line
    limits: Mapping[str, Limit] = field(default_factory=dict)  #: by the name of a figure
    representative: bool = False  #: whether its numbers say how good a method is

    @property
    def folder(self) -> str:
        """Sub-folder of its results."""
        return "" if self.name == STANDARD else self.name

    def limit(self, figure: str) -> Limit:
        """What it leaves of a figure."""
        return self.limits.get(figure, Limit())


_SHORT = (("warm_up", 1), ("shape", 1), ("epochs", 2), ("hard_after", 1), ("triplets", 0))
_SHORTEST = (("warm_up", 1), ("shape", 1), ("epochs", 1), ("hard_after", 0), ("batch_size", 200), ("triplets", 0))
#: Sets of the standard size: without training of networks end to end on all images.
_LIMITS = {
    "unseen": Limit(books=(4, 16)),
    "ablation": Limit(data=("synthetic2", "vectors")),
    "pqn": Limit(data=("mnist-lenet", "cifar10-alexnet"), books=(4, 8, 16)),
    "effective": Limit(data=("cifar10-gist", "cifar10-cnn3")),
    "published": Limit(data=("mnist", "mnist-kernel", "cifar10-54k")),
}
SIZES = {
    STANDARD: Size(
        STANDARD,
        rows=12_000,
        queries=1_000,
        lengths=(("warm_up", 5), ("shape", 3), ("epochs", 10), ("patience", 5)),
        sweep=2,
        budget=4,
        limits=_LIMITS,
        representative=True,
    ),
    FULL: Size(FULL, representative=True),
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
