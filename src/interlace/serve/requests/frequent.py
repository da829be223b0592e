"""JSON of an upsert -> arrays, the usual case: points with one unnamed vector each.

It makes no object of pydantic for each point, and none of Python for each number. Whatever it does not understand, it
leaves to :class:`.models.Upsert`, whose messages say what is wrong.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from ... import _native
from ..problems import ProblemDetails
from . import ids as point_ids
from .bodies import PointRows

Id = int | str
Payload = dict[str, Any] | None


class PlainPoint(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """See models.Point."""

    id: Id
    vector: msgspec.Raw
    payload: Payload = None


class PlainPoints(msgspec.Struct, forbid_unknown_fields=True):
    """See models.Batch."""

    ids: list[Id]
    vectors: list[msgspec.Raw]
    payloads: list[Payload] | None = None


class PlainUpsert(msgspec.Struct, forbid_unknown_fields=True):
    """See models.Upsert."""

    points: list[PlainPoint] | None = None
    batch: PlainPoints | None = None
    shard_key: None = None
    update_filter: None = None


_decode = msgspec.json.Decoder(PlainUpsert).decode


def decoded(body: bytes, dim: int) -> PointRows | None:
    """The points of a body for vectors of ``dim`` dimensions; None where this is for pydantic."""
    try:
        given = _decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # ValueError: not UTF-8
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
