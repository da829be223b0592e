"""The application: routes, behind the guard."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from .._version import __version__
from .collections.catalog import Catalog
from .gate.admission import Admission
from .gate.endpoint import Routes, Shortcuts
from .gate.express import Express
from .gate.guard import Guard
from .gate.heads import Heads
from .gate.traffic import Traffic
from .problems import ProblemDetails, of_error
from .processes import gathering
from .processes.forward import Forward
from .processes.reading import ReadCatalog
from .routes import collections, insight, payloads, points, snapshots, stored
from .routes import service as service_routes
from .routes.page import PageFiles, front
from .settings import ServerSettings
from .work.service import Service


@dataclass(frozen=True)
class Application:
    """The ASGI application, and what a server that reads requests itself needs beside it."""

    asgi: ASGIApp
    express: Express


@dataclass(frozen=True)
class ReadingRole:
    """One of several processes: it reads, and hands everything else to the writer."""

    writes: Any  #: number of writes, shared
    folder: str  #: of the sockets of the group
    writer: str  #: socket of the writer
    number: int


@dataclass(frozen=True)
class WritingRole:
    """The process of a group that writes."""

    writes: Any  #: number of writes, shared


def create_app(settings: ServerSettings) -> ASGIApp:
    """The ASGI application of a directory of stores. It holds the directory until its lifespan ends."""
    return build(settings).asgi


def build(settings: ServerSettings, role: ReadingRole | WritingRole | None = None) -> Application:
    """The same with the express path; ``role`` is that of one of several processes."""
    service, forward = _service(settings, role)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opening = asyncio.get_running_loop().run_in_executor(None, service.catalog.open_all)
        try:
            async with _telling(service, role):
                yield
        finally:
            await opening
            await asyncio.get_running_loop().run_in_executor(None, service.work.close)
            service.catalog.close()
            if forward is not None:
                forward.close()

    app = FastAPI(
        title="interlace",
        version=__version__,
        description="Similarity search in a few bytes per vector. Routes follow Qdrant's REST API (docs/serve.md).",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
    )
    shortcuts = Shortcuts()
    collections.add(Routes(app, "collections"), service)
    points.add(Routes(app, "points", shortcuts), service)
    payloads.add(Routes(app, "payload"), service)
    snapshots.add(Routes(app, "snapshots"), service)
    insight.add(Routes(app, "insight"), service)
    stored.add(Routes(app, "il.connect"), service)
    service_routes.add(Routes(app, "service"), service, app)

    async def root(request: Request) -> Response:
        """The page for browsers, the version for programs."""
        if "text/html" in request.headers.get("accept", ""):
            return front()
        return Response(json.dumps(service_routes.version()), media_type="application/json")

    Routes(app, "service").add("GET", "/", root, reads=True)
    app.mount("/page", PageFiles(), name="page")
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_exception_handler(ProblemDetails, _problem)
    traffic, admission = Traffic(service.metrics), Admission(settings)
    guard = Guard(app, settings, admission, traffic, shortcuts, forward)
    return Application(guard, Express(service, Heads(admission), traffic))


def _service(settings: ServerSettings, role: ReadingRole | WritingRole | None) -> tuple[Service, Forward | None]:
    if isinstance(role, ReadingRole):
        catalog = ReadCatalog(settings, role.writes)
        forward = Forward(catalog, role.writer)
        service = Service.of(settings, catalog)

        async def gathered(headers: Any) -> bytes:
            """What all processes of the group have counted."""
            own, writer = service.metrics.text(), await forward.text("/metrics", headers)
            texts = [own.decode(), writer.decode(), *await gathering.others(role.folder, role.number)]
            return gathering.added(texts)

        return replace(service, gathered=gathered), forward
    service = Service.of(settings, Catalog(settings))
    service.metrics.watch(service.catalog)
    if role is not None:
        counting = threading.Lock()

        def count() -> None:
            with counting:
                role.writes.value += 1

        count()  # what the writer before it has not counted
        service.work.after_write = count
    return service, None


@contextlib.asynccontextmanager
async def _telling(service: Service, role: ReadingRole | WritingRole | None) -> AsyncIterator[None]:
    """Let the other processes of the group ask for metrics."""
    if not isinstance(role, ReadingRole):
        yield
        return
    server = await gathering.listen(service.metrics, role.folder, role.number)
    try:
        yield
    finally:
        server.close()


async def _http_problem(request: Request, error: Exception) -> Response:
    """Unknown paths and methods."""
    assert isinstance(error, HTTPException)
    code = {404: "unknown_path", 405: "method"}.get(error.status_code, "http")
    text = f"{request.method} {request.url.path[:200]}: {error.detail}"
    problem = ProblemDetails(error.status_code, code, text, dict(error.headers or {}))
    return problem.response(request.state.request_id)


async def _problem(request: Request, error: Exception) -> Response:
    """Of the guard, while a body is read."""
    return of_error(error).response(request.state.request_id)
