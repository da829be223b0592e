"""The embeddings as torch modules: built by name or wrapped round a user's module, and how they leave torch again.

Every network is ``out(features(standardize(x)))``: it takes flat rows or images of any real dtype, and its last layer
is a plain ``nn.Linear`` called ``out``, into which centring, rotation and scale of the output are folded.

| name | layers | input | dim by default |
|---|---|---|---|
| ``identity`` | nothing to learn; ``out`` stays as it is but for ``fold`` | any | that of the input |
| ``linear`` | ``out`` | any, flattened | - |
| ``mlp`` | hidden layers with relu (256), ``out`` | any, flattened | - |
| ``lenet`` | conv 5x5 20, pool, conv 5x5 50, pool, 512, ``out`` | images from 16 x 16 on, made for 1 x 28 x 28 | 512 |
| ``alexnet`` | five convolutions with batch norm, three pools, dropout, 1024, ``out`` | sides 16, 24, 32, ... | 1024 |
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...errors import InputError
from ...inputs.arrays import describe as kind_of
from ...inputs.arrays import positive, to_numpy
from .layers import Dropout, Shape, Standardize, blank_linear, conv, linear, statistics_of

if TYPE_CHECKING:
    from ...codec.embedding import Embedding

__all__ = ["NAMES", "Network", "Wrapped", "build", "describe", "fold", "statistics_of", "to_embedding", "wrap"]

#: The widths of one half of the original AlexNet, which was split over two devices; (kernel, pool behind it).
ALEXNET = ((48, 5, True), (128, 3, True), (192, 3, False), (192, 3, False), (128, 3, True))
DROPOUT = 0.5
HIDDEN = (256,)
#: Flat rows of these lengths are the images that the network was made for.
IMAGES = {"lenet": (1, 28, 28), "alexnet": (3, 32, 32)}


class Network(nn.Module):
    """Rows -> float32 [n, dim]."""

    #: Whether the trainer should call ``set_statistics``. Not where inputs are meant as they are: identity keeps
    #: distances, and a user's module scales its inputs itself.
    standardizes = True
    out: nn.Linear

    def __init__(self, name: str, input_shape: Shape, dim: int, inner: Shape) -> None:
        super().__init__()
        self.name, self.input_shape, self.dim = name, input_shape, dim
        self.standardize = Standardize(inner)

    def features(self, x: Tensor) -> Tensor:
        """What ``out`` is applied to; x is standardised and in shape."""
        return x

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.out(self.features(self.standardize(x)))
        return z

    def set_statistics(self, mean: Any, std: Any) -> None:
        """See :meth:`Standardize.set_statistics`; ``statistics_of(batches, network.standardize.shape)`` gives both."""
        self.standardize.set_statistics(mean, std)

    def reseed(self, seed: int) -> None:
        """Start the draws of every dropout anew; with a seed for each epoch a resumed run repeats them."""
        for number, module in enumerate(m for m in self.modules() if isinstance(m, Dropout)):
            module.reseed(seed + number)


class Identity(Network):
    """The input itself. Nothing to learn: ``out`` starts as the identity and only ``fold`` changes it."""

    standardizes = False

    def __init__(self, input_shape: Shape, dim: int, generator: torch.Generator) -> None:
        raw = math.prod(input_shape)
        if dim != raw:
            raise InputError(f"the identity embedding has the input's {raw} dimensions, got dim={dim}")
        super().__init__("identity", input_shape, dim, (raw,))
        self.out = _eye(dim).requires_grad_(False)


class Perceptron(Network):
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


class LeNet(Network):
    """LeNet-5 as it is used for MNIST today: wider than the original, max pools and relu."""

    def __init__(self, input_shape: Shape, dim: int, generator: torch.Generator) -> None:
        channels, *sides = input_shape
        if min(sides) < 16:  # two 5x5 convolutions and two pools leave nothing of less
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


class AlexNet(Network):
    """AlexNet for small images: five convolutions, small kernels, three pools, batch norm in place of its own."""

    def __init__(self, input_shape: Shape, dim: int, generator: torch.Generator) -> None:
        channels, height, width = input_shape
        if height % 8 or width % 8 or min(height, width) < 16:  # of 8 three pools would leave a single point
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
        # Kernels with channels last take three quarters of the time on CPUs.
        self.convolutions = nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.drop1, self.drop2 = Dropout(DROPOUT), Dropout(DROPOUT)
        self.fc = linear(channels * (height // 8) * (width // 8), 1024, generator)
        self.out = linear(1024, dim, generator, relu=False)

    def features(self, x: Tensor) -> Tensor:
        x = self.convolutions(x.contiguous(memory_format=torch.channels_last))
        x = torch.relu(self.fc(self.drop1(x.flatten(1))))
        dropped: Tensor = self.drop2(x)
        return dropped


class Wrapped(Network):
    """A user's module with one more linear layer behind it, which starts as the identity.

    The module gets float32 [n, *input_shape], not standardised, and gives [n, dim].
    """

    standardizes = False

    def __init__(self, module: nn.Module, input_shape: Shape, dim: int) -> None:
        super().__init__("module", input_shape, dim, input_shape)
        self.module = module
        self.out = _eye(dim).to(_device(module))
        self.standardize.to(_device(module))

    def features(self, x: Tensor) -> Tensor:
        z: Tensor = self.module(x)
        return z

    def set_statistics(self, mean: Any, std: Any) -> None:
        raise InputError("a module of your own gets its inputs as they are; standardise them inside it")


NAMES = ("identity", "linear", "mlp", "lenet", "alexnet")


def build(
    name: str,
    *,
    input_shape: Shape,
    dim: int | None = None,
    hidden: Shape = (),
    generator: torch.Generator | None = None,
) -> Network:
    """A network by its name, with weights drawn from ``generator`` (by default one with seed 0).

    ``input_shape`` is that of one row: (features,) or (channels, height, width); 784 flat features are (1, 28, 28) to
    lenet, 3072 are (3, 32, 32) to alexnet. ``dim`` may be left out where the table above has a default.
    """
    if name not in NAMES:
        raise InputError(f"embedding must be one of {', '.join(NAMES)} or a torch module, got {name!r}")
    shape = _shape(input_shape)
    if name in IMAGES:
        shape = IMAGES[name] if shape == (math.prod(IMAGES[name]),) else shape
        if len(shape) != 3:
            expected = "images (channels, height, width)"
            raise InputError(f"{name} takes {expected}, such as {IMAGES[name]}, got input_shape={shape}")
    default = {"identity": math.prod(shape), "lenet": 512, "alexnet": 1024}.get(name)
    if dim is None and default is None:
        raise InputError(f"the {name} embedding needs dim, the number of its outputs")
    dim = positive(default if dim is None else dim, "dim")
    if hidden and name != "mlp":
        raise InputError(f"hidden layers belong to the mlp embedding, got hidden={hidden} for {name}")
    widths = tuple(positive(n, "hidden") for n in hidden or HIDDEN) if name == "mlp" else ()
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    if name in ("linear", "mlp"):
        return Perceptron(name, shape, dim, widths, generator)
    kinds: dict[str, type[Identity | LeNet | AlexNet]] = {"identity": Identity, "lenet": LeNet, "alexnet": AlexNet}
    return kinds[name](shape, dim, generator)


def wrap(module: nn.Module, input_shape: Shape, dim: int | None = None) -> Network:
    """A user's module as a network. It is run once, on two rows of zeros, to see that it gives [2, dim]."""
    if not isinstance(module, nn.Module):
        raise InputError(f"the embedding must be a torch.nn.Module (an instance), got {kind_of(module)}")
    shape, dim = _shape(input_shape), None if dim is None else positive(dim, "dim")
    zeros = torch.zeros((2, *shape), device=_device(module))
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
        raise InputError(f"{name} must give one tensor {expected} for a batch of 2, got {kind_of(z)}")
    if z.ndim != 2 or len(z) != 2 or z.shape[1] != (z.shape[1] if dim is None else dim):
        raise InputError(f"{name} must give {expected} for a batch of 2, got shape {tuple(z.shape)}")
    if not z.is_floating_point() or z.shape[1] == 0:
        raise InputError(f"{name} must give real numbers {expected}, got {kind_of(z)}")
    return module if isinstance(module, Network) else Wrapped(module, shape, int(z.shape[1]))


