"""Layers of the networks: standardized inputs, weights drawn from a generator, dropout with a seed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...errors import InputError
from ...inputs.arrays import describe, to_numpy

Shape = tuple[int, ...]
#: Largest standardized value of the data.
LARGEST_DEVIATION = 10.0
Layer = TypeVar("Layer", nn.Linear, nn.Conv2d)


class Standardize(nn.Module):
    """Rows of any real dtype, flat or in shape -> float32 [n, *shape], (x - mean) / std.

    Images (three dimensions, channels first) have one mean and std for each channel, anything else one for each value.
    Until ``set_statistics`` they are 0 and 1.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.register_buffer("mean", torch.zeros(_per(shape)))
        self.register_buffer("std", torch.ones(_per(shape)))

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim < 2 or (tuple(x.shape[1:]) != self.shape and math.prod(x.shape[1:]) != math.prod(self.shape)):
            expected = f"[n, {', '.join(map(str, self.shape))}]"
            flat = "" if len(self.shape) == 1 else f" or flat rows [n, {math.prod(self.shape)}]"
            raise InputError(f"the network takes inputs {expected}{flat}, got shape {tuple(x.shape)}")
        # reshape first: a batch of flat bytes stays bytes for as long as possible
        return (x.reshape(len(x), *self.shape).to(self.mean.dtype) - self.mean) / self.std

    def set_statistics(self, mean: Any, std: Any) -> None:
        """Mean and std of the data, one for each feature or channel.

        Constant features are ignored (std inf), because their weights are never learned, and a query in which they
        vary would get an arbitrary vector.
        """
        values = [np.asarray(to_numpy(v, name), np.float64) for name, v in (("mean", mean), ("std", std))]
        for name, v in zip(("mean", "std"), values, strict=True):
            if v.size != self.mean.numel() or not np.isfinite(v).all() or (name == "std" and (v < 0).any()):
                raise InputError(f"{name} must be {self.mean.numel()} finite numbers, got {describe(v)}")
        centre, spread = values
        # A spread below the resolution of float32 at that mean is 0.
        constant = spread <= np.maximum(np.finfo(np.float32).tiny, np.abs(centre) * np.finfo(np.float32).eps)
        spread = np.where(constant, np.inf, spread)
        with torch.no_grad():
            for buffer, v in ((self.mean, centre), (self.std, spread)):
                buffer.copy_(torch.from_numpy(v.reshape(buffer.shape)))


def statistics_of(
    batches: Iterable[Any], shape: Shape | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and spread of all rows, one for each feature or channel, in float64.

    The spread is the population std, or a tenth of the largest deviation if that is more: otherwise a pixel that is
    nonzero in one of 1,000 images would become 30 and dominate the loss.

    ``batches`` are inputs, or tuples that start with them; ``shape`` is that of one row for the network
    (``network.standardize.shape``), by default that of the inputs. Only one batch is held at a time.
    """
    count, mean, squares = 0, np.zeros(()), np.zeros(())
    low, high = np.full((), np.inf), np.full((), -np.inf)
    for batch in batches:
        inputs = to_numpy(batch[0] if isinstance(batch, tuple | list) else batch, "inputs")
        if inputs.ndim < 2 or (shape is not None and math.prod(inputs.shape[1:]) != math.prod(shape)):
            expected = "[n, ...]" if shape is None else f"[n, {', '.join(map(str, shape))}]"
            raise InputError(f"statistics need batches {expected}, got {describe(inputs)}")
        if not len(inputs):
            continue
        rows = inputs.reshape(len(inputs), *(inputs.shape[1:] if shape is None else shape)).astype(np.float64)
        axes = (0, 2, 3) if rows.ndim == 4 else (0,)
        own = rows.mean(axes, keepdims=True)
        # Chan's update: sums of squares about the mean add up without cancelling.
        n = math.prod(rows.shape[axis] for axis in axes)
        gap = own[0] - mean
        mean = mean + gap * (n / (count + n))
        squares = squares + ((rows - own) ** 2).sum(axes).reshape(own[0].shape) + gap**2 * (count * n / (count + n))
        low, high = (
            np.minimum(low, rows.min(axes).reshape(gap.shape)),
            np.maximum(high, rows.max(axes).reshape(gap.shape)),
        )
        count += n
    if count == 0:
        raise InputError("statistics need at least one row, got none")
    spread = np.maximum(np.sqrt(squares / count), np.maximum(high - mean, mean - low) / LARGEST_DEVIATION)
    return mean.reshape(_flat(mean)), spread.reshape(_flat(mean))


class Dropout(nn.Module):
    """``nn.Dropout`` whose random numbers depend on its seed and the number of calls, not on the global generator.

    After ``reseed`` at the start of an epoch, a resumed run gets the same random numbers. The state is two integers, so
    the module can be copied.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p, self._seed, self._calls = p, 0, 0

    def reseed(self, seed: int) -> None:
        self._seed, self._calls = seed, 0

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        words = np.random.SeedSequence([self._seed, self._calls]).generate_state(1, np.uint64)
        self._calls += 1
        generator = torch.Generator(x.device).manual_seed(int(words[0] >> np.uint64(1)))
        kept = torch.empty_like(x).bernoulli_(1 - self.p, generator=generator)
        return x * kept / (1 - self.p)


def blank_linear(n_in: int, n_out: int) -> nn.Linear:
    """A layer with uninitialized values. Made on the meta device, because torch would use its global generator."""
    return nn.Linear(n_in, n_out, device="meta").to_empty(device="cpu")


def linear(n_in: int, n_out: int, generator: torch.Generator, *, relu: bool = True) -> nn.Linear:
    """A layer with weights from the generator: He's standard deviation before a relu, else 1 / sqrt(3 n_in); bias 0."""
    layer = blank_linear(n_in, n_out)
    return _start(layer, n_in, generator, relu)


def conv(
    n_in: int, n_out: int, size: int, generator: torch.Generator, *, padding: int = 0, bias: bool = True
) -> nn.Conv2d:
    """A convolution with square kernels, initialized for a relu after it."""
    layer = nn.Conv2d(n_in, n_out, size, padding=padding, bias=bias, device="meta").to_empty(device="cpu")
    return _start(layer, n_in * size * size, generator, True)


def _start(layer: Layer, fan_in: int, generator: torch.Generator, relu: bool) -> Layer:
    bound = math.sqrt((6 if relu else 1) / fan_in)
    with torch.no_grad():
        layer.weight.uniform_(-bound, bound, generator=generator)
        if layer.bias is not None:
            layer.bias.zero_()
    return layer


def _per(shape: Shape) -> Shape:
    """Shape of the statistics: one value for each channel of images."""
    return (shape[0], 1, 1) if len(shape) == 3 else shape


def _flat(mean: NDArray[np.float64]) -> Shape:
    return (mean.shape[0],) if mean.ndim == 3 else mean.shape
