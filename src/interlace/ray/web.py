"""The HTTP server over a cluster: the query routes of ``interlace serve``, behind its guard."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from .._version import __version__
from ..errors import ShardUnavailableError
from ..serve import Keys, RequestLimits, ServerSettings
from ..serve.collections.describing import described
from ..serve.collections.searching import How, QueryHits, query_input
from ..serve.gate.admission import Admission
from ..serve.gate.endpoint import Routes, Shortcuts, ok, parsed
from ..serve.gate.guard import Guard
from ..serve.gate.traffic import Traffic
from ..serve.problems import ProblemDetails, over_limit, unsupported
from ..serve.requests import ids as point_ids
from ..serve.requests.models import Explain, Queries, Query
from ..serve.routes.service import version
from ..serve.work.metrics import Metrics
from ..serve.work.threads import Workers
from .cluster import Cluster


@dataclass(frozen=True, eq=False)
class _Served:
    """A cluster under the name of a collection."""

    cluster: Cluster
    name: str
    limits: RequestLimits

    def check(self, request: Request) -> None:
        given = request.path_params["name"]
        if given != self.name:
            raise ProblemDetails(404, "unknown_collection", f"there is no collection {given!r:.140}")

    def about(self) -> dict[str, Any]:
        manifest = self.cluster.manifest
        shards = {"shards": len(manifest.shards), "groups": len(self.cluster.groups), "bytes": manifest.file_bytes}
        return described("green", rows=manifest.rows, vectors=(manifest.dim, manifest.metric), own=shards)

    def how(self, given: Query | Explain) -> How:
        """How to search; filters need columns, which shards do not have."""
        if given.filter is not None:
            raise unsupported("a filter of an index in shards")
        manifest = self.cluster.manifest
        return How.among(given, manifest.rows, manifest.originals is not None, self.limits)

    def query(self, given: Query) -> tuple[str, Any]:
        """Hits as JSON, and what they cost."""
        if given.with_payload or given.with_vector or given.using:
            raise unsupported("with_payload, with_vector or using of an index in shards")
        how = self.how(given)
        wanted = query_input(given.query, self.cluster.dim)
        if isinstance(wanted, int | str):
            wanted = self.cluster.vectors(wanted, originals=self.cluster.manifest.originals is not None)
        found = self.cluster.search(wanted, embedded=True, **asdict(how))
        hits = QueryHits.of(found, None, given.score_threshold)
        listed = zip(point_ids.from_store(hits.ids.tolist()), hits.scores, strict=True)
        points = [{"id": number, "version": 0, "score": score} for number, score in listed]
        return json.dumps({"points": points}), found.stats

    def explain(self, given: Explain) -> str:
        """What a query does with one point."""
        wanted = query_input(given.query, self.cluster.dim)
        if isinstance(wanted, int | str):
            raise unsupported("explain with the id of a point as query")
        how, point = self.how(given), point_ids.to_store(given.id)
        found = self.cluster.explain(wanted, point, how.k, margin=how.margin, embedded=True)
        return json.dumps({name: _plain(value) for name, value in (asdict(found) | {"text": str(found)}).items()})


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and value in (float("inf"), float("-inf")) else value


def cluster_app(
    cluster: Cluster,
    name: str = "shards",
    *,
    keys: Keys | None = None,
    host: str = "127.0.0.1",
    insecure: bool = False,
    hosts: tuple[str, ...] = (),
    limits: RequestLimits | None = None,
) -> ASGIApp:
    """The ASGI application of one cluster: queries and explanations of ``interlace serve``, read-only."""
    limits = limits or RequestLimits()
    # There is no directory of stores; the settings want one that exists.
    settings = ServerSettings(os.sep, host=host, keys=keys or Keys(), limits=limits, insecure=insecure, hosts=hosts)
    served, shortcuts, work = _Served(cluster, name, limits), Shortcuts(), Workers(settings.n_threads, limits)
    app = FastAPI(title="interlace", version=__version__, docs_url=None, redoc_url=None, openapi_url=None)

    async def called(function: Any, *arguments: Any) -> Any:
        try:
            return await work.read(function, *arguments)
        except ShardUnavailableError as error:
            raise ProblemDetails(503, "unavailable", str(error), {"Retry-After": "1"}) from error

    async def query(request: Request) -> Response:
        """The nearest points of one query."""
        served.check(request)
        given = await parsed(request, Query)
        text, stats = await called(served.query, given)
        return ok(request, text, f',"stats":{json.dumps(asdict(stats))}' if given.with_stats else "")

    async def batch(request: Request) -> Response:
        """The same for several queries."""
        served.check(request)
        given = await parsed(request, Queries)
        if len(given.searches) > limits.batch:
            raise over_limit(422, "batch", limits.batch, f"{len(given.searches)} queries")
        found = await asyncio.gather(*(called(served.query, one) for one in given.searches))
        return ok(request, "[" + ",".join(text for text, _ in found) + "]")

    async def explain(request: Request) -> Response:
        """Why a point was found or lost."""
        served.check(request)
        return ok(request, await called(served.explain, await parsed(request, Explain)))

    async def about(request: Request) -> Response:
        """The collection."""
        served.check(request)
        return ok(request, json.dumps(served.about()))

    async def listed(request: Request) -> Response:
        """Its name."""
        return ok(request, json.dumps({"collections": [{"name": name}]}))

    async def root(request: Request) -> Response:
        """The version."""
        return Response(json.dumps(version()), media_type="application/json")

    async def health(request: Request) -> Response:
        """Whether all shards answer."""
        await called(served.cluster.check)
        return Response("all shards are ready", media_type="text/plain")

    async def others(request: Request) -> Response:
        """Everything that an index in shards does not have: writes, payloads, snapshots."""
        raise unsupported(f"{request.method} {request.url.path[:100]} of an index in shards", 501)

    routes = Routes(app, "shards", shortcuts)
    routes.add("GET", "/", root, reads=True)
    for path in ("/healthz", "/livez"):
        routes.add("GET", path, root, reads=True)
    routes.add("GET", "/readyz", health, reads=True)
    routes.add("GET", "/collections", listed, reads=True)
    routes.add("GET", "/collections/{name}", about, reads=True)
    routes.add("POST", "/collections/{name}/points/query", query, reads=True, body=Query, often=True)
    routes.add("POST", "/collections/{name}/points/query/batch", batch, reads=True, body=Queries, often=True)
    routes.add("POST", "/collections/{name}/points/explain", explain, reads=True, body=Explain)
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        routes.add(method, "/{path:path}", others, reads=True, listed=False)
    return Guard(app, settings, Admission(settings), Traffic(Metrics(work)), shortcuts, None)
