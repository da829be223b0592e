"""The first page of the results: what became of the claims of the paper, with effect sizes, intervals and causes.

Each claim has one effect: the mean over seeds of a paired difference, averaged over all cases that the claim covers.
Its verdict uses Student's t and a p-value that is corrected for the number of claims (Holm). A claim about several data
sets is *mixed* if the interval of one of them contradicts the average.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .causes import always, by_cascade, by_measure, by_recipe, by_settings, without_split
from .checks import FAILED, HELD, LEVEL, OPEN, SINGLE
from .effects import Effect, Figures, equal_cost, gap, informative, most_books
from .statistics import CONFIDENCE, holm
from .summary import OPS, Mean

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
        cause=always("the embedding"),
        figure="effective",
    ),
    Statement(
        "linear ICQ is ahead of deep DPQ at long codes",
        "Fig. 4",
        equal_cost("effective", "DPQ (CNN)", books=lambda n: n >= 16, their_data=CNN),
        "MAP@100",
        cause=always("the embedding"),
        figure="effective",
    ),
    Statement(
        "ICQ is ahead of PQN with the same code length",
        "Fig. 5",
        gap("pqn", "PQN", books=lambda n: True),
        "MAP@100",
        cause=always("the loss, see the appendix"),
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
        always("the method: books are restricted to their group"),
        figure="real-sq",
    ),
    Statement(
        "(ours) ICQ needs fewer operations than SQ+CQ in the same search",
        "-",
        gap("real-sq", "SQ+CQ", OPS),
        "additions",
        -1,
        always("the method's split"),
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
    signs = {part.sign() for part in parts.values()} | {whole}
    if {-1, 1} <= signs:
        return MIXED
    return LEVEL if not whole else HELD if sign == whole else FAILED
