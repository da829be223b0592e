"""Bytes of rows in Arrow columns, from their offsets: the values themselves are not read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inputs.payload_table import arrow

Table = Any  # pyarrow.Table
Array = Any  # pyarrow.Array
Rows = NDArray[np.int64]


def stored_bytes(tables: Sequence[Table], rows: Rows) -> NDArray[np.int64]:
    """Bytes of each of some rows, in any order, of consecutive tables."""
    chunks = [batch for table in tables for batch in table.to_batches()]
    ends = np.cumsum([batch.num_rows for batch in chunks])
    of = np.searchsorted(ends, rows, "right")
    found = np.zeros(len(rows), np.int64)
    for i in np.unique(of).tolist():
        here = of == i
        inner = rows[here] - (ends[i] - chunks[i].num_rows)
        for column in chunks[i].columns:
            found[here] += _bytes_between(column, inner, inner + 1)
    return found


def _bytes_between(array: Array, first: Rows, last: Rows) -> Rows:
    """Bytes of the values from ``first`` to before ``last``, for each pair."""
    pa = arrow()
    kind, types, count = array.type, pa.types, last - first
    if not len(array):
        return np.zeros(len(first), np.int64)
    if types.is_string(kind) or types.is_binary(kind):
        return _differences(array, np.dtype(np.int32), first, last) + 4 * count
    if types.is_large_string(kind) or types.is_large_binary(kind):
        return _differences(array, np.dtype(np.int64), first, last) + 8 * count
    if types.is_fixed_size_list(kind):
        start, size = array.offset, kind.list_size
        return _bytes_between(array.values, (start + first) * size, (start + last) * size)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        offsets = array.offsets.to_numpy().astype(np.int64)
        return _bytes_between(array.values, offsets[first], offsets[last]) + 8 * count
    if types.is_struct(kind):
        fields = [_bytes_between(array.field(i), first, last) for i in range(kind.num_fields)]
        return count + sum(fields, np.zeros(len(first), np.int64))
    width: int = -(-kind.bit_width // 8)
    return count * width


def _differences(array: Array, dtype: np.dtype[Any], first: Rows, last: Rows) -> Rows:
    """Lengths of text, or of bytes."""
    offsets = np.frombuffer(array.buffers()[1], dtype, len(array) + 1, array.offset * dtype.itemsize)
    lengths: Rows = offsets[last].astype(np.int64) - offsets[first]
    return lengths
