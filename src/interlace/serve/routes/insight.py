"""Routes of the page: overview, funnel, explanation, curve of margins, map, what was learned (serve/insight/)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from ..gate.endpoint import Routes, ok, parsed
from ..insight import contents, curves, queries, sample_map
from ..problems import over_limit
from ..requests.fields import plain
from ..requests.models import Explain, Query
from ..work.service import Service


class MapRequest(Query):
    """POST /collections/{name}/insight/map: a query, and the number of rows to show."""

    sample: int = Field(default=sample_map.SAMPLE, ge=1)


def add(routes: Routes, service: Service) -> None:
    """Add the routes."""

    async def answered(request: Request, function: Callable[..., Any], *args: Any) -> Response:
        found = service.collection(request)
        return ok(request, json.dumps(plain(await service.read(found, function, found, *args))))

    async def explain_point(request: Request) -> Response:
        """Why a query finds or loses a point: at which step, and by how much."""
        return await answered(request, queries.explained, await parsed(request, Explain))

    async def overview(request: Request) -> Response:
        """Rows, bytes by part, cells, health and drift."""
        return await answered(request, contents.overview)

    async def funnel(request: Request) -> Response:
        """One query step by step, with numbers and times."""
        given = await parsed(request, Query)
        return await answered(request, queries.funnel, given)

    async def margin_curve(request: Request) -> Response:
        """Agreement, recall, operations and time of each margin, measured with rows of the collection."""
        text = request.query_params.get("k", "10")
        k = int(text) if text.isdecimal() and len(text) < 9 else 0
        if not 1 <= k <= 100:
            raise over_limit(422, "k", 100, text[:20])
        return await answered(request, curves.margins, k)

    async def draw_map(request: Request) -> Response:
        """A sample of the rows in two dimensions with their cells, and what a query visited and found."""
        given = await parsed(request, MapRequest)
        return await answered(request, sample_map.sampled_map, given.sample, given)

    async def byte_curve(request: Request) -> Response:
        """Recall by the number of code bytes that are read, measured in a sample of the rows."""
        return await answered(request, curves.recall_by_bytes)

    async def learned(request: Request) -> Response:
        """Variances, psi, the prior, and the books."""
        return await answered(request, contents.learned)

    async def random_point(request: Request) -> Response:
        """The id of a random point."""
        found = service.collection(request)
        return ok(request, json.dumps({"id": await service.read(found, contents.random_id, found)}))

    one = "/collections/{name}/insight/"
    routes.add("POST", "/collections/{name}/points/explain", explain_point, reads=True, body=Explain)
    routes.add("GET", one + "overview", overview, reads=True)
    routes.add("POST", one + "funnel", funnel, reads=True, body=Query)
    routes.add("GET", one + "margins", margin_curve, reads=True, query=["k"])
    routes.add("POST", one + "map", draw_map, reads=True, body=MapRequest)
    routes.add("GET", one + "recall", byte_curve, reads=True)
    routes.add("GET", one + "learned", learned, reads=True)
    routes.add("GET", one + "random", random_point, reads=True)
