"""Payload: JSON of any shape in one column, and the declared fields in typed columns beside it.

A collection that the server creates has the column ``$payload`` with the JSON text of each point. A declared field adds
a column of its name, with the value where a point has one, and for keywords and integers a column ``name[]`` for points
with several values, coded so that Arrow's text functions find one of them (:func:`coded`).

A store that was made by the library has columns but no ``$payload``: then the columns are the payload.
"""

from __future__ import annotations

import datetime
import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..problems import ProblemDetails, bad_input, unsupported
from . import paths

PAYLOAD = "$payload"
LISTS = "[]"  # end of the name of the column with several values
#: Type of a field in Qdrant's API -> type of its column.
TYPES = {
    "keyword": "string",
    "uuid": "string",
    "integer": "int64",
    "float": "float64",
    "bool": "bool",
    "datetime": "timestamp[us, tz=UTC]",
}
#: Types with which a point may have several values.
LISTED = ("keyword", "integer")
Json = dict[str, Any]


@dataclass(frozen=True)
class Field:
    """One declared field."""

    key: str
    kind: str  #: keyword, integer, float, bool or datetime
    has_lists: bool  #: whether there is a column for several values
    type: Any  #: of its column: a pyarrow.DataType

    @property
    def names(self) -> list[str]:
        """Its columns."""
        return [self.key, self.key + LISTS] if self.has_lists else [self.key]


def declared(schema: Any) -> dict[str, Field]:
    """Fields that can be filtered, by key; ``schema`` is that of a store, or None."""
    if schema is None:
        return {}
    kinds = {column.name: kind_of(column.type) for column in schema}
    lists = {name + LISTS for name, kind in kinds.items() if kind in LISTED and kinds.get(name + LISTS) == "keyword"}
    return {
        column.name: Field(column.name, kind, column.name + LISTS in lists, column.type)
        for column in schema
        if column.name != PAYLOAD and column.name not in lists and (kind := kinds[column.name]) is not None
    }


def kind_of(column: Any) -> str | None:
    """The kind of a field with a column of this type; None if it cannot be filtered."""
    import pyarrow as pa

    types = pa.types
    for kind, is_it in (
        ("keyword", types.is_string),
        ("keyword", types.is_large_string),
        ("bool", types.is_boolean),
        ("integer", types.is_integer),
        ("float", types.is_floating),
        ("datetime", types.is_timestamp),
    ):
        if is_it(column):
            return kind
    return None


def known(schema: Any, key: str, kinds: tuple[str, ...], where: str) -> Field:
    """A declared field of one of some kinds; ``where`` is for the message."""
    found = declared(schema).get(key)
    if found is None or found.kind not in kinds:
        is_what = "not declared" if found is None else f"declared as {found.kind}"
        raise bad_input(f"{where} must be a declared field of type {', '.join(kinds)}; {key!r:.60} is {is_what}")
    return found


def new_field(key: str, schema: Any) -> tuple[Field, dict[str, Any]]:
    """A field to declare, and its columns; ``schema`` is as in Qdrant's API: a type, or an object with one."""
    kind = schema.get("type") if isinstance(schema, Mapping) else schema
    if kind is None:
        raise bad_input(f"field_schema of {key!r} is missing: pass one of {', '.join(TYPES)}")
    if kind in ("text", "geo"):
        raise unsupported(f"field_schema {kind!r}")
    if not isinstance(kind, str) or kind not in TYPES:
        raise bad_input(f"field_schema of {key!r} must be one of {', '.join(TYPES)}, got {kind!r:.60}")
    if not key or key.startswith("$") or any(not part.removesuffix(LISTS) for part in key.split(".")):
        raise bad_input(f"field_name must be a path of keys such as 'a' or 'a.b[].c', got {key!r:.60}")
    kind = "keyword" if kind == "uuid" else kind
    field = Field(key, kind, kind in LISTED, _arrow_type(TYPES[kind]))
    columns = {key: field.type}
    if field.has_lists:
        columns[key + LISTS] = _arrow_type("string")
    return field, columns


def _arrow_type(name: str) -> Any:
    import pyarrow as pa

    return pa.timestamp("us", tz="UTC") if name.startswith("timestamp") else pa.type_for_alias(name)


# --- values of points


