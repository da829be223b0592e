"""A store that starts without codebooks: exact by its vectors, then learned, with the same rows and the same calls."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_helpers import BOOKS, LARGE, SMALL

import interlace as il
from helpers import METRICS, clustered
from interlace.reference.rerank import rerank
from interlace.store import verify
from raising import raises

DIM = 12
LEARNING: dict[str, Any] = {"n_bytes": 4, "n_words": 16, "iterations": 1, "effort": "fast", "threads": 1}
COLUMNS = {"n": "int32"}


def made(folder: Path, **settings: Any) -> il.Store:
    """A store that learns when it is told to."""
    return il.create(folder, **{"dim": DIM, "relearn": "manual", "limits": LARGE, **LEARNING, **settings})


def prepared(x: np.ndarray, metric: str) -> np.ndarray:
    x = np.asarray(x, np.float32)
    return (
        x / np.sqrt((x.astype(np.float64) ** 2).sum(1, keepdims=True)).astype(np.float32) if metric == "cosine" else x
    )


def away(q: np.ndarray, x: np.ndarray, metric: str) -> np.ndarray:
    """Distances [queries, rows] by brute force in float64."""
    q, x = prepared(q, metric).astype(np.float64), prepared(x, metric).astype(np.float64)
    if metric == "l2":
        return ((q[:, None] - x[None]) ** 2).sum(2)
    return (1.0 if metric == "cosine" else 0.0) - q @ x.T


def test_one_row_and_none(tmp_path: Path) -> None:
    store = made(tmp_path / "s")
    assert (len(store), store.dim, store.metric) == (0, DIM, "l2")
    found = store.search(np.zeros((2, DIM)), 3)
    assert found.counts.tolist() == [0, 0]
    assert (found.ids == -1).all()
    assert np.isinf(found.distances).all()
    assert store.range_search(np.zeros(DIM), math.inf).counts.tolist() == [0]
    assert store.add(np.ones(DIM), "one").tolist() == ["one"]
    assert store.search(np.zeros(DIM), 3).distances.tolist() == [DIM, math.inf, math.inf]
    assert store.get("one").tolist() == [1.0] * DIM
    store.verify()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("limits", [SMALL, LARGE])
def test_distances_are_those_of_brute_force(tmp_path: Path, metric: str, limits: il.store.Limits) -> None:
    """Rows of the log and of segments, with removed and replaced ones; reopened, and as a reader."""
    x, q = clustered(300, DIM), clustered(20, DIM, seed=1)
    with made(tmp_path / "s", metric=metric, limits=limits) as store:
        for start in range(0, 300, 60):
            store.add(x[start : start + 60])
        store.remove(np.arange(10, 30))
        store.upsert(x[:2] + 1, [5, 400])
    with il.open(tmp_path / "s", mode="a") as store:
        ids = [*(i for i in range(300) if not 10 <= i < 30 and i != 5), 5, 400]
        rows = np.concatenate([x[ids[:-2]], x[:2] + 1])
        assert store.ids.tolist() == ids
        np.testing.assert_allclose(store.get(ids), prepared(rows, metric), rtol=1e-6)
        exact = away(q, rows, metric)
        for one in (store, il.open(tmp_path / "s"), store.snapshot):
            for options in ({}, {"margin": "exact"}, {"margin": math.inf}, {"margin": "paper"}, {"threads": 2}):
                found = one.search(q, 7, **options)
                np.testing.assert_allclose(found.distances, np.sort(exact)[:, :7], rtol=1e-5, atol=1e-6)
            assert found.ids.tolist() == [[ids[i] for i in line] for line in np.argsort(exact)[:, :7]]
            assert one.search(q, 5, offset=2).ids.tolist() == found.ids[:, 2:].tolist()
            assert one.search(q[3], 7).ids.tolist() == found.ids[3].tolist()
            alone = one.search(q[3], 7, rerank=50) if one.searcher.originals else one.search(q[3], 7)
            assert alone.distances.tolist() == found.distances[3].tolist()
            assert one.search(q[3], 7, recall=0.9).distances.tolist() == found.distances[3].tolist()
            bounds = one.distance_error(q)
            whole = one.search(q, len(ids))
            for i in range(len(q)):
                order = [ids.index(value) for value in whole.ids[i].tolist()]
                assert (np.abs(whole.distances[i] - exact[i][order]) <= bounds[i]).all()
        # To the last bit those of the reference, which adds up in the order of the native code.
        vectors = store.get(ids)
        query = prepared(q[:1], metric)
        expected = rerank(vectors, query[0], list(range(len(ids))), 7, store.codebooks.metric_type)
        assert [(ids[row], float(d)) for row, d in expected] == list(
            zip(found.ids[0].tolist(), found.distances[0].tolist(), strict=True)
        )


def test_ties_are_in_the_order_of_insertion(tmp_path: Path) -> None:
    store = made(tmp_path / "s", limits=SMALL)
    store.add(np.ones((40, DIM)), np.arange(100, 60, -1))
    assert store.search(np.zeros(DIM), 6).ids.tolist() == [100, 99, 98, 97, 96, 95]
    store.remove([99])
    store.upsert(np.ones((1, DIM)), [100])
    assert store.search(np.zeros(DIM), 3).ids.tolist() == [98, 97, 96]
    assert store.search(np.zeros(DIM), 60).ids.tolist()[38:40] == [100, -1]


@pytest.mark.parametrize("metric", METRICS)
def test_filters_ranges_and_rows_by_id(tmp_path: Path, metric: str) -> None:
    x, q = clustered(200, DIM), clustered(3, DIM, seed=1)
    store = made(tmp_path / "s", metric=metric, columns=COLUMNS, limits=SMALL)
    store.add(x, payload={"n": np.arange(200)})
    store.remove([7, 8])
    exact = away(q, x, metric)
    exact[:, [7, 8]] = np.inf
    few = exact.copy()
    few[:, 60:] = np.inf
    order = np.argsort(few)[:, :5]
    mask = np.array([i < 60 for i in store.ids])
    for filter in ("n < 60", mask, store.ids[mask], store.allow(mask)):
        assert store.search(q, 5, filter=filter).ids.tolist() == order.tolist()
        assert store.search(q, 5, filter=filter, rerank=9).ids.tolist() == order.tolist()
    assert store.search(q, 5, filter="n < 0").counts.tolist() == [0, 0, 0]
    radii = np.sort(exact)[:, 10] + 1e-4
    found = store.range_search(q, radii)
    assert found.counts.tolist() == (exact <= radii[:, None]).sum(1).tolist()
    assert found[1][0].tolist() == np.argsort(exact[1])[: found.counts[1]].tolist()
    assert store.range_search(q, radii, filter="n < 60").counts.tolist() == (few <= radii[:, None]).sum(1).tolist()
    neighbours = away(x[[3, 150]], x, metric)
    neighbours[:, [7, 8]] = np.inf
    neighbours[[0, 1], [3, 150]] = np.inf
    assert store.search_by_id([3, 150], 4).ids.tolist() == np.argsort(neighbours)[:, :4].tolist()
    stale = store.allow(mask)
    store.add(x[:1], payload=[{}])
    with raises(il.InputError, "stale"):
        store.search(q, filter=stale)


def test_explanations(tmp_path: Path) -> None:
    x, q = clustered(80, DIM), clustered(1, DIM, seed=1)[0]
    store = made(tmp_path / "s", columns=COLUMNS)
    store.add(x, payload={"n": np.arange(80)})
    order = store.search(q, 80).ids
    nearest, far = int(order[0]), int(order[50])
    told = store.explain(q, nearest, 5)
    assert (told.lost, told.rank, told.by, told.visited) == ("found", 1, 0.0, True)
    told = store.explain(q, far, 5)
    assert (told.lost, told.rank) == ("beyond k", 51)
    assert told.by == pytest.approx(told.distance - told.kth_distance)
    assert told.margin == store.search(q, 5).stats.margin
    assert store.explain(q, far, 5, filter=f"n != {far}").lost == "filter"
    assert store.explain(q, far, 100).kth_distance == math.inf
    store.remove([far])
    assert store.explain(q, far, 5).lost == "removed"
    assert "removed" in str(store.explain(q, far, 5))
    assert "cell" not in str(store.explain(q, nearest, 5))


def test_reports(tmp_path: Path) -> None:
    store = made(tmp_path / "s")
    x = clustered(150, DIM)
    store.add(x)
    stats = store.search(x[:4], 3).stats
    assert (stats.queries, stats.rows, stats.scanned, stats.survivors, stats.lookups) == (4, 150, 600, 600, 0)
    assert (stats.rule, stats.fallback) == ("exact", "0.999 needs codes, and rows have none yet")
    told = store.evaluate(k=5, threads=1)
    assert told.recall[5] == told.agreement == told.code_recall[5] == 1
    assert told.quantization_error == 0
    assert store.evaluate(clustered(30, DIM, seed=2), 5, x=x, threads=1).recall[5] == 1
    report = store.report()
    assert (report.rows, report.n_bytes, report.originals) == (150, 4 * DIM, 0)
    assert report.code_bytes_per_vector > 4 * DIM
    health = store.health()
    assert (health.state, health.learning_due, health.calibrated, health.advice) == ("collecting", None, True, [])
    assert "collecting" in str(health)
    assert json.dumps(dataclasses.asdict(health))
    assert "without codes" in repr(store)
    store.calibrate()  # has nothing to do
    with raises(il.InputError, "queries"):
        store.calibrate(x[:3])
    with raises(il.InputError, "relearn()"):
        store.to_file(tmp_path / "index")
    assert store.search(x[0], 1).stats.rule == "exact"


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("originals", ["float16", "int8", None])
def test_learning_keeps_the_rows(tmp_path: Path, metric: str, originals: Any) -> None:
    x, q = clustered(600, DIM), clustered(20, DIM, seed=1)
    store = made(tmp_path / "s", metric=metric, originals=originals, columns=COLUMNS, limits=SMALL)
    store.add(x[:500], payload={"n": np.arange(500)})
    store.remove([3, 400])
    store.upsert(x[500:502], [4, 1000], payload={"n": [-1, -2]})
    reader, old = il.open(tmp_path / "s"), store.snapshot
    exact, ids, payload, kept = store.search(q, 5), store.ids, store.payload(), store.get(store.ids)
    store.relearn()
    assert store.health().state == "learned"
    assert (store.codebooks.n_bytes, store.metric, store.originals) == (4, metric, originals)
    assert np.array_equal(store.ids, ids)
    assert store.payload().equals(payload)
    assert not np.array_equal(store.get(ids), kept)
    if originals is None:
        assert not [path for path in (tmp_path / "s").iterdir() if path.name.startswith("originals")]
        with raises(il.InputError, "originals"):
            store.search(q, rerank=20)
        with raises(il.InputError, "relearn", "originals"):
            store.relearn()
    else:
        np.testing.assert_allclose(store.get(ids, originals=True), kept, atol=0.02)
        assert (store.search(q, 5, rerank=200, margin="exact").ids == exact.ids).mean() > 0.8
    for one in (old, reader):  # until it looks again
        assert np.array_equal(one.search(q, 5).distances, exact.distances)
    assert reader.refresh()
    assert np.array_equal(reader.search(q, 5).ids, store.search(q, 5).ids)
    assert reader.originals == originals
    store.add(x[502:], payload={"n": np.zeros(98)})
    assert store.health().added == 98
    store.close()
    assert verify(str(tmp_path / "s")).rows == 499 + 98
    with il.open(tmp_path / "s", mode="a") as again:
        assert again.originals == originals
        again.compact()
        again.verify()


def test_settings_are_those_of_create_until_others_are_passed(tmp_path: Path) -> None:
    with made(tmp_path / "s", layout="subspace", seed=np.int64(3)) as store:
        store.add(clustered(300, DIM))
        store.relearn()
        first = store.codebooks
        assert (first.layout, first.n_bytes, len(first.books[1].words)) == ("subspace", 4, 16)
        store.relearn(n_bytes=6)
        assert (store.codebooks.layout, store.codebooks.n_bytes) == ("subspace", 6)
    with il.open(tmp_path / "s", mode="a") as store:
        store.relearn(layout="hybrid")
        assert (store.codebooks.layout, store.codebooks.n_bytes) == ("hybrid", 6)
        store.relearn(n_books=3)
        assert (store.codebooks.layout, store.codebooks.n_books) == ("hybrid", 3)
        store.relearn(layout="subspace", n_bytes=4)
        assert store.codebooks.layout == "subspace"
        with raises(il.InputError, "penalty"):
            store.relearn(penalty=1.0)


def test_the_same_seed_gives_the_same_books(tmp_path: Path) -> None:
    x, found = clustered(400, DIM), []
    for name in ("a", "b"):
        with made(tmp_path / name, limits=LARGE if name == "a" else SMALL) as store:
            store.add(x[:150])
            store.add(x[150:])
            store.relearn()
            found.append((store.codebooks, store.get(store.ids)))
    assert found[0][0] == found[1][0]
    assert np.array_equal(found[0][1], found[1][1])


def test_rows_that_float16_has_no_room_for_are_refused_before_they_are_kept(tmp_path: Path) -> None:
    store = made(tmp_path / "s")
    x = np.ones((3, DIM))
    x[2, 1] = 1e6
    with raises(il.InputError, "float16", "x[2, 1]"):
        store.add(x)
    assert len(store) == 0
    made(tmp_path / "whole", originals=None).add(x)


def test_bad_input(tmp_path: Path) -> None:
    create: Any = il.create
    path = tmp_path / "s"
    for facts, settings in [
        (("source", "dim"), {}),
        (("source", "dim"), {"n_bytes": 8}),
        (("source", "dim", 4), {"source": BOOKS, "dim": 4}),
        (("source", "n_bytes"), {"source": BOOKS, "n_bytes": 8}),
        (("source", "metric"), {"source": BOOKS, "metric": "l2"}),
        (("source", "relearn"), {"source": BOOKS, "relearn": "auto"}),
        (("source", "learn_at"), {"source": BOOKS, "learn_at": 100}),
        (("dim", 0), {"dim": 0}),
        (("dim", "'8'"), {"dim": "8"}),
        (("metric", "'l1'", "cosine"), {"dim": 8, "metric": "l1"}),
        (("n_bytes", 128, 300), {"dim": 8, "n_bytes": 300}),
        (("n_bytes", 0), {"dim": 8, "n_bytes": 0}),
        (("n_bytes", "n_books"), {"dim": 8, "n_bytes": 8, "n_books": 8}),
        (("layout", "'flat'"), {"dim": 8, "layout": "flat"}),
        (("relearn", "'never'", "manual"), {"dim": 8, "relearn": "never"}),
        (("learn_at", 0), {"dim": 8, "learn_at": 0}),
        (("learn_at", "cells=2000", 100), {"dim": 8, "cells": 2000, "learn_at": 100}),
        (("originals", "'float32'"), {"dim": 8, "originals": "float32"}),
        (("payload", "columns"), {"dim": 8, "payload": [{}]}),
        (("threads", 0), {"dim": 8, "threads": 0}),
    ]:
        with raises(il.InputError, *facts):
            create(path, **settings)
        assert not path.exists()
    store = made(path)
    with raises(il.InputError, DIM, 5):
        store.add(np.ones((2, 5)))
    with raises(il.InputError, DIM, 5):
        store.search(np.ones(5))
    with raises(il.InputError, "nan"):
        store.add(np.full((2, DIM), np.nan))
    with raises(il.InputError, "relearn", "empty"):
        store.relearn()
    with raises(il.InputError, "margin"):
        store.search(np.ones(DIM), margin=2)
    with raises(il.InputError, "rerank", "k=10"):
        store.search(np.ones(DIM), rerank=3)
    with raises(il.InputError, "recall"):
        store.search(np.ones(DIM), recall=2)
    with raises(il.InputError, "already"):
        create(path, dim=DIM)
    plain = made(tmp_path / "plain", originals=None)
    plain.add(np.ones((2, DIM)))
    for call in (
        lambda: plain.search(np.ones(DIM), 1, rerank=2),
        lambda: plain.search(np.ones(DIM), 1, recall=0.9),
        lambda: plain.get([0], originals=True),
    ):
        with raises(il.InputError, "originals"):  # as after learning
            call()
    cosine = made(tmp_path / "cosine", metric="cosine")
    with raises(il.InputError, "x[1]"):
        cosine.add(np.array([[1.0] * DIM, [0.0] * DIM]))
