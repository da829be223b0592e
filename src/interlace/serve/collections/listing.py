"""Points in the order of a field, and the values of a field with their numbers of points."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..problems import bad_input, check_limit
from ..requests import fields
from ..requests.filters import compared, evaluated
from ..requests.models import Facet, OrderBy, Scroll
from ..requests.types import LIMIT
from . import rendering
from .collection import Collection

SORTED, COUNTED = ("integer", "float", "datetime"), ("keyword", "integer", "bool")
VALUE, ROW = "value", "row"
START = "order_by.start_from"
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def ordered(collection: Collection, given: Scroll, order: OrderBy) -> str:
    """The first points by a field, as JSON: one with several values comes once for each, one without any never."""
    snapshot, limit = collection.snapshot(), given.limit or LIMIT
    if given.offset is not None:
        raise bad_input("offset cannot be used with order_by; use order_by.start_from")
    check_limit(collection.settings.limits, "batch", limit, f"limit {limit}")
    field = fields.known(snapshot.columns, order.key, SORTED, "order_by.key")
    ids, down = collection.matching(snapshot, given.filter), order.direction == "desc"
    if not len(ids):
        return '{"points":[],"next_page_offset":null}'
    found = _numbers(field, snapshot.payload(ids, field.names))
    if order.start_from is not None:
        number = fields.Field(VALUE, "float" if field.kind == "float" else "integer", False, found.schema.field(0).type)
        start = order.start_from if not isinstance(order.start_from, str) else _microseconds(order.start_from)
        found = found.filter(evaluated(compared(number, "lte" if down else "gte", start, START), found))
    keys = [(VALUE, "descending" if down else "ascending"), (ROW, "ascending")]
    found = found.take(pc.sort_indices(found, sort_keys=keys)[:limit])
    with_payload, chosen = True if given.with_payload is None else given.with_payload, ids[found.column(ROW).to_numpy()]
    listed = rendering.points(snapshot, chosen, with_payload, given.with_vector, collection.answer_size())
    values = map(rendering.number, found.column(VALUE).to_pylist())
    points = [f'{point[:-1]},"order_value":{value}}}' for point, value in zip(listed, values, strict=True)]
    return f'{{"points":[{",".join(points)}],"next_page_offset":null}}'


def _numbers(field: fields.Field, table: Any) -> Any:
    """The values of a field with the numbers of their rows; times are microseconds, as Qdrant has them."""
    column = table.column(field.key).combine_chunks()
    if field.kind == "datetime":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
    rows: NDArray[np.int64] = np.flatnonzero(column.is_valid())
    found = pa.table({VALUE: column.drop_null(), ROW: rows})
    if not field.has_lists:
        return found
    several = [
        (value, row)
        for row, text in enumerate(table.column(field.names[1]).to_pylist())
        for value in ([] if text is None else fields.decoded(text, field.kind))
    ]
    more = {VALUE: pa.array([v for v, _ in several], column.type), ROW: pa.array([r for _, r in several], pa.int64())}
    return pa.concat_tables([found, pa.table(more)])


def _microseconds(text: str) -> int:
    """The number that stands for a time."""
    time = fields.instant(text, lambda why: bad_input(f"{START} must be a number or a time, got {why}"))
    return (time - EPOCH) // datetime.timedelta(microseconds=1)


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
    found = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]
    return json.dumps({"hits": [{"value": value, "count": n} for value, n in found]})
