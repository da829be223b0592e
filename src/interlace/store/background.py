"""A thread of the writing process that learns codebooks and calibrates margins while the store goes on.

The thread takes a snapshot, learns from its vectors and encodes its rows without any lock. Then it takes the lock of
the session, encodes the rows that came meanwhile, and replaces the files in one step, as ``relearn()`` does; a
calibration follows in the same way. Stores made from a model or codebooks do not learn by themselves; if they keep
originals, their margins are calibrated. The thread stops where it is when the store is closed: nothing was written that
a manifest names.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import threading
import weakref
from collections.abc import Iterator
from typing import NoReturn

from .._threads import ForkLock, thread_count
from ..engine.calibrating import queries_needed
from ..engine.margins import DEFAULT, STRICT, Uncovered
from ..errors import StoreError
from . import files
from .relearning import relearned
from .session import Session
from .snapshot import Snapshot
from .writer import Writer

#: While the thread encodes, segments are merged and rows are added. What is left after this many rounds is encoded
#: while writes wait.
ROUNDS = 4
#: A calibration may be made again when the number of rows has changed by this factor.
CHANGED = 1.5
#: After a failure the thread waits until there are this many times as many rows.
PATIENCE = 1.25


class _StoppedError(Exception):
    """Ends the thread."""


class Background:
    """Learns and calibrates for the writer of a store; one thread at a time. It does not keep the session alive."""

    def __init__(self, session: Session) -> None:
        self._session = weakref.ref(session)
        self._lock = ForkLock()
        self._thread: threading.Thread | None = None
        self._running = False  # the thread has not decided to end
        self._stopping = False
        self._retry_from = 0  # rows
        self.error: str | None = None  #: why the last attempt failed

    @property
    def learning(self) -> bool:
        """Whether the thread is at work."""
        return self._running and self._thread is not None and self._thread.is_alive()

    def check(self) -> None:
        """Start the thread if there is something to do. The writer calls it after each write."""
        session = self._session()
        if session is None or session.closed:
            return
        with self._lock:
            if self._running or not self._due(session.state.snapshot):
                return
            self._running, self._stopping = True, False
            _ALL.add(self)
            self._thread = threading.Thread(target=self._run, name="interlace-learning", daemon=True)
            self._thread.start()

    def forget_failures(self) -> None:
        """After a success of ``relearn()``."""
        self.error, self._retry_from = None, 0

    def stop(self) -> None:
        """End the thread, and wait for its end. What it has learned so far is lost, nothing else."""
        self._stopping = True
        self.wait()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the thread, at most ``timeout`` seconds; whether it has ended."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
            return not thread.is_alive()
        return True

    # --- in the thread

    def _run(self) -> None:
        while True:
            with self._lock:  # a write that this thread does not see any more starts another one
                session = self._session()
                snapshot = None if session is None or session.closed else session.state.snapshot
                del session
                if self._stopping or snapshot is None or not self._due(snapshot):
                    self._running = False
                    return
            try:
                self._work(snapshot)
                self.error = None
            except _StoppedError:
                with self._lock:
                    self._running = False
                return
            except Exception as error:  # whatever it is: the store goes on without
                self.error = f"{type(error).__name__}: {error}"
                self._retry_from = int(PATIENCE * len(snapshot)) + 1
                files.log_warning("the store could not learn or calibrate by itself: %s", self.error)
            del snapshot

    def _due(self, snapshot: Snapshot) -> bool:
        """Whether to learn, or to calibrate what was learned."""
        plan, n = snapshot.plan, len(snapshot)
        if n < self._retry_from or (plan is not None and plan.relearn != "auto"):
            return False
        return _learning_due(snapshot) or _is_uncalibrated(snapshot)

    def _work(self, snapshot: Snapshot) -> None:
        asked = None if snapshot.plan is None else snapshot.plan.settings.get("threads")
        threads = asked or max(1, thread_count(None) // 2)  # the rest is for searches
        if _learning_due(snapshot):
            new = relearned(snapshot, {}, self._progress, threads)
            for _ in range(ROUNDS):
                current = self._current(snapshot)
                if not new.missing(current):
                    break
                new.encode(current, self._stop_here)
            with self._writing(snapshot) as (writer, current):
                writer.checkpoint(new.applied(current), everything=True, rewrite=True, books=new.books)
                snapshot = writer.state.snapshot
            self._stop_here()
            calibration = new.calibration(current, snapshot, threads)
        else:
            calibration = snapshot.calibrated(None, threads, False)
        if calibration is not None:
            with self._writing(snapshot) as (writer, current):
                if current.books.calibration is snapshot.books.calibration:  # otherwise calibrate() was called
                    writer.checkpoint(current, books=dataclasses.replace(current.books, calibration=calibration))

    @contextlib.contextmanager
    def _writing(self, before: Snapshot) -> Iterator[tuple[Writer, Snapshot]]:
        """The writer and the current state, while no other thread writes."""
        session = self._session()
        if session is None:
            self._end()
        with session.writing(self._stop_here) as writer:
            yield writer, self._current(before)

    def _current(self, before: Snapshot) -> Snapshot:
        """The current state, if it still has the codebooks of ``before``."""
        self._stop_here()
        session = self._session()
        if session is None or session.closed:
            self._end()
        current = session.state.snapshot
        if current.books.codebooks != before.books.codebooks:  # relearn() was called
            self._end()
        return current

    def _progress(self, what: str, done: float) -> None:
        self._stop_here()

    def _stop_here(self) -> None:
        session = self._session()
        if self._stopping or session is None or session.closed:
            self._end()

    @staticmethod
    def _end() -> NoReturn:
        raise _StoppedError


def _learning_due(snapshot: Snapshot) -> bool:
    return snapshot.plan is not None and snapshot.plan.due(len(snapshot), snapshot.drift) is not None


def _is_uncalibrated(snapshot: Snapshot) -> bool:
    """Whether there is no calibration, or one for far fewer or far more rows, and there are enough rows for another.

    A store made from a model needs originals, because decoded rows are nearer to the codes than queries are, and enough
    rows for the default margin.
    """
    n, made = len(snapshot), snapshot.books.calibration
    if snapshot.plan is None and (snapshot.originals is None or n < queries_needed(DEFAULT)):
        return False
    if snapshot.collecting or n < queries_needed(STRICT[0]):
        return False
    if made is None:
        return True
    if made.n / CHANGED <= n <= CHANGED * made.n:
        return False  # another one would not be better
    rule = made.rule(10, DEFAULT, n)
    return isinstance(rule, Uncovered) and rule.stale


_ALL: weakref.WeakSet[Background] = weakref.WeakSet()


def _stop_all() -> None:
    """At exit: a thread in the middle of native code would end the process badly."""
    for one in list(_ALL):
        with contextlib.suppress(StoreError):
            one.stop()


atexit.register(_stop_all)
