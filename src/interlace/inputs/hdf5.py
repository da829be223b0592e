"""Data sets of HDF5 files; needs the ``io`` extra."""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from .optional import require


def hdf5_sets(name: str) -> dict[str, Any]:
    """All data sets of a file by their path, still on disk."""
    h5py = require("h5py", f"reading {name!r}")
    try:
        file = h5py.File(name, "r")
    except OSError as error:
        if isinstance(error, PermissionError):
            raise
        raise InputError(f"{name!r} cannot be read as HDF5 (truncated, or something else): {error}") from error
    found: dict[str, Any] = {}

    def visit(path: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[path] = item

    file.visititems(visit)
    return found


def read_hdf5(name: str, key: str | None) -> Any:
    """The data set at path ``key``, or the only 2-D one, still on disk."""
    found = hdf5_sets(name)
    listed = ", ".join(f"{k!r} {v.shape}" for k, v in found.items()) or "no data set"
    if key is not None:
        if key.strip("/") not in found:
            raise InputError(f"{name!r} has no data set {key!r}; it holds {listed}")
        return found[key.strip("/")]
    candidates = [k for k, v in found.items() if v.ndim == 2]
    if len(candidates) != 1:
        number = "more than one 2-D data set" if candidates else "no 2-D data set"
        raise InputError(f"{name!r} has {number}; it holds {listed}" + ("; choose one with key" if candidates else ""))
    return found[candidates[0]]
