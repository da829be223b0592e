"""Points: upsert, query, scroll, count, delete, retrieve."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ..collections import grouping, listing, rendering
from ..collections.collection import Collection
from ..collections.searching import How, QueryHits, as_vectors, check_hits, search
from ..gate.endpoint import DONE, Routes, media_type, ok, parsed
from ..problems import ProblemDetails
from ..requests import bodies, frequent
from ..requests import ids as point_ids
from ..requests.fields import plain
from ..requests.models import Count, Facet, OrderBy, Queries, Query, QueryGroups, Retrieve, Scroll, Selector, Upsert
from ..requests.types import LIMIT
from ..work.plain import PlainBatch
from ..work.service import Service

ARROW_HIT = 16  # bytes of a hit in a table: query, id and score
BINARY = (bodies.NPY, bodies.ARROW)


def add(routes: Routes, service: Service) -> None:
    """Add the routes."""

    async def upsert_points(request: Request) -> Response:
        """Add points, or replace those with the same ids. The answer comes when they are on disk."""
        found, body = service.collection(request), await request.body()
        kind = media_type(request)
        if kind in BINARY:
            first = request.query_params.get("first_id")
            rows: bodies.PointRows | None = await service.read(
                found, bodies.rows_in, body, kind, first, service.settings.limits
            )
        else:
            rows = await service.read(found, frequent.decoded_upsert, body, found.dim)
        if rows is not None:
            await service.write(found, found.put_rows, rows)
        else:
            await service.write(found, found.upsert, await service.read(found, Upsert.model_validate_json, body))
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
        wanted: int | str = int(text) if text.isdecimal() and text.isascii() and len(text) <= point_ids.DIGITS else text
        points = await service.read(found, found.retrieve, Retrieve(ids=[wanted], with_vector=True))
        if not points:
            raise ProblemDetails(404, "unknown_id", f"there is no point {wanted!r:.140}")
        return ok(request, points[0])

    async def scroll_points(request: Request) -> Response:
        """Points in the order of their ids, page by page."""
        given, found = await parsed(request, Scroll), service.collection(request)
        if given.order_by is not None:
            order = OrderBy(key=given.order_by) if isinstance(given.order_by, str) else given.order_by
            return ok(request, await service.read(found, listing.ordered, found, given, order))
        return ok(request, await service.read(found, found.scroll, given))

    async def facet_points(request: Request) -> Response:
        """The most frequent values of a declared field, with the numbers of their points."""
        given, found = await parsed(request, Facet), service.collection(request)
        return ok(request, await service.read(found, listing.facet, found, given))

    async def count_points(request: Request) -> Response:
        """The number of points that match a filter, always exact."""
        given, found = await parsed(request, Count), service.collection(request)
        return ok(request, json.dumps({"count": await service.read(found, found.count, given)}))

    async def query_points(request: Request) -> Response:
        """The nearest points of a vector or of a point."""
        kind = media_type(request)
        if kind in BINARY:
            return await _query_binary(service, request, kind)
        given, found = await parsed(request, Query), service.collection(request)
        if given.with_stats or given.filter is not None or not isinstance(given.query, list) or given.using:
            text, stats = await service.read(found, found.query, given)
            if stats is None:
                return ok(request, f'{{"points":{text}}}')
            service.metrics.searched(found.name, stats)
            more = f',"stats":{json.dumps(plain(rendering.stats(stats)))}' if given.with_stats else ""
            return ok(request, f'{{"points":{text}}}', more)
        how = given.limit or LIMIT, given.offset or 0, None if given.params is None else given.params.model_dump_json()
        text = await service.work.read_batched((found, *how), PlainBatch(found, service.metrics), given)
        return ok(request, f'{{"points":{text}}}')

    async def query_batch_points(request: Request) -> Response:
        """Several queries; those that differ only in their vectors are searched together."""
        found, body = service.collection(request), await request.body()
        given = await service.read(found, Queries.model_validate_json, body)
        found.check_batch(len(given.searches), "searches")
        for each in given.searches:
            check_hits(len(given.searches), each.limit or LIMIT, each.offset or 0, service.settings.limits)
        texts = await service.read(found, query_many, service, found, given.searches)
        return ok(request, "[" + ",".join(f'{{"points":{text}}}' for text in texts) + "]")

    async def query_groups_points(request: Request) -> Response:
        """The nearest points in groups by the value of a declared field."""
        given, found = await parsed(request, QueryGroups), service.collection(request)
        text, searches = await service.read(found, grouping.grouped, found, given)
        for stats in searches:
            service.metrics.searched(found.name, stats)
        return ok(request, text)

    points = "/collections/{name}/points"
    routes.add("PUT", points, upsert_points, body=Upsert, other_bodies=BINARY, query=["first_id"])
    routes.add("POST", points, retrieve_points, reads=True, body=Retrieve)
    routes.add("POST", points + "/delete", delete_points, body=Selector)
    routes.add("POST", points + "/scroll", scroll_points, reads=True, body=Scroll)
    routes.add("POST", "/collections/{name}/facet", facet_points, reads=True, body=Facet)
    routes.add("POST", points + "/count", count_points, reads=True, body=Count)
    own = list(bodies.QueryString.model_fields)
    routes.add(
        "POST", points + "/query", query_points, reads=True, body=Query, other_bodies=BINARY, query=own, often=True
    )
    routes.add("POST", points + "/query/batch", query_batch_points, reads=True, body=Queries)
    routes.add("POST", points + "/query/groups", query_groups_points, reads=True, body=QueryGroups)
    routes.add("GET", points + "/{id}", get_point, reads=True)


async def _query_binary(service: Service, request: Request, kind: str) -> Response:
    """Queries as .npy or Arrow; the answer is JSON, or Arrow if the client accepts that."""
    found, body = service.collection(request), await request.body()
    given = bodies.QueryString.model_validate(dict(request.query_params))
    filter = None if given.filter is None else Count.model_validate_json(f'{{"filter":{given.filter}}}').filter
    query, as_arrow = given.query(filter), bodies.ARROW in request.headers.get("accept", "")
    done = await service.read(found, _searched_binary, service, found, query, body, kind, as_arrow)
    if isinstance(done, bytes):
        return Response(done, media_type=bodies.ARROW)
    return ok(request, "[" + ",".join(f'{{"points":{text}}}' for text in done) + "]")


def _searched_binary(
    service: Service, found: Collection, given: Query, body: bytes, kind: str, as_arrow: bool
) -> list[str] | bytes:
    snapshot, vectors = found.snapshot(), bodies.vectors_in(body, kind)
    how = How.of(given, snapshot, service.settings)
    check_hits(len(vectors), how.k, how.offset, service.settings.limits)
    matches = search(snapshot, vectors, how, found.condition(snapshot, given.filter))
    service.metrics.searched(found.name, matches.stats)
    hits, size = [QueryHits.of(matches, i, given.score_threshold) for i in range(len(vectors))], found.answer_size()
    if not as_arrow:
        return [found.render(snapshot, given, each, size) for each in hits]
    ids = [i for each in hits for i in each.ids.tolist()]
    array = point_ids.as_array(ids)
    size.add_hits(array, ARROW_HIT)
    payloads = rendering.payloads(snapshot, array, True, size) if given.with_payload and ids else None
    return bodies.hits_out(ids, [each.scores for each in hits], None if payloads is None else list(payloads))


def query_many(service: Service, found: Collection, given: Sequence[Query]) -> list[str]:
    """Queries of one request; equal ones but for their vectors as one search."""
    snapshot, size = found.snapshot(), found.answer_size()
    groups: dict[Any, list[int]] = {}
    for i, each in enumerate(given):
        is_plain = isinstance(each.query, list) and not each.using and not each.with_stats
        how = How.of(each, snapshot, service.settings) if is_plain else None
        key = (how, json.dumps(each.filter, sort_keys=True)) if is_plain else i
        groups.setdefault(key, []).append(i)
    texts = [""] * len(given)
    for key, members in groups.items():
        if isinstance(key, int):
            texts[key], stats = found.query(given[key], size)
            if stats is not None:
                service.metrics.searched(found.name, stats)
            continue
        vectors = as_vectors([given[i].query for i in members], found.dim, _names(members))
        condition = found.condition(snapshot, given[members[0]].filter)
        matches = search(snapshot, vectors, key[0], condition)
        service.metrics.searched(found.name, matches.stats)
        for row, i in enumerate(members):
            texts[i] = found.render(snapshot, given[i], QueryHits.of(matches, row, given[i].score_threshold), size)
    return texts


def _names(members: Sequence[int]) -> Callable[[int], str]:
    """Of the queries that are searched together, as messages have them."""
    return lambda row: f"searches[{members[row]}].query"
