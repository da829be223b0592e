"""Colours, axes and legends of the plots. matplotlib is imported here, on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..estimators.models import Model
from ..inputs.arrays import describe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe-Ito colours, distinguishable for colour-blind readers; lines also differ in their style.
BLUE, ORANGE, GREEN, VERMILION, PINK, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#999999"
INK, FAINT, PALE = "#222222", "#666666", "#F2F2F2"
SMALL = 8.5


def axes_or_new(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The axes of the user, or those of a new figure of ``size`` in inches."""
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise InputError("plots need matplotlib: pip install 'interlace[plot]'") from error
    if ax is not None:
        return ax
    made: Axes = pyplot.subplots(figsize=size, layout="constrained")[1]
    return made


def tidy(ax: Any, grid: str) -> None:
    """Remove the top and right spines, and add a faint grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, axis=grid, alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=SMALL)


def whole_numbers(axis: Any) -> None:
    """Ticks at integers only."""
    axis.set_major_locator(importlib.import_module("matplotlib.ticker").MaxNLocator(integer=True))


def legend_below(ax: Any, drawn: list[Any], columns: int) -> None:
    """A legend below the label of the x axis, at a fixed distance in points."""
    transforms = importlib.import_module("matplotlib.transforms")
    below = ax.transAxes + transforms.ScaledTranslation(0, -34 / 72, ax.get_figure().dpi_scale_trans)
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "bbox_transform": below, "borderaxespad": 0.0}
    labels = [one.get_label() for one in drawn]
    ax.legend(drawn, labels, frameon=False, fontsize=SMALL, ncols=min(columns, len(drawn)), **place)


def kind_of(value: Any) -> str:
    """Description of a value for error messages."""
    if not isinstance(value, Model):
        return describe(value)
    return f"{'a fitted' if hasattr(value, 'codebooks_') else 'an unfitted'} {type(value).__name__}"
