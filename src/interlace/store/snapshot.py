"""One immutable state of a store, with the calls of an index that only read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import cached_property, thread_count
from ..codec.codebooks import Codes
from ..codec.originals import Bytes, Loss, OriginalsFormat
from ..engine.engine import Engine
from ..engine.exact import ExactEngine
from ..engine.margins import Calibration
from ..engine.segments import Segment
from ..errors import InputError
from ..files import storage
from ..index.calibration import calibrated, calibration_vectors, sampled_rows
from ..index.id_values import IdArray, is_id
from ..index.ids import Ids
from ..index.index import Index
from ..index.searchable import Searchable
from ..index.searcher import Searcher
from ..inputs.arrays import FloatArray
from .books import StoredBooks
from .columns import Table
from .drift import Drift
from .extras import Extras
from .ids import without_padding
from .learning_plan import LearningPlan
from .records import Record
from .rows import StoredRows
from .tail import Pieces

ROWS = 4096  # ids made at a time while iterating


class Snapshot(Searchable):
    """One state of a :class:`Store`; later writes do not change it."""

    def __init__(
        self, books: StoredBooks, rows: StoredRows, next_id: int, drift: Drift, plan: LearningPlan | None = None
    ) -> None:
        self.books, self.rows, self.next_id, self.drift = books, rows, next_id, drift
        self.plan = plan  # how codebooks are learned, if the store started without

    @property
    def collecting(self) -> bool:
        """Whether the store has learned no codebooks yet: it keeps vectors, and compares these."""
        return self.plan is not None and self.plan.collecting

    @property
    def originals(self) -> OriginalsFormat | None:
        """The format in which the store keeps vectors beside codes, or will once it has codes; None: it does not."""
        if self.plan is None or not self.plan.collecting:
            return self.rows.extras.originals
        return None if self.plan.originals is None else OriginalsFormat(self.plan.originals, self.books.space.dim)

    # --- reading

    @cached_property
    def searcher(self) -> Searcher:
        """The rows of this state, ready to be searched."""
        rows, books = self.rows, self.books
        segments = (*(part.segment for part in rows.parts), *rows.tail.segments)
        if self.collecting:
            engine: Engine = ExactEngine(books.codebooks, segments, rows.ids.removed, vectors=rows.vectors)
        else:
            engine = Engine(books.codebooks, segments, rows.ids.removed, books.calibration)
        originals = None if self.originals is None else rows.vectors
        return Searcher(books.space, engine, rows.ids, originals, rows.allowed)

    def get(self, ids: Any, *, originals: bool = False) -> FloatArray:
        """See :meth:`Store.get`."""
        if not originals:
            return self.searcher.reconstruct(ids)
        kept, single = self.searcher.kept_vectors("originals=True"), is_id(ids)
        vectors = kept.take(self.rows.ids.rows_of([ids] if single else ids))
        return vectors[0] if single else vectors

    def payload(self, ids: Any = None, columns: Any = None) -> Table:
        """See :meth:`Store.payload`."""
        if self.rows.extras.columns is None:
            raise InputError("payload needs a store with columns: il.create(path, source, columns={...})")
        names = self.rows.extras.columns.checked(columns)
        if ids is None:
            rows = self.rows.ids.kept_rows()
        else:
            wanted = [ids] if is_id(ids) else without_padding(ids)
            rows = self.rows.ids.rows_of(wanted)
        return self.rows.table(names, rows)

    @property
    def columns(self) -> Any:
        """The ``pyarrow.Schema`` of the columns, or None."""
        return None if self.rows.extras.columns is None else self.rows.extras.columns.schema

    @property
    def ids(self) -> IdArray:
        """Every id in insertion order."""
        return self.rows.ids.all()

    def __len__(self) -> int:
        return self.rows.ids.n_kept

    def __contains__(self, value: object) -> bool:
        return self.rows.ids.contains(value)

    def __iter__(self) -> Iterator[int | str]:
        rows = self.rows.ids.kept_rows()
        for start in range(0, len(rows), ROWS):
            yield from self.rows.ids.take(rows[start : start + ROWS]).tolist()

    def calibrated(self, queries: Any, threads: int | None, embedded: bool) -> Calibration | None:
        """A calibration for the current rows; with originals also the re-rank depth for each recall.

        None while rows are not coded, and every search is exact.
        """
        if self.collecting:
            if queries is None:
                sampled_rows(self.searcher)
            else:
                calibration_vectors(self.searcher, queries, embedded)
            return None
        return calibrated(self.searcher, queries, thread_count(threads), embedded)

    # --- writes

    def default_ids(self, n: int) -> IdArray:
        """Ids for n rows that are added without ids."""
        if self.rows.kind == "string":
            raise InputError(f"this store has string ids; pass ids for the {n} new rows")
        if self.next_id + n > 2**63:
            raise InputError(f"{n} default ids from {self.next_id} on do not fit into int64: pass ids")
        return np.arange(self.next_id, self.next_id + n, dtype=np.int64)

    def check_kind(self, ids: IdArray) -> None:
        """Raise InputError if new ids are strings and those of the store integers, or the other way round."""
        kind = "int64" if ids.dtype == np.int64 else "string"
        if self.rows.kind and kind != self.rows.kind:
            raise InputError(f"this store has {self.rows.kind} ids, but the new ids are {kind}")

    def record(
        self,
        ids: IdArray,
        codes: Codes,
        removed_rows: NDArray[np.int64],
        pieces: Pieces = (),
        originals: Bytes | None = None,
        error: float = math.nan,
        loss: Loss = Loss(),  # noqa: B008 (frozen)
    ) -> Record:
        """A write for the log: new rows with the sum of their errors, and the rows to remove."""
        parts, rows = self.rows.ids.place(removed_rows)
        return Record(ids, codes, parts.astype(np.uint32), rows.astype(np.uint32), pieces, originals, error, loss)

    def removal(self, rows: NDArray[np.int64]) -> Record:
        """A write that only removes rows."""
        return self.record(np.zeros(0, np.int64), self.rows.tail.codes[:0], rows)

    def apply(self, record: Record) -> Snapshot:
        """The state after a write; InputError if the record does not fit this state."""
        rows, next_id, drift = self.rows, self.next_id, self.drift
        tail, kind, loss = rows.tail, rows.kind, rows.loss
        if len(record.ids):
            self.check_kind(record.ids)
            if record.codes.shape[1] != tail.codes.shape[1]:
                raise InputError(f"codes have {record.codes.shape[1]} bytes, expected {tail.codes.shape[1]}")
            if record.vectors.shape[1] != rows.extras.width or bool(record.payload) != bool(rows.extras.columns):
                raise InputError("the rows have other columns or originals than the store")
            tail = tail.adding(record.ids, record.codes, record.vectors, record.payload)
            drift = drift.adding(len(record.ids), record.error)
            loss += record.loss
            kind = "int64" if record.ids.dtype == np.int64 else "string"
            if kind == "int64":
                next_id = max(next_id, int(record.ids.max()) + 1)
        removed = [*rows.removed[:-1], rows.removed[-1].adding(np.zeros(0, np.int64), tail.n)]
        for part in sorted(set(record.parts.tolist())):  # np.unique would import numpy.ma, which slows the first open
            if part >= len(removed):
                raise InputError(f"rows of segment {part} are removed, but there are only {len(removed) - 1} segments")
            removed[part] = removed[part].adding(record.rows[record.parts == part].astype(np.int64))
        rows = dataclasses.replace(rows, removed=tuple(removed), tail=tail, kind=kind, loss=loss)
        return Snapshot(self.books, rows, next_id, drift, self.plan)

    # --- copies

    def merged(self, first: int, stop: int) -> tuple[Codes, Ids]:
        """Codes and ids of the kept rows of consecutive parts, in insertion order."""
        return self.rows.merged(first, stop)

    @property
    def extras(self) -> Extras:
        """What files that are written from this state have beside ids and codes."""
        return self.rows.extras

    @property
    def loss(self) -> Loss:
        """What the originals of these files lost when they were converted."""
        return self.rows.loss

    def merged_originals(self, first: int, stop: int) -> storage.Blocks:
        """Originals of the kept rows of consecutive parts, in the format of :attr:`extras`."""
        return self.rows.merged_originals(first, stop)

    def to_index(self) -> Index:
        """An index in memory with one segment and no removed rows."""
        if self.collecting:
            raise InputError(
                f"an index has codes, but this store of {len(self)} rows has not learned codebooks yet: call relearn()"
            )
        books = self.books
        if len(self) == 0:
            return Index.of(dataclasses.replace(books.without_rows(), originals=None))
        codes, ids = self.merged(0, len(self.rows.removed))
        if self.rows.kind == "int64" and (ids.kind != "default" or ids.first):
            ids = Ids.of(ids.all())  # default ids of an index start at 0
        engine = Engine(books.codebooks, (Segment.pack(codes, books.codebooks),), None, books.calibration)
        return Index.of(Searcher(books.space, engine, ids))

    def __reduce__(self) -> Any:
        raise TypeError("a Snapshot cannot be pickled or copied: pass the path of its store, or to_index()")
