"""The payload that a user passes for the rows of a store -> a pyarrow.Table in the types of the store's columns.

pyarrow is imported when the first payload, or the first schema, comes in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import InputError
from . import arrow_validation
from .conversion import describe, to_numpy
from .optional import require

Schema = Any  # pyarrow.Schema
Table = Any  # pyarrow.Table


def arrow(module: str = "pyarrow") -> Any:
    """pyarrow, or a part of it."""
    return require(module, "a store with columns")


def kind_of(kind: Any) -> str:
    """The group of types that are compared with each other: ``number``, ``text``, ..., or the type itself."""
    types = arrow().types
    for name, is_it in (
        ("boolean", types.is_boolean),
        ("number", types.is_integer),
        ("number", types.is_floating),
        ("number", types.is_decimal),
        ("text", types.is_string),
        ("text", types.is_large_string),
        ("bytes", types.is_binary),
        ("bytes", types.is_large_binary),
        ("time", types.is_temporal),
        ("lists", types.is_nested),
        ("nothing", types.is_null),
    ):
        if is_it(kind):
            return name
    return str(kind)


def as_table(payload: Any, schema: Schema, n: int | None) -> Table:
    """Values of n rows (None: of as many as there are): a table, a dict of arrays, a list of dicts, a frame.

    The result has all columns of the schema; those that are missing from the payload are null.
    """
    pa = arrow()
    given, length = _given(payload, pa)
    for name in given:
        if name not in schema.names:
            raise InputError(
                f"payload has a column {name!r} that the store does not have; it has {describe_schema(schema)}"
            )
    found = {field.name: _column(field, given[field.name], pa) for field in schema if field.name in given}
    if n is None:
        n = length if length is not None else max((len(column) for column in found.values()), default=0)
    if length is not None and length != n:
        raise InputError(f"payload must have one entry per row: {n}, got {length}")
    columns = []
    for field in schema:
        column = found[field.name] if field.name in found else pa.nulls(n, field.type)
        if len(column) != n:
            raise InputError(f"payload column {field.name!r} must have one value per row: {n}, got {len(column)}")
        if column.null_count and not field.nullable:
            row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            what = f"is null in row {row}" if field.name in found else "is missing"
            raise InputError(f"payload column {field.name!r} {what}, but the store requires a value in every row")
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def invalid_text(what: str, row: int) -> InputError:
    return InputError(f"{what} is not valid UTF-8 in row {row}: decode its bytes, or use type 'binary'")


def describe_schema(schema: Schema) -> str:
    """Names and types, for messages."""
    return ", ".join(f"{field.name!r} ({field.type})" for field in schema)


def as_schema(given: Any) -> Any:
    pa = arrow()
    if isinstance(given, pa.Schema):
        fields = list(given)
    elif isinstance(given, Mapping):
        fields = [pa.field(_name(name), _type(name, kind, pa)) for name, kind in given.items()]
    else:
        raise InputError(f"columns must be a pyarrow.Schema or a dict of names and types, got {describe(given)}")
    if not fields:
        raise InputError("columns is empty; omit it for a store without columns")
    names = [_name(field.name) for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"columns has {name!r} more than once")
    for field in fields:
        if not _is_supported(field.type, pa):
            raise InputError(f"column {field.name!r} is of type {field.type}, which a store does not support")
    return pa.schema([field.remove_metadata() for field in fields])


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise InputError(f"column names must be non-empty strings, got {name!r:.60}")
    return name


def _type(name: str, kind: Any, pa: Any) -> Any:
    if isinstance(kind, pa.DataType):
        return kind
    try:
        return pa.type_for_alias(str(kind))
    except ValueError as error:
        raise InputError(
            f"column {name!r}: {kind!r:.60} is not an Arrow type; use 'int64', 'float32', 'string', 'bool', "
            "'timestamp[us]', ... or a pyarrow.DataType"
        ) from error


def _is_supported(kind: Any, pa: Any) -> bool:
    """Whether segments with a column of this type can be merged and filtered."""
    types = pa.types
    if types.is_union(kind) or types.is_dictionary(kind) or types.is_null(kind) or "view" in str(kind):
        return False
    if isinstance(kind, pa.BaseExtensionType) or types.is_run_end_encoded(kind):
        return False
    if types.is_nested(kind):
        return all(_is_supported(kind.field(i).type, pa) for i in range(kind.num_fields))
    return True


def _given(payload: Any, pa: Any) -> tuple[dict[str, Any], int | None]:
    """Columns by name, and the number of rows if it is known without them."""
    if payload is None:
        return {}, None
    if isinstance(payload, Mapping):
        return dict(payload), None
    if isinstance(payload, list | tuple) and all(isinstance(row, Mapping) for row in payload):
        names = dict.fromkeys(name for row in payload for name in row)
        return {name: [row.get(name) for row in payload] for name in names}, len(payload)
    root = type(payload).__module__.partition(".")[0]
    try:
        if root == "pandas" and hasattr(payload, "columns"):
            payload = pa.Table.from_pandas(payload, preserve_index=False)
        elif root != "pyarrow" and hasattr(payload, "__arrow_c_stream__"):
            payload = pa.table(payload)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"payload cannot be read as a table: {describe(payload)} ({error})") from error
    if not isinstance(payload, pa.Table | pa.RecordBatch):
        raise InputError(
            f"payload must be a table, a dict of arrays, a list of dicts or a data frame, got {describe(payload)}"
        )
    names = payload.schema.names
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"payload has the column {name!r} more than once")
    return dict(zip(names, payload.columns, strict=True)), payload.num_rows


def _column(field: Any, values: Any, pa: Any) -> Any:
    """One column in the type of the store, or an error that names it."""
    came = describe(values)
    try:
        if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
            raise TypeError("one value per row is needed, in a list or an array")
        array = _as_arrow(field, values, pa)
        came = str(array.type)
        if array.type.equals(field.type):
            return array
        if kind_of(array.type) not in (kind_of(field.type), "text" if _may_be_text(field.type, pa) else "", "nothing"):
            raise TypeError("values are not converted between these types")
        return array.cast(field.type)
    except InputError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"payload column {field.name!r} must be {field.type}, got {came}: {error}") from error


def _may_be_text(kind: Any, pa: Any) -> bool:
    """Whether values of this type may be given as text: JSON and CSV have neither dates nor decimals."""
    return bool(pa.types.is_temporal(kind) or pa.types.is_decimal(kind))


def _as_arrow(field: Any, values: Any, pa: Any) -> Any:
    """Arrays of Arrow, pandas and NumPy keep their type; lists of values must fit the type of the store."""
    if type(values).__module__.partition(".")[0] == "pandas":
        values = pa.array(values)
    elif not isinstance(values, list | tuple | pa.Array | pa.ChunkedArray):
        values = to_numpy(values, f"payload column {field.name!r}")
        values = pa.array(values) if values.dtype != object and values.ndim == 1 else list(values)
    if isinstance(values, list | tuple):
        written = _may_be_text(field.type, pa) and all(value is None or isinstance(value, str) for value in values)
        return pa.array(values, pa.string() if written else field.type)
    return validated(f"payload column {field.name!r}", values, pa)


def validated(what: str, values: Any, pa: Any) -> Any:
    """An array of Arrow in one piece and without a dictionary, all of it valid, or an error that names the row.

    Nothing is done with an array before its layout was checked: to decode or to join one that is damaged may crash.
    """
    if pa.types.is_dictionary(values.type):
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        for chunk in chunks:
            arrow_validation.check_dictionary(chunk)
        values = pa.chunked_array([chunk.dictionary_decode() for chunk in chunks], values.type.value_type)
    if not arrow_validation.has_valid_text(values):
        row = arrow_validation.first_invalid_row(values)
        if row is not None:
            raise invalid_text(what, row)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