def fold(network: Network, matrix: Any, offset: Any) -> None:
    """Make the network compute (z - offset) @ matrix where it computed z, by changing ``out`` in place.

    ``matrix`` [dim, dim], ``offset`` [dim]: arrays or tensors. Computed in double precision, once.
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


def to_embedding(network: Network) -> Embedding:
    """The same function for serving: identity, linear and mlp in NumPy with the standardisation folded in.

    lenet and alexnet hand over their weights and still run in torch; a user's module is kept as it is, with ``out``
    behind it. Offsets that are large against the spread of a feature cost digits where they are folded in: a mean of
    1,000 standard deviations leaves about four.
    """
    from ...codec import embedding

    if isinstance(network, Identity | Perceptron):
        layers = [_arrays(layer) for layer in (*getattr(network, "hidden", ()), network.out)]
        mean, std = (v.double().cpu().numpy() for v in (network.standardize.mean, network.standardize.std))
        weight, bias = layers[0]
        layers[0] = weight / std, bias - weight @ (mean / std)
        shape = network.input_shape
        if isinstance(network, Identity) and len(shape) == 1 and _is_identity(*layers[0]):
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


def describe(network: Network) -> dict[str, Any]:
    """What a model card says: name, shapes, parameters, and the multiply-adds of linear and convolution layers per row.

    Other layers of a user's module are not counted as multiply-adds; neither is an ``out`` that is the identity.
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
            network(torch.zeros((1, *network.input_shape), device=_device(network)))
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


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Without gradients and in eval mode; afterwards every part is in the mode it was in."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes:
            part.training = mode


def device_of(device: Any) -> str:
    """``"auto"`` is a GPU if there is one; anything else is what torch knows."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=torch.device(device)).item()  # "meta" has devices without numbers
    except (RuntimeError, TypeError, AssertionError) as error:
        raise InputError(f"device must be 'auto' or one that torch has here, got {device!r}: {error}") from error
    return str(device)


def _shape(input_shape: Any) -> Shape:
    if not isinstance(input_shape, tuple | list | torch.Size) or not input_shape:
        raise InputError(f"input_shape must be (features,) or (channels, height, width), got {input_shape!r}")
    return tuple(positive(n, "input_shape") for n in input_shape)


def _eye(dim: int) -> nn.Linear:
    layer = blank_linear(dim, dim)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(dim))
        layer.bias.zero_()
    return layer


def _arrays(layer: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Weight [out, in] and bias [out] in double precision."""
    weight, bias = (v.detach().double().cpu().numpy() for v in (layer.weight, layer.bias))
    return weight, bias


def _is_identity(weight: NDArray[np.float64], bias: NDArray[np.float64]) -> bool:
    square = weight.shape[0] == weight.shape[1]
    return bool(square and not bias.any() and np.array_equal(weight, np.eye(len(weight))))


def _device(module: nn.Module) -> torch.device:
    first = next(module.parameters(), None)
    return torch.device("cpu") if first is None else first.device
