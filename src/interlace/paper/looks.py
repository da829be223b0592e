"""How methods look in plots: a method has one colour in every figure, and each of its lines a marker of its own."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..plot.style import BLUE, GREEN, ORANGE, PINK, VERMILION
from .figures import BASELINES, FIGURES

#: Colour and marker of each method.
METHODS: dict[str, tuple[str, str]] = {
    "ICQ": (BLUE, "o"),
    "SQ+CQ": (VERMILION, "s"),
    "SQ+PQ": (GREEN, "^"),
    "PQN": (ORANGE, "D"),
    "PQN+CQ": (PINK, "v"),
    "DQN": ("#56B4E9", "p"),
    "DPQ": ("#7F3C8D", "*"),
    "SQ": ("#8C6D31", "X"),
    "PQ": ("#B279A2", "P"),
    "OPQ": ("#3C8D7F", "h"),
    "CKMeans": ("#A0522D", "<"),
    "LOPQ": ("#C0A000", ">"),
    "CQ": ("#D62F6B", "d"),
    "MSQ": ("#6B8E23", "8"),
}
#: A control rather than a line of its method.
ONE_BOOK = "one book"
_ONE_BOOK = ("#6E6E6E", "x")
#: Colours of methods of plug-ins.
OTHERS = ("#4B5D67", "#9C755F", "#4E79A7", "#B07AA1")
MARKERS = "os^DvPX*phd<>8"
#: A method that its own paper searches by adding up all tables, in our search.
CASCADE = ", our search"
HOLLOW: dict[str, Any] = {"linestyle": "--", "markerfacecolor": "white"}


@cache
def _looks() -> dict[str, tuple[str, str]]:
    """Of every label: the colour of its method, and a marker that no other label of the method or figure has."""
    found = dict(METHODS) | {ONE_BOOK: _ONE_BOOK}
    used = {method: [marker] for method, (_, marker) in METHODS.items()}
    # Variants of the ablation are rows of a plot, not lines, and get the markers that are left.
    for figure in sorted(FIGURES.values(), key=lambda one: one.drawn == "variants"):
        for series in (series for part in figure.parts for series in part.series):
            if series.label not in found and series.label not in BASELINES and series.method in METHODS:
                taken = used[series.method]
                beside = {found[label][1] for label in figure.lines if label in found}
                free = [marker for marker in MARKERS if marker not in taken] or taken
                marker = next((marker for marker in free if marker not in beside), free[0])
                taken.append(marker)
                found[series.label] = METHODS[series.method][0], marker
    return found


def look(label: str) -> dict[str, Any]:
    """Colour, marker and depth of a label; labels of plug-ins have other colours."""
    number = sum(label.encode())
    colour, marker = _looks().get(label) or (OTHERS[number % len(OTHERS)], MARKERS[number % len(MARKERS)])
    # With two books ICQ covers SQ+CQ.
    return {"color": colour, "marker": marker, "markersize": 5, "zorder": 3 if label.startswith("ICQ") else 2}
