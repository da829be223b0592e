"""Where ICQ is behind the best baseline of a data set, and what was tried to change it: a table of the first page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .attempts import ATTEMPTS, PROTOCOLS, UNSEEN
from .checks import LISTS
from .controls import CONTROLS, GAP, HELD_OUT
from .defaults import DEFAULTS
from .names import title
from .summary import OPS, VALIDATION, Mean, Results

#: Figures that compare methods; ``ablation`` and ``codes`` compare variants and codes without labels.
FIGURES = ("synthetic-pq", "synthetic-cq", "real-sq", "effective", "pqn", "unseen", "published", "text")
#: Our lines; others of ICQ are variants.
OURS = ("ICQ", "ICQ (CNN)")


#: Baselines that attempts are compared with, by the start of their labels.
BASELINES = ("SQ+PQ", "SQ+CQ", "DPQ")
#: Groups of attempts, and the measure that judges them. End-to-end fits are judged by the images that they hold out.
JUDGED = {
    CONTROLS.key(GAP): LISTS,
    ATTEMPTS.key(GAP): LISTS,
    DEFAULTS.key(GAP): LISTS,
    ATTEMPTS.key(UNSEEN): LISTS,
    CONTROLS.key(HELD_OUT): LISTS,
    ATTEMPTS.key(PROTOCOLS): VALIDATION,
}


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
        "paper, ICQ those in parentheses. An attempt is the best of one to three variants of ICQ, by rows that no "
        "figure uses (appendix, *Controls and attempts*); no default was changed.",
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
    """The best variant of ICQ, by its gap to the baseline, beside the default; empty without any."""
    for group, measure in JUDGED.items():
        results = figures.get(group)
        if results is None or n_books not in results.books(data):
            continue
        labels = results.labels(data)
        default = next((label for label in labels if label in OURS), None)
        theirs = next((label for label in labels if label.startswith(BASELINES)), None)
        if default is None or theirs is None:
            continue
        tried = [label for label in labels if label.startswith("ICQ") and label not in OURS]
        gaps = {label: gap for label in tried if (gap := results.gap(data, n_books, label, theirs, measure))}
        before = results.gap(data, n_books, default, theirs, measure)
        if before is None or not gaps:
            continue
        label, best = max(gaps.items(), key=lambda item: item[1].value)
        costs = [results.mean(data, name, n_books, OPS) for name in (label, default)]
        texts = [f"{gap.interval()}{_cost(ops)}" for gap, ops in zip((best, before), costs, strict=True)]
        by = " by the MAP of held-out images" if measure == VALIDATION else ""
        return f"{n_books}: {label.removeprefix(default).lstrip(', ')}, {texts[0]} in place of {texts[1]}{by}"
    return ""
