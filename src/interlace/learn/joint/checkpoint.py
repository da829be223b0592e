"""Checkpoints: the state of training as named arrays in one file, rewritten after each epoch."""

from __future__ import annotations

import hashlib
import json
import os
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...errors import InputError
from ...files import storage
from .plans import BookPlan

Arrays = dict[str, NDArray[Any]]

#: Settings that may differ when a run is resumed.
FREE = ("recipe.epochs", "recipe.patience")


def module_arrays(prefix: str, module: nn.Module) -> Arrays:
    """A copy of the state of a module."""
    return {f"{prefix}.{name}": value.detach().cpu().numpy().copy() for name, value in module.state_dict().items()}


def load_module(prefix: str, module: nn.Module, arrays: Arrays) -> None:
    """Inverse of :func:`module_arrays`."""
    start = f"{prefix}."
    module.load_state_dict(
        {name[len(start) :]: torch.from_numpy(np.array(a)) for name, a in arrays.items() if name.startswith(start)}
    )


def optimizer_arrays(optimizer: torch.optim.Optimizer) -> Arrays:
    """The running means of Adam. Its rates are set in each step."""
    state = optimizer.state_dict()["state"]
    return {
        f"optimizer.{number}.{name}": torch.as_tensor(value).detach().cpu().numpy().copy()
        for number, values in state.items()
        for name, value in values.items()
    }


def load_optimizer(optimizer: torch.optim.Optimizer, arrays: Arrays) -> None:
    """Inverse of :func:`optimizer_arrays`."""
    state: dict[int, dict[str, Any]] = {}
    for name, array in arrays.items():
        if name.startswith("optimizer."):
            _, number, key = name.split(".", 2)
            state.setdefault(int(number), {})[key] = torch.from_numpy(np.array(array))
    optimizer.load_state_dict(optimizer.state_dict() | {"state": state})


def plan_arrays(plan: BookPlan | None) -> tuple[Arrays, list[list[int]] | None]:
    """A plan as arrays and its groups; empty before the last phase."""
    if plan is None:
        return {}, None
    arrays = {"plan.support": plan.support.astype(np.uint8)}
    if plan.xi is not None:
        arrays["plan.xi"] = plan.xi.astype(np.uint8)
    return arrays, [list(group) for group in plan.groups]


def plan_in(arrays: Arrays, groups: list[list[int]] | None) -> BookPlan | None:
    """Inverse of :func:`plan_arrays`."""
    if groups is None:
        return None
    xi = arrays.get("plan.xi")
    together = tuple(tuple(group) for group in groups)
    return BookPlan(arrays["plan.support"].astype(bool), together, None if xi is None else xi.astype(bool))


def check_path(path: Any) -> None:
    """InputError if no checkpoint can be written there, before training."""
    if path is None:
        return
    if not isinstance(path, str | PathLike):
        raise InputError(f"checkpoint must be the path of a file or a directory, or None, got {path!r}")
    target = Path(fspath(path)).absolute()
    folder = target if target.is_dir() else target.parent
    if not folder.is_dir():
        raise InputError(f"checkpoint {fspath(path)!r}: the directory {str(folder)!r} does not exist")
    if not os.access(folder, os.W_OK):
        raise InputError(f"checkpoint {fspath(path)!r}: the directory {str(folder)!r} is not writable")


def file_for(path: str | PathLike[str], configuration: dict[str, Any]) -> Path:
    """The path itself; in a directory, a file named by the configuration and the rows.

    The folds of a cross-validation and the points of a grid search get different files.
    """
    target = Path(fspath(path))
    if not target.is_dir():
        return target
    text = json.dumps(configuration, sort_keys=True)
    return target / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.ckpt"


def write_checkpoint(path: Path, arrays: Arrays, meta: dict[str, Any], configuration: dict[str, Any]) -> None:
    """Write atomically: if the process is killed, the previous checkpoint is left."""
    # The container takes no arrays without dimensions, so their names are stored.
    scalars = [name for name, array in arrays.items() if array.ndim == 0]
    stored = {name: np.atleast_1d(array) for name, array in arrays.items()}
    storage.write(
        path,
        stored,
        {"kind": "checkpoint", "configuration": configuration, "scalars": scalars, "state": meta},
    )


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted names, so that an error can name the one that differs."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


def read_checkpoint(path: Path, configuration: dict[str, Any]) -> tuple[Arrays, dict[str, Any]] | None:
    """Inverse of :func:`write_checkpoint`; None if there is no file, InputError for a different configuration."""
    if not path.exists():
        return None
    file = storage.read(path)
    if file.meta.get("kind") != "checkpoint":
        raise InputError(
            f"checkpoint {str(path)!r} holds {file.meta.get('kind')!r}, not a checkpoint; give another path"
        )
    theirs = _flat(file.description("configuration"))
    mine = _flat(json.loads(json.dumps(configuration)))
    different = [name for name in {*theirs, *mine} - {*FREE} if theirs.get(name) != mine.get(name)]
    if different:
        first = min(different, key=lambda name: (name == "data", name))  # the least helpful one to report
        raise InputError(
            f"checkpoint {str(path)!r} is of another configuration: {first} was {theirs.get(first)!r}, now "
            f"{mine.get(first)!r}; give another path, remove the file to start again, or give a directory, in which "
            "each configuration and each set of rows (a fold of a cross-validation) gets its own file"
        )
    file.verify()
    with file.parsing("checkpoint"):
        scalars, state = set(file.meta["scalars"]), file.meta["state"]
        if not isinstance(state, dict):
            raise TypeError("the state is missing")
        arrays = {name: np.array(file.array(name)) for name in file.names}
        return {n: a.reshape(()) if n in scalars else a for n, a in arrays.items()}, state
