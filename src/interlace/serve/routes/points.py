"""Points: upsert, query, scroll, count, delete, retrieve."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ...errors import InterlaceError
from .. import rendering
from ..collection import Collection
from ..endpoint import Routes, ok, parsed
from ..models import Count, Queries, Query, Retrieve, Scroll, Selector, Upsert
from ..problems import ProblemDetails, over_limit
from ..searching import How, QueryHits, as_vectors, search
from ..service import Service

#: Bodies beyond this are parsed in a thread, so that other requests do not wait.
LARGE = 1 << 16
DONE = '{"operation_id":0,"status":"completed"}'


def add(routes: Routes, service: Service) -> None:
    """Add the routes."""

    async def upsert_points(request: Request) -> Response:
        """Add points, or replace those with the same ids. The answer comes when they are on disk."""
        found, body = service.collection(request), await request.body()
        given = await service.read(found, Upsert.model_validate_json, body)
        await service.write(found, found.upsert, given)
        return ok(request, DONE)

    async def delete_points(request: Request) -> Response:
        """Delete points by id or by filter."""
        given, found = await parsed(request, Selector), service.collection(request)
        await service.write(found, found.delete, given)
        return ok(request, DONE)

    async def retrieve_points(request: Request) -> Response:
        """Points by id."""
        given, found = await parsed(request, Retrieve), service.collection(request)
        return ok(request, "[" + ",".join(await service.read(found, found.retrieve, given)) + "]")

    async def get_point(request: Request) -> Response:
        """One point by id."""
        found, text = service.collection(request), request.path_params["id"]
        wanted: int | str = int(text) if text.isdecimal() and text.isascii() else text
        points = await service.read(found, found.retrieve, Retrieve(ids=[wanted], with_vector=True))
        if not points:
            raise ProblemDetails(404, "unknown_id", f"there is no point {wanted!r:.140}")
        return ok(request, points[0])

    async def scroll_points(request: Request) -> Response:
        """Points in the order of their ids, page by page."""
        given, found = await parsed(request, Scroll), service.collection(request)
        return ok(request, await service.read(found, found.scroll, given))

    async def count_points(request: Request) -> Response:
        """The number of points that match a filter, always exact."""
        given, found = await parsed(request, Count), service.collection(request)
        return ok(request, json.dumps({"count": await service.read(found, found.count, given)}))

    async def query_points(request: Request) -> Response:
        """The nearest points of a vector or of a point."""
        given, found = await parsed(request, Query), service.collection(request)
        if given.with_stats or given.filter is not None or not isinstance(given.query, list) or given.using:
            text, stats = await service.read(found, found.query, given)
            more = "" if stats is None else f',"stats":{json.dumps(rendering.plain(stats))}'
            return ok(request, f'{{"points":{text}}}', more)
        how = How.of(given.limit or 10, given.offset or 0, given.params, found.snapshot(), service.settings)
        text = await service.work.read_batched((found.name, how), _Batch(service, found, how), given)
        return ok(request, f'{{"points":{text}}}')

    async def query_batch_points(request: Request) -> Response:
        """Several queries; those that differ only in their vectors are searched together."""
        found, body = service.collection(request), await request.body()
        given = await service.read(found, Queries.model_validate_json, body)
        if len(given.searches) > service.settings.limits.batch:
            raise over_limit(422, "batch", service.settings.limits.batch, f"{len(given.searches)} searches")
        texts = await service.read(found, query_many, service, found, given.searches)
        return ok(request, "[" + ",".join(f'{{"points":{text}}}' for text in texts) + "]")

    points = "/collections/{name}/points"
    routes.add("PUT", points, upsert_points, body=Upsert)
    routes.add("POST", points, retrieve_points, reads=True, body=Retrieve)
    routes.add("POST", points + "/delete", delete_points, body=Selector)
    routes.add("POST", points + "/scroll", scroll_points, reads=True, body=Scroll)
    routes.add("POST", points + "/count", count_points, reads=True, body=Count)
    routes.add("POST", points + "/query", query_points, reads=True, body=Query)
    routes.add("POST", points + "/query/batch", query_batch_points, reads=True, body=Queries)
    routes.add("GET", points + "/{id}", get_point, reads=True)


class _Batch:
    """Runs single queries that wait at the same time as one search."""

    def __init__(self, service: Service, collection: Collection, how: How) -> None:
        self._service, self._collection, self._how = service, collection, how

    def __call__(self, given: Sequence[Query]) -> list[Any]:
        if len(given) == 1:
            return [self._alone(given[0])]
        try:
            return list(_searched(self._service, self._collection, given, self._how))
        except InterlaceError:  # of one of them
            return [self._alone(each) for each in given]

    def _alone(self, given: Query) -> Any:
        try:
            return _searched(self._service, self._collection, [given], self._how)[0]
        except Exception as error:
            self._collection.note(error)
            return error


def _searched(service: Service, found: Collection, given: Sequence[Query], how: How) -> list[str]:
    """Queries by vector without filters, as JSON."""
    snapshot = found.snapshot()
    vectors, single = as_vectors([each.query for each in given], found.dim, "query"), len(given) == 1
    matches = search(snapshot, vectors[0] if single else vectors, how, None, 1)
    service.metrics.searched(found.name, matches.stats)
    return [
        found.render(snapshot, each, QueryHits.of(matches, None if single else i, each.score_threshold))
        for i, each in enumerate(given)
    ]


def query_many(service: Service, found: Collection, given: Sequence[Query]) -> list[str]:
    """Queries of one request; equal ones but for their vectors as one search."""
    snapshot = found.snapshot()
    groups: dict[Any, list[int]] = {}
    for i, each in enumerate(given):
        plain = isinstance(each.query, list) and not each.using and not each.with_stats
        how = How.of(each.limit or 10, each.offset or 0, each.params, snapshot, service.settings) if plain else None
        key = (how, json.dumps(each.filter, sort_keys=True)) if plain else i
        groups.setdefault(key, []).append(i)
    texts = [""] * len(given)
    for key, members in groups.items():
        if isinstance(key, int):
            texts[key] = found.query(given[key])[0]
            continue
        vectors = as_vectors([given[i].query for i in members], found.dim, "query")
        condition = found.condition(snapshot, given[members[0]].filter)
        matches = search(snapshot, vectors, key[0], condition)
        service.metrics.searched(found.name, matches.stats)
        for row, i in enumerate(members):
            texts[i] = found.render(snapshot, given[i], QueryHits.of(matches, row, given[i].score_threshold))
    return texts
