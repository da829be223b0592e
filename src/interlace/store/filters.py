"""Filters over columns: a string or a ``pyarrow.compute.Expression`` -> the rows of a table that match.

``filter_text.py`` translates strings, ``filter_cache.py`` keeps the last results.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..inputs.payload_table import arrow, kind_of
from .columns import Columns, Table
from .filter_text import abbreviated, printed, translate

Expression = Any  # pyarrow.compute.Expression
#: Largest number of function calls in an Arrow expression; each comparison is one. Arrow flattens the terms of ``and``
#: and ``or`` into one deep chain; about twice as many terms overflow a stack of 512 kB.
MOST_CALLS = 1000
STACK_BYTES = 256 << 20  # enough to print expressions that are far too deep; unused stack takes no memory


def is_expression(given: Any) -> bool:
    """Whether a filter is a string or an Arrow expression, without importing pyarrow."""
    kind = type(given)
    return isinstance(given, str) or (kind.__name__ == "Expression" and kind.__module__.startswith("pyarrow"))


def as_expression(given: Any, columns: Columns | None) -> Expression:
    """The expression of a filter; InputError if it does not fit the columns."""
    if not isinstance(given, str):
        _check_calls(given)
    if columns is None:
        raise InputError(
            f"filter {abbreviated(given)} needs a store with columns: il.create(path, source, columns={{...}})"
        )
    expression = translate(given, columns) if isinstance(given, str) else given
    pa = arrow()
    try:
        kind = _projected(expression, columns.schema.empty_table()).type
    except (pa.ArrowException, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"filter {abbreviated(given)} does not fit the columns {columns}: {reason}") from error
    if kind_of(kind) not in ("boolean", "nothing"):
        raise InputError(f"filter {abbreviated(given)} has type {kind}, but must be true or false")
    return expression


def _check_calls(expression: Expression) -> None:
    """Raise InputError for an expression so deep that Arrow would overflow the stack."""
    calls = _on_large_stack(lambda: printed(expression)).count("(")  # an upper bound: brackets inside strings count too
    if calls > MOST_CALLS:
        raise InputError(
            f"filter is an expression of {calls} calls, but at most {MOST_CALLS} are allowed; for many values of one "
            "column use pc.field(name).isin([...]), otherwise pass a mask or ids"
        )


def _on_large_stack(function: Callable[[], str]) -> str:
    """Call a function in a thread with a larger stack than usual."""
    found: list[str] = []
    before = threading.stack_size(STACK_BYTES)
    try:
        thread = threading.Thread(target=lambda: found.append(function()))
        thread.start()
    except RuntimeError:  # the system cannot start a thread with such a stack
        return function()
    finally:
        threading.stack_size(before)
    thread.join()
    return found[0]


def columns_of(expression: Expression, columns: Columns) -> list[str]:
    """Columns that an expression may read: those whose names occur in its text, because Arrow cannot list them."""
    text, names = printed(expression), list(columns.schema.names)
    if "FieldPath" in text:  # fields by number
        return names
    return [name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]


def qualifying(expression: Expression, table: Table) -> NDArray[np.bool_]:
    """A mask of the rows for which the expression is true."""
    pa = arrow()
    try:
        found = _projected(expression, table)
    except (pa.ArrowException, ValueError, TypeError) as error:  # depends on values: overflow, division by zero
        raise InputError(f"filter {abbreviated(expression)} fails on the rows: {error}") from error
    if table.num_rows == 0 or kind_of(found.type) == "nothing":
        return np.zeros(table.num_rows, np.bool_)
    return np.asarray(found.fill_null(False).to_numpy(), np.bool_)


def _projected(expression: Expression, table: Table) -> Any:
    acero = arrow("pyarrow.acero")
    steps = [
        acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
        acero.Declaration("project", acero.ProjectNodeOptions([expression], ["matches"])),
    ]
    # One thread, because the result must be in the order of the rows.
    return acero.Declaration.from_sequence(steps).to_table(use_threads=False).column(0)
