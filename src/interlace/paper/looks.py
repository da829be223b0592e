"""How methods look in plots: one colour and one marker for each label, the same in every figure."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..plot.style import BLUE, GREEN, INK, ORANGE, PINK, VERMILION
from .figures import BASELINES, FIGURES

#: Methods of several figures first. Labels that follow get the other colours in the order of the figures.
FIRST = ("ICQ", "SQ+CQ", "SQ+PQ", "PQN", "PQN+CQ", "DQN", "DPQ", "SQ", "ICQ end to end", "PQN end to end")
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PINK, "#56B4E9", "#7F3C8D", "#8C6D31", INK, "#B279A2", "#3C8D7F", "#A0522D")
MARKERS = "os^Dvp*XPh<>"
#: A method that its own paper searches by adding up all tables, in our search.
CASCADE = ", our search"
HOLLOW: dict[str, Any] = {"linestyle": "--", "markerfacecolor": "white"}


@cache
def _places() -> dict[str, int]:
    named = (label for figure in FIGURES.values() for label in figure.lines if label not in BASELINES)
    return {label: place for place, label in enumerate(dict.fromkeys((*FIRST, *named)))}


def look(label: str) -> dict[str, Any]:
    """Colour, marker and depth of a label; labels of plug-ins follow those of the figures by their name."""
    place = _places().get(label)
    if place is None:
        place = len(_places()) + sum(label.encode()) % len(COLOURS)
    style = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)], "markersize": 5}
    return style | {"zorder": 3 if label.startswith("ICQ") else 2}  # with two books it covers SQ+CQ
