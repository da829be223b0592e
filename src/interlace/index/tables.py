"""Search results as Arrow tables, for DuckDB, Polars and the like."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..inputs.arrays import describe
from ..inputs.literals import Margin
from ..inputs.optional import require
from .searchable import Searchable


def search_table(
    searchable: Searchable,
    q: Any,
    k: int = 10,
    *,
    columns: Any = None,
    margin: Margin | None = None,
    threads: int | None = None,
    filter: Any = None,
    embedded: bool = False,
    rerank: int | None = None,
    recall: float | None = None,
) -> Any:
    """Search an index or a store; returns a ``pyarrow.Table`` with one row for each hit, the best of a query first.

    Its columns are ``query`` (the number of the query), ``rank`` (from 1), ``id`` and ``distance``, then the payload
    ``columns`` of a store: their names, or True for all. The other arguments are those of :meth:`Index.search`. DuckDB
    and Polars read the table without copying it. Needs pyarrow (extra ``io``).
    """
    pa = require("pyarrow", "search_table")
    if not isinstance(searchable, Searchable):
        raise InputError(f"search_table needs an Index or a Store, got {describe(searchable)}")
    payload = getattr(searchable, "payload", None)
    if columns not in (None, False) and payload is None:
        raise InputError(f"columns must be None: this {type(searchable).__name__} has no payload")
    found = searchable.search(
        q, k, margin=margin, threads=threads, filter=filter, embedded=embedded, rerank=rerank, recall=recall
    )
    ids, distances = np.atleast_2d(found.ids), np.atleast_2d(found.distances)
    present = np.arange(ids.shape[1]) < np.atleast_1d(found.counts)[:, None]  # filters may leave fewer than k
    query, place = np.nonzero(present)
    hits = ids[present]
    table = pa.table(
        {
            "query": query.astype(np.int64),
            "rank": (place + 1).astype(np.int32),
            "id": pa.array(hits.tolist(), pa.string()) if hits.dtype.kind in "OU" else hits,
            "distance": distances[present],
        }
    )
    if columns in (None, False) or payload is None:
        return table
    wanted = None if columns is True else columns
    beside = payload(hits, wanted)
    for name in beside.column_names:
        if name in table.column_names:
            raise InputError(f"the payload column {name!r} has the name of a column of results; name other columns")
        table = table.append_column(name, beside.column(name))
    return table
