"""A store that this process has open: the state that it reads, and writes one at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from .._threads import ForkLock
from ..errors import InputError, RelearnWarning, StoreError, warn_user
from .drift import Drift
from .files import Folder
from .loading import State, load
from .records import Record
from .snapshot import Snapshot
from .writer import Writer

POLL = 0.05  # seconds between two looks at whether to go on waiting


def _nothing() -> None:
    """What follows a write of a store that does not learn by itself."""


class Session:
    """Readers take no lock: each search uses the snapshot that was current when it started."""

    def __init__(self, path: str, source: State | Writer) -> None:
        self.path = path
        self._source = source  # what was read, or the writer, which has the state of its last write
        self._lock = ForkLock()
        self._batch: Snapshot | None = None  # inside a batch: the state with its writes so far
        self._pending: list[Record] = []  # writes of the batch
        self._warned = False  # a session warns of drift once
        self.after_write: Callable[[], None] = _nothing  #: called after each write that is durable
        self.closed = False

    # --- reading

    @property
    def state(self) -> State:
        """The last state that was read or written, also after :meth:`close`."""
        source = self._source  # read once: close() in another thread may replace it
        return source if isinstance(source, State) else source.state

    @property
    def open_state(self) -> State:
        """The same; StoreError after :meth:`close`."""
        self.check_open()
        return self.state

    @property
    def folder(self) -> str | Folder:
        """Where the files are: the directory that a writer has open, or the path that a reader reads from."""
        source = self._source
        return self.path if isinstance(source, State) else source.folder

    @property
    def mode(self) -> str:
        """``r`` or ``a``."""
        return "a" if isinstance(self._source, Writer) else "r"

    def refresh(self) -> bool:
        """Read the current state; whether it differs from the last one. A writer has it already."""
        with self._lock:
            self.check_open()
            if not isinstance(self._source, State):
                return False
            before = self._source
            self._source = load(self.path, known=before)
            return self._source is not before

    def check_open(self) -> None:
        """Raise StoreError after :meth:`close`."""
        if self.closed:
            raise StoreError(f"the store {self.path!r} is closed")

    # --- writing

    @contextlib.contextmanager
    def writing(self, waiting: Callable[[], None] | None = None) -> Iterator[Writer]:
        """Wait for other writes of this process; StoreError if this process cannot write.

        ``waiting`` is called every now and then while it waits, and may raise.
        """
        while not self._lock.acquire(-1 if waiting is None else POLL):
            if waiting is not None:
                waiting()
        try:
            yield self.check_writable()
        finally:
            self._lock.release()

    def check_writable(self) -> Writer:
        """The writer; StoreError if the store is closed, open for reading, or was opened before a fork."""
        self.check_open()
        if not isinstance(self._source, Writer):
            raise StoreError(f"{self.path!r} is open for reading; il.open(path, mode='a') opens it for writing")
        if self._source.process != os.getpid():
            raise StoreError(f"{self.path!r} was opened by process {self._source.process}; open it again in this one")
        return self._source

    @property
    def current(self) -> Snapshot:
        """What the next write changes: the last state, inside a batch with the writes of the batch."""
        return self.state.snapshot if self._batch is None else self._batch

    @property
    def in_batch(self) -> bool:
        """Whether writes wait for the end of a batch."""
        return self._batch is not None

    def commit(self, writer: Writer, record: Record) -> None:
        """Write a record, or keep it for the end of the batch."""
        before, after = self.current, self.current.apply(record)
        if self._batch is None:
            writer.write(record, after)
            self._written(before.drift)
        else:
            self._pending.append(record)
            self._batch = after

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """See :meth:`Store.batch`."""
        with self.writing() as writer:
            if self._batch is not None:  # nested: the outer batch writes
                yield
                return
            before = self._batch = self.state.snapshot
            try:
                yield
            finally:
                after, pending = self._batch, self._pending
                self._batch, self._pending = None, []
                if pending:
                    writer.write(Record.joined(pending), after)
                    self._written(before.drift)

    def check_no_batch(self, call: str) -> None:
        """Raise InputError inside a batch; ``call`` is named in the message."""
        # A forked child inherits the batch of a thread that does not exist in it.
        inherited = isinstance(self._source, Writer) and self._source.process != os.getpid()
        if self._batch is not None and not inherited:
            raise InputError(f"{call} cannot run inside a batch, whose rows are not written yet")

    def check_can_close(self) -> None:
        """Wait for other writes of this process; InputError inside a batch of this thread."""
        with self._lock:
            self.check_no_batch("close()")

    def close(self) -> None:
        """See :meth:`Store.close`."""
        with self._lock:
            self.check_no_batch("close()")
            self.closed = True
            if isinstance(self._source, Writer):
                self._source.close()
                self._source = self._source.state

    def _written(self, before: Drift) -> None:
        """Warn once, when a write raises the drift above its limit, unless the store learns by itself."""
        snapshot = self.state.snapshot
        drift, plan = snapshot.drift, snapshot.plan
        self.after_write()
        if plan is not None and plan.relearn == "auto" and plan.originals is not None:
            return
        if drift.due and not before.due and not self._warned:
            self._warned = True
            warn_user(
                f"the codebooks no longer fit the rows of {self.path!r}: the mean error of the last "
                f"{drift.recent.rows:,} rows is {drift.ratio:.2f} times that of the rows the codebooks were learned "
                f"for (limit {drift.limit:g}). Call relearn(), or create the store again with new codebooks; health() "
                "has details",
                RelearnWarning,
            )
