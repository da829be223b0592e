"""Precision of rankings by labels: a row is relevant to a query with the same label.

Average precision of one query over a list of R rows, best first, with rel(i) = 1 where the i-th is relevant:

    AP = sum over i of rel(i) * (rel(1) + ... + rel(i)) / i, divided by the denominator

| denominator | divided by | usual name |
|---|---|---|
| ``"all"`` | the relevant rows of the whole database | MAP, where the list is the whole database |
| ``"found"`` | the relevant rows among the R of the list | MAP@R of most papers on codes and hashing |
| ``"possible"`` | min(R, relevant rows of the database) | MAP@R that also penalizes missing rows |

A query without relevant rows has an AP of 0. Lists are used in the given order: the caller resolves ties.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..errors import InputError
from ..inputs.arrays import FloatArray, as_rows, describe, positive, to_numpy

DENOMINATORS = ("found", "all", "possible")
#: Distances in memory, 4 bytes each (12 in ``rank_all``), and queries per block.
BLOCK_VALUES, BLOCK_QUERIES = 1 << 23, 128
#: Rows and values per block of the database, in double precision.
BLOCK_ROWS, BLOCK_NUMBERS = 2048, 1 << 21

Floats = NDArray[np.float64]


def average_precision(relevant: Any, n_relevant: Any = None) -> Floats:
    """Average precision of each query, float64 [queries].

    ``relevant`` is bool [queries, R]: which rows of each list are relevant, best first. The sum is divided by the
    number of relevant rows in the list, or by ``n_relevant`` (a number, or one per query).
    """
    hits = to_numpy(relevant, "relevant")
    if hits.ndim != 2 or hits.dtype != np.bool_:
        raise InputError(f"relevant must be bool [queries, R], got {describe(hits)}")
    counted = hits.sum(1) if n_relevant is None else _counts(n_relevant, len(hits))
    if (short := counted < hits.sum(1)).any():
        query = int(np.argmax(short))
        raise InputError(
            f"query {query} has {int(hits[query].sum())} relevant rows in its list, n_relevant is {int(counted[query])}"
        )
    return _divide(_precision_sums(hits, [hits.shape[1]])[0], counted)


def mean_average_precision(
    ranked_labels: Any, query_labels: Any, n_relevant: Any = None, *, denominator: str | None = None
) -> float:
    """MAP of lists of R rows: ``ranked_labels`` [queries, R] are the labels of the rows, best first.

    ``denominator`` is ``"found"``, ``"all"`` or ``"possible"`` (see the top of this module). The default is ``"all"``
    if ``n_relevant``, the number of relevant rows of the database for each query, is given, else ``"found"``.
    """
    hits = _relevant(ranked_labels, query_labels)
    denominator = denominator or ("found" if n_relevant is None else "all")
    _check_denominator(denominator)
    if n_relevant is None and denominator != "found":
        raise InputError(f"denominator {denominator!r} needs n_relevant, the relevant rows in the whole database")
    if denominator == "found":
        return float(average_precision(hits).mean())
    counts = _counts(n_relevant, len(hits))
    return float(average_precision(hits, _denominators(denominator, hits.sum(1), counts, hits.shape[1])).mean())


def precision_at(ranked_labels: Any, query_labels: Any, k: int) -> float:
    """Mean share of relevant rows among the first k of each list; ``ranked_labels`` is [queries, at least k]."""
    hits, k = _relevant(ranked_labels, query_labels), positive(k, "k")
    if hits.shape[1] < k:
        raise InputError(f"precision@{k} needs at least {k} rows per query, ranked_labels has {hits.shape[1]}")
    return float(hits[:, :k].mean())


def map_of_ranking(
    queries: Any,
    database: Any,
    query_labels: Any,
    database_labels: Any,
    at: int | Sequence[int] | None = None,
    *,
    denominator: str = "found",
    squares: Any = None,
) -> dict[str, float]:
    """MAP of rankings of the whole database by squared distance: ``{"map": ..., "map@100": ...}``.

    ``map`` is over the whole ranking; ``map@R``, for each number R in ``at``, is over the first R rows, divided by
    ``denominator``. Ties are resolved in favour of the smaller row. Database vectors are floats: decoded codes for
    the exhaustive scan of an index, embedded rows for the embedding itself. Memory is about 100 MB in addition to the
    arguments; 10,000 queries on 60,000 rows of 16 dimensions take well under a minute. ``squares`` [rows] replace
    ``|row|^2`` if a search adds another value to ``-2 <query, row>``, such as a rounded cross term. Queries whose label
    no row has have an AP of 0; it is an error if no query has a known label.
    """
    own, theirs = to_numpy(query_labels, "query_labels"), to_numpy(database_labels, "database_labels")
    result = scores_of_ranking(queries, database, own, theirs, at, denominator=denominator, squares=squares)
    if result["map"] == 0 and not np.isin(own, theirs).any():
        raise InputError(
            f"no row of the database has a label of the queries: query_labels has {some_labels(own)}, database_labels "
            f"{some_labels(theirs)}"
        )
    return result


def scores_of_ranking(
    queries: Any,
    database: Any,
    query_labels: Any,
    database_labels: Any,
    at: int | Sequence[int] | None = None,
    *,
    denominator: str = "found",
    squares: Any = None,
) -> dict[str, float]:
    """:func:`map_of_ranking` of a block of queries, of which all may have labels that no row has."""
    q, x = _vectors(queries, database)
    cuts = [positive(r, "at") for r in (() if at is None else at if isinstance(at, Sequence) else [at])]
    _check_denominator(denominator)
    own, theirs = _labels(query_labels, "query_labels", len(q)), _labels(database_labels, "database_labels", len(x))
    _comparable(own, theirs, "query_labels", "database_labels")
    classes, numbers = np.unique(theirs, return_inverse=True)
    sizes = np.bincount(numbers, minlength=len(classes))
    place = np.minimum(np.searchsorted(classes, own), len(classes) - 1)
    known = classes[place] == own
    wanted, counts = np.where(known, place, -1), np.where(known, sizes[place], 0)
    lengths = np.unique([len(x), *(min(r, len(x)) for r in cuts)])
    sums, found = np.zeros((len(lengths), len(q))), np.zeros((len(lengths), len(q)), np.int64)
    wanted32, labels32 = wanted.astype(np.int32), numbers.astype(np.int32)
    for part, distances in _distances(q, x, squares=squares):
        shape = len(lengths), len(distances)
        own_sums, own_found = np.empty(shape), np.empty(shape, np.int64)
        _native.precision_sums(distances, wanted32[part], labels32, lengths, own_sums, own_found)
        sums[:, part], found[:, part] = own_sums, own_found
    result = {"map": float(_divide(sums[-1], counts).mean())}
    for r in cuts:
        i = int(np.searchsorted(lengths, min(r, len(x))))
        result[f"map@{r}"] = float(_divide(sums[i], _denominators(denominator, found[i], counts, r)).mean())
    return result


def rank_all(queries: Any, decoded: Any, block: int | None = None) -> Iterator[tuple[slice, NDArray[np.int64]]]:
    """Rank all rows of ``decoded`` for each query by squared distance, nearest first, ties by row number.

    Yields a slice of queries and their ranked rows int64 [queries of the block, rows], for ``block`` queries at a time
    (default: as many as fit in about 100 MB).
    """
    q, x = _vectors(queries, decoded)
    block = None if block is None else positive(block, "block")
    numbers = np.arange(len(x), dtype=np.uint64)
    for part, distances in _distances(q, x, block):
        # Floats of at least 0 are ordered like their bits, so one integer sort ranks rows and resolves ties by row,
        # much faster than a stable argsort.
        keys = distances.view(np.uint32).astype(np.uint64)
        keys <<= np.uint64(32)
        keys |= numbers
        keys.sort(axis=1)
        yield part, (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _distances(
    q: FloatArray, x: FloatArray, block: int | None = None, squares: Any = None
) -> Iterator[tuple[slice, FloatArray]]:
    """Squared distances float32 [queries of a block, rows], valid until the next block; equal rows have equal ones."""
    if len(x) >= 1 << 31:
        raise InputError(f"a full ranking is made of fewer than 2^31 rows, the database has {len(x)}")
    block = min(len(q), block or min(BLOCK_QUERIES, max(1, BLOCK_VALUES // len(x))))
    n_rows = min(len(x), BLOCK_ROWS, max(1, BLOCK_NUMBERS // max(1, x.shape[1])))
    # Allocated once for all blocks, because first touches of new pages are slow.
    distances, products = np.empty((block, len(x)), np.float32), np.empty(block * n_rows)
    doubles = np.empty((n_rows, x.shape[1]))
    own_lengths = np.concatenate([np.einsum("ij,ij->i", rows, rows) for _, rows in _double(x, doubles)])
    squares = own_lengths if squares is None else np.asarray(squares, np.float64)
    squares = squares + max(0.0, float((own_lengths - squares).max()))  # no negative distances, same ranks
    for first in range(0, len(q), block):
        own = q[first : first + block].astype(np.float64)
        own_squares = np.einsum("ij,ij->i", own, own)
        for columns, rows in _double(x, doubles):
            found = products[: len(own) * len(rows)].reshape(len(own), len(rows))
            np.dot(own, rows.T, out=found)
            # Equal rows are equal only after rounding to float32, because BLAS adds products in any order.
            _native.squared_distances(found, own_squares, squares[columns], columns.start, distances[: len(own)])
        yield slice(first, first + len(own)), distances[: len(own)]


def _double(x: FloatArray, space: Floats) -> Iterator[tuple[slice, Floats]]:
    """Blocks of rows in double precision in ``space``, valid until the next block."""
    for start in range(0, len(x), len(space)):
        columns = slice(start, min(start + len(space), len(x)))
        rows = space[: columns.stop - start]
        rows[:] = x[columns]
        yield columns, rows


def _precision_sums(hits: NDArray[np.bool_], cuts: list[int]) -> Floats:
    """Sum of the precision at each relevant row, for lists cut at each number: [cuts, queries]."""
    # flatnonzero of one long row is faster than nonzero of a matrix.
    query, place = np.divmod(np.flatnonzero(hits), hits.shape[1])
    before = np.concatenate([[0], np.cumsum(np.bincount(query, minlength=len(hits)))])
    precision = (np.arange(len(query)) - before[query] + 1) / (place + 1)
    return np.stack(
        [
            np.bincount(query, np.where(place < cut, precision, 0), minlength=len(hits)).astype(np.float64)
            for cut in cuts
        ]
    )


def _divide(sums: Floats, counts: NDArray[np.int64]) -> Floats:
    return np.asarray(np.where(counts > 0, sums / np.maximum(counts, 1), 0.0))


def _denominators(denominator: str, found: NDArray[np.int64], counts: NDArray[np.int64], r: int) -> NDArray[np.int64]:
    return {"found": found, "all": counts, "possible": np.minimum(counts, r)}[denominator]


def _check_denominator(denominator: str) -> None:
    if denominator not in DENOMINATORS:
        raise InputError(f"denominator must be one of {', '.join(DENOMINATORS)}, got {denominator!r}")


def _counts(n_relevant: Any, n: int) -> NDArray[np.int64]:
    counts = to_numpy(n_relevant, "n_relevant")
    if counts.dtype.kind not in "iu" or counts.shape not in ((), (n,)) or (counts < 0).any():
        raise InputError(f"n_relevant must be counts, one for all or for each of {n} queries, got {describe(counts)}")
    return np.broadcast_to(counts.astype(np.int64), n)


def _vectors(queries: Any, database: Any) -> tuple[FloatArray, FloatArray]:
    q, x = as_rows(queries, name="queries"), as_rows(database, name="database", copied=False)
    if q.shape[1] != x.shape[1]:
        raise InputError(f"queries have {q.shape[1]} dimensions, the database has {x.shape[1]}")
    for name, rows in (("queries", q), ("database", x)):
        if not len(rows):
            raise InputError(f"{name} holds no rows: {describe(rows)}")
    return q, x


def some_labels(labels: NDArray[Any], most: int = 5) -> str:
    """Some labels, for error messages."""
    names = [repr(label) for label in np.unique(labels).tolist()]
    return ", ".join([*names[:most], "..."] if len(names) > most else names)


def _labels(labels: Any, name: str, n: int, ndim: int = 1) -> NDArray[Any]:
    from ..inputs.labels import as_labels  # here: searches do without

    array = to_numpy(labels, name)
    if array.ndim != ndim:
        shape = "[rows]" if ndim == 1 else "[queries, R]"
        raise InputError(f"{name} must be integers or strings {shape}, got {describe(array)}")
    if len(array) != n:
        raise InputError(f"{name} has {len(array)} entries, there are {n} rows")
    where = name if ndim == 1 else f"{name}.ravel()"
    found = as_labels(array.ravel(), array.size, name=where).reshape(array.shape)
    return found if found.dtype.kind == "U" else found.astype(np.int64)


def _comparable(a: NDArray[Any], b: NDArray[Any], name_a: str, name_b: str) -> None:
    if (a.dtype.kind == "U") != (b.dtype.kind == "U"):
        raise InputError(f"{name_a} has dtype {a.dtype}, {name_b} has {b.dtype}: strings never equal integers")


def _relevant(ranked_labels: Any, query_labels: Any) -> NDArray[np.bool_]:
    """bool [queries, R]: where a row's label is the query's."""
    own = to_numpy(query_labels, "query_labels")
    own = _labels(own, "query_labels", len(own) if own.ndim else 0)
    ranked = _labels(ranked_labels, "ranked_labels", len(own), 2)
    if not ranked.size:
        raise InputError(f"ranked_labels holds no rows: {describe(ranked)}")
    _comparable(own, ranked, "query_labels", "ranked_labels")
    return np.asarray(ranked == own[:, None], np.bool_)
