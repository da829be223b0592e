"""What a margin costs, and what it loses."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._threads import thread_count
from ..engine import margins as margin_rules
from ..engine.searching import search_like
from ..errors import InputError
from ..evaluate.answers import agreement, as_ids, recall
from ..index.index import Index
from ..inputs.arrays import positive
from .style import BLUE, INK, SMALL, VERMILION, axes_or_new, kind_of, legend_below, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Constants of sigma that the paper's margin is tried with.
SIGMAS = (0.25, 1.0, 4.0, 16.0)
MARGINS: tuple[Any, ...] = (*(("paper", c) for c in SIGMAS), *margin_rules.TARGETS, "exact")
#: How each kind of margin is drawn: colour, marker, dashes, name, what stands beside a point.
SERIES = {
    "paper": (VERMILION, "^", "--", r"paper: crude distance within c$\sigma$ of the k-th", r"{:g}$\sigma$"),
    "target": (BLUE, "s", "-", "calibrated for a target agreement", "{:g}"),
    "exact": (INK, "*", "none", "exact bound", ""),
}


@dataclass(frozen=True)
class MarginPoint:
    """What one margin costs, and what it finds."""

    margin: str  #: ``"paper"``, ``"target"`` or ``"exact"``
    value: float  #: the constant of sigma, or the target; 1 for exact
    ops_per_vector: float  #: table additions per query and row
    agreement: float  #: mean share of an answer that the exhaustive scan gives too
    survivors: float  #: share of the rows that were compared with their whole code
    recall: float | None  #: recall@k, where the true neighbours were given
    hits: int  #: which the agreement is a mean of: queries x k
    k: int
    exhaustive: int  #: table additions per row of the exhaustive scan
    rule: str  #: that ran, as ``SearchStats.margin``


def margin_points(
    index: Index, queries: Any, k: int = 100, margins: Any = None, truth: Any = None, *, threads: int | None = None
) -> list[MarginPoint]:
    """Cost and agreement of an index at each margin.

    ``margins`` holds ``"exact"``, targets below 1 and ``("paper", c)``, the paper's rule with c times sigma
    (``"paper"`` is c = 1); by default some of each. Targets that the index is not calibrated for are left out; where
    nothing is left, that is an error. ``truth`` are ids of true neighbours [queries, at least k]. An answer holds all
    rows at most: so does k.
    """
    if not isinstance(index, Index):
        raise InputError(f"margins are moved for an Index, such as model.index(x), got {kind_of(index)}")
    if queries is None:
        raise InputError("margins are tried by queries: pass some that are like yours, not rows of the index")
    k, workers = min(positive(k, "k"), max(len(index), 1)), thread_count(threads)
    vectors, _ = index._queries(queries, False)
    vectors = index.codebooks.metric_type.prepare(vectors, name="queries")
    if not len(vectors) or not len(index):
        raise InputError(f"margins are tried by queries on rows, got {len(vectors)} queries and {len(index)} rows")
    true_ids = None if truth is None else as_ids(truth, "truth")
    books = index.codebooks

    def search(rule: margin_rules.Rule) -> tuple[Any, Any]:
        rows, _, _, work, _, _ = search_like(
            books, index._segments, index._ids.removed, vectors, k, lambda hits, filtered: rule, workers
        )
        return rows, work.sum(0, dtype=np.float64) / (len(vectors) * len(index))

    everything, _ = search(margin_rules.Rule("none", 1.0, 0.0, "inf"))
    points = []
    one = isinstance(margins, str | float | int)
    asked = MARGINS if margins is None else (margins,) if one else tuple(margins)
    for margin in asked:
        name, value, rule = _rule(margin, index, k)
        exact = rule.kind == "share" and rule.share == 1 and not len(rule.spread)
        if exact and isinstance(margin, float | int):  # what a target falls back to
            continue
        rows, work = search(rule)
        found = None if true_ids is None else recall(index._ids.take(rows), true_ids, k)
        same = agreement(rows, everything)
        hits = len(vectors) * k
        cost = float(work[3]), same, float(work[2])
        points.append(MarginPoint(name, value, *cost, found, hits, k, books.n_books, rule.label))
    if not points:
        raise InputError(f"no margin of {asked!r} is calibrated for k = {k}: ask for 'exact' or 'paper'")
    return points


def _rule(margin: Any, index: Index, k: int) -> tuple[str, float, margin_rules.Rule]:
    sigma = index.codebooks.residual_variance
    if isinstance(margin, tuple):
        if len(margin) != 2 or margin[0] != "paper" or not isinstance(margin[1], int | float) or not margin[1] >= 0:
            raise InputError(f"a margin is 'exact', a target, or ('paper', a constant of at least 0), got {margin!r}")
        constant = float(margin[1])
        return "paper", constant, margin_rules.Rule("paper", 1.0, constant * sigma, f"paper (sigma x {constant:g})")
    rule = margin_rules.parse(margin, k=k, n=len(index), calibration=index._calibration, sigma=sigma)
    if margin == math.inf:
        raise InputError("inf is the exhaustive scan that the others are compared with")
    return (margin, 1.0, rule) if isinstance(margin, str) else ("target", float(margin), rule)


def ops_against_agreement(
    index: Any, queries: Any = None, k: int = 100, margins: Any = None, truth: Any = None, ax: Axes | None = None
) -> Axes:
    """Table additions per vector against agreement with the exhaustive scan, as the margin moves.

    ``index`` is an :class:`Index`, asked by ``queries`` as :func:`margin_points` tells, or the points it returned.
    Agreement is drawn by the logarithm of what is missing; the topmost line is 100 %.
    """
    given = isinstance(index, list) and bool(index) and all(isinstance(p, MarginPoint) for p in index)
    points = index if given else margin_points(index, queries, k, margins, truth)
    axes = axes_or_new(ax, (6.0, 4.2))
    _draw(axes, points)
    return axes


def _draw(ax: Any, points: list[MarginPoint]) -> None:
    least = 0.3 / points[0].hits  # where no hit is missing: below a single one
    drawn: list[Any] = []
    for name, (colour, marker, dashes, label, _) in SERIES.items():
        own = sorted((p for p in points if p.margin == name), key=lambda p: p.value)
        if not own:
            continue
        if own[0].recall is not None:
            low, high = min(p.recall or 0 for p in own), max(p.recall or 0 for p in own)
            label += f", recall@{own[0].k} {low:.3f}" + (f" to {high:.3f}" if high - low > 5e-4 else "")
        x, y = [p.ops_per_vector for p in own], [max(1 - p.agreement, least) for p in own]
        style = {"color": colour, "marker": marker, "linestyle": dashes, "markersize": 11 if name == "exact" else 6}
        drawn += ax.plot(x, y, label=label, linewidth=1.2, clip_on=False, zorder=3, **style)
    _agreement_axis(ax, least, max(1 - min(p.agreement for p in points), 10 * least))
    low, high = ax.get_xlim()
    ax.set_xlim(max(0.0, low - 0.12 * (high - low)), high + 0.12 * (high - low))
    _name_points(ax, points, least)
    ax.set_xlabel(f"table additions per vector, k = {points[0].k} (exhaustive scan: {points[0].exhaustive})")
    ax.set_ylabel("agreement with the exhaustive scan")
    tidy(ax, "both")
    legend_below(ax, drawn, columns=1)


def _name_points(ax: Any, points: list[MarginPoint], least: float) -> None:
    """The constant or the target beside each point, but for those too near another of their kind."""
    taken: list[tuple[str, float, float]] = []
    # 1 sigma is the paper's own: it is named first.
    for point in sorted(points, key=lambda p: (p.margin, p.value != 1, p.value)):
        if point.margin == "exact":
            continue
        at = (point.ops_per_vector, max(1 - point.agreement, least))
        x, y = ax.transAxes.inverted().transform(ax.transData.transform(at))
        if any(point.margin == name and abs(x - u) < 0.06 and abs(y - v) < 0.055 for name, u, v in taken):
            continue
        taken.append((point.margin, x, y))
        colour, _, _, _, text = SERIES[point.margin]
        # Those of the paper stand left of their points, the others below them, clear of the markers beside.
        left = point.margin == "paper"
        how = {"xytext": (-6, 3) if left else (0, -6), "textcoords": "offset points", "color": colour}
        side = {"ha": "right", "va": "bottom"} if left else {"ha": "center", "va": "top"}
        ax.annotate(text.format(point.value), at, fontsize=SMALL, **how, **side)


def _agreement_axis(ax: Any, least: float, worst: float) -> None:
    """0 %, 90 %, 99 %, ... from below, 100 % on top."""
    ax.set_yscale("log")
    ax.set_ylim(min(1.0, worst * 2), least)
    shown = [10.0**-i for i in range(12) if 2 * least < 10.0**-i <= min(1.0, worst * 2)]
    ax.set_yticks([*shown, least], [*(f"{100 * (1 - tick):.10g} %" for tick in shown), "100 %"])
    ax.yaxis.set_minor_locator(importlib.import_module("matplotlib.ticker").NullLocator())
