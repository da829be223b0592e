"""Columns of a store: values of the user's own beside each row, of the types of Arrow.

pyarrow is imported when a column is first written or read: a store without columns, and opening one with some, does
without. In the log columns are record batches, in a segment the bytes of an Arrow IPC file, mapped with the rest of its
file. Arrow trusts the offsets that it reads, so columns are validated before they are used (``sound.py``): those of a
user before anything is written, those of a file before they are read. Versions up to 0.1.0 wrote strings that were not
UTF-8; columns with such strings are *unsound*, and whoever reads their rows checks them.
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import ForkLock, cached_property
from ..errors import DamagedFileError, InputError
from ..files import storage
from ..index.ids import shown_id
from ..inputs.arrays import describe, to_numpy
from . import sound

Table = Any  # pyarrow.Table
Rows = NDArray[np.int64]

#: Chunks of a column of the log, at most: each costs a filter some time.
MOST_CHUNKS = 32
#: Name of the section with the bytes of an Arrow file.
SECTION = "arrow"


def arrow(module: str = "pyarrow") -> Any:
    """pyarrow, or a part of it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError("columns of a store need pyarrow: pip install 'interlace[io]'") from error


def check_arrow() -> None:
    """An error if there is no pyarrow; it is not imported."""
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        arrow()


def kind_of(kind: Any) -> str:
    """What values of a type can be compared with: ``number``, ``text``, ...; other types only with themselves."""
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


class Columns:
    """The schema of a store's columns, and how values get to bytes and back."""

    def __init__(self, text: str) -> None:
        self.text = text  # as a manifest has it: the schema as Arrow writes it, in base64

    @classmethod
    def of(cls, given: Any) -> Columns:
        """From a ``pyarrow.Schema``, or names and types such as ``{"price": "float32"}``."""
        schema = _schema(given)
        made = cls(base64.b64encode(schema.serialize().to_pybytes()).decode())
        made.__dict__["schema"] = schema
        return made

    @cached_property
    def schema(self) -> Any:
        """``pyarrow.Schema``."""
        pa = arrow()
        try:
            return _schema(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.text, validate=True))))
        except (pa.ArrowException, ValueError, OSError, EOFError) as error:
            raise DamagedFileError(f"the columns that a manifest names cannot be read: {error}") from error

    def __str__(self) -> str:
        return sound.shown(self.schema)

    def checked(self, names: Any) -> list[str]:
        """Names of columns that are there; None: all of them."""
        if names is None:
            return list(self.schema.names)
        listed = [names] if isinstance(names, str) else list(names)
        for name in listed:
            if name not in self.schema.names:
                raise InputError(f"there is no column {name!r}; the store has {self}")
        return listed

    # --- what users pass

    def table(self, payload: Any, n: int | None) -> Table:
        """Values of n rows (None: of as many as there are): a table, a dict of arrays, a list of dicts, a frame.

        Columns that are missing are null.
        """
        pa, schema = arrow(), self.schema
        given, length = _given(payload, pa)
        for name in given:
            if name not in schema.names:
                raise InputError(f"payload has a column {name!r}, which the store does not: it has {self}")
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
                raise InputError(f"payload column {field.name!r} {what}, and the store wants a value in every row")
            columns.append(column)
        return pa.Table.from_arrays(columns, schema=schema)

    # --- bytes of a log

    def to_pieces(self, table: Table) -> tuple[bytes, ...]:
        """A table for the log; the schema is not repeated there."""
        batches = table.combine_chunks().to_batches()  # more than one where text outgrows its offsets
        pieces = tuple(batch.serialize().to_pybytes() for batch in batches if batch.num_rows)
        # Checked again: the table may share the memory of the user's arrays, and these bytes are what will be read.
        try:
            bad = bad_text(*self._decoded(pieces, table.num_rows))
        except DamagedFileError as error:
            raise InputError(f"payload was changed by another thread while it was added: {error}") from error
        if bad is not None:
            raise _not_text(*bad)
        return pieces

    def of_pieces(self, pieces: Iterable[bytes], n: int) -> tuple[Table, frozenset[str]]:
        """The inverse, for n rows in all, and the names of unsound columns."""
        return self._decoded(pieces, n)

    def _decoded(self, pieces: Iterable[bytes], n: int) -> tuple[Table, frozenset[str]]:
        pa = arrow()
        try:
            batches = [sound.batch_in(piece, self.schema) for piece in pieces]
            found = sum(batch.num_rows for batch in batches)
            if found != n:
                raise ValueError(f"columns of {found} rows, {n} expected")
            table = pa.Table.from_batches(batches, schema=self.schema)
            unsound = [name for name in table.schema.names if not sound.has_sound_text(table.column(name))]
            return table.combine_chunks(), frozenset(unsound)
        except (pa.ArrowException, ValueError, OSError, EOFError) as error:
            raise DamagedFileError(f"columns in the log of a store cannot be read: {error}") from error

    def joined(self, tables: Sequence[Table]) -> Table:
        """One after the other, in chunks that are neither many nor copied again and again."""
        table = arrow().concat_tables([table for table in tables if table.num_rows] or [self.schema.empty_table()])
        return table.combine_chunks() if table.column(0).num_chunks > MOST_CHUNKS else table

    # --- bytes of a segment

    def to_file(self, table: Table) -> NDArray[np.uint8]:
        """An Arrow IPC file."""
        pa = arrow()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, self.schema) as writer:
            writer.write_table(table.combine_chunks())
        return np.frombuffer(sink.getvalue(), np.uint8)


