"""What a store holds at one time: immutable, swapped as a whole, searched as an ``Index``.

A snapshot is a list of segments, the rows of the log behind them, and which rows of each were removed. An ``Index``
is a list of segments with ids, so a snapshot makes one of itself and searches that: there is no second way to search.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import cached_property, thread_count
from ..engine.calibrating import HELD_OUT_ROWS
from ..engine.margins import DEFAULT, Calibration
from ..engine.matches import Matches, SearchStats
from ..engine.searches import Searches, neighbours_of
from ..engine.searching import Allowed, calibrate
from ..engine.segments import Codes, Segment
from ..engine.tombstones import Tombstones
from ..errors import DamagedFileError, InputError
from ..files import storage
from ..index.ids import IdArray, Ids, is_id
from ..index.index import Index
from ..inputs.arrays import FloatArray, normalize, positive
from ..inputs.literals import Margin
from .columns import Columns, Table, arrow, check_text, taken
from .drift import Drift
from .extras import Extras
from .filters import Remembered, as_expression, columns_of, is_expression, qualifying
from .ids import JoinedIds, joined, without_padding
from .log import Record
from .originals import Bytes, KeptVectors, in_parts
from .parts import Part
from .recall import effort, measured
from .reranking import rerank as reranked
from .tail import Pieces, Tail

ROWS = 4096  # ids made at a time while iterating
FILTERS = 4  # expressions that are remembered
ANSWERS = 1 << 22  # rows found by code at a time, to be looked at again


class Snapshot(Searches):
    """One state of a :class:`Store`, which stays as it is while the store goes on."""

    def __init__(
        self,
        books: Index,
        parts: tuple[Part, ...],
        removed: tuple[Tombstones, ...],  # of each part, and of the tail
        tail: Tail,
        kind: str,
        next_id: int,
        extras: Extras,
        drift: Drift | None = None,
    ) -> None:
        self.books, self.parts, self.removed, self.tail = books, parts, removed, tail
        self.kind, self.next_id, self.extras = kind, next_id, extras
        self.drift = Drift() if drift is None else drift
        self._filters = Remembered(FILTERS)

    # --- reading

    @cached_property
    def ids_of_rows(self) -> JoinedIds:
        """Row numbers <-> ids, through all segments."""
        each = [*(part.ids for part in self.parts), self.tail.ids]
        return JoinedIds(list(zip(each, self.removed, strict=True)), self.kind)

    @cached_property
    def index(self) -> Index:
        """The same as an index; it must not be changed."""
        return self.new_index()

    def new_index(self) -> Index:
        """Another such index."""
        segments = (*(part.segment for part in self.parts), *self.tail.segments)
        books = self.books
        return Index.of_parts(books.codebooks, books.embedding, segments, self.ids_of_rows, books._calibration)

    def search(
        self,
        q: Any,
        k: int = 10,
        *,
        offset: int = 0,
        margin: Margin = DEFAULT,
        threads: int | None = None,
        filter: Any = None,
        embedded: bool = False,
        rerank: int | None = None,
        recall: float | None = None,
    ) -> Matches:
        """See :meth:`Store.search`."""
        if rerank is None and recall is None:
            allowed = self._allowed(filter)
            return self.index.search(
                q, k, offset=offset, margin=margin, threads=threads, filter=allowed, embedded=embedded
            )
        k, offset = positive(k, "k"), positive(offset, "offset", least=0)
        if recall is not None:
            self._kept("recall")
            if rerank is not None:
                raise InputError("recall chooses the depth of the re-rank: pass recall or rerank, not both")
            if margin != DEFAULT:
                raise InputError(f"recall chooses the margin: pass recall or margin, not both (margin was {margin!r})")
            margin, rerank = effort(recall, k + offset, len(self), self.books._calibration)
        depth = positive(rerank, "rerank")
        found = self._reranked(q, k + offset, depth, margin, threads, self._allowed(filter), embedded)
        return found if not offset else _after(found, offset)

    def search_by_id(
        self,
        ids: Any,
        k: int = 10,
        *,
        exclude_self: bool = True,
        offset: int = 0,
        margin: Margin = DEFAULT,
        threads: int | None = None,
        filter: Any = None,
        rerank: int | None = None,
        recall: float | None = None,
    ) -> Matches:
        """See :meth:`Store.search_by_id`."""
        how: dict[str, Any] = {"margin": margin, "threads": threads, "filter": filter}
        if rerank is None and recall is None:
            return super().search_by_id(ids, k, exclude_self=exclude_self, offset=offset, **how)
        self._kept("recall" if rerank is None else "rerank")
        if rerank is not None:
            how["rerank"] = positive(rerank, "rerank") + exclude_self  # the row itself is none of them

        def search(vectors: FloatArray, k: int, offset: int) -> Matches:
            return self.search(vectors, k, offset=offset, embedded=True, recall=recall, **how)

        return neighbours_of(ids, k, offset, exclude_self, lambda own: self.get(own, originals=True), search)

    def _searched(self) -> Index:
        return self.index

    def _allowed(self, filter: Any) -> Any:
        """Expressions as rows, ready to be searched; the last few are remembered. Other filters as they are."""
        if not is_expression(filter):
            return filter
        found = self._filters.get(filter)
        if found is None:
            mask = self._qualifying(as_expression(filter, self.extras.columns)).view(np.uint8)
            index = self.index
            found = Allowed.of(index.codebooks, index._segments, index._ids, mask)
            self._filters.put(filter, found)
        return found

    @cached_property
    def _numbered(self) -> Index:
        return self._numbering(self.index, self.books._calibration)

    def _numbering(self, index: Index, calibration: Calibration | None) -> Index:
        """The same index with row numbers in the place of ids, for hits that are looked at again."""
        ids = Ids.default(index._ids.n)
        ids.removed = index._ids.removed
        deep = None if calibration is None else dataclasses.replace(calibration, deep=True)
        return Index.of_parts(index.codebooks, index.embedding, index._segments, ids, deep)

    def _qualifying(self, expression: Any) -> NDArray[np.bool_]:
        """A mask over all rows; segment by segment, and segments remember their part of it."""
        masks = [part.qualifying(expression) for part in self.parts]
        if self.tail.n:
            self._check_tail_text(columns_of(expression, self._columns))
            masks.append(qualifying(expression, self._tail_table))
        masks = [mask & dead.kept() if dead.count else mask for mask, dead in zip(masks, self.removed, strict=False)]
        return np.concatenate(masks) if masks else np.zeros(0, np.bool_)

    def _reranked(
        self, q: Any, k: int, depth: int, margin: Margin, threads: int | None, filter: Any, embedded: bool
    ) -> Matches:
        kept = self._kept("rerank")
        if depth < k:
            raise InputError(f"rerank is how many rows are compared with their originals: at least k={k}, got {depth}")
        queries, single = self.index._queries(q, embedded)
        allowed = None
        if filter is not None:
            allowed = dataclasses.replace(self.index.allow(filter), ids=self._numbered._ids)
        depth, metric = min(depth, max(k, len(self))), self.books.metric
        rows, distances = np.full((len(queries), k), -1, np.int64), np.full((len(queries), k), np.inf, np.float32)
        counts, stats = np.zeros(len(queries), np.int64), list[SearchStats]()
        step = max(1, ANSWERS // depth)
        for start in range(0, max(1, len(queries)), step):
            part = slice(start, start + step)
            found = self._numbered.search(
                queries[part], depth, margin=margin, threads=threads, filter=allowed, embedded=True
            )
            started = time.perf_counter()
            unit = normalize(queries[part], name="queries", first_row=start) if metric == "cosine" else queries[part]
            rows[part], distances[part] = reranked(kept, unit, found.ids, k, metric)
            counts[part] = np.minimum(found.counts, k)
            seconds = found.stats.seconds + time.perf_counter() - started
            stats.append(dataclasses.replace(found.stats, seconds=seconds, reranked=int(found.counts.sum())))
        ids, whole = self.ids_of_rows.take(rows), SearchStats.summed(stats)
        if single:
            return Matches(ids[0], distances[0], int(counts[0]), whole, metric)
        return Matches(ids, distances, counts, whole, metric)

    def get(self, ids: Any, *, originals: bool = False) -> FloatArray:
        """See :meth:`Store.get`."""
        if not originals:
            return self.index.reconstruct(ids)
        kept, single = self._kept("originals=True"), is_id(ids)
        vectors = kept.take(self.ids_of_rows.rows_of([ids] if single else ids))
        return vectors[0] if single else vectors

    def _kept(self, what: str) -> KeptVectors:
        if self.extras.originals is None:
            raise InputError(f"{what} needs kept originals: il.create(path, source, originals='float16')")
        for part in self.parts:
            if part.originals_file is not None:
                part.originals_file.check_size()
        return self.vectors

    @cached_property
    def vectors(self) -> KeptVectors:
        """Originals of all rows, removed ones included, where they are kept."""
        assert self.extras.originals is not None
        return KeptVectors(self.extras.originals, [*(part.originals for part in self.parts), self.tail.originals])

    def payload(self, ids: Any = None, columns: Any = None) -> Table:
        """See :meth:`Store.payload`."""
        if self.extras.columns is None:
            raise InputError("the store has no columns; il.create takes columns=")
        names = self.extras.columns.checked(columns)
        if ids is None:
            rows = self.ids_of_rows.kept_rows()
        else:
            wanted = [ids] if is_id(ids) else without_padding(ids)
            rows = self.ids_of_rows.rows_of(wanted)
        table = taken([*(part.table(names) for part in self.parts), self._tail_table.select(names)], rows)
        unsound = self._tail_columns[1].intersection(names).union(*(part.unsound(names) for part in self.parts))
        check_text(table, unsound, lambda row: self.ids_of_rows.take(rows[row : row + 1])[0])
        return table

    @property
    def columns(self) -> Any:
        """The ``pyarrow.Schema`` of the columns, or None."""
        return None if self.extras.columns is None else self.extras.columns.schema

    @property
    def _columns(self) -> Columns:
        assert self.extras.columns is not None
        return self.extras.columns

    @cached_property
    def _tail_columns(self) -> tuple[Table, frozenset[str]]:
        """Columns of the rows of the log, and which of them are unsound."""
        return self.tail.table(self._columns)

    @property
    def _tail_table(self) -> Table:
        return self._tail_columns[0]

    def _check_tail_text(self, names: Sequence[str]) -> None:
        """Raise unless all strings of these columns are UTF-8, in the rows of the log."""
        table, unsound = self._tail_columns
        check_text(table, unsound.intersection(names), lambda row: self.tail.ids.take(np.array([row]))[0])

    @property
    def ids(self) -> IdArray:
        """Every id in the order of insertion."""
        return self.ids_of_rows.all()

    def __len__(self) -> int:
        return self.ids_of_rows.n_kept

    def __contains__(self, value: object) -> bool:
        return self.ids_of_rows.contains(value)

    def __iter__(self) -> Iterator[int | str]:
        rows = self.ids_of_rows.kept_rows()
        for start in range(0, len(rows), ROWS):
            yield from self.ids_of_rows.take(rows[start : start + ROWS]).tolist()

    def calibrated(self, queries: Any, threads: int | None, embedded: bool) -> Calibration:
        """A calibration for the rows of now; with originals also how deep a re-rank must go for a recall."""
        index = self.new_index()  # of its own: that of the snapshot may be searched right now
        if self.extras.originals is None or len(self) == 0:
            index.calibrate(queries, threads=threads, embedded=embedded)
            assert index._calibration is not None
            return index._calibration
        own = None
        if queries is None:
            own = np.sort(np.random.default_rng(0).choice(len(self), min(len(self), HELD_OUT_ROWS), replace=False))
            own = self.ids_of_rows.kept_rows()[own]
            vectors = self.vectors.take(own)
            found = calibrate(index.codebooks, index._segments, vectors, own, thread_count(threads))
        else:
            index.calibrate(queries, threads=threads, embedded=embedded)
            vectors, _ = index._queries(queries, embedded)
            assert index._calibration is not None
            found = index._calibration
        if self.books.metric == "cosine":
            vectors = normalize(vectors, name="queries")
        removed = None if self.ids_of_rows.removed is None else ~self.ids_of_rows.removed.kept()
        recalls = measured(self._numbering(index, found), self.vectors, vectors, own, removed, threads)
        return dataclasses.replace(found, recalls=recalls)

    # --- what comes next

    def default_ids(self, n: int) -> IdArray:
        """The next n ids, for rows that come without."""
        if self.kind == "string":
            raise InputError(f"this store has string ids; pass ids for the {n} new rows")
        if self.next_id + n > 2**63:
            raise InputError(f"default ids go on from {self.next_id}, and int64 ends before {n} more: pass ids")
        return np.arange(self.next_id, self.next_id + n, dtype=np.int64)

    def check_kind(self, ids: IdArray) -> None:
        """All ids of a store are integers, or all are strings."""
        came = "int64" if ids.dtype == np.int64 else "string"
        if self.kind and came != self.kind:
            raise InputError(f"this store has {self.kind} ids, the new ones are {came}")

    def record(
        self,
        ids: IdArray,
        codes: Codes,
        removed_rows: NDArray[np.int64],
        pieces: Pieces = (),
        originals: Bytes | None = None,
        error: float = math.nan,
    ) -> Record:
        """A write, as the log has it: new rows with the sum of their errors, and the numbers of rows to remove."""
        parts, rows = self.ids_of_rows.place(removed_rows)
        return Record(ids, codes, parts.astype(np.uint32), rows.astype(np.uint32), pieces, originals, error)

    def apply(self, record: Record) -> Snapshot:
        """The state after a write; one that cannot be raises InputError."""
        tail, kind, next_id, drift = self.tail, self.kind, self.next_id, self.drift
        if len(record.ids):
            self.check_kind(record.ids)
            if record.codes.shape[1] != tail.codes.shape[1]:
                raise InputError(f"codes of {record.codes.shape[1]} bytes, {tail.codes.shape[1]} expected")
            if record.vectors.shape[1] != self.extras.width or bool(record.payload) != bool(self.extras.columns):
                raise InputError("rows with other columns or originals than those of the store")
            tail = tail.adding(record.ids, record.codes, record.vectors, record.payload)
            drift = drift.adding(len(record.ids), record.error)
            kind = "int64" if record.ids.dtype == np.int64 else "string"
            if kind == "int64":
                next_id = max(next_id, int(record.ids.max()) + 1)
        removed = [*self.removed[:-1], self.removed[-1].adding(np.zeros(0, np.int64), tail.n)]
        for part in sorted(set(record.parts.tolist())):  # np.unique would import numpy.ma, at every first open
            if part >= len(removed):
                raise InputError(f"rows of segment {part} removed, there are {len(removed) - 1}")
            removed[part] = removed[part].adding(record.rows[record.parts == part].astype(np.int64))
        return Snapshot(self.books, self.parts, tuple(removed), tail, kind, next_id, self.extras, drift)

    # --- copies of rows

    def merged(self, first: int, stop: int) -> tuple[Codes, Ids]:
        """Codes and ids of what is kept of consecutive parts (the last one is the tail), in the order of insertion."""
        ids = [*(part.ids for part in self.parts), self.tail.ids]
        masks = {i: self.removed[i].kept() for i in range(first, stop)}
        masks = {i: mask for i, mask in masks.items() if mask.any()}
        codes = np.concatenate([self._codes(i)[mask] for i, mask in masks.items()])
        return codes, joined([(ids[i], np.flatnonzero(mask)) for i, mask in masks.items()], self.kind)

    def merged_payload(self, first: int, stop: int) -> Table:
        """Columns of the same rows."""
        tables = []
        for i in range(first, stop):
            in_log = i == len(self.parts)
            table = self._tail_table if in_log else self.parts[i].whole_table()
            unsound = self._tail_columns[1] if in_log else self.parts[i].unsound()
            kept, ids = self.removed[i].kept(), self.tail.ids if in_log else self.parts[i].ids
            table = table.filter(kept) if self.removed[i].count else table
            check_text(table, unsound, _id_of(ids, kept))
            tables.append(table)
        return arrow().concat_tables(tables)

    def merged_originals(self, first: int, stop: int) -> storage.Blocks:
        """Originals of the same rows, block by block: they may be larger than memory."""
        for part in self.parts[first:stop]:
            if part.originals_file is not None:
                part.originals_file.verify()  # what is damaged must not get a new checksum

        def blocks() -> Iterator[Bytes]:
            for i in range(first, stop):
                rows = self.parts[i].originals if i < len(self.parts) else self.tail.originals
                yield from in_parts(rows, np.flatnonzero(self.removed[i].kept()) if self.removed[i].count else None)

        n = sum(self.removed[i].n - self.removed[i].count for i in range(first, stop))
        return storage.Blocks(np.dtype(np.uint8), (n, self.extras.width), blocks)

    def verify_tail(self) -> None:
        """Raise unless columns and originals of the rows of the log can be read."""
        if self.extras.columns is not None:
            self._check_tail_text(self.extras.columns.checked(None))
        if self.extras.originals is not None:
            try:
                self.extras.originals.verify(self.tail.originals)
            except ValueError as error:
                raise DamagedFileError(f"the log of a store holds an original with {error}") from error

    def _codes(self, part: int) -> Codes:
        if part == len(self.parts):
            return self.tail.codes
        self.parts[part].file.verify()  # what is damaged must not get a new checksum
        return self.parts[part].segment.unpack()

    def __reduce__(self) -> Any:
        raise TypeError("a Snapshot is not pickled or copied: pass the path of its store, or what to_index() makes")

    def to_index(self) -> Index:
        """An index of its own, with one segment and no removed rows."""
        books = self.books
        if len(self) == 0:
            return Index.of_parts(books.codebooks, books.embedding, (), Ids.default(0), books._calibration)
        codes, ids = self.merged(0, len(self.removed))
        if self.kind == "int64" and (ids.kind != "default" or ids.first):
            ids = Ids.of(ids.all())  # an index knows runs from 0 only
        segment = Segment.pack(codes, books.codebooks)
        return Index.of_parts(books.codebooks, books.embedding, (segment,), ids, books._calibration)


def _id_of(ids: Ids, kept: NDArray[np.bool_]) -> Callable[[int], Any]:
    """The id of a row, numbered among the kept ones."""
    return lambda row: ids.take(np.flatnonzero(kept)[row : row + 1])[0]


def _after(found: Matches, offset: int) -> Matches:
    """Without the first hits."""
    counts = np.maximum(np.asarray(found.counts) - offset, 0)
    return dataclasses.replace(
        found,
        ids=found.ids[..., offset:],
        distances=found.distances[..., offset:],
        counts=counts if counts.ndim else int(counts),
    )
