"""The networks as torch modules.

Every network is ``out(features(standardize(x)))``: it takes flat rows or images of any real dtype, and its last layer
is a plain ``nn.Linear`` called ``out``. Centring, rotation and scale of the output are folded into that layer.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError
from .layers import Dropout, Shape, Standardize, blank_linear, conv, linear
from .modules import device_of_module

#: (channels, kernel, pool after it): the widths of one half of the original AlexNet, which was split over two devices.
ALEXNET = ((48, 5, True), (128, 3, True), (192, 3, False), (192, 3, False), (128, 3, True))
DROPOUT = 0.5
#: Flat rows of these lengths are read as the images that the network was made for.
IMAGES = {"lenet": (1, 28, 28), "alexnet": (3, 32, 32), "cnn3": (3, 32, 32)}
#: Channels of the three convolutions of ``cnn3``, and outputs of its hidden layer.
CHANNELS, HIDDEN = (32, 32, 64), 500


class EmbeddingNetwork(nn.Module):
    """Rows -> float32 [n, dim]."""

    #: Whether the trainer calls ``set_statistics``. Not for ``identity``, which keeps distances, and not for a user's
    #: module, which scales its inputs itself.
    standardizes = True
    out: nn.Linear

    def __init__(self, name: str, input_shape: Shape, dim: int, inner: Shape) -> None:
        super().__init__()
        self.name, self.input_shape, self.dim = name, input_shape, dim
        self.standardize = Standardize(inner)

    def features(self, x: Tensor) -> Tensor:
        """The input of ``out``; x is standardized and has the shape of the network's input."""
        return x

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.out(self.features(self.standardize(x)))
        return z

    def set_statistics(self, mean: Any, std: Any) -> None:
        """See :meth:`Standardize.set_statistics`; ``statistics_of`` computes mean and std."""
        self.standardize.set_statistics(mean, std)

    def reseed(self, seed: int) -> None:
        """Restart the random numbers of every dropout. With a seed for each epoch, a resumed run repeats them."""
        for number, module in enumerate(m for m in self.modules() if isinstance(m, Dropout)):
            module.reseed(seed + number)


class IdentityNetwork(EmbeddingNetwork):
    """The input itself. Nothing to learn: ``out`` starts as the identity and only ``fold`` changes it."""

    standardizes = False

    def __init__(self, input_shape: Shape, dim: int, generator: torch.Generator) -> None:
        raw = math.prod(input_shape)
        if dim != raw:
            raise InputError(f"the identity embedding has the input's {raw} dimensions, got dim={dim}")
        super().__init__("identity", input_shape, dim, (raw,))
        self.out = _eye(dim).requires_grad_(False)


class Perceptron(EmbeddingNetwork):
    """``linear`` without hidden layers, ``mlp`` with them."""

    def __init__(self, name: str, input_shape: Shape, dim: int, hidden: Shape, generator: torch.Generator) -> None:
        raw = math.prod(input_shape)
        super().__init__(name, input_shape, dim, (raw,))
        widths = (raw, *hidden)
        self.hidden = nn.ModuleList(linear(a, b, generator) for a, b in zip(widths, hidden, strict=False))
        self.out = linear(widths[-1], dim, generator, relu=False)

    def features(self, x: Tensor) -> Tensor:
        for layer in self.hidden:
            x = torch.relu(layer(x))
        return x


