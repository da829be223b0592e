"""Plots of partitions, graphs and growth: every curve has its name beside it, so that no legend is needed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from partition_bars import us

Case = dict[str, Any]
OURS = "#c8102e"
PEERS = {"PQ": "#1f5fa8", "x4fs": "#6a3fa0", "RaBitQ": "#b8720a", "SQ": "#7a7a7a", "graph": "#2a7f3f"}
GAP = 0.052  # between two names, as a share of the height
#: A curve is drawn where its total is at most these shares of faiss IVF,PQ with our shorter and longer codes.
BUDGETS = (1.15, 1.6)
LEAST = 0.75  # recall from which indexes with vectors are of interest
RC = {"font.size": 9, "svg.hashsalt": "interlace", "axes.spines.top": False, "axes.spines.right": False}


def draw(found: Case, path: Path, *, short: bool = False) -> None:
    """Recall@10 against queries per second, a panel for each budget of bytes.

    ``short``: only the first and the last panel, since a page shows the chart in 800 pixels; the last one only with
    what keeps vectors.
    """
    panels = _panels(found, found["methods"])
    if short and len(panels) > 2:
        title, methods = panels[-1]
        panels = [panels[0], (title, [m for m in methods if m["family"] != "codes"])]
    with mpl.rc_context(RC):
        figure = Figure(figsize=((5.2 if short else 5.6) * len(panels), 4.6), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axis, (title, shown) in zip(axes, panels, strict=True):
            _panel(axis, title, shown, LEAST if "vectors" in title else 0.0)
        data = found["data"]
        what = f"{data['rows']:,} vectors of {data['dim']} dimensions, one core, batches of queries, 10 hits"
        figure.suptitle(f"{'' if short else data['name'] + ': '}{what}. Up and to the right is better.", fontsize=10)
        figure.savefig(path, dpi=110, metadata={"Software": None})


def _panels(found: Case, methods: list[Case]) -> list[tuple[str, list[Case]]]:
    """Codes within each budget, then what also keeps vectors."""
    lengths = sorted({m["n_bytes"] for m in found["methods"] if m["kind"] == "interlace"})
    codes = [m for m in methods if m["family"] == "codes"]
    panels, used = [], set()
    for n_bytes, factor in zip((lengths[0], lengths[-1]), BUDGETS, strict=True):
        reference = [m for m in found["methods"] if "IVF" in m["name"] and m["name"].endswith(f",PQ{n_bytes}")]
        if not reference:
            continue
        budget = factor * min(m["bytes"]["total"] for m in reference)
        within = [m for m in codes if m["bytes"]["total"] <= budget]
        peers = [m for m in within if m["kind"] != "interlace" and m["name"] not in used]
        used |= {m["name"] for m in peers}
        if peers:
            title = f"At most {budget:.0f} bytes per vector, ids included"
            panels.append((title, [m for m in within if m["kind"] == "interlace"] + peers))
    rest = [m for m in methods if m["family"] != "codes" or (m["kind"] != "interlace" and m["name"] not in used)]
    if any(m["family"] != "codes" for m in rest):
        panels.append(("With the vectors kept as well", rest))
    elif rest:
        panels.append(("More bytes", rest + [m for m in codes if m["kind"] == "interlace"]))
    return panels or [("All", methods)]


def front(points: list[Case], least: float = 0.0) -> list[tuple[float, float]]:
    """(recall, queries per second) of the settings that no other beats in both, by recall."""
    kept: list[tuple[float, float]] = []
    for p in sorted(points, key=lambda p: us(p, "batch")):
        recall = float(p["recall"]["10"])
        if recall >= least and (not kept or recall > kept[-1][0]):
            kept.append((recall, 1e6 / us(p, "batch")))
    return kept


def _panel(axes: Any, title: str, methods: list[Case], least: float) -> None:
    ends: list[tuple[str, str, float, float]] = []
    for method in methods:
        line = front(method["points"], least)
        if not line:
            continue
        ours, colour = method["kind"] == "interlace", colour_of(method)
        x, y = zip(*line, strict=True)
        axes.plot(x, y, "o-", color=colour, lw=2.6 if ours else 1.2, ms=5 if ours else 3, zorder=3 if ours else 2)
        name = method["name"].replace(" originals", "").replace(" bytes", "-byte codes")
        ends.append((f"{name}: {method['bytes']['total']:.0f} B", colour, x[-1], y[-1]))
    _log_y(axes)
    axes.set_title(title, fontsize=9, loc="left")
    axes.locator_params(axis="x", nbins=6)
    axes.set_xlabel("recall@10")
    axes.set_ylabel("queries per second")
    axes.grid(True, which="major", alpha=0.25)
    _names(axes, ends)


def colour_of(method: Case) -> str:
    """Ours, or the kind of a peer."""
    if method["kind"] == "interlace":
        return OURS
    if method["family"] == "graph":
        return PEERS["graph"]
    return next((PEERS[part] for part in ("RaBitQ", "x4fs", "SQ", "PQ") if part in method["name"]), "black")


def _names(axes: Any, ends: list[tuple[str, str, float, float]]) -> None:
    """Names in a column at the right, in the order of the ends of their curves, each tied to its end."""
    if not ends:
        return
    left, right = axes.get_xlim()
    axes.set_xticks([tick for tick in axes.get_xticks() if left <= tick <= min(right, 1.0)])
    axes.set_xlim(left, right + 1.05 * (right - left))
    column = right + 0.07 * (right - left)
    low, high = (math.log10(v) for v in axes.get_ylim())
    ordered = sorted(ends, key=lambda end: end[3])
    places = spread([(math.log10(y) - low) / (high - low) for _, _, _, y in ordered], GAP)
    for (name, colour, x, y), place in zip(ordered, places, strict=True):
        at = 10 ** (low + place * (high - low))
        axes.plot([x, column], [y, at], color=colour, lw=0.6, alpha=0.6, zorder=1)
        weight = "bold" if colour == OURS else "normal"
        axes.text(column, at, f" {name}", color=colour, va="center", fontsize=8, fontweight=weight)
    axes.set_ylim(10**low, 10**high)


def spread(wanted: list[float], gap: float) -> list[float]:
    """Ascending places at least ``gap`` apart, as near to those wanted as one pass each way brings them."""
    top = max(1.0, gap * len(wanted))
    places: list[float] = []
    for at in wanted:
        places.append(max(at, places[-1] + gap) if places else max(at, 0.0))
    limit = top
    for i in range(len(places) - 1, -1, -1):
        places[i] = min(places[i], limit)
        limit = places[i] - gap
    return places


def draw_growth(found: Case, path: Path) -> None:
    """Time per query against rows, both logarithmic: ours, and the fastest number of lists of faiss at each size."""
    lines: dict[str, dict[int, Case]] = {"interlace": {}, "faiss": {}}
    for line in found["results"]:
        best = lines[line["kind"]].get(line["rows"])
        if best is None or us(line, "batch") < us(best, "batch"):
            lines[line["kind"]][line["rows"]] = line
    with mpl.rc_context(RC):
        figure = Figure(figsize=(6.4, 4.2), layout="constrained")
        axes = figure.subplots()
        for kind, title, colour in (("interlace", "interlace", OURS), ("faiss", "faiss IVF,PQ8", PEERS["PQ"])):
            points = sorted(lines[kind].items())
            if not points:
                continue
            x, y = [rows for rows, _ in points], [us(line, "batch") for _, line in points]
            axes.plot(x, y, "o-", color=colour, lw=2.4 if kind == "interlace" else 1.4)
            end = {"xytext": (12, 0), "textcoords": "offset points", "va": "center", "fontweight": "bold"}
            axes.annotate(title, (x[-1], y[-1]), color=colour, **end)
            for rows, line in points:
                note = f"{line['recall']:.2f}" + (f" ({_lists(line)})" if kind == "faiss" else "")
                at, offset = (rows, us(line, "batch")), (0, -14 if kind == "interlace" else 8)
                axes.annotate(note, at, offset, textcoords="offset points", fontsize=7, color=colour, ha="center")
        axes.set_xscale("log")
        _log_y(axes)
        sizes = sorted({line["rows"] for line in found["results"]})
        axes.set_xticks(
            sizes, [f"{rows // 1000:,}k" if rows < 1_000_000 else f"{rows // 1_000_000}M" for rows in sizes]
        )
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(sizes[0] / 1.4, sizes[-1] * 4)
        axes.margins(y=0.12)
        axes.set_xlabel("rows")
        axes.set_ylabel("microseconds per query, one core")
        axes.set_title(
            f"Answers agree {found['target']:g} with the exhaustive search; numbers: recall@10 (lists)",
            fontsize=8,
            loc="left",
        )
        axes.grid(True, which="major", alpha=0.25)
        figure.savefig(path, dpi=110, metadata={"Software": None})


def _log_y(axes: Any) -> None:
    """A logarithmic axis with plain numbers."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_minor_locator(NullLocator())


def _lists(line: Case) -> str:
    return f"{line['facts']['lists']:,}" if "lists" in line.get("facts", {}) else ""
