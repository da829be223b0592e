"""The paper's prior on the variances of an embedding, and psi, the set of high-variance dimensions.

    P(lambda) = pi1 N(lambda; mu1, sigma1) + pi2 SN(lambda; mu2, sigma2, alpha2)

N is the low-variance mode. The skew-normal SN is the high-variance mode, steep above and long below. psi contains the
dimensions for which the second term is larger. ``em`` and ``gradient`` fit the prior, both by maximizing

    sum over i of log P(lambda_i)  +  robustness * log(sum over i of pi2 SN(lambda_i))

whose second term keeps the high mode from becoming empty. As in the paper, mu1 = 0, alpha2, pi1 and pi2 are given and
sigma1, mu2, sigma2 are fitted. Unlike the paper, lambda is divided by its mean first and the sigmas have floors. On raw
variances the result would depend on the unit of the data, and sigma1 would run to 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .em import fit_em
from .gradient import fit_gradient
from .model import Prior
from .start import ALPHA2, PI2, ROBUSTNESS, SIGMA1_FLOOR, SIGMA2_FLOOR, start_prior

__all__ = [
    "ALPHA2",
    "FITS",
    "PI2",
    "ROBUSTNESS",
    "SIGMA1_FLOOR",
    "SIGMA2_FLOOR",
    "Prior",
    "fit_em",
    "fit_gradient",
    "split_dimensions",
    "start_prior",
]

#: By the name of the setting ``prior``.
FITS: dict[str, Callable[..., Prior]] = {"em": fit_em, "gradient": fit_gradient}


def split_dimensions(variances: Any, method: str = "em") -> tuple[NDArray[np.bool_], Prior]:
    """psi as a mask over the dimensions, and the fitted prior."""
    prior = FITS[method](variances)
    return prior.high(variances), prior
