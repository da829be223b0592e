"""Splits of a labelled data set: unseen classes, triplets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...inputs.arrays import positive
from ...learn.triplets import triplets
from .sets import DataSet

__all__ = ["standard_split", "triplets", "unseen_classes"]


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


def standard_split(
    dataset: DataSet, seed: int = 0, *, queries: int = 100, learn: int = 500, with_learned: bool = True
) -> tuple[DataSet, DataSet]:
    """The split by which papers compare on CIFAR-10: of each class some ``queries`` and some rows to ``learn`` from.

    Rows and queries of ``dataset`` are pooled and drawn with ``seed``. The first data set holds the rows to learn from,
    the second the database: all rows but the queries (59,000 of CIFAR-10), or without the learned ones (54,000). Both
    have the same queries.
    """
    if dataset.labels is None or dataset.query_labels is None:
        raise InputError(f"standard_split needs a data set with labels, {dataset.name!r} has none")
    x = np.concatenate([dataset.x, dataset.queries])
    labels = np.concatenate([dataset.labels, dataset.query_labels])
    rng = np.random.default_rng(positive(seed, "seed", least=0))
    asked, learned = [], []
    for name in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == name))
        if len(rows) <= positive(queries, "queries") + positive(learn, "learn"):
            raise InputError(f"class {name} of {dataset.name!r} has {len(rows)} rows, {queries} + {learn} are needed")
        asked.append(rows[:queries])
        learned.append(rows[queries : queries + learn])
    of_queries, of_learned = (rng.permutation(np.concatenate(parts)) for parts in (asked, learned))
    left_out = of_queries if with_learned else np.concatenate([of_queries, of_learned])
    of_database = np.setdiff1d(np.arange(len(x)), left_out)

    def part(rows: NDArray[np.int64]) -> DataSet:
        return replace(
            dataset,
            x=x[rows],
            queries=x[of_queries],
            learn=None,
            truth=None,
            labels=labels[rows],
            query_labels=labels[of_queries],
        )

    return part(of_learned), part(of_database)
