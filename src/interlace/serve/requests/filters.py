"""Filters of Qdrant's API -> expressions of Arrow over the columns of a store.

A condition is true or false, never null: a point without the field does not match ``match`` or ``range``, so it does
match their negation in ``must_not``. Fields that are not declared are refused. Ids are the column ``$id`` of an
expression, which a store does not have: :func:`matching` adds it to a table.
"""

from __future__ import annotations

import functools
import math
import operator
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import acero

from ..problems import BAD_REQUEST, ProblemDetails, bad_input, unsupported
from . import ids as point_ids
from .fields import LISTS, Field, coded, instant, one_coded

Expression = Any  # pyarrow.compute.Expression
ID = "$id"
DEEPEST = 20  # nested filters
LARGE_TERMS, LARGE_VALUES = 30, 1_000  # in an expression of a search, whose calls are limited by the store
PATTERN_CHARACTERS = 50_000
MOST_COUNTED = 2**31 - 1  # values of a point, conditions of a filter
FALSE, TRUE = pc.scalar(False), pc.scalar(True)
_COMPARED = {"lt": operator.lt, "lte": operator.le, "gt": operator.gt, "gte": operator.ge}
_ELSEWHERE = ("geo_bounding_box", "geo_radius", "geo_polygon")


@dataclass(frozen=True, eq=False)
class Condition:
    """A filter of a request, translated."""

    expression: Expression
    columns: tuple[str, ...]  #: that it reads
    uses_ids: bool
    is_large: bool  #: too large for an expression of a search


