"""A single query takes a shorter way through the library: its answer is that of a batch, bit for bit."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import interlace as il
from helpers import LAYOUTS, METRICS, clustered, ids_of
from interlace.engine.single import search_one

COUNTED = (
    "cells",
    "scanned",
    "survivors",
    "lookups",
    "reranked",
    "unlike",
    "margin",
    "rule",
    "fallback",
    "expected_recall",
    "rows",
    "simd",
)


def built(layout: str = "subspace", metric: str = "l2", ids: str = "default", n: int = 1500) -> il.Index:
    x = clustered(n, 8, seed=1)
    index = il.Index.build(
        x, ids=ids_of(ids, n), n_bytes=3, layout=layout, metric=metric, originals="float16", threads=1
    )
    index.calibrate(clustered(450, 8, seed=3), threads=1)
    return index


def same(index: Any, q: np.ndarray, k: int, **options: Any) -> None:
    """Each query alone, as a row of a batch, and as a batch of one."""
    batch = index.search(q, k, **options)
    for i, one in enumerate(q):
        alone, row = index.search(one, k, **options), index.search(q[i : i + 1], k, **options)
        for found in (alone.ids, row.ids[0]):
            assert found.tolist() == batch.ids[i].tolist()
        for distances in (alone.distances, row.distances[0]):
            assert distances.tobytes() == batch.distances[i].tobytes()
        assert type(alone.counts) is int
        assert alone.counts == row.counts[0] == batch.counts[i]
        assert alone.ids.shape == alone.distances.shape == (k,)
        for name in COUNTED:
            assert getattr(alone.stats, name) == getattr(row.stats, name), name
        assert (alone.stats.queries, alone.stats.threads) == (1, 1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("metric", METRICS)
def test_every_layout_and_metric(layout: str, metric: str) -> None:
    index, q = built(layout, metric), clustered(12, 8, seed=2)
    q[5] *= 30  # far from all queries of the calibration
    for margin in (0.99, "exact", float("inf"), "paper"):
        same(index, q, 7, margin=margin, threads=1)
    same(index, q, 7, margin=0.99, rerank=40, threads=1)
    same(index, q, 3, margin=0.99, offset=4, rerank=40, threads=1)
    same(index, q, 3, margin=0.99, offset=2)


@pytest.mark.parametrize("ids", ["int64", "string"])
def test_ids(ids: str) -> None:
    same(built(ids=ids), clustered(4, 8, seed=2), 5)


def test_recall_filters_and_more_hits_than_rows() -> None:
    index, q = built(n=600), clustered(4, 8, seed=2)
    same(index, q, 10, recall=0.8)
    same(index, q, 5, filter=np.arange(600) % 3 == 0)
    same(index, q, 5, filter=np.arange(600) % 3 == 0, rerank=30)
    for k, offset in ((599, 1), (600, 0), (601, 0), (10, 595), (10, 700)):
        same(index, q, k, offset=offset)
        same(index, q, k, offset=offset, rerank=2000)
    same(il.Index(index.codebooks, originals="int8"), q, 5)
    same(il.Index(index.codebooks, originals="int8"), q, 5, rerank=5)


def test_queries_of_every_kind() -> None:
    index, q = built(), clustered(3, 8, seed=2)
    expected = index.search(q, 5)
    wide = np.repeat(q, 2, axis=1)
    for i in range(3):
        for one in (q[i].astype(np.float64), q[i].tolist(), wide[i, ::2], q[i].astype(">f4"), q[i][::-1][::-1]):
            found = index.search(one, 5)
            assert found.ids.tolist() == expected.ids[i].tolist()
            assert found.distances.tobytes() == expected.distances[i].tobytes()
    for value, match in ((np.nan, r"queries\[0, 2\] is nan"), (np.inf, "inf"), (1e17, "too large")):
        bad = q[0].copy()
        bad[2] = value
        with pytest.raises(il.InputError, match=match):
            index.search(bad)
    with pytest.raises(il.InputError, match="queries has 7 dimensions, the index has 8"):
        index.search(q[0, :7])


def test_options_are_checked_each_time() -> None:
    index, q = built(), clustered(1, 8)[0]
    index.search(q, 1)
    index.search(q, 1, threads=1)
    for options in ({"k": True}, {"k": 1.0}, {"k": [1]}, {"threads": True}, {"threads": 0}, {"offset": -1}):
        with pytest.raises(il.InputError):
            index.search(q, **options)
    with pytest.raises(il.InputError, match="at least k=5, got 4"):
        index.search(q, 5, rerank=4)


def test_a_query_unlike_those_of_the_calibration_takes_the_long_way() -> None:
    index = built("hybrid")
    q, far = clustered(1, 8, seed=2), clustered(1, 8, seed=2) * 30
    options = index.searcher.options(5, 0, 0.99, 1, None)
    assert search_one(index.engine, q, options, None) is not None
    limits = dataclasses.replace(index.calibration, farthest=np.zeros(3, np.float32))
    strict = index.engine.with_calibration(limits)
    assert search_one(strict, q, options, None) is None
    assert strict.search(q, options).stats.unlike == 1
    assert index.search(far[0], 5, margin=0.99).stats.unlike == index.search(far, 5, margin=0.99).stats.unlike


def test_a_store_with_removed_rows(tmp_path: Any) -> None:
    index, q = built(), clustered(4, 8, seed=2)
    with index.to_store(tmp_path / "s") as store:
        same(store, q, 5)
        same(store, q, 5, rerank=30)
        store.remove(np.arange(0, 1500, 3))
        same(store, q, 5)
        same(store, q, 5, rerank=30)
