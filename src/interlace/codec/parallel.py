"""Score-aware loss: errors along the row itself count more than others (``parallel_weight``).

With the direction u of a row, which is not centred, the loss of its code with the error e is

    |e|^2 + (parallel_weight - 1) (u.e)^2

An error along the row changes the inner products with the queries for which the row is a good answer, whose direction
is near to u; other errors hardly do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..inputs.arrays import FloatArray
from .book import Book
from .limits import reach_of

MAX_WEIGHT = 16.0
#: Rows shorter than this share of the words and the mean get the squared error: products with them are differences of
#: table entries (cpp/core/coding/parallel.cpp), and rounding would hide these.
SHORTEST = 2.0**-8


def checked_weight(value: Any) -> float:
    """A weight from 1 to :data:`MAX_WEIGHT` as float32 has it, or InputError."""
    numeric = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not numeric or not 1 <= value <= MAX_WEIGHT:
        raise InputError(f"parallel_weight must be a number from 1 to {MAX_WEIGHT:g}, got {value!r:.60}")
    return float(np.float32(value))


def shortest_direction(mean: FloatArray, books: Sequence[Book]) -> float:
    """Rows up to this length get the squared error."""
    longest = max(float(np.linalg.norm(mean.astype(np.float64))), reach_of(books))
    return float(np.float32(SHORTEST * longest))
