"""The calls of a remote store as coroutines. Each runs in a thread that waits for the server."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from numpy.typing import NDArray

from ..engine.explaining import Explanation
from ..index.matches import Matches, RangeMatches
from ..index.report import Report
from ..inputs.arrays import FloatArray
from ..inputs.literals import Effort, Margin, Missing
from ..store.health import Health
from .store import RemoteStore

T = TypeVar("T")


class AsyncRemoteStore:
    """A collection of a server. Calls are those of :class:`RemoteStore`; await them."""

    def __init__(self, store: RemoteStore, connections: int) -> None:
        self.name, self._store = store.name, store
        self._threads = ThreadPoolExecutor(connections, "interlace-client")

    async def search(
        self,
        q: Any,
        k: int = 10,
        *,
        offset: int = 0,
        margin: Margin | None = None,
        threads: int | None = None,
        filter: Any = None,
        embedded: bool = False,
        rerank: int | None = None,
        recall: float | None = None,
    ) -> Matches:
        """See :meth:`interlace.Store.search`."""
        more = {"offset": offset, "margin": margin, "threads": threads, "filter": filter, "embedded": embedded}
        return await self._run(self._store.search, q, k, **more, rerank=rerank, recall=recall)

    async def search_by_id(
        self,
        ids: Any,
        k: int = 10,
        *,
        exclude_self: bool = True,
        offset: int = 0,
        margin: Margin | None = None,
        threads: int | None = None,
        filter: Any = None,
        rerank: int | None = None,
        recall: float | None = None,
    ) -> Matches:
        """See :meth:`interlace.Store.search_by_id`."""
        more = {"exclude_self": exclude_self, "offset": offset, "margin": margin, "threads": threads, "filter": filter}
        return await self._run(self._store.search_by_id, ids, k, **more, rerank=rerank, recall=recall)

    async def range_search(
        self,
        q: Any,
        radius: Any,
        *,
        margin: Margin = "exact",
        threads: int | None = None,
        filter: Any = None,
        embedded: bool = False,
    ) -> RangeMatches:
        """See :meth:`interlace.Store.range_search`."""
        more = {"margin": margin, "threads": threads, "filter": filter, "embedded": embedded}
        return await self._run(self._store.range_search, q, radius, **more)

    async def explain(
        self,
        q: Any,
        id: int | str,
        k: int = 10,
        *,
        margin: Margin | None = None,
        filter: Any = None,
        embedded: bool = False,
    ) -> Explanation:
        """See :meth:`interlace.Store.explain`."""
        return await self._run(self._store.explain, q, id, k, margin=margin, filter=filter, embedded=embedded)

    async def get(self, ids: Any, *, originals: bool = False) -> FloatArray:
        """See :meth:`interlace.Store.get`."""
        return await self._run(self._store.get, ids, originals=originals)

    async def payload(self, ids: Any = None, columns: Any = None) -> Any:
        """See :meth:`interlace.Store.payload`."""
        return await self._run(self._store.payload, ids, columns)

    async def ids(self) -> NDArray[Any]:
        """Every id in insertion order."""
        return await self._run(lambda: self._store.ids)

    async def count(self) -> int:
        """The number of rows."""
        return await self._run(lambda: len(self._store))

    async def contains(self, id: int | str) -> bool:
        """Whether there is a row with this id."""
        return await self._run(lambda: id in self._store)

    async def health(self) -> Health:
        """See :meth:`interlace.Store.health`."""
        return await self._run(self._store.health)

    async def report(self) -> Report:
        """See :meth:`interlace.Store.report`."""
        return await self._run(self._store.report)

    async def add(
        self, x: Any, ids: Any = None, *, payload: Any = None, effort: Effort | None = None, embedded: bool = False
    ) -> NDArray[Any]:
        """See :meth:`interlace.Store.add`."""
        return await self._run(self._store.add, x, ids, payload=payload, effort=effort, embedded=embedded)

    async def upsert(
        self, x: Any, ids: Any, *, payload: Any = None, effort: Effort | None = None, embedded: bool = False
    ) -> NDArray[Any]:
        """See :meth:`interlace.Store.upsert`."""
        return await self._run(self._store.upsert, x, ids, payload=payload, effort=effort, embedded=embedded)

    async def remove(self, ids: Any, *, missing: Missing = "raise") -> int:
        """See :meth:`interlace.Store.remove`."""
        return await self._run(self._store.remove, ids, missing=missing)

    async def compact(self) -> None:
        """See :meth:`interlace.Store.compact`."""
        await self._run(self._store.compact)

    async def calibrate(self, queries: Any = None, *, embedded: bool = False) -> None:
        """See :meth:`interlace.Store.calibrate`."""
        await self._run(self._store.calibrate, queries, embedded=embedded)

    async def close(self) -> None:
        """End the threads, after what they do."""
        await asyncio.to_thread(self._threads.shutdown)

    async def __aenter__(self) -> AsyncRemoteStore:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Async{self._store!r}"

    async def _run(self, call: Callable[..., T], *args: Any, **more: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, functools.partial(call, *args, **more))
