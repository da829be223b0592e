"""What the processes of a server do: one writes, the others read and answer."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import shutil
import signal
import socket
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..app import build, writing_service
from ..run import Tls, configured, forget_imports, log_to_stderr
from ..settings import ServerSettings
from ..work.service import Service
from . import gathering
from .forward import Forward
from .reading import ReadCatalog


@dataclass(frozen=True)
class ServerGroup:
    """What all processes of a server know."""

    settings: ServerSettings
    tls: Tls | None
    grace: float
    log_level: str
    folder: str  #: of their sockets
    writes: Any  #: number of writes, shared

    @property
    def writer_socket(self) -> str:
        """Where the writer listens."""
        return str(Path(self.folder) / "writer.sock")


def write(group: ServerGroup, started: Any) -> None:
    """The process that writes."""
    _join(group)
    path = Path(group.writer_socket)
    path.unlink(missing_ok=True)  # of a writer that was killed
    try:
        service = writing_service(group.settings)
        app = build(service)
    except Exception as error:
        started.send(str(error))
        return
    counting = threading.Lock()

    def count() -> None:
        with counting:
            group.writes.value += 1

    count()  # what the writer before it has not counted
    service.work.after_write = count
    started.send(None)
    started.close()
    logging.getLogger("interlace.serve.access").setLevel(logging.WARNING)  # readers have logged the request
    forget_imports()
    configured(app, group.settings, None, grace=group.grace, uds=str(path)).run()


def read(group: ServerGroup, number: int, sockets: list[socket.socket]) -> None:
    """A process that reads and answers."""
    _join(group)
    catalog = ReadCatalog(group.settings, group.writes)
    forward = Forward(catalog, group.writer_socket)
    service = Service.of(group.settings, catalog)
    metrics = service.metrics

    async def gathered(headers: Any) -> bytes:
        """What all processes of the group have counted."""
        own, writer = metrics.text(), await forward.text("/metrics", headers)
        return gathering.added([own.decode(), writer.decode(), *await gathering.others(group.folder, number)])

    @contextlib.asynccontextmanager
    async def beside() -> AsyncIterator[None]:
        """Let the other processes ask for metrics."""
        server = await gathering.listen(metrics, group.folder, number)
        try:
            yield
        finally:
            server.close()
            forward.close()

    app = build(replace(service, gathered=gathered), forward, beside)
    forget_imports()
    configured(app, group.settings, group.tls, grace=group.grace).run(sockets)


def _join(group: ServerGroup) -> None:
    """Begin a process of the group: it logs as the supervisor does, and ends with it."""
    os.setpgrp()  # Ctrl-C is a matter of the supervisor
    log_to_stderr(group.log_level)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        shutil.rmtree(group.folder, ignore_errors=True)
        os.kill(os.getpid(), signal.SIGKILL)  # acknowledged writes are on disk; others were not acknowledged

    threading.Thread(target=wait, name="parent", daemon=True).start()