class Payload:
    """The columns of one segment, mapped: what is asked for is validated once, what is not is never touched."""

    def __init__(self, columns: Columns, file: storage.File, n: int) -> None:
        self.columns, self.file, self.n = columns, file, n
        self._validated: set[str] = set()
        self._unsound: set[str] = set()  # of these, the columns with strings that are not UTF-8
        self._lock = ForkLock()

    @cached_property
    def _table(self) -> Table:
        pa, columns = arrow(), self.columns
        try:
            table = sound.table_in(self.file.array(SECTION), columns.schema)
            if table.num_rows != self.n:
                raise ValueError(f"{table.num_rows} rows, the manifest says {self.n}")
        except (pa.ArrowException, ValueError, OSError, EOFError) as error:
            raise self._damaged(error) from error
        return table

    def table(self, names: Sequence[str] | None = None) -> Table:
        """These columns, or all."""
        table, pa = self._table, arrow()
        names = table.schema.names if names is None else names
        with self._lock:
            for name in sorted(set(names) - self._validated):
                try:
                    if not sound.has_sound_text(table.column(name)):
                        self._unsound.add(name)
                except (pa.ArrowException, ValueError) as error:
                    raise self._damaged(error) from error
                self._validated.add(name)
        return table.select(list(names))

    def unsound(self, names: Iterable[str]) -> set[str]:
        """Those of these columns, which :meth:`table` was asked for, with strings that are not UTF-8."""
        return self._unsound.intersection(names)

    def whole(self) -> Table:
        """All columns, of which only those may be read that :meth:`table` was asked for."""
        return self._table

    def verify(self) -> None:
        """Every byte, every value."""
        self.file.verify()
        self.table()

    def _damaged(self, error: Exception) -> DamagedFileError:
        return DamagedFileError(f"{self.file.path!r} is damaged: its columns cannot be read: {error}")


def bad_text(table: Table, unsound: Iterable[str]) -> tuple[str, int] | None:
    """The first of these columns with a string that is not UTF-8, and its row."""
    for name in sorted(unsound):
        row = sound.row_of_bad_text(table.column(name))
        if row is not None:
            return name, row
    return None


def check_text(table: Table, unsound: Iterable[str], id_of: Callable[[int], Any]) -> None:
    """Raise DamagedFileError if a string of these columns is not UTF-8; ``id_of`` gives the id of a row."""
    bad = bad_text(table, unsound)
    if bad is not None:
        raise DamagedFileError(
            f"column {bad[0]!r} of the row with id {shown_id(id_of(bad[1]))} is not valid UTF-8, which versions up to "
            "0.1.0 did not check when rows were added: remove(ids) the row, or replace it by upsert, and call compact()"
        )


def _not_text(name: str, row: int) -> InputError:
    return InputError(
        f"payload column {name!r} is not valid UTF-8 in row {row}: decode its bytes, or use type 'binary'"
    )


