"""Torch modules of any kind: the device they are on, and running them without training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from ...errors import InputError


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Without gradients and in eval mode; afterwards every part returns to its previous mode."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes:
            part.training = mode


def device_of(device: Any) -> str:
    """The name of a device that torch can use; ``"auto"`` is a GPU if there is one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=torch.device(device)).item()  # "meta" has devices without numbers
    except (RuntimeError, TypeError, AssertionError) as error:
        raise InputError(f"device must be 'auto' or a device that torch can use, got {device!r}: {error}") from error
    return str(device)


def device_of_module(module: nn.Module) -> torch.device:
    """The device of its parameters; the CPU if it has none."""
    first = next(module.parameters(), None)
    return torch.device("cpu") if first is None else first.device
