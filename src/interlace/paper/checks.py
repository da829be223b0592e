"""Checks of claims: each function returns a check, which gives a verdict and the numbers behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

from .summary import OPS, Mean, Results

HELD, PARTLY, FAILED, OPEN = "held", "held in part", "did not hold", "not measured"
#: No interval excludes 0, so neither side is ahead; and cases of one seed, which have no interval.
LEVEL, SINGLE = "no difference", "one seed, undecided"
#: With this many books ICQ has no crude step and equals SQ+CQ, so the two are not compared.
SAME_BOOKS = 2
#: Precision of the lists that a search returns, and of the whole ranking, which is given beside it.
LISTS, WHOLE = "map@100", "map"
NAMES = {LISTS: "MAP@100", WHOLE: "MAP", "error": "error", OPS: "operations"}
_LEFT_OUT = "; cases with 2 books are excluded, because both methods are the same there"


@dataclass(frozen=True)
class Answer:
    """Verdict on one claim."""

    verdict: str
    numbers: str
    tested: int = 0  #: cases that were compared with an interval


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


@dataclass(frozen=True)
class Counted:
    """Cases by the sign of their gap: ahead, behind, no difference, one seed."""

    ahead: int
    behind: int
    level: int
    single: int

    @classmethod
    def of(cls, gaps: Sequence[Mean], sign: int = 1, least: float = 0.0) -> Counted:
        """Gaps count if their interval excludes 0 and they exceed ``least``; ``sign`` -1: less is better."""
        signs = [None if (found := gap.sign(least)) is None else sign * found for gap in gaps]
        return cls(*(signs.count(value) for value in (1, -1, 0, None)))

    @property
    def tested(self) -> int:
        """Cases with an interval."""
        return self.ahead + self.behind + self.level

    @property
    def text(self) -> str:
        """For answers."""
        single = f", one seed in {self.single}" if self.single else ""
        return f"ahead in {self.ahead}, behind in {self.behind}, no difference in {self.level}{single}"

    @property
    def at_least(self) -> str:
        """Verdict on the claim to be at least as good: at most half of the cases behind is in part."""
        if not self.tested:
            return SINGLE
        if self.behind:
            return FAILED if 2 * self.behind > self.tested else PARTLY
        return HELD if self.ahead else LEVEL

    @property
    def better(self) -> str:
        """Verdict on the claim to be better: all cases ahead, or some."""
        if not self.tested:
            return SINGLE
        if self.ahead:
            return HELD if self.ahead == self.tested else PARTLY
        return FAILED if self.behind else LEVEL


def _summary(cases: Sequence[Case], counted: Counted, what: str, sign: int) -> str:
    where, worst = min(cases, key=lambda case: sign * case[1].value)
    n = f"{len(cases)} case{'s'[: len(cases) > 1]}"
    average = mean(gap.value for _, gap in cases)
    return f"{what} {average:+.3f} on average over {n}, worst {worst.interval()} ({where}); {counted.text}"


def _compared(
    results: Results,
    ours: str,
    theirs: str,
    measure: str,
    verdict_of: Callable[[Counted], str],
    *,
    sign: int = 1,
    least: float = 0.0,
    books: Callable[[int], bool] = lambda n: True,
    their_measure: str | None = None,
) -> Answer:
    """A verdict by one measure; for lists also the verdict by the whole ranking, because the two may disagree."""
    cases = _cases(results, ours, theirs, measure, their_measure, books)
    if not cases:
        return Answer(OPEN, "")
    counted = Counted.of([gap for _, gap in cases], sign, least)
    numbers = _summary(cases, counted, NAMES.get(measure, measure), sign)
    if measure == LISTS and (whole := _cases(results, ours, theirs, WHOLE, books=books)):
        other = Counted.of([gap for _, gap in whole], sign, least)
        average = mean(gap.value for _, gap in whole)
        numbers += f"; by MAP of the whole ranking {verdict_of(other)}: {average:+.3f}, {other.text}"
    return Answer(verdict_of(counted), numbers, counted.tested)


def at_least(ours: str, theirs: str, least: float = 0.0, *, measure: str = LISTS, sign: int = 1) -> Check:
    """Holds if never behind by more than noise, or ``least``; fails if behind in most cases."""
    books = _other_books(ours, theirs)

    def check(results: Results) -> Answer:
        return _compared(results, ours, theirs, measure, lambda c: c.at_least, sign=sign, least=least, books=books)

    return check


def _other_books(ours: str, theirs: str) -> Callable[[int], bool]:
    """Numbers of books with which the two are different methods."""
    same = {ours, theirs} == {"ICQ", "SQ+CQ"}
    return lambda n: n > SAME_BOOKS or not same


def ahead(ours: str, theirs: str, measure: str = LISTS, sign: int = 1, least: float = 0.0) -> Check:
    """Holds if ahead in all cases by more than noise, or ``least``."""
    books = _other_books(ours, theirs)

    def check(results: Results) -> Answer:
        found = _compared(results, ours, theirs, measure, lambda c: c.better, sign=sign, least=least, books=books)
        left_out = "" if books(SAME_BOOKS) or not found.numbers else _LEFT_OUT
        return Answer(found.verdict, found.numbers + left_out, found.tested)

    return check


def fewer_ops(theirs: str, ours: str = "ICQ", reference: str = "exhaustive") -> Check:
    """Holds if there are fewer table additions than in the other method, for more than two books."""

    def check(results: Results) -> Answer:
        return _compared(
            results,
            ours,
            theirs,
            OPS,
            lambda c: c.better,
            sign=-1,
            books=lambda n: n > SAME_BOOKS,
            their_measure=reference,
        )

    return check


def growing_gap(ours: str = "ICQ") -> Check:
    """Holds if the number of saved additions grows with the number of books and is 0 with two books."""

    def check(results: Results) -> Answer:
        texts, grows, none = [], True, True
        for data in results.data:
            saved = []
            for n_books in results.books(data, ours):
                ops = results.mean(data, ours, n_books, OPS)
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
    operations: bool = False,
    their_data: str | None = None,
) -> Check:
    """Our MAP@100 against theirs at our effective length; ``long_only``: ahead for long codes, not for short ones.

    If their shortest code is longer than that, it is used, although it costs more operations than ours. ``operations``
    gives lengths in table additions, one per byte. ``their_data``: features of the same images that they learn from.
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
                    other = None if bits is None else one.at_length(their_data or data, theirs, bits, measure)
                    if bits is not None and own is not None and other is not None:
                        found.setdefault((data, n_books), []).append((bits, own.value - other))
        return found

    def verdict_of(counted: Counted, signs: list[int | None]) -> str:
        if not long_only or not counted.tested:
            return counted.better
        if signs[-1] != 1:
            return LEVEL if signs[-1] == 0 and not counted.behind else FAILED
        return HELD if counted.ahead < counted.tested else PARTLY

    def check(results: Results) -> Answer:
        found = gaps(results, LISTS)
        if not found:
            return Answer(OPEN, "")
        texts, means = [], []
        for (data, n_books), pairs in sorted(found.items()):
            gap, bits = Mean.of([gap for _, gap in pairs]), mean(bits for bits, _ in pairs)
            shortest = 8 * results.books(their_data or data, theirs)[0]
            against = f", against {shortest // bits_of_unit}" if bits < shortest - 0.5 else ""
            where = f"{data}, " if len(results.data) > 1 else ""
            length = f"{bits / bits_of_unit:.{int(operations)}f} {unit}"
            texts.append(f"{gap.value:+.3f} at {length} ({where}{n_books} books{against})")
            means.append(gap)
        counted = Counted.of(means)
        numbers = f"MAP@100 {', '.join(texts)}; {counted.text}"
        whole = [Mean.of([gap for _, gap in pairs]) for _, pairs in sorted(gaps(results, WHOLE).items())]
        if whole:
            other = Counted.of(whole)
            verdict = verdict_of(other, [gap.sign() for gap in whole])
            numbers += f"; by MAP of the whole ranking {verdict}: {', '.join(f'{gap.value:+.3f}' for gap in whole)}"
        left_out = "" if books(SAME_BOOKS) else _LEFT_OUT
        return Answer(verdict_of(counted, [gap.sign() for gap in means]), numbers + left_out, counted.tested)

    return check


