"""What a search may skip: the rules behind ``margin``, and the calibration that gives them their numbers."""

from __future__ import annotations

import enum
import functools
import math
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _native
from .._threads import cached_property
from ..codec.metric import Metric
from ..errors import CalibrationWarning, InputError, UnlikeQueriesWarning, warn_user
from ..inputs.arrays import FloatArray
from ..inputs.literals import RuleKind

KS = (1, 10, 100)
#: The loose ones are for answers that are re-ranked, or need not be the best.
LOOSE, STRICT = (0.9, 0.95), (0.99, 0.999, 0.9999)
TARGETS = LOOSE + STRICT
DEFAULT = 0.999  #: where a search is given none
#: Arrays of a calibration, and their shapes.
SECTIONS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("shares", "slacks", "strays"), (len(KS), len(TARGETS))),
    "cells": (len(KS), len(TARGETS), 2),
    "farthest": (len(KS),),
}
#: A change of the number of rows by this factor changes no rule.
GROWTH = 1.1
#: Beyond this factor of growth the rows are no longer those that were calibrated, whatever k is.
MOST_GROWTH = 2.0
#: A gap beyond which all cells are equally far; its products stay within float32.
FARTHEST = _native.FARTHEST_GAP
#: No unit of l2 is smaller: rows that equal words leave bases of 0.
SMALLEST_UNIT = 1e-30


@dataclass(frozen=True, eq=False)
class Rule:
    """The rule that the native search runs (cpp/core/rule.h); stats show ``kind``, ``label`` and ``fallback``."""

    native: _native.Rule
    kind: RuleKind
    label: str
    #: A query whose k-th hit is farther than this (for ip: than this times its length) is searched again, exactly.
    farthest: float = math.inf
    #: So is one with a larger share of its hits in cells beyond the slack.
    strays: float = 1.0
    #: Of an exact rule in place of another margin: which one, and why it has no rule.
    fallback: str | None = None

    @classmethod
    def instead_of(cls, margin: Any, why: str) -> Rule:
        """The exact rule in place of a margin that has none: ``why`` goes on after the margin."""
        fallback = f"{margin if isinstance(margin, str) else f'{margin:g}'} {why}"
        return cls(EXACT.native, "exact", f"exact ({fallback})", fallback=fallback)

    def is_unlike(self, distances: FloatArray, strays: Any, k: int, scales: Any) -> Any:
        """Whether a query is unlike those of the calibration, by its hits: [n, >= k] of several, or [>= k] of one.

        ``strays`` are how many of its k hits are in cells beyond the slack, ``scales`` is
        :meth:`Metric.limit_scales`: a number or an array for each.
        """
        return (distances[..., min(k, KS[-1]) - 1] > scales * self.farthest) | (strays > self.strays * k)


EXACT = Rule(_native.Rule.exact(), "exact", "exact")
EVERYTHING = Rule(_native.Rule.everything(), "exhaustive", "inf")


class Among(enum.Enum):
    """The rows that a pass may return."""

    ALL = enum.auto()
    ALLOWED = enum.auto()  #: those that a filter of the user allows
    KEPT = enum.auto()  #: those that were not removed, by a mask, because many were


@dataclass(frozen=True)
class Covered:
    """The numbers of a calibrated rule for one k, one target and one number of rows."""

    share: float
    weight: float
    stop: float
    slack: float
    strays: float
    farthest: float


@dataclass(frozen=True)
class Uncovered:
    """Why a calibration has no rule; ``stale`` where it had one, and the rows have changed since."""

    why: str
    stale: bool = False


@dataclass(frozen=True)
class Recalls:
    """Recall@10 after a re-rank, where originals are kept."""

    found: tuple[tuple[float, int, float], ...] = ()  #: target, re-ranked rows, recall@10
    reachable: float = 1.0  #: the recall@10 of all originals: below 1 where rows lost digits in conversion


