"""Controls: fits that check how to read the figures, made later and at another commit than the figures.

They have a folder of their own (``results/controls``), so that no figure mixes commits. Groups:

``settings``: ICQ and SQ+CQ each with the setting that tuning chose for the other, on GIST features of CIFAR-10.
``margin``: factors of the paper's sigma, and no cap on the levelled axes, on Datasets 1 and 2.
``gap``: attempts to close the gap of ICQ to SQ+PQ, on draws of Datasets 2 and 3 that no figure uses.
``tuning``: attempts where ICQ is behind on real data, judged by training rows that were held out, as in the tuning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .runs import Run, Settings
from .study import LISTS, Study
from .tuning import FIGURE as TUNING

FOLDER = "controls"
SETTINGS, MARGIN, GAP = "settings", "margin", "gap"
#: Fits of this group are judged by training rows, because the folder has the name of the tuning.
HELD_OUT = TUNING
#: Groups with their titles.
GROUPS = {
    SETTINGS: "The settings of ICQ and SQ+CQ, swapped (test queries, as in the figures)",
    MARGIN: "Factors of sigma, and the cap on levelled axes",
    GAP: "Attempts on draws of Datasets 2 and 3 that no figure uses",
    HELD_OUT: "Attempts judged by held-out training rows",
}
SEEDS, DRAWS = (0, 1, 2), (11, 12, 13)

#: The settings that tuning chose for ICQ and for SQ+CQ, as in labels.
RATE, SCALE, BOTH = "rate_embedding = 0.001", "scale = 4", "both"
_RATE: Settings = (("rate_embedding", 1e-3),)
_SCALE: Settings = (("scale", 4.0),)
#: Label -> method and changes to the recipe. The first of each method is the setting of the figures.
Lines = dict[str, tuple[str, Settings]]
SWAPPED: Lines = {
    f"ICQ, {RATE}": ("ICQ", _RATE),
    f"ICQ, {SCALE}": ("ICQ", _SCALE),
    f"ICQ, {BOTH}": ("ICQ", (*_RATE, *_SCALE)),
    f"SQ+CQ, {SCALE}": ("SQ+CQ", _SCALE),
    f"SQ+CQ, {RATE}": ("SQ+CQ", _RATE),
    f"SQ+CQ, {BOTH}": ("SQ+CQ", (*_RATE, *_SCALE)),
}
MARGINS: Lines = {
    "ICQ": ("ICQ", ()),
    "sigma = 0.25": ("ICQ", (("sigma", 0.25),)),
    "sigma = 4": ("ICQ", (("sigma", 4.0),)),
    "no cap": ("ICQ", (("cap", False),)),
    "no cap, axes not levelled": ("ICQ", (("cap", False), ("level", False))),
}
_SHARES: Lines = {
    "ICQ, half of the books on psi": ("ICQ", (("psi_share", 0.5),)),
    "ICQ, 3/4 of the books on psi": ("ICQ", (("psi_share", 0.75),)),
}
GAPS: Lines = {
    "SQ+PQ": ("SQ+PQ", _SCALE),
    "ICQ": ("ICQ", ()),
    **_SHARES,
    "ICQ, 3/4 of the books on psi, scale = 4": ("ICQ", (("psi_share", 0.75), *_SCALE)),
}
TEXT: Lines = {
    "SQ+CQ": ("SQ+CQ", _SCALE),
    "ICQ": ("ICQ", _RATE),
    "ICQ, half of the books on psi": ("ICQ", (*_RATE, ("psi_share", 0.5))),
    "ICQ, 3/4 of the books on psi": ("ICQ", (*_RATE, ("psi_share", 0.75))),
}
GIST: Lines = {
    "DPQ": ("DPQ", ()),
    "ICQ": ("ICQ", _RATE),
    "ICQ, half of the books on psi": ("ICQ", (*_RATE, ("psi_share", 0.5))),
    "ICQ, scale = 4, cross = 3": ("ICQ", (*_RATE, *_SCALE, ("cross", 3.0))),
}


def runs() -> list[Run]:
    """Every fit, the most informative first, seed by seed."""
    return [
        *runs_of_group(SETTINGS, SWAPPED, ("cifar10-gist",), (8, 2), SEEDS),
        *runs_of_group(MARGIN, MARGINS, ("synthetic1", "synthetic2"), (8,), SEEDS),
        *runs_of_group(GAP, GAPS, ("synthetic2", "synthetic3"), (4,), DRAWS),
        *runs_of_group(HELD_OUT, TEXT, ("text",), (4,), SEEDS),
        *runs_of_group(SETTINGS, SWAPPED, ("cifar10-gist",), (4,), SEEDS),
        *runs_of_group(HELD_OUT, GIST, ("cifar10-gist",), (16,), SEEDS),
        *runs_of_group(GAP, GAPS, ("synthetic2", "synthetic3"), (8,), DRAWS),
        *runs_of_group(SETTINGS, SWAPPED, ("cifar10-gist",), (16,), SEEDS),
    ]


def runs_of_group(
    group: str, lines: Lines, data: Iterable[str], books: Iterable[int], seeds: Iterable[int]
) -> Iterator[Run]:
    """Every combination, seed by seed."""
    for seed in seeds:
        for name in data:
            for n_books in books:
                for label, (method, changes) in lines.items():
                    yield Run(
                        label=label, method=method, changes=changes, figure=group, data=name, n_books=n_books, seed=seed
                    )


_PAPER = (("agreement, paper's margin", "paper agreement", 4), ("its ops", "paper ops", 2))
#: The line that others are compared with, by group and data set.
REFERENCES = {
    (SETTINGS, "cifar10-gist"): f"SQ+CQ, {SCALE}",
    (MARGIN, "synthetic1"): "ICQ",
    (MARGIN, "synthetic2"): "ICQ",
    (GAP, "synthetic2"): "SQ+PQ",
    (GAP, "synthetic3"): "SQ+PQ",
    (HELD_OUT, "text"): "SQ+CQ",
    (HELD_OUT, "cifar10-gist"): "DPQ",
}
CONTROLS = Study(FOLDER, GROUPS, runs, REFERENCES, {MARGIN: (*LISTS, *_PAPER)})
key = CONTROLS.key
