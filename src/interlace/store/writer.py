"""How a write reaches the disk.

A write is one record of the log, synced before it becomes visible. A log that has reached its limits becomes a segment
by a *checkpoint*: write new files, replace the manifest, remove the old files. After a failed write it is unknown how
much of it is on disk. Therefore nothing more is appended to that log, and the next write makes a checkpoint of the
state in memory, which contains every acknowledged write. The manifest then no longer names the log with the failed
write.

All files are opened relative to the open directory, which stays the same when it is renamed. Before a write, and again
before it is acknowledged, the writer checks that the lock, the manifest and the log are still its own. It never
overwrites a change of another program.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
from collections.abc import Callable

from ..engine.segments import Segment
from ..errors import FileError, StoreError
from . import files, parts
from . import manifest as manifests
from .books import StoredBooks, write_books
from .compaction import Group, Limits, many_removed, plan
from .files import At, Folder
from .loading import State, base_of
from .lock import WriterLock
from .log import Log
from .manifest import Entry, Manifest, file_name
from .records import Record
from .snapshot import Snapshot


class Writer:
    """The only writer of a store. The caller ensures that one thread at a time calls it."""

    def __init__(self, folder: Folder, state: State, log: Log, lock: WriterLock, limits: Limits) -> None:
        self.folder, self.limits = folder, limits
        self.state = state  # the durable state that searches use; replaced as a whole
        self.process = os.getpid()
        self._log, self._lock = log, lock
        self._generation, self._next_file = state.manifest.generation, state.manifest.next_file
        self.doubtful = False  # the disk may differ from the state in memory: the next write makes a checkpoint
        self._patience = 1  # factor on the limits of the log, after checkpoints that failed
        self._written = [state.manifest]  # one of these is on disk: the last manifest, or one whose write failed since
        self._seen: tuple[int, ...] = ()  # file status of the manifest when it was last compared

    def write(self, record: Record, after: Snapshot) -> None:
        """Write a record to disk, then make ``after``, the snapshot with it, visible, unless there was an error."""
        n_rows = len(record.ids) + len(record.rows)
        if self.doubtful or n_rows >= self.limits.rows or record.n_bytes >= self.limits.bytes:
            self.checkpoint(after)  # a write that exceeds the limits of the log becomes a segment directly
            return
        self._check_ours(self._log)
        self.doubtful = True  # until the append has succeeded; Ctrl-C can occur at any line
        try:
            self._log.append(record)
            self._lock.check()
        except OSError as error:
            raise self._failed(error) from error
        self.state = State(self.state.manifest, after, self._log.place)
        self.doubtful = False
        if self._log_is_full() or many_removed(self._sizes(after)[:-1], self.limits, self._patience):
            self._automatic_checkpoint()

    def checkpoint(
        self, after: Snapshot, *, everything: bool = False, rewrite: bool = False, books: StoredBooks | None = None
    ) -> None:
        """Write a snapshot as segments and make it the state of the store. After an error the store is unchanged.

        ``everything``: merge all rows into one segment. ``rewrite``: rewrite every segment, because the codes have
        changed. ``books``: write these codebooks and this calibration too.
        """
        self._check_ours()
        written: list[str] = []
        try:
            manifest, log = self._write_files(after, everything, rewrite, books, written)
            # Opened before the manifest names it: an unreadable segment must not replace the rows it was made of.
            known = State(self.state.manifest, after, self.state.place)
            base = base_of(self.folder, manifest, known=known)
        except BaseException as error:
            for name in written:  # no manifest names them; a later sweep removes what cannot be removed now
                with contextlib.suppress(OSError):
                    files.remove(self.folder / name)
            if isinstance(error, OSError):
                raise self._failed(error) from error
            raise
        self.doubtful = True  # from here on, either manifest can be on disk
        self._written.append(manifest)
        try:
            manifests.write(self.folder, manifest, self._check_ours)
            self._lock.check()
        except OSError as error:
            raise self._failed(error) from error
        self._written = [manifest]
        self._log, old = log, self._log
        self.state = State(manifest, base, log.place)
        self.doubtful, self._patience = False, 1
        old.close()
        try:
            manifests.sweep(self.folder, manifest)
        except OSError as error:  # the next checkpoint, or the next writer, sweeps again
            files.log_warning("obsolete files of %r could not be removed: %s", self.folder.path, error)

    def close(self) -> None:
        """Release the lock. All writes are on disk already."""
        self._log.close()
        self._lock.release()

    def _write_files(
        self, after: Snapshot, everything: bool, rewrite: bool, books: StoredBooks | None, written: list[str]
    ) -> tuple[Manifest, Log]:
        """Write and sync all files of a new manifest; their names are appended to ``written``."""
        before = self.state.manifest

        def path(role: str) -> At:
            name = file_name(role, self._next_file)
            self._next_file += 1
            written.append(name)
            return self.folder / name

        entries = self._write_segments(after, everything, rewrite, path)
        books_name = before.books
        if books is not None:
            write_books(path("books"), books, before.store)
            books_name = written[-1]
        extras = after.extras
        log = Log.create(path("log"), before.store)
        self.folder.sync()
        self._generation += 1  # also if the checkpoint fails: readers distinguish manifests by it
        manifest = Manifest(
            generation=self._generation,
            books=books_name,
            store=before.store,
            segments=tuple(entries),
            log=written[-1],
            ids=after.rows.kind,
            next_id=after.next_id,
            next_file=self._next_file,
            drift=after.drift.at_checkpoint(),
            loss=after.loss,
            columns=None if extras.columns is None else extras.columns.text,
            originals=None if extras.originals is None else extras.originals.kind,
            learning=after.plan,
        )
        return manifest, log

    def _write_segments(
        self, after: Snapshot, everything: bool, rewrite: bool, path: Callable[[str], At]
    ) -> list[Entry]:
        """Write the segments and tombstones that differ from the existing files."""
        before, entries = self.state.manifest, list[Entry]()
        codebooks = after.books.codebooks
        for group in plan(self._sizes(after), self.limits.removed_share, everything=everything, rewrite=rewrite):
            if group.rewritten:
                codes, ids = after.merged(group.first, group.stop)
                file = path("segment")
                parts.write_segment(file, Segment.pack(codes, codebooks), ids, before.store)
                entry = Entry(file.name, group.kept)
                entries.append(self._write_extras(after, group, entry, path))
                continue
            entry, removed = before.segments[group.first], after.rows.removed[group.first]
            if removed.count != entry.removed:  # removals only accumulate
                file = path("removed")
                parts.write_removed(file, entry.file, removed, before.store)
                entry = dataclasses.replace(entry, removed=removed.count, removed_file=file.name)
            entries.append(entry)
        return entries

    def _write_extras(self, after: Snapshot, group: Group, entry: Entry, path: Callable[[str], At]) -> Entry:
        """Write the columns and originals of the rows of a new segment."""
        mark, extras = self.state.manifest.store, after.extras
        if extras.columns is not None:
            file = path("payload")
            table = after.rows.merged_payload(group.first, group.stop)
            parts.write_payload(file, entry.file, table, extras.columns, mark)
            entry = dataclasses.replace(entry, payload_file=file.name)
        if extras.originals is not None:
            file = path("originals")
            vectors = after.merged_originals(group.first, group.stop)
            parts.write_originals(file, entry.file, vectors, extras.originals.kind, mark)
            entry = dataclasses.replace(entry, originals_file=file.name)
        return entry

    @staticmethod
    def _sizes(snapshot: Snapshot) -> list[tuple[int, int]]:
        """Rows and removed rows of each part, the last one the log."""
        return [(removed.n, removed.count) for removed in snapshot.rows.removed]

    def _check_ours(self, log: Log | None = None) -> None:
        """Raise StoreError unless this writer still holds the lock, and manifest and log are what it wrote."""
        self._lock.check()
        found = self.folder.stat(manifests.NAME)
        status = () if found is None else (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if not status or status != self._seen:
            if found is None or manifests.read(self.folder) not in self._written:
                raise self._foreign(manifests.NAME)
            self._seen = status
        if log is not None and not log.is_at(self.folder.stat(self.state.manifest.log)):
            raise self._foreign(self.state.manifest.log)

    def _foreign(self, name: str) -> StoreError:
        text = (
            f"{name!r} was removed, replaced or written to by another program while this process had the store open: "
            "the change is not overwritten; open the store again"
        )
        return StoreError(errno.ESTALE, text, self.folder.path)

    def _log_is_full(self) -> bool:
        limits, place, rows = self.limits, self._log.place, self.state.snapshot.rows.tail.n
        longest = max(rows / limits.rows, place.sequence / limits.records, place.offset / limits.bytes)
        return longest >= self._patience

    def _automatic_checkpoint(self) -> None:
        """A checkpoint that no caller requested. The writes are safe in the log, so a failure is only logged."""
        try:
            self.checkpoint(self.state.snapshot)
        except OSError as error:
            self._patience *= 2
            files.log_warning("the log of %r could not become a segment and keeps growing: %s", self.folder.path, error)

    def _failed(self, error: OSError) -> FileError:
        if isinstance(error, FileError):  # it has its own message, such as that of a damaged segment
            return error
        text = f"a write failed and is not part of the store ({error.strerror or error})"
        return StoreError(error.errno, text, self.folder.path)
