"""Pairs of rows that belong together, instead of labels -> seeded batches with negatives, and a validation split."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from ...codec.codebooks import Codebooks
from ...errors import InputError
from ...inputs.arrays import FloatArray, as_rows, describe, positive, to_numpy
from ..axes import axes_of_covariance
from .batches import Batch, Floats, TrainingRows, check_sample, open_source
from .datasets import Items, seeded
from .layers import Shape
from .scores import pair_precision
from .sources import Numbers, RowSource, checked

#: Rows and pairs from which the start of a linear embedding is computed, at most, and rows that are read at a time.
SAMPLE_ROWS, BLOCK_ROWS = 20_000, 2_000
#: Added to the variances within pairs, as a share of the mean variance of a feature. Chosen on held-out training rows.
RIDGE, TINY = 0.1, 1e-300


class PairData(TrainingRows):
    """Rows x, and pairs (queries, positives): a search with a query should find its positives.

    Each side of ``pairs`` is row numbers of x (integers [pairs]) or inputs of their own (an array [pairs, *shape of a
    row of x]). A query may have several positives: it is then listed several times. Negatives are other positives of
    the batch and random rows of x, unless they are listed as positives of the query too.

    ``rows`` are those of x; inputs of pairs are only read for their pairs.
    """

    def __init__(self, x: Any, pairs: Any, *, input_shape: Shape | None = None) -> None:
        if isinstance(x, DataLoader):
            raise InputError("x must be an array to learn from pairs, got a torch DataLoader")
        source = open_source(x, input_shape)
        if isinstance(source, Items):
            raise InputError(f"x must be an array to learn from pairs, got a torch {type(x).__name__}")
        check_sample(source)
        if not isinstance(pairs, tuple | list) or len(pairs) != 2:
            raise InputError(f"pairs must be (queries, positives), two sequences of one length, got {describe(pairs)}")
        extended = _Extended(source)
        queries, positives = (extended.numbers_of(side, f"pairs[{i}]") for i, side in enumerate(pairs))
        if len(queries) != len(positives):
            raise InputError(f"pairs has {len(queries)} queries and {len(positives)} positives, one each is expected")
        if not len(queries):
            raise InputError("pairs is empty: at least two pairs are needed")
        if (same := queries == positives).any():
            place = int(np.argmax(same))
            raise InputError(f"pair {place} is row {int(queries[place])} with itself, which has nothing to learn")
        super().__init__(extended)
        self.rows = np.arange(len(source))
        self.labels = np.zeros(len(source), np.int64)
        self._n_inputs = len(extended)
        #: int64 [pairs, 2]: numbers of the query and of the positive, ascending and without duplicates.
        self.pairs: Numbers = np.unique(np.stack([queries, positives], 1), axis=0)
        self._listed = self._keys(self.pairs[:, 0], self.pairs[:, 1])  # ascending

    @property
    def n_per_epoch(self) -> int:
        """A query, a positive and a random row for each pair."""
        return 3 * len(self.pairs)

    def describe_task(self) -> dict[str, int]:
        """The number of different pairs."""
        return {"pairs": len(self.pairs)}

    def describe_targets(self) -> list[Any]:
        """The pairs."""
        return list(self.pairs.tolist())

    def split(self, validation: float = 0.1, seed: int = 0) -> tuple[PairData, PairData]:
        """Pairs to learn from, and pairs to validate on: those of the share ``validation`` of the queries.

        A row of x that is a query to validate on is in no pair to learn from, and not among the rows to learn from.
        """
        seed = positive(seed, "seed", least=0)
        if isinstance(validation, bool) or not isinstance(validation, float | int) or not 0 < validation < 1:
            raise InputError(f"validation must be a share of the queries between 0 and 1, got {validation!r}")
        queries = np.unique(self.pairs[:, 0])
        wanted = min(max(1, round(validation * len(queries))), len(queries) - 1)
        if not wanted:
            raise InputError("pairs has a single query, of which none can be held out; validation=0 learns from all")
        held = np.random.default_rng([seed, 0x5F11]).permutation(queries)[:wanted]
        used = ~np.isin(self.pairs, held).any(1)
        if not used.any():
            raise InputError(
                f"no pair is left to learn from: the {wanted} of {len(queries)} queries that are held out "
                f"(validation={validation:g}) are in all pairs; give more pairs, or validation=0"
            )
        outside = np.isin(self.rows, held)
        learn, checked = self._part(~outside), self._part(outside)
        learn.pairs, checked.pairs = self.pairs[used], self.pairs[np.isin(self.pairs[:, 0], held)]
        return learn, checked

    def batches(self, size: int, epoch: int, seed: int = 0) -> Iterator[Batch]:
        """Every pair once, in an order that depends only on (seed, epoch): a third of the rows of a batch are queries.

        Another third are their positives, and the rest random rows.
        """
        if positive(size, "size") < 3:
            raise InputError(f"size must be at least 3, a query, a positive and another row, got {size}")
        epoch, seed = positive(epoch, "epoch", least=0), positive(seed, "seed", least=0)
        rng = np.random.default_rng([seed, epoch])
        order, step = rng.permutation(len(self.pairs)), size // 3
        for number, start in enumerate(range(0, len(order), step)):
            queries, positives = self.pairs[np.sort(order[start : start + step])].T
            others = self.rows[rng.integers(len(self.rows), size=len(queries))]
            keys = np.concatenate([positives, others])
            read = np.concatenate([queries, keys])
            with seeded(seed, epoch, number):
                inputs = self._source.read(read)
            yield torch.from_numpy(inputs), torch.from_numpy(self._targets(queries, keys)), torch.from_numpy(read)

    def start_axes(self, dim: int) -> tuple[Floats, float, Floats]:
        """Directions in which rows differ and pairs do not: principal axes after whitening the differences of pairs.

        This is relevant component analysis with a ridge. Directions that pairs say nothing about keep their distances.
        """
        x = self._flat(self.evenly(SAMPLE_ROWS).rows)
        pairs = self.pairs[np.unique(np.linspace(0, len(self.pairs) - 1, SAMPLE_ROWS).astype(np.int64))]
        apart = self._flat(pairs[:, 0]) - self._flat(pairs[:, 1])
        total, within = np.cov(x.T, bias=True).reshape(x.shape[1], -1), apart.T @ apart / (2 * len(apart))
        unit = max(float(np.trace(total)) / len(total), TINY)
        values, axes = axes_of_covariance(within + RIDGE * unit * np.eye(len(total)))
        whiten = (axes / np.sqrt(np.maximum(values, RIDGE * unit))) @ axes.T
        variances, turned = axes_of_covariance(whiten @ total @ whiten)
        return whiten @ turned[:, :dim], float(variances[:dim].sum()), x.mean(0)

    def trial(self, held_out: PairData, n_queries: int, n_rows: int) -> PairTrial:
        """Held-out queries among rows learned from and their positives."""
        queries = np.unique(held_out.pairs[:, 0])
        queries = queries[np.unique(np.linspace(0, len(queries) - 1, min(n_queries, len(queries))).astype(np.int64))]
        pairs = held_out.pairs[np.isin(held_out.pairs[:, 0], queries)]
        return PairTrial(self._of(queries), self._of(np.union1d(self.evenly(n_rows).rows, pairs[:, 1])), queries, pairs)

    def _flat(self, numbers: Numbers) -> Floats:
        blocks = (self._source.read(numbers[i : i + BLOCK_ROWS]) for i in range(0, len(numbers), BLOCK_ROWS))
        return np.concatenate([block.reshape(len(block), -1) for block in blocks]).astype(np.float64)

    def _of(self, numbers: Numbers) -> TrainingRows:
        """Inputs by their numbers, without pairs."""
        part = TrainingRows(self._source)
        part.rows, part.labels = numbers, np.zeros(len(numbers), np.int64)
        return part

    def _targets(self, queries: Numbers, keys: Numbers) -> Any:
        """int8 [queries, keys], see :data:`Batch`. A pair that is listed the other way round is no negative."""
        wanted = self._is_listed(queries[:, None], keys[None])
        neither = (queries[:, None] == keys[None]) | self._is_listed(keys[None], queries[:, None])
        return np.where(wanted, 1, np.where(neither, -1, 0)).astype(np.int8)

    def _is_listed(self, queries: Numbers, positives: Numbers) -> Any:
        keys = self._keys(queries, positives)
        return self._listed[np.minimum(np.searchsorted(self._listed, keys), len(self._listed) - 1)] == keys

    def _keys(self, queries: Numbers, positives: Numbers) -> Numbers:
        """One number for each pair, in the order of the pairs."""
        return queries * self._n_inputs + positives


class PairTrial:
    """MAP of held-out queries: their listed positives are relevant, and no other row."""

    def __init__(self, queries: TrainingRows, database: TrainingRows, numbers: Numbers, pairs: Numbers) -> None:
        self.queries, self.database, self._numbers, self._pairs = queries, database, numbers, pairs

    def score(self, codebooks: Codebooks, rows: FloatArray, queries: FloatArray, threads: int) -> float:
        """MAP of embedded queries among embedded rows. A query does not find itself."""
        queried = np.searchsorted(self._numbers, self._pairs[:, 0])
        relevant = np.stack([queried, np.searchsorted(self.database.rows, self._pairs[:, 1])], 1)
        _, query, row = np.intersect1d(self._numbers, self.database.rows, return_indices=True)
        return pair_precision(codebooks, rows, queries, relevant, np.stack([query, row], 1), threads)


class _Extended:
    """Rows of x, followed by the inputs of pairs that are given as arrays (in memory, equal ones once)."""

    def __init__(self, source: RowSource) -> None:
        self._source, self.shape, self.sample = source, source.shape, source.sample
        self._others = np.empty((0, *source.shape), np.float32)

    def __len__(self) -> int:
        return len(self._source) + len(self._others)

    def read(self, rows: Numbers) -> FloatArray:
        n = len(self._source)
        if not len(self._others):
            return self._source.read(rows)
        own = rows < n
        out = np.empty((len(rows), *self.shape), np.float32)
        if own.any():
            out[own] = self._source.read(rows[own])
        out[~own] = self._others[rows[~own] - n]
        return out

    def labels(self) -> Any:
        return None

    def numbers_of(self, side: Any, name: str) -> Numbers:
        """The numbers of one side of the pairs; its inputs are added if they are not rows of x."""
        array = to_numpy(side, name)
        if array.ndim == 1 and array.dtype.kind in "iu":
            return self._row_numbers(array, name)
        if array.ndim < 2:
            raise InputError(
                f"{name} must be row numbers of x (integers [pairs]) or inputs [pairs, "
                f"{', '.join(map(str, self.shape))}], got {describe(array)}"
            )
        numbers = np.arange(len(array))
        if array.ndim == 2:
            values = as_rows(array, name=name)
            if values.shape[1:] != self.shape:
                raise InputError(f"{name} has {values.shape[1]} dimensions, rows of x have shape {self.shape}")
        else:
            values = checked(array, numbers, self.shape)
        flat = np.ascontiguousarray(values.reshape(len(values), -1))
        _, first, which = np.unique(
            flat.view(np.dtype((np.void, flat.shape[1] * 4))).ravel(), return_index=True, return_inverse=True
        )
        start = len(self)
        self._others = np.concatenate([self._others, values[first]])
        return np.asarray(start + which.ravel(), np.int64)

    def _row_numbers(self, array: Any, name: str) -> Numbers:
        n = len(self._source)
        bad = (array < 0) | (array >= n)
        if bad.any():
            place = int(np.argmax(bad))
            raise InputError(f"{name}[{place}] is {array[place]}, expected a row number of x, 0 to {n - 1}")
        return np.asarray(array, np.int64)
