"""Payloads of points that are there: set, overwrite, delete, clear."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ..endpoint import Routes, ok, parsed
from ..models import DeletePayload, Selector, SetPayload
from ..payload_updates import Change, change_payloads, without
from ..service import Service

DONE = '{"operation_id":0,"status":"completed"}'


def add(routes: Routes, service: Service) -> None:
    """Add the routes."""

    async def changed(request: Request, given: Selector, change: Change) -> Response:
        found = service.collection(request)
        await service.write(found, change_payloads, found, given, change)
        return ok(request, DONE)

    async def set_payload(request: Request) -> Response:
        """Set some keys of the payload of points; the others stay."""
        given = await parsed(request, SetPayload)
        return await changed(request, given, lambda payload: {**payload, **given.payload})

    async def overwrite_payload(request: Request) -> Response:
        """Replace the payload of points."""
        given = await parsed(request, SetPayload)
        return await changed(request, given, lambda payload: given.payload)

    async def delete_payload(request: Request) -> Response:
        """Delete some keys of the payload of points."""
        given = await parsed(request, DeletePayload)
        return await changed(request, given, lambda payload: without(payload, given.keys))

    async def clear_payload(request: Request) -> Response:
        """Delete the payload of points."""
        empty: dict[str, Any] = {}
        return await changed(request, await parsed(request, Selector), lambda payload: empty)

    path = "/collections/{name}/points/payload"
    routes.add("POST", path, set_payload, body=SetPayload)
    routes.add("PUT", path, overwrite_payload, body=SetPayload)
    routes.add("POST", path + "/delete", delete_payload, body=DeletePayload)
    routes.add("POST", path + "/clear", clear_payload, body=Selector)