class Translation:
    """One filter being translated for a collection with these fields."""

    def __init__(self, fields: Mapping[str, Field], strings: bool | None, most_terms: int) -> None:
        self._fields, self._strings, self._most = fields, strings, most_terms
        self._terms, self._columns, self._uses_ids = 0, dict[str, None](), False
        self._compared = 0  # values

    def condition(self, given: Any) -> Condition:
        """The whole filter."""
        expression = self._filter(given, "filter", 0)
        is_large = self._terms > LARGE_TERMS or self._compared > LARGE_VALUES
        return Condition(expression, tuple(self._columns), self._uses_ids, is_large)

    def _filter(self, given: Any, where: str, depth: int) -> Expression:
        if not isinstance(given, dict):
            raise _refused(f"{where} must be an object with must, should, must_not or min_should", given)
        if depth > DEEPEST:
            raise ProblemDetails(422, "limit", f"filters may be nested {DEEPEST} deep", limit="filter_depth")
        unknown = given.keys() - {"must", "should", "must_not", "min_should"}
        if unknown:
            raise _refused(
                f"{where} has the unknown key {min(unknown)!r}; use must, should, must_not, min_should", given
            )
        parts: list[Expression] = []
        must, should, without = (
            self._list(given.get(k), f"{where}.{k}", depth) for k in ("must", "should", "must_not")
        )
        parts += must
        if should:
            parts.append(functools.reduce(operator.or_, should))
        if without:
            parts.append(~functools.reduce(operator.or_, without))
        if given.get("min_should") is not None:
            parts.append(self._min_should(given["min_should"], f"{where}.min_should", depth))
        return functools.reduce(operator.and_, parts) if parts else TRUE

    def _list(self, given: Any, where: str, depth: int) -> list[Expression]:
        if given is None:
            return []
        listed = given if isinstance(given, list) else [given]
        return [self._one(each, f"{where}[{i}]", depth) for i, each in enumerate(listed)]

    def _min_should(self, given: Any, where: str, depth: int) -> Expression:
        if not isinstance(given, dict) or given.keys() != {"conditions", "min_count"}:
            raise _refused(f"{where} must have conditions and min_count", given)
        least = given["min_count"]
        if isinstance(least, bool) or not isinstance(least, int) or least < 0:
            raise _refused(f"{where}.min_count must be a whole number from 0 on", least)
        least = min(least, MOST_COUNTED)
        numbers = [e.cast(pa.int32()) for e in self._list(given["conditions"], f"{where}.conditions", depth)]
        return functools.reduce(operator.add, numbers) >= least if numbers else (TRUE if least == 0 else FALSE)

    def _one(self, given: Any, where: str, depth: int) -> Expression:
        self._terms += 1
        if self._terms > self._most:
            raise ProblemDetails(
                422, "limit", f"the limit filter_terms is {self._most} conditions in a filter", limit="filter_terms"
            )
        if not isinstance(given, dict):
            raise _refused(f"{where} must be an object", given)
        given = {key: value for key, value in given.items() if value is not None}
        if "key" in given:
            return self._of_field(given, where)
        if given.keys() == {"is_empty"}:
            return self._is_empty(self._payload_key(given["is_empty"], where))
        if given.keys() == {"has_id"}:
            return self._has_id(given["has_id"], where)
        for name in ("is_null", "nested", "has_vector"):
            if name in given:
                raise unsupported(f"the condition {name!r} ({where})")
        return self._filter(given, where, depth + 1)

    def _has_id(self, given: Any, where: str) -> Expression:
        if not isinstance(given, list) or not all(isinstance(i, int | str) and not isinstance(i, bool) for i in given):
            raise _refused(f"{where}.has_id must be a list of ids", given)
        values = [v for v in map(point_ids.to_store, given) if isinstance(v, str) == self._strings]
        if not values:  # of another kind than the ids of the collection
            return FALSE
        self._uses_ids = True
        return pc.coalesce(pc.field(ID).isin(pa.array(values, pa.string() if self._strings else pa.int64())), FALSE)

    def _of_field(self, given: dict[str, Any], where: str) -> Expression:
        key = given["key"]
        if not isinstance(key, str):
            raise _refused(f"{where}.key must be a string", key)
        for name in _ELSEWHERE:
            if name in given:
                raise unsupported(f"the condition {name!r} ({where})")
        made: list[Expression] = []
        for name, value in given.items():
            if name == "match":
                made.append(self._match(self._field(key), value, f"{where}.match"))
            elif name == "range":
                made.append(self._range(self._field(key), value, f"{where}.range"))
            elif name == "values_count":
                made.append(self._values_count(self._field(key), value, f"{where}.values_count"))
            elif name == "is_empty":
                empty = self._is_empty(key)
                made.append(empty if value else ~empty)
            elif name == "is_null":
                raise unsupported(f"the condition 'is_null' ({where})")
            elif name != "key":
                raise _refused(f"{where} has the unknown key {name!r}", given)
        if not made:
            raise _refused(f"{where} needs match, range, values_count or is_empty", given)
        return functools.reduce(operator.and_, made)

    def _field(self, key: str) -> Field:
        field = self._fields.get(key)
        if field is None:
            known = ", ".join(map(repr, self._fields)) or "none"
            raise ProblemDetails(
                BAD_REQUEST,
                "undeclared_field",
                f"the filter uses the field {key!r}, which is not declared (declared: {known}); declare it with PUT "
                '/collections/NAME/index {"field_name": ..., "field_schema": ...}, '
                "which is create_payload_index in Qdrant's client",
            )
        self._columns.update(dict.fromkeys(field.names))
        return field

    def _payload_key(self, given: Any, where: str) -> str:
        if not isinstance(given, dict) or given.keys() != {"key"} or not isinstance(given["key"], str):
            raise _refused(f"{where} must be an object with a key", given)
        return str(given["key"])

    def _is_empty(self, key: str) -> Expression:
        field = self._field(key)
        empty = pc.field(field.key).is_null()
        return empty & pc.field(field.key + LISTS).is_null() if field.has_lists else empty

    def _values_count(self, field: Field, given: Any, where: str) -> Expression:
        bounds = _bounds(given, where)
        for name, value in bounds:
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise _refused(f"{where}.{name} must be a whole number from 0 on", value)
        count = pc.field(field.key).is_valid().cast(pa.int32())
        if field.has_lists:
            count = count + pc.coalesce(
                pc.count_substring(pc.field(field.key + LISTS), "\x02"), pa.scalar(0, pa.int32())
            )
        parts = [_COMPARED[name](count, min(value, MOST_COUNTED)) for name, value in bounds]
        return functools.reduce(operator.and_, parts, TRUE)

    def _range(self, field: Field, given: Any, where: str) -> Expression:
        if field.kind not in ("integer", "float", "datetime"):
            raise _refused(f"{where}: the field {field.key!r} is declared as {field.kind}, which has no order", given)
        parts = [compared(field, name, value, f"{where}.{name}") for name, value in _bounds(given, where)]
        return pc.coalesce(functools.reduce(operator.and_, parts, TRUE), FALSE) & pc.field(field.key).is_valid()

    def _match(self, field: Field, given: Any, where: str) -> Expression:
        if not isinstance(given, dict) or len(given) != 1:
            raise _refused(f"{where} must have one of value, any, except, text", given)
        ((how, value),) = given.items()
        if how == "value":
            return self._among(field, [value], where)
        if how in ("any", "except"):
            if not isinstance(value, list):
                raise _refused(f"{where}.{how} must be a list", value)
            return self._among(field, value, where) if how == "any" else self._not_among(field, value, where)
        if how in ("text", "substring") and field.kind == "keyword" and isinstance(value, str):
            return self._has_text(field, value)
        raise unsupported(f"{where}.{how} for a field that is declared as {field.kind}")

    def _values(self, field: Field, values: list[Any], where: str) -> Any:
        fits: dict[str, Callable[[Any], bool]] = {
            "keyword": lambda v: isinstance(v, str),
            "integer": lambda v: isinstance(v, int) and not isinstance(v, bool) and -(2**63) <= v < 2**63,
            "bool": lambda v: isinstance(v, bool),
        }
        if field.kind not in fits:
            raise _refused(f"{where}: the field {field.key!r} is declared as {field.kind}: use range", values)
        self._compared += len(values)
        for value in values:
            if not fits[field.kind](value):
                raise _refused(f"{where}: the field {field.key!r} is declared as {field.kind}", value)
        if field.kind == "integer":
            least, most = _limits_of(field.type)
            values = [value for value in values if least <= value <= most]
        return pa.array(values, field.type)

    def _among(self, field: Field, values: list[Any], where: str) -> Expression:
        wanted = self._values(field, values, where)
        found = pc.coalesce(pc.field(field.key).isin(wanted) & pc.field(field.key).is_valid(), FALSE)
        if not field.has_lists or not values:
            return found
        several = pc.field(field.key + LISTS)
        if len(values) == 1:
            return found | pc.coalesce(pc.match_substring(several, coded(values)), FALSE)
        inside = [pc.match_substring_regex(several, pattern) for pattern in _patterns(values)]
        return found | pc.coalesce(functools.reduce(operator.or_, inside), FALSE)

    def _not_among(self, field: Field, values: list[Any], where: str) -> Expression:
        """At least one value of the field is none of these."""
        wanted, column = self._values(field, values, where), pc.field(field.key)
        found = column.is_valid() & ~pc.coalesce(column.isin(wanted), FALSE)
        if not field.has_lists:
            return found
        several = pc.field(field.key + LISTS)
        if not values:
            return found | several.is_valid()
        left = several
        for pattern in _patterns(values):
            left = pc.replace_substring_regex(left, pattern, "")
        return found | pc.coalesce(pc.utf8_length(left) > 0, FALSE)

    def _has_text(self, field: Field, text: str) -> Expression:
        found = pc.coalesce(pc.match_substring(pc.field(field.key), text), FALSE)
        if not field.has_lists:
            return found
        return found | pc.coalesce(pc.match_substring(pc.field(field.key + LISTS), one_coded(text)), FALSE)


