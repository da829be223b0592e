"""Parts of the objective by epoch, and the validation MAP."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..estimators.models import Model
from .style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    PALE,
    PINK,
    SMALL,
    VERMILION,
    axes_or_new,
    kind_of,
    legend_below,
    tidy,
    whole_numbers,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Parts of the objective by their name in ``history_``: label, colour, line style.
PARTS: dict[str, tuple[str, str, Any]] = {
    "embedding": ("$L_E$", BLUE, "-"),
    "quantization": ("$L_C$, error of the codes", VERMILION, "--"),
    "cross": ("$L_C$, cross terms", ORANGE, "-."),
    "prior": (r"$\gamma_1 L_P$", GREEN, (0, (5, 1, 1, 1, 1, 1))),
    "interleaving": (r"$\gamma_2 L_{ICQ}$", PINK, ":"),
}


def losses(model: Any, ax: Axes | None = None) -> Axes:
    """Draw the weighted parts of the objective by epoch with phases shaded, and the validation MAP on a second axis.

    ``model`` is a model fitted with labels, or its ``history_``.
    """
    history = getattr(model, "history_", None) if isinstance(model, Model) else model
    if history is None:
        how = "was fitted without labels" if hasattr(model, "codebooks_") else "is not fitted"
        raise InputError(f"losses need a model fitted with labels; this {type(model).__name__} {how}")
    if not isinstance(history, Sequence) or not all(isinstance(r, Mapping) and "phase" in r for r in history):
        raise InputError(f"losses need a model or its history_, got {kind_of(history)}")
    if not history:
        raise InputError("the history is empty: it has no epochs")
    axes = axes_or_new(ax, (7.2, 3.8))
    _draw(axes, history)
    return axes


def _draw(ax: Any, history: Sequence[Mapping[str, Any]]) -> None:
    epochs = [row["epoch"] + 1 for row in history]
    ax.set_xlim(epochs[0] - 0.5, epochs[-1] + 0.5)
    _phases(ax, [row["phase"] for row in history], epochs)
    marker = "o" if len(epochs) <= 60 else ""
    drawn: list[Any] = []
    for name, (label, colour, dashes) in PARTS.items():
        values = [row.get(name, math.nan) for row in history]
        if not all(map(math.isnan, values)):
            style = {"color": colour, "linestyle": dashes, "marker": marker, "markersize": 2.5, "linewidth": 1.5}
            drawn += ax.plot(epochs, values, label=label, **style)
    found = [v for line in drawn for v in line.get_ydata() if math.isfinite(v)]
    if found and min(found) > 0:
        ax.set_yscale("log")
        ax.set_ylabel("loss, weighted (log scale)")
    else:  # L_P is a log-likelihood and may be negative
        ax.set_yscale("symlog", linthresh=1e-3)
        ax.set_ylabel("loss, weighted (symmetric log)")
    ax.set_xlabel("epoch")
    whole_numbers(ax.xaxis)
    tidy(ax, "y")
    drawn += _validation(ax, history, epochs)
    legend_below(ax, drawn, columns=4)


def _phases(ax: Any, phases: list[str], epochs: list[int]) -> None:
    """Shade phases, and write the name of a phase at the top if it fits."""
    starts = [i for i, phase in enumerate(phases) if i == 0 or phase != phases[i - 1]]
    for number, (first, last) in enumerate(zip(starts, [*starts[1:], len(phases)], strict=True)):
        left, right = epochs[first] - 0.5, epochs[last - 1] + 0.5
        if number % 2 == 0:
            ax.axvspan(left, right, color=PALE, linewidth=0, zorder=0)
        name = phases[first]
        if (right - left) / (epochs[-1] - epochs[0] + 1) > 0.014 * len(name):
            at = {"xytext": (0, 3), "textcoords": "offset points", "ha": "center", "va": "bottom"}
            middle = ((left + right) / 2, 1.0)
            ax.annotate(name, middle, xycoords=ax.get_xaxis_transform(), fontsize=SMALL, color=FAINT, **at)


def _validation(ax: Any, history: Any, epochs: list[int]) -> list[Any]:
    scores = [math.nan if row.get("map") is None else row["map"] for row in history]
    if all(map(math.isnan, scores)):
        return []
    right = ax.twinx()
    drawn: list[Any] = right.plot(epochs, scores, color=INK, marker="D", markersize=3.5, label="validation MAP")
    best = int(np.nanargmax(scores))
    ring = {"marker": "o", "markersize": 9, "markerfacecolor": "none", "markeredgecolor": INK, "linestyle": "none"}
    drawn += right.plot(epochs[best], scores[best], label=f"best epoch, MAP {scores[best]:.3f}", **ring)
    low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
    right.set_ylim(max(0.0, low - 0.1 - (high - low)), min(1.0, high + 0.05) + 0.005)
    right.set_ylabel("validation MAP")
    right.spines[["top", "left"]].set_visible(False)
    right.tick_params(labelsize=SMALL)
    return drawn
