"""``read_payload``: values for the columns of a store, out of a file of tables or lines; needs the ``io`` extra."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import InputError
from .lines import from_json
from .optional import require
from .payload_table import Schema, Table, as_schema, as_table


def read_payload(path: str | PathLike[str], columns: Schema) -> Table:
    """Columns of a file as a ``pyarrow.Table``: those that the store has, too (``store.columns``). Others are not read.

    .parquet, .arrow and .feather have types of their own. In .csv and .tsv, whose first line has the names, and in
    .jsonl and .ndjson values are read in the types of the store; an empty cell that is not quoted is null.
    """
    name = os.fspath(path)
    reader = PAYLOAD_EXTENSIONS.get(Path(name).suffix.lower())
    if reader is None:
        raise InputError(f"payload is read from {', '.join(PAYLOAD_EXTENSIONS)} files, got {name!r}")
    if not os.path.exists(name):
        raise FileNotFoundError(f"there is no file {name!r}")
    if columns is None:
        raise InputError(f"payload ({name!r}) needs a store with columns, this one has none")
    pa = require("pyarrow", f"reading {name!r}")
    try:
        return reader(name, columns)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, InputError) or (isinstance(error, OSError) and error.errno is not None):
            raise
        raise InputError(f"{name!r} cannot be read as payload: {str(error).splitlines()[0]}") from error


def _shared(name: str, there: Sequence[str], columns: Schema) -> list[str]:
    found = [column for column in columns.names if column in there]
    if not found:
        listed = ", ".join(map(repr, there[:20])) or "none"
        raise InputError(
            f"{name!r} has no column that the store has: its columns are {listed}, those of the store "
            f"{', '.join(map(repr, columns.names))}"
        )
    return found


def _parquet(name: str, columns: Schema) -> Table:
    parquet = require("pyarrow.parquet", f"reading {name!r}")
    with parquet.ParquetFile(name) as file:
        return file.read(_shared(name, file.schema_arrow.names, columns))


def _arrow(name: str, columns: Schema) -> Table:
    feather = require("pyarrow.feather", f"reading {name!r}")
    table = feather.read_table(name)  # mapped
    return table.select(_shared(name, table.schema.names, columns))


def _csv(separator: str) -> Callable[[str, Schema], Table]:
    def read(name: str, columns: Schema) -> Table:
        csv = require("pyarrow.csv", f"reading {name!r}")
        parse = csv.ParseOptions(delimiter=separator)
        with csv.open_csv(name, parse_options=parse) as file:
            shared = _shared(name, file.schema.names, columns)
        # Only an empty cell is null: 'NA' and 'null' may be values.
        convert = csv.ConvertOptions(
            include_columns=shared,
            column_types={column: columns.field(column).type for column in shared},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        return csv.read_csv(name, parse_options=parse, convert_options=convert)

    return read


def _json(name: str, columns: Schema) -> Table:
    """JSON lines; not by pyarrow's reader, which does not parse dates that are given as text."""
    pa, rows = require("pyarrow", f"reading {name!r}"), list[dict[str, Any]]()
    with open(name, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = from_json(line)
            except InputError as error:
                raise InputError(f"{name!r}: line {number}: {error}") from None
            if not isinstance(row, dict):
                raise InputError(f"{name!r}: line {number}: an object is needed, columns and their values")
            rows.append(row)
    shared = _shared(name, list(dict.fromkeys(column for row in rows for column in row)), columns)
    wanted = as_schema(pa.schema([columns.field(column) for column in shared]))
    try:
        return as_table([{column: row.get(column) for column in shared} for row in rows], wanted, len(rows))
    except InputError as error:
        raise InputError(f"{name!r}: {error}") from error


PAYLOAD_EXTENSIONS: dict[str, Callable[[str, Schema], Table]] = {
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".feather": _arrow,
    ".csv": _csv(","),
    ".tsv": _csv("\t"),
    ".jsonl": _json,
    ".ndjson": _json,
}
