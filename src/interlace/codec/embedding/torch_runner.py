"""How embeddings that need torch are run.

This package never imports torch. ``interlace/__init__.py`` registers a function that imports the module which does,
``learn/joint/serving.py``; the function is called when the first input has to be embedded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from ...errors import InputError
from ...inputs.arrays import FloatArray


class TorchRunner(Protocol):
    """What serving an embedding needs of torch."""

    def network(self, name: str, input_shape: tuple[int, ...], dim: int, weights: Mapping[str, NDArray[Any]]) -> Any:
        """A named network with these weights, ready to run."""

    def output(self, module: Any, x: FloatArray, name: str) -> FloatArray:
        """Output of the module for inputs [n, ...]."""

    def state_of(self, module: Any) -> dict[str, NDArray[Any]]:
        """Parameters and buffers of a module by name."""


_load: list[Callable[[], TorchRunner]] = []


def register_torch_runner(load: Callable[[], TorchRunner]) -> None:
    """Set the function that imports and returns the runner; the last one registered is used."""
    _load[:] = [load]


def torch_runner() -> TorchRunner:
    """The runner; InputError if torch is not installed."""
    try:
        return _load[0]()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise InputError(
            "this embedding runs in torch, which is not installed: pip install 'interlace[train]'"
        ) from error
