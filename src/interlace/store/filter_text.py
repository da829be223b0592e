"""Filter strings -> Arrow expressions.

The string is parsed by Python's parser and translated node by node; nothing is ever evaluated as Python. The language
has comparisons, ``and``, ``or``, ``not``, ``in``, ``is null``, values and names of columns. A comparison with null is
neither true nor false, as in SQL; a row matches if the whole expression is true.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import unicodedata
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np

from ..errors import InputError
from ..inputs.payload_table import arrow, kind_of
from .columns import Columns
from .filter_size import DEEPEST, LONGEST, MOST_TERMS, MOST_WORDS, measure

Expression = Any  # pyarrow.compute.Expression
#: Terms that are combined before a double negation stops Arrow from flattening them into a chain.
JOINED = 4

_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_MIRRORED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
_WORDS = {"null": None, "none": None, "true": True, "false": False}
_VALUES = {"number": (int, float), "text": (str,), "time": (str,), "boolean": (bool,), "bytes": (bytes,)}


def translate(text: str, columns: Columns) -> Expression:
    """The expression of a filter string; InputError names the part that is not understood."""
    return _Translation(text, columns).expression()


def printed(given: Any) -> str:
    """The text of a filter. Arrow shortens long values of an expression, at times in the middle of a character."""
    try:
        return str(given)
    except UnicodeDecodeError as error:
        return error.object.decode(errors="replace")


def abbreviated(given: Any) -> str:
    """A filter for messages."""
    text = printed(given)
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


class _Translation:
    """One filter string being translated."""

    def __init__(self, text: str, columns: Columns) -> None:
        self._text, self._columns = text, columns
        names = columns.schema.names  # those as they are written come first
        self._names = {unicodedata.normalize("NFKC", name): name for name in names} | {name: name for name in names}
        self._compute = arrow("pyarrow.compute")
        self._terms = 0

    def expression(self) -> Expression:
        self._check_size()
        try:
            tree = ast.parse(self._text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            where = f" at character {error.offset}" if isinstance(error, SyntaxError) and error.offset else ""
            raise self._refused(
                f"cannot be read{where}; write comparisons like price < 10 and tag in ('a', 'b'), with ==, and with "
                "and, or, not in lower case"
            ) from error
        return self._condition(tree.body, 0)

    def _check_size(self) -> None:
        """Raise InputError for a string that is too large for Python's parser."""
        if len(self._text) > LONGEST:
            raise self._refused(
                f"has {len(self._text)} characters, but at most {LONGEST} are allowed; pass a mask or ids"
            )
        words, deepest, formatted = measure(self._text)
        if formatted:
            raise self._refused("has an f-string; use only columns, values, comparisons, and, or, not, in")
        if words > MOST_WORDS:
            raise self._refused(f"has more than {MOST_WORDS} names and values; pass a mask or ids")
        if deepest > DEEPEST:
            raise self._too_deep()

    def _condition(self, node: ast.expr, depth: int) -> Expression:
        if depth > DEEPEST:
            raise self._too_deep()
        if isinstance(node, ast.BoolOp):
            combine, values = operator.and_ if isinstance(node.op, ast.And) else operator.or_, _flattened(node)
            self._check_terms(len(values))  # before they are translated one by one
            return _balanced([self._condition(value, depth + 1) for value in values], combine)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self._condition(node.operand, depth + 1)
        if isinstance(node, ast.Compare):
            self._terms += len(node.ops)
            self._check_terms(0)
            sides = [node.left, *node.comparators]
            pairs = zip(sides[:-1], node.ops, sides[1:], strict=True)
            return _balanced([self._comparison(a, op, b) for a, op, b in pairs], operator.and_)
        if isinstance(node, ast.Name):
            field = self._field(node.id)
            if kind_of(field.type) != "boolean":
                raise self._refused(f"uses {node.id!r} ({field.type}) without a comparison, but it is not boolean")
            self._terms += 1
            return self._compute.field(field.name)
        raise self._unknown(node)

    def _check_terms(self, more: int) -> None:
        if self._terms + more > MOST_TERMS:
            raise self._refused(
                f"has more than {MOST_TERMS} comparisons; use one list, such as n in (1, 2, 3), or pass a mask or ids"
            )

    def _comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Expression:
        if isinstance(op, ast.In | ast.NotIn):
            inside = self._membership(left, right)
            return ~inside if isinstance(op, ast.NotIn) else inside
        if isinstance(op, ast.Is | ast.IsNot):
            if not self._is_column(left) or self._is_column(right) or self._value(right) is not None:
                raise self._refused("may use 'is' only as in: price is null, price is not null")
            column = self._compute.field(self._field(left.id).name)
            return column.is_null() if isinstance(op, ast.Is) else column.is_valid()
        kind = type(op)
        for side in (left, right):
            if not self._is_column(side):
                self._value(side)  # raises if it is neither a column nor a value
        if not self._is_column(left):
            left, right, kind = right, left, _MIRRORED.get(kind, kind)
        if not self._is_column(left):
            raise self._refused("compares two values, but one side must be a column")
        field = self._field(left.id)
        if self._is_column(right):
            other = self._field(right.id)
            if kind_of(field.type) != kind_of(other.type):
                raise self._refused(f"compares {left.id!r} ({field.type}) with {other.name!r} ({other.type})")
            return _COMPARED[kind](self._compute.field(field.name), self._compute.field(other.name))
        column, value = self._compute.field(field.name), self._value(right)
        scalar = self._scalar(field, value)
        if arrow().types.is_integer(field.type):
            return _with_integers(column, kind, value, field.type)
        return _COMPARED[kind](column, scalar)

    def _membership(self, left: ast.expr, right: ast.expr) -> Expression:
        """Null if the column is null, like other comparisons; Arrow's own isin gives false."""
        if not isinstance(left, ast.Name) or not isinstance(right, ast.Tuple | ast.List | ast.Set) or not right.elts:
            raise self._refused("may use 'in' only as in: tag in ('a', 'b')")
        field = self._field(left.id)
        values = [self._value(node) for node in right.elts]
        pa, column, kind = arrow(), self._compute.field(field.name), kind_of(field.type)
        for value in values:
            if not _fits(value, kind):
                self._scalar(field, value)  # raises the error for this value
        try:
            inside = column.isin(_in_type(values, field.type, pa))
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            for value in values:
                self._scalar(field, value)
            raise self._refused(f"compares {field.name!r} ({field.type}) with a list: {error}") from error
        return self._compute.if_else(column.is_valid(), inside, pa.scalar(None, pa.bool_()))

    def _is_column(self, node: ast.expr) -> TypeGuard[ast.Name]:
        return isinstance(node, ast.Name) and (node.id in self._names or node.id.lower() not in _WORDS)

    def _field(self, name: str) -> Any:
        """The column of a name, which Python's parser gives in normal form NFKC."""
        if name not in self._names:
            raise self._refused(f"names {name!r}, but there is no such column; the store has {self._columns}")
        return self._columns.schema.field(self._names[name])

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes | int | float | bool | None):
            return node.value
        if isinstance(node, ast.Name) and not self._is_column(node):
            return _WORDS[node.id.lower()]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            value = self._value(node.operand)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return -value if isinstance(node.op, ast.USub) else value
        raise self._unknown(node)

    def _scalar(self, field: Any, value: Any) -> Any:
        """A value as an Arrow scalar that can be compared with a column; None for integers, see _with_integers."""
        pa, kind = arrow(), kind_of(field.type)
        if value is None:
            raise self._refused(f"compares {field.name!r} with null; write {field.name} is null, or is not null")
        if not _fits(value, kind):
            raise self._refused(f"compares {field.name!r} ({field.type}) with {value!r} ({type(value).__name__})")
        try:
            if kind == "time":
                return pa.scalar(value).cast(field.type)
            if pa.types.is_integer(field.type):
                return None  # can be compared with any number
            if pa.types.is_decimal(field.type):
                return pa.scalar(value)
            return pa.scalar(
                float(value) if kind == "number" else value, field.type
            )  # so that 0.1 equals a float32 0.1
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise self._refused(f"compares {field.name!r} ({field.type}) with {value!r}: {error}") from error

    def _unknown(self, node: ast.AST) -> InputError:
        found = ast.get_source_segment(self._text.strip(), node) or type(node).__name__
        return self._refused(f"has {found!r:.60}; use only columns, values, comparisons, and, or, not, in and is null")

    def _too_deep(self) -> InputError:
        return self._refused(f"is nested too deeply: at most {DEEPEST} levels of brackets and 'not' are allowed")

    def _refused(self, reason: str) -> InputError:
        return InputError(f"filter {abbreviated(self._text)} {reason}")