def _bounds(given: Any, where: str) -> list[tuple[str, Any]]:
    """Names of comparisons with their values, without nulls."""
    if not isinstance(given, dict) or not given or given.keys() - _COMPARED.keys():
        raise _refused(f"{where} must have some of lt, lte, gt, gte", given)
    return [(name, value) for name, value in given.items() if value is not None]


def compared(field: Field, name: str, value: Any, where: str) -> Expression:
    """Whether a field is ``lt``, ``lte``, ``gt`` or ``gte`` a value of JSON; null where the field is null."""
    column, compare = pc.field(field.key), _COMPARED[name]
    if field.kind == "datetime":
        if not isinstance(value, str):
            raise _refused(f"{where} must be a time, as the field is", value)
        time = instant(value, lambda why: _refused(f"{where} has {why}", value))
        return compare(column, pa.scalar(time).cast(pa.timestamp("us", field.type.tz)))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _refused(f"{where} must be a number, as the field is", value)
    if field.kind == "integer":
        return _compared_with_integers(column, name, value, field.type)
    huge = abs(value) > sys.float_info.max
    return compare(column, float(value) if not huge else math.inf if value > 0 else -math.inf)


def _compared_with_integers(column: Expression, name: str, value: float, kind: Any) -> Expression:
    """The same for a column of integers, exactly: Arrow would compare both as floating-point numbers."""
    least, most = _limits_of(kind)
    if not least <= value <= most:  # the same for all values; never true for NaN
        return TRUE if (value < least and name[0] == "g") or (value > most and name[0] == "l") else FALSE
    whole = math.ceil(value) if name in ("lt", "gte") else math.floor(value)
    return _COMPARED[name](column, pa.scalar(whole, kind))


