"""The calls of a store, for ``il.connect``: arguments and arrays in, arguments and arrays out (client/wire.py)."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from ...client import answers, wire
from ...client.wire import Array
from ...errors import InputError
from ..collections.answer_size import AnswerSize, payload_bytes
from ..collections.collection import Collection
from ..collections.searching import check_hits
from ..gate.endpoint import Routes, check_full, media_type
from ..problems import ProblemDetails, over_limit
from ..requests import bodies, fields
from ..requests import ids as point_ids
from ..work.service import Service

Given = dict[str, Any]
Arrays = dict[str, Array]
Answer = tuple[Given, Arrays]
ID, HIT = 8, 12  # bytes of a number as an id; with its distance
Call = Callable[["Calls", Given, Arrays], Answer]


def add(routes: Routes, service: Service) -> None:
    """Add the route."""

    async def call_store(request: Request) -> Response:
        """A call of a store, as il.connect sends it; calls that write need the full key."""
        found, name = service.collection(request), request.path_params["call"]
        function, writes = READS.get(name) or WRITES.get(name), name in WRITES
        if function is None:
            raise ProblemDetails(404, "unknown_path", f"a store has no call {name!r:.60}")
        if writes:
            check_full(request)
        kind = media_type(request)
        if kind != wire.MEDIA_TYPE:
            raise ProblemDetails(415, "media_type", f"the body must be {wire.MEDIA_TYPE}, got {kind!r:.80}")
        body, calls = await request.body(), Calls(service, found)
        if writes:
            answer = await service.write(found, calls.run, function, body, limited=name in ("add", "upsert", "remove"))
        else:
            answer = await service.read(found, calls.run, function, body)
        return Response(answer, media_type=wire.MEDIA_TYPE)

    routes.add(
        "POST",
        "/collections/{name}/store/{call}",
        call_store,
        reads=True,
        other_bodies=[wire.MEDIA_TYPE],
        produces=wire.MEDIA_TYPE,
    )


class Calls:
    """Calls of one request."""

    def __init__(self, service: Service, collection: Collection) -> None:
        self.collection, self._metrics, self._limits = collection, service.metrics, service.settings.limits
        self._threads = service.settings.n_threads

    def run(self, call: Call, body: bytes) -> bytes:
        """Unpack, call, pack."""
        given, arrays = wire.unpack(body)
        _check_forms(given, arrays)
        try:
            return wire.pack(*call(self, given, arrays))
        except KeyError as error:
            if isinstance(error, InputError) or type(error) is not KeyError:
                raise
            raise InputError(f"the request has no {error.args[0]!r}") from None

    # --- searches

    def search(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.search."""
        q = arrays["q"]
        size = self._check(given, 1 if q.ndim <= 1 else len(q))
        found = self.collection.snapshot().search(q, **self._options(given, arrays, SEARCH))
        self._metrics.searched(self.collection.name, found.stats)
        size.add_hits(found.ids, HIT)
        return answers.of_matches(found)

    def search_by_id(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.search_by_id."""
        ids = wire.ids_in(given["ids"], arrays)
        size = self._check(given, 1 if isinstance(ids, int | str) else len(ids))
        found = self.collection.snapshot().search_by_id(ids, **self._options(given, arrays, BY_ID))
        self._metrics.searched(self.collection.name, found.stats)
        size.add_hits(found.ids, HIT)
        return answers.of_matches(found)

    def range_search(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.range_search; the hits are counted query by query, so that their number stays limited."""
        snapshot, q, radius = self.collection.snapshot(), np.atleast_2d(arrays["q"]), arrays["radius"]
        size = self._check(given, len(q))
        options, hits = self._options(given, arrays, RANGE), 0
        if len(snapshot) * len(q) > self._limits.hits:
            radii = np.broadcast_to(radius, (len(q),))
            for one, within in zip(q, radii, strict=True):
                hits += len(snapshot.range_search(one, within, **options).ids)
                if hits > self._limits.hits:
                    raise over_limit(422, "hits", self._limits.hits, "more hits within the radius")
        found = snapshot.range_search(arrays["q"], radius, **options)
        size.add_hits(found.ids, HIT)
        return answers.of_range(found)

    def explain(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.explain."""
        self._check(given, 1)
        found = self.collection.snapshot().explain(arrays["q"], given["id"], **self._options(given, arrays, EXPLAIN))
        return dataclasses.asdict(found), {}

    # --- reading

    def get(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.get."""
        (ids, n), dim = self._some_ids(given, arrays), self.collection.dim
        self.collection.answer_size().add(n * dim * 4, f"{n} vectors of {dim} numbers")
        return {}, {"vectors": self.collection.snapshot().get(ids, originals=given["originals"])}

    def payload(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.payload."""
        ids = None if given["all"] else self._some_ids(given, arrays)[0]
        snapshot, size = self.collection.snapshot(), self.collection.answer_size()
        sizes = payload_bytes(snapshot, [ids] if isinstance(ids, int | str) else ids, given["columns"])
        size.add(int(sizes.sum()), f"{len(sizes)} payloads")
        table = snapshot.payload(ids, given["columns"])
        data = bodies.arrow_out(dict(zip(table.schema.names, table.columns, strict=True)))
        return {}, {"table": np.frombuffer(data, np.uint8)}

    def ids(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.ids."""
        out, snapshot, size = dict[str, Array](), self.collection.snapshot(), self.collection.answer_size()
        size.add(len(snapshot) * ID, f"{len(snapshot)} ids")
        found = snapshot.ids
        size.add_hits(found, 0)
        return {"ids": wire.ids_out(found, out)}, out

    def contains(self, given: Given, arrays: Arrays) -> Answer:
        """Whether there is a row."""
        return {"found": given["id"] in self.collection.snapshot()}, {}

    def info(self, given: Given, arrays: Arrays) -> Answer:
        """Properties of the store."""
        store, columns = self.collection.store, self.collection.store.columns
        arrays = {} if columns is None else {"schema": np.frombuffer(columns.serialize().to_pybytes(), np.uint8)}
        facts = {"dim": store.dim, "metric": store.metric, "originals": store.originals, "rows": len(store)}
        return {**facts, "generation": store.generation}, arrays

    def health(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.health."""
        return dataclasses.asdict(self.collection.health()), {}

    def report(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.report."""
        return dataclasses.asdict(self.collection.store.report()), {}

    def verify(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.verify."""
        self.collection.store.verify()
        return {}, {}

    # --- writing

    def add(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.add."""
        return self._insert(given, arrays, self.collection.store.add)

    def upsert(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.upsert."""
        return self._insert(given, arrays, self.collection.store.upsert)

    def _insert(self, given: Given, arrays: Arrays, function: Callable[..., Any]) -> Answer:
        x, ids = arrays["x"], wire.ids_in(given["ids"], arrays)
        n = 1 if x.ndim == 1 else len(x)
        self.collection.check_batch(n, "rows")
        payload: Any = bodies.table_in(arrays["table"].tobytes()) if "table" in arrays else None
        if given["json"] is not None:
            named = [None] * n if ids is None else [ids] if isinstance(ids, int | str) else ids.tolist()
            payload = self.collection.columns_of(given["json"], named)
        if payload is not None and isinstance(ids, int | str) and x.ndim == 1:
            x, ids = x[None], point_ids.as_array([ids])
        options = {"effort": given["effort"], "embedded": given["embedded"], "payload": payload}
        made, out = function(x, ids, **options), dict[str, Array]()
        return {"ids": wire.ids_out(made, out)}, out

    def remove(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.remove."""
        ids = wire.ids_in(given["ids"], arrays)
        return {"removed": self.collection.store.remove(ids, missing=given["missing"])}, {}

    def add_columns(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.add_columns."""
        table = bodies.table_in(arrays["table"].tobytes())
        self.collection.store.add_columns(table.schema, table if given["filled"] else None)
        return {}, {}

    def drop_columns(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.drop_columns."""
        if fields.PAYLOAD in given["names"]:
            raise InputError("the column '$payload' holds the JSON of the points and is not dropped")
        self.collection.store.drop_columns(given["names"])
        return {}, {}

    def compact(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.compact."""
        self.collection.store.compact()
        return {}, {}

    def calibrate(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.calibrate."""
        self.collection.store.calibrate(arrays.get("queries"), embedded=given["embedded"])
        return {}, {}

    def relearn(self, given: Given, arrays: Arrays) -> Answer:
        """See Store.relearn."""
        settings = given["settings"]
        unknown = settings.keys() - (inspect.signature(self.collection.store.relearn).parameters.keys() - {"progress"})
        if unknown:
            raise InputError(f"relearn has no setting {min(unknown)!r}")
        self.collection.store.relearn(**settings, progress=None)
        return {}, {}

    def _some_ids(self, given: Given, arrays: Arrays) -> tuple[Any, int]:
        """Ids whose rows are the answer, and how many; one can be asked for many times, so their number is limited."""
        ids = wire.ids_in(given["ids"], arrays)
        n = 1 if ids is None or isinstance(ids, int | str) else np.size(ids)
        self.collection.check_batch(n, "ids")
        return ids, n

    def _options(self, given: Given, arrays: Arrays, names: tuple[str, ...]) -> dict[str, Any]:
        found = {name: given[name] for name in names}
        if found["margin"] == "inf":
            found["margin"] = float("inf")
        if type(found.get("threads")) is int and found["threads"] > self._threads:
            found["threads"] = self._threads  # more would only take them from other requests
        if "filter" in arrays:
            found["filter"] = arrays["filter"]
        elif isinstance(found["filter"], dict):
            found["filter"] = point_ids.as_array([str(value) for value in found["filter"]["ids"]])
        return found

    def _check(self, given: Given, n: int) -> AnswerSize:
        check_hits(n, given.get("k", 1), given.get("offset", 0), self._limits)
        return self.collection.answer_size()


#: What JSON may have for an argument; the library checks the values.
_FORMS: dict[str, tuple[type, ...]] = {
    "ids": (int, str, list, type(None)),
    "json": (list, type(None)),
    "effort": (str, type(None)),
    "columns": (list, type(None)),
    "names": (list,),
    "settings": (dict,),
}


def _check_forms(given: Given, arrays: Arrays) -> None:
    for name, kinds in _FORMS.items():
        if name in given and not isinstance(given[name], kinds):
            wanted = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
            raise InputError(f"{name} must be {wanted}, got {type(given[name]).__name__}")
    for name in ("x", "ids"):
        if name in arrays and not arrays[name].ndim:
            raise InputError(f"{name} must be an array with at least one dimension, got a single number")


SEARCH = ("k", "offset", "margin", "threads", "filter", "embedded", "rerank", "recall")
BY_ID = ("k", "exclude_self", "offset", "margin", "threads", "filter", "rerank", "recall")
RANGE = ("margin", "threads", "filter", "embedded")
EXPLAIN = ("k", "margin", "filter", "embedded")


_READING = (
    *(Calls.search, Calls.search_by_id, Calls.range_search, Calls.explain),
    *(Calls.get, Calls.payload, Calls.ids, Calls.contains, Calls.info, Calls.health, Calls.report, Calls.verify),
)
_WRITING = (
    *(Calls.add, Calls.upsert, Calls.remove, Calls.add_columns, Calls.drop_columns),
    *(Calls.compact, Calls.calibrate, Calls.relearn),
)
READS: dict[str, Call] = {call.__name__: call for call in _READING}
WRITES: dict[str, Call] = {call.__name__: call for call in _WRITING}
