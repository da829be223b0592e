"""Changes of points that are there: payloads, vectors, and several changes in one request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ..collections import changes
from ..collections.collection import Collection
from ..gate.endpoint import DONE, Routes, ok, parsed
from ..requests.models import DeletePayload, Operations, Selector, SetPayload, UpdateVectors
from ..work.service import Service


def add(routes: Routes, service: Service) -> None:
    """Add the routes."""

    async def changed(request: Request, change: Callable[[Collection, Any], None], given: Any) -> Response:
        found = service.collection(request)
        await service.write(found, change, found, given)
        return ok(request, DONE)

    async def set_payload(request: Request) -> Response:
        """Set some keys of the payload of points, or of an object inside of it; the others stay."""
        return await changed(request, changes.set_payload, await parsed(request, SetPayload))

    async def overwrite_payload(request: Request) -> Response:
        """Replace the payload of points."""
        return await changed(request, changes.overwrite_payload, await parsed(request, SetPayload))

    async def delete_payload(request: Request) -> Response:
        """Delete some keys of the payload of points."""
        return await changed(request, changes.delete_payload, await parsed(request, DeletePayload))

    async def clear_payload(request: Request) -> Response:
        """Delete the payload of points."""
        return await changed(request, changes.clear_payload, await parsed(request, Selector))

    async def update_vectors(request: Request) -> Response:
        """Replace the vectors of points; their payload stays."""
        found, body = service.collection(request), await request.body()
        given = await service.read(found, UpdateVectors.model_validate_json, body)
        return await changed(request, changes.update_vectors, given)

    async def update_batch(request: Request) -> Response:
        """Several changes, one after the other. The first that fails ends them; those before it are done."""
        found, body = service.collection(request), await request.body()
        given = await service.read(found, Operations.model_validate_json, body)
        n = await service.write(found, changes.apply, found, given)
        return ok(request, "[" + ",".join([DONE] * n) + "]")

    points = "/collections/{name}/points"
    routes.add("POST", points + "/payload", set_payload, body=SetPayload)
    routes.add("PUT", points + "/payload", overwrite_payload, body=SetPayload)
    routes.add("POST", points + "/payload/delete", delete_payload, body=DeletePayload)
    routes.add("POST", points + "/payload/clear", clear_payload, body=Selector)
    routes.add("PUT", points + "/vectors", update_vectors, body=UpdateVectors)
    routes.add("POST", points + "/batch", update_batch, body=Operations)
