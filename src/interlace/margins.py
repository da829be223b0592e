"""Which rows a crude distance may rule out: parsing of ``margin``, and its calibration on held-out queries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import FloatArray
from .errors import InputError

KS = (1, 10, 100)
TARGETS = (0.99, 0.999, 0.9999)
#: An index may grow this much before its calibration no longer counts.
GROWTH = 1.1


@dataclass(frozen=True)
class Rule:
    """What the native search is told; ``label`` is what stats show."""

    kind: str  # share, paper, none
    share: float
    sigma: float
    label: str


@dataclass(frozen=True)
class Calibration:
    """``shares`` float32 [len(KS), len(TARGETS)]: the share of the exact budget that reaches a target agreement.

    The exact rule keeps a row while crude - crude_floor <= tau - floor. The calibrated one keeps it while
    crude - crude_floor <= share * (tau - floor); NaN marks what could not be calibrated. ``n`` is the number of rows
    it was made for.
    """

    n: int
    shares: NDArray[np.float32]

    def share(self, k: int, target: float, n: int) -> float | None:
        """The share that is safe for k and target, or None: fall back to exact.

        Targets round up. A k between two stored ones takes the larger of their shares: the share that is needed
        usually falls with k, but not always.
        """
        if n > self.n * GROWTH or k > KS[-1]:
            return None
        columns = [j for j, stored in enumerate(TARGETS) if stored >= target]
        if not columns:
            return None
        above = next(i for i, stored in enumerate(KS) if stored >= k)
        below = above if KS[above] == k else above - 1
        share = float(max(self.shares[below, columns[0]], self.shares[above, columns[0]]))
        return None if math.isnan(share) or np.isnan(self.shares[below, columns[0]]) else share


def parse(margin: Any, *, k: int, n: int, calibration: Calibration | None, sigma: float) -> Rule:
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
    if margin == math.inf:
        return Rule("none", 1.0, 0.0, "inf")
    if not 0 < margin < 1:
        raise InputError(f"margin as a target agreement must lie between 0 and 1 ('exact' for 1), got {margin}")
    share = None if calibration is None else calibration.share(k, float(margin), n)
    if share is None or share >= 1:
        why = "not calibrated" if calibration is None else "not covered" if share is None else "calibrated to exact"
        return Rule("share", 1.0, 0.0, f"exact ({margin:g} {why})")
    return Rule("share", share, 0.0, f"{margin:g} (share {share:.4f})")


def calibrate(distances: FloatArray, crude_excess: FloatArray, floors: FloatArray, n: int) -> Calibration:
    """Hits [queries, >= k] of exact searches, their crude distance above the floor and their cell's floor -> shares.

    A hit of the top k is found by share s if excess <= s * (tau_k - floor): tau only falls during a search, so the
    final one is the hardest. The share is the quantile of excess / (tau_k - floor) over all hits that loses half of
    what the target allows, because queries to come are not these; with too few hits to tell, NaN.
    """
    shares = np.full((len(KS), len(TARGETS)), np.nan, np.float32)
    for i, k in enumerate(KS):
        if distances.shape[1] < k:
            continue
        full = np.isfinite(distances[:, k - 1])
        tau = distances[full, k - 1 : k].astype(np.float64)
        excess, floor = crude_excess[full, :k].astype(np.float64), floors[full, :k].astype(np.float64)
        room = tau - floor
        need = np.where(excess <= 0, 0.0, np.where(room > 0, excess / np.maximum(room, 1e-300), 1.0))
        need = np.sort(np.minimum(need, 1.0).ravel())
        for j, target in enumerate(TARGETS):
            lost = math.floor(len(need) * (1 - target) / 2)
            if len(need) and (lost >= 1 or target <= 1 - 1 / len(need)):
                share = float(need[len(need) - 1 - lost])
                shares[i, j] = min(1.0, share * (1 + 1e-6))
    return Calibration(n, shares)
