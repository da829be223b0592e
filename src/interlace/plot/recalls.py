"""Predicted recall against the length of codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..index.recall_planning import RecallPlan
from ..inputs.arrays import describe
from .style import SMALL, axes_or_new, legend_below, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALONE, RERANKED = "#1f6f8b", "#c8553d"


def recall_by_bytes(plan: RecallPlan, ax: Axes | None = None) -> Axes:
    """Draw the recall that ``plan_recall`` predicts against the bytes of a code, with and without a re-rank.

    The band around the re-ranked line is between the two estimates that it is the mean of.
    """
    if not isinstance(plan, RecallPlan):
        raise InputError(f"plan must be what plan_recall() returned, got {describe(plan)}")
    axes = axes_or_new(ax, (6.0, 3.8))
    points = sorted(plan.points, key=lambda p: p.n_bytes)
    x = [p.n_bytes for p in points]
    drawn: list[Any] = axes.plot(
        x, [p.recall for p in points], color=ALONE, marker="o", label="codes alone", clip_on=False, zorder=3
    )
    drawn += axes.plot(
        x,
        [p.reranked for p in points],
        color=RERANKED,
        marker="s",
        linestyle="--",
        label=f"best {plan.rerank} by code, re-ranked by their originals",
        clip_on=False,
        zorder=3,
    )
    low, high = ([p.reranked_range[i] for p in points] for i in range(2))
    axes.fill_between(x, low, high, color=RERANKED, alpha=0.15, linewidth=0)
    for p in points:
        axes.annotate(
            f"{p.recall:.2f}", (p.n_bytes, p.recall), (0, -7), textcoords="offset points", ha="center", va="top",
            fontsize=SMALL, color=ALONE,
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_xticks(x, [str(n) for n in x])
    axes.minorticks_off()
    axes.set_ylim(0, 1)
    axes.set_xlabel(f"bytes of a code; {plan.rows:,} rows x {plan.dim} dimensions")
    axes.set_ylabel(f"predicted recall@{plan.k}")
    tidy(axes, "y")
    legend_below(axes, drawn, columns=1)
    return axes
