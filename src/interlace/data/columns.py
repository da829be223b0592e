"""Parquet columns and HDF5 data sets; both need the ``io`` extra, imported when such a file is opened."""

from __future__ import annotations

import importlib
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

BATCH_ROWS = 16384


def _extra(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InputError(f"reading {name!r} needs {package}: pip install 'interlace[io]'") from error


def read_hdf5(name: str, key: str | None) -> Any:
    """The data set at path ``key``, or the only 2-D one, still on disk."""
    h5py = _extra("h5py", name)
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


def read_parquet(name: str, key: str | None) -> NDArray[Any]:
    """A column of lists (``key``, or the only one), or numeric columns side by side (all, or a pattern like ``f*``).

    Read batch by batch into one array: memory is that array and one batch.
    """
    pyarrow, parquet = _extra("pyarrow", name), _extra("pyarrow.parquet", name)
    try:
        file = parquet.ParquetFile(name)
    except (pyarrow.ArrowInvalid, OSError) as error:
        if isinstance(error, PermissionError):
            raise
        raise InputError(f"{name!r} cannot be read as parquet (truncated, or something else): {error}") from error
    with file:
        try:
            return _fill(name, file, _choose(name, key, file.schema_arrow, pyarrow.types))
        except pyarrow.ArrowException as error:
            raise InputError(f"{name!r} is damaged: {error}") from error


def _choose(name: str, key: str | None, schema: Any, types: Any) -> list[str]:
    def is_list(t: Any) -> bool:
        return bool(types.is_list(t) or types.is_large_list(t) or types.is_fixed_size_list(t)) and is_number(
            t.value_type
        )

    def is_number(t: Any) -> bool:
        return bool(types.is_integer(t) or types.is_floating(t))

    kinds = {field.name: field.type for field in schema}
    listed = ", ".join(f"{column!r} ({kind})" for column, kind in list(kinds.items())[:20]) or "no columns"
    lists = [c for c, t in kinds.items() if is_list(t)]
    numbers = [c for c, t in kinds.items() if is_number(t)]
    if key is not None:
        if key in lists:
            return [key]
        matching = [c for c in numbers if c == key or fnmatchcase(c, key)]
        if not matching:
            why = "is not numeric" if key in kinds else "is not there"
            raise InputError(f"{name!r}: column {key!r} {why}; it holds {listed}")
        return matching
    if len(lists) == 1:
        return lists
    if lists or not numbers:
        found = "more than one column of lists" if lists else "no column of numbers"
        raise InputError(f"{name!r} has {found}; it holds {listed}" + ("; choose one with key" if lists else ""))
    floats = [c for c in numbers if types.is_floating(kinds[c])]
    if floats and len(floats) < len(numbers):
        # An id column among the dimensions would ruin every distance without a word.
        odd = next(c for c in numbers if c not in floats)
        raise InputError(
            f"{name!r} mixes integer columns ({odd!r}) with floats; choose with key, a pattern such as 'f*' will do"
        )
    return numbers


def _fill(name: str, file: Any, columns: list[str]) -> NDArray[Any]:
    out: NDArray[Any] | None = None
    start = 0
    for batch in file.iter_batches(BATCH_ROWS, columns=columns, use_threads=False):
        parts = [_values(name, batch.column(c), c, start) for c in columns]
        block = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        if out is None:
            out = np.empty((file.metadata.num_rows, block.shape[1]), block.dtype)
        if block.shape[1] != out.shape[1]:
            raise InputError(
                f"{name!r}: row {start} of {columns[0]!r} has {block.shape[1]} values, row 0 has {out.shape[1]}"
            )
        out[start : start + len(block)] = block
        start += len(block)
    return np.empty((0, len(columns)), np.float32) if out is None else out


def _values(name: str, column: Any, title: str, start: int) -> NDArray[Any]:
    """One batch of one column as [rows, values per row]."""
    if column.null_count:
        row = start + int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(f"{name!r}: row {row} of {title!r} is missing (null)")
    if not hasattr(column, "flatten"):
        return np.asarray(column.to_numpy(zero_copy_only=False))[:, None]
    lengths = (
        np.asarray(column.value_lengths().to_numpy(zero_copy_only=False)) if hasattr(column, "value_lengths") else None
    )
    values = column.flatten()
    if lengths is not None and len(lengths) and (lengths != lengths[0]).any():
        row = int(np.argmax(lengths != lengths[0]))
        raise InputError(
            f"{name!r}: row {start + row} of {title!r} has {lengths[row]} values, row {start} has {lengths[0]}"
        )
    if values.null_count:
        at = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))
        raise InputError(
            f"{name!r}: row {start + at * len(column) // len(values)} of {title!r} holds a missing value (null)"
        )
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(len(column), len(values) // max(1, len(column)))
