"""Payload columns of a store, with Arrow types.

pyarrow is imported when a column is first read or written; opening a store does not need it. In the log, columns are
record batches; in a segment, they are the bytes of an Arrow IPC file, which is memory-mapped. Arrow does not check the
offsets that it reads, so columns are validated before they are used (``inputs/arrow_validation.py``): those of a user
before anything is written, those of a file before they are read. Versions up to 0.1.0 wrote strings that are not valid
UTF-8. Columns with such strings are *unsound*: their rows are checked each time they are read.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import ForkLock, cached_property
from ..errors import DamagedFileError, InputError
from ..files import storage
from ..index.id_values import shown_id
from ..inputs import arrow_validation
from ..inputs.payload_table import arrow, as_schema, as_table, describe_schema, invalid_text
from . import arrow_ipc

Table = Any  # pyarrow.Table
Rows = NDArray[np.int64]

#: Largest number of chunks of a column of the log: each chunk slows filters down.
MOST_CHUNKS = 32
#: Name of the section with the bytes of an Arrow file.
SECTION = "arrow"


def check_arrow() -> None:
    """Raise an error if pyarrow is not installed, without importing it."""
    from importlib.util import find_spec

    if find_spec("pyarrow") is None:
        arrow()


class Columns:
    """The schema of the columns of a store, and conversion of tables to bytes and back."""

    def __init__(self, text: str) -> None:
        self.text = text  # for the manifest: the serialized Arrow schema in base64

    @classmethod
    def of(cls, given: Any) -> Columns:
        """From a ``pyarrow.Schema``, or names and types such as ``{"price": "float32"}``."""
        schema = as_schema(given)
        made = cls(base64.b64encode(schema.serialize().to_pybytes()).decode())
        made.__dict__["schema"] = schema
        return made

    @cached_property
    def schema(self) -> Any:
        """``pyarrow.Schema``."""
        pa = arrow()
        try:
            return as_schema(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(self.text, validate=True))))
        except (pa.ArrowException, ValueError, OSError, EOFError) as error:
            raise DamagedFileError(f"the schema of the columns in a manifest cannot be read: {error}") from error

    def __str__(self) -> str:
        return describe_schema(self.schema)

    def checked(self, names: Any) -> list[str]:
        """Column names; None: all. InputError for an unknown one."""
        if names is None:
            return list(self.schema.names)
        listed = [names] if isinstance(names, str) else list(names)
        for name in listed:
            if name not in self.schema.names:
                raise InputError(f"columns: there is no column {name!r}; the store has {self}")
        return listed

    # --- what users pass

    def table(self, payload: Any, n: int | None) -> Table:
        """A user's payload for n rows (None: any number), in the types of the store."""
        return as_table(payload, self.schema, n)

    # --- bytes of a log

    def to_pieces(self, table: Table) -> tuple[bytes, ...]:
        """Record batches for the log, without the schema."""
        batches = table.combine_chunks().to_batches()  # several if the text is too long for 32-bit offsets
        pieces = tuple(batch.serialize().to_pybytes() for batch in batches if batch.num_rows)
        # Validated again: the table can share memory with the user's arrays, which another thread may have changed.
        try:
            bad = bad_text(*self.of_pieces(pieces, table.num_rows))
        except DamagedFileError as error:
            raise InputError(f"payload was changed by another thread while it was added: {error}") from error
        if bad is not None:
            raise invalid_text(f"payload column {bad[0]!r}", bad[1])
        return pieces

    def of_pieces(self, pieces: Iterable[bytes], n: int) -> tuple[Table, frozenset[str]]:
        """Inverse of :meth:`to_pieces` for n rows, and the names of unsound columns."""
        pa = arrow()
        try:
            batches = [arrow_ipc.batch_in(piece, self.schema) for piece in pieces]
            found = sum(batch.num_rows for batch in batches)
            if found != n:
                raise ValueError(f"columns have {found} rows, expected {n}")
            table = pa.Table.from_batches(batches, schema=self.schema)
            unsound = [name for name in table.schema.names if not arrow_validation.has_valid_text(table.column(name))]
            return table.combine_chunks(), frozenset(unsound)
        except (pa.ArrowException, ValueError, OSError, EOFError) as error:
            raise DamagedFileError(f"columns in the log of a store cannot be read: {error}") from error

    def joined(self, tables: Sequence[Table]) -> Table:
        """Concatenate tables; chunks are merged when there are many, so that rows are not copied each time."""
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
    """The columns of one segment, memory-mapped. Each column is validated when it is first read."""

    def __init__(self, columns: Columns, file: storage.File, n: int) -> None:
        self.columns, self.file, self.n = columns, file, n
        self._validated: set[str] = set()
        self._unsound: set[str] = set()  # validated columns with strings that are not UTF-8
        self._lock = ForkLock()

    @cached_property
    def _table(self) -> Table:
        pa, columns = arrow(), self.columns
        try:
            table = arrow_ipc.table_in(self.file.array(SECTION), columns.schema)
            if table.num_rows != self.n:
                raise ValueError(f"{table.num_rows} rows, but the manifest says {self.n}")
        except (pa.ArrowException, ValueError, OSError, EOFError) as error:
            raise self._damaged(error) from error
        return table

    def table(self, names: Sequence[str] | None = None) -> Table:
        """These columns (None: all), validated."""
        table, pa = self._table, arrow()
        names = table.schema.names if names is None else names
        with self._lock:
            for name in sorted(set(names) - self._validated):
                try:
                    if not arrow_validation.has_valid_text(table.column(name)):
                        self._unsound.add(name)
                except (pa.ArrowException, ValueError) as error:
                    raise self._damaged(error) from error
                self._validated.add(name)
        return table.select(list(names))

    def unsound(self, names: Iterable[str]) -> set[str]:
        """Those of these columns, already read by :meth:`table`, that have strings which are not UTF-8."""
        return self._unsound.intersection(names)

    def whole(self) -> Table:
        """All columns. Read only those that :meth:`table` has validated."""
        return self._table

    def verify(self) -> None:
        """Validate every byte and every value."""
        self.file.verify()
        self.table()

    def _damaged(self, error: Exception) -> DamagedFileError:
        return DamagedFileError(f"{self.file.path!r} is damaged: its columns cannot be read: {error}")


def bad_text(table: Table, unsound: Iterable[str]) -> tuple[str, int] | None:
    """The first of these columns with a string that is not UTF-8, and the row."""
    for name in sorted(unsound):
        row = arrow_validation.first_invalid_row(table.column(name))
        if row is not None:
            return name, row
    return None


def check_text(table: Table, unsound: Iterable[str], id_of: Callable[[int], Any]) -> None:
    """Raise DamagedFileError if a string of these columns is not UTF-8; ``id_of`` gives the id of a row."""
    bad = bad_text(table, unsound)
    if bad is not None:
        raise DamagedFileError(
            f"column {bad[0]!r} of the row with id {shown_id(id_of(bad[1]))} is not valid UTF-8 (versions up to "
            "0.1.0 did not check this): remove the row or replace it with upsert, then call compact()"
        )


def taken(tables: Sequence[Table], rows: Rows) -> Table:
    """Some rows, in any order, of consecutive tables; other rows are not read."""
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
