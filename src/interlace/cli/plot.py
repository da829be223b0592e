"""The plot of the demo: recall against speed, with a name beside every point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .demo_run import CODES, Result, full_name

#: Ours in one colour; peers by how they search.
COLOURS = {"interlace": "#c8102e", "faiss": "#1f5fa8", "exact": "#333333"}
#: Between two names, as a share of the height.
GAP = 0.075


def draw(result: Result, path: Path) -> Path | None:
    """Write a PNG; None if matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    # Not pyplot, which has global state and opens windows.
    figure = Figure(figsize=(9, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    speeds, recalls = [line.speed for line in result.lines], [line.recall for line in result.lines]
    low, high = max(0.0, min(recalls) - 0.1), 1.04
    axes.set_xscale("log")
    right = max(speeds) * 1.3
    axes.set_xlim(min(speeds) / 1.5, right * (right / min(speeds)) ** 0.75)  # names have the right part
    axes.set_ylim(low, high)
    lines = sorted(result.lines, key=lambda line: line.recall)
    gap = GAP * (high - low)
    places = _apart([line.recall for line in lines], gap, high - gap / 2)  # below the title
    for line, at in zip(lines, places, strict=True):
        colour, default = COLOURS[line.kind], line.method == CODES
        axes.plot(line.speed, line.recall, "o", color=colour, markersize=12 if default else 7, zorder=3)
        axes.plot([line.speed, right], [line.recall, at], color=colour, linewidth=0.7, alpha=0.5, zorder=1)
        name = f" {full_name(line)}: {line.bytes_per_vector:.3g} bytes"
        weight = "bold" if default else "normal"
        axes.text(right, at, name, color=colour, va="center", fontsize=9.5, fontweight=weight)
    _plain_log(axes.xaxis, "x")
    axes.minorticks_off()
    axes.set_xticks([tick for tick in axes.get_xticks() if min(speeds) / 1.5 <= tick <= right])
    axes.set_xlabel(f"speed, 1x is {result.reference}")
    axes.set_ylabel("recall@10: share of the true neighbours that are found")
    axes.set_title(
        f"{result.rows:,} vectors of {result.dim} dimensions. Up and to the right is better, and so are fewer bytes.",
        fontsize=10.5,
        loc="left",
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, alpha=0.25)
    figure.savefig(path, dpi=120)
    return path


def _apart(wanted: list[float], gap: float, top: float) -> list[float]:
    """Ascending places at least ``gap`` apart and at most ``top``, near to those wanted."""
    places: list[float] = []
    for at in wanted:
        places.append(max(at, places[-1] + gap) if places else at)
    for i in range(len(places) - 1, -1, -1):
        places[i] = min(places[i], top)
        top = places[i] - gap
    return places


def _plain_log(axis: Any, unit: str) -> None:
    """0.1x 0.2x 0.5x 1x ... instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{unit}"))
    axis.set_minor_formatter(NullFormatter())
