"""The embedding of a training run: a network by its name, or a user's module.

| name | layers | input | dim by default |
|---|---|---|---|
| ``identity`` | nothing to learn; only ``fold`` changes ``out`` | any | that of the input |
| ``linear`` | ``out`` | any, flattened | - |
| ``mlp`` | hidden layers with relu (256), ``out`` | any, flattened | - |
| ``lenet`` | conv 5x5 20, pool, conv 5x5 50, pool, 512, ``out`` | images, sides >= 16; made for 1 x 28 x 28 | 512 |
| ``cnn3`` | three 5x5 convolutions (32, 32, 64) with batch norm and pools, 500, ``out`` | sides 8, 16, ..., 32 | 500 |
| ``alexnet`` | five convolutions with batch norm, three pools, dropout, 1024, ``out`` | sides 16, 24, 32, ... | 1024 |
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError
from ...inputs.arrays import describe, positive
from .architectures import CNN3, IMAGES, AlexNet, EmbeddingNetwork, IdentityNetwork, LeNet, Perceptron, Wrapped
from .architectures import HIDDEN as CNN3_DIM
from .layers import Shape
from .modules import device_of_module, evaluating

NAMES = ("identity", "linear", "mlp", "lenet", "cnn3", "alexnet")
HIDDEN = (256,)


def build(
    name: str,
    *,
    input_shape: Shape,
    dim: int | None = None,
    hidden: Shape = (),
    generator: torch.Generator | None = None,
) -> EmbeddingNetwork:
    """A network by its name, with weights drawn from ``generator`` (by default one with seed 0).

    ``input_shape`` is the shape of one row: (features,) or (channels, height, width). lenet reads 784 flat features as
    (1, 28, 28), alexnet reads 3072 as (3, 32, 32). ``dim`` is optional if the table above has a default.
    """
    if name not in NAMES:
        raise InputError(f"embedding must be one of {', '.join(NAMES)} or a torch module, got {name!r}")
    shape = _shape(input_shape)
    if name in IMAGES:
        shape = IMAGES[name] if shape == (math.prod(IMAGES[name]),) else shape
        if len(shape) != 3:
            expected = "images (channels, height, width)"
            raise InputError(f"{name} takes {expected}, such as {IMAGES[name]}, got input_shape={shape}")
    default = {"identity": math.prod(shape), "lenet": 512, "cnn3": CNN3_DIM, "alexnet": 1024}.get(name)
    if dim is None and default is None:
        raise InputError(f"the {name} embedding needs dim, the number of its outputs")
    dim = positive(default if dim is None else dim, "dim")
    if hidden and name != "mlp":
        raise InputError(f"hidden layers belong to the mlp embedding, got hidden={hidden} for {name}")
    widths = tuple(positive(n, "hidden") for n in hidden or HIDDEN) if name == "mlp" else ()
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    if name in ("linear", "mlp"):
        return Perceptron(name, shape, dim, widths, generator)
    kinds: dict[str, type[IdentityNetwork | LeNet | CNN3 | AlexNet]] = {
        "identity": IdentityNetwork,
        "lenet": LeNet,
        "cnn3": CNN3,
        "alexnet": AlexNet,
    }
    return kinds[name](shape, dim, generator)


def wrap(module: nn.Module, input_shape: Shape, dim: int | None = None) -> EmbeddingNetwork:
    """A user's module as a network. It is run once, on two rows of zeros, to check that it returns [2, dim]."""
    if not isinstance(module, nn.Module):
        raise InputError(f"the embedding must be a torch.nn.Module (an instance), got {describe(module)}")
    shape, dim = _shape(input_shape), None if dim is None else positive(dim, "dim")
    zeros = torch.zeros((2, *shape), device=device_of_module(module))
    name = type(module).__name__
    try:
        with evaluating(module):
            z = module(zeros)
    except InputError:
        raise
    except Exception as error:  # a user's code may raise anything
        raise InputError(f"{name} does not take a float32 batch of shape {tuple(zeros.shape)}: {error}") from error
    expected = f"[2, {'dim' if dim is None else dim}]"
    if not isinstance(z, Tensor):
        raise InputError(f"{name} must return one tensor {expected} for a batch of 2, got {describe(z)}")
    if z.ndim != 2 or len(z) != 2 or z.shape[1] != (z.shape[1] if dim is None else dim):
        raise InputError(f"{name} must return {expected} for a batch of 2, got shape {tuple(z.shape)}")
    if not z.is_floating_point() or z.shape[1] == 0:
        raise InputError(f"{name} must return real numbers {expected}, got {describe(z)}")
    return module if isinstance(module, EmbeddingNetwork) else Wrapped(module, shape, int(z.shape[1]))


def _shape(input_shape: Any) -> Shape:
    if not isinstance(input_shape, tuple | list | torch.Size) or not input_shape:
        raise InputError(f"input_shape must be (features,) or (channels, height, width), got {input_shape!r}")
    return tuple(positive(n, "input_shape") for n in input_shape)
