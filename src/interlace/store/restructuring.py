"""Columns that are added to a store, or dropped from it, after rows were written.

All rows are written again, with the new columns, into new files; then a new manifest replaces the old one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..inputs.payload_table import arrow, as_schema, as_table
from .columns import Columns, Table
from .extras import Extras
from .rows import StoredRows
from .snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class Restructured(StoredRows):
    """The rows of a snapshot with other columns."""

    new_table: Table = None  #: of all kept rows, in insertion order

    def merged_payload(self, first: int, stop: int) -> Table:
        """New columns of the kept rows of consecutive parts."""
        kept = [removed.n - removed.count for removed in self.removed]
        return self.new_table.slice(sum(kept[:first]), sum(kept[first:stop]))


def with_columns(before: Snapshot, given: Any, payload: Any) -> Snapshot:
    """The same rows with more columns; ``payload`` has their values for all rows, in insertion order."""
    added = as_schema(given)
    old = before.columns
    for name in () if old is None else old.names:
        if name in added.names:
            raise InputError(f"columns: the store already has a column {name!r}")
    values = as_table(payload, added, len(before))
    if old is None:
        return _restructured(before, values)
    table = _verified(before).payload()
    for field in added:
        table = table.append_column(field, values.column(field.name))
    return _restructured(before, table)


def without_columns(before: Snapshot, names: Any) -> Snapshot:
    """The same rows without some columns."""
    columns = before.rows.extras.columns
    if columns is None:
        raise InputError("drop_columns: the store has no columns")
    dropped = columns.checked(names)
    left = [name for name in columns.schema.names if name not in dropped]
    if not left:
        raise InputError("drop_columns: at least one column must be left")
    return _restructured(before, _verified(before).payload(columns=left))


def _verified(before: Snapshot) -> Snapshot:
    """The same, after verifying every byte of the columns: damaged data must not get a valid checksum."""
    for part in before.rows.parts:
        if part.payload is not None:
            part.payload.verify()
    return before


def _restructured(before: Snapshot, table: Table) -> Snapshot:
    rows = before.rows
    extras = Extras(Columns.of(arrow().schema(list(table.schema))), rows.extras.originals)
    after = Restructured(rows.parts, rows.removed, rows.tail, rows.kind, extras, rows.loss, table)
    return Snapshot(before.books, after, before.next_id, before.drift, before.plan)
