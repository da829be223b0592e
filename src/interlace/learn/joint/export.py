"""Networks after training: fold a linear map into the last layer, export for serving, describe for the model card."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...codec import embedding
from ...errors import InputError
from ...inputs.arrays import describe as kind_of
from ...inputs.arrays import to_numpy
from .architectures import EmbeddingNetwork, IdentityNetwork, Perceptron, Wrapped
from .modules import device_of_module, evaluating


def fold(network: EmbeddingNetwork, matrix: Any, offset: Any) -> None:
    """Change ``out`` in place such that the network computes (z - offset) @ matrix instead of z.

    ``matrix`` [dim, dim] and ``offset`` [dim] are arrays or tensors. Computed in float64.
    """
    out = network.out
    dim = out.out_features
    change, centre = (np.asarray(to_numpy(v, name), np.float64) for v, name in ((matrix, "matrix"), (offset, "offset")))
    for name, value, shape in (("matrix", change, (dim, dim)), ("offset", centre, (dim,))):
        if value.shape != shape or not np.isfinite(value).all():
            raise InputError(f"{name} must be finite numbers of shape {shape}, got {kind_of(value)}")
    weight, bias = _arrays(out)
    with torch.no_grad():
        out.weight.copy_(torch.from_numpy(change.T @ weight))
        out.bias.copy_(torch.from_numpy((bias - centre) @ change))


def to_embedding(network: EmbeddingNetwork) -> embedding.Embedding:
    """The same function for serving: identity, linear and mlp in NumPy, with the standardization folded in.

    lenet, alexnet and a user's module still run in torch. Folding loses digits if the mean of a feature is large
    compared with its standard deviation: for a mean of 1,000 standard deviations about four digits are left.
    """
    if isinstance(network, IdentityNetwork | Perceptron):
        layers = [_arrays(layer) for layer in (*getattr(network, "hidden", ()), network.out)]
        mean, std = (v.double().cpu().numpy() for v in (network.standardize.mean, network.standardize.std))
        weight, bias = layers[0]
        layers[0] = weight / std, bias - weight @ (mean / std)
        shape = network.input_shape
        if isinstance(network, IdentityNetwork) and len(shape) == 1 and _is_identity(*layers[0]):
            return embedding.Identity(network.dim)
        single = [(w.astype(np.float32), b.astype(np.float32)) for w, b in layers]
        if len(single) == 1:
            return embedding.Linear(*single[0], input_shape=shape)
        return embedding.MLP(single, input_shape=shape)
    if isinstance(network, Wrapped):
        behind = _arrays(network.out)
        layer = () if _is_identity(*behind) else tuple(v.astype(np.float32) for v in behind)
        return embedding.Module(network.module, network.input_shape, network.dim, *layer)
    weights = {name: v.detach().cpu().contiguous().numpy().copy() for name, v in network.state_dict().items()}
    return embedding.Network(network.name, network.input_shape, network.dim, weights)


def describe(network: EmbeddingNetwork) -> dict[str, Any]:
    """For the model card: name, shapes, parameters, and the multiply-adds of linear and convolution layers per row.

    Other layers of a user's module are not counted, and neither is an ``out`` that is the identity.
    """
    counts: list[int] = []

    def count(layer: nn.Module, _: Any, z: Tensor) -> None:
        weight = layer.weight
        if isinstance(weight, Tensor):
            counts.append(weight[0].numel() * (z.numel() // len(z)))

    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    idle = set(network.out.parameters()) if _is_identity(*_arrays(network.out)) else set()
    layers = [m for m in network.modules() if isinstance(m, kinds) and m.weight not in idle]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    try:
        with evaluating(network):
            network(torch.zeros((1, *network.input_shape), device=device_of_module(network)))
    finally:
        for hook in hooks:
            hook.remove()
    parameters = [p for p in network.parameters() if p not in idle]
    return {
        "name": network.name if not isinstance(network, Wrapped) else type(network.module).__name__,
        "input_shape": list(network.input_shape),
        "dim": network.dim,
        "parameters": sum(p.numel() for p in parameters),
        "trainable": sum(p.numel() for p in parameters if p.requires_grad),
        "multiply_adds": sum(counts),
    }


def _arrays(layer: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weight [out, in] and bias [out] as float64."""
    weight, bias = (v.detach().double().cpu().numpy() for v in (layer.weight, layer.bias))
    return weight, bias


def _is_identity(weight: NDArray[np.float64], bias: NDArray[np.float64]) -> bool:
    square = weight.shape[0] == weight.shape[1]
    return bool(square and not bias.any() and np.array_equal(weight, np.eye(len(weight))))
