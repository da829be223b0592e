"""Several processes for one directory: one writes, the others read and answer (``interlace serve --workers``).

The supervisor binds the port once for each reader, starts the processes, and replaces those that end. A kill of any
of them loses nothing that was acknowledged: the writer's stores are durable, and readers have no state. If the
supervisor ends, all others do.
"""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import multiprocessing.connection
import shutil
import signal
import socket
import tempfile
import time
from dataclasses import replace
from multiprocessing.context import SpawnProcess
from typing import Any

from ...errors import InputError, StoreLockedError
from ..run import Tls
from ..settings import ServerSettings
from .members import ServerGroup, read, write

log = logging.getLogger("interlace.serve")
_SPAWN = multiprocessing.get_context("spawn")  # a fork would copy the locks of threads that it does not copy
PAUSE = 0.2  # seconds between two looks at the processes
BUSY_SECONDS = 3.0  # for the processes of a supervisor that was killed to let go of the port and the directory
BACKLOG = 2048  # connections that wait, as uvicorn has it
RESTARTS = 5  # of a process that ends at once, before all give up
AT_ONCE = 2.0  # seconds


class Supervisor:
    """Starts the processes, and ends them."""

    def __init__(
        self, settings: ServerSettings, workers: int, tls: Tls | None = None, *, grace: float = 30.0, log_level: str
    ) -> None:
        if workers < 1:
            raise InputError(f"workers must be at least 1, got {workers}")
        self._sockets = _retried(lambda: bound(settings, workers), OSError)
        writes, folder = _SPAWN.RawValue(ctypes.c_uint64, 0), tempfile.mkdtemp(prefix="interlace-")
        self.port = self._sockets[0][0].getsockname()[1]
        threads = max(1, settings.n_threads // workers)
        self._group = ServerGroup(
            replace(settings, port=self.port, threads=threads), tls, grace, log_level, folder, writes
        )
        self._running: dict[int, SpawnProcess] = {}  # by number; -1 is the writer
        self._started: dict[int, float] = {}
        self._quick_ends = 0
        self._stopping = False

    def run(self) -> int:
        """Until SIGTERM or SIGINT."""
        for end in (signal.SIGTERM, signal.SIGINT):
            signal.signal(end, self._stop)
        try:
            _retried(lambda: self._start(-1), StoreLockedError)
            for number in range(len(self._sockets)):
                self._start(number)
            scheme = "http" if self._group.tls is None else "https"
            host = f"[{self._group.settings.host}]" if ":" in self._group.settings.host else self._group.settings.host
            log.info("Uvicorn running on %s://%s:%d with %d workers", scheme, host, self.port, len(self._sockets))
            while not self._stopping:
                multiprocessing.connection.wait([each.sentinel for each in self._running.values()], PAUSE)
                self._replace_ended()
            return 0
        except _TooManyRestartsError as error:
            log.error("%s", error)
            return 1
        finally:
            self._end()

    def _stop(self, *_: Any) -> None:
        self._stopping = True

    def _start(self, number: int) -> None:
        self._started[number] = time.monotonic()
        if number >= 0:
            args: tuple[Any, ...] = (self._group, number, self._sockets[number])
            process = _SPAWN.Process(target=read, args=args, name=f"reader {number}")
            process.start()
        else:
            here, there = _SPAWN.Pipe(duplex=False)
            process = _SPAWN.Process(target=write, args=(self._group, there), name="writer")
            process.start()
            there.close()
            try:
                problem = here.recv()
            except EOFError:
                problem = "the process that writes has ended"
            if problem is not None:
                process.join()
                raise StoreLockedError(problem)
        self._running[number] = process

    def _replace_ended(self) -> None:
        for number, process in list(self._running.items()):
            if process.exitcode is None or self._stopping:
                continue
            log.error("%s ended with %s; it is started again", process.name, process.exitcode)
            quick = time.monotonic() - self._started[number] < AT_ONCE
            self._quick_ends = self._quick_ends + 1 if quick else 0
            if self._quick_ends > RESTARTS:
                raise _TooManyRestartsError(f"{process.name} ended {RESTARTS} times at once: the server gives up")
            del self._running[number]
            process.close()
            try:
                self._start(number)
            except StoreLockedError as error:
                raise _TooManyRestartsError(str(error)) from error

    def _end(self) -> None:
        """Readers first, so that writes that they have forwarded are answered."""
        for each in self._sockets:
            for one in each:
                one.close()
        until = time.monotonic() + self._group.grace + 5
        for readers in (True, False):
            processes = [process for number, process in self._running.items() if (number >= 0) == readers]
            for process in processes:
                process.terminate()
            for process in processes:
                process.join(max(0.1, until - time.monotonic()))
                if process.exitcode is None:
                    process.kill()
                    process.join()
        shutil.rmtree(self._group.folder, ignore_errors=True)


class _TooManyRestartsError(Exception):
    """A process does not stay alive."""


def bound(settings: ServerSettings, n: int) -> list[list[socket.socket]]:
    """Sockets for n processes on one port, for each address of the host; the kernel shares connections out."""
    found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = list(dict.fromkeys((family, address) for family, _, _, _, address in found))
    made: list[list[socket.socket]] = []
    try:
        if settings.port:  # SO_REUSEPORT would share it with a server that is there already
            for family, address in addresses:
                with socket.socket(family, socket.SOCK_STREAM) as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(address)
        port = settings.port
        for _ in range(n):
            made.append([])
            for family, address in addresses:
                one = socket.socket(family, socket.SOCK_STREAM)
                made[-1].append(one)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                one.bind((address[0], port, *address[2:]))
                one.listen(BACKLOG)  # connections wait for the process that will accept them
                port = one.getsockname()[1]
    except OSError:
        for each in made:
            for one in each:
                one.close()
        raise
    return made


def _retried(call: Any, error: type[OSError]) -> Any:
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return call()
        except error:
            if time.monotonic() >= until:
                raise
        time.sleep(0.05)