def _limits_of(kind: Any) -> tuple[int, int]:
    """The least and the largest value of a type of integers."""
    found = np.iinfo(kind.to_pandas_dtype())
    return int(found.min), int(found.max)


def _patterns(values: list[Any]) -> list[str]:
    """Regular expressions for one of many coded values; Arrow's have a limit of size."""
    found, group, size = list[str](), list[str](), 0
    for value in values:
        escaped = re.escape(one_coded(value))
        if group and size + len(escaped) > PATTERN_CHARACTERS:
            found.append(f"\x01(?:{'|'.join(group)})\x02")
            group, size = [], 0
        group.append(escaped)
        size += len(escaped) + 1
    return [*found, f"\x01(?:{'|'.join(group)})\x02"]


def _refused(text: str, came: Any) -> ProblemDetails:
    shown = repr(came)
    return bad_input(f"{text}, got {shown if len(shown) <= 100 else shown[:97] + '...'}")


def matching(condition: Condition, table: Any, ids: NDArray[Any]) -> NDArray[np.bool_]:
    """A mask of the rows of a table, which has the columns of the condition; ``ids`` are theirs."""
    if len(ids) == 0:
        return np.zeros(0, np.bool_)
    columns = {name: table.column(name) for name in condition.columns}
    columns[ID] = pa.array(ids.tolist(), pa.string()) if ids.dtype == object else pa.array(ids)
    return evaluated(condition.expression, pa.table(columns))


def evaluated(expression: Expression, table: Any) -> NDArray[np.bool_]:
    """A mask of the rows of a table for which an expression is true; it may not be null."""
    steps = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
        acero.Declaration("project", acero.ProjectNodeOptions([expression], ["matches"])),
    ]
    try:
        found = acero.Declaration.from_sequence(steps).to_table(use_threads=False).column(0)
    except pa.ArrowException as error:
        raise bad_input(f"the filter does not fit the collection: {str(error).splitlines()[0]}") from None
    return np.asarray(found.to_numpy(), np.bool_)
