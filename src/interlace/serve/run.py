"""Run the server: uvicorn with limits, logs as lines of JSON, and time limits for connections."""

from __future__ import annotations

import gc
import json
import logging
import sys
from dataclasses import dataclass
from typing import Any

import uvicorn

from .app import Application, build, writing_service
from .gate.patience import protocol
from .settings import ServerSettings

log = logging.getLogger("interlace.serve")


@dataclass(frozen=True)
class Tls:
    """Files of the certificate and its key, as uvicorn takes them."""

    certificate: str
    key: str
    key_password: str | None = None


def server(settings: ServerSettings, tls: Tls | None = None, *, grace: float = 30.0) -> uvicorn.Server:
    """A server in one process that is not running yet."""
    return configured(build(writing_service(settings)), settings, tls, grace=grace)


def configured(
    app: Application, settings: ServerSettings, tls: Tls | None, *, grace: float, uds: str | None = None
) -> uvicorn.Server:
    """A server for an application; ``uds``: it listens on a socket of the file system."""
    config = uvicorn.Config(
        app.asgi,
        host=settings.host,
        port=settings.port,
        uds=uds,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        ws="none",
        http=protocol(settings.limits.read_seconds, settings.limits.seconds, app.express),
        limit_concurrency=settings.limits.connections,
        timeout_keep_alive=int(max(5, settings.limits.read_seconds)),
        timeout_graceful_shutdown=int(grace),
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
        ssl_keyfile_password=None if tls is None else tls.key_password,
    )
    return uvicorn.Server(config)


def forget_imports() -> None:
    """Take what was imported out of the collection of garbage; before a process of its own begins to serve.

    Exceptions of refused requests are in cycles with frames, which hold states of stores. The collector looks for old
    cycles when objects have grown by a quarter: with half a million objects of imports that is late, and takes long.
    """
    gc.collect()
    gc.freeze()


class JsonLines(logging.Formatter):
    """A line of JSON for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        request_id = getattr(record, "request_id", None)
        if request_id is not None:
            fields["request_id"] = request_id
        fields.update(getattr(record, "fields", {}))
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def log_to_stderr(level: str = "info") -> None:
    """Lines of JSON for the server, uvicorn and warnings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.captureWarnings(True)
    for name in ("interlace", "uvicorn", "py.warnings"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())
