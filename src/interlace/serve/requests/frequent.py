"""The most frequent bodies, read without pydantic: upserts of points with one unnamed vector each, and plain queries.

Structs have those fields of :mod:`.models` that such a request has, with the same types and limits. Whatever a struct
does not accept is left to the model, whose messages say what is wrong. An upsert makes no object of pydantic for a
point, and none of Python for a number.
"""

from __future__ import annotations

import msgspec
import numpy as np

from ... import _native
from ..problems import ProblemDetails
from . import ids as point_ids
from .bodies import PointRows
from .types import Factor, Natural, Payload, Positive

Id = int | str
OptionalPayload = Payload | None


class ExpressQuantization(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See models.Quantization."""

    ignore: bool | None = None
    rescore: bool | None = None
    oversampling: Factor | None = None


class ExpressParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """See models.SearchParams."""

    exact: bool | None = None
    quantization: ExpressQuantization | None = None
    hnsw_ef: Positive | None = None
    indexed_only: bool | None = None
    margin: float | str | None = None
    recall: float | None = None
    rerank: Natural | None = None


class ExpressNearest(msgspec.Struct, forbid_unknown_fields=True):
    """A vector, as Qdrant's clients send it."""

    nearest: list[float]


class ExpressQuery(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """See models.Query: what it has and this has not takes the other path."""

    query: list[float] | ExpressNearest
    limit: Positive | None = None
    offset: Natural | None = None
    params: ExpressParams | None = None
    score_threshold: float | None = None
    with_payload: bool | None = None
    with_vector: bool | None = None
    filter: None = None
    using: None = None
    prefetch: None = None
    lookup_from: None = None
    shard_key: None = None


class PlainPoint(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """See models.Point."""

    id: Id
    vector: msgspec.Raw
    payload: OptionalPayload = None


class PlainPoints(msgspec.Struct, forbid_unknown_fields=True):
    """See models.Batch."""

    ids: list[Id]
    vectors: list[msgspec.Raw]
    payloads: list[OptionalPayload] | None = None


class PlainUpsert(msgspec.Struct, forbid_unknown_fields=True):
    """See models.Upsert."""

    points: list[PlainPoint] | None = None
    batch: PlainPoints | None = None
    shard_key: None = None
    update_filter: None = None


_query = msgspec.json.Decoder(ExpressQuery).decode
_upsert = msgspec.json.Decoder(PlainUpsert).decode
_REFUSED = (msgspec.MsgspecError, ValueError, RecursionError)  # ValueError: not UTF-8


def decoded_query(body: bytes) -> ExpressQuery | None:
    """The query of a body, with a vector; None where this is for pydantic."""
    try:
        given = _query(body)
    except _REFUSED:
        return None
    if isinstance(given.query, ExpressNearest):
        given.query = given.query.nearest
    return given


def decoded_upsert(body: bytes, dim: int) -> PointRows | None:
    """The points of a body for vectors of ``dim`` dimensions; None where this is for pydantic."""
    try:
        given = _upsert(body)
    except _REFUSED:
        return None
    if (given.points is None) == (given.batch is None):
        return None
    if given.points is not None:
        ids, vectors = [point.id for point in given.points], [point.vector for point in given.points]
        payloads = [point.payload for point in given.points]
    else:
        assert given.batch is not None
        ids, vectors, found = given.batch.ids, given.batch.vectors, given.batch.payloads
        payloads = [None] * len(ids) if found is None else found
    if not ids or not len(ids) == len(vectors) == len(payloads):
        return None
    try:
        listed = point_ids.all_to_store(ids)
    except ProblemDetails:
        return None
    text = np.frombuffer(b"".join(map(bytes, vectors)), np.uint8)
    array = np.empty((len(ids), dim), np.float32)
    return PointRows(listed, array, payloads) if _native.parse_rows(text, array) else None
