"""The paper's prior on the variances of an embedding, and psi, the set of high-variance dimensions, that follows.

    P(lambda) = pi1 N(lambda; mu1, sigma1) + pi2 SN(lambda; mu2, sigma2, alpha2)

N is the low-variance mode, the skew-normal SN the high-variance one, steep above and long below. psi is where the
second term is the larger one. The prior is fitted by expectation maximisation or by gradient ascent, both on

    sum over i of log P(lambda_i)  +  robustness * log(sum over i of pi2 SN(lambda_i))

whose second term keeps the high mode from being emptied. As in the paper, mu1 = 0, alpha2, pi1 and pi2 are given and
sigma1, mu2, sigma2 are learned. Unlike the paper, lambda is divided by its mean first and the sigmas have floors: on
raw variances the result depends on the unit of the data, and sigma1 runs to 0.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..inputs.arrays import check_numeric, describe, to_numpy
from .skew_normal import (
    Floats,
    fit_skew_normal,
    log_normal,
    log_skew_normal,
    mills,
    skew_normal_mode,
)

SIGMA1_FLOOR, SIGMA2_FLOOR = 0.1, 0.25  # in units of the mean variance
#: A learned pi2 stays this far from 0 and 1.
PI_FLOOR = 1e-3
PI2, ALPHA2, ROBUSTNESS = 0.4, -10.0, 1.0
METHODS = ("em", "gradient")
_ROBUSTNESS_RANGE = (0.0, 1e6)
#: Standardised values are cut here: their squares stay within the floats.
_CUT = 1e60
_RANGES = {
    "mu1": (-_CUT, _CUT),
    "sigma1": (1e-6, _CUT),
    "mu2": (-_CUT, _CUT),
    "sigma2": (1e-6, _CUT),
    "alpha2": (-1000.0, 0.0),  # the long side points down
    "pi1": (1e-6, 1.0),
    "pi2": (1e-6, 1.0),
    "scale": (1e-300, 1e308),
}


@dataclass(frozen=True)
class Prior:
    """The paper's Theta. Means and sigmas are in units of ``scale``, normally the mean of the
    variances it was fitted to."""

    mu1: float
    sigma1: float
    mu2: float
    sigma2: float
    alpha2: float
    pi1: float
    pi2: float
    scale: float

    def __post_init__(self) -> None:
        for name, (least, most) in _RANGES.items():
            _number(f"{name} of a prior", getattr(self, name), least, most)
        if abs(self.pi1 + self.pi2 - 1) > 1e-6:
            raise InputError(f"pi1 and pi2 of a prior must sum to 1, got {self.pi1} and {self.pi2}")

    def log_likelihood(self, variances: Any, *, robustness: float = 0.0) -> float:
        """Sum of log P(lambda / scale), plus ``robustness`` times the log of the high mode's sum.

        It does not depend on the unit of the data; for the density of lambda itself subtract len * log(scale).
        """
        return _expect(self, self._values(variances), _number("robustness", robustness, *_ROBUSTNESS_RANGE))[0]

    def responsibilities(self, variances: Any) -> Floats:
        """The probability of each dimension to be of the high mode; the paper's rule is this > 1/2."""
        return _high_share(*_log_modes(self, self._values(variances)))

    def high(self, variances: Any) -> NDArray[np.bool_]:
        """psi: the mask of the high-variance dimensions, the largest ones whatever the order.

        The skew-normal falls so steeply above its mode that the paper's rule can give the very largest variances back
        to the low mode, and a normal that does not start at 0 can lose the smallest. Both would tear a hole into psi,
        so a variance is judged at the nearest point between mu1 and the mode: there the rule is monotone. When one
        mode would take everything, the largest variance is high and the smallest is not (a single one is high).
        """
        values = self._values(variances)
        mode = max(self.mu1, skew_normal_mode(self.mu2, self.sigma2, self.alpha2))
        low, high = _log_modes(self, np.clip(values, self.mu1, mode))
        count = min(max(int((high > low).sum()), 1), max(len(values) - 1, 1))
        mask = np.zeros(len(values), np.bool_)
        mask[np.argsort(-values, kind="stable")[:count]] = True
        return mask

    def density(self, values: Any) -> Floats:
        """P at any values (any shape, the unit of the variances), for plots.

        Times `responsibilities` it is the part of the high mode.
        """
        points = to_numpy(values, "values")
        check_numeric(points.dtype, "values")
        return np.asarray(np.exp(np.logaddexp(*_log_modes(self, _divided(points, self.scale)))) / self.scale)

    def to_dict(self) -> dict[str, float]:
        """Plain numbers, for JSON."""
        return {name: float(value) for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Prior:
        """The prior of :meth:`to_dict`."""
        names = {field.name for field in fields(cls)}
        if not isinstance(values, Mapping) or set(values) != names:
            got = sorted(map(str, values)) if isinstance(values, Mapping) else describe(values)
            raise InputError(f"a prior is made of {', '.join(sorted(names))}, got {got}")
        return cls(**values)

    def _values(self, variances: Any) -> Floats:
        return _divided(_checked(variances), self.scale)


def fit_em(
    variances: Any,
    *,
    pi2: float = PI2,
    learn_pi: bool = False,
    mu1: float = 0.0,
    alpha2: float = ALPHA2,
    robustness: float = ROBUSTNESS,
    iterations: int = 500,
    tol: float = 1e-9,
    scale: float | None = None,
) -> Prior:
    """The prior by expectation maximisation; every iteration raises the objective or leaves it.

    Stops when an iteration gains less than ``tol`` per dimension. ``pi2`` is kept as given, as in the paper;
    ``learn_pi`` makes it a start, but on slowly falling spectra the high mode then takes everything. ``scale`` is the
    unit of the variances, by default their mean.
    """
    values, prior = _begin(variances, pi2, mu1, alpha2, robustness, iterations, tol, scale)
    height, low, high = _expect(prior, values, robustness)
    for _ in range(iterations):
        trial = _maximise(prior, values, low, high, robustness, learn_pi)
        now, low, high = _expect(trial, values, robustness)
        if now <= height:  # converged; what is left is rounding
            break
        gain, height, prior = now - height, now, trial
        if gain < tol * len(values):
            break
    return prior


def fit_gradient(
    variances: Any,
    *,
    pi2: float = PI2,
    learn_pi: bool = False,
    mu1: float = 0.0,
    alpha2: float = ALPHA2,
    robustness: float = ROBUSTNESS,
    iterations: int = 2000,
    tol: float = 1e-6,
    learning_rate: float = 0.1,
) -> Prior:
    """The prior by gradient ascent (Adam), the paper's choice; from the same start as :func:`fit_em`, to the same end.

    The rate is halved, and the best point so far taken up again, whenever 20 steps gain less than ``tol`` per
    dimension; it stops at a hundredth of the first rate.
    """
    values, prior = _begin(variances, pi2, mu1, alpha2, robustness, iterations, tol)
    _number("learning_rate", learning_rate, 1e-6, 1.0)
    top = float(values.max())
    best_at = at = _to_parameters(prior, top)
    best, mark, waited, rate = -math.inf, -math.inf, 0, learning_rate
    first, second = np.zeros(4), np.zeros(4)
    for step in range(1, iterations + 1):
        height, slope = _slope(_from_parameters(prior, at, top), values, robustness, learn_pi, top)
        if height > best:
            best, best_at = height, at
        waited += 1
        if best - mark > tol * len(values):
            mark, waited = best, 0
        elif waited >= 20:
            rate, at, waited = rate / 2, best_at, 0
            if rate < learning_rate / 100:
                break
            continue
        # On the way to a floor the slope falls step by step: a longer memory of its squares would stop it early.
        first, second = 0.9 * first + 0.1 * slope, 0.9 * second + 0.1 * slope * slope
        scaled = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.9**step)) + 1e-12)
        at = np.clip(at + rate * scaled, -50.0, 50.0)  # exp of more means nothing here
    return _from_parameters(prior, best_at, top)


