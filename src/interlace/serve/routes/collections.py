"""Collections: list, create, describe, delete; fields that can be filtered."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ..collections.collection import NAMES, Broken, Collection
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
            return ok(request, json.dumps(_broken(found)))
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


#: Qdrant's clients require these; they describe nothing here.
_HNSW = {"m": 0, "ef_construct": 4, "full_scan_threshold": 0}
_OPTIMIZER = {"default_segment_number": 0, "flush_interval_sec": 0}
_WAL = {"wal_capacity_mb": 32, "wal_segments_ahead": 0}


def _described(found: Collection) -> dict[str, Any]:
    store, snapshot = found.store, found.snapshot()
    health = found.health()
    schema = {
        key: {"data_type": field.kind, "points": health.rows} for key, field in fields.declared(store.columns).items()
    }
    problem = found.damage
    return {
        "status": "red" if problem else "yellow" if health.state == "learning" else "green",
        "optimizer_status": {"error": problem} if problem else "ok",
        "points_count": len(snapshot),
        "indexed_vectors_count": len(snapshot),
        "segments_count": health.segments,
        "config": {
            "params": {"vectors": {"size": store.dim, "distance": NAMES[store.metric]}, "shard_number": 1},
            "hnsw_config": _HNSW,
            "optimizer_config": _OPTIMIZER,
            "wal_config": _WAL,
        },
        "payload_schema": schema,
        "interlace": {
            "state": health.state,
            "originals": store.originals,
            "bytes": health.bytes,
            "log_rows": health.log_rows,
            "removed": health.removed,
            "calibration": health.calibration,
            "drift": fields.plain(health.drift),
            "advice": health.advice,
        },
    }


def _broken(found: Broken) -> dict[str, Any]:
    return {
        "status": "red",
        "optimizer_status": {"error": found.reason},
        "points_count": 0,
        "segments_count": 0,
        "config": {"params": {}, "hnsw_config": _HNSW, "optimizer_config": _OPTIMIZER},
        "payload_schema": {},
    }
