"""Plots of the figures from results: one function per kind of figure.

Precision is MAP@100 of the lists of the calibrated search, against the operations of the same search. Differences
between methods are drawn as paired gaps with Student's intervals, not as overlapping bars.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..plot.style import BLUE, FAINT, GREY, INK, SMALL, VERMILION, tidy
from .annotations import Note, annotate
from .figures import BASELINES, TOPLINE, Figure
from .literature import REPORTED
from .looks import CASCADE, HOLLOW, METHODS, look
from .names import title, title_of
from .summary import OPS, Mean, Results

PRECISION, OPERATIONS = "MAP@100", "table additions per vector"
#: Smallest range of a precision axis: a narrower one would show noise.
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
    rows, columns = shape_of(figure, results)
    canvas = Canvas(figsize=(3.6 * max(columns, 1.4) + 0.4, 2.8 * rows + 0.9), layout="constrained")
    FigureCanvasAgg(canvas)  # not pyplot, which has global state and opens windows
    axes = canvas.subplots(rows, columns, squeeze=False)
    KINDS[figure.drawn](axes, results)
    _legend(canvas, axes)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without a date and a version, the same results give the same bytes.
    canvas.savefig(path, dpi=110, metadata={"Software": None})
    return path


def shape_of(figure: Figure, results: Results) -> tuple[int, int]:
    """Rows and columns of the plots of a figure."""
    n = len(_with_lines(results))
    shapes = {"against_ops": (2, n), "against_books": (n, 3), "variants": (1, 3), "against_reported": (1, 1)}
    return shapes.get(figure.drawn, (1, 2))


def _with_lines(results: Results) -> list[str]:
    """Data sets with more than a single point."""
    return [data for data in results.data if len(results.books(data)) > 1] or results.data[:1]


def _line(ax: Any, x: Sequence[Mean], y: Sequence[Mean], label: str, **style: Any) -> None:
    """Points joined in the order of x, so that no line runs backwards."""
    order = sorted(range(len(x)), key=lambda i: (x[i].value, y[i].value))
    xs, ys = [x[i].value for i in order], [y[i].value for i in order]
    ax.plot(xs, ys, label=label, **{"linewidth": 1.4, **style})


def _curve(
    ax: Any,
    results: Results,
    data: str,
    label: str,
    x: str,
    y: str,
    name: str = "",
    **style: Any,
) -> list[Note]:
    """One measure against another; returns the numbers of books of its points."""
    xs, ys, ks = _points(results, data, label, x, y, "exhaustive")
    _line(ax, xs, ys, name or label, **look(label) | style)
    return _notes(label, xs, ys, ks)


def _notes(label: str, x: Sequence[Mean], y: Sequence[Mean], books: Sequence[Mean]) -> list[Note]:
    colour = look(label)["color"]
    return [(f"{k.value:.0f}", a.value, b.value, colour) for a, b, k in zip(x, y, books, strict=True)]


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
    """A horizontal line for the classifier; the random ranking would compress the axis."""
    point = results.mean(data, TOPLINE, 0, "map@100")
    if point is not None:
        ax.axhline(point.value, color=GREY, linewidth=1, linestyle=":", label=TOPLINE)


def _gaps(ax: Any, results: Results, data: str, measure: str = "map@100") -> None:
    """Paired gaps of ICQ to every other method, by number of books, with Student's intervals."""
    others = [label for label in results.labels(data) if label != "ICQ" and not label.startswith("ICQ (")]
    shown = [label for label in others if any(_gap(results, data, k, label, measure) for k in results.books(data))]
    for place, label in enumerate(shown):
        shift = 1 + 0.06 * (place - (len(shown) - 1) / 2)
        found = [(k, gap) for k in results.books(data, label) if (gap := _gap(results, data, k, label, measure))]
        ax.errorbar(
            [shift * k for k, _ in found],
            [gap.value for _, gap in found],
            yerr=[gap.half if gap.n > 1 else 0.0 for _, gap in found],
            label=label,
            **{"linestyle": "", "elinewidth": 1.0, "capsize": 2.5, **look(label)},
        )
    ax.axhline(0.0, color=look("ICQ")["color"], linewidth=1.2)


