"""Plots of the figures from results: one function per kind of figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InputError
from ..plot.style import BLUE, FAINT, GREEN, GREY, INK, ORANGE, PINK, SMALL, VERMILION, tidy
from .figures import BASELINES, Figure
from .summary import Mean, Results

COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PINK, "#56B4E9", "#7F3C8D", INK, "#8C6D31", "#B279A2")
MARKERS = "os^Dvp*XPh"
#: Methods of several figures, which look the same in all of them.
FIRST = ("ICQ", "SQ+CQ", "SQ+PQ", "PQN", "PQN+CQ")
NAMES = {
    **{"mnist": "MNIST", "cifar10": "CIFAR-10", "gist": "GIST", "lenet": "LeNet", "alexnet": "AlexNet"},
    "unseen": "unseen classes",
}
#: Label of a method in our two-step search; its own paper adds up all tables.
CASCADE = ", our search"
HOLLOW: dict[str, Any] = {"linestyle": "--", "markerfacecolor": "white"}
#: Smallest range of a MAP axis: a narrower one would show noise.
LEAST_RANGE = 0.04


def draw(figure: Figure, results: Results, path: Path) -> Path:
    """Write the plot of a figure."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise InputError("figures need matplotlib: pip install 'interlace[plot]'") from error
    if not len(results):
        raise InputError(f"{figure.name} has no results to draw; run 'interlace reproduce {figure.name}'")
    rows, columns = _shape(figure, results)
    canvas = Canvas(figsize=(3.6 * max(columns, 1.4) + 0.4, 3.0 * rows + 0.9), layout="constrained")
    FigureCanvasAgg(canvas)  # not pyplot, which has global state and opens windows
    axes = canvas.subplots(rows, columns, squeeze=False)
    {
        "against_ops": _against_ops,
        "against_books": _against_books,
        "against_length": _against_length,
        "variants": _variants,
        "codes": _codes,
    }[figure.drawn](axes, results)
    _legend(canvas, axes)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without a date and a version, the same results give the same bytes.
    canvas.savefig(path, dpi=110, metadata={"Software": None})
    return path


def _shape(figure: Figure, results: Results) -> tuple[int, int]:
    n = len(_with_lines(results))
    shapes = {"against_ops": (1, n), "against_books": (n, 2), "against_length": (1, 1), "variants": (1, 3)}
    return shapes.get(figure.drawn, (1, 2))


def _with_lines(results: Results) -> list[str]:
    """Data sets with more than a single point."""
    return [data for data in results.data if len(results.books(data)) > 1] or results.data[:1]


def _style(results: Results, label: str) -> dict[str, Any]:
    shared = [name for name in FIRST if name in results.labels()]
    others = [name for name in results.labels() if name not in FIRST]
    place = FIRST.index(label) if label in FIRST else others.index(label) + (len(FIRST) if shared else 0)
    style = {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)], "markersize": 5}
    return style | {"zorder": 3 if label.startswith("ICQ") else 2}  # with two books it covers SQ+CQ


def _bars(ax: Any, x: list[Mean], y: list[Mean], label: str, **style: Any) -> None:
    """A line with error bars of one standard deviation over seeds in x and y."""
    ax.errorbar(
        [p.value for p in x],
        [p.value for p in y],
        xerr=[p.spread for p in x] if any(p.spread for p in x) else None,
        yerr=[p.spread for p in y] if any(p.spread for p in y) else None,
        label=label,
        **{"linewidth": 1.4, "elinewidth": 0.8, "capsize": 2, **style},
    )


def _curve(
    ax: Any,
    results: Results,
    data: str,
    label: str,
    x: str,
    y: str,
    name: str = "",
    *,
    books: bool = False,
    **style: Any,
) -> None:
    """One measure against another; ``books`` annotates each point with its number of books."""
    xs, ys, ks = _points(results, data, label, x, y, "exhaustive")
    _bars(ax, xs, ys, name or label, **_style(results, label) | style)
    if books:
        _numbers(ax, results, label, xs, ys, ks, below="markerfacecolor" in style)


