"""The express path: a plain query is answered from the bytes of its request.

An HTTP framework costs several times what a query costs. So the server reads the most frequent request itself: a query
by vector, as JSON, whose header is simple (:mod:`.heads`) and whose body has only fields that are searched in a batch
(:class:`.plain.PlainBatch`). It either answers with success or does nothing: every other request, and every one with
an error in it, goes through uvicorn and the routes, which say what is wrong. Both paths check keys and limits, count
and log.
"""

from __future__ import annotations

import time
from typing import Annotated, Any, Protocol

import msgspec
from starlette.responses import Response

from ..problems import ProblemDetails
from ..work.plain import PlainBatch
from ..work.service import Service
from .endpoint import GONE
from .heads import Head, Heads
from .traffic import Traffic

ROUTE = "/collections/{name}/points/query"
_OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\n"


class ExpressQuantization(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See models.Quantization."""

    ignore: bool | None = None
    rescore: bool | None = None
    oversampling: Annotated[float, msgspec.Meta(ge=1)] | None = None


class ExpressParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See models.SearchParams."""

    exact: bool | None = None
    quantization: ExpressQuantization | None = None
    hnsw_ef: int | None = None
    indexed_only: bool | None = None
    margin: float | str | None = None
    recall: float | None = None
    rerank: Annotated[int, msgspec.Meta(ge=0)] | None = None


class ExpressNearest(msgspec.Struct, forbid_unknown_fields=True):
    """A vector, as Qdrant's clients send it."""

    nearest: list[float]


class ExpressQuery(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """See models.Query: what it has and this has not takes the other path."""

    query: list[float] | ExpressNearest
    limit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    offset: Annotated[int, msgspec.Meta(ge=0)] | None = None
    params: ExpressParams | None = None
    score_threshold: float | None = None
    with_payload: bool | None = None
    with_vector: bool | None = None
    filter: None = None
    using: None = None
    prefetch: None = None
    lookup_from: None = None
    shard_key: None = None


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
        self._decode = msgspec.json.Decoder(ExpressQuery).decode
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
        try:
            given = self._decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):  # ValueError: not UTF-8
            return False
        if isinstance(given.query, ExpressNearest):
            given.query = given.query.nearest
        try:
            found = service.catalog.get(head.collection)
            how = given.limit or 10, given.offset or 0, given.params
            service.work.join(
                (found, *how),
                PlainBatch(found, service.metrics, *how),
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
            response = result.response(request_id)
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
