"""Triplets of rows, drawn by their labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..inputs.arrays import describe, positive, to_numpy


def triplets(labels: Any, n: int = 400_000, seed: int = 0) -> NDArray[np.int64]:
    """Row numbers int64 [n, 3], drawn with ``seed``: an anchor, another row of its class, and a row of another class.

    Anchors are drawn uniformly from the rows that have both, positives from the other rows of the class, negatives from
    the rows of other classes; triplets may repeat.
    """
    array = to_numpy(labels, "labels")
    if array.ndim != 1 or array.dtype.kind not in "iubUSTO":
        raise InputError(f"labels must be integers or strings [rows], got {describe(array)}")
    n, rng = positive(n, "n", least=0), np.random.default_rng(positive(seed, "seed", least=0))
    classes, numbers = np.unique(array, return_inverse=True)
    sizes = np.bincount(numbers.reshape(-1), minlength=len(classes))
    if len(classes) < 2 or sizes.max(initial=0) < 2:
        most = int(sizes.max(initial=0))
        raise InputError(
            f"triplets need two classes, one of them with two rows; got {len(classes)} classes of at most {most} rows"
        )
    order = np.argsort(numbers, kind="stable")  # sorted by class
    first = np.cumsum(sizes) - sizes  # first position of each class
    of_place = numbers[order]
    place = rng.choice(np.flatnonzero(sizes[of_place] > 1), n)
    mine = of_place[place]
    size, start = sizes[mine], first[mine]
    # The positive is 1 to size - 1 positions after the anchor in its class, cyclically.
    positive_place = start + (place - start + rng.integers(1, size)) % size
    other = rng.integers(0, len(order) - size)
    negative_place = np.where(other < start, other, other + size)
    return np.stack([order[place], order[positive_place], order[negative_place]], 1).astype(np.int64)