def _gap(results: Results, data: str, n_books: int, label: str, measure: str) -> Mean | None:
    return results.gap(data, n_books, label, "ICQ", measure)


def against_ops(axes: Any, results: Results) -> None:
    """Above precision against operations; below the gaps to ICQ."""
    for above, below, data in zip(axes[0], axes[1], _with_lines(results), strict=True):
        notes: list[Note] = []
        for label in results.labels(data):
            if label.startswith("ICQ"):
                notes += _curve(above, results, data, label, OPS, "map@100")
            else:  # as many additions as books
                _curve(above, results, data, label, "exhaustive", "map@100")
            if label == "SQ+CQ":
                notes += _curve(above, results, data, label, OPS, "map@100", label + CASCADE, **HOLLOW)
        _baselines(above, results, data)
        _finish(above, title(data), f"{OPERATIONS} (at points: books)", PRECISION)
        annotate(above, notes)
        _gaps(below, results, data)
        _finish(below, "", "books", f"{PRECISION} minus ICQ")


def against_books(axes: Any, results: Results) -> None:
    """Operations, precision and gaps against the number of books."""
    with_lines = _with_lines(results)
    for (left, middle, right), data in zip(axes, with_lines, strict=True):
        _additions(left, results, data)
        for label in results.labels(data):
            _curve(middle, results, data, label, "exhaustive", "map@100")
        for other in results.data:  # the same images with a single point, trained end to end
            if other not in with_lines and other.partition("-")[0] == data.partition("-")[0]:
                for label in results.labels(other):
                    _curve(left, results, other, label, "exhaustive", OPS, linestyle="")
                    _curve(middle, results, other, label, "exhaustive", "map@100", linestyle="")
        _baselines(middle, results, data)
        _gaps(right, results, data)
        _finish(left, title(data), "books", OPERATIONS)
        _finish(middle, title(data), "books", PRECISION)
        _finish(right, title(data), "books", f"{PRECISION} minus ICQ")


def _additions(ax: Any, results: Results, data: str) -> None:
    """Additions of ICQ, of the exhaustive scan (one line for all other methods), and of others in our search."""
    ours = [label for label in results.labels(data) if label.startswith("ICQ")]
    others = [label for label in results.labels(data) if label not in ours]
    for label in ours:
        _curve(ax, results, data, label, "exhaustive", OPS)
    if len(others) == 1:
        _curve(ax, results, data, others[0], "exhaustive", "exhaustive")
    elif others:
        books = [Mean(k, 0, 1) for k in results.books(data)]
        _line(ax, books, books, "all tables", color=INK, marker=".", zorder=2)
    for label in others:
        if len(results.books(data, label)) > 1:
            _curve(ax, results, data, label, "exhaustive", OPS, label + CASCADE, **HOLLOW)


def against_length(axes: Any, results: Results) -> None:
    """Precision against the effective code length, by MAP@100 and by MAP of the whole ranking."""
    for ax, measure, name in zip(axes[0], ("map@100", "map"), (PRECISION, "MAP of the whole ranking"), strict=True):
        notes: list[Note] = []
        for data in results.data:
            for label in results.labels(data):
                x, y, books = [], [], []
                own = label.startswith("ICQ")
                for k in results.books(data, label):
                    # The reference adds as many tables as it has books.
                    bits = results.effective_length(data, label, k, label, "exhaustive") if own else 8.0 * k
                    point = results.mean(data, label, k, measure)
                    if bits is not None and point is not None:
                        x.append(Mean(bits, 0, 1))
                        y.append(point)
                        books.append(Mean(k, 0, 1))
                if x:
                    _line(ax, x, y, label + (", effective" if own else ""), **look(label))
                if own:
                    notes += _notes(label, x, y, books)
        _finish(ax, "CIFAR-10", "effective code length, bits (at points: books)", name)
        annotate(ax, notes)


