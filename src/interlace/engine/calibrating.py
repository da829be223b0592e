"""Queries whose exact answers are known -> the cheapest rules that keep a target agreement, with confidence.

The loss of a query under a rule is the share of its k nearest rows that the rule would skip. It follows from the exact
answer alone: tau only falls during a search, so what the final tau would skip is the most that a search can. A rule is
accepted for a target if the hypothesis "its mean loss exceeds 1 - target" is rejected at level 1 - CONFIDENCE, on
queries that had no part in choosing it.

The test is a bet: a capital of 1 is multiplied by 1 + stake * (allowed - loss) for each query. If the mean loss were
above what is allowed, the expected capital would never exceed 1, so it passes 1 / (1 - CONFIDENCE) with a probability
of at most 1 - CONFIDENCE (Markov). It makes no assumption on the distribution of the losses, and lets rules lose the
more, the more queries there are. Rules are tested from careful to bold until the first one fails, which costs no
confidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from .._threads import cached_property
from ..codec.metric import Metric
from ..inputs.arrays import FloatArray
from .evidence import Held, Hits
from .margins import KS, SMALLEST_UNIT, TARGETS, Calibration, excess, gaps

Losses = NDArray[np.float64]

CONFIDENCE = 0.95
#: Share of the queries that rules are chosen by; the others test them.
CHOOSING = 0.2
#: No more than this is staked on a query: one that loses everything must not end the game.
STAKE = 0.95
#: Share of queries that count as unlike the others, and are searched exactly: the farthest ones, and those nearest to
#: the mean of the data.
UNLIKE = 0.002
#: Hits whose cells lie beyond the slack, as multiples of those that may be lost: few enough that the slack alone
#: protects queries of any kind.
BEYOND_SLACK = (10.0, 3.0)
#: The same where the floors of cells are tight bounds, because later books share nothing with the first: there hits of
#: other queries lie much nearer to tau, and little is to be gained.
BEYOND_TIGHT_SLACK = (1.0,)
#: Of all hits, no more than this are beyond the slack; for looser targets, so many times those that may be lost.
MOST_BEYOND_SLACK, LOOSE_BEYOND_SLACK = 0.01, 2.0
#: How much the distance of a cell counts beside its rank; the calibration takes what visits the fewest rows.
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
#: Of the hits that may be lost, this part may be lost to cells not visited, the others to rows skipped in visited ones.
CELLS_PART = 0.75
#: Rows visited again, exactly, for queries with many hits beyond the slack, as a share of those that the rule visits.
AGAIN = 0.05
#: Of the hits beyond the slack, no more than this part may be lost: the others show that a query is unlike the rest.
UNSEEN = 0.5
#: Losses aimed at, as multiples of the allowed one; tested from the last to the first.
AIMS = tuple(2.0 ** (1 - i / 2) for i in range(26))
#: The largest of them where floors of cells are tight bounds: there other queries lose a few times as much.
MOST_TIGHT = 0.25
#: Share of the values that tell how a distribution goes on beyond the largest one.
TAIL = 0.01
#: A stop that no cell passes.
NO_STOP = 1e30


def queries_needed(target: float, confidence: float = CONFIDENCE) -> int:
    """The fewest queries that support a target: with fewer, even a rule that loses nothing could not be told from one
    that loses too much."""
    tested = math.log(1 / (1 - confidence)) / math.log1p(STAKE * (1 - target))
    return math.ceil(math.ceil(tested) / (1 - CHOOSING))


def calibrate(parts: list[Held], n: int, metric: Metric, *, confidence: float = CONFIDENCE) -> Calibration:
    """Rules for ``n`` rows that keep each target for each k, from the queries of all parts, which are used up.

    They must come in a random order: the first ones choose rules, the others test them.

    With ``confidence=0`` the same queries choose and test, and rules need only keep their targets on these.
    """
    held = Held.joined(parts)
    n_queries = len(held.nearest)
    n_choosing = max(1, int(CHOOSING * n_queries)) if confidence else n_queries
    choosing = held[slice(0, n_choosing)]
    testing = held[slice(n_choosing, None)] if confidence else choosing
    tight = bool(held.spans.any())
    nearest = choosing.nearest / choosing.lengths
    least = max(float(np.quantile(nearest, 0.05)), SMALLEST_UNIT) if metric.is_squared else 0.0
    reach = float(np.quantile(_distances(choosing, metric), 1 - UNLIKE, method="higher"))
    # Only the rest of float32's rounding: what was measured here is compared with what the native code computes.
    inner = float(np.quantile(choosing.squares, UNLIKE, method="lower")) * (1 - 1e-5) if metric.is_squared else 0.0
    shares, slacks, strays = (np.full((len(KS), len(TARGETS)), np.nan, np.float32) for _ in range(3))
    cells = np.full((len(KS), len(TARGETS), 2), np.nan, np.float32)
    farthest = np.full(len(KS), np.inf, np.float32)
    times = BEYOND_TIGHT_SLACK if tight else BEYOND_SLACK
    chosen: list[_View] = []
    for i, k in enumerate(KS):
        farthest[i] = _farthest(choosing, k)
        chosen.append(_View(choosing, k, metric, least, reach, inner, float(farthest[i])))
    rules = [_cheapest(chosen, 1 - target, times) for target in TARGETS]
    stops = [0.0] * len(TARGETS)
    for i, k in enumerate(KS):
        tested = _View(testing, k, metric, least, reach, inner, float(farthest[i]))
        for j, (target, (weight, beyond)) in enumerate(zip(TARGETS, rules, strict=True)):
            found = _boldest(chosen[i], tested, weight, beyond, 1 - target, confidence, tight)
            if found is None:
                continue
            shares[i, j], stop, slacks[i, j], strays[i, j] = found
            if stop < NO_STOP:  # a larger k never visits fewer cells
                stop = stops[j] = max(stops[j], stop)
            cells[i, j] = weight, stop
    return Calibration(n, shares, cells, slacks, strays, farthest, least, reach, n_queries, inner)


def _distances(held: Held, metric: Metric) -> NDArray[np.float64]:
    """What ``reach`` is compared with, for each query."""
    return np.asarray((held.nearest + (held.rests if metric.is_squared else 0.0)) / held.lengths)


def _farthest(held: Held, k: int) -> float:
    """The distance of the k-th hit that few queries exceed."""
    found = [kth[np.isfinite(kth)] for kth in (_kth(answer, k) / held.lengths for answer in held.answers)]
    return max((float(np.quantile(kth, 1 - UNLIKE, method="higher")) for kth in found if len(kth)), default=math.inf)


def _kth(answer: Hits, k: int) -> NDArray[np.float64]:
    """Distance of the k-th hit of each query; inf where there are fewer."""
    if answer.distances.shape[1] < k:
        return np.full(len(answer.distances), np.inf)
    return answer.distances[:, k - 1].astype(np.float64)


class _View:
    """The hits of the k nearest rows, and what each of them asks of a rule; a list has an entry for each answer."""

    def __init__(
        self, held: Held, k: int, metric: Metric, least: float, reach: float, inner: float, farthest: float
    ) -> None:
        full = np.all([np.isfinite(_kth(answer, k)) for answer in held.answers], axis=0)
        self.n = int(full.sum())
        self._counts, self._scaled = held.counts[full], metric.scales_with_query
        answers = [answer[full, :k] for answer in held.answers]
        taus = [_kth(answer, k)[:, None] for answer in answers]
        nearest, spread = held.nearest[full], held.spread[full]
        lengths, rests, spans = held.lengths[full, None], held.rests[full, None], held.spans[full, None]
        self._log_ranks = [np.log1p(answer.ranks.astype(np.float32)) for answer in answers]
        self._gaps = [gaps(answer.bases, nearest, spread, metric, least).astype(np.float32) for answer in answers]
        # What the slack is compared with.
        self._beyond = [
            excess(answer.bases, tau, rests, spans).astype(np.float32)
            for answer, tau in zip(answers, taus, strict=True)
        ]
        self._needs = [_needed_shares(a, tau).astype(np.float32) for a, tau in zip(answers, taus, strict=True)]
        # Queries that are searched exactly lose nothing.
        far = ((_distances(held, metric) > reach) | (held.squares < inner * (1 - 1e-5)))[full, None]
        self._like = [~(far | (tau > farthest * lengths)) for tau in taus]
        # Of the unit of the slack, for the rounding of sums.
        self._largest = max((float(_in_units(tau, spans).max(initial=0.0)) for tau in taus), default=0.0)
        # All cells of some queries, for the cost of a rule: with the tau of queries from outside, if they are rows.
        some = np.flatnonzero(full[: len(held.visits.bases)])
        n = len(some)
        bases, self._some_sizes = held.visits.bases[some], held.visits.sizes[some]
        self._some_gaps = gaps(bases, nearest[:n], spread[:n], metric, least)
        self._some_beyond = excess(bases, taus[-1][:n], rests[:n], spans[:n])

    @cached_property
    def _all_beyond(self) -> FloatArray:
        """Of all hits, ascending."""
        pairs = zip(self._like, self._beyond, strict=True)
        return np.sort(_flat(np.where(like, beyond, np.float32(-np.inf)) for like, beyond in pairs))

    @cached_property
    def _all_needs(self) -> FloatArray:
        """Of all hits, ascending."""
        return np.sort(_flat(self._needs))

    def scores(self, weight: float) -> list[FloatArray]:
        """What the stop is compared with, of each hit."""
        return [log_rank + np.float32(weight) * gap for log_rank, gap in zip(self._log_ranks, self._gaps, strict=True)]

    @property
    def support(self) -> float:
        """The share of the queries that support a target.

        By inner product a query that stands for many rows of one code says little of others near them, whose hits
        differ from its own: where few queries have most of the weight, they support as little as few queries do. By
        distance the hits of such a query are those rows, and copies of a given query have its hits too.
        """
        are_rows = len(self._needs) > 1  # which have several answers
        if not self.n or not self._scaled or not are_rows:
            return 1.0
        return float(self._counts.sum() ** 2 / (self._counts**2).sum()) / self.n

    def loses_too_much(self, losses: Sequence[Losses], allowed: float) -> bool:
        """Whether the mean loss is more than that, with queries that stand for several counted as often."""
        if not self.n or not (self._counts > 1).any():
            return False
        return any(float(np.average(loss, weights=self._counts)) > allowed for loss in losses)

    def slack(self, lost: float) -> float:
        """The slack that this share of the hits is beyond, a little more for the rounding of sums."""
        return _exceeded_by(self._all_beyond, lost * len(self._all_beyond)) + 1e-5 * self._largest

    def stop(self, scores: list[FloatArray], slack: float, lost: float) -> float:
        """The stop that loses this share of the hits."""
        beyond = [(b > slack) & like for b, like in zip(self._beyond, self._like, strict=True)]
        asked = _flat(of_hits[where] for of_hits, where in zip(scores, beyond, strict=True))
        return _exceeded_by(np.sort(asked), lost * len(self._all_beyond))

    def share(self, lost: float) -> float:
        """The share of the room that loses this share of the hits."""
        allowed = int(len(self._all_needs) * lost)
        return min(1.0, float(self._all_needs[len(self._all_needs) - 1 - allowed]) * (1 + 1e-6)) if allowed else 1.0

    def rows(self, weight: float, stop: float, slack: float) -> float:
        """Rows of the visited cells, per query."""
        scores = np.log1p(np.arange(self._some_gaps.shape[1])) + weight * self._some_gaps
        visited = (scores <= stop) | (self._some_beyond <= slack)
        return float(self._some_sizes.sum(where=visited, dtype=np.float64)) / max(1, len(visited))

    def strays(self, scores: list[FloatArray], stop: float, slack: float) -> list[NDArray[np.float64]]:
        """The share of each query's hits that are found beyond the slack, for each answer."""
        pairs = zip(scores, self._beyond, strict=True)
        return [((of_hits <= stop) & (beyond > slack)).mean(1) for of_hits, beyond in pairs]

    def most_strays(self, weight: float, scores: list[FloatArray], stop: float, slack: float) -> float:
        """The share of strays that few queries exceed: as few as to visit hardly more rows by searching them again."""
        few = max(UNLIKE, AGAIN * self.rows(weight, stop, slack) / max(1.0, float(self._some_sizes[:1].sum())))
        return max(float(np.quantile(s, 1 - few, method="higher")) for s in self.strays(scores, stop, slack))

    def losses(self, scores: list[FloatArray], share: float, stop: float, slack: float, strays: float) -> list[Losses]:
        """The loss of each query, for each answer; those with more strays are searched exactly."""
        found = self.strays(scores, stop, slack)
        return [
            np.where(s > strays, 0.0, (like & (((of_hits > stop) & (beyond > slack)) | (need > share))).mean(1))
            for of_hits, beyond, need, like, s in zip(scores, self._beyond, self._needs, self._like, found, strict=True)
        ]


