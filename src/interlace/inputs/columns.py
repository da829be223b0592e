"""Parquet columns and HDF5 data sets; both need the ``io`` extra, imported when such a file is opened."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import InputError
from .tables import ArrowRows, choose

#: pyarrow needs several times the bytes of a batch to decode it, so batches are smaller than the blocks made of them.
BATCH_ROWS = 1024
BUFFER_BYTES = 1 << 16  # of each column


def _extra(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InputError(f"reading {name!r} needs {package}: pip install 'interlace[io]'") from error


def hdf5_sets(name: str) -> dict[str, Any]:
    """All data sets of a file by their path, still on disk."""
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


def open_parquet(name: str) -> Any:
    """The file, nothing of it decoded."""
    pyarrow, parquet = _extra("pyarrow", name), _extra("pyarrow.parquet", name)
    try:
        # Without buffers of its own pyarrow would hold the whole of a row group's column, which may be the whole file.
        return parquet.ParquetFile(name, buffer_size=BUFFER_BYTES, pre_buffer=False)
    except (pyarrow.ArrowInvalid, OSError) as error:
        if isinstance(error, PermissionError):
            raise
        raise InputError(f"{name!r} cannot be read as parquet (truncated, or something else): {error}") from error


def read_parquet(name: str, key: str | None) -> ArrowRows:
    """A column of lists (``key``, or the only one), or numeric columns side by side (all, or a pattern like ``f*``).

    The rows stay in the file and are decoded batch by batch where they are asked for.
    """
    pyarrow, file = _extra("pyarrow", name), open_parquet(name)
    schema = file.schema_arrow
    fields = [schema.field(i) for i in choose(repr(name), key, schema, "with key; a pattern such as 'f*' will do")]
    batches = _Batches(name, file, [field.name for field in fields], pyarrow.ArrowException)
    return ArrowRows(repr(name), fields, file.metadata.num_rows, batches.at)


class _Batches:
    """A parquet file's record batches. Rows in ascending order are decoded once; going back starts a row group anew."""

    def __init__(self, name: str, file: Any, columns: list[str], arrow_error: type[Exception]) -> None:
        self._name, self._file, self._columns, self._arrow_error = name, file, columns, arrow_error
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        self._starts = np.cumsum([0, *sizes])
        self._group, self._first, self._next = -1, 0, 0  # row group being read; rows [first, next) are in the batch
        self._batch: Any = None
        self._batches: Iterator[Any] = iter(())

    def at(self, row: int) -> tuple[int, Any]:
        """First row number of the batch that holds this row, and the batch."""
        group = int(np.searchsorted(self._starts, row, "right")) - 1
        try:
            if group != self._group or row < self._first:
                self._group, self._next = group, int(self._starts[group])
                self._batches = self._file.iter_batches(
                    BATCH_ROWS, row_groups=[group], columns=self._columns, use_threads=False
                )
            elif row < self._next:
                return self._first, self._batch
            while row >= self._next:
                self._batch = next(self._batches)
                self._first, self._next = self._next, self._next + self._batch.num_rows
        except (self._arrow_error, OSError, StopIteration) as error:
            self._group = -1  # whatever comes next starts anew
            if isinstance(error, OSError) and error.errno is not None:  # of the disk; pyarrow's own have no number
                raise
            raise InputError(f"{self._name!r} is damaged: {str(error) or 'it has fewer rows than it says'}") from error
        return self._first, self._batch
