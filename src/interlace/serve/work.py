"""Threads of a server: searches in a bounded pool, writes of a collection one after the other.

Single queries that arrive while all threads are busy wait for each other and run as one batch: nothing is delayed as
long as a thread is free, and a batch has at most :data:`MOST` queries.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from .problems import over_limit
from .settings import RequestLimits
from .timing import in_time

T = TypeVar("T")
MOST = 64  # queries in a batch
WRITERS = 8  # collections that are written to at the same time

#: Runs several requests at once: answers, or the exceptions of those that failed.
RunBatch = Callable[[Sequence[Any]], Sequence[Any]]


#: Requests of a batch, each with its answer.
Members = list[tuple[Any, "asyncio.Future[Any]"]]


class Workers:
    """What runs off the event loop."""

    def __init__(self, threads: int, limits: RequestLimits) -> None:
        self.threads, self._limits = threads, limits
        self._searches = ThreadPoolExecutor(threads, "search")
        self._writes = ThreadPoolExecutor(WRITERS, "write")
        self._locks: dict[str, asyncio.Lock] = {}
        self.waiting = 0  #: searches that have no thread yet, or run
        self.writing = 0  #: writes that wait or run
        self._running = 0  # batches
        self._groups: dict[Hashable, tuple[RunBatch, Members]] = {}

    async def read(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function that reads in a thread of the pool."""
        self._enter()
        try:
            return await self._in_time(asyncio.get_running_loop().run_in_executor(self._searches, function, *args))
        finally:
            self.waiting -= 1

    async def read_batched(self, key: Hashable, run: RunBatch, request: Any) -> Any:
        """The same for requests that can run together with others of the same key."""
        self._enter()
        try:
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            group = self._groups.setdefault(key, (run, []))
            group[1].append((request, answer))
            self._start()
            return await self._in_time(answer)
        finally:
            self.waiting -= 1

    def _enter(self) -> None:
        if self.waiting >= self._limits.queue:
            raise over_limit(503, "queue", self._limits.queue, "more searches at once")
        self.waiting += 1

    def _start(self) -> None:
        while self._groups and self._running < self.threads:
            key = next(iter(self._groups))
            run, members = self._groups.pop(key)
            if len(members) > MOST:
                self._groups[key] = run, members[MOST:]  # to the end of the queue
                members = members[:MOST]
            members = [(request, answer) for request, answer in members if not answer.done()]
            if members:
                self._running += 1
                self._searches.submit(self._run, asyncio.get_running_loop(), run, members)

    def _run(self, loop: asyncio.AbstractEventLoop, run: RunBatch, members: Members) -> None:
        """In a thread: the answers go back to the event loop in one call."""
        try:
            found = run([request for request, _ in members])
        except BaseException as error:
            found = [error] * len(members)
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(self._finish, members, found)

    def _finish(self, members: Members, found: Sequence[Any]) -> None:
        self._running -= 1
        for (_, answer), result in zip(members, found, strict=True):
            if answer.done():
                continue
            if isinstance(result, BaseException):
                answer.set_exception(result)
            else:
                answer.set_result(result)
        self._start()

    async def write(self, name: str, function: Callable[..., T], *args: Any, limited: bool = True) -> T:
        """Call a function that writes to a collection. It finishes even if the client is gone or the time is over."""
        self.writing += 1
        try:
            task = asyncio.shield(asyncio.ensure_future(self._written(name, function, *args)))
            return await (self._in_time(task) if limited else task)
        finally:
            self.writing -= 1

    async def _written(self, name: str, function: Callable[..., T], *args: Any) -> T:
        async with self._locks.setdefault(name, asyncio.Lock()):
            return await asyncio.get_running_loop().run_in_executor(self._writes, function, *args)

    async def _in_time(self, task: Awaitable[T]) -> T:
        try:
            return await in_time(task, self._limits.seconds)
        except TimeoutError:
            raise over_limit(503, "seconds", self._limits.seconds) from None

    def close(self) -> None:
        """Wait for what runs."""
        self._searches.shutdown(wait=True, cancel_futures=True)
        self._writes.shutdown(wait=True)
