"""One collection: an open store, and what requests do with it. All calls block; they run in threads."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from ...engine.hits import SearchStats
from ...errors import DamagedFileError, InputError, InterlaceError, StoreLockedError
from ...store import Health, Snapshot, Store
from ..problems import ProblemDetails, bad_input, check_limit, unsupported, without_paths
from ..requests import fields
from ..requests import ids as point_ids
from ..requests.bodies import PointRows
from ..requests.filters import Condition, Translation
from ..requests.models import Batch, Count, Point, PointVectors, Query, Retrieve, Scroll, SearchBody, Selector, Upsert
from ..requests.types import LIMIT
from ..settings import ServerSettings
from . import rendering
from .answer_size import AnswerSize
from .mmr import candidates, diversified, mmr_of
from .recommending import average, recommend_of, without_examples
from .searching import FloatArray, How, QueryHits, as_vectors, mask_of, query_input, search

DISTANCES = {"Cosine": "cosine", "Euclid": "l2", "Dot": "ip"}
NAMES = {metric: name for name, metric in DISTANCES.items()}


class Collection:
    """A store under a name."""

    def __init__(self, name: str, store: Store, settings: ServerSettings) -> None:
        self.name, self.store, self.settings = name, store, settings
        self.damage: str | None = None  # found by a request
        self._order: tuple[Snapshot, NDArray[Any]] | None = None  # ids of the last state that was scrolled, sorted

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return self.store.dim

    def health(self) -> Health:
        """Of the store, without paths of the server."""
        found = self.store.health()
        failed = found.learning_error
        return found if failed is None else dataclasses.replace(found, learning_error=without_paths(failed))

    def snapshot(self) -> Snapshot:
        """The current state; a request uses one for all that it does."""
        return self.store.snapshot

    def condition(self, snapshot: Snapshot, given: Any) -> Condition | None:
        """A filter of a request."""
        if given is None:
            return None
        kind = snapshot.rows.kind
        strings = None if not kind else kind == "string"
        translation = Translation(fields.declared(snapshot.columns), strings, self.settings.limits.filter_terms)
        return translation.condition(given)

    # --- reading

    def query(self, given: Query, size: AnswerSize | None = None) -> tuple[str, SearchStats | None]:
        """The hits of one query as JSON, and what they cost; points that are only listed cost nothing."""
        snapshot, size = self.snapshot(), size or self.answer_size()
        if given.using:
            raise unsupported(f"the named vector {given.using!r} (using)")
        if given.query is None:
            return self._first(snapshot, given, size), None
        how = How.of(given, snapshot, self.settings)
        wanted, filter = self.asked(snapshot, given)
        condition = self.condition(snapshot, filter)
        diverse = mmr_of(given.query)
        if diverse is not None:
            found = search(snapshot, wanted, candidates(how, diverse, self.settings.limits), condition)
            one = diversified(snapshot, QueryHits.of(found, None, given.score_threshold), diverse, how.k)
        else:
            found = search(snapshot, wanted, how, condition)
            one = QueryHits.of(found, None, given.score_threshold)
        (text,) = rendering.hits(snapshot, [one], given.with_payload, given.with_vector, size)
        return text, found.stats

    def asked(self, snapshot: Snapshot, given: SearchBody) -> tuple[FloatArray | int | str, Any]:
        """The vector or the id to search for, and the filter, which leaves examples of a recommendation out."""
        examples = recommend_of(given.query)
        if examples is None:
            return query_input(given.query, self.dim), given.filter
        vector = average(snapshot, examples, self.dim, self.settings.limits.batch)
        return vector, without_examples(given.filter, examples)

    def render(self, snapshot: Snapshot, given: Query, hits: QueryHits, size: AnswerSize) -> str:
        """QueryHits that were found elsewhere, as JSON."""
        return rendering.hits(snapshot, [hits], given.with_payload, given.with_vector, size)[0]

    def _first(self, snapshot: Snapshot, given: Query, size: AnswerSize) -> str:
        """A query without a query lists points by id, all with the score 1, as Qdrant does."""
        offset, limit = given.offset or 0, given.limit or LIMIT
        check_limit(self.settings.limits, "k", offset + limit, f"limit + offset = {offset + limit}")
        ids = self.matching(snapshot, given.filter)[offset : offset + limit]
        listed = rendering.points(snapshot, ids, given.with_payload, given.with_vector, size, [1.0] * len(ids))
        return "[" + ",".join(listed) + "]"

    def scroll(self, given: Scroll) -> str:
        """A page of points, by id."""
        snapshot, limit = self.snapshot(), given.limit or LIMIT
        check_limit(self.settings.limits, "batch", limit, f"limit {limit}")
        ids = self.matching(snapshot, given.filter)
        first = 0 if given.offset is None else point_ids.position(ids, point_ids.to_store(given.offset))
        page, rest = ids[first : first + limit], ids[first + limit : first + limit + 1]
        with_payload = True if given.with_payload is None else given.with_payload
        listed = ",".join(rendering.points(snapshot, page, with_payload, given.with_vector, self.answer_size()))
        following = json.dumps(point_ids.from_store(rest.tolist())[0]) if len(rest) else "null"
        return f'{{"points":[{listed}],"next_page_offset":{following}}}'

    def count(self, given: Count) -> int:
        """Points that match."""
        snapshot = self.snapshot()
        condition = self.condition(snapshot, given.filter)
        return len(snapshot) if condition is None else int(mask_of(snapshot, condition).sum())

    def retrieve(self, given: Retrieve) -> list[str]:
        """Points by id; those that are not there are left out."""
        snapshot = self.snapshot()
        self.check_batch(len(given.ids), "ids")
        known = [i for i in dict.fromkeys(map(point_ids.to_store, given.ids)) if i in snapshot]
        ids, with_payload = point_ids.as_array(known), True if given.with_payload is None else given.with_payload
        return rendering.points(snapshot, ids, with_payload, given.with_vector, self.answer_size())

    def matching(self, snapshot: Snapshot, given: Any) -> NDArray[Any]:
        """Ids of the points that match a filter, sorted."""
        condition = self.condition(snapshot, given)
        if condition is not None:
            return point_ids.sorted_ids(snapshot.ids[mask_of(snapshot, condition)])
        order = self._order
        if order is None or order[0] is not snapshot:
            self._order = order = snapshot, point_ids.sorted_ids(snapshot.ids)
        return order[1]

    # --- writing

    def upsert(self, given: Upsert) -> int:
        """Add or replace points; returns how many."""
        if (given.points is None) == (given.batch is None):
            raise bad_input("an upsert needs either points or batch")
        if given.update_mode not in (None, "upsert"):
            raise unsupported(f"update_mode {given.update_mode!r}")
        if given.points is not None:
            ids = [point.id for point in given.points]
            vectors, name = given_vectors(given.points), name_of_vector
            payloads = [point.payload for point in given.points]
        else:
            ids, vectors, payloads = _of_batch(given.batch)
            name = "batch.vectors[{}]".format
        if not ids:
            raise bad_input("the request has no points")
        self.check_batch(len(ids), "points")
        return self.put(as_vectors(vectors, self.dim, name), point_ids.all_to_store(ids), payloads)

    def put_rows(self, rows: PointRows) -> int:
        """Add or replace points of a binary body."""
        self.check_batch(len(rows.ids), "points")
        if len(rows.ids) and rows.vectors.shape[1] != self.dim:
            raise InputError(
                f"vectors must have {self.dim} dimensions, as the collection has, got {rows.vectors.shape[1]}"
            )
        return self.put(rows.vectors, rows.ids, rows.payloads)

    def put(self, vectors: Any, ids: Sequence[Any], payloads: Sequence[Any]) -> int:
        """Add or replace rows with payloads that are JSON objects."""
        if not len(ids):
            return 0
        schema, array = self.store.columns, point_ids.as_array(ids)
        if schema is None:
            if any(payloads):
                raise InputError("this collection was made without columns and cannot keep a payload")
            self.store.upsert(vectors, array)
        elif fields.PAYLOAD in schema.names:
            self.store.upsert(vectors, array, payload=self.columns_of(payloads, ids))
        else:
            self.store.upsert(vectors, array, payload=[payload or {} for payload in payloads])
        return len(ids)

    def columns_of(self, payloads: Sequence[Any], ids: Sequence[Any]) -> dict[str, list[Any]]:
        """JSON objects -> the values of all columns; ``ids`` are for messages."""
        if len(payloads) != len(ids):
            raise InputError(f"payload must have one entry per row: {len(ids)}, got {len(payloads)}")
        columns: dict[str, list[Any]] = {
            fields.PAYLOAD: [fields.to_text(payload, i) for payload, i in zip(payloads, ids, strict=True)]
        }
        columns.update(fields.columns_of(payloads, fields.declared(self.store.columns).values(), ids))
        return columns

    def delete(self, given: Selector) -> int:
        """Remove points; returns how many."""
        wanted = self.chosen(given)
        return self.store.remove(wanted, missing="ignore") if len(wanted) else 0

    def chosen(self, given: Selector) -> NDArray[Any]:
        """Ids of the points that a request names or whose payload matches; those that it names may not be there."""
        if (given.points is None) == (given.filter is None):
            raise bad_input("the request needs either points or filter")
        if given.points is None:
            return self.matching(self.snapshot(), given.filter)
        self.check_batch(len(given.points), "points")
        return point_ids.as_array(point_ids.all_to_store(given.points))

    def declare(self, key: str, schema: Any) -> None:
        """Make a field filterable; the values of all points are read and checked."""
        snapshot, old = self.snapshot(), self.store.columns
        field, columns = fields.new_field(key, schema)
        known = fields.declared(old).get(key)
        if known is not None:
            if known.kind != field.kind:
                raise ProblemDetails(409, "conflict", f"the field {key!r} is already declared as {known.kind}")
            return
        for other in fields.declared(old):
            if fields.LISTS in (key.removeprefix(other), other.removeprefix(key)):
                raise ProblemDetails(
                    409, "conflict", f"the field {key!r} has the values of {other!r}, which is declared"
                )
        if old is None or fields.PAYLOAD not in old.names:
            raise bad_input(f"this store was made by the library: its columns are its fields, and {key!r} is none")
        texts = snapshot.payload(columns=[fields.PAYLOAD]).column(fields.PAYLOAD).to_pylist() if len(snapshot) else []
        payloads = [None if text is None else json.loads(text) for text in texts]
        import pyarrow as pa

        values = fields.columns_of(payloads, [field], snapshot.ids.tolist())
        self.store.add_columns(pa.schema(list(columns.items())), values)

    def undeclare(self, key: str) -> None:
        """Drop the columns of a field; the payload keeps its values."""
        schema = self.store.columns
        known = fields.declared(schema).get(key)
        if known is None:
            raise ProblemDetails(404, "unknown_field", f"there is no declared field {key!r}")
        if fields.PAYLOAD not in schema.names:
            raise bad_input(f"{key!r} is a column of a store that was made by the library, and is not dropped")
        self.store.drop_columns(known.names)

    def check_batch(self, n: int, what: str) -> None:
        """Raise a problem for more points or ids than a request may have."""
        check_limit(self.settings.limits, "batch", n, f"{n} {what}")

    def answer_size(self) -> AnswerSize:
        """For a new answer."""
        return AnswerSize(self.settings.limits)

    def note(self, error: Exception) -> None:
        """Remember damage that a request has found."""
        if isinstance(error, DamagedFileError):
            self.damage = without_paths(str(error))


class Broken:
    """A directory that looks like a store but cannot be opened; the others are served."""

    def __init__(self, name: str, error: InterlaceError | OSError) -> None:
        self.name, self.reason = name, without_paths(str(error))
        self.is_locked = isinstance(error, StoreLockedError)  # another process writes to it


def _of_batch(batch: Batch | None) -> tuple[list[Any], list[Any], list[Any]]:
    assert batch is not None
    vectors = unnamed(batch.vectors, "batch.vectors")
    payloads = batch.payloads if batch.payloads is not None else [None] * len(batch.ids)
    for name, values in (("vectors", vectors), ("payloads", payloads)):
        if len(values) != len(batch.ids):
            raise bad_input(f"batch.{name} must have one entry per id: {len(batch.ids)}, got {len(values)}")
    return batch.ids, vectors, list(payloads)


def given_vectors(points: Sequence[Point | PointVectors]) -> list[Any]:
    """The vectors of points."""
    return [unnamed(point.vector, name_of_vector(i)) for i, point in enumerate(points)]


#: Of the i-th point of a request, as messages have it.
name_of_vector: Callable[[int], str] = "points[{}].vector".format


def unnamed(given: Any, name: str) -> Any:
    """The vector of a point, or what describes one; those with other names than the empty one are refused."""
    if not isinstance(given, dict):
        return given
    if not given:
        raise bad_input(f"{name} is empty: it must have one vector, without a name")
    if given.keys() != {""}:
        raise unsupported(f"the named vector {min(given.keys() - {''})!r}")
    return given[""]
