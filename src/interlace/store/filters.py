"""Filters over columns: text or a ``pyarrow.compute.Expression`` -> which rows of a segment qualify.

Text is read by Python's own parser and translated node by node; nothing is ever evaluated as Python. It knows
comparisons, ``and``, ``or``, ``not``, ``in``, ``is null``, values and names of columns. A comparison with null is
neither true nor false, as in SQL, and a row qualifies where the whole is true.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
import threading
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from .._threads import ForkLock
from ..errors import InputError
from ..inputs.payload_table import arrow, kind_of
from .columns import Columns, Table

Expression = Any  # pyarrow.compute.Expression
#: Brackets and ``not`` inside of each other, at most: Python's parser and Arrow walk text and expressions by recursion.
DEEPEST = 50
LONGEST = 16 << 20  # characters
MOST_WORDS = 500_000  # names, numbers and strings in a text, each of which is a node of its tree
MOST_TERMS = 10_000  # comparisons in a text
#: Function calls in an expression of the user's own; one comparison is one. Arrow makes one deep chain of the terms of
#: ``and`` and ``or``, however they were nested: from about twice as many on that overflows a stack of 512 kB.
MOST_CALLS = 1000
ROOM = 256 << 20  # bytes of stack, of which only what is used counts: enough to measure what is far too deep
#: Terms that are joined before an expression is closed against Arrow's flattening of chains.
JOINED = 4
#: Masks that are kept for each segment.
REMEMBERED = 8

_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_SIDES_CHANGED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
_WORDS = {"null": None, "none": None, "true": True, "false": False}
_VALUES = {"number": (int, float), "text": (str,), "time": (str,), "boolean": (bool,), "bytes": (bytes,)}


def is_expression(given: Any) -> bool:
    """Whether a filter is one over columns; pyarrow is not imported to tell."""
    kind = type(given)
    return isinstance(given, str) or (kind.__name__ == "Expression" and kind.__module__.startswith("pyarrow"))


def as_expression(given: Any, columns: Columns | None) -> Expression:
    """One that fits the columns, or an error that names them."""
    if not isinstance(given, str):
        _check_calls(given)
    if columns is None:
        raise InputError(f"the store has no columns to filter by ({given!s:.60}); il.create takes columns=")
    expression = _Translation(given, columns).made() if isinstance(given, str) else given
    pa = arrow()
    try:
        kind = _projected(expression, columns.schema.empty_table()).type
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"filter {_shown(given)} does not fit the columns {columns}: {reason}") from error
    if kind_of(kind) not in ("boolean", "nothing"):
        raise InputError(f"filter {_shown(given)} is of type {kind}, and should be true or false")
    return expression


def _check_calls(expression: Expression) -> None:
    """Refuse an expression that Arrow could not walk without overflowing the stack."""
    calls = _on_large_stack(lambda: str(expression)).count("(")  # brackets in strings may count too, none are missed
    if calls > MOST_CALLS:
        raise InputError(
            f"filter is an expression of {calls} calls, {MOST_CALLS} at most; for many values of one column use "
            "pc.field(name).isin([...]), else a mask or the ids of the rows"
        )


def _on_large_stack(function: Callable[[], str]) -> str:
    """What a function returns, called in a thread that has more stack than usual."""
    found: list[str] = []
    before = threading.stack_size(ROOM)
    try:
        thread = threading.Thread(target=lambda: found.append(function()))
        thread.start()
    except RuntimeError:  # no thread, or no room for its stack
        return function()
    finally:
        threading.stack_size(before)
    thread.join()
    return found[0]


def columns_of(expression: Expression, columns: Columns) -> list[str]:
    """Columns that an expression may read: those whose name its text has. Arrow has no way to ask."""
    text, names = str(expression), list(columns.schema.names)
    if "FieldPath" in text:  # by number
        return names
    return [name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]


def qualifying(expression: Expression, table: Table) -> NDArray[np.bool_]:
    """Where the expression is true."""
    pa = arrow()
    try:
        found = _projected(expression, table)
    except (pa.ArrowException, ValueError, TypeError) as error:  # of values: an overflow, a division by zero
        raise InputError(f"filter {_shown(expression)} fails on the rows: {error}") from error
    if table.num_rows == 0 or kind_of(found.type) == "nothing":
        return np.zeros(table.num_rows, np.bool_)
    return np.asarray(found.fill_null(False).to_numpy(), np.bool_)


def _projected(expression: Expression, table: Table) -> Any:
    acero = arrow("pyarrow.acero")
    steps = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
        acero.Declaration("project", acero.ProjectNodeOptions([expression], ["found"])),
    ]
    # One thread, because the order of rows is the answer.
    return acero.Declaration.from_sequence(steps).to_table(use_threads=False).column(0)


class Remembered:
    """The last few answers to filters; those that are asked for again are kept longest."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most, self._lock = most, ForkLock()
        self._answers: list[tuple[Any, Any]] = []

    def get(self, key: Any) -> Any:
        """What was put for an equal filter, or None."""
        with self._lock:
            for i, (known, answer) in enumerate(self._answers):
                if _same(known, key):
                    self._answers.append(self._answers.pop(i))
                    return answer
        return None

    def put(self, key: Any, answer: Any) -> None:
        """Remember it."""
        with self._lock:
            self._answers = [pair for pair in self._answers if not _same(pair[0], key)]
            self._answers = [*self._answers, (key, answer)][-self._most :]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str) and a == b
    return bool(a.equals(b))