def _numbers(
    ax: Any, results: Results, label: str, x: list[Mean], y: list[Mean], books: list[Mean], *, below: bool = False
) -> None:
    """Annotate points with numbers of books: above to the right, or ``below`` to the left for a neighbouring line."""
    for at, value, k in zip(x, y, books, strict=True):
        offset = (-4, -9) if below else (4, 3)
        place: dict[str, Any] = {"xytext": offset, "ha": "right" if below else "left", "textcoords": "offset points"}
        place["fontsize"] = SMALL - 1.5
        ax.annotate(f"{k.value:.0f}", (at.value, value.value), color=_style(results, label)["color"], **place)


def _points(results: Results, data: str, label: str, *measures: str) -> list[list[Mean]]:
    """Means of several measures for each number of books that has all of them."""
    columns: list[list[Mean]] = [[] for _ in measures]
    for n_books in results.books(data, label):
        found = [results.mean(data, label, n_books, measure) for measure in measures]
        if all(point is not None for point in found):
            for column, point in zip(columns, found, strict=True):
                column.append(point)  # type: ignore[arg-type]
    return columns


def _baselines(ax: Any, results: Results, data: str) -> None:
    """Horizontal lines of baselines, without the random one, which would compress the axis."""
    for label in results.labels(data, codes=False):
        point = results.mean(data, label, 0, "map")
        if point is not None and label == BASELINES[0]:
            ax.axhline(point.value, color=GREY, linewidth=1, linestyle=":", label=label)


def _against_ops(axes: Any, results: Results) -> None:
    for ax, data in zip(axes[0], _with_lines(results), strict=True):
        for label in results.labels(data):
            if label.startswith("ICQ"):
                _curve(ax, results, data, label, "two-step", "map", books=True)
            else:  # as many additions as books
                _curve(ax, results, data, label, "exhaustive", "map")
            if label == "SQ+CQ":
                _curve(ax, results, data, label, "two-step", "map", label + CASCADE, books=True, **HOLLOW)
        _baselines(ax, results, data)
        _finish(ax, _title(data), "table additions per vector (at points: books)", "MAP")


def _against_books(axes: Any, results: Results) -> None:
    with_lines = _with_lines(results)
    for (left, right), data in zip(axes, with_lines, strict=True):
        _additions(left, results, data)
        for label in results.labels(data):
            _curve(right, results, data, label, "exhaustive", "map")
        for other in results.data:  # the same images with a single point, trained end to end
            if other not in with_lines and other.partition("-")[0] == data.partition("-")[0]:
                for label in results.labels(other):
                    _curve(left, results, other, label, "exhaustive", "two-step", linestyle="")
                    _curve(right, results, other, label, "exhaustive", "map", linestyle="")
        _baselines(right, results, data)
        _finish(left, _title(data), "books", "table additions per vector")
        _finish(right, _title(data), "books", "MAP")


def _additions(ax: Any, results: Results, data: str) -> None:
    """Additions of ICQ, of the exhaustive scan (one line for all other methods), and of others in our search."""
    ours = [label for label in results.labels(data) if label.startswith("ICQ")]
    others = [label for label in results.labels(data) if label not in ours]
    for label in ours:
        _curve(ax, results, data, label, "exhaustive", "two-step")
    if len(others) == 1:
        _curve(ax, results, data, others[0], "exhaustive", "exhaustive")
    elif others:
        books = [Mean(k, 0, 1) for k in results.books(data)]
        _bars(ax, books, books, f"all tables: {', '.join(others)}", color=INK, marker=".", zorder=2)
    for label in others:
        if label == "SQ+CQ" or (label in FIRST and len(results.books(data, label)) > 1):
            _curve(ax, results, data, label, "exhaustive", "two-step", label + CASCADE, **HOLLOW)


