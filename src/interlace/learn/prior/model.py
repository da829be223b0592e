"""The prior itself: its parameters, its density, and the dimensions that it assigns to the high mode."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...inputs.arrays import check_numeric, describe, to_numpy
from .skew_normal import Floats, log_normal, log_skew_normal, skew_normal_mode

#: Standardized values are clipped to this, so that their squares are finite.
CLIP = 1e60
RANGES = {
    "mu1": (-CLIP, CLIP),
    "sigma1": (1e-6, CLIP),
    "mu2": (-CLIP, CLIP),
    "sigma2": (1e-6, CLIP),
    "alpha2": (-1000.0, 0.0),  # the long side points down
    "pi1": (1e-6, 1.0),
    "pi2": (1e-6, 1.0),
    "scale": (1e-300, 1e308),
}
ROBUSTNESS_RANGE = (0.0, 1e6)


@dataclass(frozen=True)
class Prior:
    """The paper's Theta. Means and sigmas are in units of ``scale``, normally the mean of the fitted variances."""

    mu1: float
    sigma1: float
    mu2: float
    sigma2: float
    alpha2: float
    pi1: float
    pi2: float
    scale: float

    def __post_init__(self) -> None:
        for name, (least, most) in RANGES.items():
            check_number(f"{name} of a prior", getattr(self, name), least, most)
        if abs(self.pi1 + self.pi2 - 1) > 1e-6:
            raise InputError(f"pi1 and pi2 of a prior must sum to 1, got {self.pi1} and {self.pi2}")

    def log_likelihood(self, variances: Any, *, robustness: float = 0.0) -> float:
        """Sum of log P(lambda / scale), plus ``robustness`` times the log of the high mode's sum.

        It does not depend on the unit of the data; for the density of lambda itself subtract len * log(scale).
        """
        return objective(self, self._values(variances), check_number("robustness", robustness, *ROBUSTNESS_RANGE))[0]

    def responsibilities(self, variances: Any) -> Floats:
        """The probability of each dimension to belong to the high mode; the paper's rule for psi is > 1/2."""
        return _high_share(*log_modes(self, self._values(variances)))

    def high(self, variances: Any) -> NDArray[np.bool_]:
        """psi: the mask of the high-variance dimensions. If a dimension is in psi, so are all of larger variance.

        Above its mode the skew-normal falls so steeply that the paper's rule can assign the very largest variances to
        the low mode. Therefore the rule is applied to variances clipped to [mu1, mode], where it is monotone. If one
        mode would take all dimensions, the largest variance is high and the smallest is not; a single one is high.
        """
        values = self._values(variances)
        mode = max(self.mu1, skew_normal_mode(self.mu2, self.sigma2, self.alpha2))
        low, high = log_modes(self, np.clip(values, self.mu1, mode))
        count = min(max(int((high > low).sum()), 1), max(len(values) - 1, 1))
        mask = np.zeros(len(values), np.bool_)
        mask[np.argsort(-values, kind="stable")[:count]] = True
        return mask

    def density(self, values: Any) -> Floats:
        """P at any values (of any shape, in the unit of the variances), for plots.

        Multiplied by :meth:`responsibilities` it is the part of the high mode.
        """
        points = to_numpy(values, "values")
        check_numeric(points.dtype, "values")
        return np.asarray(np.exp(np.logaddexp(*log_modes(self, divide(points, self.scale)))) / self.scale)

    def to_dict(self) -> dict[str, float]:
        """Plain numbers, for JSON."""
        return {name: float(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Prior:
        """The prior of :meth:`to_dict`."""
        names = {field.name for field in fields(cls)}
        if not isinstance(values, Mapping) or set(values) != names:
            got = sorted(map(str, values)) if isinstance(values, Mapping) else describe(values)
            raise InputError(f"a prior must have the fields {', '.join(sorted(names))}, got {got}")
        return cls(**values)

    def _values(self, variances: Any) -> Floats:
        return divide(check_variances(variances), self.scale)


def check_number(name: str, value: Any, least: float, most: float) -> float:
    """The value as a float; InputError unless it is a number in the range."""
    number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    if not least <= number <= most:  # NaN compares false
        raise InputError(f"{name} must be a number from {least:g} to {most:g}, got {value!r}")
    return number


def check_variances(variances: Any) -> Floats:
    """Finite float64 [dim], at least one; slightly negative values, which come from rounding, become 0."""
    array = to_numpy(variances, "variances")
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"variances must be 1-D [dimensions] with at least one, got {describe(variances)}")
    check_numeric(array.dtype, "variances")
    values = array.astype(np.float64)
    # Eigenvalues of a singular covariance in float32 come out this far below zero.
    bad = ~np.isfinite(values) | (values < -1e-5 * np.abs(values).max())
    if bad.any():
        where = int(np.argmax(bad))
        raise InputError(f"variances[{where}] is {array[where]}, expected a finite number of at least 0")
    return np.maximum(values, 0.0)


def divide(variances: NDArray[Any], scale: float) -> Floats:
    """Standardized values: in units of the scale."""
    with np.errstate(over="ignore"):
        return np.clip(variances.astype(np.float64) / scale, -CLIP, CLIP)


def log_modes(prior: Prior, values: Floats) -> tuple[Floats, Floats]:
    """log(pi1 N) and log(pi2 SN) at standardized values."""
    low = math.log(prior.pi1) + log_normal(values, prior.mu1, prior.sigma1)
    return low, math.log(prior.pi2) + log_skew_normal(values, prior.mu2, prior.sigma2, prior.alpha2)


def objective(prior: Prior, values: Floats, robustness: float) -> tuple[float, Floats, Floats]:
    """The objective of the fits, and the weight of each dimension in the low and in the high mode.

    The robustness term is the log of a sum, as the likelihood is, so it has an expectation step too: its weight is
    spread over the dimensions by their share of the high mode's sum.
    """
    low, high = log_modes(prior, values)
    share, log_sum = _high_share(low, high), _log_sum(high)
    total = float(np.logaddexp(low, high).sum()) + robustness * log_sum
    return total, 1.0 - share, share + robustness * np.exp(high - log_sum)


def _high_share(low: Floats, high: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(np.clip(low - high, -700.0, 700.0))))


def _log_sum(logs: Floats) -> float:
    largest = float(logs.max())
    return largest + math.log(float(np.exp(logs - largest).sum()))
