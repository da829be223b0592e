"""Files that hold something else than vectors: ids, models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..inputs.readers import read_vectors
from ..inputs.streams import NPY_ERRORS

if TYPE_CHECKING:
    from ..estimators.models import Model


def _load_npy(path: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, allow_pickle=False)
    except NPY_ERRORS as error:
        raise InputError(f"{path!r} cannot be read as .npy: {error}") from error
    return array


def read_ids(path: str) -> NDArray[Any]:
    """One id per row of the data: a 1-D .npy, or a text file with one id per line (integers if all lines are)."""
    if Path(path).suffix.lower() == ".npy":
        return _load_npy(path)
    try:
        with open(path, encoding="utf-8") as file:
            return np.array(ids_of_lines(file.read()), object)
    except UnicodeDecodeError as error:
        raise InputError(f"{path!r} is neither a .npy array nor UTF-8 text with one id per line") from error


def ids_of_lines(text: str) -> list[Any]:
    """One id per line, integers if all lines are."""
    lines = text.removesuffix("\n").split("\n")  # splitlines would also cut at U+2028 and the like
    # "007" stays a string: as an integer it would come back as 7.
    if lines and all(line.removeprefix("-").isdecimal() and str(int(line)) == line for line in lines):
        return [int(line) for line in lines]
    return list(lines)


def read_truth(path: str, key: str | None) -> NDArray[Any]:
    """Ids of the true neighbours [queries, at least k], best first; integers, or strings in a .npy."""
    if Path(path).suffix.lower() == ".npy" and os.path.isfile(path):
        truth = _load_npy(path)
    else:
        truth = np.asarray(read_vectors(path, key))
    if truth.ndim != 2 or truth.dtype.kind not in "iuU":
        raise InputError(
            f"{path!r} must hold ids [queries, neighbours], got shape {truth.shape} and dtype {truth.dtype}"
        )
    return truth


def load_model(path: str, embedding: Any = None) -> Model:
    """A fitted model of any kind; ``embedding`` is the torch module of one that has its own."""
    from ..estimators.baselines.registry import load  # only here: most commands load no model

    return load(path, embedding)
