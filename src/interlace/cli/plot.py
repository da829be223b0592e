"""The plot of the demo: recall against speed, and the share of rows that survive the crude step at each margin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .demo_run import Line, Result

# Okabe-Ito colours, distinguishable for colour-blind readers; peers are grey and differ by shape.
COLOURS = {"hybrid": "#0072B2", "subspace": "#009E73", "residual": "#D55E00"}
PEERS = {"faiss IndexPQ": ("s", "#777777"), "faiss IndexPQFastScan": ("^", "#777777"), "exact search": ("D", "#111111")}


def draw(result: Result, path: Path) -> Path | None:
    """Write a PNG; None if matplotlib is not installed."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    # Not pyplot, which has global state and opens windows.
    figure = Figure(figsize=(11, 5), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _recall_against_speed(left, result)
    _survivors(right, result)
    # A legend, because labels at the points would overlap on some machines.
    handles = _legend(result)
    # Two rows, filled from top to bottom, so that each layout has its own column.
    tight = {"frameon": False, "fontsize": 8.5, "columnspacing": 1.2, "handletextpad": 0.2}
    figure.legend(handles=handles, loc="outside lower center", ncols=(len(handles) + 1) // 2, **tight)
    subtitle = f"{result.rows:,} vectors of {result.dim} dimensions, {result.queries:,} queries, k = 10, one thread"
    figure.suptitle(subtitle, fontsize=9, color="#555555")
    figure.savefig(path, dpi=150)
    return path


def _style(line: Line) -> dict[str, Any]:
    """Colour by layout; markers of the exact margin are filled."""
    if line.kind != "interlace":
        marker, colour = PEERS[line.method]
        return {"marker": marker, "color": colour, "markersize": 9}
    layout, _, margin = line.method.partition(", ")
    colour = COLOURS[layout]
    # The hollow marker is larger, so that both are visible when the margins are equally fast.
    exact = margin == "exact"
    return {
        "marker": "o",
        "color": colour,
        "markerfacecolor": colour if exact else "none",
        "markersize": 7 if exact else 12,
    }


def _recall_against_speed(axes: Any, result: Result) -> None:
    for line in result.lines:
        axes.plot(line.speed, line.recall, linestyle="none", zorder=3, **_style(line))
    axes.axvline(1.0, color="#BBBBBB", linewidth=1, linestyle="--", zorder=1)
    axes.set_xscale("log")
    speeds, recalls = [line.speed for line in result.lines], [line.recall for line in result.lines]
    axes.set_xlim(min(speeds) / 1.5, max(speeds) * 1.5)
    axes.set_ylim(max(0.0, min(recalls) - 0.1), 1.04)
    _plain_log(axes.xaxis, "x")
    axes.set_xlabel(f"speed relative to {result.reference}, log scale")
    axes.set_ylabel("recall@10")
    axes.set_title("Recall against speed: up and right is better", fontsize=10.5, loc="left")
    _tidy(axes)


def _survivors(axes: Any, result: Result) -> None:
    margins = list(next(iter(result.survivors.values())))
    for layout, shares in result.survivors.items():
        axes.plot(range(len(margins)), [100 * shares[m] for m in margins], "o-", color=COLOURS[layout], markersize=5)
    axes.set_yscale("log")
    _plain_log(axes.yaxis, "%")
    axes.set_xticks(range(len(margins)), margins)
    axes.set_xlabel("margin: target agreement with the full scan")
    axes.set_ylabel("survivors, share of all rows, log scale")
    axes.set_title("Rows whose full distance is computed", fontsize=10.5, loc="left")
    _tidy(axes)


def _legend(result: Result) -> list[Any]:
    from matplotlib.lines import Line2D

    handles = []
    for line in result.lines:
        style = _style(line) | {"linestyle": "none"}
        style["markersize"] = min(9, style["markersize"])
        handles.append(Line2D([], [], label=f"{line.method} ({line.bytes_per_vector:.3g} bytes)", **style))
    return handles


def _plain_log(axis: Any, unit: str) -> None:
    """0.1x 0.2x 0.5x 1x ... instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{unit}"))
    axis.set_minor_formatter(NullFormatter())


def _tidy(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(True, alpha=0.25)
    axes.tick_params(labelsize=8.5)
