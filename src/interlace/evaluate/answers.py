"""Recall against the true neighbours, agreement of two searches, and exact neighbours by brute force."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.exact import nearest_rows
from ..codec.metric import Metric, metric_of
from ..errors import InputError
from ..inputs.arrays import FloatArray, Rows, as_queries, describe, positive, to_numpy

#: ``exact_neighbours`` reads this many rows at a time.
BLOCK_ROWS = 8192
#: ``distances_of`` computes this many differences at a time, 8 bytes each.
BLOCK_VALUES = 1 << 22


def recall(found_ids: Any, true_ids: Any, k: int, *, found_distances: Any = None, true_distances: Any = None) -> float:
    """Mean share of the true k nearest among the first k found (recall@k, sometimes called k-recall@k).

    Ids are [queries, at least k] (or 1-D for one query, or ``Matches``), best first. Padding (-1 or None) in
    ``found_ids`` is never a hit; padding in ``true_ids`` is ignored.

    With both distances (of the vectors, not of their codes: :func:`distances_of`), ties count: a found row is also a
    hit if it is no farther than the k-th true neighbour.
    """
    found, truth = as_ids(found_ids, "found_ids"), as_ids(true_ids, "true_ids")
    k = positive(k, "k")
    for name, ids in (("found_ids", found), ("true_ids", truth)):
        if ids.shape[1] < k:
            raise InputError(f"recall@{k} needs at least {k} ids per query, {name} has {ids.shape[1]}")
    _same_queries(found, truth, "found_ids", "true_ids")
    found, truth = found[:, :k], truth[:, :k]
    n_true = _real(truth).sum(1)
    if not n_true.any():
        raise InputError("true_ids holds no ids, only padding")
    if found_distances is None and true_distances is None:
        hits = _common(truth, found)
    else:
        near = _no_farther(found_distances, true_distances, found, truth)
        hits = np.minimum(_hits_with_ties(found, truth, near), n_true)
    return float((hits[n_true > 0] / n_true[n_true > 0]).mean())


def _no_farther(
    found_distances: Any, true_distances: Any, found: NDArray[Any], truth: NDArray[Any]
) -> NDArray[np.bool_]:
    """bool [queries, k]: found rows that are no farther than the last true neighbour."""
    if found_distances is None or true_distances is None:
        raise InputError("found_distances and true_distances must be passed together")
    near = []
    for name, values, ids in (("found_distances", found_distances, found), ("true_distances", true_distances, truth)):
        array = to_numpy(values, name)
        array = array[None, :] if array.ndim == 1 else array
        if array.ndim != 2 or len(array) != len(ids) or array.shape[1] < ids.shape[1] or array.dtype.kind not in "fiu":
            raise InputError(f"{name} must be numbers {list(ids.shape)}, one for each id, got {describe(array)}")
        near.append(array[:, : ids.shape[1]])
    last = np.where(_real(truth), near[1], -np.inf).max(1)
    return np.asarray(near[0] <= last[:, None], np.bool_)


def _hits_with_ties(found: NDArray[Any], truth: NDArray[Any], near: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number of distinct found rows that are true neighbours or as near."""
    hits = np.zeros(len(found), np.int64)
    real = _real(found)
    for i, (ids, wanted) in enumerate(zip(found.tolist(), truth.tolist(), strict=True)):
        true = set(wanted)
        hits[i] = len({v for v, n, r in zip(ids, near[i], real[i], strict=True) if r and (n or v in true)})
    return hits


def agreement(a: Any, b: Any) -> float:
    """Mean over queries of ``|A and B| / k`` for two answers of the same k; 1 if they hold the same ids in any order.

    If both have fewer than k hits, the larger number of hits replaces k; two empty answers agree.
    """
    first, second = as_ids(a, "a"), as_ids(b, "b")
    _same_queries(first, second, "a", "b")
    if first.shape[1] != second.shape[1]:
        raise InputError(f"a has {first.shape[1]} ids per query, b has {second.shape[1]}")
    size = np.maximum(_real(first).sum(1), _real(second).sum(1))
    common = _common(first, second)
    return float(np.where(size > 0, common / np.maximum(size, 1), 1.0).mean())


