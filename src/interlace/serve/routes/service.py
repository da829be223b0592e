"""The server itself: version, health, metrics, and a description of the API that needs no other server."""

from __future__ import annotations

import html
import json
from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ..._version import __version__
from ..gate.endpoint import BODIES, Routes
from ..problems import ProblemDetails, unsupported
from ..work.metrics import CONTENT_TYPE
from ..work.service import Service

#: The version of Qdrant's REST API that the routes follow; its clients compare it with their own.
QDRANT_API = "1.20.0"
#: Pages load from this server alone, and no other site may show them in a frame.
POLICY = "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'"
#: Routes of Qdrant that this server does not have, with the methods of its clients.
ELSEWHERE = (
    "/cluster",
    "/cluster/{rest:path}",
    "/collections/{name}/cluster",
    "/collections/{name}/optimizations",
    "/collections/{name}/points/discover",
    "/collections/{name}/points/discover/{rest:path}",
    "/collections/{name}/points/recommend",
    "/collections/{name}/points/recommend/{rest:path}",
    "/collections/{name}/points/search",
    "/collections/{name}/points/search/{rest:path}",
    "/collections/{name}/points/vectors/{rest:path}",
    "/collections/{name}/shards",
    "/collections/{name}/shards/{rest:path}",
    "/collections/{name}/snapshots/recover",
    "/collections/{name}/snapshots/upload",
    "/collections/{name}/vectors/{rest:path}",
    "/issues",
    "/locks",
    "/quotas",
    "/snapshots",
    "/snapshots/{rest:path}",
    "/telemetry",
)


def add(routes: Routes, service: Service, app: FastAPI) -> None:
    """Add the routes."""

    async def alive(request: Request) -> Response:
        """Whether the process answers."""
        return Response("healthz check passed", media_type="text/plain")

    async def ready(request: Request) -> Response:
        """Whether all stores are open; damaged ones do not count, /collections/{name} has their state."""
        if not service.catalog.ready:
            raise ProblemDetails(503, "starting", "the server is opening its stores", {"Retry-After": "1"})
        return Response("all shards are ready", media_type="text/plain")

    async def metrics(request: Request) -> Response:
        """Counters and gauges for Prometheus."""
        service.metrics.settle()
        if service.gathered is not None:
            return Response(await service.gathered(request.scope["headers"]), media_type=CONTENT_TYPE)
        return Response(await service.work.read(service.metrics.text), media_type=CONTENT_TYPE)

    async def openapi(request: Request) -> Response:
        """The API as OpenAPI."""
        return Response(json.dumps(description(app)), media_type="application/json")

    async def docs(request: Request) -> Response:
        """The API as a page."""
        return HTMLResponse(_page(description(app)), headers={"content-security-policy": POLICY})

    async def elsewhere(request: Request) -> Response:
        """Parts of Qdrant's API that this server does not have."""
        raise unsupported(f"{request.method} {request.scope['route'].path}", 501)

    for path in ("/healthz", "/livez"):
        routes.add("GET", path, alive, reads=True, produces="text/plain")
    routes.add("GET", "/readyz", ready, reads=True, produces="text/plain")
    routes.add("GET", "/metrics", metrics, reads=True, produces="text/plain")
    routes.add("GET", "/openapi.json", openapi, reads=True)
    routes.add("GET", "/docs", docs, reads=True, produces="text/html")
    for path in ELSEWHERE:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            routes.add(method, path, elsewhere, reads=True, listed=False)


def version() -> dict[str, Any]:
    """What clients read at ``/``."""
    return {"title": "interlace", "version": QDRANT_API, "interlace": __version__}


def description(app: FastAPI) -> dict[str, Any]:
    """OpenAPI, with the models of the bodies."""
    found = app.openapi()
    _, models = models_json_schema(
        [(model, "validation") for model in BODIES.values()], ref_template="#/components/schemas/{model}"
    )
    found.setdefault("components", {}).setdefault("schemas", {}).update(models.get("$defs", {}))
    return found


def _page(api: dict[str, Any]) -> str:
    rows = []
    for path, item in sorted(api["paths"].items()):
        for method, operation in item.items():
            body = operation.get("requestBody", {}).get("content", {})
            schema = body.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
            kinds = ", ".join(
                [f'<a href="#{schema}">{schema}</a>'] * bool(schema) + [k for k in body if "json" not in k]
            )
            text = html.escape(operation.get("description", ""))
            rows.append(
                f"<tr><td>{method.upper()}</td><td><code>{html.escape(path)}</code></td><td>{text}</td><td>{kinds}</td></tr>"
            )
    schemas = "".join(
        f'<h3 id="{name}">{name}</h3><pre>{html.escape(json.dumps(schema, indent=1))}</pre>'
        for name, schema in sorted(api.get("components", {}).get("schemas", {}).items())
        if not name.startswith("HTTPValidation") and name != "ValidationError"
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>interlace: the API</title>"
        '<link rel="icon" href="page/icon.svg" type="image/svg+xml"><style>'
        "body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:1rem}"
        ":root{color-scheme:light dark}"
        "td{padding:.2rem .8rem .2rem 0;vertical-align:top}pre{overflow:auto}</style><h1>Routes</h1>"
        '<p>The same for programs: <a href="openapi.json">openapi.json</a>.</p>'
        f"<table>{''.join(rows)}</table><h2>Bodies</h2>{schemas}</html>"
    )