def _shown(given: Any) -> str:
    text = str(given)
    return repr(text if len(text) <= 80 else f"{text[:77]}...")


class _Translation:
    """From text to an expression of Arrow."""

    def __init__(self, text: str, columns: Columns) -> None:
        self._text, self._columns = text, columns
        self._compute = arrow("pyarrow.compute")
        self._terms = 0

    def made(self) -> Expression:
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
        """Refuse text that Python's parser could not read without overflowing the stack or filling the memory."""
        if len(self._text) > LONGEST:
            raise self._refused(f"has {len(self._text)} characters, {LONGEST} at most; pass a mask or ids instead")
        words, deepest, formatted = _measured(self._text)
        if formatted:
            raise self._refused("has an f-string; only columns, values, comparisons, and, or, not, in are understood")
        if words > MOST_WORDS:
            raise self._refused(f"has more than {MOST_WORDS} names and values; pass a mask or ids instead")
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
                raise self._refused(f"has {node.id!r} ({field.type}) alone, which is neither true nor false")
            self._terms += 1
            return self._compute.field(node.id)
        raise self._unknown(node)

    def _check_terms(self, more: int) -> None:
        if self._terms + more > MOST_TERMS:
            raise self._refused(
                f"has more than {MOST_TERMS} comparisons; write one list, as in: n in (1, 2, 3), or pass a mask or ids"
            )

    def _comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Expression:
        if isinstance(op, ast.In | ast.NotIn):
            inside = self._membership(left, right)
            return ~inside if isinstance(op, ast.NotIn) else inside
        if isinstance(op, ast.Is | ast.IsNot):
            if not self._is_column(left) or self._is_column(right) or self._value(right) is not None:
                raise self._refused("may have 'is' only as in: price is null, price is not null")
            column = self._compute.field(self._field(left.id).name)
            return column.is_null() if isinstance(op, ast.Is) else column.is_valid()
        kind = type(op)
        for side in (left, right):
            if not self._is_column(side):
                self._value(side)  # which says what is neither
        if not self._is_column(left):
            left, right, kind = right, left, _SIDES_CHANGED.get(kind, kind)
        if not self._is_column(left):
            raise self._refused("compares two values; one side must be a column")
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
        """Arrow finds null in no list; here that is null, like any other comparison."""
        if not isinstance(left, ast.Name) or not isinstance(right, ast.Tuple | ast.List | ast.Set) or not right.elts:
            raise self._refused("may have 'in' only as in: tag in ('a', 'b')")
        field = self._field(left.id)
        values = [self._value(node) for node in right.elts]
        pa, column, kind = arrow(), self._compute.field(field.name), kind_of(field.type)
        for value in values:  # may be many
            if not _fits(value, kind):
                self._scalar(field, value)  # which says what does not fit
        try:
            inside = column.isin(_in_type(values, field.type, pa))
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            for value in values:
                self._scalar(field, value)
            raise self._refused(f"compares {field.name!r} ({field.type}) with a list: {error}") from error
        return self._compute.if_else(column.is_valid(), inside, pa.scalar(None, pa.bool_()))

    def _is_column(self, node: ast.expr) -> TypeGuard[ast.Name]:
        return isinstance(node, ast.Name) and (node.id in self._columns.schema.names or node.id.lower() not in _WORDS)

    def _field(self, name: str) -> Any:
        if name not in self._columns.schema.names:
            raise self._refused(f"names {name!r}, and there is no such column: the store has {self._columns}")
        return self._columns.schema.field(name)

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
        """A value that can be compared with a column, in the column's own type where that loses nothing wanted."""
        pa, kind = arrow(), kind_of(field.type)
        if value is None:
            raise self._refused(f"compares {field.name!r} with null; write {field.name} is null, or is not null")
        if not _fits(value, kind):
            raise self._refused(f"compares {field.name!r} ({field.type}) with {value!r} ({type(value).__name__})")
        try:
            if kind == "time":
                return pa.scalar(value).cast(field.type)
            if pa.types.is_integer(field.type):
                return None  # any number will do
            if pa.types.is_decimal(field.type):
                return pa.scalar(value)
            return pa.scalar(float(value) if kind == "number" else value, field.type)  # 0.1 is that of float32
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise self._refused(f"compares {field.name!r} ({field.type}) with {value!r}: {error}") from error

    def _unknown(self, node: ast.AST) -> InputError:
        found = ast.get_source_segment(self._text.strip(), node) or type(node).__name__
        return self._refused(
            f"has {found!r:.60}; only columns, values, comparisons, and, or, not, in and is null are understood"
        )

    def _too_deep(self) -> InputError:
        return self._refused(f"is nested too deeply: {DEEPEST} brackets and 'not' inside of each other are the most")

    def _refused(self, why: str) -> InputError:
        return InputError(f"filter {_shown(self._text)} {why}")


