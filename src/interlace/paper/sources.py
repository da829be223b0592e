"""Data sets of the figures by name: training rows, database and queries, limited to the size of the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .datasets import cifar, gabor, sets, splits
from .datasets.cache import cached
from .datasets.sets import DataSet
from .networks import features
from .problem import Problem
from .sizes import Size

#: SIFT rows and queries of ``vectors``.
SIFT_ROWS, SIFT_QUERIES = 100_000, 1_000
GENERATED = "generated"  #: source of ``vectors`` without the SIFT file
KERNEL_WIDTH = 0.3  #: of the mean squared distance of two rows
UNSEEN = 3  #: classes excluded from training


def load(name: str, seed: int, size: Size, networks: Path, threads: int | None = None) -> Problem:
    """The data set of that name; ``seed`` draws or splits it, ``networks`` is the folder of trained networks."""
    if name not in NAMES:
        raise InputError(f"data must be one of {', '.join(NAMES)}, got {name!r}")
    first, _, kind = name.partition("-")
    if first.startswith("synthetic"):
        return _labelled(_cut(sets.synthetic(int(first[-1]), seed), size))
    if first == "vectors":
        return _vectors(seed, size)
    if first == "text":
        return _labelled(_cut(sets.text(), size))
    if name in STANDARD:
        return _standard(cifar.cifar10() if size.representative else _cut(cifar.cifar10(), size), seed, name, size)
    if kind in ("gist", "unseen") and first == "cifar10":
        found = _gist(size)
    else:
        found = _cut(sets.mnist() if first == "mnist" else cifar.cifar10(), size)
    if kind == "unseen":
        return _unseen(found, seed)
    if kind in ("lenet", "alexnet", "cnn3"):
        return features(name, _labelled(found), size, networks, threads)
    if kind == "kernel":
        return _kernel(_labelled(found), seed)
    return _labelled(found)


NAMES = (
    *("synthetic1", "synthetic2", "synthetic3", "mnist", "mnist-images", "mnist-lenet", "mnist-unseen"),
    *("mnist-kernel", "cifar10-gist", "cifar10-images", "cifar10-alexnet", "cifar10-cnn3", "cifar10-unseen"),
    *("cifar10-54k", "cifar10-59k", "text", "vectors"),
)
#: The protocols of papers on CIFAR-10 and whether their database has the rows that were learned from.
STANDARD = {"cifar10-54k": False, "cifar10-59k": True}
#: Rows whose similarities to all rows are the features of a kernel, as in supervised discrete hashing.
ANCHORS = 1_000


def _cut(whole: DataSet, size: Size) -> DataSet:
    """The first rows; all data sets are shuffled."""

    def part(array: NDArray[Any] | None, most: int | None) -> Any:
        return None if array is None else array[:most]

    return replace(
        whole,
        x=whole.x[: size.rows],
        labels=part(whole.labels, size.rows),
        queries=whole.queries[: size.queries],
        query_labels=part(whole.query_labels, size.queries),
    )


def _labelled(found: DataSet) -> Problem:
    return Problem(found.name, found.x, found.queries, found.labels, found.query_labels)


def _gist(size: Size) -> DataSet:
    """CIFAR-10 as GIST features (computed in minutes the first time); those of small sizes are not cached."""
    if size.rows is None:
        return cifar.cifar10(features="gist")

    def made() -> DataSet:
        images = _cut(cifar.cifar10(), size)
        return replace(images, name="cifar10-gist", x=gabor.gist(images.x), queries=gabor.gist(images.queries))

    return _kept(f"cifar10-gist-{size.name}", size, made) if size.representative else made()


def _kept(name: str, size: Size, make: Callable[[], DataSet]) -> DataSet:
    """The cached data set of that name; made if there is none."""

    def arrays() -> dict[str, NDArray[Any]]:
        found = make()
        assert found.labels is not None
        assert found.query_labels is not None
        return {"x": found.x, "queries": found.queries, "labels": found.labels, "query_labels": found.query_labels}

    key = {"rows": size.rows, "queries": size.queries, "version": gabor.VERSION, **gabor.DEFAULTS}
    return DataSet("cifar10-gist", **cached(name, key, arrays))


def _unseen(found: DataSet, seed: int) -> Problem:
    """Training rows of the seen classes; database and queries of the unseen classes."""
    seen, unseen = splits.unseen_classes(found, UNSEEN, seed)
    return Problem(unseen.name, seen.x, unseen.queries, seen.labels, unseen.query_labels, unseen.x, unseen.labels)


def _standard(found: DataSet, seed: int, name: str, size: Size) -> Problem:
    """1K queries, 5K rows to learn from and 54K or 59K rows to search; fewer in sizes that only show that it runs."""
    per_class = {} if size.representative or size.rows is None else {"queries": 3, "learn": size.rows // 40}
    learn, base = splits.standard_split(found, seed, with_learned=STANDARD[name], **per_class)
    return Problem(name, learn.x, learn.queries, learn.labels, learn.query_labels, base.x, base.labels)


def _kernel(found: Problem, seed: int) -> Problem:
    """Gaussian similarities to some of the training rows; the width is a third of the mean squared distance."""
    rng = np.random.default_rng(seed)
    anchors = found.x[rng.choice(len(found.x), min(ANCHORS, len(found.x)), replace=False)].astype(np.float32)
    lengths = (anchors**2).sum(1)

    def distances(rows: NDArray[Any]) -> NDArray[np.float32]:
        block = rows.astype(np.float32)
        found = (block**2).sum(1)[:, None] - 2.0 * block @ anchors.T + lengths
        return np.asarray(np.maximum(found, 0.0), np.float32)

    width = 2.0 * float(distances(found.x[:2_000]).mean()) * KERNEL_WIDTH

    def features_of(rows: NDArray[Any]) -> NDArray[np.float32]:
        parts = [np.exp(-distances(rows[i : i + 5_000]) / width) for i in range(0, len(rows), 5_000)]
        return np.concatenate(parts).astype(np.float32)

    return replace(found, name="mnist-kernel", x=features_of(found.x), queries=features_of(found.queries))


def _vectors(seed: int, size: Size) -> Problem:
    """SIFT if its file exists, otherwise generated clusters in 64 dimensions with decreasing variances."""
    try:
        found = sets.sift300k()
        rows, queries, name = found.x[:SIFT_ROWS], found.queries[:SIFT_QUERIES], "sift"
    except FileNotFoundError:
        rng = np.random.default_rng(seed)
        spread = 0.93 ** np.arange(64)
        centres = rng.normal(size=(200, 64))
        every = (centres[rng.integers(200, size=21_000)] + 0.5 * rng.normal(size=(21_000, 64))) * spread
        rows, queries, name = every[:20_000].astype(np.float32), every[20_000:].astype(np.float32), GENERATED
    return Problem(name, rows[: size.rows], queries[: size.queries])