def start_prior(
    variances: Any, *, pi2: float = PI2, mu1: float = 0.0, alpha2: float = ALPHA2, scale: float | None = None
) -> Prior:
    """Where both fits start: mu2 at the largest variance, the high mode on what exceeds the unit."""
    return _begin(variances, pi2, mu1, alpha2, 0.0, 1, 0.0, scale)[1]


def split_dimensions(variances: Any, *, method: str = "em", **settings: Any) -> tuple[NDArray[np.bool_], Prior]:
    """psi as a mask over the dimensions, and the prior it comes from; ``settings`` are those of the fit."""
    if method not in METHODS:
        raise InputError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    prior = (fit_em if method == "em" else fit_gradient)(variances, **settings)
    return prior.high(variances), prior


def _checked(variances: Any) -> Floats:
    """Finite float64 [dim], at least one; what rounding left below zero is zero."""
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


def _divided(variances: NDArray[Any], scale: float) -> Floats:
    """In units of the scale."""
    with np.errstate(over="ignore"):
        return np.clip(variances.astype(np.float64) / scale, -_CUT, _CUT)


def _begin(
    variances: Any,
    pi2: float,
    mu1: float,
    alpha2: float,
    robustness: float,
    iterations: int,
    tol: float,
    scale: float | None = None,
) -> tuple[Floats, Prior]:
    """Standardised variances and the first prior: mu2 at the largest, the high mode on what exceeds the unit."""
    pi2 = _number("pi2", pi2, PI_FLOOR, 1 - PI_FLOOR)
    mu1, alpha2 = _number("mu1", mu1, 0.0, 1.0), _number("alpha2", alpha2, *_RANGES["alpha2"])
    _number("robustness", robustness, *_ROBUSTNESS_RANGE)
    _number("tol", tol, 0.0, 1.0)
    if not isinstance(iterations, numbers.Integral) or iterations < 1:
        raise InputError(f"iterations must be a positive integer, got {iterations!r}")
    checked = _checked(variances)
    largest = float(checked.max())
    # Dividing by the largest first keeps the sum of the mean within the floats. Zeros have no unit.
    if scale is None:
        scale = largest * float((checked / largest).mean()) if largest > 1e-290 else 1.0
    values = _divided(checked, scale)
    # The little more than the mean keeps equal variances together however they round.
    top, above = float(values.max()), values > 1.0 + 1e-9
    spread1 = _root_mean(np.square(values[~above] - mu1))
    spread2 = _root_mean(np.square(values[above] - top)) if above.any() else 0.0
    sigma1, sigma2 = max(spread1, SIGMA1_FLOOR), max(spread2, SIGMA2_FLOOR)
    return values, Prior(mu1, sigma1, top, sigma2, alpha2, 1.0 - pi2, pi2, scale)


