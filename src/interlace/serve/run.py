"""Run the server: uvicorn with limits, logs as lines of JSON, and a time limit for the header of a request."""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from .app import create_app
from .guard import JsonLines
from .settings import ServerSettings

log = logging.getLogger("interlace.serve")


@dataclass(frozen=True)
class Tls:
    """Files of the certificate and its key, as uvicorn takes them."""

    certificate: str
    key: str
    key_password: str | None = None


def _protocol(seconds: float) -> Any:
    """uvicorn's protocol, which closes connections that do not send a whole header in time."""
    base: Any = AutoHTTPProtocol

    class Impatient(base):  # type: ignore[misc]
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._waiting = asyncio.get_running_loop().call_later(seconds, self._give_up)

        def _give_up(self) -> None:
            if self.cycle is None and not self.transport.is_closing():
                self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            self._waiting.cancel()
            super().connection_lost(exc)

    return Impatient


def server(settings: ServerSettings, tls: Tls | None = None, *, grace: float = 30.0) -> uvicorn.Server:
    """A server that is not running yet."""
    config = uvicorn.Config(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        http=_protocol(settings.limits.read_seconds),
        limit_concurrency=settings.limits.connections,
        timeout_keep_alive=int(max(5, settings.limits.read_seconds)),
        timeout_graceful_shutdown=int(grace),
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
        ssl_keyfile_password=None if tls is None else tls.key_password,
    )
    return uvicorn.Server(config)


def log_to_stderr(level: str = "info") -> None:
    """Lines of JSON for the server, uvicorn and warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.captureWarnings(True)
    for name in ("interlace", "uvicorn", "py.warnings"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