def peaks_with_most_books(*labels: str) -> Check:
    """Holds if MAP@100 is lowest with the fewest books and highest with the most, on every data set."""

    def rising(results: Results, measure: str) -> tuple[list[bool], list[str]]:
        texts, rises = [], []
        for data in results.data:
            for label in labels:
                means = {
                    k: found.value
                    for k in results.books(data, label)
                    if k >= SAME_BOOKS and (found := results.mean(data, label, k, measure))
                }
                if len(means) > 1:
                    ordered = [means[k] for k in sorted(means)]
                    rises.append(ordered[-1] == max(ordered) and ordered[0] == min(ordered))
                    texts.append(f"{label} on {data} {', '.join(f'{value:.3f}' for value in ordered)}")
        return rises, texts

    def check(results: Results) -> Answer:
        rises, texts = rising(results, LISTS)
        if not texts:
            return Answer(OPEN, "")
        whole = rising(results, WHOLE)[1]
        verdict = HELD if all(rises) else PARTLY if any(rises) else FAILED
        numbers = f"MAP@100 by number of books, ascending: {'; '.join(texts)}"
        return Answer(verdict, numbers + (f"; MAP: {'; '.join(whole)}" if whole else ""))

    return check


def many_informative(results: Results) -> Answer:
    """Is the gain of ICQ over SQ+CQ larger with many informative features (the paper's text) or few (its set-up)?"""
    sets = ("synthetic1", "synthetic2", "synthetic3")
    # The same numbers of books and draws for all data sets, because gaps depend on the number of books.
    books = [
        k
        for k in results.books()
        if k > SAME_BOOKS and all(results.gap(data, k, "ICQ", "SQ+CQ", LISTS) is not None for data in sets)
    ]
    gains = [[_gain(one, data, books) for data in sets] for one in results.by_seed()]
    gains = [gain for gain in gains if not any(map(math.isnan, gain))]
    if not books or not gains:
        return Answer(OPEN, "")
    many, some, few = (Mean.of([gain[i] for gain in gains]) for i in range(3))
    more = Mean.of([gain[0] - gain[2] for gain in gains])
    if (sign := many.sign()) is None:
        return Answer(SINGLE, f"MAP@100 {', '.join(f'{gain.value:+.3f}' for gain in (many, some, few))}")
    larger = more.sign()
    how = {1: "larger than", -1: "smaller than"}.get(larger or 0, "no different from the gain")
    text = ", ".join(f"{gain.value:+.3f} on {data}" for data, gain in zip(sets, (many, some, few), strict=True))
    verdict = HELD if sign == 1 and larger == 1 else PARTLY if sign == 1 else FAILED if sign == -1 else LEVEL
    return Answer(
        verdict,
        f"MAP@100 of ICQ against SQ+CQ at {', '.join(map(str, books))} books {text}; its gain with many informative "
        f"features (32) is {how} with few (8)",
        2,
    )


def _gain(results: Results, data: str, books: Sequence[int]) -> float:
    """Gain of ICQ over SQ+CQ, averaged over numbers of books; nan if one is missing."""
    gaps = [results.gap(data, k, "ICQ", "SQ+CQ", LISTS) for k in books]
    return mean(math.nan if gap is None else gap.value for gap in gaps) if gaps else math.nan
