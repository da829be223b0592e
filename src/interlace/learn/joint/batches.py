"""The input of ``fit`` -> seeded batches of (inputs, labels, row numbers), and a validation split.

:mod:`.pairs` has the same for pairs instead of labels.

The order of rows depends only on (seed, epoch), so a resumed run sees the same batches. Rows are read and converted a
batch at a time.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ...codec.codebooks import Codebooks
from ...errors import InputError
from ...inputs.arrays import FloatArray, Rows, describe, positive
from ...inputs.spool import yields_blocks
from ..triplets import triplets
from .datasets import Items, LoaderItems, looks_like_a_dataset, seeded
from .labels import Labels, encode_labels
from .layers import Shape
from .scores import search_map
from .sources import Flat, Listed, Numbers, RowBlocks, RowSource, check_shape

#: Inputs float32 [n, *input_shape], targets, row numbers int64 [n]. Targets are class numbers int64 [n]; or, for pairs,
#: int8 [queries, keys]: 1 for a positive, 0 for a negative, -1 for neither. The first inputs are then the queries.
Batch = tuple[Tensor, Tensor, Tensor]

#: Rows that are read at a time to check inputs.
BLOCK_ROWS = 256

Floats = NDArray[np.float64]
Self = TypeVar("Self", bound="TrainingRows")


class Trial(Protocol):
    """Queries and a database that score an epoch."""

    queries: Any  #: rows that were held out
    database: Any  #: rows

    def score(self, codebooks: Codebooks, rows: FloatArray, queries: FloatArray, threads: int) -> float:
        """The score, for the embedded rows of the database and the embedded queries; larger is better."""


class TrainingRows:
    """Rows to learn from; :class:`Data` adds labels to them, :class:`~.pairs.PairData` pairs.

    Row numbers of batches count the rows of this object; ``rows`` has their numbers in the user's x.
    """

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self.rows: Numbers = np.arange(len(source))
        self.labels: Labels = np.zeros(len(source), np.int64)  #: class numbers; all 0 if there are no classes

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def input_shape(self) -> Shape:
        """Shape of one row."""
        return self._source.shape

    @property
    def n_classes(self) -> int:
        """Classes of the whole input, of which a part may hold fewer; 0 if there are none."""
        return 0

    @property
    def n_per_epoch(self) -> int:
        """Rows that an epoch reads."""
        return len(self)

    def split(self: Self, validation: float = 0.1, seed: int = 0) -> tuple[Self, Self]:
        """Rows to learn from, and rows to validate on."""
        raise NotImplementedError

    def batches(self, size: int, epoch: int, seed: int = 0) -> Iterator[Batch]:
        """One epoch in an order that depends only on (seed, epoch)."""
        raise NotImplementedError

    def triplets(self, n: int, size: int, epoch: int, seed: int = 0) -> Iterator[Batch]:
        """``n`` triplets, drawn for this epoch, in batches of up to ``size`` rows: anchors, positives, negatives."""
        drawn = triplets(self.labels, n, seed=seed * 1_000_003 + epoch)
        step = max(1, size // 3)
        for number, start in enumerate(range(0, n, step)):
            yield self._read(drawn[start : start + step].T.reshape(-1), seed, epoch, number)

    def trial(self: Self, held_out: Self, n_queries: int, n_rows: int) -> Trial:
        """How to score an epoch: at most this many held-out queries, among at most this many of these rows."""
        raise NotImplementedError

    def start_axes(self, dim: int) -> tuple[Floats, float, Floats]:
        """Axes [features, dim] on which a linear embedding starts, the variance on them, and the mean [features]."""
        raise NotImplementedError

    def describe_task(self) -> dict[str, int]:
        """What there is to learn from, for the model card."""
        return {"classes": self.n_classes}

    def describe_targets(self) -> list[Any]:
        """What a checkpoint must have in common beside rows and class numbers: plain values."""
        return []

    def evenly(self: Self, most: int) -> Self:
        """At most ``most`` rows, evenly spaced."""
        mask = np.zeros(len(self), np.bool_)
        mask[np.unique(np.linspace(0, len(self) - 1, min(positive(most, "most"), len(self))).astype(np.int64))] = True
        return self._part(mask)

    def digest(self) -> str:
        """A hash of the targets and some inputs; for a dataset only of the labels, because it may augment its items."""
        found = hashlib.sha256(self.labels.tobytes() + self.rows.tobytes() + repr(self.describe_targets()).encode())
        if not isinstance(self._source, Items):
            for inputs, _, _ in self.evenly(BLOCK_ROWS).rows_in_order(BLOCK_ROWS):
                found.update(inputs.numpy().tobytes())
        return found.hexdigest()[:16]

    def rows_in_order(self, size: int) -> Iterator[Batch]:
        """Every row once, in order, for encoding and statistics."""
        for number, start in enumerate(range(0, len(self), size := positive(size, "size"))):
            yield self._read(np.arange(start, min(start + size, len(self))), 0, 0, number)

    def _read(self, places: Numbers, *seed: int) -> Batch:
        with seeded(*seed):
            inputs = self._source.read(self.rows[places])
        return self._batch(inputs, places)

    def _batch(self, inputs: Any, places: Numbers) -> Batch:
        return torch.from_numpy(inputs), torch.from_numpy(self.labels[places]), torch.from_numpy(places)

    def _part(self: Self, mask: Any) -> Self:
        part = copy.copy(self)
        part.rows, part.labels = self.rows[mask], self.labels[mask]
        return part


class Data(TrainingRows):
    """Rows with labels.

    ``x`` is array-like, flat [n, dim] or images [n, channels, height, width], with ``y`` integers, bools or strings; or
    a torch ``Dataset`` or ``DataLoader`` of (input, label) pairs without ``y``. ``input_shape`` is the shape of one row
    if it differs from that of x, for example for images stored as flat rows.
    """

    def __init__(self, x: Any, y: Any = None, *, input_shape: Shape | None = None) -> None:
        with seeded(0):  # a dataset may use random numbers to augment its items
            source = open_source(x, input_shape)
            if isinstance(source, Items) and y is not None:
                raise InputError("y must be None if x is a dataset, because its items contain the labels")
            check_sample(source)
            y = source.labels() if y is None else y
        super().__init__(source)
        self.labels, self.classes = encode_labels(y, len(source))

    @property
    def n_classes(self) -> int:
        """Classes of the whole input; a part may hold fewer."""
        return len(self.classes)

    def split(self, validation: float = 0.1, seed: int = 0) -> tuple[Data, Data]:
        """Rows to learn from, and rows to validate on: the share ``validation`` of each class, rounded.

        Every class keeps a row to learn from. Which classes are rounded up is random, such that the rows held out are
        the given share of all rows, and at least one.
        """
        seed = positive(seed, "seed", least=0)
        if isinstance(validation, bool) or not isinstance(validation, float | int) or not 0 < validation < 1:
            raise InputError(f"validation must be a share of the rows between 0 and 1, got {validation!r}")
        rng = np.random.default_rng([seed, 0x5F11])  # differs from the seeds of all epochs
        counts = np.bincount(self.labels, minlength=self.n_classes)
        taken = _shares(counts, validation, rng)
        shuffled = rng.permutation(len(self))
        order = shuffled[np.argsort(self.labels[shuffled], kind="stable")]  # by class, at random within it
        starts = np.cumsum(counts) - counts
        held = np.concatenate([order[a : a + t] for a, t in zip(starts, taken, strict=True)])
        mask = np.zeros(len(self), np.bool_)
        mask[held] = True
        return self._part(~mask), self._part(mask)

    def batches(self, size: int, epoch: int, seed: int = 0) -> Iterator[Batch]:
        """One epoch in an order that depends only on (seed, epoch).

        The last batch may be smaller; a single row is added to the previous batch. A ``DataLoader`` makes its own
        batches: ``size`` is ignored, and the order is reproducible only if its sampler has no generator of its own.
        """
        size, epoch, seed = _size(size), positive(epoch, "epoch", least=0), positive(seed, "seed", least=0)
        if isinstance(self._source, LoaderItems):
            places = np.full(len(self._source), -1, np.int64)
            places[self.rows] = np.arange(len(self))
            for inputs, rows in self._source.batches(places, seed, epoch):
                yield self._batch(inputs, places[rows])
            return
        order = np.random.default_rng([seed, epoch]).permutation(len(self))
        starts = list(range(0, len(self), size))
        if len(starts) > 1 and len(self) - starts[-1] == 1:
            starts.pop()
        for number, (start, stop) in enumerate(zip(starts, [*starts[1:], len(self)], strict=True)):
            yield self._read(order[start:stop], seed, epoch, number)

    def trial(self, held_out: Data, n_queries: int, n_rows: int) -> Trial:
        """Held-out rows as queries among rows learned from, by their labels."""
        return LabelTrial(held_out.evenly(n_queries), self.evenly(n_rows))

    def describe_targets(self) -> list[Any]:
        """The classes."""
        return list(self.classes.tolist())


class LabelTrial:
    """MAP of held-out rows as queries: rows of their class are relevant."""

    def __init__(self, queries: Data, database: Data) -> None:
        self.queries, self.database = queries, database

    def score(self, codebooks: Codebooks, rows: FloatArray, queries: FloatArray, threads: int) -> float:
        """MAP of embedded queries among embedded rows."""
        return search_map(codebooks, rows, self.database.labels, queries, self.queries.labels, threads)


def check_sample(source: RowSource) -> None:
    """Read some rows, so that invalid ones raise InputError before labels are checked and before training."""
    n = len(source)
    rows = np.unique(np.linspace(0, n - 1, min(n, source.sample)).astype(np.int64))
    for start in range(0, len(rows), BLOCK_ROWS):
        source.read(rows[start : start + BLOCK_ROWS])


def open_source(x: Any, input_shape: Shape | None = None) -> RowSource:
    """The source for x; ``input_shape`` is the shape of one row, by default as in x."""
    source: RowSource
    if isinstance(x, DataLoader):
        source = LoaderItems(x)
    elif isinstance(x, Dataset) or looks_like_a_dataset(x):
        source = Items(x)
    elif isinstance(x, list | tuple) and not yields_blocks(x):
        source = RowBlocks(Listed(x))
    elif len(getattr(x, "shape", (0, 0))) == 2:
        source = Flat(Rows(x))
    else:
        source = RowBlocks(x)
    if not len(source):
        raise InputError(f"x has no rows to learn from: {describe(x)}")
    if input_shape is None:
        check_shape(source.shape)
    elif math.prod(input_shape) != math.prod(source.shape):
        raise InputError(f"input_shape {tuple(input_shape)} does not fit rows of shape {source.shape}")
    else:
        source.shape = tuple(input_shape)
    return source


def _shares(counts: Numbers, validation: float, rng: np.random.Generator) -> Numbers:
    """Rows of each class to hold out: never all of them, and in total the share of all rows."""
    room = np.maximum(counts - 1, 0)
    wanted = min(max(1, round(validation * int(counts.sum()))), int(room.sum()))
    if wanted == 0:
        raise InputError(
            f"validation={validation:g} is not possible: each of {len(counts)} classes has a single row; validation=0 "
            "learns from all rows"
        )
    exact = validation * counts
    taken: Numbers = np.minimum(np.floor(exact).astype(np.int64), room)
    while (missing := wanted - int(taken.sum())) > 0:
        # The largest fractions first, equal ones in random order.
        open_ = np.flatnonzero(taken < room)
        rank = np.lexsort((rng.random(len(open_)), -(exact - taken)[open_]))
        taken[open_[rank[:missing]]] += 1
    return taken


def _size(size: int) -> int:
    if positive(size, "size") < 2:
        raise InputError(f"size must be at least 2 rows per batch, because one row has no variance, got {size}")
    return int(size)


def input_blocks(dataset: Any) -> Iterator[Any]:
    """The inputs of a dataset without the labels, in the order of its items, a block at a time."""
    source = open_source(dataset)
    with seeded(0):  # a dataset may use random numbers to augment its items
        for start in range(0, len(source), BLOCK_ROWS):
            yield source.read(np.arange(start, min(start + BLOCK_ROWS, len(source))))


def dataset_labels(dataset: Any) -> Any:
    """The labels of a dataset, in the order of its items."""
    with seeded(0):
        return open_source(dataset).labels()