def taken(tables: Sequence[Table], rows: Rows) -> Table:
    """Some rows, in any order, of tables one after the other; nothing else of them is read."""
    pa = arrow()
    chunks = [batch for table in tables for batch in table.to_batches()]
    ends = np.cumsum([batch.num_rows for batch in chunks])
    schema = tables[0].schema
    of = np.searchsorted(ends, rows, "right")
    order = np.argsort(of, kind="stable")
    found = []
    for i in np.unique(of).tolist():
        inner = rows[order[of[order] == i]] - (ends[i] - chunks[i].num_rows)
        found.append(chunks[i].take(pa.array(inner)))
    table = pa.Table.from_batches(found, schema=schema).combine_chunks()
    if len(found) <= 1:
        return table
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return table.take(pa.array(back))


def _schema(given: Any) -> Any:
    pa = arrow()
    if isinstance(given, pa.Schema):
        fields = list(given)
    elif isinstance(given, Mapping):
        fields = [pa.field(_name(name), _type(name, kind, pa)) for name, kind in given.items()]
    else:
        raise InputError(f"columns must be a pyarrow.Schema or a dict of names and types, got {describe(given)}")
    if not fields:
        raise InputError("columns names no column; leave it out for a store without")
    names = [_name(field.name) for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"columns has {name!r} more than once")
    for field in fields:
        if not _can_be_kept(field.type, pa):
            raise InputError(f"column {field.name!r} is of type {field.type}, which a store cannot keep")
    return pa.schema([field.remove_metadata() for field in fields])


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise InputError(f"columns have names of text, got {name!r:.60}")
    return name


def _type(name: str, kind: Any, pa: Any) -> Any:
    if isinstance(kind, pa.DataType):
        return kind
    try:
        return pa.type_for_alias(str(kind))
    except ValueError as error:
        raise InputError(
            f"column {name!r}: {kind!r:.60} is no type of Arrow; 'int64', 'float32', 'string', 'bool', 'timestamp[us]' "
            "are some, and so is any pyarrow.DataType"
        ) from error


def _can_be_kept(kind: Any, pa: Any) -> bool:
    """Not what a segment could not be merged with another, or what a filter could not read."""
    types = pa.types
    if types.is_union(kind) or types.is_dictionary(kind) or types.is_null(kind) or "view" in str(kind):
        return False
    if isinstance(kind, pa.BaseExtensionType) or types.is_run_end_encoded(kind):
        return False
    if types.is_nested(kind):
        return all(_can_be_kept(kind.field(i).type, pa) for i in range(kind.num_fields))
    return True


def _given(payload: Any, pa: Any) -> tuple[dict[str, Any], int | None]:
    """Columns by name, and their length where that is known without them."""
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
        if kind_of(array.type) not in (kind_of(field.type), "text" if _is_written(field.type, pa) else "", "nothing"):
            raise TypeError("one is not taken for the other")
        return array.cast(field.type)
    except InputError:
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"payload column {field.name!r} must be {field.type}, got {came}: {error}") from error


def _is_written(kind: Any, pa: Any) -> bool:
    """Whether text stands for such values: JSON and CSV know neither dates nor decimals."""
    return bool(pa.types.is_temporal(kind) or pa.types.is_decimal(kind))


def _as_arrow(field: Any, values: Any, pa: Any) -> Any:
    """Arrow, pandas and NumPy say what they hold; values one by one must fit the type of the store."""
    if type(values).__module__.partition(".")[0] == "pandas":
        values = pa.array(values)
    elif not isinstance(values, list | tuple | pa.Array | pa.ChunkedArray):
        values = to_numpy(values, f"payload column {field.name!r}")
        values = pa.array(values) if values.dtype != object and values.ndim == 1 else list(values)
    if isinstance(values, list | tuple):
        written = _is_written(field.type, pa) and all(value is None or isinstance(value, str) for value in values)
        return pa.array(values, pa.string() if written else field.type)
    return _sound(field.name, values, pa)


def _sound(name: str, values: Any, pa: Any) -> Any:
    """An array of Arrow in one piece and without a dictionary, all of it valid, or an error that names the row.

    Nothing is done with an array before its layout was checked: to decode or to join one that is damaged may crash.
    """
    if pa.types.is_dictionary(values.type):
        chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
        for chunk in chunks:
            sound.check_dictionary(chunk)
        values = pa.chunked_array([chunk.dictionary_decode() for chunk in chunks], values.type.value_type)
    if not sound.has_sound_text(values):
        row = sound.row_of_bad_text(values)
        if row is not None:
            raise _not_text(name, row)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
