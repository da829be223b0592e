"""The express path: a plain query is answered from the bytes of its request.

An HTTP framework costs several times what a query costs. So the server reads the most frequent request itself: a query
by vector, as JSON, whose header is simple (:mod:`.heads`) and whose body has only fields that are searched in a batch
(:class:`..work.plain.PlainBatch`). It either answers with success or does nothing: every other request, and every one
with an error in it, goes through uvicorn and the routes, which say what is wrong. Both paths check keys and limits,
count and log.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

from starlette.responses import Response

from ..problems import ProblemDetails
from ..requests.frequent import decoded_query
from ..requests.types import LIMIT
from ..work.plain import PlainBatch
from ..work.service import Service
from .endpoint import GONE
from .heads import Head, Heads
from .traffic import Traffic

ROUTE = "/collections/{name}/points/query"
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\n"


class Connection(Protocol):
    """Where an answer goes."""

    def answer(self, head: bytes, body: bytes) -> bool:
        """Write it, ``head`` without the empty line at its end; whether the client is still there."""

    def decline(self) -> None:
        """The request takes the other path."""


class Express:
    """Takes requests of connections."""

    def __init__(self, service: Service, heads: Heads, traffic: Traffic) -> None:
        self._service, self._heads, self._traffic = service, heads, traffic
        self._concurrent = service.settings.limits.concurrent

    def head(self, data: bytes, end: int) -> Head | None:
        """The header before ``end`` if the request can be taken."""
        return self._heads.read(data[:end])

    def take(self, head: Head, body: bytes, connection: Connection, client: str) -> bool:
        """Begin to answer a request; False: it takes the other path."""
        traffic, service = self._traffic, self._service
        began = time.perf_counter()
        if traffic.active >= self._concurrent:
            return False
        given = decoded_query(body)
        if given is None:
            return False
        try:
            found = service.catalog.get(head.collection)
            service.work.join(
                (found, given.limit or LIMIT, given.offset or 0, given.params),
                PlainBatch(found, service.metrics),
                given,
                lambda result: self._finish(head, len(body), connection, client, began, result),
            )
        except ProblemDetails:
            return False
        traffic.active += 1
        return True

    def _finish(self, head: Head, size: int, connection: Connection, client: str, began: float, result: Any) -> None:
        traffic = self._traffic
        traffic.active -= 1
        request_id = head.request_id or traffic.ids.new()
        seconds = time.perf_counter() - began
        if isinstance(result, str):
            body = f'{{"result":{{"points":{result}}},"status":"ok","time":{seconds:.9f}}}'.encode()
            status, start = 200, _OK
        elif isinstance(result, ProblemDetails) and result.more.get("limit") == "seconds":  # it has waited enough
            response = result.response(request_id, began)
            status, body, start = 503, bytes(response.body), _start_of(response)
        else:
            connection.decline()
            return
        lines = b"%bx-request-id: %b\r\ncontent-length: %d" % (start, request_id.encode(), len(body))
        if not connection.answer(lines, body):
            status = GONE
        path = ROUTE.replace("{name}", head.collection)
        traffic.note(request_id, "POST", path, ROUTE, status, seconds, (size, len(body)), client)


def _start_of(response: Response) -> bytes:
    """Status line and headers of a problem, but for those that every answer has."""
    lines = [b"HTTP/1.1 %d " % response.status_code, b"x-content-type-options: nosniff"]
    lines += [b"%b: %b" % header for header in response.raw_headers if header[0] != b"content-length"]
    return b"\r\n".join(lines) + b"\r\n"