def variants(axes: Any, results: Results) -> None:
    """Paired differences of each variant from the default, and the agreement of the paper's margin."""
    data = "synthetic2" if "synthetic2" in results.data else next(d for d in results.data if d != "vectors")
    (n_books,) = results.books(data)[-1:]
    labels = [label for label in results.labels(data) if n_books in results.books(data, label)]
    axes[0][0].figure.set_size_inches(11.5, 0.24 * len(labels) + 1.6)
    panels = {
        "map@100": f"{PRECISION} minus ICQ",
        OPS: "additions minus ICQ",
        "paper agreement": "agreement, margin='paper'",
    }
    for ax, (measure, what) in zip(axes[0], panels.items(), strict=True):
        for place, label in enumerate(labels):
            gap = results.gap(data, n_books, label, "ICQ", measure)
            point = results.mean(data, label, n_books, measure) if measure == "paper agreement" else gap
            if point is not None:
                colour = look(label)["color"] if label in METHODS else FAINT
                half = point.half if point.n > 1 else 0.0
                upper = min(half, 1.0 - point.value) if measure == "paper agreement" else half  # at most all agree
                bar = [[half], [upper]]
                ax.errorbar(point.value, place, xerr=bar, fmt="o", markersize=4, capsize=2, color=colour)
        if measure != "paper agreement":
            ax.axvline(0.0, color=BLUE, linewidth=0.8, linestyle=":")
        ax.set_yticks(range(len(labels)), labels if measure == "map@100" else [""] * len(labels), fontsize=SMALL)
        ax.set_ylim(len(labels) - 0.4, -0.6)
        ax.set_xlabel(what)
        tidy(ax, "x")
    axes[0][0].figure.suptitle(f"{title(data)}, {n_books} books", fontsize=10)


def against_reported(axes: Any, results: Results) -> None:
    """MAP of the whole ranking of each method in each protocol, beside the figures that papers report for it."""
    ax = axes[0][0]
    rows = [
        (data, label, n_books)
        for data in results.data
        for label in results.labels(data)
        if label not in BASELINES
        for n_books in results.books(data, label)
    ]
    reported = {one.run[1:]: one for one in REPORTED}
    for place, (data, label, n_books) in enumerate(rows):
        if (point := results.mean(data, label, n_books, "map")) is not None:
            half = point.half if point.n > 1 else 0.0
            ax.errorbar(
                point.value, place, xerr=half, fmt="o", markersize=5, capsize=2, color=BLUE, label="measured here"
            )
        if (theirs := reported.get((data, label, n_books))) is not None:
            ends = [min(theirs.values), max(theirs.values)]
            ax.plot(
                ends, [place, place], "D-", markersize=5, markerfacecolor="white", color=VERMILION, label="reported"
            )
    names = [f"{title(data)}, {label}, {8 * n_books} bits" for data, label, n_books in rows]
    ax.set_yticks(range(len(rows)), names, fontsize=SMALL)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlabel("MAP of the whole ranking", fontsize=SMALL + 0.5)
    ax.figure.set_size_inches(7.5, 0.28 * len(rows) + 1.4)
    tidy(ax, "x")


def codes(axes: Any, results: Results) -> None:
    """Error and recall against bytes."""
    data = "vectors"
    for ax, measure, what in (
        (axes[0][0], "error", "error, share of variance"),
        (axes[0][1], "recall@10", "recall@10"),
    ):
        for label in results.labels(data):
            _curve(ax, results, data, label, "bytes", measure)
        _finish(ax, title_of(results, data), "bytes per vector", what)


KINDS: dict[str, Callable[[Any, Results], None]] = {
    function.__name__: function
    for function in (against_ops, against_books, against_length, against_reported, variants, codes)
}


def _finish(ax: Any, heading: str, x: str, y: str) -> None:
    """Labels, a logarithmic x axis with plain numbers, and at least ``LEAST_RANGE`` on an axis of precision."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_xscale("log", base=2)
    low, high = ax.get_xlim()
    ax.xaxis.set_major_locator(LogLocator(base=2, subs=(1.0,) if high / low > 4 else (1.0, 1.25, 1.5, 1.75)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    low, high = ax.get_ylim()
    if y.startswith("MAP") and (more := LEAST_RANGE - (high - low)) > 0:
        if "minus" in y:
            ax.set_ylim(low - more / 2, high + more / 2)
        else:
            top = max(high, min(high + more / 2, 1.0))
            ax.set_ylim(top - LEAST_RANGE, top)
    ax.set_title(heading, fontsize=10)
    ax.set_xlabel(x, fontsize=SMALL + 0.5)
    ax.set_ylabel(y, fontsize=SMALL + 0.5)
    tidy(ax, "both")


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
