"""Labels -> class numbers 0 .. C-1; triplets of rows by class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import FewRowsWarning, InputError, warn_user
from ...inputs.arrays import describe, positive, to_numpy
from ...inputs.labels import as_labels

Labels = NDArray[np.int64]


def encode_labels(y: Any, n: int, *, name: str = "y") -> tuple[Labels, NDArray[Any]]:
    """Class numbers int64 [n] and the classes they stand for, ascending: ``classes[numbers]`` are the labels again.

    What labels may be says :func:`interlace.inputs.labels.as_labels`; here there must be two classes of them.
    """
    array = as_labels(y, n, name=name)
    classes, numbers, counts = np.unique(array, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        held = f"all are {classes[0].item()!r}, one class" if len(classes) else "there are none"
        raise InputError(f"labels must name at least two classes, {held}")
    if (alone := counts == 1).any():
        listed = ", ".join(repr(c.item()) for c in classes[alone][:5]) + (", ..." if alone.sum() > 5 else "")
        warn_user(
            f"{int(alone.sum())} of {len(classes)} classes have a single row ({listed}): nothing can be like it",
            FewRowsWarning,
        )
    return numbers.astype(np.int64), classes


def triplets(labels: Any, n: int, seed: int = 0) -> Labels:
    """int64 [n, 3]: anchor, positive (another row of its class) and negative (a row of another class).

    Anchors are drawn evenly from the rows whose class has a second row, the others evenly from the rows they may be.
    """
    numbers = to_numpy(labels, "labels")
    if numbers.ndim != 1 or numbers.dtype.kind not in "iub":
        raise InputError(f"triplets need integer labels [rows], got {describe(numbers)}")
    n, seed = positive(n, "n"), positive(seed, "seed", least=0)
    # Rows sorted by class: a class is a run, and "another class" is everything but one run.
    order = np.argsort(numbers, kind="stable")
    _, first, inverse, size = np.unique(numbers[order], return_index=True, return_inverse=True, return_counts=True)
    start, count = first[inverse], size[inverse]  # of the run that each place is in
    able = np.flatnonzero(count > 1)
    if not len(able) or len(size) < 2:
        raise InputError(f"triplets need two classes, one of them with two rows; got {len(numbers)} labels")
    rng = np.random.default_rng(seed)
    anchor = rng.choice(able, n)
    positive_ = start[anchor] + rng.integers(0, count[anchor] - 1)
    positive_ += positive_ >= anchor  # every place of the run but the anchor's
    negative = rng.integers(0, len(numbers) - count[anchor])
    negative += np.where(negative >= start[anchor], count[anchor], 0)
    return np.asarray(order[np.stack([anchor, positive_, negative], 1)], np.int64)
