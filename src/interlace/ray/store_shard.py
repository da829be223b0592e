"""Actors of a sharded store: the writer of one shard, and readers, which search what the writer has acknowledged."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray

from ..errors import StoreLockedError
from ..index.id_values import as_id_array
from ..index.searcher import Searcher
from ..store.opening import open as open_store
from ..store.store import Store
from .holder import Holding

#: Seconds that a writer waits for the lock of one that was killed, which the system frees: one that Ray has started
#: again, and a new one, beside which another process may have the store open.
LOCK_SECONDS, NEW_LOCK_SECONDS = 20.0, 3.0


class StoreShard(Holding):
    """The store of one shard. ``mode="a"`` is its only writer; ``"r"`` reads the newest state before each search."""

    def __init__(self, path: str, mode: str, threads: int | None) -> None:
        super().__init__(threads)
        self._path, self._mode = path, mode
        self._lock = threading.Lock()
        self._opened: Store | None = None

    @property
    def store(self) -> Store:
        """Opened once; by a writer that Ray started again, as soon as the lock of the last one is free."""
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            elif self._mode == "r":
                self._opened.refresh()
            return self._opened

    def _open(self) -> Store:
        if self._mode == "r":
            found = open_store(self._path)
            assert isinstance(found, Store)
            return found
        again = ray.get_runtime_context().was_current_actor_reconstructed
        end = time.monotonic() + (LOCK_SECONDS if again else NEW_LOCK_SECONDS)
        while True:
            try:
                return open_store(self._path, mode="a")
            except StoreLockedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    @property
    def searcher(self) -> Searcher:
        """The current rows."""
        return self.store.searcher

    def present(self, ids: Any) -> NDArray[np.bool_]:
        """Which of these ids have a row."""
        return np.asarray(self.searcher.ids.find(as_id_array(ids, "ids")) >= 0)

    def upsert(self, x: Any, ids: Any, payload: Any) -> int:
        """Durable when it returns; to repeat it changes nothing."""
        return len(self.store.upsert(x, ids, payload=payload, threads=self._threads, embedded=True))

    def remove(self, ids: Any) -> int:
        """Durable when it returns; to repeat it changes nothing."""
        return self.store.remove(ids, missing="ignore")

    def payload(self, ids: Any, columns: Any) -> tuple[NDArray[np.bool_], Any]:
        """Which ids are here, and the columns of these."""
        wanted = as_id_array(ids, "ids")
        here = self.present(wanted)
        return here, self.store.payload(wanted[here], columns)

    def compact(self) -> None:
        """Free the space of removed rows."""
        self.store.compact()

    def calibrate(self, queries: Any) -> None:
        """For the current rows."""
        self.store.calibrate(queries, threads=self._threads)

    def health(self) -> Any:
        """Removed rows, segments, drift."""
        return self.store.health()

    def count(self) -> int:
        """Rows."""
        return len(self.store)

    def verify(self) -> None:
        """Every byte on disk."""
        self.store.verify()

    def close(self) -> None:
        """Release the lock."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None