def exact_neighbours(
    x: Any, q: Any, k: int, metric: str = "l2", *, dtype: Any = np.float64
) -> tuple[NDArray[np.int64], FloatArray]:
    """Rows [queries, k] of x nearest to each query and their distances, by brute force over every row.

    Distances ascend for every metric, as in ``Matches``: squared (l2), -q.x (ip), 1 - cosine. Ties go to the smaller
    row; fewer than k rows are padded with -1 and inf. x is read in blocks: memory is at most 64 MB (distances of 256
    queries x 8192 rows and their order) + 8192 * dim * 32 bytes, in addition to queries and results.
    ``dtype=np.float32`` takes half the time, but rounding may swap neighbours at nearly equal distances.
    """
    kind = metric_of(metric)
    k = positive(k, "k")
    rows = x if isinstance(x, Rows) else Rows(x)
    queries, single = as_queries(q, rows.dim)
    queries = kind.prepare(queries, name="queries")
    found, best = nearest_rows(_prepared(rows, kind), queries, min(k, len(rows)), kind, dtype=dtype)
    pad = ((0, 0), (0, k - found.shape[1]))
    ids = np.pad(found, pad, constant_values=-1)
    nearest = np.pad(best.astype(np.float32), pad, constant_values=np.inf)
    return (ids[0], nearest[0]) if single else (ids, nearest)


def _prepared(rows: Rows, metric: Metric) -> Iterator[tuple[int, FloatArray]]:
    """Blocks of rows, each with the number of its first row."""
    start = 0
    for block in rows.blocks(BLOCK_ROWS):
        yield start, metric.prepare(block, name="x", first_row=start)
        start += len(block)


def distances_of(x: Any, q: Any, rows: Any, metric: str = "l2") -> FloatArray:
    """True distances float32 [queries, k] of given rows of x from each query; inf where a row is -1.

    Same definition as in :func:`exact_neighbours`: squared (l2), -q.x (ip), 1 - cosine. :func:`recall` needs them for
    ties.
    """
    kind = metric_of(metric)
    source = x if isinstance(x, Rows) else Rows(x)
    queries, single = as_queries(q, source.dim)
    wanted = as_ids(rows, "rows")
    if wanted.dtype.kind not in "iu" or len(wanted) != len(queries):
        raise InputError(f"rows must be integers [{len(queries)}, k], one list for each query, got {describe(wanted)}")
    if wanted.size and not -1 <= wanted.min() <= wanted.max() < len(source):
        raise InputError(f"rows must lie in 0 to {len(source) - 1}, or be -1; got {wanted.min()} to {wanted.max()}")
    queries = kind.prepare(queries, name="queries")
    out = np.full(wanted.shape, np.inf, np.float32)
    step = max(1, BLOCK_VALUES // max(1, wanted.shape[1] * source.dim))
    for start in range(0, len(queries), step):
        part = wanted[start : start + step].astype(np.int64)
        query, place = np.nonzero(part >= 0)
        needed, position = np.unique(part[query, place], return_inverse=True)
        vectors = kind.prepare(source.take(needed), name="x", rows=needed)
        theirs = vectors[position.reshape(-1)].astype(np.float64)
        out[start + query, place] = kind.pair_distances(queries[start + query].astype(np.float64), theirs)
    return out[0] if single else out


def as_ids(ids: Any, name: str) -> NDArray[Any]:
    """Ids [queries, k] of an answer or of ``Matches``; strings as objects."""
    array = to_numpy(getattr(ids, "ids", ids), name)
    array = array[None, :] if array.ndim == 1 else array
    if array.ndim != 2 or array.dtype.kind not in "iuOUST":
        raise InputError(f"{name} must be ids [queries, k], integers or strings, got {describe(array)}")
    return array.astype(object) if array.dtype.kind in "UST" else array


def _same_queries(a: NDArray[Any], b: NDArray[Any], name_a: str, name_b: str) -> None:
    if len(a) != len(b):
        raise InputError(f"{name_a} has {len(a)} queries, {name_b} has {len(b)}")
    if len(a) == 0:
        raise InputError(f"{name_a} and {name_b} have no query")
    if (a.dtype == object) != (b.dtype == object):
        raise InputError(f"{name_a} has dtype {a.dtype}, {name_b} has {b.dtype}: strings never equal integers")


def _real(ids: NDArray[Any]) -> NDArray[np.bool_]:
    """Which ids are not padding (-1, or None for strings)."""
    if ids.dtype == object:
        return np.array([[v is not None for v in row] for row in ids.tolist()], np.bool_).reshape(ids.shape)
    return np.asarray(ids >= 0 if ids.dtype.kind == "u" else ids != -1, np.bool_)


def _common(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.int64]:
    """Number of ids in each row of ``a`` that are also in the same row of ``b``; compares about 16 MB at a time."""
    out = np.empty(len(a), np.int64)
    step = max(1, (1 << 24) // max(1, a.shape[1] * b.shape[1]))
    for start in range(0, len(a), step):
        part = slice(start, start + step)
        equal = np.asarray(a[part, :, None] == b[part, None, :], np.bool_)
        out[part] = (equal.any(2) & _real(a[part])).sum(1)
    return out