@dataclass(frozen=True, eq=False)
class Calibration:
    """The rule for each k and each target agreement, and the number of rows ``n`` it was made for.

    The exact rule keeps a row while crude - crude_floor <= tau - floor. The calibrated one keeps it while
    crude - crude_floor <= share * (tau - floor), with ``shares`` float32 [len(KS), len(targets)]; NaN marks targets
    that the queries were too few for. Cells are visited in ascending order of their base while
    log(1 + rank) + weight * gap <= stop, with ``cells`` float32 [len(KS), len(targets), 2] of (weight, stop) and
    ``gap`` as :func:`gaps` measures it, or while their excess over tau, as :func:`excess` measures it, is at most the
    slack, with ``slacks`` float32 [len(KS), len(targets)].

    Queries unlike the ``queries`` that it was made from are searched exactly: those whose smallest base (``reach``: the
    distance) is beyond ``reach``, those whose squared distance from the mean of the data is below ``inner`` (not for
    ip), those whose k-th hit is beyond ``farthest`` float32 [len(KS)], and those with more than a share ``strays``
    float32 [len(KS), len(targets)] of their hits in cells beyond the slack: cells that were visited for their rank
    alone, so others like them were not. ``error`` is the mean squared distance from their codes of ``error_rows`` rows
    that were held out of learning; NaN where there were none. ``recalls`` are those of a store that keeps originals:
    recall@10 after a re-rank of that many rows, for each target.
    """

    n: int
    shares: NDArray[np.float32]
    cells: NDArray[np.float32]
    slacks: NDArray[np.float32]
    strays: NDArray[np.float32]
    farthest: NDArray[np.float32]
    least: float
    reach: float
    queries: int
    inner: float = 0.0
    error: float = math.nan
    error_rows: int = 0
    recalls: Recalls = Recalls()

    @classmethod
    def stored(cls, description: dict[str, Any], arrays: dict[str, NDArray[np.float32]]) -> Calibration:
        """From a file."""
        if tuple(description["targets"]) != TARGETS or tuple(description["ks"]) != KS:
            raise ValueError(f"rules for k {description['ks']!r:.60} and targets {description['targets']!r:.60}")
        for name, expected in SECTIONS.items():
            if arrays[name].shape != expected:
                raise ValueError(f"{name} of shape {arrays[name].shape}")
        least, reach = float(description["least"]), float(description["reach"])
        inner = float(description["inner"])
        if not 0 <= inner < math.inf:
            raise ValueError(f"an inner of {inner!r}")
        error, rows = description["error"], int(description["error_rows"])
        if error is not None and not (0 <= float(error) < math.inf and rows > 0):
            raise ValueError(f"an error of {error!r:.60} of {rows} rows")
        queries = int(description["queries"])
        if queries < 1 or int(description["n"]) < 0:
            raise ValueError(f"{queries} queries, {description['n']!r:.60} rows")
        return cls(
            n=int(description["n"]),
            **{name: arrays[name] for name in SECTIONS},
            least=least,
            reach=reach,
            queries=queries,
            inner=inner,
            error=math.nan if error is None else float(error),
            error_rows=rows,
            recalls=Recalls(
                tuple((float(t), int(depth), float(found)) for t, depth, found in description.get("recalls", ())),
                float(description.get("reachable", 1.0)),
            ),
        )

    def to_arrays(self) -> tuple[dict[str, NDArray[np.float32]], dict[str, Any]]:
        """Sections and description of a file; the inverse is :meth:`stored`."""
        description: dict[str, Any] = {
            "n": self.n,
            "ks": list(KS),
            "targets": list(TARGETS),
            "least": self.least,
            "reach": self.reach,
            "inner": self.inner,
            "queries": self.queries,
            "error": None if math.isnan(self.error) else self.error,
            "error_rows": self.error_rows,
        }
        if self.recalls.found:
            description |= {"recalls": self.recalls.found, "reachable": self.recalls.reachable}
        return {name: getattr(self, name) for name in SECTIONS}, description

    @cached_property
    def _rules(self) -> NDArray[np.float64]:
        """Share, weight, stop, slack and strays [len(KS), len(targets), 5]."""
        parts = (self.shares[..., None], self.cells, self.slacks[..., None], self.strays[..., None])
        return np.concatenate(parts, axis=2).astype(np.float64)

    def rule(self, k: int, target: float, n: int, *, reranked: bool = False) -> Covered | Uncovered:
        """The numbers that are safe for k, target and n rows, or why there are none: search exactly.

        Targets round up. Of n rows the k nearest are spread as the k * self.n / n nearest were of the rows that it was
        made for; so a rule must be good for both numbers, and takes the most careful value of all stored k around them.
        For hits that are ``reranked``, the largest stored k and all beyond it take the rule of smaller ones: of the far
        hits more may be lost than the target says, but of the near ones, which a re-rank keeps, no more than at a
        smaller depth.
        """
        if reranked:
            k = min(k, KS[-1])
        if target > TARGETS[-1]:
            return Uncovered(f"is beyond {TARGETS[-1]}, the largest calibrated target")
        if k > KS[-1]:
            return Uncovered(f"is not calibrated for k = {k}, beyond {KS[-1]}")
        changed = Uncovered(f"was calibrated for {self.n:,} rows, there are {n:,}: call calibrate()", stale=True)
        as_if = k * self.n / max(1, n)
        low, high = min(k, as_if * GROWTH), max(k, as_if / GROWTH)
        if reranked:
            low, high = min(low, KS[-1] - 1), min(high, KS[-1])
        if low < KS[0] or high > KS[-1] or n > self.n * MOST_GROWTH:
            return changed
        first = max(i for i, stored in enumerate(KS) if stored <= low)
        last = next(i for i, stored in enumerate(KS) if stored >= high)
        column = next(j for j, stored in enumerate(TARGETS) if stored >= target)
        found = self._rules[first : last + 1, column]
        if np.isnan(found).any():
            return Uncovered(f"needs more calibration queries than the {self.queries:,} it has")
        share, weight, stop, slack, strays = found.max(0).tolist()
        farthest = float(np.interp(math.log(max(as_if, 1e-9)), np.log(KS), self.farthest))
        return Covered(share, weight, stop, slack, strays, farthest)

    def targets(self, k: int, n: int) -> list[float]:
        """The stored targets that have a rule for k and n rows."""
        return [target for target in TARGETS if isinstance(self.rule(k, target, n), Covered)]