def _fits(value: Any, kind: str) -> bool:
    """Whether a value can be compared with a column of this kind."""
    return isinstance(value, _VALUES.get(kind, ())) and (kind == "boolean" or not isinstance(value, bool))


def _with_integers(column: Expression, op: type[ast.cmpop], value: float, kind: Any) -> Expression:
    """Compare an integer column with any number, as an integer of its type: Arrow has no type for all integers."""
    bounds = np.iinfo(kind.to_pandas_dtype())
    inside = bounds.min <= value <= bounds.max
    if not inside or value != int(value):
        low, high = value < bounds.min, value > bounds.max
        if op in (ast.Eq, ast.NotEq) or low or high:  # the same for all rows; null where the column is null
            is_true = op is ast.NotEq or (op in (ast.Gt, ast.GtE) if low else high and op in (ast.Lt, ast.LtE))
            return column == column if is_true else column != column
        value = math.ceil(value) if op in (ast.Lt, ast.GtE) else math.floor(value)
    return _COMPARED[op](column, arrow().scalar(int(value), kind))


def _in_type(values: list[Any], kind: Any, pa: Any) -> Any:
    """The values that a column of this type can contain, as an Arrow array."""
    types = pa.types
    if types.is_integer(kind):
        bounds = np.iinfo(kind.to_pandas_dtype())
        whole = [int(v) for v in values if math.isfinite(v) and v == int(v)]
        return pa.array([v for v in whole if bounds.min <= v <= bounds.max], kind)
    if types.is_decimal(kind):
        import decimal

        return pa.array([decimal.Decimal(repr(v)) for v in values], kind)
    if types.is_temporal(kind):
        return pa.array(values).cast(kind)
    return pa.array([float(v) for v in values] if types.is_floating(kind) else values, kind)


def _flattened(node: ast.BoolOp) -> list[ast.expr]:
    """The terms of a chain of the same operation, nested brackets included."""
    found: list[ast.expr] = []
    waiting = list(reversed(node.values))
    while waiting:
        value = waiting.pop()
        if isinstance(value, ast.BoolOp) and type(value.op) is type(node.op):
            waiting.extend(reversed(value.values))
        else:
            found.append(value)
    return found


def _balanced(parts: list[Expression], combine: Callable[[Any, Any], Any]) -> Expression:
    """Many expressions combined into one of small depth.

    Arrow flattens a tree of ``and`` or of ``or`` into a chain, which it processes recursively. It does not flatten
    beyond a ``not``, and a double negation changes nothing: so one is put around every few terms.
    """
    while len(parts) > 1:
        groups = [functools.reduce(combine, parts[i : i + JOINED]) for i in range(0, len(parts), JOINED)]
        parts = groups if len(groups) == 1 else [~~group for group in groups]
    return parts[0]
