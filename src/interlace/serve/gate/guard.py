"""What happens to every request before its route: an id, keys, limits, the log and the metrics.

A plain ASGI application around the routes. It counts the bytes of a body while they arrive and gives a client a limited
time between two parts of it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..problems import ProblemDetails, over_limit
from ..settings import ServerSettings
from ..work.threads import in_time
from .admission import Admission
from .endpoint import GONE, Shortcuts
from .traffic import Traffic

_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
UNREAD = 1 << 16  # bytes of a body that uvicorn may read and drop after an error


class OtherProcess(Protocol):
    """The process of a group that answers what this one does not."""

    async def is_local(self, scope: Scope) -> bool:
        """Whether this process answers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        """Pass a request on, and its answer back."""


class Guard:
    """The outermost application."""

    def __init__(
        self,
        app: ASGIApp,
        settings: ServerSettings,
        admission: Admission,
        traffic: Traffic,
        shortcuts: Shortcuts,
        forward: OtherProcess | None,
    ) -> None:
        self._app, self._settings, self._admission = app, settings, admission
        self._traffic, self._shortcuts, self._forward = traffic, shortcuts, forward

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:  # a web socket: refused before it is accepted
            await send({"type": "websocket.close", "code": 1003})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, traffic = time.perf_counter(), self._traffic
        headers = _headers(scope)
        request_id = traffic.ids.of(headers.get("x-request-id", ""))
        exchange = _Exchange(receive, send, self._settings, request_id)
        here = True  # not forwarded
        traffic.active += 1
        try:
            try:
                if traffic.active > self._settings.limits.concurrent:
                    raise over_limit(429, "concurrent", self._settings.limits.concurrent, "more requests at once")
                access = self._admission.admit(headers, scope["path"], scope.get("raw_path", b""))
                scope.setdefault("state", {}).update(access=access, request_id=request_id, began=began)
                exchange.check_length(headers)
                if self._forward is not None and not await self._forward.is_local(scope):
                    here = False
                    await self._forward(scope, exchange.receive, exchange.send, request_id)
                    return
                short = self._shortcuts.of(scope)
                if short is None:
                    await self._app(scope, exchange.receive, exchange.send)
                else:
                    response = await short(Request(scope, exchange.receive))
                    await response(scope, exchange.receive, exchange.send)
            except ProblemDetails as problem:
                if not exchange.status:
                    await problem.response(request_id, began)(scope, receive, exchange.send)
        finally:
            traffic.active -= 1
            traffic.note(
                request_id,
                scope["method"],
                scope["path"],
                getattr(scope.get("route"), "path", "unmatched") if here else None,
                exchange.status or GONE,
                time.perf_counter() - began,
                (exchange.received, exchange.sent),
                (scope.get("client") or [""])[0],
            )


class _Exchange:
    """Receives within the limits and remembers what was sent."""

    def __init__(self, receive: Receive, send: Send, settings: ServerSettings, request_id: str) -> None:
        self._receive, self._send, self._limits = receive, send, settings.limits
        self._request_id = request_id.encode()
        self.status, self.received, self.sent, self._complete = 0, 0, 0, False
        self._long = True  # whether the rest of the body is worth a new connection

    def check_length(self, headers: Mapping[str, str]) -> None:
        length = headers.get("content-length", "0" if "transfer-encoding" not in headers else "")
        self._long = not length.isdecimal() or int(length) > UNREAD
        if length.isdecimal() and int(length) > self._limits.body_bytes:
            raise over_limit(413, "body_bytes", self._limits.body_bytes, length)

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()  # waits for the client to go away
        try:
            message = await in_time(self._receive(), self._limits.read_seconds)
        except TimeoutError:
            raise over_limit(408, "read_seconds", self._limits.read_seconds) from None
        if message["type"] == "http.request":
            self.received += len(message.get("body", b""))
            self._complete = not message.get("more_body", False)
            if self.received > self._limits.body_bytes:
                raise over_limit(413, "body_bytes", self._limits.body_bytes, f"{self.received} or more")
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", []), (b"x-request-id", self._request_id), _NO_SNIFFING]
            if not self._complete and (self._long or self.status in (408, 413)):  # the rest of the body is not read
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        else:
            self.sent += len(message.get("body", b""))
        await self._send(message)


def _headers(scope: Scope) -> dict[str, str]:
    """By lower-case name; of a repeated one the first."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1"), value.decode("latin-1"))
    return found
