"""A store of a server, with the calls of :class:`interlace.Store`."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.explaining import Explanation
from ..errors import InputError, PartlyAddedError
from ..index.matches import Matches, RangeMatches
from ..index.report import Report
from ..inputs.arrays import FloatArray, Rows
from ..inputs.literals import Auto, Cross, Effort, Layout, Margin, Missing, PriorFit, Rotation
from ..inputs.payload_table import arrow, as_schema, as_table
from ..inputs.spool import yields_blocks
from ..inputs.tables import is_table
from ..store.health import Health
from . import answers, wire
from .arguments import as_array, filter_out, ids_of, json_objects, margin_out, numbers, one_id, table_bytes
from .transport import Transport
from .wire import Array

PAYLOAD = "$payload"  # column with the JSON of a collection that the server created


class RemoteStore:
    """A collection of a server. Calls, results and errors are those of :class:`interlace.Store`.

    The server writes and reads: every call sees all writes that were acknowledged before it. Filters are strings, ids
    or masks; expressions of pyarrow cannot be sent. The rows of one call are one request, which the limits of the
    server bound; an iterator of blocks sends a request for each.
    """

    def __init__(self, transport: Transport, name: str) -> None:
        self.name, self.path = name, f"{transport.url}/collections/{urllib.parse.quote(name, safe='')}"
        self._transport, self._route = transport, f"/collections/{urllib.parse.quote(name, safe='')}/store/"

    # --- searches

    def search(
        self,
        q: Any,
        k: int = 10,
        *,
        offset: int = 0,
        margin: Margin | None = None,
        threads: int | None = None,
        filter: Any = None,
        embedded: bool = False,
        rerank: int | None = None,
        recall: float | None = None,
    ) -> Matches:
        """See :meth:`interlace.Store.search`."""
        arrays = {"q": as_array(q, "queries")}
        given = numbers(k=k, offset=offset, threads=threads, rerank=rerank, recall=recall)
        given.update(margin=margin_out(margin), embedded=embedded, filter=filter_out(filter, arrays))
        return answers.to_matches(*self._call("search", given, arrays))

    def search_by_id(
        self,
        ids: Any,
        k: int = 10,
        *,
        exclude_self: bool = True,
        offset: int = 0,
        margin: Margin | None = None,
        threads: int | None = None,
        filter: Any = None,
        rerank: int | None = None,
        recall: float | None = None,
    ) -> Matches:
        """See :meth:`interlace.Store.search_by_id`."""
        arrays: dict[str, Array] = {}
        given = numbers(k=k, offset=offset, threads=threads, rerank=rerank, recall=recall)
        given.update(ids=ids_of(ids, arrays), exclude_self=exclude_self, margin=margin_out(margin))
        given.update(filter=filter_out(filter, arrays))
        return answers.to_matches(*self._call("search_by_id", given, arrays))

    def range_search(
        self,
        q: Any,
        radius: Any,
        *,
        margin: Margin = "exact",
        threads: int | None = None,
        filter: Any = None,
        embedded: bool = False,
    ) -> RangeMatches:
        """See :meth:`interlace.Store.range_search`."""
        arrays = {"q": as_array(q, "queries"), "radius": as_array(radius, "radius")}
        given = numbers(threads=threads)
        given.update(margin=margin_out(margin), embedded=embedded, filter=filter_out(filter, arrays))
        return answers.to_range(*self._call("range_search", given, arrays))

    def explain(
        self,
        q: Any,
        id: int | str,
        k: int = 10,
        *,
        margin: Margin | None = None,
        filter: Any = None,
        embedded: bool = False,
    ) -> Explanation:
        """See :meth:`interlace.Store.explain`."""
        arrays = {"q": as_array(q, "queries")}
        given = numbers(k=k)
        given.update(id=one_id(id), margin=margin_out(margin), embedded=embedded, filter=filter_out(filter, arrays))
        return Explanation(**self._call("explain", given, arrays)[0])

    # --- reading

    def get(self, ids: Any, *, originals: bool = False) -> FloatArray:
        """See :meth:`interlace.Store.get`."""
        arrays: dict[str, Array] = {}
        return self._call("get", {"ids": ids_of(ids, arrays), "originals": originals}, arrays)[1]["vectors"]

    def payload(self, ids: Any = None, columns: Any = None) -> Any:
        """See :meth:`interlace.Store.payload`."""
        arrays: dict[str, Array] = {}
        names = None if columns is None else [columns] if isinstance(columns, str) else list(columns)
        given = {"ids": None if ids is None else ids_of(ids, arrays), "all": ids is None, "columns": names}
        pa = arrow()
        return pa.ipc.open_stream(pa.py_buffer(self._call("payload", given, arrays)[1]["table"])).read_all()

    @property
    def ids(self) -> NDArray[Any]:
        """Every id in insertion order."""
        found, arrays = self._call("ids", {})
        return np.asarray(wire.ids_in(found["ids"], arrays))

    @property
    def columns(self) -> Any:
        """The ``pyarrow.Schema`` of the columns, or None."""
        schema = self._call("info", {})[1].get("schema")
        return None if schema is None else arrow().ipc.read_schema(arrow().py_buffer(schema))

    @property
    def info(self) -> dict[str, Any]:
        """Rows, dimensions, metric and format of the originals."""
        return self._call("info", {})[0]

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return int(self.info["dim"])

    @property
    def metric(self) -> str:
        """``l2``, ``ip`` or ``cosine``."""
        return str(self.info["metric"])

    @property
    def originals(self) -> str | None:
        """The format in which the store keeps vectors, or None."""
        found: str | None = self.info["originals"]
        return found

    def health(self) -> Health:
        """See :meth:`interlace.Store.health`."""
        return Health(**self._call("health", {})[0])

    def report(self) -> Report:
        """See :meth:`interlace.Store.report`."""
        return Report(**self._call("report", {})[0])

    def verify(self) -> None:
        """See :meth:`interlace.Store.verify`."""
        self._call("verify", {})

    def __len__(self) -> int:
        return int(self.info["rows"])

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | str | np.integer) or isinstance(value, bool):
            return False
        return bool(self._call("contains", {"id": one_id(value)})[0]["found"])

    def __iter__(self) -> Iterator[int | str]:
        yield from self.ids.tolist()

    # --- writing

    def add(
        self, x: Any, ids: Any = None, *, payload: Any = None, effort: Effort | None = None, embedded: bool = False
    ) -> NDArray[Any]:
        """See :meth:`interlace.Store.add`."""
        return self._insert("add", x, ids, payload, {"effort": effort, "embedded": embedded})

    def upsert(
        self, x: Any, ids: Any, *, payload: Any = None, effort: Effort | None = None, embedded: bool = False
    ) -> NDArray[Any]:
        """See :meth:`interlace.Store.upsert`."""
        if ids is None:
            raise InputError("upsert needs ids: add(x) generates new ones")
        return self._insert("upsert", x, ids, payload, {"effort": effort, "embedded": embedded})

    def remove(self, ids: Any, *, missing: Missing = "raise") -> int:
        """See :meth:`interlace.Store.remove`."""
        arrays: dict[str, Array] = {}
        given = {"ids": ids_of(ids, arrays), "missing": missing}
        return int(self._call("remove", given, arrays, writes=True)[0]["removed"])

    def add_columns(self, columns: Any, payload: Any = None) -> None:
        """See :meth:`interlace.Store.add_columns`."""
        schema = as_schema(columns)
        table = schema.empty_table() if payload is None else as_table(payload, schema, None)
        given = {"filled": payload is not None}
        self._call("add_columns", given, {"table": table_bytes(table)}, writes=True)

    def drop_columns(self, names: Any) -> None:
        """See :meth:`interlace.Store.drop_columns`."""
        listed = [names] if isinstance(names, str) else list(names)
        self._call("drop_columns", {"names": listed}, writes=True)

    def compact(self) -> None:
        """See :meth:`interlace.Store.compact`."""
        self._call("compact", {}, writes=True)

    def calibrate(self, queries: Any = None, *, embedded: bool = False) -> None:
        """See :meth:`interlace.Store.calibrate`."""
        arrays = {} if queries is None else {"queries": as_array(queries, "queries")}
        self._call("calibrate", {"embedded": embedded}, arrays, writes=True)

    def relearn(
        self,
        *,
        n_bytes: int | None = None,
        n_books: int | None = None,
        n_words: int | None = None,
        layout: Layout | None = None,
        n_crude: int | Auto | None = None,
        rotation: Rotation | None = None,
        cross: Cross | None = None,
        prior: PriorFit | None = None,
        effort: Effort | None = None,
        parallel_weight: float | None = None,
        cells: int | Auto | None = None,
        iterations: int | None = None,
        max_train_rows: int | None = None,
        max_memory: int | str | None = None,
        seed: int | None = None,
        threads: int | None = None,
        penalty: float | None = None,
        start: str | None = None,
    ) -> None:
        """See :meth:`interlace.Store.relearn`."""
        given = {name: value for name, value in locals().items() if name != "self" and value is not None}
        self._call("relearn", {"settings": numbers(**given)}, writes=True)

    def close(self) -> None:
        """Nothing to do: the server keeps the store open, and the connection belongs to the server's object."""

    def __enter__(self) -> RemoteStore:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"RemoteStore({self.path!r})"

    def _insert(self, call: str, x: Any, ids: Any, payload: Any, given: dict[str, Any]) -> NDArray[Any]:
        if yields_blocks(x):
            return self._insert_blocks(call, x, ids, payload, given)
        if is_table(x):
            table = Rows(x)
            x, ids = table.part(0, len(table)), table.ids(ids)
        vectors, arrays = as_array(x, "x"), dict[str, Array]()
        arrays["x"] = vectors
        single = vectors.ndim == 1
        given = {**given, "ids": None if ids is None else ids_of(ids, arrays), "json": None}
        if payload is not None:
            columns = self.columns
            if columns is not None and PAYLOAD in columns.names:
                given["json"] = json_objects(payload)
            elif columns is None:
                raise InputError("payload needs a store with columns: il.create(path, source, columns={...})")
            else:
                rows = (
                    {name: [value] for name, value in payload.items()}
                    if single and isinstance(payload, dict)
                    else payload
                )
                arrays["table"] = table_bytes(as_table(rows, columns, 1 if single else len(vectors)))
        found, back = self._call(call, given, arrays, writes=True)
        return np.asarray(wire.ids_in(found["ids"], back))

    def _insert_blocks(self, call: str, x: Any, ids: Any, payload: Any, given: dict[str, Any]) -> NDArray[Any]:
        if payload is not None:
            raise InputError("payload cannot be given for an iterator of blocks of a remote store: add block by block")
        n, added, listed = 0, list[NDArray[Any]](), None if ids is None or isinstance(ids, str) else list(ids)
        for number, block in enumerate(x):
            rows = block if is_table(block) else as_array(block, "x")
            own = ids if listed is None else listed[n : n + len(rows)]
            try:
                added.append(self._insert(call, rows, own, None, given))
            except InputError as error:
                raise PartlyAddedError(
                    f"block {number} of x (from row {n}): {error}; the {n} rows before it were added", n
                ) from error
            n += len(rows)
        return np.concatenate(added) if added else np.zeros(0, np.int64)

    def _call(
        self, call: str, arguments: dict[str, Any], arrays: dict[str, Array] | None = None, *, writes: bool = False
    ) -> tuple[dict[str, Any], dict[str, Array]]:
        body = wire.pack(arguments, arrays)
        content, kind = self._transport.send("POST", self._route + call, body, wire.MEDIA_TYPE, writes=writes)
        if kind != wire.MEDIA_TYPE:
            raise InputError(f"{self._transport.url} answers {kind}: expected an interlace server")
        return wire.unpack(content)
