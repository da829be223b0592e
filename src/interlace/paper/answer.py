"""The first page of the results: what became of the claims of the paper, with effect sizes, intervals and causes.

Each claim has one effect: the mean over seeds of a paired difference, averaged over all cases that the claim covers.
Its verdict uses Student's t and a p-value that is corrected for the number of claims (Holm). A claim about several data
sets is *mixed* if the interval of one of them contradicts the average.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean

from .checks import FAILED, HELD, LEVEL, LISTS, OPEN, SAME_BOOKS, SINGLE
from .controls import RATE, SCALE, SETTINGS, key
from .statistics import CONFIDENCE, holm
from .summary import OPS, Mean, Results

Figures = Mapping[str, Results]
Effect = Callable[[Figures], Mean | None]
SYNTHETIC = ("synthetic1", "synthetic2", "synthetic3")
#: A lead that is smaller than this share of another one differs from it.
MOST_OF_IT = 0.75
#: A data set contradicts the average over all.
MIXED = "mixed"
#: Features of the network that deep methods learn on.
CNN = "cifar10-cnn3"


@dataclass(frozen=True)
class Statement:
    """A claim of the paper."""

    sentence: str
    place: str  #: in the paper
    effect: Effect
    unit: str
    sign: int = 1  #: -1 if less is better
    cause: Callable[[Figures], str] = lambda figures: "undecided"
    figure: str = ""  #: whose data sets the effect averages over; empty: it compares data sets


@dataclass(frozen=True)
class Verdict:
    """What became of it."""

    statement: Statement
    effect: Mean | None
    p: float  #: corrected; nan if unknown
    verdict: str
    cause: str
    parts: Mapping[str, Mean] = field(default_factory=dict)  #: the effect on each data set, if there are several

    @property
    def disagree(self) -> bool:
        """Whether the intervals of the data sets have different signs."""
        return len({part.sign() for part in self.parts.values()}) > 1

    @property
    def places(self) -> int:
        """Decimal places of the effect."""
        return 2 if self.statement.unit == "additions" else 3


def _more(n: int) -> bool:
    """Numbers of books with which ICQ has a crude step."""
    return n > SAME_BOOKS


def gap(
    figure: str,
    theirs: str,
    measure: str = LISTS,
    their_measure: str | None = None,
    *,
    books: Callable[[int], bool] = _more,
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
    books: Callable[[int], bool] = _more,
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
        pair = [one.pooled("ICQ", "SQ+CQ", LISTS, data=[data], books=_more) for data in (SYNTHETIC[0], SYNTHETIC[2])]
        if pair[0] is not None and pair[1] is not None:
            gains.append(pair[0].value - pair[1].value)
    return Mean.of(gains) if gains else None


# --- causes


def share_of_cascade(results: Results, ours: str, theirs: str, books: Callable[[int], bool] = _more) -> float | None:
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
        pair = leads(figures)
        if pair is None:
            return otherwise(figures)
        tuned, same = pair
        told = f"with the same settings the lead on GIST is {same.interval()} in place of {tuned.interval()}"
        if same.sign() != 1:
            return f"possibly tuning: {told}"
        return f"partly tuning: {told}" if same.value < MOST_OF_IT * tuned.value else f"not the settings: {told}"

    return cause


def leads(figures: Figures, books: Callable[[int], bool] = _more) -> tuple[Mean, Mean] | None:
    """MAP@100 of ICQ minus SQ+CQ on GIST: with the settings of the figures, and with both changes for both."""
    if (results := figures.get(key(SETTINGS))) is None:
        return None
    lines = ((f"ICQ, {RATE}", f"SQ+CQ, {SCALE}"), ("ICQ, both", "SQ+CQ, both"))
    tuned, same = (results.pooled(ours, theirs, LISTS, books=books) for ours, theirs in lines)
    return None if tuned is None or same is None or tuned.n < 2 else (tuned, same)


def without_split(figures: Figures) -> str:
    """Whether 16 books change the precision of books without a split in the same direction."""
    ours, theirs = (most_books("real-sq", label)(figures) for label in ("ICQ", "SQ+CQ"))
    if ours is None or theirs is None or not theirs.sign():
        return "undecided"
    told = f"SQ+CQ has {'less' if theirs.value < 0 else 'more'}, {theirs.interval()}"
    return f"not the split: {told}" if ours.value * theirs.value > 0 else f"the split: {told}"


def _always(text: str) -> Callable[[Figures], str]:
    return lambda figures: text


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "ICQ is as precise as SQ+PQ with the same books",
        "Fig. 1",
        gap("synthetic-pq", "SQ+PQ"),
        "MAP@100",
        cause=by_measure(gap, "synthetic-pq", "SQ+PQ"),
        figure="synthetic-pq",
    ),
    Statement(
        "ICQ searches faster than SQ+PQ",
        "Fig. 1",
        gap("synthetic-pq", "SQ+PQ", OPS, "exhaustive"),
        "additions",
        -1,
        by_cascade("synthetic-pq", "SQ+CQ"),
        figure="synthetic-pq",
    ),
    Statement(
        "at the same speed ICQ is more precise than SQ+PQ",
        "Fig. 1",
        equal_cost("synthetic-pq", "SQ+PQ"),
        "MAP@100",
        cause=by_measure(equal_cost, "synthetic-pq", "SQ+PQ"),
        figure="synthetic-pq",
    ),
    Statement(
        "ICQ is as precise as SQ+CQ with the same books (synthetic)",
        "Fig. 2",
        gap("synthetic-cq", "SQ+CQ"),
        "MAP@100",
        cause=by_recipe,
        figure="synthetic-cq",
    ),
    Statement("ICQ gains more with many informative features", "Fig. 2", informative, "MAP@100"),
    Statement(
        "ICQ needs fewer operations than SQ+CQ (MNIST, CIFAR-10)",
        "Fig. 3",
        gap("real-sq", "SQ+CQ", OPS, "exhaustive"),
        "additions",
        -1,
        by_cascade("real-sq", "SQ+CQ"),
        figure="real-sq",
    ),
    Statement(
        "ICQ is as precise as SQ+CQ (MNIST, CIFAR-10)",
        "Fig. 3",
        gap("real-sq", "SQ+CQ"),
        "MAP@100",
        cause=by_settings(by_recipe),
        figure="real-sq",
    ),
    Statement(
        "precision peaks with 16 books",
        "Fig. 3",
        most_books("real-sq"),
        "MAP@100",
        cause=without_split,
        figure="real-sq",
    ),
    Statement(
        "ICQ is ahead of SQ at equal effective length",
        "Fig. 4",
        equal_cost("effective", "SQ+CQ"),
        "MAP@100",
        cause=by_settings(by_measure(equal_cost, "effective", "SQ+CQ")),
        figure="effective",
    ),
    Statement(
        "linear ICQ is ahead of deep DQN at equal effective length",
        "Fig. 4",
        equal_cost("effective", "DQN (CNN)", their_data=CNN),
        "MAP@100",
        cause=_always("the embedding"),
        figure="effective",
    ),
    Statement(
        "linear ICQ is ahead of deep DPQ at long codes",
        "Fig. 4",
        equal_cost("effective", "DPQ (CNN)", books=lambda n: n >= 16, their_data=CNN),
        "MAP@100",
        cause=_always("the embedding"),
        figure="effective",
    ),
    Statement(
        "ICQ is ahead of PQN with the same code length",
        "Fig. 5",
        gap("pqn", "PQN", books=lambda n: True),
        "MAP@100",
        cause=_always("the loss, see the appendix"),
        figure="pqn",
    ),
    Statement(
        "the advantage persists if PQN uses CQ: operations",
        "Fig. 5",
        gap("pqn", "PQN+CQ", OPS, "exhaustive"),
        "additions",
        -1,
        by_cascade("pqn", "PQN+CQ"),
        figure="pqn",
    ),
    Statement(
        "ICQ is ahead of SQ on unseen classes",
        "Fig. 6",
        gap("unseen", "SQ+CQ"),
        "MAP@100",
        cause=by_measure(gap, "unseen", "SQ+CQ"),
        figure="unseen",
    ),
    Statement(
        "ICQ does not increase the quantization error",
        "abstract",
        gap("real-sq", "SQ+CQ", "error"),
        "share of variance",
        -1,
        _always("the method: books are restricted to their group"),
        figure="real-sq",
    ),
    Statement(
        "(ours) ICQ needs fewer operations than SQ+CQ in the same search",
        "-",
        gap("real-sq", "SQ+CQ", OPS),
        "additions",
        -1,
        _always("the method's split"),
        figure="real-sq",
    ),
)


def verdicts(figures: Figures, statements: Sequence[Statement] = STATEMENTS) -> list[Verdict]:
    """The verdict on every statement."""
    effects = [statement.effect(figures) for statement in statements]
    known = [i for i, effect in enumerate(effects) if effect is not None and not math.isnan(effect.p)]
    corrected = dict(zip(known, holm([effects[i].p for i in known]), strict=True))  # type: ignore[union-attr]
    found = []
    for i, (statement, effect) in enumerate(zip(statements, effects, strict=True)):
        p, parts = corrected.get(i, math.nan), parts_of(statement, figures)
        verdict = _verdict(effect, p, statement.sign, parts)
        cause = "-" if verdict in (OPEN, LEVEL) else statement.cause(figures)
        found.append(Verdict(statement, effect, p, verdict, cause, parts))
    return found


def parts_of(statement: Statement, figures: Figures) -> dict[str, Mean]:
    """The effect on each data set with ICQ, if there are several."""
    if (results := figures.get(statement.figure)) is None:
        return {}
    sets = [data for data in results.data if "ICQ" in results.labels(data)]
    found = {data: statement.effect({statement.figure: results.only(data)}) for data in sets if len(sets) > 1}
    return {data: effect for data, effect in found.items() if effect is not None}


def _verdict(effect: Mean | None, p: float, sign: int, parts: Mapping[str, Mean]) -> str:
    if effect is None:
        return OPEN
    if math.isnan(p):
        return SINGLE
    whole = 0 if p >= 1 - CONFIDENCE else 1 if effect.value > 0 else -1
    if any(part.sign() and part.sign() != whole for part in parts.values()):
        return MIXED
    return LEVEL if not whole else HELD if sign == whole else FAILED
