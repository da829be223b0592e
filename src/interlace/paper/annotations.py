"""Numbers beside the points of a plot, placed where they cover neither lines nor each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..plot.style import SMALL

#: Text, place in the units of the data, and colour.
Note = tuple[str, float, float, str]
#: Where the middle of a number may be, relative to its point, in points of 1/72 inch; the first are preferred.
PLACES = ((8.0, 7.0), (-8.0, -8.0), (-8.0, 7.0), (8.0, -8.0), (0.0, 10.0), (0.0, -11.0), (12.0, 0.0), (-12.0, 0.0))
#: Farther than this is far enough.
FAR = 9.0
#: Steps along a line between two points.
STEPS = 12


def annotate(ax: Any, notes: Sequence[Note]) -> None:
    """Add the notes to axes whose lines and scales are final."""
    unit = ax.figure.dpi / 72.0

    def shown(x: float, y: float) -> tuple[float, float]:
        """In points of 1/72 inch."""
        across, up = ax.transData.transform((x, y))
        return across / unit, up / unit

    # Horizontal lines across the axes have another transformation.
    covered = [at for line in ax.lines if line.get_transform() == ax.transData for at in _along(line, shown)]
    (left, low), (right, high) = ((a / unit, b / unit) for a, b in ax.bbox.get_points())
    for text, x, y, colour in notes:
        at = shown(x, y)
        middles = [(at[0] + a, at[1] + b) for a, b in PLACES]
        free = [
            min([FAR, a - left, right - a, b - low, high - b, *(math.dist((a, b), place) for place in covered)])
            for a, b in middles
        ]
        best = max(range(len(PLACES)), key=lambda i: (free[i], -i))
        covered.append(middles[best])
        ax.annotate(
            text,
            (x, y),
            xytext=PLACES[best],
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=SMALL - 0.5,
            color=colour,
        )


def _along(line: Any, shown: Any) -> list[tuple[float, float]]:
    """Places of a line: its points, and some between them if they are joined."""
    points = [shown(float(x), float(y)) for x, y in line.get_xydata()]
    if line.get_linestyle() in ("None", "", " "):
        return points
    found = points[-1:]
    for (a, b), (c, d) in zip(points, points[1:], strict=False):
        found += [(a + (c - a) * i / STEPS, b + (d - b) * i / STEPS) for i in range(STEPS)]
    return found
