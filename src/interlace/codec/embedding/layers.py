"""Embeddings of affine layers, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import InputError
from ...inputs.arrays import FloatArray, describe
from ..book import frozen
from .base import BLOCK_VALUES, Arrays, Embedding

Layer = tuple[FloatArray, FloatArray]


class _Layers(Embedding):
    """Layers x W^T + b, each but the last followed by max(0, .)."""

    def __init__(self, layers: Sequence[tuple[Any, Any]], input_shape: Any) -> None:
        self.layers: tuple[Layer, ...] = checked_layers(layers)
        raw = self.layers[0][0].shape[1]
        super().__init__((raw,) if input_shape is None else input_shape, len(self.layers[-1][0]))
        if (values := math.prod(self.input_shape)) != raw:
            raise InputError(f"the first layer takes {raw} values, an input of shape {self.input_shape} has {values}")

    def _vectors(self, x: FloatArray) -> FloatArray:
        for i, layer in enumerate(self.layers):
            x = affine(x if i == 0 else np.maximum(x, 0), *layer)
        return x

    @property
    def block_rows(self) -> int:
        """Rows that are embedded at a time."""
        return max(1, BLOCK_VALUES // int(max(size for weight, _ in self.layers for size in weight.shape)))

    def _arrays(self) -> Arrays:
        return named_arrays(self.layers)

    def _details(self) -> dict[str, Any]:
        return {"n_layers": len(self.layers)}


class Linear(_Layers):
    """x W^T + b, with ``weight`` [dim, values of an input] and ``bias`` [dim] (None: zeros)."""

    kind = "linear"

    def __init__(self, weight: Any, bias: Any = None, *, input_shape: Any = None) -> None:
        super().__init__([(weight, bias)], input_shape)


class MLP(_Layers):
    """``layers`` (weight [outputs, inputs], bias [outputs]), a rectifier between them."""

    kind = "mlp"

    def __init__(self, layers: Sequence[tuple[Any, Any]], *, input_shape: Any = None) -> None:
        super().__init__(layers, input_shape)


def checked_layers(given: Sequence[tuple[Any, Any]]) -> tuple[Layer, ...]:
    """Layers that fit each other, float32 and read-only."""
    layers: list[Layer] = []
    for i, (w, b) in enumerate(given):
        weight = frozen(w, np.float32, 2, f"weight of layer {i}")
        bias = frozen(np.zeros(len(weight)) if b is None else b, np.float32, 1, f"bias of layer {i}")
        if 0 in weight.shape or len(bias) != len(weight):
            raise InputError(
                f"layer {i} needs weight [outputs, inputs] and bias [outputs], got {describe(w)}, {b!r:.60}"
            )
        if layers and weight.shape[1] != len(layers[-1][0]):
            raise InputError(f"layer {i} takes {weight.shape[1]} values, the one before gives {len(layers[-1][0])}")
        layers.append((weight, bias))
    if not layers:
        raise InputError("at least one layer is needed")
    return tuple(layers)


def affine(x: FloatArray, weight: FloatArray, bias: FloatArray) -> FloatArray:
    """x W^T + b, row by row: in one product for all rows the rounding of a row depends on the batch size, and a search
    must give the same answer for any batch size."""
    return np.asarray((x[:, None, :] @ weight.T)[:, 0] + bias)


def named_arrays(layers: Sequence[Layer]) -> Arrays:
    """Weights and biases as a file names them."""
    return {
        f"{part}.{i}": array
        for i, layer in enumerate(layers)
        for part, array in zip(("weight", "bias"), layer, strict=True)
    }
