"""Logarithms of the normal and the skew-normal density, accurate in the tails. NumPy has no erfc, so `math` is used."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
#: Below this erfc underflows soon, and seven terms of the asymptotic series are exact up to rounding.
TAIL = -30.0


def log_ndtr(x: Floats) -> Floats:
    """log Phi(x), Phi the normal distribution function, to a few units in the last place for every finite x."""
    x = np.asarray(x, np.float64)
    near = np.maximum(x, TAIL)
    # Right of zero Phi is 1 minus a small erfc; left of zero it is a small erfc itself. Neither loses digits.
    small = 0.5 * _erfc(np.abs(near) / math.sqrt(2))
    log_small = np.log(np.maximum(small, 1e-300))  # clipped only where it is not used
    log_near = np.where(near > 0, np.log1p(-small), log_small)
    far = np.minimum(x, TAIL)
    log_far = -0.5 * far * far - np.log(-far) - LOG_SQRT_2PI + np.log(_tail_series(far))
    return np.where(x > TAIL, log_near, log_far)


def mills(x: Floats) -> Floats:
    """phi(x) / Phi(x), the derivative of :func:`log_ndtr`; about -x for large negative x."""
    x = np.asarray(x, np.float64)
    near, far = np.maximum(x, TAIL), np.minimum(x, TAIL)
    # Beyond 39 the result is below the smallest float; the exponent is clipped to avoid an underflow warning.
    ratio = np.exp(np.maximum(-0.5 * np.minimum(near, 40.0) ** 2 - LOG_SQRT_2PI - log_ndtr(near), -700.0))
    return np.where(x > TAIL, ratio, -far / _tail_series(far))


def mills_slope(x: Floats) -> Floats:
    """Minus the derivative of :func:`mills`: falls from 1 at -inf to 0 at inf."""
    ratio = mills(x)
    return np.clip(ratio * (x + ratio), 0.0, 1.0)


def log_normal(x: Floats, mu: float, sigma: float) -> Floats:
    """log N(x; mu, sigma)."""
    z = (np.asarray(x, np.float64) - mu) / sigma
    return np.asarray(-0.5 * z * z - LOG_SQRT_2PI - math.log(sigma))


def log_skew_normal(x: Floats, mu: float, sigma: float, alpha: float) -> Floats:
    """log SN(x; mu, sigma, alpha), SN = 2 / sigma * phi(z) * Phi(alpha z) with z = (x - mu) / sigma."""
    z = (np.asarray(x, np.float64) - mu) / sigma
    return np.asarray(math.log(2.0) + log_normal(x, mu, sigma) + log_ndtr(alpha * z))


def skew_normal_mode(mu: float, sigma: float, alpha: float) -> float:
    """Where SN is largest: between mu and mu + sigma * sign(alpha), by bisection on the sign of its slope."""
    low, high = (0.0, 1.0) if alpha > 0 else (-1.0, 0.0)
    for _ in range(60):
        z = (low + high) / 2
        if -z + alpha * float(mills(np.array(alpha * z))) > 0:
            low = z
        else:
            high = z
    return mu + sigma * (low + high) / 2


def fit_skew_normal(
    x: Floats, weights: Floats, mu: float, sigma: float, alpha: float, *, least_sigma: float, steps: int = 4
) -> tuple[float, float]:
    """mu and sigma, at most ``steps`` Newton steps closer to the weighted maximum likelihood, never further from it.

    In eta = 1 / sigma and offset = (mu - max(x)) / sigma the log-likelihood is concave: z = eta (x - max(x)) - offset
    is linear in both, and log eta, -z^2 / 2 and log Phi(alpha z) are concave. So Newton steps with halving go up, and
    where eta meets its bound 1 / least_sigma the maximum lies on the bound.
    """
    total = float(weights.sum())
    if total < 1e-100:  # nothing to fit
        return mu, sigma
    top, most_eta = float(x.max()), 1.0 / least_sigma
    y, eta = x - top, min(1.0 / sigma, most_eta)
    offset = (mu - top) * eta

    def height(eta: float, offset: float) -> float:
        z = eta * y - offset
        return float(total * math.log(eta) + weights @ (log_ndtr(alpha * z) - 0.5 * z * z))

    now = height(eta, offset)
    for _ in range(steps):
        z = eta * y - offset
        slope = weights * (alpha * mills(alpha * z) - z)
        bend = weights * (-1.0 - alpha * alpha * mills_slope(alpha * z))
        by_eta, by_offset = total / eta + float(slope @ y), -float(slope.sum())
        a, b, c = float(bend @ (y * y)) - total / eta**2, -float(bend @ y), float(bend.sum())
        if eta >= most_eta and by_eta >= 0:
            step = 0.0, -by_offset / c
        else:
            determinant = max(a * c - b * b, -c * total / eta**2)  # at least the second, but for rounding
            step = (b * by_offset - c * by_eta) / determinant, (b * by_eta - a * by_offset) / determinant
        share = 1.0 if step[0] >= 0 else min(1.0, 0.9 * eta / -step[0])  # eta stays positive
        for _ in range(40):
            trial = min(eta + share * step[0], most_eta), offset + share * step[1]
            then = height(*trial)
            if then > now:
                break
            share /= 2
        else:
            break
        gain, now, (eta, offset) = then - now, then, trial
        if gain < 1e-12 * total:
            break
    return top + offset / eta, 1.0 / eta


def _erfc(x: Floats) -> Floats:
    return np.fromiter(map(math.erfc, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)


def _tail_series(x: Floats) -> Floats:
    """1 - 1/x^2 + 3/x^4 - 15/x^6 + ..., the factor of phi(x) / -x that makes it Phi(x), for x <= TAIL."""
    inverse = 1.0 / (x * x)
    series = np.ones_like(inverse)
    for k in range(7, 0, -1):
        series = 1.0 - (2 * k - 1) * inverse * series
    return series
