"""Queries that repeat others are no evidence: copies, copies with noise, and what a calibration makes of them."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_calibrating import held_of, lost

import interlace as il
from helpers import METRICS, hand_made
from interlace.codec.metric import metric_of
from interlace.engine import distinct
from interlace.engine.calibrating import calibrate, queries_needed
from interlace.engine.evidence import Evidence
from interlace.engine.margins import STRICT, TARGETS
from interlace.inputs.arrays import FloatArray
from raising import raises

DIM, ROWS = 16, 6000
FEWEST = queries_needed(STRICT[0])
NOISE = [0.0, 1e-6, 1e-4, 1e-3, 1e-2]  # of the spread of the rows


def clusters(n: int, seed: int) -> FloatArray:
    centres = np.random.default_rng(0).normal(size=(60, DIM)) * 3
    rng = np.random.default_rng(seed)
    return (centres[rng.integers(60, size=n)] + rng.normal(size=(n, DIM))).astype(np.float32)


@functools.cache
def built(layout: str, metric: str, originals: str | None = None) -> il.Index:
    return il.Index.build(
        clusters(ROWS, 1),
        n_bytes=6,
        layout=layout,
        metric=metric,
        originals=originals,
        effort="fastest",
        iterations=1,
        threads=1,
    )


def copies(n: int, times: int, noise: float, seed: int) -> FloatArray:
    """n queries, each of them several times with a little noise, in any order."""
    rng = np.random.default_rng(seed)
    q = np.repeat(clusters(n, 100 + seed), times, axis=0)
    q = q + noise * clusters(ROWS, 1).std() * rng.normal(size=q.shape)
    return rng.permutation(q).astype(np.float32)


def calibrated(index: il.Index, queries: Any) -> il.Index:
    """A copy of an index, calibrated; what it warns of is not what the test is about."""
    again = il.Index.from_bytes(index.to_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", il.CalibrationWarning)
        again.calibrate(queries, threads=1)
    return again


# --- which queries are one


def by_loops(vectors: FloatArray, answers: Any) -> list[int]:
    """The definition, one pair after the other; vectors are centred."""
    found: list[int] = []
    for i, (vector, rows) in enumerate(zip(vectors.astype(np.float64), answers.tolist(), strict=True)):
        same = [j for j in range(i) if answers[j].tolist() == rows]
        if same:
            found.append(found[same[0]])
            continue
        near = (
            j
            for j in range(i)
            if found[j] == j
            and 2 * len({*answers[j, : distinct.K].tolist()} & {*rows[: distinct.K]}) > len(rows[: distinct.K])
            and np.linalg.norm(vectors[j] - vector) <= distinct.NEAR * np.linalg.norm(vector)
        )
        found.append(next(near, i))
    return found


@settings(deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 14), st.sampled_from([0.0, 0.02, 0.2]), st.data())
def test_repeated_is_what_plain_loops_find(seed: int, n: int, k: int, noise: float, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    codebooks = hand_made()
    some = rng.normal(size=(data.draw(st.integers(1, n)), codebooks.dim))
    vectors = some[rng.integers(len(some), size=n)]
    vectors = np.asarray(vectors + noise * rng.normal(size=vectors.shape), np.float32)
    sets = rng.permuted(np.tile(np.arange(k + data.draw(st.integers(0, 3))), (n, 1)), axis=1)[:, :k]
    expected = by_loops(vectors, sets)
    assert distinct.repeated(codebooks, vectors + codebooks.mean, sets).tolist() == expected


def test_by_inner_product_the_length_of_a_query_does_not_matter() -> None:
    index, rng = built("subspace", "ip"), np.random.default_rng(0)
    queries = np.repeat(clusters(20, 5), 30, axis=0) * 10 ** rng.uniform(-3, 3, (600, 1))
    assert calibrated(index, queries).calibration.queries <= 20


# --- calibrations


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual"])
def test_repeated_queries_support_no_more_than_one_of_each(layout: str, metric: str, noise: float) -> None:
    index = il.Index.from_bytes(built(layout, metric).to_bytes())
    with pytest.warns(il.CalibrationWarning, match="4,000 queries .* different ones"):
        index.calibrate(copies(25, 160, noise, 2), threads=1)
    assert index.calibration.queries < FEWEST / 4
    for margin in TARGETS:
        stats = index.search(clusters(5, 3), margin=margin).stats
        assert stats.rule == "exact"
        assert "queries" in str(stats.fallback)


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["subspace", "hybrid", "residual"]),
    st.sampled_from(METRICS),
    st.floats(1e-6, 1e-2),
    st.integers(1, 60),
    st.integers(0, 1000),
)
def test_however_often_a_query_comes(layout: str, metric: str, noise: float, n: int, seed: int) -> None:
    made = calibrated(built(layout, metric), copies(n, 1 + 600 // n, noise, seed)).calibration
    assert made.queries <= 1.5 * n + 5
    supported = [made.queries >= 0.95 * queries_needed(target) for target in TARGETS]
    assert not (~np.isnan(made.shares) & ~np.array(supported)).any()


@pytest.mark.parametrize("metric", METRICS)
def test_different_queries_all_count(metric: str) -> None:
    queries = clusters(500, 7) if metric != "ip" else np.random.default_rng(7).normal(size=(500, DIM))
    assert calibrated(built("hybrid", metric), queries).calibration.queries == 500


@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_copies_beside_enough_different_queries_do_no_harm(metric: str) -> None:
    """The targets that the different ones support are still there."""
    index = built("hybrid", metric)
    queries = np.random.default_rng(8).normal(size=(500, DIM)) * 3
    made = calibrated(index, np.concatenate([queries, np.repeat(queries[:1], 2000, axis=0)])).calibration
    assert made.queries == 500
    assert not np.isnan(made.shares[:, :3]).any()


def test_a_query_that_comes_often_may_not_lose_more_than_the_target_allows() -> None:
    """It counts once for the confidence, but as often as it came for the mean."""
    held, metric = held_of(np.random.default_rng(9), 2000), metric_of("l2")
    usual = calibrate([held], 1000, metric)
    held.counts[np.argsort(-lost(usual, 2, 0, held))[:200]] = 1000
    made = calibrate([held], 1000, metric)
    means = [np.average(lost(one, 2, 0, held), weights=held.counts) for one in (usual, made)]
    assert means[1] <= 1 - TARGETS[0] < means[0]


# --- recall


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=300), st.integers(1, 60))
def test_a_sample_holds_as_many_different_queries_as_there_are(kinds: list[int], n: int) -> None:
    first = np.array([kinds.index(kind) for kind in kinds])
    found = Evidence([], 0, first).sample(n)
    assert len(found) == min(n, len({*kinds}))
    assert set(found.tolist()) <= set(first.tolist())
    assert (np.diff(found) > 0).all()


@pytest.mark.parametrize("noise", [0.0, 1e-2])
def test_repeated_queries_promise_the_recall_of_one_of_each(tmp_path: Path, noise: float) -> None:
    index, queries = built("hybrid", "l2", "float16"), copies(25, 40, noise, 4)
    store = index.to_store(tmp_path / "s", originals="float16")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", il.CalibrationWarning)
        store.calibrate(queries, threads=1)
    for one in (calibrated(index, queries), store):
        with raises(il.InputError, "recall", "0.995"):  # .998 of 256 queries, and .982 of 25
            one.search(queries[0], recall=0.995)
        assert one.search(queries[0], recall=0.5).stats.reranked
    store.close()
