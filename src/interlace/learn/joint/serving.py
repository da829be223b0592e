"""Torch modules as functions of NumPy arrays, for serving an embedding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...errors import InputError
from ...inputs.arrays import FloatArray, describe
from .modules import evaluating
from .networks import build


def state_of(module: Any) -> dict[str, NDArray[Any]]:
    """Parameters and buffers by name; as raw bytes if NumPy lacks the dtype."""
    if not isinstance(module, nn.Module):
        raise InputError(f"the embedding must be a torch.nn.Module (an instance), got {describe(module)}")
    return {name: _bits(value) for name, value in module.state_dict().items() if isinstance(value, Tensor)}


def _bits(value: Tensor) -> NDArray[Any]:
    value = value.detach().cpu().contiguous()
    try:
        return np.asarray(value.numpy())
    except TypeError:  # for example bfloat16
        return np.asarray(value.reshape(-1).view(torch.uint8).numpy())


def network(name: str, input_shape: tuple[int, ...], dim: int, weights: Mapping[str, NDArray[Any]]) -> nn.Module:
    """The network of this name with these weights, ready to run."""
    module = build(name, input_shape=input_shape, dim=dim)
    try:
        module.load_state_dict({key: torch.tensor(value) for key, value in weights.items()})
    except RuntimeError as error:  # it lists every name and shape that differs
        raise InputError(f"the weights stored do not fit {name}: {' '.join(str(error).split())}") from error
    return module.eval()


def output(module: nn.Module, x: FloatArray, name: str) -> FloatArray:
    """The module's output for inputs [n, ...], without gradients and in eval mode, on the device of its parameters."""
    first = next(module.parameters(), None)
    with evaluating(module):
        # A copy: the module may write into its input, which may be the user's array.
        out = module(torch.tensor(x, device=None if first is None else first.device))
    if not isinstance(out, Tensor):
        raise InputError(f"{name} must return one tensor [n, dim], got {describe(out)}")
    return np.asarray(out.detach().to("cpu", torch.float32).numpy())