def gaps(
    bases: FloatArray, nearest: FloatArray, spread: NDArray[np.float64], metric: Metric, least: float
) -> NDArray[np.float64]:
    """How far bases [queries, m] of cells are above the smallest one of each query, in units of the query.

    The unit is the smallest base itself (``nearest``) for l2, but ``least`` at least; elsewhere, where a base may have
    any sign, the distance from the smallest base to the mean of all (``spread``).
    """
    above = bases.astype(np.float64) - nearest[:, None]
    unit = np.maximum(nearest, least) if metric.is_squared else spread
    # A unit of 0 (rows that equal words) leaves the cells at distance 0 near and all others far.
    return np.asarray(np.minimum(above / np.maximum(unit.astype(np.float64), SMALLEST_UNIT)[:, None], FARTHEST))


def excess(
    bases: NDArray[np.floating], tau: NDArray[np.floating], floors: NDArray[np.floating], spans: NDArray[np.floating]
) -> NDArray[np.float64]:
    """How far the cells of these bases [queries, m] exceed tau, floors and spans [queries, 1], in units of the query.

    Where the tables of a query are the same in all cells (``spans`` > 0), the lower bound of a cell is its base plus
    the smallest entries of the tables (``floors``), and the unit is what an average row adds to it. Elsewhere (l2) it
    is the difference of the distances themselves, not of their squares.
    """
    bases, tau = bases.astype(np.float64), tau.astype(np.float64)
    roots = np.sqrt(np.maximum(bases, 0)) - np.sqrt(np.maximum(tau, 0))
    return np.asarray(np.where(spans > 0, (bases + floors - tau) / np.maximum(spans, SMALLEST_UNIT), roots))


