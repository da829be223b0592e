"""The figures, drawn from results: one function for each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InputError
from ..plot.style import BLUE, FAINT, GREEN, GREY, INK, ORANGE, PINK, SMALL, VERMILION, tidy
from .figures import BASELINES, Figure
from .summary import Mean, Results

COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PINK, "#56B4E9", "#7F3C8D", INK, "#8C6D31", "#B279A2")
MARKERS = "os^Dvp*XPh"
#: Those that several figures have look the same in all of them.
FIRST = ("ICQ", "SQ+CQ", "SQ+PQ", "PQN", "PQN+CQ")
NAMES = {
    **{"mnist": "MNIST", "cifar10": "CIFAR-10", "gist": "GIST", "lenet": "LeNet", "alexnet": "AlexNet"},
    "unseen": "unseen classes",
}
#: Lines of a figure: which measure, how it is drawn, what is said behind the label.
Line = tuple[str, str, str]
#: Our own search has a crude step for every method; the methods' own papers add up all tables.
CASCADE = ", our cascade"


def draw(figure: Figure, results: Results, path: Path) -> Path:
    """Write the picture of a figure."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise InputError("figures need matplotlib: pip install 'interlace[plot]'") from error
    if not len(results):
        raise InputError(f"there are no results of {figure.name} to draw; run 'interlace reproduce {figure.name}'")
    rows, columns = _shape(figure, results)
    canvas = Canvas(figsize=(3.6 * columns + 0.4, 3.0 * rows + 0.9), layout="constrained")
    FigureCanvasAgg(canvas)  # without pyplot there is no window and no state
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
    # Without a date and a version the same results make the same bytes.
    canvas.savefig(path, dpi=110, metadata={"Software": None})
    return path


def _shape(figure: Figure, results: Results) -> tuple[int, int]:
    if figure.drawn == "against_books":
        return len(_with_lines(results)), 2
    if figure.drawn == "variants":
        return 1, 2
    return 1, 2 if figure.drawn == "codes" else max(
        1, len(_with_lines(results))
    ) if figure.drawn == "against_ops" else 1


def _with_lines(results: Results) -> list[str]:
    """Data sets with more than a single point."""
    return [data for data in results.data if len(results.books(data)) > 1] or results.data[:1]


def _style(results: Results, label: str) -> dict[str, Any]:
    shared = [name for name in FIRST if name in results.labels()]
    others = [name for name in results.labels() if name not in FIRST]
    place = FIRST.index(label) if label in FIRST else others.index(label) + (len(FIRST) if shared else 0)
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)], "markersize": 5}


def _bars(ax: Any, x: list[Mean], y: list[Mean], label: str, **style: Any) -> None:
    """A line with error bars of one standard deviation over seeds, both ways."""
    ax.errorbar(
        [p.value for p in x],
        [p.value for p in y],
        xerr=[p.spread for p in x] if any(p.spread for p in x) else None,
        yerr=[p.spread for p in y] if any(p.spread for p in y) else None,
        label=label,
        **{"linewidth": 1.4, "elinewidth": 0.8, "capsize": 2, **style},
    )


def _points(results: Results, data: str, label: str, *measures: str) -> list[list[Mean]]:
    """Means of several measures at each number of books that has all of them."""
    columns: list[list[Mean]] = [[] for _ in measures]
    for n_books in results.books(data, label):
        found = [results.mean(data, label, n_books, measure) for measure in measures]
        if all(point is not None for point in found):
            for column, point in zip(columns, found, strict=True):
                column.append(point)  # type: ignore[arg-type]
    return columns


def _baselines(ax: Any, results: Results, data: str) -> None:
    """Level lines; the random one would press everything else to the top."""
    for label in results.labels(data, codes=False):
        point = results.mean(data, label, 0, "map")
        if point is not None and label == BASELINES[0]:
            ax.axhline(point.value, color=GREY, linewidth=1, linestyle=":", label=label)


def _against_ops(axes: Any, results: Results) -> None:
    for ax, data in zip(axes[0], _with_lines(results), strict=True):
        for label in results.labels(data):
            style = _style(results, label)
            ours = label.startswith("ICQ")
            x, y = _points(results, data, label, "two-step" if ours else "exhaustive", "map")
            _bars(ax, x, y, label, **style)
            if label == "SQ+CQ":
                x, y = _points(results, data, label, "two-step", "map")
                _bars(ax, x, y, label + CASCADE, **style | {"linestyle": "--", "markerfacecolor": "white"})
        _baselines(ax, results, data)
        ax.set_xscale("log", base=2)
        _plain_ticks(ax.xaxis)
        ax.set_title(_title(data), fontsize=10)
        ax.set_xlabel("table additions per vector")
        ax.set_ylabel("MAP")
        tidy(ax, "both")


