"""Points in the order of a field, and the values of a field with their numbers of points."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..problems import ProblemDetails, check_limit
from ..requests import fields
from ..requests.filters import compared, evaluated
from ..requests.models import Facet, OrderBy, Scroll
from ..requests.types import LIMIT
from . import rendering
from .collection import Collection

SORTED, COUNTED = ("integer", "float", "datetime"), ("keyword", "integer", "bool")


def ordered(collection: Collection, given: Scroll, order: OrderBy) -> str:
    """The first points by a field, as JSON; those without a single value of it are left out."""
    snapshot, limit = collection.snapshot(), given.limit or LIMIT
    if given.offset is not None:
        raise ProblemDetails(422, "input", "offset cannot be used with order_by; use order_by.start_from")
    check_limit(collection.settings.limits, "batch", limit, f"limit {limit}")
    field = fields.known(snapshot.columns, order.key, SORTED, "order_by.key")
    ids = collection.matching(snapshot, given.filter)
    if not len(ids):
        return '{"points":[],"next_page_offset":null}'
    table = snapshot.payload(ids, [field.key])
    column, kept = table.column(field.key).combine_chunks(), pc.field(field.key).is_valid()
    if order.start_from is not None:
        compare = "lte" if order.direction == "desc" else "gte"
        kept = kept & compared(field, compare, order.start_from, "order_by.start_from")
    rows = pa.array(np.flatnonzero(evaluated(kept, table)))
    direction = "descending" if order.direction == "desc" else "ascending"
    chosen = rows.take(pc.sort_indices(column.take(rows), sort_keys=[("", direction)]))[:limit].to_numpy()
    with_payload = True if given.with_payload is None else given.with_payload
    listed = rendering.points(snapshot, ids[chosen], with_payload, given.with_vector, collection.answer_size())
    shown = column.take(chosen)
    if field.kind == "datetime":  # microseconds, as Qdrant has them
        shown = shown.cast("int64")
    values = map(json.dumps, shown.to_pylist())
    points = [f'{point[:-1]},"order_value":{value}}}' for point, value in zip(listed, values, strict=True)]
    return f'{{"points":[{",".join(points)}],"next_page_offset":null}}'


def facet(collection: Collection, given: Facet) -> str:
    """The most frequent values of a field with the numbers of their points, as JSON."""
    snapshot, limit = collection.snapshot(), given.limit or LIMIT
    check_limit(collection.settings.limits, "k", limit, f"limit {limit}")
    field = fields.known(snapshot.columns, given.key, COUNTED, "key")
    ids = collection.matching(snapshot, given.filter)
    counts = Counter[Any]()
    if len(ids):
        table = snapshot.payload(ids, field.names)
        for each in pc.value_counts(table.column(field.key).drop_null().combine_chunks()).to_pylist():
            counts[each["values"]] += each["counts"]
        for text in table.column(field.names[1]).drop_null().to_pylist() if field.has_lists else ():
            counts.update(fields.decoded(text, field.kind))
    found = sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))[:limit]
    return json.dumps({"hits": [{"value": value, "count": n} for value, n in found]})
