"""Checks of claims: each function returns a check, which gives a verdict and the numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

from .summary import Mean, Results

HELD, PARTLY, FAILED, OPEN = "held", "held in part", "did not hold", "not measured"
#: With this many books ICQ has no crude step and equals SQ+CQ, so the two are not compared.
SAME_BOOKS = 2
_LEFT_OUT = "; cases with 2 books are excluded, because both methods are the same there"


@dataclass(frozen=True)
class Answer:
    """Verdict on one claim."""

    verdict: str
    numbers: str


Check = Callable[[Results], Answer]


#: Where a gap was measured, and the gap.
Case = tuple[str, Mean]


def _where(data: str, n_books: int) -> str:
    return f"{data}, {n_books} books"


def _cases(
    results: Results,
    ours: str,
    theirs: str,
    measure: str,
    their_measure: str | None = None,
    books: Callable[[int], bool] = lambda n: True,
) -> list[Case]:
    """Ours minus theirs for all data sets and numbers of books where both were measured."""
    found = []
    for data in results.data:
        for n_books in filter(books, results.books(data, ours)):
            gap = results.gap(data, n_books, ours, theirs, measure, their_measure)
            if gap is not None:
                found.append((_where(data, n_books), gap))
    return found


def _counted(cases: Sequence[Case], what: str, sign: int = 1, least: float = 0.0) -> tuple[int, int, str]:
    """Cases ahead and behind, and a summary; a gap within two standard errors, or ``least``, counts as neither."""
    ahead = sum(sign * gap.value > max(gap.noise, least) for _, gap in cases)
    behind = sum(-sign * gap.value > max(gap.noise, least) for _, gap in cases)
    where, worst = min(cases, key=lambda case: sign * case[1].value)
    n = f"{len(cases)} case{'s'[: len(cases) > 1]}"
    numbers = (
        f"{what} {mean(gap.value for _, gap in cases):+.3f} on average over {n}, worst "
        f"{worst.value:+.3f} ({where}); ahead in {ahead}, behind in {behind}, within noise in "
        f"{len(cases) - ahead - behind}"
    )
    return ahead, behind, numbers


def _by_lists(results: Results, ours: str, theirs: str, measure: str, books: Callable[[int], bool]) -> str:
    """Gaps of MAP@100: a good ranking of whole classes does not imply a good order of the first hundred rows."""
    if measure != "map" or not (cases := _cases(results, ours, theirs, "map@100", books=books)):
        return ""
    ahead, behind, _ = _counted(cases, "")
    return f"; MAP@100 {mean(gap.value for _, gap in cases):+.3f}, ahead in {ahead}, behind in {behind}"


def at_least(
    ours: str, theirs: str, least: float = 0.0, *, measure: str = "map", what: str = "MAP", sign: int = 1
) -> Check:
    """Holds if never behind by more than noise, or ``least``; fails if behind in most cases."""
    books = _other_books(ours, theirs) if measure != "map" else lambda n: True

    def check(results: Results) -> Answer:
        cases = _cases(results, ours, theirs, measure, books=books)
        if not cases:
            return Answer(OPEN, "")
        _, behind, numbers = _counted(cases, what, sign, least)
        verdict = HELD if not behind else FAILED if 2 * behind > len(cases) else PARTLY
        return Answer(verdict, numbers + _by_lists(results, ours, theirs, measure, books))

    return check


def _other_books(ours: str, theirs: str) -> Callable[[int], bool]:
    """Numbers of books with which the two are different methods."""
    same = {ours, theirs} == {"ICQ", "SQ+CQ"}
    return lambda n: n > SAME_BOOKS or not same


def ahead(ours: str, theirs: str, measure: str = "map", what: str = "MAP", sign: int = 1, least: float = 0.0) -> Check:
    """Holds if ahead in all cases by more than noise, or ``least``."""
    books = _other_books(ours, theirs)

    def check(results: Results) -> Answer:
        cases = _cases(results, ours, theirs, measure, books=books)
        if not cases:
            return Answer(OPEN, "")
        better, _, numbers = _counted(cases, what, sign, least)
        verdict = HELD if better == len(cases) else PARTLY if better else FAILED
        numbers += _by_lists(results, ours, theirs, measure, books)
        return Answer(verdict, numbers + ("" if books(SAME_BOOKS) else _LEFT_OUT))

    return check


def fewer_ops(theirs: str, ours: str = "ICQ", reference: str = "exhaustive") -> Check:
    """Holds if there are fewer table additions than in the other method, for more than two books."""

    def check(results: Results) -> Answer:
        cases = _cases(results, ours, theirs, "two-step", reference, lambda n: n > 2)
        if not cases:
            return Answer(OPEN, "")
        fewer, _, numbers = _counted(cases, "operations", -1)
        return Answer(HELD if fewer == len(cases) else PARTLY if fewer else FAILED, numbers)

    return check


def growing_gap(ours: str = "ICQ") -> Check:
    """Holds if the number of saved additions grows with the number of books and is 0 with two books."""

    def check(results: Results) -> Answer:
        texts, grows, none = [], True, True
        for data in results.data:
            saved = []
            for n_books in results.books(data, ours):
                ops = results.mean(data, ours, n_books, "two-step")
                if ops is not None:
                    saved.append((n_books, n_books - ops.value))
            if len(saved) > 1:
                grows &= all(a[1] < b[1] for a, b in zip(saved, saved[1:], strict=False))
                none &= all(gap < 0.05 for n, gap in saved if n == 2)
                texts.append(f"{data} " + ", ".join(f"{gap:.2f} of {n}" for n, gap in saved))
        if not texts:
            return Answer(OPEN, "")
        verdict = HELD if grows and none else PARTLY if grows or none else FAILED
        two = "none with 2 books" if none else "some also with 2 books, where our search reads one book first"
        return Answer(verdict, f"saved additions: {'; '.join(texts)}; {two}")

    return check


def equal_length(
    theirs: str,
    ours: str = "ICQ",
    *,
    long_only: bool = False,
    of_theirs: str = "exhaustive",
    measure: str = "map",
    what: str = "MAP",
    operations: bool = False,
) -> Check:
    """Our MAP against theirs at our effective length; ``long_only``: ahead for long codes, not for short ones.

    If their shortest code is longer than that, it is used, although it costs more operations than ours. ``operations``
    gives lengths in table additions, one per byte.
    """
    unit, bits_of_unit = ("additions", 8) if operations else ("bits", 1)
    books = _other_books(ours, theirs)

    def gaps(results: Results, measure: str) -> dict[tuple[str, int], list[tuple[float, float]]]:
        """Bits and gap of each seed, by data set and number of books."""
        found: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for one in results.by_seed():
            for data in one.data:
                for n_books in filter(books, one.books(data, ours)):
                    bits = one.effective_length(data, ours, n_books, "SQ+CQ", of_theirs)
                    own = one.mean(data, ours, n_books, measure)
                    other = None if bits is None else one.at_length(data, theirs, bits, measure)
                    if bits is not None and own is not None and other is not None:
                        found.setdefault((data, n_books), []).append((bits, own.value - other))
        return found

    def check(results: Results) -> Answer:
        found = gaps(results, measure)
        if not found:
            return Answer(OPEN, "")
        texts, better = [], []
        for (data, n_books), pairs in sorted(found.items()):
            gap, bits = Mean.of([gap for _, gap in pairs]), mean(bits for bits, _ in pairs)
            shortest = 8 * results.books(data, theirs)[0]
            against = f", against {shortest // bits_of_unit}" if bits < shortest - 0.5 else ""
            where = f"{data}, " if len(results.data) > 1 else ""
            length = f"{bits / bits_of_unit:.{int(operations)}f} {unit}"
            texts.append(f"{gap.value:+.3f} at {length} ({where}{n_books} books{against})")
            better.append(gap.value > gap.noise)
        if long_only:
            verdict = HELD if better[-1] and not all(better) else PARTLY if better[-1] else FAILED
        else:
            verdict = HELD if all(better) else PARTLY if any(better) else FAILED
        numbers = f"{what} {', '.join(texts)}; ahead in {sum(better)} of {len(better)}"
        if measure == "map" and (lists := gaps(results, "map@100")):
            means = (mean(gap for _, gap in pairs) for _, pairs in sorted(lists.items()))
            numbers += f"; MAP@100 {', '.join(f'{gap:+.3f}' for gap in means)}"
        return Answer(verdict, numbers + ("" if books(SAME_BOOKS) else _LEFT_OUT))

    return check


def peaks_with_most_books(*labels: str) -> Check:
    """Holds if MAP is lowest with the fewest books and highest with the most, on every data set."""

    def check(results: Results) -> Answer:
        texts, rises = [], []
        for data in results.data:
            for label in labels:
                means = {
                    k: found.value for k in results.books(data, label) if (found := results.mean(data, label, k, "map"))
                }
                if len(means) > 1:
                    ordered = [means[k] for k in sorted(means)]
                    rises.append(ordered[-1] == max(ordered) and ordered[0] == min(ordered))
                    texts.append(f"{label} on {data} {', '.join(f'{value:.3f}' for value in ordered)}")
        if not texts:
            return Answer(OPEN, "")
        verdict = HELD if all(rises) else PARTLY if any(rises) else FAILED
        return Answer(verdict, f"MAP by number of books, ascending: {'; '.join(texts)}")

    return check


def many_informative(results: Results) -> Answer:
    """Is the gain of ICQ over SQ+CQ larger with many informative features (the paper's text) or few (its set-up)?"""
    sets = ("synthetic1", "synthetic2", "synthetic3")
    # The same numbers of books and draws for all data sets, because gaps depend on the number of books.
    books = [
        k
        for k in results.books()
        if k > SAME_BOOKS and all(results.gap(data, k, "ICQ", "SQ+CQ", "map") is not None for data in sets)
    ]
    gains = [[_gain(one, data, books) for data in sets] for one in results.by_seed()]
    gains = [gain for gain in gains if not any(map(math.isnan, gain))]
    if not books or not gains:
        return Answer(OPEN, "")
    many, some, few = (Mean.of([gain[i] for gain in gains]) for i in range(3))
    more = Mean.of([gain[0] - gain[2] for gain in gains])
    ahead, larger = many.value > many.noise, more.value > more.noise
    how = "larger than" if larger else "smaller than" if -more.value > more.noise else "within noise of the gain"
    text = ", ".join(f"{gain.value:+.3f} on {data}" for data, gain in zip(sets, (many, some, few), strict=True))
    return Answer(
        HELD if ahead and larger else PARTLY if ahead else FAILED,
        f"MAP of ICQ against SQ+CQ at {', '.join(map(str, books))} books {text}; its gain with many informative "
        f"features (32) is {how} with few (8)",
    )


def _gain(results: Results, data: str, books: Sequence[int]) -> float:
    """Gain of ICQ over SQ+CQ, averaged over numbers of books; nan if one is missing."""
    gaps = [results.gap(data, k, "ICQ", "SQ+CQ", "map") for k in books]
    return mean(math.nan if gap is None else gap.value for gap in gaps) if gaps else math.nan


def lower_error(dense: Sequence[str], product: Sequence[str]) -> Check:
    """Holds if the worst dense books have a lower error on held-out rows than the best product books of equal bytes."""

    def check(results: Results) -> Answer:
        texts, held = [], []
        for n_books in results.books("vectors"):
            errors = [
                {label: found.value for label in labels if (found := results.mean("vectors", label, n_books, "error"))}
                for labels in (dense, product)
            ]
            if all(errors):
                worst = max(errors[0], key=lambda label: errors[0][label])
                best = min(errors[1], key=lambda label: errors[1][label])
                held.append(errors[0][worst] < errors[1][best])
                texts.append(f"{n_books} books: {worst} {errors[0][worst]:.3f}, {best} {errors[1][best]:.3f}")
        if not texts:
            return Answer(OPEN, "")
        verdict = HELD if all(held) else PARTLY if any(held) else FAILED
        return Answer(
            verdict,
            f"worst of the former and best of the latter, error as a share of the variance: {'; '.join(texts)}",
        )

    return check