def _against_length(axes: Any, results: Results) -> None:
    ax = axes[0][0]
    for data in results.data:
        for label in results.labels(data):
            x, y, books = [], [], []
            own = label.startswith("ICQ")
            for n_books in results.books(data, label):
                bits = results.effective_length(data, label, n_books, "SQ+CQ", "exhaustive") if own else 8.0 * n_books
                point = results.mean(data, label, n_books, "map")
                if bits is not None and point is not None:
                    x.append(Mean(bits, 0, 1))
                    y.append(point)
                    books.append(Mean(n_books, 0, 1))
            _bars(ax, x, y, label + (", effective" if own else ""), **_style(results, label))
            if own:
                _numbers(ax, results, label, x, y, books)
    _baselines(ax, results, results.data[-1])
    _finish(ax, "CIFAR-10", "effective code length, bits (at points: books)", "MAP")


def _finish(ax: Any, title: str, x: str, y: str) -> None:
    """Labels, a logarithmic x axis with plain numbers, and at least ``LEAST_RANGE`` on a MAP axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_xscale("log", base=2)
    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(base=2, subs=(1.0,) if high / low > 4 else (1.0, 1.25, 1.5, 1.75)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    low, high = ax.get_ylim()
    if y == "MAP" and (more := LEAST_RANGE - (high - low)) > 0:
        top = max(high, min(high + more / 2, 1.0))
        ax.set_ylim(top - LEAST_RANGE, top)
    ax.set_title(title, fontsize=10)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    tidy(ax, "both")


def _variants(axes: Any, results: Results) -> None:
    """MAP, operations and agreement of the paper's margin for each variant, the default at the top."""
    data = "synthetic2" if "synthetic2" in results.data else next(d for d in results.data if d != "vectors")
    (n_books,) = results.books(data)[-1:]
    labels = results.labels(data)
    axes[0][0].figure.set_size_inches(11.5, 0.24 * len(labels) + 1.6)
    panels = {
        "map": "MAP",
        "two-step": "table additions per vector",
        "agreement of paper": "agreement of margin='paper'",
    }
    for ax, (measure, what) in zip(axes[0], panels.items(), strict=True):
        for place, label in enumerate(labels):
            point = results.mean(data, label, n_books, measure)
            if point is not None:
                own = {"color": BLUE if label == "ICQ" else VERMILION if label.startswith("SQ") else FAINT}
                ax.errorbar(point.value, place, xerr=point.spread, fmt="o", markersize=4, capsize=2, **own)
        default = results.mean(data, "ICQ", n_books, measure)
        if default is not None:
            ax.axvline(default.value, color=BLUE, linewidth=0.8, linestyle=":")
        ax.set_yticks(range(len(labels)), labels if measure == "map" else [""] * len(labels), fontsize=SMALL)
        ax.set_ylim(len(labels) - 0.4, -0.6)
        ax.set_xlabel(what)
        tidy(ax, "x")
    axes[0][0].figure.suptitle(f"{_title(data)}, {n_books} books", fontsize=10)


def _codes(axes: Any, results: Results) -> None:
    data = "vectors"
    for ax, measure, what in (
        (axes[0][0], "error", "error, share of variance"),
        (axes[0][1], "recall@10", "recall@10"),
    ):
        for label in results.labels(data):
            _curve(ax, results, data, label, "bytes", measure)
        _finish(ax, title_of(results, data), "bytes per vector", what)


def title_of(results: Results, data: str) -> str:
    """Title of a data set in tables and plots: the paper's name."""
    return results.data_name(data) if data == "vectors" else _title(data)


def _title(data: str) -> str:
    first, _, rest = data.partition("-")
    if data.startswith("synthetic"):
        return f"Dataset {data[-1]}"
    return NAMES.get(first, first) + (f" ({NAMES.get(rest, rest)})" if rest else "")


def _legend(canvas: Any, axes: Any) -> None:
    found: dict[str, Any] = {}
    for ax in axes.ravel():
        handles, labels = ax.get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            found.setdefault(label, handle)
    for label in BASELINES:  # baselines after the curves
        if label in found:
            found[label] = found.pop(label)
    if found:
        columns = min(len(found), 3 if axes.shape[1] < 3 else 4)
        tight = {"frameon": False, "fontsize": SMALL, "ncols": columns}
        canvas.legend(list(found.values()), list(found), loc="outside lower center", **tight)
