"""Embeddings of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import InputError
from ...files import storage
from ...inputs.arrays import describe
from .base import Arrays, Embedding, Identity
from .layers import MLP, Linear
from .torch_modules import Module, Network, StoredModule


def embedding_of(arrays: Arrays, description: Mapping[str, Any], module: Any = None) -> Embedding:
    """Inverse of :meth:`Embedding.to_arrays`; ``module`` is what the user passes, if anything."""
    kind, shape, dim = description["kind"], tuple(description["input_shape"]), description["dim"]
    layers = [(arrays[f"weight.{i}"], arrays[f"bias.{i}"]) for i in range(int(description.get("n_layers", 0)))]
    found: Embedding
    if kind == "identity":
        found = Identity(dim)
    elif kind == "linear":
        found = Linear(*layers[0], input_shape=shape)
    elif kind == "mlp":
        found = MLP(layers, input_shape=shape)
    elif kind == "network":
        found = Network(description["name"], shape, dim, arrays)
    elif kind == "module":
        found = Module(
            StoredModule(str(description["class"]), str(description["module"])),
            shape,
            dim,
            *(layers[0] if layers else ()),
        )
    else:
        raise InputError(f"embedding kind {kind!r} is unknown; it may need a newer interlace")
    if found.dim != dim:
        raise InputError(f"the layers give {found.dim} dimensions, the description says {dim}")
    return found if module is None else found.given(module)


def embedding_in(file: storage.File, module: Any = None) -> Embedding | None:
    """The embedding of an opened file of any kind, its bytes checked; None if it has none."""
    if file.meta.get("embedding") is None:
        if module is not None:
            raise InputError(f"{file.path!r} has no embedding: omit embedding={describe(module)}")
        return None
    description = file.description("embedding")
    arrays = file.arrays("embedding.")
    with file.parsing("embedding"):
        found = embedding_of(arrays, description)
    return found if module is None else found.given(module)