def _fits(value: Any, kind: str) -> bool:
    """Whether a value can be compared with columns of a kind."""
    return isinstance(value, _VALUES.get(kind, ())) and (kind == "boolean" or not isinstance(value, bool))


def _with_integers(column: Expression, op: type[ast.cmpop], value: float, kind: Any) -> Expression:
    """A column of integers compared with any number, by one of its own type: Arrow has none for all integers."""
    bounds = np.iinfo(kind.to_pandas_dtype())
    inside = bounds.min <= value <= bounds.max
    if not inside or value != int(value):
        low, high = value < bounds.min, value > bounds.max
        if op in (ast.Eq, ast.NotEq) or low or high:  # the same for all; null where the column is
            is_true = op is ast.NotEq or (op in (ast.Gt, ast.GtE) if low else high and op in (ast.Lt, ast.LtE))
            return column == column if is_true else column != column
        value = math.ceil(value) if op in (ast.Lt, ast.GtE) else math.floor(value)
    return _COMPARED[op](column, arrow().scalar(int(value), kind))


def _in_type(values: list[Any], kind: Any, pa: Any) -> Any:
    """The values that a column of this type can have."""
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


_TOKENS = re.compile(
    r"""(?P<formatted>\b(?:[fFtT][rR]?|[rR][fFtT])['"])
    |(?P<string>'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''|'[^'\\\n]*(?:\\.[^'\\\n]*)*')
    |(?P<quoted>\"{3}[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"{3}|"[^"\\\n]*(?:\\.[^"\\\n]*)*")
    |(?P<comment>\#[^\n]*)
    |(?P<opened>[(\[{])
    |(?P<closed>[)\]}])
    |(?P<ended>\b(?:and|or)\b|[,<>=])
    |(?P<nested>\*\*|:|\b(?:lambda|if|else|for|await|yield)\b)
    |(?P<before>\bnot\b|[-+~])
    |(?P<word>[\w.]+)""",
    re.VERBOSE | re.DOTALL,
)


def _measured(text: str) -> tuple[int, int, bool]:
    """Names and values in a text, how deeply it is nested at most, and whether it has an f-string, without a parser.

    Every bracket is a level, and so is every ``not`` or sign until the next comparison, ``and``, ``or`` or comma. What
    the language does not have, and Python would nest, counts as a level that never ends.
    """
    words = deepest = depth = 0
    levels = [0]  # of each open bracket, the signs before the next value
    for token in _TOKENS.finditer(text):
        kind = token.lastgroup
        if kind in ("word", "string", "quoted"):
            words += 1
        elif kind == "opened":
            levels.append(0)
            depth += 1
        elif kind == "closed" and len(levels) > 1:
            depth -= 1 + levels.pop()
        elif kind == "ended":
            depth -= levels[-1]
            levels[-1] = 0
        elif kind == "before":
            levels[-1] += 1
            depth += 1
        elif kind == "nested":
            depth += 1
        elif kind == "formatted":  # whose quotes and brackets are none of these
            return words, deepest, True
        deepest = max(deepest, depth)
        if words > MOST_WORDS or deepest > DEEPEST:
            break
    return words, deepest, False


def _flattened(node: ast.BoolOp) -> list[ast.expr]:
    """Its terms, where one that is the same operation in brackets gives its own."""
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
    """One expression of many, no deeper than it must be.

    Arrow flattens a tree of ``and`` or of ``or`` and makes a chain of it, which it walks by recursion. It does not look
    behind a ``not``, and two of them change nothing: so they stand between a few terms and the next.
    """
    while len(parts) > 1:
        groups = [functools.reduce(combine, parts[i : i + JOINED]) for i in range(0, len(parts), JOINED)]
        parts = groups if len(groups) == 1 else [~~group for group in groups]
    return parts[0]
