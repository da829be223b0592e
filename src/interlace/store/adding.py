"""Rows that a user adds -> records of the log: encoded, with ids, columns and originals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import thread_count
from ..codec.codebooks import Codes
from ..codec.encode import check_effort, encode_rows
from ..codec.originals import Bytes, Loss
from ..errors import DuplicateIdError, InputError, PartlyAddedError, StoreError
from ..index.id_values import IdArray, as_id_array, is_id, parse_ids, shown_id
from ..inputs.arrays import FloatArray, Rows, to_numpy
from ..inputs.literals import Effort
from ..inputs.spool import yields_blocks
from ..inputs.tables import is_table
from ..progress import Progress, silent
from .columns import Columns, Table
from .drift import ErrorMeter
from .session import Session
from .snapshot import Snapshot

_END = object()


@dataclass(frozen=True)
class Insertion:
    """One call of :meth:`Store.add` or, with ``replacing``, of :meth:`Store.upsert`."""

    session: Session
    replacing: bool
    effort: Effort | None
    threads: int
    embedded: bool
    progress: Progress

    @classmethod
    def checked(
        cls, session: Session, replacing: bool, effort: Any, threads: Any, embedded: bool, progress: Progress
    ) -> Insertion:
        """Validates the options, and that the store can be written to."""
        check_effort(effort)
        workers = thread_count(threads)
        session.check_writable()
        return cls(session, replacing, effort, workers, embedded, progress)

    def insert(self, x: Any, ids: Any, payload: Any) -> IdArray:
        """Writes the rows, one block after the other if x is an iterator of blocks; returns their ids."""
        named = ids if isinstance(ids, str) and (is_table(x) or yields_blocks(x)) else None  # a column of a table
        if is_id(ids) and named is None:
            x, ids = to_numpy(x, "x")[None], [ids]
            payload = [payload] if isinstance(payload, Mapping) else payload
        space = self.session.state.snapshot.books.space
        shape = (space.dim,) if self.embedded else space.input_shape
        if yields_blocks(x) and not (isinstance(x, list | tuple) and getattr(x[0], "shape", None) == shape):
            return self._insert_blocks(x, ids, payload, named)
        rows = space.rows(x, self.embedded)
        added = self._insert_rows(rows, rows.ids(ids), self._table(payload, len(rows)), self.progress)
        self.progress("done", 1.0)
        return added

    def _table(self, payload: Any, n: int | None = None) -> Table | None:
        """Columns in the types of the store; None if the store has no columns."""
        columns = self.session.state.snapshot.rows.extras.columns
        if columns is not None:
            return columns.table(payload, n)
        if payload is not None:
            raise InputError("payload needs a store with columns: il.create(path, source, columns={...})")
        return None

    def _insert_rows(self, rows: Rows, ids: Any, table: Table | None, progress: Progress) -> IdArray:
        session, given = self.session, None if ids is None else parse_ids(ids, len(rows))
        if given is not None and not session.in_batch:
            self._rows_to_replace(session.state.snapshot, given)  # fails before minutes of encoding
        before = session.open_state.snapshot
        columns = before.rows.extras.columns
        _check_columns(table, columns)
        pieces = () if table is None or columns is None else columns.to_pieces(table)
        encoded = self._encode(rows, before, progress)  # without the lock: other threads can write in the meantime
        with session.writing() as writer:
            current = session.current
            if current.books.codebooks != before.books.codebooks:  # another thread learned new ones
                encoded = self._encode(rows, current, silent)
            _check_columns(table, current.rows.extras.columns)
            codes, originals, error, loss = encoded
            new = current.default_ids(len(rows)) if given is None else given
            replaced = self._rows_to_replace(current, new)
            if len(new):
                session.commit(writer, current.record(new, codes, replaced, pieces, originals, error, loss))
        return new

    def _insert_blocks(self, blocks: Iterable[Any], ids: Any, payload: Any, named: str | None) -> IdArray:
        table = None if payload is None else self._table(payload)
        given = None if ids is None or named is not None else as_id_array(ids, "ids")
        if given is not None:
            parse_ids(given, len(given))  # finds ids that occur twice, before the first block is written
        added: list[IdArray] = []
        n, number, iterator = 0, 0, iter(blocks)
        while True:
            try:
                if (block := next(iterator, _END)) is _END:  # inside the try: reading a block can raise InputError too
                    break
                rows = self.session.open_state.snapshot.books.space.rows(block, self.embedded)
                own_ids = rows.ids(named) if given is None else given[n : n + len(rows)]
                own_table = self._table(None, len(rows)) if table is None else _slice(table, n, len(rows))
                added.append(self._insert_rows(rows, own_ids, own_table, silent))
            except InputError as error:
                raise PartlyAddedError(
                    f"block {number} of x (from row {n}): {error}; the {n} rows before it were added", n
                ) from error
            except StoreError as error:
                if error.errno is None:  # closed, or not open for writing
                    raise
                text = f"{error.strerror or error}; the {n} rows before block {number} were added"
                raise StoreError(error.errno, text, self.session.path) from error
            n, number = n + len(rows), number + 1
            self.progress(f"{n:,} rows added", math.nan)
        if given is not None and len(given) != n:
            raise PartlyAddedError(f"ids has {len(given)} entries, but the blocks have {n} rows; all were added", n)
        if table is not None and table.num_rows > n:
            raise PartlyAddedError(f"payload has {table.num_rows} rows, but the blocks have {n}; all were added", n)
        self.progress("done", 1.0)
        return np.concatenate(added) if added else np.zeros(0, np.int64)

    def _rows_to_replace(self, current: Snapshot, ids: IdArray) -> NDArray[np.int64]:
        """The rows that have these ids; DuplicateIdError for ``add`` if there are any."""
        if len(ids):
            current.check_kind(ids)
        rows = current.rows.ids.find(ids)
        if not self.replacing and (rows >= 0).any():
            first = shown_id(ids[int(np.argmax(rows >= 0))])
            raise DuplicateIdError(f"id {first} is already in the store; upsert replaces rows")
        return rows[rows >= 0]

    def _encode(self, rows: Rows, snapshot: Snapshot, progress: Progress) -> tuple[Codes, Bytes | None, float, Loss]:
        """Codes, originals if the store keeps them, and the sums of their errors; NaN while it keeps vectors only."""
        kept: list[Bytes] = []
        loss = Loss()
        codebooks, originals, later = snapshot.books.codebooks, snapshot.rows.extras.originals, snapshot.originals
        meter = ErrorMeter(codebooks)

        def watch(block: FloatArray, codes: Codes) -> None:
            nonlocal loss
            first = sum(map(len, kept))
            if not snapshot.collecting:
                meter.measure(block, codes)
            elif later is not None:
                later.check(block, first)  # what learning could not store must not be acknowledged
            if originals is not None:
                kept.append(originals.to_bytes(block, first))
                loss += originals.loss(block, kept[-1])

        codes = encode_rows(codebooks, rows, self.threads, self.effort, progress, watch)
        error = math.nan if snapshot.collecting else meter.error
        return codes, np.concatenate(kept) if kept else None, error, loss


def _check_columns(table: Table | None, columns: Columns | None) -> None:
    """Raise InputError if another thread changed the columns of the store since the payload was read."""
    of_table, of_store = None if table is None else table.schema, None if columns is None else columns.schema
    if of_table != of_store:
        raise InputError("the columns of the store were changed while rows were added: add the rows again")


def _slice(table: Table, first: int, n: int) -> Table:
    """Columns of the rows of one block."""
    if first + n > table.num_rows:
        raise InputError(f"payload must have one entry per row, but has only {table.num_rows}")
    return table.slice(first, n)
