"""Effects that the claims of the paper are about: paired differences, averaged over cases and seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import mean

from .checks import LISTS, SAME_BOOKS
from .summary import Mean, Results

Figures = Mapping[str, Results]
Effect = Callable[[Figures], Mean | None]
SYNTHETIC = ("synthetic1", "synthetic2", "synthetic3")


def more_books(n: int) -> bool:
    """Numbers of books with which ICQ has a crude step."""
    return n > SAME_BOOKS


def gap(
    figure: str,
    theirs: str,
    measure: str = LISTS,
    their_measure: str | None = None,
    *,
    books: Callable[[int], bool] = more_books,
) -> Effect:
    """ICQ minus another line, averaged over data sets and numbers of books."""

    def effect(figures: Figures) -> Mean | None:
        if (results := figures.get(figure)) is None:
            return None
        return results.pooled("ICQ", theirs, measure, their_measure, books=books)

    return effect


def equal_cost(
    figure: str,
    theirs: str,
    measure: str = LISTS,
    *,
    books: Callable[[int], bool] = more_books,
    their_data: str | None = None,
) -> Effect:
    """Precision of ICQ minus that of another line at the code length that costs SQ as many additions."""

    def effect(figures: Figures) -> Mean | None:
        if (results := figures.get(figure)) is None:
            return None
        by_seed = []
        for one in results.by_seed():
            gaps = []
            for data in one.data:
                for k in filter(books, one.books(data, "ICQ")):
                    bits = one.effective_length(data, "ICQ", k, "SQ+CQ", "exhaustive")
                    own = one.mean(data, "ICQ", k, measure)
                    other = None if bits is None else one.at_length(their_data or data, theirs, bits, measure)
                    gaps += [own.value - other] if own is not None and other is not None else []
            by_seed += [mean(gaps)] if gaps else []
        return Mean.of(by_seed) if by_seed else None

    return effect


def most_books(figure: str, label: str = "ICQ") -> Effect:
    """MAP@100 of a line with 16 books minus the best of fewer."""

    def effect(figures: Figures) -> Mean | None:
        if (results := figures.get(figure)) is None:
            return None
        by_seed = []
        for one in results.by_seed():
            gaps = []
            for data in one.data:
                values = {k: found.value for k in one.books(data, label) if (found := one.mean(data, label, k, LISTS))}
                if len(values) > 1 and (top := max(values)) == 16:
                    gaps.append(values.pop(top) - max(values.values()))
            by_seed += [mean(gaps)] if gaps else []
        return Mean.of(by_seed) if by_seed else None

    return effect


def informative(figures: Figures) -> Mean | None:
    """Gain of ICQ over SQ+CQ on Dataset 1 minus that on Dataset 3."""
    if (results := figures.get("synthetic-cq")) is None:
        return None
    gains = []
    for one in results.by_seed():
        pair = [
            one.pooled("ICQ", "SQ+CQ", LISTS, data=[data], books=more_books) for data in (SYNTHETIC[0], SYNTHETIC[2])
        ]
        if pair[0] is not None and pair[1] is not None:
            gains.append(pair[0].value - pair[1].value)
    return Mean.of(gains) if gains else None