class LeNet(EmbeddingNetwork):
    """LeNet-5 as used for MNIST today: wider than the original, with max pooling and relu."""

    def __init__(self, input_shape: Shape, dim: int, generator: torch.Generator) -> None:
        channels, *sides = input_shape
        if min(sides) < 16:  # nothing would be left after two 5x5 convolutions and two pools
            raise InputError(
                "lenet takes images (channels, height, width) of at least 16 x 16, such as "
                f"{IMAGES['lenet']}, got input_shape={input_shape}"
            )
        super().__init__("lenet", input_shape, dim, input_shape)
        self.conv1, self.conv2 = conv(channels, 20, 5, generator), conv(20, 50, 5, generator)
        left = [((side - 4) // 2 - 4) // 2 for side in sides]
        self.fc = linear(50 * math.prod(left), 512, generator)
        self.out = linear(512, dim, generator, relu=False)

    def features(self, x: Tensor) -> Tensor:
        for layer in (self.conv1, self.conv2):
            x = torch.relu(nn.functional.max_pool2d(layer(x), 2))
        hidden: Tensor = self.fc(x.flatten(1))
        return torch.relu(hidden)


class AlexNet(EmbeddingNetwork):
    """AlexNet for small images: five convolutions with small kernels, three pools, batch norm."""

    def __init__(self, input_shape: Shape, dim: int, generator: torch.Generator) -> None:
        channels, height, width = input_shape
        if height % 8 or width % 8 or min(height, width) < 16:  # three pools would reduce 8 to a single point
            raise InputError(
                "alexnet takes images (channels, height, width) of at least 16 x 16, whose sides must be divisible by "
                f"8, such as {IMAGES['alexnet']}, got input_shape={input_shape}"
            )
        super().__init__("alexnet", input_shape, dim, input_shape)
        layers: list[nn.Module] = []
        for n, size, pool in ALEXNET:
            layers += [conv(channels, n, size, generator, padding=size // 2, bias=False), nn.BatchNorm2d(n), nn.ReLU()]
            layers += [nn.MaxPool2d(2)] if pool else []
            channels = n
        # On CPUs, convolutions with channels last take three quarters of the time.
        self.convolutions = nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.drop1, self.drop2 = Dropout(DROPOUT), Dropout(DROPOUT)
        self.fc = linear(channels * (height // 8) * (width // 8), 1024, generator)
        self.out = linear(1024, dim, generator, relu=False)

    def features(self, x: Tensor) -> Tensor:
        x = self.convolutions(x.contiguous(memory_format=torch.channels_last))
        x = torch.relu(self.fc(self.drop1(x.flatten(1))))
        dropped: Tensor = self.drop2(x)
        return dropped


class CNN3(EmbeddingNetwork):
    """The network of PQN and SUBIC for CIFAR-10: three 5x5 convolutions with pools, 500; batch norm is added."""

    def __init__(self, input_shape: Shape, dim: int, generator: torch.Generator) -> None:
        channels, height, width = input_shape
        if height % 8 or width % 8:
            raise InputError(
                "cnn3 takes images (channels, height, width) whose sides must be divisible by 8, such as "
                f"{IMAGES['cnn3']}, got input_shape={input_shape}"
            )
        super().__init__("cnn3", input_shape, dim, input_shape)
        layers: list[nn.Module] = []
        for n in CHANNELS:
            layers += [conv(channels, n, 5, generator, padding=2, bias=False), nn.BatchNorm2d(n), nn.ReLU()]
            layers += [nn.MaxPool2d(2)]
            channels = n
        self.convolutions = nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.drop = Dropout(DROPOUT)
        self.fc = linear(channels * (height // 8) * (width // 8), HIDDEN, generator)
        self.out = linear(HIDDEN, dim, generator, relu=False)

    def features(self, x: Tensor) -> Tensor:
        x = self.convolutions(x.contiguous(memory_format=torch.channels_last))
        hidden: Tensor = torch.relu(self.fc(self.drop(x.flatten(1))))
        return hidden


class Wrapped(EmbeddingNetwork):
    """A user's module followed by one more linear layer, which starts as the identity.

    The module takes float32 [n, *input_shape], not standardized, and returns [n, dim].
    """

    standardizes = False

    def __init__(self, module: nn.Module, input_shape: Shape, dim: int) -> None:
        super().__init__("module", input_shape, dim, input_shape)
        self.module = module
        self.out = _eye(dim).to(device_of_module(module))
        self.standardize.to(device_of_module(module))

    def features(self, x: Tensor) -> Tensor:
        z: Tensor = self.module(x)
        return z

    def set_statistics(self, mean: Any, std: Any) -> None:
        raise InputError("inputs of your own module are not standardized; do it inside the module")


def _eye(dim: int) -> nn.Linear:
    layer = blank_linear(dim, dim)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(dim))
        layer.bias.zero_()
    return layer