def columns_of(payloads: Sequence[Json | None], fields: Iterable[Field], points: Sequence[Any]) -> dict[str, list[Any]]:
    """Values of the columns of these fields; ``points`` are ids for messages."""
    out: dict[str, list[Any]] = {}
    for field in fields:
        single: list[Any] = []
        several: list[Any] = []
        for payload, point in zip(payloads, points, strict=True):
            found = [] if payload is None else [_checked(v, field, point) for v in values_at(payload, field.key)]
            if len(found) > 1 and not field.has_lists:
                raise _refused(field, point, f"{len(found)} values, but filters of this type take one")
            single.append(found[0] if len(found) == 1 else None)
            several.append(coded(found) if len(found) > 1 else None)
        out[field.key] = single
        if field.has_lists:
            out[field.key + LISTS] = several
    return out


def values_at(payload: Any, key: str) -> list[Any]:
    """All values of a path such as ``a.b`` or ``a[].b``; lists at its end are values each, nulls are none."""
    found = [payload]
    for part in key.split("."):
        name = part.removesuffix(LISTS)
        found = [value[name] for value in found if isinstance(value, dict) and name in value]
        if name != part:
            found = [inner for value in found if isinstance(value, list) for inner in value]
    return [v for value in found for v in (value if isinstance(value, list) else [value]) if v is not None]


def _checked(value: Any, field: Field, point: Any) -> Any:
    kind = field.kind
    if kind == "keyword" and isinstance(value, str):
        return value
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "integer" and isinstance(value, int) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**63:
            raise _refused(field, point, f"{value!s:.60}, which does not fit 64 bits")
        return value
    if kind == "float" and isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) > sys.float_info.max:
            raise _refused(field, point, "a number that does not fit 64 bits")
        return float(value)
    if kind == "datetime" and isinstance(value, str):
        return instant(value, lambda why: _refused(field, point, why))
    raise _refused(field, point, f"{json.dumps(value)[:60]}")


def _refused(field: Field, point: Any, came: str) -> ProblemDetails:
    text = f"payload field {field.key!r} is declared as {field.kind}, but point {point!r} has {came}"
    return bad_input(text)


def instant(text: str, refused: Any) -> datetime.datetime:
    """A date or time in RFC 3339, UTC unless it says otherwise."""
    try:
        found = datetime.datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in ("Z", "z") else text)
    except ValueError:
        raise refused(f"{text!r:.60}, which is not a time such as 2026-01-31T12:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=datetime.timezone.utc)


def coded(values: Iterable[Any]) -> str:
    """Several values as one text: each between the two control characters that no coded value has."""
    return "".join(f"\x01{one_coded(value)}\x02" for value in values)


def decoded(text: str, kind: str) -> list[Any]:
    """The different values of a text of :func:`coded`."""
    parts = [part[:-1] for part in text.split("\x01")[1:]]
    plain = [part.replace("\x031", "\x01").replace("\x032", "\x02").replace("\x030", "\x03") for part in parts]
    return list(dict.fromkeys(map(int, plain) if kind == "integer" else plain))


def one_coded(value: Any) -> str:
    """One value without these characters."""
    return str(value).replace("\x03", "\x030").replace("\x01", "\x031").replace("\x02", "\x032")


# --- JSON


def to_text(payload: Json | None, point: Any) -> str | None:
    """The JSON text that is kept; None for an empty payload."""
    if not payload:
        return None
    try:
        text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except (ValueError, RecursionError) as error:
        raise bad_input(f"the payload of point {point!r} cannot be written as JSON: {error}") from None
    return text


def payload_texts(table: Any) -> Iterator[str]:
    """The payload of each row of a table as JSON text: its ``$payload``, or else its columns."""
    if PAYLOAD in table.schema.names:
        return (text or "{}" for text in table.column(PAYLOAD).to_pylist())
    rows = table.to_pylist()
    shown = ({key: plain(value) for key, value in row.items() if value is not None} for row in rows)
    return (json.dumps(row, ensure_ascii=False, default=str) for row in shown)


def plain(value: Any) -> Any:
    """Numbers that JSON has no name for -> null, anywhere inside."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def selected(text: str, include: Sequence[str] | None, exclude: Sequence[str] | None) -> str:
    """Some keys of a payload; paths select inside of objects."""
    payload = json.loads(text)
    if include is not None:
        payload = paths.only(payload, [_steps(key, payload) for key in include])
    for key in exclude or ():
        payload = paths.without(payload, _steps(key, payload))
    return json.dumps(payload, ensure_ascii=False)


def _steps(key: str, payload: Json) -> list[paths.Step]:
    """A key of the payload as it is, or else a path."""
    return [key] if key in payload else paths.parsed(key)
