"""Which rows and cells a search may pass over: parsing of ``margin``, and its calibration on held-out queries."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import FloatArray
from .codebooks import MAX_WORDS
from .errors import InputError

KS = (1, 10, 100)
TARGETS = (0.99, 0.999, 0.9999)
DEFAULT = 0.999  #: where a search is given none
#: An index may grow this much before its calibration no longer counts.
GROWTH = 1.1
#: Of the hits that a target allows to lose so many are, the others are kept in reserve: queries to come are not these.
SPENT = 0.2
#: Of those, this part may be lost to cells not visited, the others to rows passed over in a visited one.
CELLS_PART = 0.75
#: How much the distance of a cell counts beside its rank; the calibration takes what visits the fewest rows.
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0)
#: A gap beyond which all cells are equally far; its products stay within float32.
FARTHEST = 1e6
#: Any gap will do. Not infinite, because the unit it is multiplied by may be 0.
ANY_GAP = float(np.finfo(np.float32).max)
#: No unit of l2 is smaller: rows that equal words leave bases of 0.
SMALLEST_UNIT = 1e-30
NO_SPREAD: FloatArray = np.zeros(0, np.float32)


@dataclass(frozen=True, eq=False)
class Rule:
    """What the native search is told (cpp/core/search.h); ``label`` is what stats show."""

    kind: str  # share, paper, none
    share: float
    sigma: float
    label: str
    spread: FloatArray = field(default_factory=lambda: NO_SPREAD)  # by rank of a cell; empty: visit all
    least: float = 0.0
    reach: float = 0.0

    @property
    def arguments(self) -> tuple[str, float, float, FloatArray, float, float]:
        """As the native functions take them."""
        return self.kind, self.share, self.sigma, self.spread, self.least, self.reach


@dataclass(frozen=True, eq=False)
class Calibration:
    """What reaches each target agreement for each k, and the number of rows ``n`` it was made for.

    The exact rule keeps a row while crude - crude_floor <= tau - floor. The calibrated one keeps it while
    crude - crude_floor <= share * (tau - floor), with ``shares`` float32 [len(KS), len(TARGETS)]; NaN marks what could
    not be calibrated. Cells are visited in ascending order of their base while log(1 + rank) + weight * gap <= stop,
    with ``cells`` float32 [len(KS), len(TARGETS), 2] of (weight, stop); ``gap`` is measured as :func:`gaps` tells.
    ``least`` and ``reach`` bound the smallest base (``reach``: the distance) of the queries it was made from: a query
    beyond ``reach`` is searched exactly. ``error`` is the mean squared distance from their codes of ``error_rows`` rows
    that were held out of learning; NaN where there were none. ``recalls`` are those of a store that keeps originals:
    recall@10 after a re-rank of so many rows, for each target.
    """

    n: int
    shares: NDArray[np.float32]
    cells: NDArray[np.float32]
    least: float
    reach: float
    error: float = math.nan
    error_rows: int = 0
    recalls: tuple[tuple[float, int, float], ...] = ()  # target, rows, recall
    deep: bool = False  # a k beyond the largest calibrated one takes the rule of that one; not stored

    @classmethod
    def stored(
        cls, description: dict[str, Any], shares: NDArray[np.float32], cells: NDArray[np.float32]
    ) -> Calibration:
        """From a file."""
        shape = (len(KS), len(TARGETS))
        if shares.shape != shape or cells.shape != (*shape, 2):
            raise ValueError(f"shares of shape {shares.shape}, cells of shape {cells.shape}")
        least, reach = float(description["least"]), float(description["reach"])
        error, rows = description.get("error"), int(description.get("error_rows", 0))
        if error is not None and not (0 <= float(error) < math.inf and rows > 0):
            raise ValueError(f"an error of {error!r:.60} of {rows} rows")
        error = math.nan if error is None else float(error)
        recalls = tuple((float(t), int(depth), float(found)) for t, depth, found in description.get("recalls", ()))
        return cls(int(description["n"]), shares, cells, least, reach, error, rows, recalls)

    @functools.cached_property
    def _rules(self) -> list[list[tuple[float, float, float] | None]]:
        """Share, weight and stop for each of KS and TARGETS as Python numbers: single queries should be quick."""
        shares, cells = self.shares.tolist(), self.cells.tolist()
        return [
            [None if math.isnan(s) else (s, w, stop) for s, (w, stop) in zip(*row, strict=True)]
            for row in zip(shares, cells, strict=True)
        ]

    def rule(self, k: int, target: float, n: int) -> tuple[float, float, float] | None:
        """Share, weight and stop that are safe for k and target, or None: fall back to exact.

        Targets round up. A k between two stored ones takes the larger share of the two and the cells of the larger k,
        which needs more of them. With ``deep``, for hits that are re-ranked, a larger k takes the rule of the largest
        stored one: of the hits beyond that k more may be lost than the target says, those in far cells.
        """
        if self.deep:
            k = min(k, KS[-1])
        if n > self.n * GROWTH or k > KS[-1] or target > TARGETS[-1]:
            return None
        column = next(j for j, stored in enumerate(TARGETS) if stored >= target)
        above = next(i for i, stored in enumerate(KS) if stored >= k)
        high = self._rules[above][column]
        low = high if KS[above] == k else self._rules[above - 1][column]
        return None if high is None or low is None else (max(low[0], high[0]), high[1], high[2])


@functools.lru_cache(maxsize=64)  # a single query takes less time than this does
def spread_of(weight: float, stop: float) -> FloatArray:
    """The largest gap at which the cell of each rank is visited; the first cell always is."""
    room = stop - np.log1p(np.arange(MAX_WORDS))
    allowed = np.where(room < 0, -1.0, room / weight if weight > 0 else ANY_GAP)
    allowed[allowed >= FARTHEST] = ANY_GAP  # as gaps() sees it
    allowed[0] = ANY_GAP
    spread = allowed.astype(np.float32)
    spread.flags.writeable = False
    return spread


def gaps(bases: FloatArray, metric: str, least: float) -> NDArray[np.float64]:
    """How far the base of each cell [queries, cells], ascending, is above the smallest one, in units of the query.

    The unit is the smallest base itself for l2 (but ``least`` at least); elsewhere, where a base may have any sign, the
    distance from the smallest base to their mean.
    """
    above = bases.astype(np.float64) - bases[:, :1]
    unit = np.maximum(bases[:, :1], least) if metric == "l2" else above.mean(1, keepdims=True)
    # A unit of 0 (rows that equal words) leaves the cells at distance 0 near and all others far.
    return np.asarray(np.minimum(above / np.maximum(unit.astype(np.float64), SMALLEST_UNIT), FARTHEST))


def parse(
    margin: Any, *, k: int, n: int, calibration: Calibration | None, sigma: float, filtered: bool = False
) -> Rule:
    """``"exact"``, ``"paper"``, ``inf`` or a target agreement between 0 and 1 -> the rule to run."""
    if isinstance(margin, str):
        if margin == "exact":
            return Rule("share", 1.0, 0.0, "exact")
        if margin == "paper":
            return Rule("paper", 1.0, sigma, f"paper (sigma {sigma:.4g})")
        raise InputError(f"margin must be 'exact', 'paper', inf or a target agreement below 1, got {margin!r}")
    if isinstance(margin, bool) or not isinstance(margin, int | float | np.integer | np.floating):
        raise InputError(
            f"margin must be 'exact', 'paper', inf or a target agreement below 1, got {type(margin).__name__}"
        )
    return _number(float(margin), k, n, calibration, filtered)


@functools.lru_cache(maxsize=256)  # single queries ask for the same rule again and again
def _number(margin: float, k: int, n: int, calibration: Calibration | None, filtered: bool) -> Rule:
    if margin == math.inf:
        return Rule("none", 1.0, 0.0, "inf")
    if not 0 < margin < 1:
        raise InputError(f"margin as a target agreement must lie between 0 and 1 ('exact' for 1), got {margin}")
    found = None if calibration is None else calibration.rule(k, margin, n)
    if calibration is None or found is None or filtered:
        why = "not calibrated" if calibration is None else "not covered" if found is None else "has no rule for filters"
        return Rule("share", 1.0, 0.0, f"exact ({margin:g} {why})")
    share, weight, stop = found
    return Rule(
        "share",
        share,
        0.0,
        f"{margin:g} (share {share:.4f}, cells {weight:g}/{stop:.3f})",
        spread_of(weight, stop),
        calibration.least,
        calibration.reach,
    )


@dataclass(frozen=True)
class Held:
    """What exact searches of held-out queries found; hits [queries, depth] in ascending order of distance."""

    distances: FloatArray
    crude_excess: FloatArray  # crude distance above the crude floor of its cell
    floors: FloatArray  # of the whole distance in its cell
    ranks: NDArray[np.int64]  # of its cell among all that hold rows, by ascending base
    bases: FloatArray  # [queries, cells] ascending, of the cells that hold rows
    sizes: NDArray[np.float64]  # [queries, cells] rows of each
    lengths: NDArray[np.float64]  # [queries] 1, or the length of the query for ip
    rests: NDArray[np.float64] | float = 0.0  # [queries] what dimensions that the base does not know add at least


def calibrate(held: Held, n: int, metric: str) -> Calibration:
    """The smallest shares and the earliest stops that lose no more hits than each target allows.

    A hit of the top k is found by share s if excess <= s * (tau_k - floor): tau only falls during a search, so the
    final one is the hardest. With too few hits to tell, NaN.
    """
    shares = np.full((len(KS), len(TARGETS)), np.nan, np.float32)
    cells = np.full((len(KS), len(TARGETS), 2), np.nan, np.float32)
    nearest = held.bases[:, 0] / held.lengths
    least = max(float(np.quantile(nearest, 0.05)), SMALLEST_UNIT) if metric == "l2" else 0.0
    in_cells: dict[tuple[int, int], int] = {}  # hits that each rule may lose to cells not visited
    for i, k in enumerate(KS):
        need = np.sort(_needed_shares(held, k).ravel())
        for j, target in enumerate(TARGETS):
            lost = len(need) * (1 - target) * SPENT
            if not len(need) or not (lost >= 1 or target <= 1 - 1 / len(need)):
                continue
            in_rows = math.floor(lost * (1 - CELLS_PART))
            shares[i, j] = min(1.0, float(need[len(need) - 1 - in_rows]) * (1 + 1e-6))
            in_cells[i, j] = math.floor(lost) - in_rows
    for (i, j), found in _stops(held, gaps(held.bases, metric, least), in_cells).items():
        cells[i, j] = found
    farthest = float((nearest + held.rests).max()) if len(nearest) else 0.0
    return Calibration(n, shares, cells, least, farthest)


def _full(held: Held, k: int) -> NDArray[np.bool_]:
    """Queries that have k hits."""
    if held.distances.shape[1] < k:
        return np.zeros(len(held.distances), bool)
    return np.asarray(np.isfinite(held.distances[:, k - 1]))


def _needed_shares(held: Held, k: int) -> NDArray[np.float64]:
    """The smallest share that finds each hit of the top k."""
    full = _full(held, k)
    if not full.any():
        return np.zeros((0, k))
    tau = held.distances[full, k - 1 : k].astype(np.float64)
    excess, floor = (a[full, :k].astype(np.float64) for a in (held.crude_excess, held.floors))
    room = tau - floor
    need = np.where(excess <= 0, 0.0, np.where(room > 0, excess / np.maximum(room, 1e-300), 1.0))
    return np.asarray(np.minimum(need, 1.0))


def _stops(
    held: Held, gap: NDArray[np.float64], lost: dict[tuple[int, int], int]
) -> dict[tuple[int, int], tuple[float, float]]:
    """Weight and stop that lose so many hits and visit the fewest rows, for indices into KS and TARGETS."""
    best = {rule: (math.inf, 0.0, 0.0) for rule in lost}
    full = [_full(held, k) for k in KS]
    for weight in WEIGHTS:  # one table of scores at a time: it is as large as all bases
        score = np.log1p(np.arange(gap.shape[1])) + weight * gap
        of_hits = [
            np.sort(np.take_along_axis(score, held.ranks[:, :k], axis=1)[rows].ravel())
            for k, rows in zip(KS, full, strict=True)
        ]
        for i, j in lost:
            stop = float(np.float32(of_hits[i][len(of_hits[i]) - 1 - lost[i, j]])) * (1 + 1e-5)
            visited = float(held.sizes.sum(where=score <= stop))
            best[i, j] = min(best[i, j], (visited, weight, stop))
    return {rule: (weight, stop) for rule, (_, weight, stop) in best.items()}