def _number(name: str, value: Any, least: float, most: float) -> float:
    number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    if not least <= number <= most:  # NaN compares false
        raise InputError(f"{name} must be a number from {least:g} to {most:g}, got {value!r}")
    return number


def _root_mean(squares: Floats) -> float:
    return math.sqrt(float(squares.mean()))


def _log_modes(prior: Prior, values: Floats) -> tuple[Floats, Floats]:
    """log(pi1 N) and log(pi2 SN) at standardised values."""
    low = math.log(prior.pi1) + log_normal(values, prior.mu1, prior.sigma1)
    return low, math.log(prior.pi2) + log_skew_normal(values, prior.mu2, prior.sigma2, prior.alpha2)


def _high_share(low: Floats, high: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(np.clip(low - high, -700.0, 700.0))))


def _log_sum(logs: Floats) -> float:
    largest = float(logs.max())
    return largest + math.log(float(np.exp(logs - largest).sum()))


def _expect(prior: Prior, values: Floats, robustness: float) -> tuple[float, Floats, Floats]:
    """The objective, and each dimension's weight in the low and in the high mode.

    The robustness term is a log of a sum as the likelihood is, so it has an expectation step too: its weight is spread
    over the dimensions by their share of the high mode's sum.
    """
    low, high = _log_modes(prior, values)
    share, log_sum = _high_share(low, high), _log_sum(high)
    objective = float(np.logaddexp(low, high).sum()) + robustness * log_sum
    return objective, 1.0 - share, share + robustness * np.exp(high - log_sum)


