"""The store: a crash-safe directory of coded vectors that you can add to and delete from.

Within a process, writes run one after the other (``session.py``); ``writer.py`` describes how a write reaches the disk.
Searches take no lock: each uses the snapshot that was current when it started.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from os import PathLike
from typing import Any

import numpy as np

from ..errors import InputError, UnknownIdError
from ..index.id_values import IdArray, as_id_array, is_id, shown_id
from ..inputs.literals import Auto, Cross, Effort, Layout, Missing, PriorFit, Rotation
from ..progress import Progress, as_progress, part, silent
from .adding import Insertion
from .background import Background
from .backups import write_backup
from .loading import State
from .reading import Reading
from .relearning import relearned
from .restructuring import with_columns, without_columns
from .session import Session
from .writer import Writer


class Store(Reading):
    """Vectors coded by :class:`Codebooks` in a directory. Add, replace and remove rows by id, and search them.

    ``il.create(path, ...)`` creates a store, ``il.open(path)`` opens it for reading, ``il.open(path, mode="a")`` for
    reading and writing. One process can write at a time. Any number of processes can read; each sees the state of its
    last :meth:`refresh`.

    When :meth:`add`, :meth:`upsert` or :meth:`remove` returns, the write is on disk: a crash of the process or of the
    machine does not undo it. Inside ``with store.batch():`` this holds when the block ends.
    """

    def __init__(self, folder: str, source: State | Writer) -> None:
        self.path = folder
        self.session = Session(folder, source)
        self.background = Background(self.session)
        if self.mode == "a":
            self.session.after_write = self.background.check
            self.background.check()  # a process that ended may have left something to learn

    @property
    def mode(self) -> str:
        """``r`` or ``a``."""
        return self.session.mode

    def refresh(self) -> bool:
        """Read the current state of the store; returns whether it has changed. A writer always sees its own writes.

        If the store at this path was replaced by a backup of itself, the reader sees the state of the backup. If the
        path leads to another store, this raises :class:`StoreError`, and the reader keeps its state.
        """
        return self.session.refresh()

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
        """Encode and append rows; returns their ids. After an error, no row is added.

        Without ``ids``, rows get the integers that follow the largest id ever used; those of a table get the ids of its
        column ``id``, or of the one that ``ids`` names. An id that already exists raises
        :class:`DuplicateIdError`. x may be an iterator of blocks of any length: then each block is a write of its own,
        and an error reports how many rows were added before it. A single row with a single id is accepted too.

        ``payload`` has the columns of the rows: a table, a dict of arrays, a list of dicts, or a data frame; for one
        row with a single id, a dict of values. Missing columns are null.
        """
        adding = Insertion.checked(self.session, False, effort, threads, embedded, progress)
        return adding.insert(x, ids, payload)

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
        """As :meth:`add`, but rows with existing ids are replaced.

        A row that replaces another one counts as new: among equal distances it comes last, and columns that ``payload``
        does not have become null.
        """
        if ids is None:
            raise InputError("upsert needs ids: add(x) generates new ones")
        adding = Insertion.checked(self.session, True, effort, threads, embedded, progress)
        return adding.insert(x, ids, payload)

    def remove(self, ids: Any, *, missing: Missing = "raise") -> int:
        """Remove rows; returns how many.

        An id that is not in the store raises :class:`UnknownIdError`, and nothing is removed; ``missing="ignore"``
        skips such ids.
        """
        if missing not in ("raise", "ignore"):
            raise InputError(f"missing must be 'raise' or 'ignore', got {missing!r}")
        wanted = as_id_array([ids] if is_id(ids) else ids, "ids")
        wanted = wanted[np.sort(np.unique(wanted, return_index=True)[1])]  # each once, in the order given
        with self.session.writing() as writer:
            current = self.session.current
            rows = current.rows.ids.find(wanted)
            if missing == "raise" and (rows < 0).any():
                first = shown_id(wanted[int(np.argmin(rows >= 0))])
                raise UnknownIdError(f"id {first} is not in the store ({int((rows < 0).sum())} of {len(rows)} unknown)")
            rows = rows[rows >= 0]
            if len(rows):
                self.session.commit(writer, current.removal(rows))
            return len(rows)

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Combine many writes into one, which is durable and visible to searches when the block ends.

        After a crash, either all of the batch or none of it is there. A batch is not a transaction: if an error occurs
        inside the block, the writes before it are kept. Writes of other threads wait until the block ends.
        """
        with self.session.batch():
            yield

    def compact(self) -> None:
        """Free the space of removed rows and merge all segments into one.

        Searches continue meanwhile, and writes wait. Segments with many removed rows are compacted automatically
        (:class:`interlace.store.Limits`).
        """
        with self.session.writing() as writer:
            self.session.check_no_batch("compact()")
            snapshot = self.session.state.snapshot
            rows = snapshot.rows
            compact = len(rows.parts) <= 1 and not rows.tail.n and rows.ids.removed is None
            if not compact or writer.doubtful:
                writer.checkpoint(snapshot, everything=True)

    def add_columns(self, columns: Any, payload: Any = None) -> None:
        """Add payload columns, as :func:`interlace.create` declares them.

        ``payload`` has their values for all rows, in the order of :attr:`ids`; without it they are null. All rows are
        written again, in one step: after an error or a crash the store is unchanged. Searches continue meanwhile.
        """
        with self.session.writing() as writer:
            self.session.check_no_batch("add_columns()")
            after = with_columns(self.session.state.snapshot, columns, payload)
            writer.checkpoint(after, everything=True, rewrite=True)

    def drop_columns(self, names: Any) -> None:
        """Drop payload columns by name; at least one must be left. All rows are written again, in one step."""
        with self.session.writing() as writer:
            self.session.check_no_batch("drop_columns()")
            after = without_columns(self.session.state.snapshot, names)
            writer.checkpoint(after, everything=True, rewrite=True)

    def calibrate(self, queries: Any = None, *, threads: int | None = None, embedded: bool = False) -> None:
        """Recalibrate ``margin`` for the current rows and store the result; see :meth:`Index.calibrate`.

        If the store keeps originals, they are the default queries, and the re-rank depth for ``recall`` is measured
        too: each of up to 256 queries is compared with all originals. A store that has not learned codebooks yet
        searches exactly, and has nothing to calibrate.
        """
        with self.session.writing() as writer:
            self.session.check_no_batch("calibrate()")
            snapshot = self.session.state.snapshot
            calibration = snapshot.calibrated(queries, threads, embedded)
            if calibration is not None:
                writer.checkpoint(snapshot, books=dataclasses.replace(snapshot.books, calibration=calibration))

    def relearn(
        self,
        *,
        progress: Any = "auto",
        n_bytes: int | None = None,
        n_books: int | None = None,
        n_words: int | None = None,
        layout: Layout | None = None,
        n_crude: int | Auto | None = None,
        rotation: Rotation | None = None,
        cross: Cross | None = None,
        prior: PriorFit | None = None,
        effort: Effort | None = None,
        parallel_weight: float | None = None,
        cells: int | Auto | None = None,
        iterations: int | None = None,
        max_train_rows: int | None = None,
        max_memory: int | str | None = None,
        seed: int | None = None,
        threads: int | None = None,
        penalty: float | None = None,
        start: str | None = None,
    ) -> None:
        """Learn new codebooks from the kept originals, encode all rows again, and calibrate.

        A store that was created without codebooks learns with the settings of :func:`interlace.create`, and with those
        that you pass instead, which it then keeps for the next time.

        The method that learned the current codebooks learns the new ones, with the same number of bytes, layout and
        ``parallel_weight``, unless you pass others. The parameters are those of its class, :class:`interlace.ICQ` or a
        class of ``il.quantizers``; ``penalty`` belongs to ``CQ``, ``start`` to ``OPQ``. None means the default of the
        class. A parameter that the class does not have raises :class:`InputError`. With ``layout``, codebooks of any
        method are replaced by those of ICQ. The metric cannot change.

        Searches use the old codebooks meanwhile, and writes wait. Codebooks and codes are replaced in one step: after
        an error, Ctrl-C or a crash before it the store is unchanged, and readers see the new codes after a refresh. If
        only the calibration fails, searches are exact. Codebooks learned from labels are replaced by ones learned
        without labels; the embedding stays.
        """
        given = {
            "n_bytes": n_bytes,
            "n_books": n_books,
            "n_words": n_words,
            "layout": layout,
            "n_crude": n_crude,
            "rotation": rotation,
            "cross": cross,
            "prior": prior,
            "effort": effort,
            "parallel_weight": parallel_weight,
            "cells": cells,
            "iterations": iterations,
            "max_train_rows": max_train_rows,
            "max_memory": max_memory,
            "seed": seed,
            "threads": threads,
            "penalty": penalty,
            "start": start,
        }
        settings = {name: value for name, value in given.items() if value is not None}
        report = as_progress(progress)
        self.session.check_writable()
        self.session.check_no_batch("relearn()")
        self.background.stop()  # it would learn the same, or less
        with self.session.writing() as writer:
            self.session.check_no_batch("relearn()")
            before = self.session.state.snapshot
            new = relearned(before, settings, part(report, 0.0, 0.7, "learning"))
            report("coding", 0.7)
            writer.checkpoint(new.applied(before), everything=True, rewrite=True, books=new.books)
            report("calibrating", 0.9)
            after = self.session.state.snapshot
            calibration = new.calibration(before, after, new.threads)
            writer.checkpoint(after, books=dataclasses.replace(after.books, calibration=calibration))
            self.background.forget_failures()
        report("done", 1.0)

    def backup(self, path: str | PathLike[str]) -> None:
        """Copy the store, as it is now, to a new directory or to a URL such as ``s3://bucket/name``.

        The store must be open for writing; writes of this process wait, searches do not. The list of files with their
        checksums is written last, so an interrupted backup is none. :func:`interlace.restore` is the inverse, and
        ``il.open(url)`` opens a backup for reading.
        """
        write_backup(self.session, path)

    def close(self) -> None:
        """Release the lock, so that another process can write. All writes are on disk already.

        Learning in the background stops, and starts again when the store is opened for writing;
        :meth:`wait_until_learned` waits for it.
        """
        self.session.check_can_close()
        self.background.stop()
        self.session.close()

    def wait_until_learned(self, timeout: float | None = None) -> bool:
        """Wait while the store learns in the background, at most ``timeout`` seconds; returns whether it has ended.

        Returns at once if nothing is being learned. :meth:`health` has the state, and the error after a failure.
        """
        self.session.check_open()
        return self.background.wait(timeout)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise TypeError(f"a Store cannot be pickled or copied: pass its path, {self.path!r}, and call il.open(path)")

    def __repr__(self) -> str:
        snapshot, closed = self.session.state.snapshot, ", closed" * self.session.closed
        rows = snapshot.rows
        books = snapshot.books.codebooks
        coded = f"vectors ({books.metric}, dim={books.dim}) without codes" if snapshot.collecting else repr(books)
        return (
            f"Store({self.path!r}, mode={self.mode!r}{closed}: {len(snapshot)} rows, {rows.kind or 'no'} ids, "
            f"{len(rows.parts)} segments, {rows.tail.n} rows in the log, {coded})"
        )
