"""Collections: list, create, describe, delete; fields that can be filtered."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ..collections.collection import Broken, Collection
from ..collections.describing import described
from ..gate.endpoint import DONE, Routes, ok, parsed
from ..requests import fields
from ..requests.models import ChangeAliases, CreateCollection, CreateIndex, UpdateCollection
from ..work.service import Service


def add(routes: Routes, service: Service) -> None:
    """Add the routes."""
    catalog = service.catalog

    async def list_collections(request: Request) -> Response:
        """Names of all collections."""
        return ok(request, json.dumps({"collections": [{"name": name} for name in catalog.names]}))

    async def collection_exists(request: Request) -> Response:
        """Whether there is a collection of this name."""
        name = request.path_params["name"]
        return ok(request, json.dumps({"exists": name in catalog.names or name in catalog.aliases}))

    async def get_collection(request: Request) -> Response:
        """State, size and settings of a collection."""
        found = catalog.state(request.path_params["name"])
        if isinstance(found, Broken):
            return ok(request, json.dumps(described("red", problem=found.reason)))
        return ok(request, json.dumps(await service.read(found, _described, found)))

    async def create_collection(request: Request) -> Response:
        """Create an empty collection. It learns its codes by itself once there are enough points."""
        given, name = await parsed(request, CreateCollection), request.path_params["name"]
        await service.work.write(name, catalog.create, name, given)
        return ok(request, "true")

    async def update_collection(request: Request) -> Response:
        """Accepted for clients that tune Qdrant; without effect."""
        await parsed(request, UpdateCollection)
        service.collection(request)
        return ok(request, "true")

    async def delete_collection(request: Request) -> Response:
        """Delete a collection with all of its points and snapshots."""
        name = request.path_params["name"]
        return ok(request, json.dumps(await service.work.write(name, catalog.delete, name)))

    async def create_field_index(request: Request) -> Response:
        """Declare a payload field, so that filters can use it."""
        given, found = await parsed(request, CreateIndex), service.collection(request)
        await service.write(found, found.declare, given.field_name, given.field_schema, limited=False)
        return ok(request, DONE)

    async def delete_field_index(request: Request) -> Response:
        """Take back the declaration of a payload field."""
        found = service.collection(request)
        await service.write(found, found.undeclare, request.path_params["field"], limited=False)
        return ok(request, DONE)

    async def change_aliases(request: Request) -> Response:
        """Create, delete and rename aliases of collections, all in one step."""
        given = await parsed(request, ChangeAliases)
        await service.work.write("", catalog.change_aliases, given.actions)  # no collection has this name
        return ok(request, "true")

    async def list_aliases(request: Request) -> Response:
        """All aliases."""
        return ok(request, json.dumps({"aliases": catalog.aliases.listed()}))

    async def list_collection_aliases(request: Request) -> Response:
        """The aliases of a collection."""
        return ok(request, json.dumps({"aliases": catalog.aliases.listed(service.collection(request).name)}))

    one = "/collections/{name}"
    routes.add("POST", "/collections/aliases", change_aliases, body=ChangeAliases)
    routes.add("GET", "/aliases", list_aliases, reads=True)
    routes.add("GET", one + "/aliases", list_collection_aliases, reads=True)
    routes.add("GET", "/collections", list_collections, reads=True)
    routes.add("GET", one, get_collection, reads=True)
    routes.add("GET", one + "/exists", collection_exists, reads=True)
    routes.add("PUT", one, create_collection, body=CreateCollection)
    routes.add("PATCH", one, update_collection, body=UpdateCollection)
    routes.add("DELETE", one, delete_collection)
    routes.add("PUT", one + "/index", create_field_index, body=CreateIndex)
    routes.add("DELETE", one + "/index/{field}", delete_field_index)


def _described(found: Collection) -> dict[str, Any]:
    store, snapshot, health = found.store, found.snapshot(), found.health()
    return described(
        "red" if found.damage else "yellow" if health.state == "learning" else "green",
        problem=found.damage,
        rows=len(snapshot),
        segments=health.segments,
        vectors=(store.dim, store.metric),
        schema={
            key: {"data_type": field.kind, "points": health.rows}
            for key, field in fields.declared(store.columns).items()
        },
        own={
            "state": health.state,
            "originals": store.originals,
            "bytes": health.bytes,
            "log_rows": health.log_rows,
            "removed": health.removed,
            "calibration": health.calibration,
            "drift": fields.plain(health.drift),
            "advice": health.advice,
        },
    )
