"""The application: routes, behind the guard."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from .._version import __version__
from .collections.catalog import Catalog
from .gate.admission import ICON, Admission
from .gate.endpoint import Routes, Shortcuts
from .gate.express import Express
from .gate.guard import Guard, OtherProcess
from .gate.heads import Heads
from .gate.traffic import Traffic
from .problems import ProblemDetails, of_error
from .routes import collections, insight, payloads, points, snapshots, stored
from .routes import service as service_routes
from .routes.page import PageFiles, front, icon
from .settings import ServerSettings
from .work.service import Service

Beside = Callable[[], contextlib.AbstractAsyncContextManager[Any]]


@dataclass(frozen=True)
class Application:
    """The ASGI application, and what a server that reads requests itself needs beside it."""

    asgi: ASGIApp
    express: Express


def writing_service(settings: ServerSettings) -> Service:
    """What the routes share in the process that writes. It holds the directory until the application ends."""
    service = Service.of(settings, Catalog(settings))
    service.metrics.watch(service.catalog)
    return service


def build(service: Service, other: OtherProcess | None = None, beside: Beside = contextlib.nullcontext) -> Application:
    """The application. ``other`` answers what this process does not; ``beside`` is open as long as the server runs."""
    settings = service.settings

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opening = asyncio.get_running_loop().run_in_executor(None, service.catalog.open_all)
        try:
            async with beside():
                yield
        finally:
            await opening
            await service.work.begun()
            await asyncio.get_running_loop().run_in_executor(None, service.work.close)
            service.catalog.close()

    app = FastAPI(
        title="interlace",
        version=__version__,
        description="Similarity search in a few bytes per vector. Routes follow Qdrant's REST API (docs/qdrant.md).",
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

    async def favicon(request: Request) -> Response:
        """The icon of the page."""
        return icon()

    Routes(app, "service").add("GET", "/", root, reads=True)
    Routes(app, "service").add("GET", ICON, favicon, reads=True, produces="image/svg+xml", listed=False)
    app.mount("/page", PageFiles(), name="page")
    app.add_exception_handler(HTTPException, _http_problem)
    app.add_exception_handler(ProblemDetails, _problem)
    traffic, admission = Traffic(service.metrics), Admission(settings)
    guard = Guard(app, settings, admission, traffic, shortcuts, other)
    return Application(guard, Express(service, Heads(admission), traffic))


async def _http_problem(request: Request, error: Exception) -> Response:
    """Unknown paths and methods."""
    assert isinstance(error, HTTPException)
    code = {404: "unknown_path", 405: "method"}.get(error.status_code, "http")
    text = f"{request.method} {request.url.path[:200]}: {error.detail}"
    problem = ProblemDetails(error.status_code, code, text, dict(error.headers or {}))
    return problem.response(request.state.request_id, request.state.began)


async def _problem(request: Request, error: Exception) -> Response:
    """Of the guard, while a body is read."""
    return of_error(error).response(request.state.request_id, request.state.began)
