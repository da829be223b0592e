"""Arguments of calls -> JSON and arrays of a request."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ..errors import InputError
from ..index.id_values import as_id_array, is_id
from ..inputs.arrays import describe, to_numpy
from ..inputs.payload_table import arrow
from . import wire
from .wire import Array


def as_array(x: Any, name: str) -> Array:
    """Vectors as numbers; half and double precision are converted to float32 by the server."""
    found = to_numpy(x, name)
    if found.dtype.kind not in "biuf":
        raise InputError(f"{name} must be numbers, got {describe(x)}")
    return found.astype(np.float32) if found.dtype == np.float64 and name != "radius" and _fits(found) else found


def _fits(x: Array) -> bool:
    """Whether float32 holds the numbers; the server refuses others, and says where they are."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(x.astype(np.float32)).all())


def numbers(**given: Any) -> dict[str, Any]:
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}


def margin_out(margin: Any) -> Any:
    return "inf" if isinstance(margin, float) and margin == float("inf") else margin


def one_id(value: Any) -> int | str:
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InputError(f"id must be an integer or a string, got {describe(value)}")
    return value


def ids_of(ids: Any, arrays: dict[str, Array]) -> Any:
    return one_id(ids) if is_id(ids) else wire.ids_out(as_id_array(ids, "ids"), arrays)


def filter_out(filter: Any, arrays: dict[str, Array]) -> Any:
    if filter is None or isinstance(filter, str):
        return filter
    if type(filter).__module__.startswith("pyarrow") and type(filter).__name__ == "Expression":
        raise InputError("an expression of pyarrow cannot be sent to a server: write the filter as a string")
    array = to_numpy(filter, "filter")
    if array.dtype.kind in "biu":
        arrays["filter"] = array
        return None
    return {"ids": [str(value) for value in array.ravel().tolist()]}


def json_objects(payload: Any) -> list[Any]:
    listed = [payload] if isinstance(payload, dict) else list(payload)
    if not all(row is None or isinstance(row, dict) for row in listed):
        raise InputError("payload of this collection is JSON: a list with a dict for each row")
    try:
        json.dumps(listed, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"payload cannot be written as JSON: {error}") from None
    return listed


def table_bytes(table: Any) -> Array:
    pa = arrow()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)
