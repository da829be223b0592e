"""What happens to every request before its route: an id, keys, limits, the log and the metrics.

A plain ASGI application around the routes. It counts the bytes of a body while they arrive and gives a client a limited
time between two parts of it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .endpoint import FULL, READ, Shortcuts
from .metrics import Metrics
from .problems import ProblemDetails, over_limit
from .settings import Keys, ServerSettings, is_loopback
from .timing import in_time

access_log = logging.getLogger("interlace.serve.access")
#: Paths that need no key: health, and the files of the page, which contain no data.
OPEN = re.compile(r"/(healthz|livez|readyz|page/[^/]+(/[^/]+)*)?")
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
UNREAD = 1 << 16  # bytes of a body that uvicorn may read and drop after an error
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Access:
    """Which key a request has. Digests are compared, in a time that does not depend on the key."""

    def __init__(self, keys: Keys) -> None:
        self._needed = bool(keys)
        self._digests = [(_digest(key), access) for key, access in ((keys.full, FULL), (keys.read_only, READ)) if key]

    def of(self, headers: Mapping[str, str], path: str) -> str:
        """``full`` or ``read``; raises a problem."""
        if not self._needed:
            return FULL
        given = headers.get("api-key")
        if given is None:
            scheme, _, token = headers.get("authorization", "").partition(" ")
            given = token.strip() if scheme.lower() == "bearer" else None
        found = ""
        digest = _digest(given or "")
        for known, access in self._digests:
            if hmac.compare_digest(digest, known) and given is not None:
                found = access
        if found or OPEN.fullmatch(path):
            return found or READ
        raise ProblemDetails(
            401, "unauthorized", "an API key is needed (header api-key)", {"WWW-Authenticate": "Bearer"}
        )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


class Guard:
    """The outermost application."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, metrics: Metrics, shortcuts: Shortcuts) -> None:
        self._app, self._settings, self._metrics, self._shortcuts = app, settings, metrics, shortcuts
        self._access = Access(settings.keys)
        self._hosts = {"localhost", settings.host.lower(), *(host.lower() for host in settings.hosts)}
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        else:  # a web socket: refused before it is accepted
            await send({"type": "websocket.close", "code": 1003})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        headers = _headers(scope)
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        exchange = _Exchange(receive, send, self._settings, request_id)
        self._active += 1
        self._metrics.active.set(self._active)
        try:
            try:
                self._check(scope, headers)
                scope.setdefault("state", {}).update(
                    access=self._access.of(headers, scope["path"]), request_id=request_id, began=began
                )
                exchange.check_length(headers)
                short = self._shortcuts.of(scope)
                if short is None:
                    await self._app(scope, exchange.receive, exchange.send)
                else:
                    response = await short(Request(scope, exchange.receive))
                    await response(scope, exchange.receive, exchange.send)
            except ProblemDetails as problem:
                if not exchange.status:
                    await problem.response(request_id)(scope, receive, exchange.send)
        finally:
            self._active -= 1
            self._metrics.active.set(self._active)
            self._note(scope, exchange, request_id, time.perf_counter() - began)

    def _check(self, scope: Scope, headers: Mapping[str, str]) -> None:
        if self._active > self._settings.limits.concurrent:
            raise over_limit(429, "concurrent", self._settings.limits.concurrent, "more requests at once")
        raw = scope.get("raw_path", b"")
        if b"%2f" in raw.lower() or b"%5c" in raw.lower() or b"%00" in raw.lower() or b"/../" in raw + b"/":
            raise ProblemDetails(400, "path", "the path of the request has encoded separators or '..'")
        if self._settings.keys:
            return
        # Without a key, a page of another site must not reach the server through the browser of its operator.
        host = re.sub(r":\d+$", "", headers.get("host", "localhost")).strip("[]").lower()
        if host not in self._hosts and not is_loopback(host) and not self._settings.insecure:
            raise ProblemDetails(
                403, "host", f"the Host header names {host!r:.80}: without an API key it must be this machine"
            )
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
            raise ProblemDetails(403, "origin", f"requests of pages of {origin!r:.80} are refused without an API key")

    def _note(self, scope: Scope, exchange: _Exchange, request_id: str, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        status = exchange.status or 499  # the client went away
        self._metrics.observe(scope["method"], route, status, seconds)
        if not access_log.isEnabledFor(logging.INFO):
            return
        fields = {
            "request_id": request_id,
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "milliseconds": round(seconds * 1e3, 3),
            "bytes_in": exchange.received,
            "bytes_out": exchange.sent,
            "client": (scope.get("client") or [""])[0],
        }
        access_log.info("request", extra={"fields": fields})


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
