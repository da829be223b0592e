"""Ids of the rows of a table: those that a caller passes, a column that is named, or else the column ``id``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from .payload_table import arrow, validated
from .tables import TableColumns, id_column


def ids_of_rows(label: str, columns: TableColumns | None, given: Any) -> Any:
    """What ``given`` stands for, for rows with these columns (None: rows of no table); None for default ids.

    A string names a column. Without it, a column ``id`` holds the ids, as it does in lines of text.
    """
    if given is not None and not isinstance(given, str):
        return given
    if columns is None:
        if given is not None:
            raise InputError(
                "ids must be a list or 1-D array of integers or strings, or the name of a column of a table, got "
                f"{given!r:.60}, and {label} is no table"
            )
        return None
    name = id_column(columns.names) if given is None else given
    if name is None:
        return None
    if name not in columns.names:
        raise InputError(f"{label} has no column {name!r} for ids; it holds {', '.join(map(repr, columns.names))}")
    return _id_values(label, name, columns.read(name))


def _id_values(label: str, name: Any, column: Any) -> Any:
    """Integers as an array, strings as a list."""
    if isinstance(column, list):  # of the blocks of an iterator
        return column
    if type(column).__module__.partition(".")[0] != "pyarrow":  # of pandas, whose strings are objects
        values = np.asarray(column)
        if values.dtype.kind not in "iuOUT":
            raise _no_ids(label, name, values.dtype)
        return values if values.dtype.kind in "iu" else values.tolist()
    pa, types = arrow(), arrow().types
    try:
        if "view" in str(column.type):  # as polars hands strings over
            column = column.cast(pa.string())
        column = validated(f"{label}: column {name!r}", column, pa)
    except pa.ArrowException as error:
        raise InputError(f"{label}: column {name!r} cannot be read: {error}") from error
    if not (types.is_integer(column.type) or types.is_string(column.type) or types.is_large_string(column.type)):
        raise _no_ids(label, name, column.type)
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null().to_numpy(zero_copy_only=False))))
        raise InputError(f"{label}: row {row} of {name!r} is missing (null), but every row needs an id")
    return np.asarray(column.to_numpy()) if types.is_integer(column.type) else column.to_pylist()


def _no_ids(label: str, name: Any, kind: Any) -> InputError:
    return InputError(
        f"{label}: column {name!r} is of type {kind}, but ids are integers or strings: pass ids, or drop the column"
    )
