"""Causes of the verdicts: comparisons with controls."""

from __future__ import annotations

from collections.abc import Callable

from .checks import LISTS
from .controls import BOTH, RATE, SCALE, SETTINGS, key
from .effects import Effect, Figures, more_books, most_books
from .summary import OPS, Mean, Results

#: A lead that is smaller than this share of another one differs from it.
MOST_OF_IT = 0.75
AS_TUNED = "as in the figures"


def share_of_cascade(
    results: Results, ours: str, theirs: str, books: Callable[[int], bool] = more_books
) -> float | None:
    """Additions that another line saves in our search, as a share of those that ours saves."""
    saved, of_theirs = [], []
    for data in results.data:
        for k in filter(books, results.books(data, ours)):
            own, other = results.mean(data, ours, k, OPS), results.mean(data, theirs, k, OPS)
            if own is not None and other is not None:
                saved.append(k - own.value)
                of_theirs.append(k - other.value)
    return sum(of_theirs) / sum(saved) if saved and sum(saved) > 0 else None


def by_cascade(figure: str, theirs: str) -> Callable[[Figures], str]:
    """Whether the search saves the additions, or the learned split."""

    def cause(figures: Figures) -> str:
        share = share_of_cascade(figures[figure], "ICQ", theirs) if figure in figures else None
        if share is None:
            return "undecided"
        what = "the method's search" if share > 0.5 else "the method's split"
        return f"{what}: {theirs} saves {share:.0%} of it in the same search"

    return cause


def by_recipe(figures: Figures) -> str:
    """Whether the method as written has the same effect as our recipe (Datasets 1-3, 8 books)."""
    if (results := figures.get("ablation")) is None:
        return "undecided"
    pair = [results.pooled(label, "SQ+CQ", LISTS) for label in ("ICQ", "as written")]
    if pair[0] is None or pair[1] is None:
        return "undecided"
    ours, written = pair[0].sign(), pair[1].sign()
    if not ours or not written:  # one seed, or no difference
        return "undecided"
    told = f"as written {pair[1].interval()} against SQ+CQ at 8 books"
    return f"the method ({told})" if ours == written else f"our recipe ({told})"


def by_measure(effect: Callable[[str, str, str], Effect], figure: str, theirs: str) -> Callable[[Figures], str]:
    """Whether the MAP of the whole ranking says the same as MAP@100."""

    def cause(figures: Figures) -> str:
        lists, ranking = (effect(figure, theirs, measure)(figures) for measure in (LISTS, "map"))
        if lists is None or ranking is None or not ranking.sign():
            return "undecided"
        told = f"the MAP of the whole ranking differs by {ranking.interval()}"
        return f"the same by either measure: {told}" if lists.value * ranking.value > 0 else f"the measure: {told}"

    return cause


def by_settings(otherwise: Callable[[Figures], str]) -> Callable[[Figures], str]:
    """Whether a lead over SQ+CQ on GIST features remains if both methods have the same settings."""

    def cause(figures: Figures) -> str:
        found = leads(figures)
        if AS_TUNED not in found or BOTH not in found or found[AS_TUNED].n < 2:
            return otherwise(figures)
        tuned, same = found[AS_TUNED], found[BOTH]
        told = f"with the same two settings the lead on GIST is {same.interval()} in place of {tuned.interval()}"
        if same.sign() != 1:
            return f"possibly tuning: {told}"
        return f"partly tuning: {told}" if same.value < MOST_OF_IT * tuned.value else f"not the settings: {told}"

    return cause


def leads(figures: Figures, books: Callable[[int], bool] = more_books) -> dict[str, Mean]:
    """MAP@100 of ICQ minus SQ+CQ on GIST features: with the settings of the figures, and with the same for both."""
    if (results := figures.get(key(SETTINGS))) is None:
        return {}
    lines = {AS_TUNED: (RATE, SCALE), RATE: (RATE, RATE), SCALE: (SCALE, SCALE), BOTH: (BOTH, BOTH)}
    found = {
        name: results.pooled(f"ICQ, {ours}", f"SQ+CQ, {theirs}", LISTS, books=books)
        for name, (ours, theirs) in lines.items()
    }
    return {name: lead for name, lead in found.items() if lead is not None}


def without_split(figures: Figures) -> str:
    """Whether 16 books change the precision of books without a split in the same direction."""
    ours, theirs = (most_books("real-sq", label)(figures) for label in ("ICQ", "SQ+CQ"))
    if ours is None or theirs is None or not theirs.sign():
        return "undecided"
    told = f"SQ+CQ has {'less' if theirs.value < 0 else 'more'}, {theirs.interval()}"
    return f"not the split: {told}" if ours.value * theirs.value > 0 else f"the split: {told}"


def always(text: str) -> Callable[[Figures], str]:
    return lambda figures: text
