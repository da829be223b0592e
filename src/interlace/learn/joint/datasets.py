"""torch datasets and loaders of (input, label) pairs as sources of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from ...errors import InputError
from ...inputs.arrays import FloatArray, describe, to_numpy
from .layers import Shape
from .sources import Numbers, checked, stack

#: Items whose labels are compared with those in the dataset's ``targets``.
COMPARED = 16
#: Items that are checked before training; they may be files to decode.
SAMPLE_ITEMS = 64


class Items:
    """A torch ``Dataset`` of (input, label) pairs, or anything else with a length and such items."""

    sample = SAMPLE_ITEMS

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any] | None = None) -> None:
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__") or not _has_length(dataset):
            raise InputError(
                f"{type(dataset).__name__} can only be iterated; pass a dataset with __len__ and __getitem__"
            )
        self.dataset, self._collate = dataset, collate
        self.shape: Shape = (0,)
        if len(dataset):
            inputs, _ = _pair(dataset[0], 0)
            self.shape = self._stack([dataset[0]])[0].shape if collate else to_numpy(inputs, "item 0").shape

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, rows: Numbers) -> FloatArray:
        items = [self.dataset[int(row)] for row in rows]
        for item, row in zip(items, rows, strict=True):
            _pair(item, int(row))
        if self._collate is not None:
            return checked(self._stack(items), rows, self.shape)
        return checked(stack([item[0] for item in items], rows, None), rows, self.shape)

    def labels(self) -> Any:
        """The dataset's own list of labels if it agrees with some items, otherwise the labels of all items."""
        known = _known_labels(self.dataset)
        n = len(self.dataset)
        if known is not None and len(known) == n:
            some = np.unique(np.linspace(0, n - 1, min(n, COMPARED)).astype(np.int64))
            if all(_label(known[int(i)]) == _label(_pair(self.dataset[int(i)], int(i))[1]) for i in some):
                return known
        return [_label(_pair(self.dataset[i], i)[1]) for i in range(n)]

    def _stack(self, items: list[Any]) -> NDArray[Any]:
        batch = self._collate(items) if self._collate else None
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise InputError(f"collate_fn must return (inputs, labels), got {describe(batch)}")
        return to_numpy(batch[0], "inputs of a batch")


class LoaderItems(Items):
    """A ``DataLoader``: rows from its dataset and ``collate_fn``, in the batches of its own sampler."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        if loader.batch_sampler is None:
            raise InputError("the DataLoader must have a batch_size, got batch_size=None")
        super().__init__(loader.dataset, loader.collate_fn)
        self._loader = loader

    def batches(self, places: Numbers, seed: int, epoch: int) -> Iterator[tuple[FloatArray, Numbers]]:
        """Inputs and row numbers of one pass over the loader, without the rows whose place is negative.

        A sampler without a generator of its own is seeded by (seed, epoch).
        """
        ours, workers = self._loader, self._loader.num_workers
        loader: DataLoader[Any] = DataLoader(
            _Numbered(self.dataset),
            batch_sampler=_Kept(ours.batch_sampler, places),
            collate_fn=_WithRows(ours.collate_fn),
            num_workers=workers,
            timeout=ours.timeout,
            worker_init_fn=ours.worker_init_fn,
            multiprocessing_context=ours.multiprocessing_context,
            generator=ours.generator,
            prefetch_factor=ours.prefetch_factor if workers else None,
        )
        iterator: Iterator[Any] = iter(())
        number = 0
        while True:
            with seeded(seed, epoch, number):
                iterator = iter(loader) if number == 0 else iterator
                found = next(iterator, None)
            if found is None:
                return
            number += 1
            rows, batch = np.asarray(found[0], np.int64), found[1]
            if not isinstance(batch, tuple | list) or len(batch) != 2:
                raise InputError(f"the DataLoader must return (inputs, labels), got {describe(batch)}")
            yield checked(to_numpy(batch[0], "inputs of a batch"), rows, self.shape), rows


class _Numbered(Dataset[Any]):
    """Items with their row numbers, so that the rows of a shuffled batch are known."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> tuple[int, Any]:
        return row, self.dataset[row]


class _WithRows:
    """``collate_fn`` for numbered items; a class, because worker processes pickle it."""

    def __init__(self, collate: Callable[[list[Any]], Any]) -> None:
        self._collate = collate

    def __call__(self, items: list[tuple[int, Any]]) -> tuple[list[int], Any]:
        return [row for row, _ in items], self._collate([item for _, item in items])


class _Kept:
    """The batches of a sampler without the rows that are held out."""

    def __init__(self, batches: Any, places: Numbers) -> None:
        self._batches, self._places = batches, places

    def __iter__(self) -> Iterator[list[int]]:
        return merge_single([int(row) for row in batch if self._places[row] >= 0] for batch in self._batches)

    def __len__(self) -> int:
        return len(self._batches)


def merge_single(batches: Iterator[list[int]]) -> Iterator[list[int]]:
    """The same rows without batches of a single row, which has no variance: it is added to a neighbouring batch."""
    held: list[int] = []
    for batch in batches:
        if len(held) >= 2 and len(batch) >= 2:
            yield held
            held = batch
        else:
            held = held + batch
    if held:
        yield held


@contextmanager
def seeded(*numbers: int, device: torch.device | None = None) -> Iterator[None]:
    """Seed torch's global generators (of the CPU and a GPU) for a user's code, and restore them afterwards."""
    words = np.random.SeedSequence(list(numbers)).generate_state(1, np.uint64)
    seed, on_gpu = int(words[0] >> np.uint64(1)), device is not None and device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield


def looks_like_a_dataset(x: Any) -> bool:
    """Whether x has a length and items as a torch dataset has, and is not array-like."""
    if isinstance(x, list | tuple | str | bytes | dict) or hasattr(x, "shape") or hasattr(x, "__array__"):
        return False
    if hasattr(x, "__dlpack__") or hasattr(x, "__arrow_c_stream__") or hasattr(x, "__arrow_c_array__"):
        return False
    return hasattr(x, "__getitem__") and _has_length(x)


def _has_length(x: Any) -> bool:
    try:
        len(x)
    except (TypeError, NotImplementedError):
        return False
    return True


def _pair(item: Any, row: int) -> tuple[Any, Any]:
    if not isinstance(item, tuple | list) or len(item) != 2:
        what = f"{type(item).__name__} of {len(item)}" if isinstance(item, tuple | list) else describe(item)
        raise InputError(f"items of the dataset must be pairs (input, label), item {row} is {what}")
    return item[0], item[1]


def _label(value: Any) -> Any:
    """A label as a Python scalar, if it is one; ``encode_labels`` checks it."""
    array = value if isinstance(value, str) else to_numpy(value, "label")
    return array.item() if isinstance(array, np.ndarray) and array.ndim == 0 else array


def _known_labels(dataset: Any) -> Any:
    """The list or array of labels that a dataset keeps, or None."""
    if isinstance(dataset, TensorDataset):
        return to_numpy(dataset.tensors[1], "labels") if len(dataset.tensors) == 2 else None
    if isinstance(dataset, Subset):
        known = _known_labels(dataset.dataset)
        return None if known is None else np.asarray(known)[np.asarray(dataset.indices, np.int64)]
    for name in ("targets", "labels"):
        known = getattr(dataset, name, None)
        if isinstance(known, list | tuple | np.ndarray | torch.Tensor):
            return known
    return None
