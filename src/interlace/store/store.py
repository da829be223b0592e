"""The store: an index in a directory that lives. Rows come and go, processes end at any moment, nothing is lost.

Inside the process one mutex lets one write through at a time. Searches take no lock: they use the snapshot that was
there when they began. How a write gets to the disk is told in ``writer.py``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._threads import ForkLock, thread_count
from ..codec.codebooks import Codebooks, Codes
from ..codec.encode import EFFORTS, encode_rows
from ..errors import (
    DuplicateIdError,
    InputError,
    PartlyAddedError,
    RelearnWarning,
    StoreError,
    UnknownIdError,
    warn_user,
)
from ..index.id_values import IdArray, as_id_array, is_id, parse_ids, shown_id
from ..inputs.arrays import FloatArray, Rows, to_numpy
from ..inputs.literals import Effort, Missing
from ..inputs.spool import yields_blocks
from ..progress import Progress, as_progress, silent
from .columns import Table
from .drift import Drift, Meter
from .extras import Extras
from .files import Folder
from .loading import State, load
from .log import Record
from .originals import Bytes
from .reading import Reading
from .relearning import relearned
from .snapshot import Snapshot
from .writer import Writer

_END = object()
_NOTHING: NDArray[np.int64] = np.zeros(0, np.int64)


class Store(Reading):
    """Vectors coded by :class:`Codebooks` in a directory: added, replaced and removed by id, and searched meanwhile.

    ``il.create(path, ...)`` makes one, ``il.open(path)`` opens it for reading, ``il.open(path, mode="a")`` for writing
    too. One process writes at a time; any number of others read, each the state of its last :meth:`refresh`.

    :meth:`add`, :meth:`upsert` and :meth:`remove` are durable when they return: neither the end of the process nor that
    of the machine undoes them. Inside ``with store.batch():`` they are when the block ends.
    """

    def __init__(self, folder: str, source: State | Writer) -> None:
        self.path = folder
        self._source = source  # what was read, or the writer, which has the state of its last write
        self._closed = False
        self._mutex = ForkLock()
        self._working: Snapshot | None = None  # inside a batch: what was written so far
        self._pending: list[Record] = []
        self._warned = False  # that re-learning is due

    # --- its state

    @property
    def _state(self) -> State:
        source = self._source  # close() may put another in its place
        return source if isinstance(source, State) else source.state

    @property
    def _folder(self) -> str | Folder:
        source = self._source
        return self.path if isinstance(source, State) else source.folder

    @property
    def mode(self) -> str:
        """``r`` or ``a``."""
        return "a" if isinstance(self._source, Writer) else "r"

    def refresh(self) -> bool:
        """See what others have written since; whether there was anything. A writer sees its own writes anyway.

        A reader follows its path: after a backup of this store was put there, it sees the state of the backup. Where
        the path leads to another store there is a :class:`StoreError`, and the reader stays as it is.
        """
        with self._mutex:
            self._check_open()
            if not isinstance(self._source, State):
                return False
            before = self._source
            self._source = load(self.path, known=before)
            return self._source is not before

    # --- writing

    def add(
        self,
        x: Any,
        ids: Any = None,
        *,
        payload: Any = None,
        effort: Effort | None = None,
        threads: int | None = None,
        progress: Progress = silent,
        embedded: bool = False,
    ) -> IdArray:
        """Code and append rows; their ids. All of them are added, or, after an error, none.

        Without ``ids``, rows get the integers that follow the largest id that ever was. An id that is here already is
        refused. x may be an iterator of blocks of any length: then each block is a write of its own, and an error names
        how many rows were added before it. One row alone, with a single id, is taken too.

        ``payload`` has the columns of the rows: a table, a dict of arrays, a list of dicts, a data frame; for one row
        with a single id a dict of values. What it leaves out is null.
        """
        return self._put(x, ids, payload, False, effort, threads, progress, embedded)

    def upsert(
        self,
        x: Any,
        ids: Any,
        *,
        payload: Any = None,
        effort: Effort | None = None,
        threads: int | None = None,
        progress: Progress = silent,
        embedded: bool = False,
    ) -> IdArray:
        """As :meth:`add`, but rows take the place of those that have their ids already.

        A row that replaces another counts as new: among equal distances it comes last, and its columns are those of
        ``payload`` alone.
        """
        if ids is None:
            raise InputError("upsert needs ids: add(x) gives new ones")
        return self._put(x, ids, payload, True, effort, threads, progress, embedded)

    def remove(self, ids: Any, *, missing: Missing = "raise") -> int:
        """Remove rows; how many. An id that is not here is an error that removes nothing, or ``missing="ignore"``."""
        if missing not in ("raise", "ignore"):
            raise InputError(f"missing must be 'raise' or 'ignore', got {missing!r}")
        wanted = as_id_array([ids] if is_id(ids) else ids, "ids")
        wanted = wanted[np.sort(np.unique(wanted, return_index=True)[1])]  # each once, in the order given
        with self._writing() as writer:
            current = self._current
            rows = current.ids_of_rows.find(wanted)
            if missing == "raise" and (rows < 0).any():
                first = shown_id(wanted[int(np.argmin(rows >= 0))])
                raise UnknownIdError(f"id {first} is not in the store ({int((rows < 0).sum())} of {len(rows)} unknown)")
            rows = rows[rows >= 0]
            if len(rows):
                self._commit(writer, current.record(_NOTHING, current.tail.codes[:0], rows))
            return len(rows)

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Many writes in one: durable, and visible to searches, when the block ends; after a crash all of them or none.

        It is no transaction: after an error inside, what was written before it is kept, as without a batch. Writes of
        other threads wait until the block ends.
        """
        with self._writing() as writer:
            if self._working is not None:  # inside another one, which ends later
                yield
                return
            before = self._working = self._state.snapshot
            try:
                yield
            finally:
                after, pending = self._working, self._pending
                self._working, self._pending = None, []
                if pending:
                    writer.write(Record.joined(pending), after)
                    self._warn(before.drift)

    def compact(self) -> None:
        """Give back the space of removed rows, and merge all segments into one.

        Searches go on meanwhile; writes wait. It happens by itself for segments that lost many rows (``limits``).
        """
        with self._writing() as writer:
            self._check_no_batch("compact()")
            snapshot = self._state.snapshot
            compact = len(snapshot.parts) <= 1 and not snapshot.tail.n and snapshot.ids_of_rows.removed is None
            if not compact or writer.doubtful:
                writer.checkpoint(snapshot, everything=True)

    def calibrate(self, queries: Any = None, *, threads: int | None = None, embedded: bool = False) -> None:
        """Make the calibration of ``margin`` for the rows of now, and keep it; see :meth:`Index.calibrate`.

        Where originals are kept, they are the queries if none are given, and ``recall`` is measured against them: the
        true neighbours of up to 256 queries, each by a pass over all originals.
        """
        with self._writing() as writer:
            self._check_no_batch("calibrate()")
            snapshot = self._state.snapshot
            calibration = snapshot.calibrated(queries, threads, embedded)
            writer.checkpoint(snapshot, books=snapshot.books.without_rows(calibration))

    def relearn(self, *, progress: Any = "auto", **settings: Any) -> None:
        """Learn new books from the kept originals, code all rows by them, and calibrate: when rows have drifted.

        ``settings`` are those of :class:`interlace.ICQ`; bytes and layout stay unless given. Books of PQ, OPQ and CQ
        are learned by that method again, and take its settings, unless there is a ``layout``. Searches go on with the
        old books meanwhile, writes wait. Books and codes take the place of the old ones in one step: after an error,
        Ctrl-C or a crash before it the store is what it was, and for readers it is until they refresh. What ends the
        calibration that follows leaves searches exact. Books learned from labels are replaced by books without: the
        embedding stays.
        """
        said = as_progress(progress)
        with self._writing() as writer:
            self._check_no_batch("relearn()")
            after = relearned(self._state.snapshot, settings, lambda what, done: said(f"learning: {what}", 0.7 * done))
            said("coding", 0.7)
            writer.checkpoint(after, everything=True, anew=True, books=after.books)
            said("calibrating", 0.9)
            self.calibrate(threads=settings.get("threads"))
        said("done", 1.0)

    def close(self) -> None:
        """Let another process write. Nothing is held back for this: what was written is on disk already."""
        with self._mutex:
            self._check_no_batch("close()")
            self._closed = True
            if isinstance(self._source, Writer):
                self._source.close()
                self._source = self._source.state

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- how a write happens

    def _put(
        self,
        x: Any,
        ids: Any,
        payload: Any,
        replacing: bool,
        effort: Effort | None,
        threads: int | None,
        progress: Progress,
        embedded: bool,
    ) -> IdArray:
        if effort is not None and effort not in EFFORTS:
            raise InputError(f"effort must be one of {', '.join(EFFORTS)}, got {effort!r}")
        workers, books = thread_count(threads), self.snapshot.books
        self._check_writable()
        if is_id(ids):
            x, ids = to_numpy(x, "x")[None], [ids]
            payload = [payload] if isinstance(payload, Mapping) else payload
        shape = (books.dim,) if embedded else books.input_shape
        if yields_blocks(x) and not (isinstance(x, list | tuple) and getattr(x[0], "shape", None) == shape):
            return self._put_blocks(x, ids, payload, replacing, effort, workers, embedded)
        rows = books.searcher.space.rows(x, embedded)
        return self._put_rows(rows, ids, self._table(payload, len(rows)), replacing, effort, workers, progress)

    def _table(self, payload: Any, n: int | None = None) -> Table | None:
        """Columns in the types of the store; None where it has none."""
        columns = self._state.snapshot.extras.columns
        if columns is not None:
            return columns.table(payload, n)
        if payload is not None:
            raise InputError("payload is for a store that has columns; il.create takes columns=")
        return None

    def _put_rows(
        self,
        rows: Rows,
        ids: Any,
        table: Table | None,
        replacing: bool,
        effort: Effort | None,
        workers: int,
        progress: Progress = silent,
    ) -> IdArray:
        given = None if ids is None else parse_ids(ids, len(rows))
        if given is not None and self._working is None:
            self._check_ids(self._state.snapshot, given, replacing)  # before minutes of coding
        extras, codebooks = self._state.snapshot.extras, self.codebooks
        pieces = () if table is None or extras.columns is None else extras.columns.to_pieces(table)
        coded = _coded(rows, codebooks, extras, workers, effort, progress)  # other threads may write meanwhile
        with self._writing() as writer:
            current = self._current
            if current.books.codebooks != codebooks:  # or learn other books
                coded = _coded(rows, current.books.codebooks, extras, workers, effort, progress)
            codes, originals, error = coded
            new = current.default_ids(len(rows)) if given is None else given
            taken = self._check_ids(current, new, replacing)
            if len(new):
                self._commit(writer, current.record(new, codes, taken, pieces, originals, error))
            if self._working is None:
                self._warn(current.drift)
        progress("done", 1.0)
        return new

    def _put_blocks(
        self,
        blocks: Iterable[Any],
        ids: Any,
        payload: Any,
        replacing: bool,
        effort: Effort | None,
        workers: int,
        embedded: bool,
    ) -> IdArray:
        whole = None if payload is None else self._table(payload)
        given = None if ids is None else as_id_array(ids, "ids")
        if given is not None:
            parse_ids(given, len(given))  # none twice: in different blocks that would not be noticed before the second
        done: list[IdArray] = []
        n, number, iterator = 0, 0, iter(blocks)
        while True:
            try:
                if (block := next(iterator, _END)) is _END:  # an iterator that finds its source bad is no other case
                    break
                rows = self.snapshot.books.searcher.space.rows(block, embedded)
                mine = None if given is None else given[n : n + len(rows)]
                table = self._table(None, len(rows)) if whole is None else _part(whole, n, len(rows))
                done.append(self._put_rows(rows, mine, table, replacing, effort, workers))
            except InputError as error:
                raise PartlyAddedError(
                    f"block {number} of x (from row {n}): {error}; the {n} rows before it were added", n
                ) from error
            except StoreError as error:
                if error.errno is None:  # closed, or not open for writing
                    raise
                text = f"{error.strerror or error}; the {n} rows before block {number} were added"
                raise StoreError(error.errno, text, self.path) from error
            n, number = n + len(rows), number + 1
        if given is not None and len(given) != n:
            raise PartlyAddedError(f"ids has {len(given)} entries, the blocks {n} rows, all of which were added", n)
        if whole is not None and whole.num_rows > n:
            raise PartlyAddedError(f"payload has {whole.num_rows} rows, the blocks {n}, all of which were added", n)
        return np.concatenate(done) if done else _NOTHING

    def _check_ids(self, current: Snapshot, ids: IdArray, replacing: bool) -> NDArray[np.int64]:
        """Rows that have these ids now, which is an error unless they are replaced."""
        if len(ids):
            current.check_kind(ids)
        rows = current.ids_of_rows.find(ids)
        if not replacing and (rows >= 0).any():
            first = shown_id(ids[int(np.argmax(rows >= 0))])
            raise DuplicateIdError(f"id {first} is in the store already; upsert replaces rows")
        return rows[rows >= 0]

    @property
    def _current(self) -> Snapshot:
        return self._state.snapshot if self._working is None else self._working

    def _commit(self, writer: Writer, record: Record) -> None:
        after = self._current.apply(record)
        if self._working is None:
            writer.write(record, after)
        else:
            self._pending.append(record)
            self._working = after

    def _warn(self, before: Drift) -> None:
        """Once, when a write has made re-learning due."""
        drift = self._state.snapshot.drift
        if drift.due and not before.due and not self._warned:
            self._warned = True
            warn_user(
                f"re-learning is due: the last {drift.recent.rows:,} rows of {self.path!r} are coded with "
                f"{drift.ratio:.2f} times the error of those the books were learned for (more than {drift.limit:g} "
                "times); health() tells more",
                RelearnWarning,
            )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Writer]:
        """One write at a time, and only where writing is possible."""
        with self._mutex:
            yield self._check_writable()

    def _check_writable(self) -> Writer:
        self._check_open()
        if not isinstance(self._source, Writer):
            raise StoreError(f"{self.path!r} is open for reading; il.open(path, mode='a') opens it for writing")
        if self._source.process != os.getpid():
            raise StoreError(f"{self.path!r} was opened by process {self._source.process}; open it again in this one")
        return self._source

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(f"the store {self.path!r} is closed")

    def _check_no_batch(self, what: str) -> None:
        # A forked child has the batch of a thread that it does not have.
        inherited = isinstance(self._source, Writer) and self._source.process != os.getpid()
        if self._working is not None and not inherited:
            raise InputError(f"{what} cannot run inside a batch, whose rows are not written yet")

    def __reduce__(self) -> Any:
        raise TypeError(f"a Store is not pickled or copied: pass its path, {self.path!r}, and call il.open(path) there")

    def __repr__(self) -> str:
        snapshot, closed = self._state.snapshot, ", closed" * self._closed
        return (
            f"Store({self.path!r}, mode={self.mode!r}{closed}: {len(snapshot)} rows, {snapshot.kind or 'no'} ids, "
            f"{len(snapshot.parts)} segments, {snapshot.tail.n} rows in the log, {snapshot.books.codebooks!r})"
        )


def _coded(
    rows: Rows, codebooks: Codebooks, extras: Extras, workers: int, effort: Effort | None, progress: Progress
) -> tuple[Codes, Bytes | None, float]:
    """Codes, originals where they are kept, and the sum of the errors."""
    kept: list[Bytes] = []
    meter = Meter(codebooks)

    def watch(block: FloatArray, codes: Codes) -> None:
        meter(block, codes)
        if extras.originals is not None:
            kept.append(extras.originals.to_bytes(block, sum(map(len, kept))))

    codes = encode_rows(codebooks, rows, workers, effort, progress, watch)
    return codes, np.concatenate(kept) if kept else None, meter.error


def _part(table: Table, first: int, n: int) -> Table:
    """Columns of the rows of one block."""
    if first + n > table.num_rows:
        raise InputError(f"payload must have one entry per row, and ends after {table.num_rows}")
    return table.slice(first, n)
