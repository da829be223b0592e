"""How a write gets to the disk.

A write is one record of the log, synced before it is visible. From some size on the log becomes a segment, by a
*checkpoint*: new files, then a new manifest, then the old files go. After a write that failed nobody knows what the
disk holds of it; so nothing is appended to that log any more, and the next write makes a checkpoint from what memory
holds, which every acknowledged write is part of. Whatever the failed one left behind then no longer counts.

All files are reached through the open directory, which stays the same one when it is renamed. Before a write, and again
before it is acknowledged, the writer looks whether the store is still its own: the lock that it holds, the manifest and
the log that it wrote. What another program has changed is never written over.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
from collections.abc import Callable

from ..engine.segments import Segment
from ..errors import FileError, StoreError
from ..index.index import Index
from . import files, parts
from . import manifest as manifests
from .compaction import Group, Limits, many_removed, plan
from .files import At, Folder
from .loading import State, base_of
from .lock import WriterLock
from .log import Log, Record
from .manifest import Entry, Manifest, file_name
from .snapshot import Snapshot


class Writer:
    """The one writer of a store. Its caller sees to it that one thread at a time calls it."""

    def __init__(self, folder: Folder, state: State, log: Log, lock: WriterLock, limits: Limits) -> None:
        self.folder, self.limits = folder, limits
        self.state = state  # what is durable, and seen by searches: one object, replaced as a whole
        self.process = os.getpid()
        self._log, self._lock = log, lock
        self._generation, self._next_file = state.manifest.generation, state.manifest.next_file
        self.doubtful = False  # the disk may not hold what memory does: make a checkpoint before anything else
        self._patience = 1  # how many times its limits the log may have, because a checkpoint failed
        self._written = [state.manifest]  # one of these is on disk: the last, and any whose write failed since
        self._seen: tuple[int, ...] = ()  # what the manifest on disk looked like when it was last compared

    def write(self, record: Record, after: Snapshot) -> None:
        """Make a record durable, then ``after``, the snapshot with it, visible. After an error it is not visible."""
        n_rows = len(record.ids) + len(record.rows)
        if self.doubtful or n_rows >= self.limits.rows or record.n_bytes >= self.limits.bytes:
            self.checkpoint(after)  # what would make the log too long goes past it
            return
        self._check_ours(self._log)
        self.doubtful = True  # until it is known; Ctrl-C may come at any line
        try:
            self._log.append(record)
            self._lock.check()
        except OSError as error:
            raise self._failed(error) from error
        self.state = State(self.state.manifest, after, self._log.place)
        self.doubtful = False
        if self._is_long() or many_removed(self._sizes(after)[:-1], self.limits, self._patience):
            self._tidy()

    def checkpoint(
        self, after: Snapshot, *, everything: bool = False, anew: bool = False, books: Index | None = None
    ) -> None:
        """Write a snapshot as segments and make it that of the store; ``everything`` as one, ``books`` in place of its.

        ``anew``: no segment stays as it is, because the books are others. After an error the store is what it was.
        """
        self._check_ours()
        written: list[str] = []
        try:
            manifest, log = self._write_files(after, everything, anew, books, written)
            # Opened before it counts: a segment that cannot be read back must not replace the rows it was made of.
            known = State(self.state.manifest, after, self.state.place)
            base = base_of(self.folder, manifest, known=known)
        except BaseException as error:
            for name in written:  # no manifest names them; what cannot be removed now is swept later
                with contextlib.suppress(OSError):
                    files.remove(self.folder / name)
            if isinstance(error, OSError):
                raise self._failed(error) from error
            raise
        self.doubtful = True  # from here on either manifest may be the one that counts
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
            files.tell("files of %r that are no longer needed could not be removed: %s", self.folder.path, error)

    def close(self) -> None:
        """Let another one write. All that was written is on disk already."""
        self._log.close()
        self._lock.release()

    def _write_files(
        self, after: Snapshot, everything: bool, anew: bool, books: Index | None, written: list[str]
    ) -> tuple[Manifest, Log]:
        """All files of a new manifest, on disk; their names go to ``written``."""
        before = self.state.manifest

        def path(role: str) -> At:
            name = file_name(role, self._next_file)
            self._next_file += 1
            written.append(name)
            return self.folder / name

        entries = self._write_segments(after, everything, anew, path)
        books_name = before.books
        if books is not None:
            parts.write_books(path("books"), books, before.store)
            books_name = written[-1]
        log = Log.create(path("log"), before.store, 1 + before.extended)
        self.folder.sync()
        self._generation += 1  # also of those that fail: readers tell manifests apart by it
        manifest = Manifest(
            generation=self._generation,
            books=books_name,
            store=before.store,
            segments=tuple(entries),
            log=written[-1],
            ids=after.kind,
            next_id=after.next_id,
            next_file=self._next_file,
            drift=after.drift.at_checkpoint(),
            columns=before.columns,
            originals=before.originals,
        )
        return manifest, log

    def _write_segments(self, after: Snapshot, everything: bool, anew: bool, path: Callable[[str], At]) -> list[Entry]:
        """Segments and tombstones, new files where they differ from those that are there."""
        before, entries = self.state.manifest, list[Entry]()
        codebooks = after.books.codebooks
        for group in plan(self._sizes(after), self.limits.removed_share, everything=everything, anew=anew):
            if group.rewritten:
                codes, ids = after.merged(group.first, group.stop)
                file = path("segment")
                parts.write_segment(file, Segment.pack(codes, codebooks), ids, before.store)
                entry = Entry(file.name, group.kept)
                entries.append(self._write_extras(after, group, entry, path))
                continue
            entry, removed = before.segments[group.first], after.removed[group.first]
            if removed.count != entry.removed:  # they only ever become more
                file = path("removed")
                parts.write_removed(file, entry.file, removed, before.store)
                entry = dataclasses.replace(entry, removed=removed.count, removed_file=file.name)
            entries.append(entry)
        return entries

    def _write_extras(self, after: Snapshot, group: Group, entry: Entry, path: Callable[[str], At]) -> Entry:
        """Files with what else the rows of a new segment have."""
        mark, extras = self.state.manifest.store, after.extras
        if extras.columns is not None:
            file = path("payload")
            table = after.rows.merged_payload(group.first, group.stop)
            parts.write_payload(file, entry.file, table, extras.columns, mark)
            entry = dataclasses.replace(entry, payload_file=file.name)
        if extras.originals is not None:
            file = path("originals")
            vectors = after.rows.merged_originals(group.first, group.stop)
            parts.write_originals(file, entry.file, vectors, extras.originals.kind, mark)
            entry = dataclasses.replace(entry, originals_file=file.name)
        return entry

    @staticmethod
    def _sizes(snapshot: Snapshot) -> list[tuple[int, int]]:
        """Rows and removed rows of each part, the last one the log."""
        return [(removed.n, removed.count) for removed in snapshot.removed]

    def _check_ours(self, log: Log | None = None) -> None:
        """Raise unless this writer still holds the lock, and manifest and log are what it wrote."""
        self._lock.check()
        found = self.folder.stat(manifests.NAME)
        looks = () if found is None else (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        if not looks or looks != self._seen:
            if found is None or manifests.read(self.folder) not in self._written:
                raise self._foreign(manifests.NAME)
            self._seen = looks
        if log is not None and not log.is_at(self.folder.stat(self.state.manifest.log)):
            raise self._foreign(self.state.manifest.log)

    def _foreign(self, name: str) -> StoreError:
        text = (
            f"{name!r} was removed, replaced or written to by another program while this process had the store open: "
            "nothing is written over it; open the store again"
        )
        return StoreError(errno.ESTALE, text, self.folder.path)

    def _is_long(self) -> bool:
        limits, place, rows = self.limits, self._log.place, self.state.snapshot.tail.n
        longest = max(rows / limits.rows, place.sequence / limits.records, place.offset / limits.bytes)
        return longest >= self._patience

    def _tidy(self) -> None:
        """A checkpoint that nobody asked for. The writes are safe in the log: a failure is none of theirs."""
        try:
            self.checkpoint(self.state.snapshot)
        except OSError as error:
            self._patience *= 2
            files.tell("the log of %r grows, because it could not become a segment: %s", self.folder.path, error)

    def _failed(self, error: OSError) -> FileError:
        if isinstance(error, FileError):  # which says what it is: a segment that is damaged, and cannot be rewritten
            return error
        text = f"a write failed and is not part of the store ({error.strerror or error})"
        return StoreError(error.errno, text, self.folder.path)
