"""Threads of a server: searches in a bounded pool, writes of a collection one after the other.

Single queries that arrive together, or while all threads are busy, run as one batch: nothing is delayed as long as a
thread is free, and a batch has at most :data:`MOST` queries.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ...errors import InterlaceError
from ..problems import ProblemDetails, over_limit
from ..settings import RequestLimits

T = TypeVar("T")
log = logging.getLogger("interlace.serve")
MOST = 64  # queries in a batch
WRITERS = 8  # collections that are written to at the same time

#: Runs several requests at once: answers, or the exceptions of those that failed.
RunBatch = Callable[[Sequence[Any]], Sequence[Any]]


class Member:
    """A request of a batch; ``finish`` gets its answer, or an exception, on the event loop."""

    __slots__ = ("deadline", "done", "finish", "request")

    def __init__(self, request: Any, finish: Callable[[Any], None], deadline: float) -> None:
        self.request, self.finish, self.deadline, self.done = request, finish, deadline, False


if sys.version_info >= (3, 11):

    async def in_time(what: Awaitable[T], seconds: float) -> T:
        """The result, or TimeoutError; without a task of its own, which wait_for makes."""
        async with asyncio.timeout(seconds):
            return await what

else:

    async def in_time(what: Awaitable[T], seconds: float) -> T:
        """The result, or TimeoutError."""
        try:
            return await asyncio.wait_for(what, seconds)
        except asyncio.TimeoutError:
            raise TimeoutError from None


def _nothing() -> None:
    """What follows a write where nobody else reads."""


class Workers:
    """What runs off the event loop."""

    def __init__(self, threads: int, limits: RequestLimits) -> None:
        self.threads, self._limits = threads, limits
        self._searches = ThreadPoolExecutor(threads, "search")
        self._writes = ThreadPoolExecutor(WRITERS, "write")
        self._locks: dict[str, asyncio.Lock] = {}
        self.waiting = 0  #: searches that have no thread yet, or run
        self.writing = 0  #: writes that wait or run
        self.after_write: Callable[[], None] = _nothing  #: called after each write, before it is acknowledged
        self._begun = set[asyncio.Task[Any]]()  # writes that no request waits for
        self._running = 0  # batches
        self._groups: dict[Hashable, tuple[RunBatch, list[Member]]] = {}
        self._open: deque[Member] = deque()  # of all batches, oldest first
        self._timer: asyncio.TimerHandle | None = None  # for the oldest
        self._starting = False  # whether _start is called soon
        self._loop: asyncio.AbstractEventLoop | None = None

    async def read(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function that reads in a thread of the pool."""
        self._enter()
        try:
            return await self._in_time(asyncio.get_running_loop().run_in_executor(self._searches, function, *args))
        finally:
            self.waiting -= 1

    async def read_batched(self, key: Hashable, run: RunBatch, request: Any) -> Any:
        """The same for requests that can run together with others of the same key."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def finish(result: Any) -> None:
            if answer.done():  # nobody waits any more
                return
            if isinstance(result, BaseException):
                answer.set_exception(result)
            else:
                answer.set_result(result)

        self.join(key, run, request, finish)
        return await answer

    def join(self, key: Hashable, run: RunBatch, request: Any, finish: Callable[[Any], None]) -> None:
        """The same without waiting: ``finish`` gets the answer, or an exception."""
        self._enter()
        loop = self._loop = self._loop or asyncio.get_running_loop()  # which costs a system call
        member = Member(request, finish, loop.time() + self._limits.seconds)
        self._open.append(member)
        self._groups.setdefault(key, (run, []))[1].append(member)
        if self._timer is None:
            self._timer = loop.call_at(member.deadline, self._expire)
        if not self._starting:  # once all requests that have arrived by now were read
            self._starting = True
            loop.call_soon(self._start)

    def _expire(self) -> None:
        """Answer those whose time is over; later ones set the next timer."""
        loop, self._timer = asyncio.get_running_loop(), None
        now = loop.time()
        while self._open and (self._open[0].done or self._open[0].deadline <= now):
            self._end(self._open.popleft(), over_limit(503, "seconds", self._limits.seconds))
        if self._open:
            self._timer = loop.call_at(self._open[0].deadline, self._expire)

    def _end(self, member: Member, result: Any) -> None:
        if not member.done:
            member.done = True
            self.waiting -= 1
            if isinstance(result, InterlaceError | ProblemDetails):
                result.__traceback__ = None  # its frames hold the state that was searched
            member.finish(result)

    def _enter(self) -> None:
        if self.waiting >= self._limits.queue:
            raise over_limit(503, "queue", self._limits.queue, "more searches at once")
        self.waiting += 1

    def _start(self) -> None:
        self._starting = False
        while self._groups and self._running < self.threads:
            key = next(iter(self._groups))
            run, members = self._groups.pop(key)
            if len(members) > MOST:
                self._groups[key] = run, members[MOST:]  # to the end of the queue
                members = members[:MOST]
            members = [member for member in members if not member.done]
            if members:
                self._running += 1
                self._searches.submit(self._run, asyncio.get_running_loop(), run, members)

    def _run(self, loop: asyncio.AbstractEventLoop, run: RunBatch, members: list[Member]) -> None:
        """In a thread: the answers go back to the event loop in one call."""
        try:
            found = run([member.request for member in members])
        except BaseException as error:
            found = [error] * len(members)
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            loop.call_soon_threadsafe(self._finish, members, found)

    def _finish(self, members: list[Member], found: Sequence[Any]) -> None:
        self._running -= 1
        for member, result in zip(members, found, strict=True):
            self._end(member, result)
        while self._open and self._open[0].done:
            self._open.popleft()
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
            try:
                return await asyncio.get_running_loop().run_in_executor(self._writes, function, *args)
            finally:
                self.after_write()

    def begin(self, writing: Coroutine[Any, Any, Any]) -> None:
        """Carry out a write that no request waits for; that it failed is logged."""
        task = asyncio.ensure_future(writing)
        self._begun.add(task)  # the event loop does not keep it
        task.add_done_callback(self._end_of_begun)

    def _end_of_begun(self, task: asyncio.Task[Any]) -> None:
        self._begun.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a write that was accepted has failed: %s", error)

    async def begun(self) -> None:
        """Wait for the writes of :meth:`begin`."""
        await asyncio.gather(*self._begun, return_exceptions=True)

    async def _in_time(self, task: Awaitable[T]) -> T:
        try:
            return await in_time(task, self._limits.seconds)
        except TimeoutError:
            raise over_limit(503, "seconds", self._limits.seconds) from None

    def close(self) -> None:
        """Wait for what runs."""
        self._searches.shutdown(wait=True, cancel_futures=True)
        self._writes.shutdown(wait=True)
