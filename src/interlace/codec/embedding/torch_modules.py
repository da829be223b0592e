"""Embeddings that torch runs: named networks and modules of the user."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._threads import cached_property
from ...errors import InputError
from ...inputs.arrays import FloatArray, describe, to_numpy
from .base import Arrays, Embedding, digest
from .layers import Layer, affine, checked_layers, named_arrays
from .torch_runner import torch_runner

#: Values of a block of rows at the input of a network, whose layers are wider.
NETWORK_VALUES = 1 << 18


class Network(Embedding):
    """A network that ``interlace.learn.joint.networks`` builds by ``name``, with these weights; torch runs it."""

    kind = "network"

    def __init__(self, name: str, input_shape: Any, dim: int, weights: Mapping[str, Any]) -> None:
        super().__init__(input_shape, dim)
        self.name = str(name)
        self.weights: Arrays = {key: _stored(value, key) for key, value in weights.items()}

    @cached_property
    def _module(self) -> Any:
        return torch_runner().network(self.name, self.input_shape, self.dim, self.weights)

    def _vectors(self, x: FloatArray) -> FloatArray:
        return _run(self._module, x.reshape(-1, *self.input_shape), self.dim, self.name)

    @property
    def block_rows(self) -> int:
        """Rows that are embedded at a time."""
        return max(1, NETWORK_VALUES // math.prod(self.input_shape))

    @property
    def label(self) -> str:
        """Its name."""
        return self.name

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest over name, shapes and weights."""
        return digest([self.kind, self.name, self.input_shape, self.dim], self.weights)

    def _arrays(self) -> Arrays:
        return self.weights

    def _details(self) -> dict[str, Any]:
        return {"name": self.name}

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_module"}

    def __repr__(self) -> str:
        return f"Network({self.name}, {' x '.join(map(str, self.input_shape))} -> {self.dim})"


@dataclass(frozen=True)
class StoredModule:
    """What a file holds of a module."""

    class_name: str
    fingerprint: str


class Module(Embedding):
    """A torch module of the user, and a linear layer behind it where ``weight`` is given.

    A file holds the layer, the name of the module's class and a fingerprint of its state; the module itself is passed
    again when the file is opened. The module gets float32 [n, *input_shape]; it must not be trained further while an
    index depends on it.
    """

    kind = "module"

    def __init__(self, module: Any, input_shape: Any, dim: int, weight: Any = None, bias: Any = None) -> None:
        """``module`` is an ``nn.Module``, or what a file holds of one, which :meth:`given` completes."""
        super().__init__(input_shape, dim)
        self.layers: tuple[Layer, ...] = () if weight is None else checked_layers([(weight, bias)])
        if self.layers and len(self.layers[0][0]) != self.dim:
            raise InputError(f"weight must have {self.dim} rows, one for each dimension, got {describe(weight)}")
        stored = isinstance(module, StoredModule)
        record = module if stored else StoredModule(type(module).__qualname__, _state_digest(module))
        self.module: Any = None if stored else module
        self.class_name: str = record.class_name
        self.module_fingerprint: str = record.fingerprint

    def given(self, embedding: Any) -> Module:
        """The same with its module: an ``nn.Module``, or a :class:`Module`, of the fingerprint that was stored."""
        module = embedding.module if isinstance(embedding, Module) else embedding
        found = _state_digest(module)
        if found != self.module_fingerprint:
            raise InputError(
                f"the module given ({type(module).__qualname__}, fingerprint {found[:12]}) is not the one this was "
                f"made with ({self.class_name}, fingerprint {self.module_fingerprint[:12]}): its weights differ"
            )
        return Module(module, self.input_shape, self.dim, *(self.layers[0] if self.layers else ()))

    def _vectors(self, x: FloatArray) -> FloatArray:
        if self.module is None:
            raise InputError(
                f"raw inputs need the module that this was made with, {self.class_name} (fingerprint "
                f"{self.module_fingerprint[:12]}), and files do not hold modules: pass it, as in il.open(path, "
                "embedding=module), or embed the inputs yourself and pass embedded=True"
            )
        width = self.layers[0][0].shape[1] if self.layers else self.dim
        out = _run(self.module, x.reshape(-1, *self.input_shape), width, self.class_name)
        return affine(out, *self.layers[0]) if self.layers else out

    @property
    def block_rows(self) -> int:
        """Rows that are embedded at a time."""
        return max(1, NETWORK_VALUES // math.prod(self.input_shape))

    @property
    def label(self) -> str:
        """The name of its class."""
        return f"module {self.class_name}"

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest over shapes, the state of the module and the layer behind it."""
        return digest([self.kind, self.input_shape, self.dim, self.module_fingerprint], self._arrays())

    def _arrays(self) -> Arrays:
        return named_arrays(self.layers)

    def _details(self) -> dict[str, Any]:
        if self.module is not None and _state_digest(self.module) != self.module_fingerprint:
            raise InputError(
                f"{self.class_name} was trained further after it became an embedding: the vectors made before are no "
                "longer those of its weights"
            )
        return {"class": self.class_name, "module": self.module_fingerprint, "n_layers": len(self.layers)}

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"module": None}  # a pickle would run the code of the module's class

    def __repr__(self) -> str:
        missing = ", not given" if self.module is None else ""
        return f"Module({self.class_name}{missing}, {' x '.join(map(str, self.input_shape))} -> {self.dim})"


def _stored(value: Any, name: str) -> NDArray[Any]:
    """A weight as a file holds it: float32, or int64 for counters; one that is mapped already stays so."""
    array = to_numpy(value, name)
    if array.dtype.kind not in "fiu":
        raise InputError(f"weight {name!r} must hold real numbers, got {describe(value)}")
    stored = array.astype(np.float32 if array.dtype.kind == "f" else np.int64, copy=array.flags.writeable)
    if not np.isfinite(stored).all():
        raise InputError(f"weight {name!r} holds a value that is not finite in float32")
    stored.flags.writeable = False
    return stored


def _run(module: Any, x: FloatArray, dim: int, name: str) -> FloatArray:
    out = torch_runner().output(module, x, name)
    if out.shape != (len(x), dim):
        raise InputError(f"{name} must give [n, {dim}], got shape {out.shape} for {len(x)} inputs")
    return out


def _state_digest(module: Any) -> str:
    return digest(["module"], torch_runner().state_of(module))
