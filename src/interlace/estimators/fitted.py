"""The result of a fit: what a quantizer's ``learn`` returns, and what a model file holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codebooks
from ..codec.embedding import Embedding
from ..learn.auto import Choice
from ..learn.prior import Prior


@dataclass(frozen=True, eq=False)
class Fitted:
    """The result of a fit. ``codebooks``, ``sample`` and ``n_rows`` are required; the rest depends on the method."""

    codebooks: Codebooks
    sample: NDArray[np.int64]  #: row numbers that the books were learned from, ascending; calibration uses the others
    n_rows: int  #: number of rows passed to fit
    embedding: Embedding | None = None
    prior: Prior | None = None
    choice: Choice | None = None  #: result of ``layout="auto"``
    names: NDArray[Any] | None = None  #: names of the columns of X
    history: list[dict[str, Any]] | None = None  #: losses, one entry per epoch
    codes: NDArray[np.uint8] | None = None  #: codes of the rows passed to fit, which ``score`` searches
    labels: NDArray[Any] | None = None  #: their labels
    info: dict[str, Any] = field(default_factory=dict)  #: how the fit went, in JSON types: recipe, losses, measures
