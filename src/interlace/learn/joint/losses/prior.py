"""L_P: the bi-modal prior on the variances of the embedding, with its robustness term.

    L_P = -sum over i of log(pi1 N(lambda_i; 0, sigma1) + pi2 SN(lambda_i; mu2, sigma2, alpha2))
          - robustness * log(sum over i of pi2 SN(lambda_i))

It moves a few variances towards mu2 and the others towards 0, and fits Theta = (sigma1, sigma2, mu2) to them.
``learn.prior`` has the same prior for given variances; values are equal.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from ....errors import InputError
from ....inputs.arrays import describe
from ...prior import ALPHA2, PI2, ROBUSTNESS, SIGMA1_FLOOR, SIGMA2_FLOOR, Prior, fit_em, start_prior
from ...prior.skew_normal import LOG_SQRT_2PI, skew_normal_mode
from .rows import one_if_zero

#: A parameter at its floor starts slightly (relative) above it, otherwise it would have no gradient.
_ABOVE_FLOOR = 1e-3
_NEAR_FLOOR = 1.02
#: The largest variance is at most this many units; if it is more than that many means, the unit is a quarter of it.
#: Otherwise, if 10 of 512 dimensions have all the variance, they are at 50 means where the high mode is as steep as at
#: 2, and when one of them moves by a hundredth, L_P is much larger than L_E.
_WIDEST = 4.0
#: Without a floor, a sigma below this share of the mean variance counts as 0.
_VANISHED = 1e-3


class PriorLoss(nn.Module):
    """L_P of variances [dim], with the parameters Theta.

    By default lambda is divided by its mean (or by a quarter of the largest, if that is more), the mixture is computed
    in logarithms, sigmas and mu2 are softplus parameters with floors (.1, .25 and 0 times that unit), and the loss is
    divided by dim, so that gamma1 is valid for any unit and dim. The gradient includes that unit, so scaling all
    variances together does not change the loss: L_P changes the shape of the spectrum, not the size of the embedding.

    ``raw=True`` is the paper as written: raw variances, a plain sum, no floors. It is computed in logarithms too, and
    its sigmas are exponentials of the parameters, so that they stay positive. Sigmas may still run to 0, which
    :meth:`collapsed` reports.
    """

    def __init__(
        self, *, pi2: float = PI2, alpha2: float = ALPHA2, robustness: float = ROBUSTNESS, raw: bool = False
    ) -> None:
        super().__init__()
        if not 0 <= robustness < math.inf:
            raise InputError(f"robustness must be a number of at least 0, got {robustness!r}")
        self.pi2, self.alpha2, self.robustness, self.raw = pi2, alpha2, robustness, raw
        self._sigma1, self._sigma2, self._mu2 = (nn.Parameter(torch.zeros(())) for _ in range(3))
        self.set_prior(Prior(0.0, 0.5, 2.0, 1.0, alpha2, 1.0 - pi2, pi2, 1.0))  # checks pi2 and alpha2 too

    @property
    def sigma1(self) -> Tensor:
        """In units of :meth:`unit`, or of the variances when raw; so are sigma2 and mu2."""
        return self._sigma1.exp() if self.raw else SIGMA1_FLOOR + F.softplus(self._sigma1)

    @property
    def sigma2(self) -> Tensor:
        return self._sigma2.exp() if self.raw else SIGMA2_FLOOR + F.softplus(self._sigma2)

    @property
    def mu2(self) -> Tensor:
        return self._mu2 if self.raw else F.softplus(self._mu2)

    def forward(self, variances: Tensor) -> Tensor:
        """The loss: per dimension, or their sum when raw."""
        _check(variances)
        values = variances if self.raw else variances / one_if_zero(self.unit(variances))
        z1, z2 = values / self.sigma1, (values - self.mu2) / self.sigma2
        low = math.log(1.0 - self.pi2) - 0.5 * z1.square() - LOG_SQRT_2PI - self.sigma1.log()
        high = math.log(2.0 * self.pi2) - 0.5 * z2.square() - LOG_SQRT_2PI - self.sigma2.log()
        high = high + torch.special.log_ndtr(self.alpha2 * z2)
        likelihood: Tensor = torch.logaddexp(low, high).sum() + self.robustness * high.logsumexp(0)
        return -likelihood / (1 if self.raw else len(variances))

    def unit(self, variances: Tensor) -> Tensor:
        """The divisor of lambda; the mean if raw."""
        mean = variances.mean()
        return mean if self.raw else torch.maximum(mean, variances.max() / _WIDEST)

    # --- to and from a `Prior`

    def set_prior(self, prior: Prior) -> None:
        """Set Theta from a prior, in place, so that an optimizer keeps its parameters."""
        if (prior.mu1, prior.pi2, prior.alpha2) != (0.0, self.pi2, self.alpha2):
            raise InputError(
                f"the prior must have mu1 = 0, pi2 = {self.pi2} and alpha2 = {self.alpha2}, got {prior.to_dict()}"
            )
        if self.raw:
            theta = [
                math.log(prior.scale * prior.sigma1),
                math.log(prior.scale * prior.sigma2),
                prior.scale * prior.mu2,
            ]
        else:
            theta = [
                _inverse_softplus(max(prior.sigma1 - SIGMA1_FLOOR, _ABOVE_FLOOR * SIGMA1_FLOOR)),
                _inverse_softplus(max(prior.sigma2 - SIGMA2_FLOOR, _ABOVE_FLOOR * SIGMA2_FLOOR)),
                _inverse_softplus(max(prior.mu2, _ABOVE_FLOOR)),
            ]
        with torch.no_grad():
            for parameter, value in zip((self._sigma1, self._sigma2, self._mu2), theta, strict=True):
                parameter.fill_(value)

    def to_prior(self, scale: float) -> Prior:
        """The prior of variances whose mean is ``scale``."""
        unit = scale if self.raw else 1.0
        sigma1, sigma2, mu2 = (float(value.detach()) / unit for value in (self.sigma1, self.sigma2, self.mu2))
        return Prior(0.0, sigma1, mu2, sigma2, self.alpha2, 1.0 - self.pi2, self.pi2, scale)

    def start(self, variances: Any) -> Prior:
        """Set Theta to where learning starts: mu2 at the largest variance, the high mode on those above the mean."""
        return self._set(start_prior(variances, pi2=self.pi2, alpha2=self.alpha2, scale=self.scale(variances)))

    def fit_em(self, variances: Any) -> Prior:
        """Set Theta by expectation maximization (standardized and with floors, raw or not)."""
        scale = self.scale(variances)
        return self._set(fit_em(variances, pi2=self.pi2, alpha2=self.alpha2, robustness=self.robustness, scale=scale))

    def scale(self, variances: Any) -> float:
        """The unit as a number, for a prior of these variances; 1 if all are 0."""
        values = (
            variances.detach().cpu().double() if isinstance(variances, Tensor) else torch.tensor(variances).double()
        )
        return float(one_if_zero(self.unit(values)))

    def _set(self, prior: Prior) -> Prior:
        self.set_prior(prior)
        return prior

    # --- psi

    def high(self, variances: Tensor) -> Tensor:
        """psi: bool [dim], never empty and never everything (`Prior.high`)."""
        mask = self._prior_of(variances).high(variances)
        return torch.as_tensor(mask, device=variances.device)

    def high_by_rule(self, variances: Tensor) -> Tensor:
        """psi by the paper's plain rule, pi2 SN > pi1 N: it may have holes, be empty or be everything."""
        mask = self._prior_of(variances).responsibilities(variances) > 0.5
        return torch.as_tensor(mask, device=variances.device)

    def collapsed(self, variances: Tensor) -> str | None:
        """Why the two modes are useless, as a text for a warning, or None if they are fine.

        sigma1 at its floor is fine: the low mode is meant to be narrow.
        """
        _check(variances)
        theta = [float(value.detach()) for value in (self.sigma1, self.sigma2, self.mu2)]
        if not bool(variances.isfinite().all()) or not all(map(math.isfinite, theta)):
            return f"not finite: sigma1, sigma2, mu2 = {theta}, largest variance {float(variances.max())}"
        unit = float(one_if_zero(variances.detach().mean())) if self.raw else 1.0
        if min(theta[:2]) <= _VANISHED * unit:
            return f"a sigma ran to 0: sigma1, sigma2 = {theta[:2]} where the mean variance is {unit:g}"
        dim, peak = len(variances), self._peak(variances)
        # Variances above the peak belong to the high mode, although its density falls steeply there (`Prior.high`).
        judged = variances if self.raw else variances.clamp(max=max(0.0, peak))
        shares = self._prior_of(variances).responsibilities(judged)
        n_high = int((shares > 0.5).sum())
        if n_high == 0:
            largest, held = float(variances.max()), float(shares.sum())
            past = f"; the largest variance, {largest:.3g}, is above its peak at {peak:.3g}" if largest > peak else ""
            return (
                f"the high mode is empty: none of {dim} dimensions is in psi, the mode holds {held:.2g} of them{past}"
            )
        if n_high == dim > 1:
            return f"the low mode is empty: all {dim} dimensions are in psi"
        if not self.raw and n_high == 1 < dim and theta[1] < _NEAR_FLOOR * SIGMA2_FLOOR:
            return f"the high mode is a spike on one dimension: sigma2 = {theta[1]:.3g} is at its floor"
        return None

    def _peak(self, variances: Tensor) -> float:
        """The peak of the high mode, in the unit of the variances."""
        prior = self._prior_of(variances)
        return prior.scale * skew_normal_mode(prior.mu2, prior.sigma2, prior.alpha2)

    def _prior_of(self, variances: Tensor) -> Prior:
        _check(variances)
        return self.to_prior(self.scale(variances))


def _check(variances: Tensor) -> None:
    if not isinstance(variances, Tensor) or variances.ndim != 1 or not len(variances):
        raise InputError(f"variances must be a tensor [dim] with at least one, got {describe(variances)}")


def _inverse_softplus(value: float) -> float:
    return value + math.log(-math.expm1(-value))
