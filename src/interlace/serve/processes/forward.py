"""Requests that a reading process hands to the process that writes, over a socket of the file system.

A reader answers the searches and look-ups of :data:`LOCAL` itself, for collections that it has open. Everything else
goes to the writer, which has all routes: so there is one place for writes, for what is known about collections, and for
errors.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from starlette.types import Receive, Scope, Send

from ..gate.admission import ICON
from ..problems import ProblemDetails
from .reading import ReadCatalog

#: What follows ``/collections/{name}`` in requests that readers answer.
LOCAL = {
    ("POST", "/points"),
    ("POST", "/points/query"),
    ("POST", "/points/query/batch"),
    ("POST", "/points/query/groups"),
    ("POST", "/points/scroll"),
    ("POST", "/points/count"),
    ("POST", "/facet"),
    *(("POST", f"/store/{call}") for call in ("search", "search_by_id", "range_search", "get", "payload", "contains")),
}
#: Paths that need no collection.
ANYWHERE = {"/", ICON, "/healthz", "/livez", "/docs", "/openapi.json", "/metrics"}
#: Headers of one connection.
_HOP = {b"connection", b"content-length", b"transfer-encoding", b"expect", b"keep-alive", b"te", b"x-request-id"}
CHUNK = 1 << 16
LONGEST_HEAD = 1 << 16
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Forward:
    """Decides where a request is answered, and takes it there."""

    def __init__(self, catalog: ReadCatalog, path: str) -> None:
        self._catalog, self._path = catalog, path
        self._idle: list[Stream] = []

    async def is_local(self, scope: Scope) -> bool:
        """Whether this process answers; it has all acknowledged writes then."""
        path, method = scope["path"], scope["method"]
        if not path.startswith("/collections/"):
            return path in ANYWHERE or path.startswith("/page/")
        name, _, rest = path[13:].partition("/")
        rest = "/" + rest
        if (method, rest) not in LOCAL and not (method == "GET" and rest.startswith("/points/")):
            return False
        found = self._catalog.known(name)
        if found is None:
            return False
        if not found.is_current:
            with contextlib.suppress(ProblemDetails):  # it is gone
                await asyncio.get_running_loop().run_in_executor(None, found.snapshot)
        return not found.gone

    async def __call__(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        """Ask the writer, and pass its answer on."""
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        await self._exchanged(_request(scope, bytes(body), request_id), scope["method"] == "HEAD", send)

    async def text(self, path: str, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The body of a GET request to the writer; raises a problem unless it is answered with success."""
        found, status = bytearray(), 0

        async def keep(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            found.extend(message.get("body", b""))

        scope = {"method": "GET", "raw_path": path.encode(), "query_string": b"", "headers": headers}
        await self._exchanged(_request(scope, b"", "internal"), False, keep)
        if status != 200:
            raise ProblemDetails(503, "writer", "the process that writes did not answer", {"Retry-After": "1"})
        return bytes(found)

    async def _exchanged(self, request: bytes, is_head: bool, send: Callable[[Any], Any]) -> None:
        stream = await self._connected()
        begun = False
        try:
            stream[1].write(request)
            await stream[1].drain()
            head = await stream[0].readuntil(b"\r\n\r\n")
            status, headers = _head_of(head)
            length = 0 if is_head or status in (204, 304) else int(dict(headers).get(b"content-length", b"0"))
            begun = True
            await send({"type": "http.response.start", "status": status, "headers": _passed_on(headers)})
            while length > CHUNK:
                part = await stream[0].readexactly(CHUNK)
                length -= len(part)
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": await stream[0].readexactly(length)})
        except (OSError, EOFError, asyncio.LimitOverrunError) as error:
            stream[1].close()
            if begun:
                raise
            raise ProblemDetails(
                503,
                "interrupted",
                "the process that writes has ended before it answered: a write may have happened or not",
                {"Retry-After": "1"},
            ) from error
        except BaseException:
            stream[1].close()
            raise
        if (b"connection", b"close") in headers:
            stream[1].close()
        else:
            self._idle.append(stream)

    async def _connected(self) -> Stream:
        while self._idle:
            stream = self._idle.pop()
            if not stream[0].at_eof() and not stream[1].is_closing():
                return stream
            stream[1].close()
        try:
            return await asyncio.open_unix_connection(self._path, limit=LONGEST_HEAD)
        except OSError as error:
            raise ProblemDetails(
                503, "starting", "the process that writes is starting; nothing was written", {"Retry-After": "1"}
            ) from error

    def close(self) -> None:
        """Close connections that wait."""
        for stream in self._idle:
            stream[1].close()


def _request(scope: Scope, body: bytes, request_id: str) -> bytes:
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    lines = [b"%b %b HTTP/1.1" % (scope["method"].encode(), target)]
    lines += [b"%b: %b" % header for header in scope["headers"] if header[0] not in _HOP]
    lines += [b"x-request-id: %b" % request_id.encode(), b"content-length: %d" % len(body), b"", b""]
    return b"\r\n".join(lines) + body


def _head_of(head: bytes) -> tuple[int, list[tuple[bytes, bytes]]]:
    first, *lines = head[:-4].split(b"\r\n")
    pairs = [line.partition(b":") for line in lines]
    return int(first[9:12]), [(name.strip().lower(), value.strip()) for name, _, value in pairs]


def _passed_on(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Without what this process adds itself."""
    own = {b"connection", b"date", b"x-request-id", b"x-content-type-options"}
    return [header for header in headers if header[0] not in own]