def check_margin(margin: Any) -> None:
    """Raise InputError unless it is ``"exact"``, ``"paper"``, ``inf`` or a target agreement between 0 and 1."""
    if isinstance(margin, float) and 0 < margin < 1:
        return
    if isinstance(margin, str) and margin in ("exact", "paper"):
        return
    if isinstance(margin, bool) or not isinstance(margin, int | float | np.integer | np.floating):
        got = repr(margin) if isinstance(margin, str) else type(margin).__name__
        raise InputError(f"margin must be 'exact', 'paper', inf or a target agreement below 1, got {got}")
    if margin != math.inf and not 0 < margin < 1:
        raise InputError(f"margin as a target agreement must lie between 0 and 1 ('exact' for 1), got {float(margin)}")


def rule_of(
    margin: Any,
    *,
    k: int,
    n: int,
    calibration: Calibration | None,
    sigma: float,
    among: Among = Among.ALL,
    reranked: bool = False,
) -> Rule:
    """The rule of a valid margin, to find k hits among n rows; ``reranked``: the hits are re-ranked."""
    if margin == "exact":
        return EXACT
    if margin == "paper":
        return Rule(_native.Rule.paper(sigma=sigma), "paper", f"paper (sigma {sigma:.4g})")
    return _number(float(margin), k, n, calibration, among, reranked)


@functools.lru_cache(maxsize=256)  # single queries ask for the same rule again and again
def _number(margin: float, k: int, n: int, calibration: Calibration | None, among: Among, reranked: bool) -> Rule:
    if margin == math.inf:
        return EVERYTHING
    found: Covered | Uncovered = Uncovered("not calibrated")
    if among is Among.ALLOWED:  # whatever the calibration: another one would not change it
        found = Uncovered("has no rule for filters")
    elif calibration is not None:
        found = calibration.rule(k, margin, n, reranked=reranked)
    if isinstance(found, Covered) and among is Among.KEPT:
        found = Uncovered("has no rule where most rows are removed: call compact()")
    if isinstance(found, Uncovered):
        if found.stale and calibration is not None:
            _warn_once(
                calibration, f"searches with a margin of {margin:g} run exactly, which is slower: it {found.why}"
            )
        return Rule.instead_of(margin, found.why)
    assert calibration is not None
    native = _native.Rule.calibrated(
        share=found.share,
        weight=found.weight,
        stop=found.stop,
        slack=found.slack,
        least=calibration.least,
        reach=calibration.reach,
        inner=calibration.inner,
    )
    label = f"{margin:g} (share {found.share:.4f}, cells {_cells(found)})"
    farthest = float(np.float32(found.farthest))  # as distances are: the same comparison for one query and for many
    return Rule(native, "calibrated", label, farthest, found.strays)


def _cells(found: Covered) -> str:
    return f"{found.weight:g}/{found.stop:.3f}" if found.stop < FARTHEST else "all"


_WARNED: weakref.WeakSet[Calibration] = weakref.WeakSet()


#: From this share of the queries of a call on, of so many at least, it is worth saying that they are unlike the rows.
MANY_UNLIKE, OF_QUERIES = 0.2, 50


def warn_unlike(calibration: Calibration | None, n_unlike: int, n: int) -> None:
    """Warn where many of n queries were searched exactly because they are unlike those of the calibration."""
    if calibration is not None and n >= OF_QUERIES and n_unlike > MANY_UNLIKE * n:
        _warn_once(
            calibration,
            f"{n_unlike} of {n} queries are unlike those that the margin was calibrated with. They were searched "
            "exactly, which is slower: call calibrate(queries) with a sample of such queries",
            UnlikeQueriesWarning,
        )


def _warn_once(calibration: Calibration, text: str, category: type[Warning] = CalibrationWarning) -> None:
    """One warning for each calibration, not for each search."""
    if calibration not in _WARNED:
        _WARNED.add(calibration)
        warn_user(text, category)
