"""Raw inputs -> vectors, when serving: the first step of a search where an embedding was learned with the books.

An index carries its embedding, so that queries may be raw. Identity, linear and MLP run in NumPy; named networks and a
user's module run in torch, which ``torch_runner.py`` imports for the first input.

| kind | class | in a file |
|---|---|---|
| ``identity`` | :class:`Identity` | nothing but its shape |
| ``linear``, ``mlp`` | :class:`Linear`, :class:`MLP` | all layers |
| ``network`` | :class:`Network` | its name (lenet, alexnet) and its weights |
| ``module`` | :class:`Module` | the name of its class and a fingerprint; the module itself is passed again |
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._threads import cached_property
from ..errors import InputError
from ..files import storage
from ..inputs.arrays import LARGEST, FloatArray, Rows, describe, positive, to_numpy
from .book import frozen
from .torch_runner import torch_runner

Arrays = dict[str, NDArray[Any]]
Layer = tuple[FloatArray, FloatArray]

#: Values of a block of rows: in the widest layer in NumPy (16 MB), at the input of a network, whose layers are wider.
BLOCK_VALUES, NETWORK_VALUES = 1 << 22, 1 << 18


class Embedding:
    """A function from inputs of ``input_shape`` to float32 vectors of ``dim`` dimensions; it never changes."""

    kind: ClassVar[str]

    def __init__(self, input_shape: Any, dim: int) -> None:
        if not isinstance(input_shape, Sequence) or not input_shape:
            raise InputError(f"input_shape must be the shape of one input, such as (64,), got {input_shape!r}")
        self.input_shape: tuple[int, ...] = tuple(positive(size, "input_shape") for size in input_shape)
        self.dim = positive(dim, "dim")

    def __call__(self, x: Any) -> FloatArray:
        """Vectors float32 [n, dim] of inputs [n, *input_shape], or of the same as flat rows [n, prod(input_shape)].

        x is anything that :class:`Index` reads, and is read in blocks.
        """
        rows = Rows(x, inputs=self.input_shape)
        out = np.empty((len(rows), self.dim), np.float32)
        for start in range(0, len(rows), self.block_rows):
            block = rows.part(start, start + self.block_rows)
            out[start : start + len(block)] = self.embed(block, first_row=start)
        return out

    def embed(
        self, x: FloatArray, *, name: str = "x", first_row: int = 0, rows: NDArray[np.int64] | None = None
    ) -> FloatArray:
        """Vectors of checked flat rows, ``block_rows`` at most; ``first_row`` or ``rows`` number them in messages."""
        with np.errstate(over="ignore", invalid="ignore"):
            out = self._vectors(x)
        if out.size and not np.abs(out).max() <= LARGEST:  # NaN compares false
            bad = int(np.argmin((np.abs(out) <= LARGEST).all(1)))
            row = bad + first_row if rows is None else int(rows[bad])
            raise InputError(f"the embedding of {name}[{row}] has values that are not finite, or beyond {LARGEST:g}")
        return out

    def _vectors(self, x: FloatArray) -> FloatArray:
        raise NotImplementedError

    @property
    def block_rows(self) -> int:
        """Rows that are embedded at a time."""
        return max(1, BLOCK_VALUES // max(math.prod(self.input_shape), self.dim))

    @property
    def label(self) -> str:
        """Its kind, or what it is called."""
        return self.kind

    @cached_property
    def fingerprint(self) -> str:
        """Hex digest over kind, shapes and weights: equal for equal functions."""
        return digest([self.kind, self.input_shape, self.dim], self._arrays())

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Named arrays and a JSON-able description; the inverse is :func:`embedding_of`."""
        description = {"kind": self.kind, "input_shape": list(self.input_shape), "dim": self.dim}
        return self._arrays(), description | {"fingerprint": self.fingerprint} | self._details()

    def _arrays(self) -> Arrays:
        return {}

    def _details(self) -> dict[str, Any]:
        """What the description of its kind has besides."""
        return {}

    @property
    def n_bytes(self) -> int:
        """Bytes of its weights."""
        return sum(array.nbytes for array in self._arrays().values())

    def given(self, embedding: Any) -> Embedding:
        """What a user passes to ``il.open`` for this embedding of a file, if it is the same."""
        if isinstance(embedding, Embedding) and embedding.fingerprint == self.fingerprint:
            return embedding
        raise InputError(
            f"the file has its own embedding ({self!r}), and embedding={describe(embedding)} is another: leave it out"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({' x '.join(map(str, self.input_shape))} -> {self.dim})"


class Identity(Embedding):
    """Vectors as they are."""

    kind = "identity"

    def __init__(self, dim: int) -> None:
        super().__init__((dim,), dim)

    def _vectors(self, x: FloatArray) -> FloatArray:
        return x


class _Layers(Embedding):
    """Layers x W^T + b, each but the last followed by max(0, .)."""

    def __init__(self, layers: Sequence[tuple[Any, Any]], input_shape: Any) -> None:
        self.layers: tuple[Layer, ...] = _layers(layers)
        raw = self.layers[0][0].shape[1]
        super().__init__((raw,) if input_shape is None else input_shape, len(self.layers[-1][0]))
        if math.prod(self.input_shape) != raw:
            raise InputError(f"the first layer takes {raw} values, an input of shape {self.input_shape} has others")

    def _vectors(self, x: FloatArray) -> FloatArray:
        for i, layer in enumerate(self.layers):
            x = _affine(x if i == 0 else np.maximum(x, 0), *layer)
        return x

    @property
    def block_rows(self) -> int:
        """Rows that are embedded at a time."""
        return max(1, BLOCK_VALUES // int(max(size for weight, _ in self.layers for size in weight.shape)))

    def _arrays(self) -> Arrays:
        return _named(self.layers)

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


class Module(Embedding):
    """A torch module of the user, and a linear layer behind it where ``weight`` is given.

    Only the layer is stored. Of the module a file has the name of its class and a fingerprint of its state; whoever
    opens the file passes the module again. The module gets float32 [n, *input_shape]; it must not be trained further
    while an index depends on it.
    """

    kind = "module"

    def __init__(self, module: Any, input_shape: Any, dim: int, weight: Any = None, bias: Any = None) -> None:
        self._take(input_shape, dim, weight, bias)
        self.module: Any = module
        self.module_fingerprint: str = _state_digest(module)
        self.class_name: str = type(module).__qualname__

    def _take(self, input_shape: Any, dim: int, weight: Any, bias: Any) -> None:
        super().__init__(input_shape, dim)
        self.layers: tuple[Layer, ...] = () if weight is None else _layers([(weight, bias)])
        if self.layers and len(self.layers[0][0]) != self.dim:
            raise InputError(f"weight must have {self.dim} rows, one for each dimension, got {describe(weight)}")

    @classmethod
    def absent(
        cls, class_name: str, module_fingerprint: str, input_shape: Any, dim: int, weight: Any = None, bias: Any = None
    ) -> Module:
        """What a file remembers of one; :meth:`given` completes it."""
        remembered = cls.__new__(cls)
        remembered._take(input_shape, dim, weight, bias)
        remembered.module, remembered.class_name = None, str(class_name)
        remembered.module_fingerprint = str(module_fingerprint)
        return remembered

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
                "embedding=module), or embed the inputs yourself and say embedded=True"
            )
        width = self.layers[0][0].shape[1] if self.layers else self.dim
        out = _run(self.module, x.reshape(-1, *self.input_shape), width, self.class_name)
        return _affine(out, *self.layers[0]) if self.layers else out

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
        return _named(self.layers)

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
        found = Module.absent(description["class"], description["module"], shape, dim, *(layers[0] if layers else ()))
    else:
        raise InputError(f"an embedding of kind {kind!r} is not known here; a newer interlace may know it")
    if found.dim != dim:
        raise InputError(f"its layers give {found.dim} dimensions, {dim} were written down")
    return found if module is None else found.given(module)


def embedding_in(file: storage.File, module: Any = None) -> Embedding | None:
    """The embedding inside an opened file of any kind, its bytes checked; None where it has none."""
    if file.meta.get("embedding") is None:
        if module is not None:
            raise InputError(f"{file.path!r} has no embedding: leave out embedding={describe(module)}")
        return None
    description = file.description("embedding")
    prefix = "embedding."
    names = [name for name in file.names if name.startswith(prefix)]
    for name in names:
        file.check(name)
    with file.damage_named("embedding"):
        found = embedding_of({name[len(prefix) :]: file.array(name) for name in names}, description)
    return found if module is None else found.given(module)


def digest(what: Sequence[Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over text and over names, types, shapes and bytes of arrays, by ascending name."""
    import hashlib  # here: it loads a library of ciphers, and few imports of this package hash anything

    listed = [[name, arrays[name].dtype.str, arrays[name].shape] for name in sorted(arrays)]
    sha = hashlib.sha256(json.dumps([what, listed]).encode())
    for name in sorted(arrays):
        sha.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return sha.hexdigest()


def _layers(given: Sequence[tuple[Any, Any]]) -> tuple[Layer, ...]:
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


def _affine(x: FloatArray, weight: FloatArray, bias: FloatArray) -> FloatArray:
    """x W^T + b, a product for every row: one for all of them rounds a row differently in other company, and a search
    gives the same answer for any batch size."""
    return np.asarray((x[:, None, :] @ weight.T)[:, 0] + bias)


def _named(layers: Sequence[Layer]) -> Arrays:
    return {
        f"{part}.{i}": array
        for i, layer in enumerate(layers)
        for part, array in zip(("weight", "bias"), layer, strict=True)
    }


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
