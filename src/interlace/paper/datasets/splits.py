"""Splits of a labelled data set: unseen classes, triplets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...inputs.arrays import describe, positive, to_numpy
from .sets import DataSet


def unseen_classes(dataset: DataSet, n_classes: int = 3, seed: int = 0) -> tuple[DataSet, DataSet]:
    """Split by class, drawn with ``seed``: a data set of the seen classes to learn from, and one of the unseen classes.

    The first holds the rows and queries of the seen classes, the second the rows (to index) and queries of the
    ``n_classes`` unseen ones, after Sablayrolles, Douze, Usunier, Jegou (How Should We Evaluate Supervised Hashing?,
    2017). Order and labels do not change; true neighbours and training rows are dropped.
    """
    labels, query_labels = dataset.labels, dataset.query_labels
    if labels is None or query_labels is None:
        raise InputError(f"unseen_classes needs a data set with labels, {dataset.name!r} has none")
    classes = np.unique(labels)
    n_classes, seed = positive(n_classes, "n_classes"), positive(seed, "seed", least=0)
    if n_classes >= len(classes):
        raise InputError(
            f"n_classes must be below the number of classes of {dataset.name!r}, {len(classes)}, got {n_classes}"
        )
    left_out = np.random.default_rng(seed).choice(classes, n_classes, replace=False)
    rows, queries = np.isin(labels, left_out), np.isin(query_labels, left_out)
    if not queries.any():
        raise InputError(f"{dataset.name!r} has no query of the unseen classes {np.sort(left_out).tolist()}")

    def part(name: str, of_x: NDArray[np.bool_], of_queries: NDArray[np.bool_]) -> DataSet:
        return replace(
            dataset,
            name=f"{dataset.name}-{name}",
            x=dataset.x[of_x],
            queries=dataset.queries[of_queries],
            learn=None,
            truth=None,
            labels=labels[of_x],
            query_labels=query_labels[of_queries],
        )

    return part("seen", ~rows, ~queries), part("unseen", rows, queries)


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
