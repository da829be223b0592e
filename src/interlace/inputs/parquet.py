"""Columns of parquet files; needs the ``io`` extra."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import InputError
from .optional import require
from .tables import ArrowRows, TableColumns, choose

#: pyarrow needs several times the bytes of a batch to decode it, so batches are smaller than the blocks made of them.
BATCH_ROWS = 1024
BUFFER_BYTES = 1 << 16  # of each column


def open_parquet(name: str) -> Any:
    """The file, nothing of it decoded."""
    pyarrow, parquet = require("pyarrow", f"reading {name!r}"), require("pyarrow.parquet", f"reading {name!r}")
    try:
        # Without a buffer size pyarrow reads a whole column of a row group at once, which may be the whole file.
        return parquet.ParquetFile(name, buffer_size=BUFFER_BYTES, pre_buffer=False)
    except (pyarrow.ArrowInvalid, OSError) as error:
        if isinstance(error, PermissionError):
            raise
        raise InputError(f"{name!r} cannot be read as parquet (truncated, or something else): {error}") from error


def read_parquet(name: str, key: str | None) -> ArrowRows:
    """A column of lists (``key``, or the only one), or numeric columns side by side (all, or a pattern like ``f*``).

    The rows stay in the file and are decoded batch by batch where they are asked for.
    """
    pyarrow, file = require("pyarrow", f"reading {name!r}"), open_parquet(name)
    schema = file.schema_arrow
    fields = [schema.field(i) for i in choose(repr(name), key, schema, "with key; a pattern such as 'f*' will do")]
    batches = _Batches(name, file, [field.name for field in fields], pyarrow.ArrowException)
    columns = TableColumns(schema.names, lambda column: _column(name, file, column, pyarrow.ArrowException))
    return ArrowRows(repr(name), fields, file.metadata.num_rows, batches.at, columns)


def _column(name: str, file: Any, column: str, arrow_error: type[Exception]) -> Any:
    """A whole column."""
    try:
        return file.read([column], use_threads=False).column(0)
    except (arrow_error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(f"{name!r} is damaged: {error}") from error


class _Batches:
    """Record batches of a parquet file. Rows in ascending order are decoded once; going back starts a group again."""

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
            self._group = -1  # the next call starts a row group again
            if isinstance(error, OSError) and error.errno is not None:  # of the disk; pyarrow's own have no number
                raise
            raise InputError(f"{self._name!r} is damaged: {str(error) or 'it has fewer rows than it says'}") from error
        return self._first, self._batch
