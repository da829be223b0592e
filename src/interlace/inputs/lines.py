"""Vectors that come as text, one a line: JSON or CSV, from a file or a pipe, in blocks.

    [0.1, 0.2, 0.3]
    {"id": "a", "vector": [0.1, 0.2, 0.3], "price": 9.5}
    0.1,0.2,0.3

Values of CSV are separated by commas, tabs, semicolons or spaces; a first line that is not numbers names the columns,
one for each value, and one more, called ``id``, may hold the ids.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

#: A line may be longer only for more values: text without an end must not fill the memory.
LONGEST, BYTES_PER_VALUE = 1 << 20, 64

Row = tuple[Any, list[float], dict[str, Any]]  # id or None, values, payload
Payload = list[dict[str, Any]] | None  # of each row; None where no row has any
Block = tuple[list[Any] | None, NDArray[np.float64], Payload]  # ids or None, values [rows, width], payload


def read_lines(
    file: IO[bytes], width: int, rows: int, name: str = "input", start: bytes = b""
) -> Iterator[tuple[list[Any] | None, NDArray[np.float64]]]:
    """Blocks of at most ``rows`` rows of ``width`` values, with their ids; ``start`` are bytes that were read already.

    A line that is no such row raises InputError that names it, after a block of the rows before. So does a file without
    rows: one with nothing but names is more likely something else than vectors.
    """
    return ((ids, values) for ids, values, _ in read_rows(file, width, rows, name, start))


def read_rows(
    file: IO[bytes], width: int, rows: int, name: str = "input", start: bytes = b"", columns: Sequence[str] = ()
) -> Iterator[Block]:
    """The same with the payload of each row: values of the columns of a store, and of an object ``payload``."""
    parse: Callable[[str], Row] | None = None
    named: bool | None = None  # whether rows have ids; all of them, or none
    ids: list[Any] = []
    values: list[list[float]] = []
    payload: list[dict[str, Any]] = []
    try:
        for number, text in _lines(file, start, max(LONGEST, BYTES_PER_VALUE * width), name):
            try:
                if parse is None:
                    parse, is_row = _parser(text, columns, width)
                    if not is_row:
                        continue
                row_id, row, values_of_columns = parse(text)
                _check(row, width)
                if named is not None and named != (row_id is not None):
                    raise InputError(
                        "it has no id, those before have" if named else "it has an id, those before have none"
                    )
                named = row_id is not None
            except InputError as error:
                raise InputError(f"{name}: line {number}: {error}") from error
            ids.append(row_id)
            values.append(row)
            payload.append(values_of_columns)
            if len(values) == rows:
                yield _block(ids, values, payload)
                ids, values, payload = [], [], []
    except InputError:
        if values:
            yield _block(ids, values, payload)
        raise
    if values:
        yield _block(ids, values, payload)
    elif named is None:
        raise InputError(f"{name} has {'no rows' if parse is None else 'names of columns, and no rows after them'}")


def _block(ids: list[Any], values: list[list[float]], payload: list[dict[str, Any]]) -> Block:
    return (None if ids[0] is None else ids), np.array(values, np.float64), payload if any(payload) else None


def _lines(file: IO[bytes], start: bytes, longest: int, name: str) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, and their numbers from 1 on."""
    *whole, rest = start.split(b"\n")
    number = 0
    for line in whole:
        number += 1
        if text := _text(line, number, name):
            yield number, text
    while line := rest + file.readline(longest + 1):
        rest, number = b"", number + 1
        if len(line) > longest:
            raise InputError(f"{name}: line {number} has more than {longest:,} bytes: one row of text a line is needed")
        if text := _text(line, number, name):
            yield number, text


def _text(line: bytes, number: int, name: str) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").strip()
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: line {number} is not text: JSON, CSV or a .npy file is needed") from error


def _parser(first: str, columns: Sequence[str], width: int) -> tuple[Callable[[str], Row], bool]:
    """How to read lines like the first one, and whether that one is a row."""
    if first[0] in "[{":
        return partial(_json_row, columns=[name for name in columns if name not in ("id", "vector", "payload")]), True
    separator = next((s for s in (",", "\t", ";") if s in first), None)
    cells = [cell.strip().strip('"') for cell in first.split(separator)]
    named = [cell.lower() for cell in cells]
    numbers = sum(map(_is_number, cells))
    if numbers == len(cells) or (numbers and "id" not in named):  # the latter is a row with something wrong in it
        return _csv_parser(separator, None), True
    if len(cells) == 1 and separator is None:
        raise InputError(f"{first!r:.60} is neither JSON nor numbers")
    if len(cells) != width + ("id" in named):
        raise InputError(
            f"{first!r:.60} is neither JSON nor numbers, nor names of columns: {width} expected, and one more if it is "
            f"'id', got {len(cells)}"
        )
    return _csv_parser(separator, named.index("id") if "id" in named else None), False


def _csv_parser(separator: str | None, id_at: int | None) -> Callable[[str], Row]:
    def parse(text: str) -> Row:
        cells: list[Any] = [cell.strip() for cell in text.split(separator)]
        row_id = None
        if id_at is not None:
            if id_at >= len(cells):
                raise InputError(f"it has {len(cells)} columns, the id is column {id_at + 1}")
            row_id = cells.pop(id_at).strip('"')
        try:
            return row_id, [float(cell) for cell in cells], {}
        except ValueError:
            bad = next(i for i, cell in enumerate(cells) if not _is_number(cell))
            raise InputError(f"value {bad + 1} is {cells[bad]!r:.60}, not a number") from None

    return parse


def from_json(text: str) -> Any:
    """The value of one line."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:  # which counts lines of this text, and would say line 1
        raise InputError(f"not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}") from None


def _json_row(text: str, columns: Sequence[str]) -> Row:
    found = from_json(text)
    row_id: Any = None
    payload: Any = {}
    if isinstance(found, dict):
        row_id, payload = found.get("id"), {} if found.get("payload") is None else found["payload"]
        if row_id is not None and type(row_id) not in (int, str):
            raise InputError(f"its id is {row_id!r:.60}: an integer or a string is needed")
        if "vector" not in found:
            raise InputError(f"an object with 'vector' (and 'id') is needed, it has {', '.join(found) or 'nothing'}")
        if not isinstance(payload, dict):
            raise InputError(f"its payload is {payload!r:.60}: an object is needed, columns and their values")
        payload = {name: found[name] for name in columns if name in found} | payload
        found = found["vector"]
    if not isinstance(found, list):
        raise InputError(f"a list of numbers is needed, got {found!r:.60}")
    for i, value in enumerate(found):
        if type(value) is not float and type(value) is not int:
            raise InputError(f"value {i + 1} is {value!r:.60}, not a number")
    try:
        return row_id, list(map(float, found)), payload
    except OverflowError:
        raise InputError("it has an integer that no float can hold") from None


def _check(row: list[float], width: int) -> None:
    if len(row) != width:
        raise InputError(f"it has {len(row)} values, {width} expected")
    if not all(map(math.isfinite, row)):
        bad = next(i for i, value in enumerate(row) if not math.isfinite(value))
        raise InputError(f"value {bad + 1} is {row[bad]}, not a finite number")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