def _maximise(prior: Prior, values: Floats, low: Floats, high: Floats, robustness: float, learn_pi: bool) -> Prior:
    """The prior that fits the weights better: exactly for sigma1 and pi2, by a few Newton steps for mu2 and sigma2."""
    sigma1 = prior.sigma1
    if low.sum() > 1e-100:
        sigma1 = max(SIGMA1_FLOOR, math.sqrt(float(low @ np.square(values - prior.mu1)) / float(low.sum())))
    mu2, sigma2 = fit_skew_normal(values, high, prior.mu2, prior.sigma2, prior.alpha2, least_sigma=SIGMA2_FLOOR)
    pi2 = prior.pi2
    if learn_pi:
        pi2 = min(max(float(high.sum()) / (len(values) + robustness), PI_FLOOR), 1.0 - PI_FLOOR)
    return replace(prior, sigma1=sigma1, mu2=mu2, sigma2=sigma2, pi1=1.0 - pi2, pi2=pi2)


# Gradient ascent moves four free numbers: log(sigma1 - floor), log(sigma2 - floor), (mu2 - largest) / sigma2 and the
# logit of pi2. A step then means the same whether the largest variance is 2 or 2,000 times the mean.


def _to_parameters(prior: Prior, top: float) -> Floats:
    excess = [max(prior.sigma1 / SIGMA1_FLOOR - 1, 1e-3), max(prior.sigma2 / SIGMA2_FLOOR - 1, 1e-3)]
    return np.array([*np.log(excess), (prior.mu2 - top) / prior.sigma2, math.log(prior.pi2 / prior.pi1)])


def _from_parameters(like: Prior, parameters: Floats, top: float) -> Prior:
    log_excess1, log_excess2, offset, logit = parameters.tolist()
    sigma2 = SIGMA2_FLOOR * (1 + math.exp(log_excess2))
    pi2 = min(max(1.0 / (1.0 + math.exp(-logit)), PI_FLOOR), 1.0 - PI_FLOOR)
    return replace(
        like,
        sigma1=SIGMA1_FLOOR * (1 + math.exp(log_excess1)),
        mu2=top + offset * sigma2,
        sigma2=sigma2,
        pi1=1.0 - pi2,
        pi2=pi2,
    )


def _slope(prior: Prior, values: Floats, robustness: float, learn_pi: bool, top: float) -> tuple[float, Floats]:
    """The objective and its derivatives by the four parameters."""
    objective, low, high = _expect(prior, values, robustness)
    z1, z2 = (values - prior.mu1) / prior.sigma1, (values - prior.mu2) / prior.sigma2
    by_z = high * (prior.alpha2 * mills(prior.alpha2 * z2) - z2)
    by_sigma1 = float(low @ (z1 * z1 - 1)) / prior.sigma1
    by_sigma2 = -float(high.sum() + by_z @ (values - top) / prior.sigma2) / prior.sigma2
    by_logit = float(high.sum()) - (len(values) + robustness) * prior.pi2
    slope = [
        by_sigma1 * (prior.sigma1 - SIGMA1_FLOOR),
        by_sigma2 * (prior.sigma2 - SIGMA2_FLOOR),
        -float(by_z.sum()),
        by_logit if learn_pi else 0.0,
    ]
    return objective, np.array(slope)
