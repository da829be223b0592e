"""Reads a batch of CIFAR-10's Python version, which is a pickle, without importing or executing anything."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError


class _Stub:
    """Placeholder for an object: keeps its constructor arguments and state."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments, self.state = arguments, ()

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Array(_Stub):
    """numpy.ndarray, or the function that reconstructs one."""


class _Dtype(_Stub):
    """numpy.dtype."""


#: All names in the pickle of an array of bytes; numpy has renamed its inner modules.
_KNOWN: dict[tuple[str, str], type[_Stub]] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is not expected in a batch")
        return _KNOWN[module, name]


def read_batch(path: Path, content: bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Labels uint8 [n] and images uint8 [n, values] of a batch's content."""
    try:
        batch = _Reader(io.BytesIO(content), encoding="bytes").load()
        _, shape, dtype, by_columns, values = batch[b"data"].state
        if dtype.arguments[0] != b"u1" or by_columns or len(shape) != 2:
            raise ValueError("its images are not rows of bytes")
        images = np.frombuffer(values, np.uint8).reshape(shape)
        labels = np.array(batch[b"labels"], np.uint8)
        if labels.shape != images.shape[:1]:
            raise ValueError(f"it has {len(images)} images and labels of shape {labels.shape}")
    except Exception as error:  # a damaged pickle may fail in any way
        raise InputError(
            f"{str(path)!r} is damaged, or not a Python batch of CIFAR-10: {str(error) or type(error).__name__}"
        ) from error
    return labels, images
