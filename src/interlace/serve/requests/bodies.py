"""Vectors as ``.npy`` or Arrow bodies -> arrays; hits -> Arrow. What a body promises is checked before it is used."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ConfigDict

from ...client import wire
from ...errors import InputError
from ...store.arrow_ipc import stream_in
from ..problems import bad_input, check_limit
from ..settings import RequestLimits
from . import ids as point_ids
from .models import Query, SearchParams
from .parameters import FROM_TEXT, Parameters
from .types import LIMIT, Natural, Positive

NPY, ARROW = wire.NPY, "application/vnd.apache.arrow.stream"


class QueryString(Parameters):
    """Parameters of a search whose vectors are the body."""

    model_config = ConfigDict(extra="forbid")
    limit: Annotated[Positive, FROM_TEXT] = LIMIT
    offset: Annotated[Natural, FROM_TEXT] = 0
    margin: float | str | None = None
    recall: float | None = None
    rerank: Annotated[Natural, FROM_TEXT] | None = None
    exact: bool = False
    with_payload: bool = False
    score_threshold: float | None = None
    filter: str | None = None

    def query(self, filter: Any) -> Query:
        """The same as the body of a query."""
        params = SearchParams(margin=self.margin, recall=self.recall, rerank=self.rerank, exact=self.exact or None)
        return Query(
            limit=self.limit,
            offset=self.offset,
            params=params,
            filter=filter,
            with_payload=self.with_payload,
            score_threshold=self.score_threshold,
        )


@dataclass(frozen=True)
class PointRows:
    """Points of a body."""

    ids: list[int | str]
    vectors: NDArray[Any]
    payloads: list[Any]


def vectors_in(body: bytes, kind: str) -> NDArray[Any]:
    """Queries [n, dim] of a body."""
    found = wire.one_array(body) if kind == NPY else _vectors(_column(table_in(body), "vector"))
    if found.ndim != 2:
        raise InputError(f"vectors must be a 2-D array [n, dim], got the shape {found.shape}")
    if found.dtype.kind not in "iuf":
        raise InputError(f"vectors must be numbers, got dtype {found.dtype}")
    return found


def rows_in(body: bytes, kind: str, first_id: str | None, limits: RequestLimits) -> PointRows:
    """Points of a body, within the limits; those of a .npy array have consecutive ids from ``first_id`` on."""
    if kind == NPY:
        vectors = vectors_in(body, kind)
        if first_id is None or not first_id.isdecimal() or len(first_id) > point_ids.DIGITS:
            raise bad_input("points as .npy need the query parameter first_id, a whole number below 2**64")
        n = len(vectors)  # an array without columns has as many rows as its header says
        check_limit(limits, "batch", n, f"{n} points")
        ids = [point_ids.to_store(i) for i in range(int(first_id), int(first_id) + n)]
        return PointRows(ids, vectors, [None] * n)
    table = table_in(body)
    extra = set(table.schema.names) - {"id", "vector", "payload"}
    if extra:
        raise InputError(f"the table has the column {min(extra)!r}; points have id, vector and payload (JSON text)")
    check_limit(limits, "batch", table.num_rows, f"{table.num_rows} points")
    column = _column(table, "id")
    if not any(is_it(column.type) for is_it in _IDS):
        raise InputError(f"the column 'id' must hold integers or strings, got {column.type}")
    ids = point_ids.all_to_store(column.to_pylist())
    payloads: list[Any] = [None] * len(ids)
    if "payload" in table.schema.names:
        payloads = [_json(text, i) for i, text in zip(ids, table.column("payload").to_pylist(), strict=True)]
    return PointRows(ids, _vectors(_column(table, "vector")), payloads)


_IDS = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)


def _json(text: Any, point: Any) -> Any:
    try:
        found = None if text is None else json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"the payload of point {point!r} is not JSON: {error}") from None
    if found is not None and not isinstance(found, dict):
        raise InputError(f"the payload of point {point!r} must be a JSON object")
    return found


def _column(table: Any, name: str) -> Any:
    if name not in table.schema.names:
        raise InputError(f"the table has no column {name!r}; it has {', '.join(map(repr, table.schema.names))[:200]}")
    column = table.column(name).combine_chunks()
    if column.null_count:
        raise InputError(f"the column {name!r} has nulls")
    return column


def _vectors(column: Any) -> NDArray[Any]:
    """A column of lists of numbers, all of one length."""
    kind = column.type
    fixed = pa.types.is_fixed_size_list(kind)
    if not (fixed or pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not (
        pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type)
    ):
        raise InputError(f"the column 'vector' must hold lists of numbers, got {kind}")
    flat = column.flatten()
    if flat.null_count:
        raise InputError("a vector has a null")
    if not len(column):
        return np.zeros((0, 0), np.float32)
    if not fixed:
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        if (lengths != lengths[0]).any():
            raise InputError(f"vectors have different lengths: {lengths.min()} and {lengths.max()}")
    values = flat.to_numpy(zero_copy_only=False)
    return np.asarray(values).reshape(len(column), -1)


def table_in(body: bytes) -> Any:
    """The table of an Arrow IPC stream, validated; it takes no more memory than the body."""
    try:
        schema, batches = stream_in(body)
        table = pa.Table.from_batches(list(batches), schema=schema)
        table.validate(full=True)
        return table
    except (pa.ArrowException, ValueError, OSError, EOFError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        text = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError(f"the body is not an Arrow IPC stream: {text}") from None


def arrow_out(columns: dict[str, Any]) -> bytes:
    """A table as an Arrow IPC stream."""
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def hits_out(ids: Iterable[Any], scores: list[list[float]], payloads: list[str] | None) -> bytes:
    """Hits of many queries as one table: query, id, score, and payload if asked for."""
    listed = point_ids.from_store(ids)
    strings = bool(listed) and isinstance(listed[0], str)
    columns = {
        "query": pa.array(np.repeat(np.arange(len(scores), dtype=np.int32), [len(row) for row in scores])),
        "id": pa.array(listed, pa.string() if strings else pa.uint64()),
        "score": pa.array([score for row in scores for score in row], pa.float32()),
    }
    if payloads is not None:
        columns["payload"] = pa.array(payloads, pa.string())
    return arrow_out(columns)