def _in_units(tau: NDArray[np.float64], spans: FloatArray) -> NDArray[np.float64]:
    return np.asarray(np.where(spans > 0, np.abs(tau) / np.maximum(spans, SMALLEST_UNIT), np.sqrt(np.abs(tau))))


def _flat(arrays: Iterable[FloatArray]) -> FloatArray:
    return np.concatenate([array.ravel() for array in arrays])


def _exceeded_by(ordered: FloatArray, allowed: float) -> float:
    """What so many of the values, ascending, exceed; beyond the largest one, as an exponential tail would go on."""
    if not len(ordered) or allowed >= len(ordered):
        return 0.0  # as careful as the first cell, which is always visited
    if allowed >= 1:
        return float(ordered[len(ordered) - 1 - int(allowed)])
    last = ordered[-max(2, int(TAIL * len(ordered))) :]
    last = last[np.isfinite(last)]
    return float(last[-1] + (last - last[0]).mean() * math.log(1 / max(allowed, 1e-9))) if len(last) else 0.0


def _needed_shares(answer: Hits, tau: NDArray[np.float64]) -> NDArray[np.float64]:
    """The smallest share that keeps each hit."""
    excess, floor = answer.crude_excess.astype(np.float64), answer.floors.astype(np.float64)
    room = tau - floor
    need = np.where(excess <= 0, 0.0, np.where(room > 0, excess / np.maximum(room, 1e-300), 1.0))
    return np.asarray(np.minimum(need, 1.0))


