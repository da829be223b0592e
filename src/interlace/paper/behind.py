"""Where ICQ is behind the best baseline of a data set, and what was tried to change it: a table of the first page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .checks import LISTS
from .controls import GAP, HELD_OUT, key
from .names import title
from .summary import OPS, Mean, Results

#: Figures that compare methods; ``ablation`` and ``codes`` compare variants and codes without labels.
FIGURES = ("synthetic-pq", "synthetic-cq", "real-sq", "effective", "pqn", "unseen", "published", "text")
#: Our lines; others of ICQ are variants.
OURS = ("ICQ", "ICQ (CNN)")


@dataclass(frozen=True)
class Behind:
    """One data set and number of books."""

    data: str
    n_books: int
    theirs: str  #: the best baseline there
    gap: Mean  #: MAP@100, ours minus theirs
    ops: Mean | None  #: ours; theirs are K in the search of its paper


def cases(figures: Mapping[str, Results]) -> tuple[list[Behind], int]:
    """Cases in which the interval of the gap is below 0, or whose single seed is; and how many cases there are."""
    found: dict[tuple[str, int], tuple[float, Behind]] = {}
    for name in FIGURES:
        if (results := figures.get(name)) is None:
            continue
        for data in results.data:
            for ours in (label for label in results.labels(data) if label in OURS):
                for k in results.books(data, ours):
                    for theirs in results.labels(data):
                        mean, gap = results.mean(data, theirs, k, LISTS), results.gap(data, k, ours, theirs, LISTS)
                        if theirs.startswith("ICQ") or mean is None or gap is None:
                            continue
                        if (data, k) not in found or mean.value > found[data, k][0]:
                            found[data, k] = mean.value, Behind(data, k, theirs, gap, results.mean(data, ours, k, OPS))
    behind = [one for _, one in found.values() if one.gap.sign() == -1 or (one.gap.n == 1 and one.gap.value < 0)]
    return sorted(behind, key=lambda one: (one.data, one.n_books)), len(found)


def behind_table(figures: Mapping[str, Results]) -> str:
    """One row for each data set and baseline."""
    found, n = cases(figures)
    if not n:
        return ""
    lines = [
        "## Where ICQ is behind",
        "",
        f"Of {n} cases (a data set and a number of books) ICQ is behind the best baseline in {len(found)}, by the "
        "interval of MAP@100 of the case (or by its only seed). The baseline costs K additions in the search of its "
        "paper, ICQ those in parentheses. An attempt is the best of two or three variants of ICQ, by rows that no "
        "figure uses (*Controls*); no default was changed.",
        "",
        "| data | best baseline | K: ICQ minus it (ops of ICQ) | attempts to mend it: the best, at its K |",
        "| --- | --- | --- | --- |",
    ]
    for data, theirs in dict.fromkeys((one.data, one.theirs) for one in found):
        here = [one for one in found if (one.data, one.theirs) == (data, theirs)]
        gaps = "; ".join(f"{one.n_books}: {one.gap.interval()}{_cost(one.ops)}" for one in here)
        tried = [text for one in here if (text := attempt(figures, data, one.n_books))]
        lines.append(f"| {title(data)} | {theirs} | {gaps} | {'; '.join(tried) or 'none'} |")
    return "\n".join(lines) + "\n"


def _cost(ops: Mean | None) -> str:
    return "" if ops is None else f" ({ops.value:.2f})"


def attempt(figures: Mapping[str, Results], data: str, n_books: int) -> str:
    """The best variant of ICQ in the controls, by its gap to the baseline, beside the default; empty without any."""
    for group in (GAP, HELD_OUT):
        results = figures.get(key(group))
        if results is None or n_books not in results.books(data):
            continue
        theirs = next((label for label in results.labels(data) if not label.startswith("ICQ")), None)
        gaps = {
            label: gap
            for label in results.labels(data)
            if theirs and label.startswith("ICQ") and (gap := results.gap(data, n_books, label, theirs, LISTS))
        }
        default = gaps.pop("ICQ", None)
        if default is None or not gaps:
            continue
        label, best = max(gaps.items(), key=lambda item: item[1].value)
        costs = [results.mean(data, name, n_books, OPS) for name in (label, "ICQ")]
        texts = [f"{gap.interval()}{_cost(ops)}" for gap, ops in zip((best, default), costs, strict=True)]
        return f"{n_books}: {label.removeprefix('ICQ, ')}, {texts[0]} in place of {texts[1]}"
    return ""