def _against_books(axes: Any, results: Results) -> None:
    for (left, right), data in zip(axes, _with_lines(results), strict=True):
        for label in results.labels(data):
            style = _style(results, label)
            for ax, measure in ((left, "two-step" if label.startswith("ICQ") else "exhaustive"), (right, "map")):
                (y,) = _points(results, data, label, measure)
                _bars(ax, [Mean(k, 0, 1) for k in results.books(data, label)][: len(y)], y, label, **style)
            if label == "SQ+CQ":
                (y,) = _points(results, data, label, "two-step")
                x = [Mean(k, 0, 1) for k in results.books(data, label)][: len(y)]
                _bars(left, x, y, label + CASCADE, **style | {"linestyle": "--", "markerfacecolor": "white"})
        _baselines(right, results, data)
        for ax, what in ((left, "table additions per vector"), (right, "MAP")):
            ax.set_xscale("log", base=2)
            _plain_ticks(ax.xaxis)
            ax.set_title(_title(data), fontsize=10)
            ax.set_xlabel("books")
            ax.set_ylabel(what)
            tidy(ax, "both")


def _against_length(axes: Any, results: Results) -> None:
    ax = axes[0][0]
    for data in results.data:
        for label in results.labels(data):
            x, y = [], []
            for n_books in results.books(data, label):
                own = label.startswith("ICQ")
                bits = results.effective_length(data, label, n_books, "SQ+CQ", "exhaustive") if own else 8.0 * n_books
                point = results.mean(data, label, n_books, "map")
                if bits is not None and point is not None:
                    x.append(Mean(bits, 0, 1))
                    y.append(point)
            _bars(ax, x, y, label + (", effective" if label.startswith("ICQ") else ""), **_style(results, label))
    _baselines(ax, results, results.data[-1])
    ax.set_xscale("log", base=2)
    _plain_ticks(ax.xaxis)
    ax.set_xlabel("effective code length, bits")
    ax.set_ylabel("MAP")
    ax.set_title("CIFAR-10", fontsize=10)
    tidy(ax, "both")


def _variants(axes: Any, results: Results) -> None:
    """MAP and operations of each variant, the default on top."""
    data = "synthetic2" if "synthetic2" in results.data else next(d for d in results.data if d != "vectors")
    (n_books,) = results.books(data)[-1:]
    labels = results.labels(data)
    axes[0][0].figure.set_size_inches(10.5, 0.24 * len(labels) + 1.6)
    for ax, measure, what in ((axes[0][0], "map", "MAP"), (axes[0][1], "two-step", "table additions per vector")):
        for place, label in enumerate(labels):
            point = results.mean(data, label, n_books, measure)
            if point is not None:
                own = {"color": BLUE if label == "ICQ" else VERMILION if label.startswith("SQ") else FAINT}
                ax.errorbar(point.value, place, xerr=point.spread, fmt="o", markersize=4, capsize=2, **own)
        default = results.mean(data, "ICQ", n_books, measure)
        if default is not None:
            ax.axvline(default.value, color=BLUE, linewidth=0.8, linestyle=":")
        ax.set_yticks(range(len(labels)), labels if measure == "map" else [""] * len(labels), fontsize=SMALL)
        ax.invert_yaxis()
        ax.set_xlabel(f"{what} ({_title(data)}, {n_books} books)")
        tidy(ax, "x")


def _codes(axes: Any, results: Results) -> None:
    data = "vectors"
    for ax, measure, what in (
        (axes[0][0], "error", "error, share of variance"),
        (axes[0][1], "recall@10", "recall@10"),
    ):
        for label in results.labels(data):
            x, y = _points(results, data, label, "bytes", measure)
            _bars(ax, x, y, label, **_style(results, label))
        ax.set_xscale("log", base=2)
        _plain_ticks(ax.xaxis)
        ax.set_xlabel("bytes per vector")
        ax.set_ylabel(what)
        ax.set_title(title_of(results, data), fontsize=10)
        tidy(ax, "both")


def title_of(results: Results, data: str) -> str:
    """Of a data set in tables and pictures: as the paper calls it."""
    return results.data_name(data) if data == "vectors" else _title(data)


def _title(data: str) -> str:
    first, _, rest = data.partition("-")
    if data.startswith("synthetic"):
        return f"Dataset {data[-1]}"
    return NAMES.get(first, first) + (f" ({NAMES.get(rest, rest)})" if rest else "")


def _plain_ticks(axis: Any) -> None:
    """2, 4, 8 instead of powers of two."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _legend(canvas: Any, axes: Any) -> None:
    found: dict[str, Any] = {}
    for ax in axes.ravel():
        handles, labels = ax.get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            found.setdefault(label, handle)
    for label in BASELINES:  # level lines after the curves
        if label in found:
            found[label] = found.pop(label)
    if found:
        columns = min(len(found), 3 if axes.shape[1] < 3 else 4)
        tight = {"frameon": False, "fontsize": SMALL, "ncols": columns}
        canvas.legend(list(found.values()), list(found), loc="outside lower center", **tight)
