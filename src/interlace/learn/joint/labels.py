"""Labels -> class numbers 0 .. n_classes - 1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import FewRowsWarning, InputError, warn_user
from ...inputs.labels import as_labels

Labels = NDArray[np.int64]


def encode_labels(y: Any, n: int, *, name: str = "y") -> tuple[Labels, NDArray[Any]]:
    """Class numbers int64 [n] and the ascending classes: ``classes[numbers]`` are the labels.

    :func:`interlace.inputs.labels.as_labels` says which labels are allowed. There must be at least two classes.
    """
    array = as_labels(y, n, name=name)
    classes, numbers, counts = np.unique(array, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        held = f"all are {classes[0].item()!r}, one class" if len(classes) else "there are none"
        raise InputError(f"labels must name at least two classes, {held}")
    if (alone := counts == 1).any():
        listed = ", ".join(repr(c.item()) for c in classes[alone][:5]) + (", ..." if alone.sum() > 5 else "")
        warn_user(
            f"{int(alone.sum())} of {len(classes)} classes have a single row ({listed}), which "
            "has no other row of its class to learn from",
            FewRowsWarning,
        )
    return numbers.astype(np.int64), classes
