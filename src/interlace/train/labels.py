"""Labels as users have them -> class numbers 0 .. C-1; triplets of rows by class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import describe, positive, to_numpy
from ..errors import FewRowsWarning, InputError, warn_user

Labels = NDArray[np.int64]


def encode_labels(y: Any, n: int, *, name: str = "y") -> tuple[Labels, NDArray[Any]]:
    """Class numbers int64 [n] and the classes they stand for, ascending: ``classes[numbers]`` are the labels again.

    Labels are integers (negative ones too), bools or strings, one for each of n rows.
    """
    if y is None:
        raise InputError(f"labels are missing: pass {name}, an integer or a string for each of the {n} rows")
    array = _one_kind(y, name) if isinstance(y, Sequence) and not isinstance(y, str) else to_numpy(y, name)
    array = _one_kind(array, name) if array.dtype == object else array
    if array.ndim != 1:
        raise InputError(f"{name} must be 1-D, one label per row, got {describe(array)}{_conversion(array, name)}")
    if len(array) != n:
        raise InputError(f"{name} has {len(array)} labels, x has {n} rows")
    if array.dtype.kind == "f":
        bad = ~np.isfinite(array)
        where = f"{name}[{int(np.argmax(bad))}] is {array[bad][0]}" if bad.any() else f"got dtype {array.dtype}"
        raise InputError(f"labels must be integers or strings, {where}; pass integers: {name}.astype(int)")
    if array.dtype.kind not in "iubUST":
        raise InputError(f"labels must be integers or strings, got {describe(array)}")
    classes, numbers, counts = np.unique(array, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        held = f"all are {classes[0].item()!r}" if len(classes) else "there are none"
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


def _one_kind(values: Any, name: str) -> NDArray[Any]:
    """Python objects as one dtype. NumPy would turn integers among strings into strings, bools into integers."""
    items = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if items and all(hasattr(v, "__len__") and not isinstance(v, str) for v in items):
        return to_numpy(items, name)
    plain = [v.item() if hasattr(v, "item") and getattr(v, "shape", None) == () else v for v in items]
    for kinds in (bool, str, int, float):
        if plain and all(isinstance(v, kinds) and (kinds is bool or not isinstance(v, bool)) for v in plain):
            return to_numpy(plain, name)
    first = type(plain[0]) if plain else None
    for row, v in enumerate(plain):
        if type(v) is not first or not isinstance(v, bool | str | int | float):
            mixed = f", {name}[0] is {plain[0]!r:.40}" if row else ""
            raise InputError(f"labels must be integers or strings, all of one kind: {name}[{row}] is {v!r:.40}{mixed}")
    return np.empty(0, np.int64)


def _conversion(array: NDArray[Any], name: str) -> str:
    """How to make 1-D labels of what came, where that is plain."""
    if array.ndim == 2 and array.shape[1] == 1:
        return f"; pass {name}.ravel()"
    if array.ndim == 2 and array.dtype.kind in "iubf" and len(array):
        one_hot = bool((((array == 0) | (array == 1)).all(1) & (array.sum(1) == 1)).all())
        if one_hot:
            return f", which is one-hot; pass {name}.argmax(1)"
        return "; several labels per row are not supported"
    return ""
