"""How a route is called: access is checked, errors become problems, results become JSON of Qdrant's shape."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from fastapi import FastAPI, Request
from pydantic import BaseModel
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from ..problems import ProblemDetails, of_error
from ..requests.parameters import Parameters

log = logging.getLogger("interlace.serve")
M = TypeVar("M", bound=BaseModel)
Handler = Callable[[Request], Awaitable[Response]]
READ, FULL = "read", "full"
GONE = 499  # status of a request whose client went away
DONE = '{"operation_id":0,"status":"completed"}'  #: result of a write


class Shortcuts:
    """Routes that are called often, found without the router, which tries one route after the other."""

    def __init__(self) -> None:
        self._by_end: dict[tuple[str, str], tuple[Handler, Any]] = {}

    def add(self, method: str, path: str, handler: Handler, route: Any) -> None:
        """A route ``/collections/{name}/...`` without other parameters."""
        self._by_end[method, path.removeprefix("/collections/{name}")] = handler, route

    def of(self, scope: Any) -> Handler | None:
        """The handler of a request; None: ask the router."""
        path = scope["path"]
        end = path.find("/", 13)
        if end < 0 or not path.startswith("/collections/"):
            return None
        found = self._by_end.get((scope["method"], path[end:]))
        if found is None:
            return None
        scope["path_params"], scope["route"] = {"name": path[13:end]}, found[1]
        return found[0]


class Routes:
    """Adds routes to an application. A route needs the full key unless it says that it only reads."""

    def __init__(self, app: FastAPI, tag: str, shortcuts: Shortcuts | None = None) -> None:
        self._app, self._tag, self._shortcuts = app, tag, shortcuts

    def add(
        self,
        method: str,
        path: str,
        handler: Handler,
        *,
        reads: bool = False,
        body: type[BaseModel] | None = None,
        other_bodies: Sequence[str] = (),
        query: Sequence[str] = (),
        produces: str = "application/json",
        listed: bool = True,
        often: bool = False,
    ) -> None:
        """Add a route, with a shortcut if it is called often; the rest describes it for ``/openapi.json``."""
        extra: dict[str, Any] = {"responses": {"200": {"description": "Success", "content": {produces: {}}}}}
        content: dict[str, Any] = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in other_bodies}
        if body is not None:
            content["application/json"] = {"schema": {"$ref": f"#/components/schemas/{body.__name__}"}}
            BODIES.setdefault(body.__name__, body)
        if content:
            extra["requestBody"] = {"required": True, "content": content}
        named = [(name, "path") for name in re.findall(r"{(\w+)", path)] + [(name, "query") for name in query]
        extra["parameters"] = [
            {"name": name, "in": where, "required": where == "path", "schema": {"type": "string"}}
            for name, where in named
        ]
        extra["responses"]["default"] = {"description": "An error", "content": {"application/json": {}}}
        called = _guarded(handler, reads)
        self._app.add_api_route(
            path,
            called,
            methods=[method],
            tags=[self._tag],
            name=handler.__name__,
            operation_id=re.sub(r"\W+", "_", method.lower() + path).strip("_"),
            include_in_schema=listed,
            description=(handler.__doc__ or "").strip(),
            openapi_extra=extra,
            response_model=None,
        )
        if often and self._shortcuts is not None:
            self._shortcuts.add(method, path, called, self._app.routes[-1])


#: Models of bodies, for the description of the API.
BODIES: dict[str, type[BaseModel]] = {}


def _guarded(handler: Handler, reads: bool) -> Handler:
    async def call(request: Request) -> Response:
        try:
            if not reads:
                check_full(request)
            if request.scope["query_string"]:
                Parameters.of(request.query_params)
            return await handler(request)
        except ClientDisconnect:
            return Response(status_code=GONE)  # nobody reads it; it is logged and counted
        except Exception as error:
            problem = of_error(error)
            if problem.status == 500 and problem.code == "internal":
                log.exception("unexpected error", extra={"request_id": request.state.request_id})
            return problem.response(request.state.request_id, request.state.began)

    call.__name__, call.__doc__ = handler.__name__, handler.__doc__
    return call


def check_full(request: Request) -> None:
    """Raise a problem unless the request has the full key."""
    if request.state.access != FULL:
        raise ProblemDetails(403, "read_only", "this needs the full API key, the key that was given is read-only")


def media_type(request: Request, default: str = "") -> str:
    """Of the body, without parameters."""
    return request.headers.get("content-type", default).partition(";")[0].strip().lower()


async def parsed(request: Request, model: type[M]) -> M:
    """The JSON body."""
    kind = media_type(request, "application/json")
    if kind != "application/json" and not kind.endswith("+json"):
        raise ProblemDetails(415, "media_type", f"the body must be application/json, got {kind!r:.80}")
    return model.model_validate_json(await request.body())


def accepted(request: Request) -> Response:
    """An answer before the result is there."""
    seconds = time.perf_counter() - request.state.began
    return Response(f'{{"status":"accepted","time":{seconds:.9f}}}', 202, media_type="application/json")


def ok(request: Request, result: str, more: str = "") -> Response:
    """An answer in Qdrant's shape; ``result`` is JSON text."""
    seconds = time.perf_counter() - request.state.began
    return Response(f'{{"result":{result},"status":"ok","time":{seconds:.9f}{more}}}', media_type="application/json")
