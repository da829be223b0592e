"""Attempts where ICQ is behind and the controls have none, and the protocols of CIFAR-10 with three seeds.

They were made later than the controls and have a folder of their own (``results/attempts``). Groups:

``gap``: half or three quarters of the books on psi, on draws of Dataset 1 that no figure uses.
``tuning``: three quarters of the books on psi with four books on MNIST and GIST features, judged by held-out training
rows, as in the tuning.
``unseen``: other settings of ICQ on unseen classes of MNIST, for draws of classes that no figure uses.
``published``: end-to-end fits on 5,000 images of CIFAR-10, each measured on the databases of 54K and of 59K rows. The
attempt there, ICQ with cross-entropy, is judged by the images that every fit holds out.
"""

from __future__ import annotations

from collections.abc import Iterator

from .controls import DRAWS, GAPS, HELD_OUT, Lines, runs_of_group
from .figures import END_TO_END_DIM, FEW_IMAGES
from .runs import Run, Settings
from .study import LISTS, Study
from .summary import VALIDATION

GAP, UNSEEN, PROTOCOLS = "gap", "unseen", "published"
GROUPS = {
    GAP: "Attempts on draws of Dataset 1 that no figure uses",
    UNSEEN: "Attempts on unseen classes of MNIST, for draws of classes that no figure uses",
    HELD_OUT: "Three quarters of the books on psi, judged by held-out training rows",
    PROTOCOLS: "End-to-end fits on 5,000 images of CIFAR-10, each searched in 54K and in 59K rows",
}
#: The line that others are compared with, by group and data set.
REFERENCES = {
    (GAP, "synthetic1"): "SQ+PQ",
    (UNSEEN, "mnist-unseen"): "SQ+CQ",
    (HELD_OUT, "mnist"): "ICQ",
    (HELD_OUT, "cifar10-gist"): "ICQ",
    (PROTOCOLS, "cifar10-54k"): "DPQ (CNN)",
    (PROTOCOLS, "cifar10-59k"): "DPQ (CNN)",
}
#: Draws of unseen classes.
CLASSES = (11, 12, 13)
SEEDS = (0, 1, 2)
BOOKS = 6  #: of the protocols: 48 bits

_RATE: Settings = (("rate_embedding", 1e-3),)
_SCALE: Settings = (("scale", 4.0),)
#: The first two have the settings of the figures.
SETTINGS: Lines = {
    "SQ+CQ": ("SQ+CQ", _SCALE),
    "ICQ": ("ICQ", _RATE),
    "ICQ, 3/4 of the books on psi": ("ICQ", (*_RATE, ("psi_share", 0.75))),
    "ICQ, scale = 4": ("ICQ", _SCALE),
}
_SHARES = {label: line for label, line in SETTINGS.items() if line[0] == "ICQ" and "scale" not in label}
_GAPS = {label: line for label, line in GAPS.items() if "scale" not in label}
CROSS_ENTROPY = "ICQ (CNN), cross-entropy"


def runs() -> list[Run]:
    """Every fit, the most informative first."""
    return [
        *runs_of_group(GAP, _GAPS, ("synthetic1",), (8, 16), DRAWS),
        *runs_of_group(UNSEEN, SETTINGS, ("mnist-unseen",), (4, 16), CLASSES),
        *runs_of_group(GAP, _GAPS, ("synthetic1",), (4,), DRAWS),
        *runs_of_group(HELD_OUT, _SHARES, ("mnist", "cifar10-gist"), (4,), SEEDS),
        *_deep(0, "ICQ", "DPQ"),
        *_cross_entropy(0),
        *(run for seed in SEEDS[1:] for run in _deep(seed, "ICQ", "DPQ")),
        *(run for seed in SEEDS for run in _deep(seed, "PQN", "DQN")),
        *(run for seed in SEEDS[1:] for run in _cross_entropy(seed)),
    ]


def _deep(seed: int, *methods: str) -> Iterator[Run]:
    for method in methods:
        yield from _protocols(f"{method} (CNN)", method, seed)


def _cross_entropy(seed: int) -> Iterator[Run]:
    return _protocols(CROSS_ENTROPY, "ICQ", seed, "cross_entropy")


def _protocols(label: str, method: str, seed: int, loss: str | None = None) -> Iterator[Run]:
    """The same fit for both databases, which the runner makes once."""
    for data in ("cifar10-54k", "cifar10-59k"):
        yield Run(
            label=label,
            method=method,
            embedding="cnn3",
            loss=loss,
            changes=FEW_IMAGES,
            figure=PROTOCOLS,
            data=data,
            n_books=BOOKS,
            seed=seed,
            dim=END_TO_END_DIM,
        )


_PROTOCOLS = (("MAP", "map", 3), *LISTS, ("MAP, held-out images", VALIDATION, 3))
ATTEMPTS = Study("attempts", GROUPS, runs, REFERENCES, {PROTOCOLS: _PROTOCOLS})