def _cheapest(views: Sequence[_View], allowed: float, times: Sequence[float]) -> tuple[float, float]:
    """The weight and the share of hits beyond the slack that visit the fewest rows, over all k together."""
    costs: dict[tuple[float, float], float] = {}
    for weight in WEIGHTS:
        for view in (view for view in views if view.n):
            scores = view.scores(weight)
            for beyond in _shares_beyond(allowed, times):
                slack = view.slack(beyond)
                rows = view.rows(weight, view.stop(scores, slack, allowed / 4), slack)
                costs[weight, beyond] = costs.get((weight, beyond), 0.0) + math.log1p(rows)
    return min(costs, key=lambda rule: costs[rule], default=(WEIGHTS[0], allowed))


def _shares_beyond(allowed: float, times: Sequence[float]) -> list[float]:
    """Shares of the hits that may be beyond the slack."""
    most = MOST_BEYOND_SLACK if allowed <= MOST_BEYOND_SLACK * (1 + 1e-9) else LOOSE_BEYOND_SLACK * allowed
    return sorted({min(t * allowed, most) for t in times}, reverse=True)


def _boldest(
    chosen: _View, tested: _View, weight: float, beyond: float, allowed: float, confidence: float, tight: bool
) -> tuple[float, float, float, float] | None:
    """Share, stop, slack and strays of the boldest rule that passes; None where the queries are too few to tell."""
    supporting = int(tested.n * min(chosen.support, tested.support))
    if not chosen.n or not passes([np.zeros(supporting)], allowed, confidence):
        return None
    scores, tests = chosen.scores(weight), tested.scores(weight)
    best = (1.0, NO_STOP, math.inf, 1.0)
    usual_slack = math.inf if tight else chosen.slack(beyond)
    for aim in (aim for aim in reversed(AIMS) if aim <= (MOST_TIGHT if tight else AIMS[0])):
        lost, outside = aim * allowed, beyond * min(1.0, 2 * aim)
        slack = chosen.slack(outside)
        share = chosen.share(lost * (1 - CELLS_PART))
        # By hits beyond the usual slack: beyond that of a small aim there are none, and so nothing to choose a stop by.
        stop = chosen.stop(scores, min(slack, usual_slack), min(lost * CELLS_PART, outside * UNSEEN))
        stop = float(np.float32(stop)) * (1 + 1e-5)
        share = float(np.nextafter(np.float32(share), np.float32(2.0))) if share < 1 else 1.0
        strays = chosen.most_strays(weight, scores, stop, slack)
        lost_by = tested.losses(tests, share, stop, slack, strays)
        if not passes(lost_by, allowed, confidence) or tested.loses_too_much(lost_by, allowed):
            break
        if chosen.loses_too_much(chosen.losses(scores, share, stop, slack, strays), allowed):
            break
        best = share, stop, slack, strays
    return best


def passes(losses: Sequence[NDArray[np.float64]], allowed: float, confidence: float) -> bool:
    """Whether the mean of each kind of losses, in [0, 1], is at most ``allowed``, with confidence."""
    needed = math.log(1 / (1 - confidence))
    for loss in losses:
        if not len(loss):
            return False
        stake = min(STAKE, max(0.25, math.sqrt(2 * needed / (len(loss) * allowed))))
        if float(np.log1p(stake * (allowed - loss)).sum()) < needed:
            return False
    return True
