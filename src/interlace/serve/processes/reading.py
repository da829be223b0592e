"""Collections of a process that only reads; another process writes to them (docs/serve.md, ``--workers``).

The writer counts its writes in memory that all processes share, before it acknowledges them. A reader looks at this
number whenever it uses a collection and reads what is new if it has changed: an acknowledged write is part of every
answer that begins after it, whichever process gives it.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from ... import store as stores
from ...errors import InterlaceError
from ...store import Snapshot, Store
from ..collections.catalog import MANIFEST, CollectionsByName
from ..collections.collection import Broken, Collection
from ..problems import ProblemDetails
from ..requests.types import SERVED
from ..settings import ServerSettings

log = logging.getLogger("interlace.serve")
RETRY_SECONDS = 10.0  # before a store that could not be opened is tried again
REFRESH_SECONDS = 1.0  # codes that were learned in the background acknowledge nothing; they may come later


class Writes(Protocol):
    """The number of writes, in shared memory."""

    value: int


class ReadCollection(Collection):
    """A collection that follows its writer."""

    def __init__(self, name: str, store: Store, settings: ServerSettings, writes: Writes, seen: int) -> None:
        super().__init__(name, store, settings)
        self._writes, self._seen, self._due = writes, seen, 0.0
        self._refreshing = threading.Lock()
        self.gone = False  #: deleted, or replaced by another store of this name

    @property
    def is_current(self) -> bool:
        """Whether it has seen all writes."""
        return self._writes.value == self._seen

    def snapshot(self) -> Snapshot:
        """With all writes that were acknowledged; blocks while it reads them."""
        if not self.is_current or time.monotonic() >= self._due:
            with self._refreshing:
                if not self.is_current or time.monotonic() >= self._due:
                    self._refresh()
        return super().snapshot()

    def _refresh(self) -> None:
        now = self._writes.value  # before it reads: what is written meanwhile is read the next time
        try:
            self.store.refresh()
        except (InterlaceError, OSError) as error:
            self.gone = True
            raise ProblemDetails(
                503, "changed", f"the collection {self.name!r} was replaced; ask again", {"Retry-After": "0"}
            ) from error
        self._seen, self._due = now, time.monotonic() + REFRESH_SECONDS


class ReadCatalog(CollectionsByName):
    """Stores of a directory, opened for reading. What it does not know is a question for the writer."""

    def __init__(self, settings: ServerSettings, writes: Writes) -> None:
        super().__init__(settings)
        self._writes = writes
        self._opening: set[str] = set()
        self._failed: dict[str, tuple[int, float]] = {}  # writes and time of the last attempt
        self._thread = ThreadPoolExecutor(1, "open")
        self._sweep_due = 0.0

    def open_all(self) -> None:
        """Open every store that is there."""
        for path in sorted(self.root.iterdir()):
            self._open(path.name)
        self.ready = True

    def known(self, name: str) -> ReadCollection | None:
        """An open collection; None begins to open it, for the requests to come."""
        if time.monotonic() >= self._sweep_due:
            self._sweep_due = time.monotonic() + RETRY_SECONDS
            self._thread.submit(self.forget_deleted)
        found = self._found.get(name)
        if isinstance(found, ReadCollection) and not found.gone:
            return found
        self._found.pop(name, None)
        if self.ready and name not in self._opening and re.fullmatch(SERVED, name) and not self._has_failed(name):
            self._opening.add(name)
            self._thread.submit(self._open, name)
        return None

    def _has_failed(self, name: str) -> bool:
        """Whether nothing has changed since it could not be opened."""
        writes, when = self._failed.get(name, (-1, 0.0))
        return writes == self._writes.value and time.monotonic() < when + RETRY_SECONDS

    def state(self, name: str) -> Collection | Broken:
        """See :class:`CollectionsByName`."""
        found = self.known(name)
        if found is None:
            raise ProblemDetails(503, "changed", f"the collection {name!r:.140} is being opened; ask again")
        return found

    def _open(self, name: str) -> None:
        path = self.root / name
        seen = self._writes.value
        try:
            if re.fullmatch(SERVED, name) and (path / MANIFEST).exists():
                found = stores.open(path, mode="r")
                self._failed.pop(name, None)
                if isinstance(found, Store):
                    self._found[name] = ReadCollection(name, found, self.settings, self._writes, seen)
        except (InterlaceError, OSError) as error:  # the writer says what is wrong with it
            self._failed[name] = seen, time.monotonic()
            log.warning("collection %r cannot be opened for reading: %s", name, error)
        finally:
            self._opening.discard(name)

    def forget_deleted(self) -> None:
        """Let go of collections that were deleted: as long as their files are mapped, they take space on the disk."""
        for name, found in list(self._found.items()):
            if isinstance(found, ReadCollection) and not (self.root / name / MANIFEST).exists():
                found.gone = True
                self._found.pop(name, None)

    def close(self) -> None:
        """Close all stores."""
        self._thread.shutdown(wait=True)
        for each in self.collections:
            each.store.close()
