"""Originals kept beside codes: how they are kept, the second look at the best rows, and the one knob for recall."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hn
from store_helpers import BOOKS, LARGE, SMALL, check, filled, vectors

import interlace as il
from helpers import clustered
from interlace.codec.embedding import Linear
from interlace.codec.exact import nearest_rows
from interlace.codec.metric import METRICS
from interlace.codec.originals import KINDS, Loss, OriginalsFormat, centre_of, in_parts
from interlace.engine.binomial import lower_bound
from interlace.engine.margins import TARGETS, Calibration, Recalls
from interlace.engine.originals import KeptVectors
from interlace.engine.recall import DEPTHS, NEXT_TO_NOTHING, QUERIES, at_least, effort
from interlace.engine.rerank import rerank
from interlace.store import manifest as manifests
from raising import raises

ROWS = hn.arrays(np.float32, st.tuples(st.integers(0, 6), st.integers(1, 9)), elements=st.floats(-1e4, 1e4, width=32))


@given(ROWS)
def test_float16_is_that_of_numpy(x: np.ndarray) -> None:
    kept = OriginalsFormat("float16", x.shape[1])
    raw = kept.to_bytes(x)
    assert raw.shape == (len(x), kept.width) == (len(x), 2 * x.shape[1])
    assert np.array_equal(kept.to_vectors(raw), x.astype(np.float16).astype(np.float32))


@given(ROWS, st.sampled_from([1e-30, 1.0, 1e11]))
def test_int8_is_off_by_half_a_step_at_most(x: np.ndarray, scale: float) -> None:
    x = (x * np.float32(scale)).astype(np.float32)
    kept = OriginalsFormat("int8", x.shape[1])
    raw = kept.to_bytes(x)
    assert raw.shape == (len(x), 8 + x.shape[1])
    step = (x.max(1, initial=-np.inf) - x.min(1, initial=np.inf)).astype(np.float64) / 255 if len(x) else np.zeros(0)
    off = np.abs(kept.to_vectors(raw).astype(np.float64) - x)
    # 255 times the smallest float: below the normal ones a step is a whole number of them.
    assert (off <= 0.501 * step[:, None] + 1e-6 * np.abs(x).max(1, keepdims=True, initial=0) + 4e-43).all()


def test_what_float16_cannot_hold_is_refused(tmp_path: Path) -> None:
    x = vectors(5)
    x[3, 2] = 70_000
    store = il.create(tmp_path / "s", BOOKS, originals="float16")
    with raises(il.InputError, "x[3, 2]", 70000, 65504, "int8"):
        store.add(x)
    assert len(store) == 0
    il.create(tmp_path / "t", BOOKS, originals="int8").add(x)
    for wrong in ("float32", 16, True):
        with raises(il.InputError, "originals", "'float16'", "'int8'", "None"):
            il.create(tmp_path / "u", BOOKS, originals=wrong)
    index = il.Index(BOOKS)
    index.add(x)
    with pytest.raises(il.InputError, match="originals.*codebooks"):
        il.create(tmp_path / "u", index, originals="int8")
    assert not (tmp_path / "u").exists()
    il.create(tmp_path / "v", il.Index(BOOKS), originals="int8").close()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.sampled_from(KINDS), st.data())
def test_vectors_of_many_segments(sizes: list[int], kind: str, data: st.DataObject) -> None:
    kept = OriginalsFormat(kind, 3)
    x = np.random.default_rng(sum(sizes)).integers(-3, 4, (sum(sizes), 3)).astype(np.float32)
    whole = kept.to_bytes(x)
    bounds = np.cumsum([0, *sizes])
    made = KeptVectors(kept, [whole[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True)])
    rows = np.array(data.draw(st.lists(st.integers(0, len(x) - 1), max_size=8)) if len(x) else [], np.int64)
    assert np.array_equal(made.take(rows), kept.to_vectors(whole)[rows])
    if len(rows) % 2 == 0:
        assert made.take(rows.reshape(2, -1)).shape == (2, len(rows) // 2, 3)
    got = [block for _, block in made.blocks()]
    assert np.array_equal(np.concatenate([np.empty((0, 3), np.float32), *got]), kept.to_vectors(whole))
    some = np.flatnonzero(np.arange(len(x)) % 3)
    assert np.array_equal(np.concatenate([whole[:0], *in_parts(whole, some)]), whole[some])
    assert np.array_equal(np.concatenate([whole[:0], *in_parts(whole, None)]), whole)


@settings(max_examples=50)
@given(
    n=st.integers(0, 40),
    k=st.integers(1, 9),
    depth=st.integers(1, 12),
    metric=st.sampled_from(["l2", "ip", "cosine"]),
    seed=st.integers(0, 999),
)
def test_a_second_look_against_a_plain_loop(n: int, k: int, depth: int, metric: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, q = (rng.integers(-2, 3, (m, 4)).astype(np.float32) for m in (n, 3))
    kept = KeptVectors(OriginalsFormat("float16", 4), [OriginalsFormat("float16", 4).to_bytes(x)])
    rows = np.full((3, depth), -1, np.int64)
    for r in rows:
        some = rng.permutation(n)[: rng.integers(0, depth + 1)]
        r[: len(some)] = some
    found, distances = rerank(kept, q, rows, k, METRICS[metric])
    for i in range(3):
        away = []
        for row in rows[i][rows[i] >= 0].tolist():
            product = sum(float(a) * float(b) for a, b in zip(q[i], x[row], strict=True))
            square = sum((float(a) - float(b)) ** 2 for a, b in zip(q[i], x[row], strict=True))
            away.append(({"l2": square, "ip": -product, "cosine": square / 2}[metric], row))
        best = sorted(away)[:k]
        assert found[i].tolist() == [row for _, row in best] + [-1] * (k - len(best))
        assert distances[i].tolist() == [d for d, _ in best] + [np.inf] * (k - len(best))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_re_ranked_searches(tmp_path: Path, kind: str, metric: str) -> None:
    """In any company the same answer; of all rows, that of brute force; better than codes alone."""
    x, q = clustered(3000, 12, seed=1), clustered(60, 12, seed=2)
    index = il.Index.build(x[:1500], n_bytes=3, metric=metric, threads=1)
    store = il.create(tmp_path / "s", index.codebooks, originals=kind, limits=LARGE)
    for a in range(0, 3000, 1000):
        store.add(x[a : a + 1000], threads=1)
    store.remove(np.arange(0, 3000, 7))
    there = np.setdiff1d(np.arange(3000), np.arange(0, 3000, 7))
    unit = lambda v: v / np.linalg.norm(v, axis=1, keepdims=True) if metric == "cosine" else v  # noqa: E731
    kept = store.get(there, originals=True)
    assert np.abs(kept - unit(x[there])).max() < (0.02 if kind == "int8" else 0.01) * np.abs(kept).max()
    products = unit(q).astype(np.float64) @ kept.T.astype(np.float64)
    away = -products if metric == "ip" else -2 * products + (kept.astype(np.float64) ** 2).sum(1)
    true = there[np.argsort(away, axis=1)[:, :10]]

    def recall(found: il.Matches) -> float:
        return float(np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(found.ids, true, strict=True)]))

    whole = store.search(q, 10, rerank=3000, threads=1)
    assert recall(whole) > 0.999
    assert whole.stats.reranked == 60 * len(there)
    by_code, some = store.search(q, 10, margin=0.999, threads=1), store.search(q, 10, rerank=100, threads=1)
    assert recall(by_code) < recall(some) <= 1
    assert (by_code.stats.reranked, some.stats.reranked) == (0, 6000)
    assert "6000 compared with originals" in str(some.stats)
    one_by_one = [store.search(one, 10, rerank=100, threads=1) for one in q]
    assert np.array_equal(np.array([m.ids for m in one_by_one]), some.ids)
    assert np.array_equal(np.array([m.distances for m in one_by_one]), some.distances)
    assert one_by_one[0].counts == 10
    assert (np.diff(some.distances, axis=1) >= 0).all()
    store.compact()
    again = store.search(q, 10, rerank=100, threads=1)
    assert np.array_equal(again.ids, some.ids)
    assert np.array_equal(again.distances, some.distances)
    store.verify()
    store.close()
    with il.open(tmp_path / "s") as reader:
        assert np.array_equal(reader.search(q, 10, rerank=100, threads=1).ids, some.ids)
        assert reader.originals == kind


def test_neighbours_of_rows_that_are_here_by_their_originals(tmp_path: Path) -> None:
    x = clustered(800, 16, seed=3)
    store = il.create(tmp_path / "s", il.Index.build(x, n_bytes=4, threads=1).codebooks, originals="float16")
    store.add(x, np.arange(800) + 5, threads=1)
    asked = [17, 400, 804]
    kept = store.get(store.ids, originals=True).astype(np.float64)
    away = ((kept[np.array(asked) - 5, None] - kept[None]) ** 2).sum(2)
    away[np.arange(3), np.array(asked) - 5] = -1
    true = store.ids[np.argsort(away, axis=1)]
    found = store.search_by_id(asked, 5, rerank=799, threads=1)
    assert np.array_equal(found.ids, true[:, 1:6])
    assert np.array_equal(store.search_by_id(asked, 3, offset=2, rerank=799, threads=1).ids, true[:, 3:6])
    assert np.array_equal(store.search_by_id(asked, 3, exclude_self=False, rerank=800, threads=1).ids, true[:, :3])
    assert np.array_equal(store.search_by_id(17, 5, rerank=799, filter=true[0, 3:9], threads=1).ids, true[0, 3:8])
    assert len(store.search_by_id(asked, 5, rerank=5, threads=1).ids[0]) == 5  # of five other rows
    store.calibrate(threads=1)
    assert store.search_by_id(asked, 5, recall=0.9, threads=1).stats.reranked > 0


def test_many_queries_are_taken_some_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, _ = filled(tmp_path / "s", rich=True)
    q = vectors(30, 3)
    whole = store.search(q, 3, rerank=9, threads=1)
    monkeypatch.setattr("interlace.engine.rerank.ANSWERS", 40)
    parts = store.search(q, 3, rerank=9, threads=1)
    assert np.array_equal(parts.ids, whole.ids)
    assert np.array_equal(parts.distances, whole.distances)
    assert np.array_equal(parts.counts, whole.counts)
    assert (parts.stats.queries, parts.stats.reranked, parts.stats.scanned) == (30, 270, whole.stats.scanned)
    none = store.search(q[:0], 3, rerank=9)
    assert (none.ids.shape, none.stats.queries) == ((0, 3), 0)


def test_refused(tmp_path: Path) -> None:
    plain = il.create(tmp_path / "p", BOOKS)
    plain.add(vectors(5))
    for act in (
        lambda: plain.search(np.zeros(4), rerank=20),
        lambda: plain.search(np.zeros(4), recall=0.9),
        lambda: plain.get([1], originals=True),
        lambda: plain.search_by_id(1, rerank=20),
        lambda: plain.search_by_id(1, recall=0.9),
    ):
        with raises(il.InputError, "il.create(path, source, originals='float16')"):
            act()
    store, _ = filled(tmp_path / "s", rich=True)
    for arguments, facts in (
        ({"rerank": 9}, ("k=10", 9)),
        ({"rerank": 0}, ("rerank", "integer")),
        ({"rerank": 10.0}, ("rerank", "integer")),
        ({"recall": 0.9, "rerank": 20}, ("pass recall or rerank, not both",)),
        ({"recall": 0.9, "margin": "exact"}, ("'exact'",)),
        ({"recall": 0.9}, ("recall", "calibrate")),
        ({"recall": 1.0}, ("recall", 0, 1, "1.0")),
        ({"recall": "high"}, ("recall", 0, 1, "'high'")),
        ({"recall": True}, ("recall", 0, 1)),
    ):
        with raises(il.InputError, *facts):
            store.search(np.zeros(4), 10, **arguments)


def test_an_embedding_comes_first(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    embedding = Linear(rng.normal(size=(4, 7)), rng.normal(size=4))
    store = il.create(tmp_path / "s", il.Index(BOOKS, embedding), originals="float16")
    raw = rng.normal(size=(40, 7)).astype(np.float32)
    store.add(raw)
    centre = centre_of(BOOKS)
    expected = (embedding(raw) - centre).astype(np.float16).astype(np.float32) + centre
    assert np.array_equal(store.get(store.ids, originals=True), expected)
    found = store.search(raw[:5], 1, rerank=40)
    assert found.ids.ravel().tolist() == [0, 1, 2, 3, 4]
    assert np.array_equal(found.ids, store.search(embedding(raw[:5]), 1, rerank=40, embedded=True).ids)


def test_rows_of_any_length_of_log(tmp_path: Path) -> None:
    """Originals alone, without columns, through everything that a store does."""
    from store_helpers import Model

    store, model = il.create(tmp_path / "s", BOOKS, originals="float16", limits=SMALL), Model()
    for step in range(12):
        ids = [step, step + 1, 50 + step]
        store.upsert(vectors(3, step), ids)
        model.put(vectors(3, step), ids)
        if step % 5 == 4:
            store.remove([step])
            model.remove([step])
        assert np.array_equal(
            store.get(list(model.rows), originals=True), np.array([model.originals[i] for i in model.rows])
        )
    check(store, model)
    store.verify()
    store.close()
    assert manifests.read(str(tmp_path / "s")).originals == "float16"
    with il.open(tmp_path / "s", mode="a") as again:
        check(again, model)


def test_originals_that_are_no_numbers_are_damage(tmp_path: Path) -> None:
    store = il.create(tmp_path / "s", BOOKS, originals="float16")
    store.add(vectors(20))
    store.compact()
    part = store.snapshot.rows.parts[0]
    rows = np.array(part.originals)
    rows[3, 1] = 0x7E
    with pytest.raises(ValueError, match="not finite"):
        OriginalsFormat("float16", 4).verify(rows)


# --- the one knob


@given(st.integers(0, 60), st.integers(1, 12), st.sampled_from(["l2", "ip"]), st.integers(0, 99))
def test_true_neighbours_against_a_plain_sort(n: int, k: int, metric: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kind = OriginalsFormat("float16", 5)
    x, q = (rng.normal(size=(m, 5)).astype(np.float16).astype(np.float32) for m in (n, 3))
    cut = n // 3
    kept = KeptVectors(kind, [kind.to_bytes(x[:cut]), kind.to_bytes(x[cut:])])
    removed = rng.random(n) < 0.2
    found, _ = nearest_rows(kept.blocks(), q, k, METRICS[metric], removed=removed)
    for i in range(3):
        away = -(x @ q[i]) if metric == "ip" else ((x - q[i]) ** 2).sum(1)
        order = [int(r) for r in np.argsort(away, kind="stable") if not removed[r]][:k]
        assert found[i].tolist() == order + [-1] * (k - len(order))


@pytest.mark.parametrize("own", [True, False])
def test_recall_is_what_was_asked_for(tmp_path: Path, own: bool) -> None:
    x, q = clustered(6000, 16, seed=1, clusters=40), clustered(300, 16, seed=2, clusters=40)
    index = il.Index.build(x[:3000], n_bytes=4, threads=1)
    store = il.create(tmp_path / "s", index.codebooks, originals="float16")
    store.add(x, threads=1)
    store.remove(np.arange(500))
    store.calibrate(None if own else clustered(500, 16, seed=3, clusters=40), threads=1)
    recalls = store.snapshot.books.calibration.recalls
    for target in TARGETS:
        curve = [(depth, found) for margin, depth, found in recalls.found if margin == target]
        assert [depth for depth, _ in curve] == list(DEPTHS[: len(curve)])
        if target >= NEXT_TO_NOTHING:  # the rules of others change with the depth
            assert curve == sorted(curve, key=lambda pair: pair[1])
    away = ((x[None, 500:] - q[:, None]) ** 2).sum(2)
    depths = []
    for recall in (0.5, 0.9, 0.99):
        found = store.search(q, 10, recall=recall, threads=1)
        true = np.argsort(away, axis=1)[:, :10] + 500
        hit = np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(found.ids, true, strict=True)])
        assert hit >= recall - 0.01
        depths.append(found.stats.reranked / 300)
    assert depths == sorted(depths)
    assert depths[0] < depths[-1]
    store.compact()
    store.close()
    with il.open(tmp_path / "s") as again:
        assert again.snapshot.books.calibration.recalls == recalls
        assert again.search(q, 10, recall=0.9, threads=1).stats.reranked / 300 == depths[1]


def calibration(n: int, *recalls: tuple[float, int, float], queries: int = 5000) -> Any:
    none = np.zeros(0)
    return Calibration(n, none, none, none, none, none, 0.0, 0.0, queries, recalls=Recalls(recalls))


def test_effort() -> None:
    depths = ((10, 0.5, 0.5), (20, 0.91, 0.93), (40, 0.937, 0.973), (80, 0.955, 0.99929))
    known = calibration(1000, *((0.99, d, r) for d, r, _ in depths), *((0.999, d, r) for d, _, r in depths))
    assert effort(0.4, 10, 1000, known) == (0.99, 10)
    assert effort(0.89, 10, 1000, known) == (0.99, 20)  # .91 was measured with 256 queries: at least .8978
    assert effort(0.905, 10, 1000, known) == (0.99, 40)  # twice the depth is what the other margin costs
    assert effort(0.94, 10, 1000, known) == (0.99, 80)
    assert effort(0.96, 10, 1000, known) == (0.999, 40)
    assert effort(0.997, 10, 1000, known) == (0.999, 80)
    assert effort(0.89, 5, 1000, known) == (0.99, 20)
    assert effort(0.89, 25, 1000, known) == (0.99, 50)
    assert effort(0.89, 10, 1500, known) == (0.99, 30)
    assert effort(0.89, 10, 100, known) == (0.99, 20)
    with raises(il.InputError, "recall", "0.9993", 80):
        effort(0.9993, 10, 1000, known)
    five_times = calibration(1000, (0.99, 100, 0.95), (0.999, 20, 0.95))
    assert effort(0.9, 10, 1000, five_times) == (0.999, 20)
    few = calibration(1000, (0.99, 20, 0.91), (0.99, 40, 0.96), queries=20)
    assert effort(0.85, 10, 1000, few) == (0.99, 20)
    assert effort(0.89, 10, 1000, few) == (0.99, 40)  # .91 of 20 queries may be .86


def test_a_perfect_measurement_does_not_promise_everything() -> None:
    perfect = calibration(1000, (0.999, 40, 1.0))
    assert effort(0.998, 10, 1000, perfect) == (0.999, 40)
    for recall in (0.999, 0.99999):
        with raises(il.InputError, f"{recall:g}", "1.0000", 256, "0.9982", "rerank="):
            effort(recall, 10, 1000, perfect)


@pytest.mark.parametrize("true", [0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995])
def test_a_measured_recall_is_rarely_an_empty_promise(true: float) -> None:
    """Neighbours of one query are lost together."""
    rng = np.random.default_rng(0)
    of_queries = rng.beta(30 * true, 30 * (1 - true), size=(2000, QUERIES))
    measured = rng.binomial(10, of_queries).mean(1) / 10
    promised = np.array([at_least(found, QUERIES) for found in measured.tolist()])
    assert (promised > true).mean() <= 0.05
    assert (measured > true).mean() > 0.3  # which a promise of what was measured would break


@pytest.mark.parametrize("n", [1, 10, 1000])
def test_the_lower_bound_is_that_of_clopper_and_pearson(n: int) -> None:
    """At the bound, so many successes or more have a probability of 1 - confidence, by a plain sum."""
    for found in {0, 1, n // 3, n - 1, n}:
        low = lower_bound(found / n, n, 0.95)
        at_bound = [math.comb(n, i) * low**i * (1 - low) ** (n - i) for i in range(found, n + 1)]
        assert low < found / n or found == 0
        assert sum(at_bound) == pytest.approx(0.05 if found else 1.0, rel=1e-6)


def test_more_hits_than_are_calibrated(tmp_path: Path) -> None:
    """A second look at more than 100 rows keeps the margin, and nearly all of them."""
    x, q = clustered(20_000, 16, seed=1, clusters=40), clustered(4000, 16, seed=2, clusters=40)
    index = il.Index.build(x[:5000], n_bytes=4, threads=1)
    store = il.create(tmp_path / "s", index.codebooks, originals="int8")
    store.add(x, threads=1)
    store.calibrate(q, threads=1)
    q = q[:200]
    assert "not calibrated for k = 300" in (store.search(q, 300, margin=0.999, threads=1).stats.fallback or "")
    found, exact = (store.search(q, 10, rerank=300, margin=m, threads=1) for m in (0.99, "exact"))
    assert found.stats.rule == "calibrated"
    assert found.stats.scanned < exact.stats.scanned
    assert np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(found.ids, exact.ids, strict=True)]) > 0.99


def test_a_second_look_after_any_calibrated_search(tmp_path: Path) -> None:
    """Searches prepare what later ones use: no order of calls may make one of them fail or answer differently."""
    x, q = clustered(1500, 8, seed=1), clustered(4, 8, seed=2)
    index = il.Index.build(x[:1200], n_bytes=3, layout="subspace", threads=1)
    store = il.create(tmp_path / "s", index.codebooks, originals="float16", limits=LARGE)
    store.add(x[:1400], threads=1)
    store.calibrate(threads=1)
    with il.open(tmp_path / "s", mode="r") as reader:
        steps = (
            lambda: None,
            lambda: store.add(x[1400:1450], threads=1),
            lambda: store.remove([3, 5]),
            store.compact,
            lambda: store.upsert(x[1450:], np.arange(50), threads=1),
            store.refresh,
            reader.refresh,
        )
        for step in steps:
            step()
            for one in (store, reader):
                assert one.search(q, 5, margin=0.99, threads=1).stats.rule == "calibrated"
                own = one.get(7, originals=True)
                before = one.search(q, 5, rerank=200, threads=1)
                found = one.search_by_id([7], 5, rerank=200, threads=1)
                assert np.array_equal(one.search(own, 6, rerank=201, threads=1).ids[1:], found.ids[0])
                assert one.search(q, 5, recall=0.9, threads=1).stats.reranked > 0
                assert one.search_by_id(7, 5, recall=0.9, threads=1).stats.reranked > 0
                one.search(q, 100, threads=1)
                again = one.search(q, 5, rerank=200, threads=1)
                assert np.array_equal(before.ids, again.ids)
                assert np.array_equal(before.distances, again.distances)
    store.close()


# --- the centre, and what conversion loses


def true_neighbours(x: np.ndarray, q: np.ndarray, metric: str) -> np.ndarray:
    x, q = x.astype(np.float64), q.astype(np.float64)
    if metric == "cosine":
        x, q = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, q))
    away = -(q @ x.T) if metric == "ip" else (x * x).sum(1) - 2 * q @ x.T
    return np.argsort(away, axis=1, kind="stable")[:, :10]


def recall_of(ids: np.ndarray, true: np.ndarray) -> float:
    return float(np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(ids, true, strict=True)]))


def far_from_zero(n: int, mean: float, seed: int = 0) -> np.ndarray:
    """Rows whose spread, of low rank, is small beside their mean."""
    rng = np.random.default_rng(seed)
    axes = np.random.default_rng(99).normal(size=(6, 16))
    rows = 0.05 * rng.normal(size=(n, 6)) @ axes / np.sqrt(6) + 0.01 * rng.normal(size=(n, 16))
    return (rows + mean * np.linspace(0.5, 1.5, 16)).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("mean", [40.0, 100.0])
@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_originals_keep_rows_whose_spread_is_small_beside_their_mean(
    tmp_path: Path, kind: str, mean: float, metric: Any
) -> None:
    """In an index and in a store that learns by itself, through a re-rank by number and by recall."""
    x, q = far_from_zero(5000, mean), far_from_zero(100, mean, seed=1)
    true = true_neighbours(x, q, metric)
    index = il.Index.build(x, n_bytes=4, metric=metric, originals=kind, threads=1, progress=False)
    with il.create(
        tmp_path / "s", dim=16, metric=metric, originals=kind, relearn="manual", n_bytes=4, threads=1
    ) as store:
        store.add(x)
        store.relearn(progress=False)
        for made in (index, store):
            assert recall_of(made.search(q, 10, rerank=1000, margin="exact").ids, true) > 0.98
            assert recall_of(made.search(q, 10, recall=0.9).ids, true) >= 0.9
        before = store.snapshot.books.originals
        store.relearn(n_bytes=8, progress=False)
        assert store.snapshot.books.originals.centre.tobytes() == before.centre.tobytes()
        assert store.snapshot.books.originals.centre.any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_recall_is_refused_that_conversion_does_not_leave(tmp_path: Path, kind: str) -> None:
    """Two far groups: no centre is near to both, so float16 merges the rows of each."""
    far = np.tile(np.float32([3000, -3000]), 8)
    x, q, own = (far_from_zero(n, 0.0, seed) for seed, n in enumerate((4000, 100, 500)))
    for rows in (x, q, own):
        rows[::2] += far
        rows[1::2] -= far
    true = true_neighbours(x, q, "l2")
    index = il.Index.build(x, n_bytes=8, originals=kind, threads=1, progress=False)
    store = il.create(tmp_path / "s", index)
    for made in (index, il.Index.open(_saved(index, tmp_path / "i")), store):
        recall = recall_of(made.search(q, 10, rerank=4000, margin="exact").ids, true)
        assert recall < 0.5
        with raises(il.InputError, "originals that lose less"):
            made.search(q, 10, recall=0.8)
    store.calibrate(own, threads=1)
    with raises(il.InputError, "originals that lose less"):
        store.search(q, 10, recall=0.8)


def _saved(index: il.Index, path: Path) -> Path:
    index.save(path)
    return path


@settings(max_examples=60)
@given(
    st.sampled_from(KINDS),
    st.sampled_from([1.0, 40.0, 1e4, 1e-3]),
    st.sampled_from([1e-3, 0.05, 1.0, 50.0]),
    st.integers(0, 99),
)
def test_the_loss_is_the_error_that_was_made(kind: str, mean: float, spread: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = (mean + spread * rng.normal(size=(50, 8))).astype(np.float32)
    kept = OriginalsFormat(kind, 8, x.mean(0))
    rows = kept.to_bytes(x)
    away = x.astype(np.float64) - kept.to_vectors(rows)
    found = kept.loss(x, rows)
    assert found.rows == 50
    assert found.error == pytest.approx((away**2).sum(), rel=1e-6, abs=1e-30)
    merged = len(np.unique(x, axis=0)) - len(np.unique(rows, axis=0))
    assert found.merged >= merged
    assert (found.merged > 0) == (merged > 0)
    assert np.abs(away).max() <= np.maximum(kept.steps(rows) * 0.501, 2.0**-23 * np.abs(x)).max()


def test_whole_numbers_stay_whole() -> None:
    """The centre is no finer than the spread: what float16 holds exactly it still does."""
    x = np.random.default_rng(0).integers(0, 256, (3000, 8)).astype(np.float32)
    index = il.Index.build(x, n_bytes=4, originals="float16", threads=1, progress=False)
    kept = index.searcher.originals
    assert kept.format.centre.any()
    assert kept.loss == Loss(3000, 0.0, 0)
    assert np.array_equal(kept.take(np.arange(3000)), x)


def test_a_centre_may_be_beyond_the_range_of_float16() -> None:
    """Only rows that a store took before it had a centre bound it."""
    x = (1e5 + np.random.default_rng(0).normal(size=(2000, 6))).astype(np.float32)
    index = il.Index.build(x, n_bytes=3, originals="float16", threads=1, progress=False)
    kept = index.searcher.originals
    assert np.abs(kept.format.centre - 1e5).max() < 1
    assert np.abs(kept.take(np.arange(2000)) - x).max() < 0.02


def test_copies_are_no_loss(tmp_path: Path) -> None:
    """Rows of the same bytes that were copies before stay copies when a recall is measured."""
    x = np.repeat(clustered(300, 16, seed=1), 20, axis=0)
    index = il.Index.build(x, n_bytes=8, originals="float16", threads=1, progress=False)
    assert index.searcher.originals.loss.merged == 0
    assert index.calibration.recalls.reachable > 0.99


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", ["far apart", "near their mean"])
def test_a_store_learns_from_all_rows_that_it_took(tmp_path: Path, kind: str, rows: str) -> None:
    """Nothing that was acknowledged is refused by the centre, which is known only when the store learns."""
    rng = np.random.default_rng(0)
    x = (40 + 1e-5 * rng.normal(size=(2000, 6))).astype(np.float32)
    if rows == "far apart":
        x = (50_000 + 2_000 * rng.normal(size=(2000, 6))).astype(np.float32)
        x[:20] -= 110_000
    with il.create(tmp_path / "s", dim=6, originals=kind, relearn="manual", n_bytes=3, threads=1) as store:
        store.add(x)
        store.relearn(progress=False)
        kept = store.get(np.arange(2000), originals=True)
        assert np.abs(kept - x).max() <= (700 if kind == "int8" else 40)
        lost = store.snapshot.loss
        assert lost.rows == 2000
        assert lost.error == pytest.approx(((x - kept.astype(np.float64)) ** 2).sum(), rel=1e-3, abs=1e-9)
        store.add(x[:100], threads=1)
        assert store.snapshot.loss.rows == 2100
        store.relearn(n_bytes=4, progress=False)
        store.compact()
        assert store.snapshot.loss.rows == 2100
    with il.open(tmp_path / "s") as again:
        assert again.snapshot.loss.rows == 2100


def test_a_default_search_says_how_it_was_chosen(tmp_path: Path) -> None:
    x, q = clustered(5000, 12, seed=1), clustered(40, 12, seed=2)
    index = il.Index.build(x, n_bytes=8, originals="float16", threads=1, progress=False)
    found = index.search(q, 5, threads=1)
    assert found.stats.chosen == "recall=0.95 by default"
    assert np.array_equal(found.ids, index.search(q, 5, recall=0.95, threads=1).ids)
    assert index.search(q, 5, recall=0.95).stats.chosen == "recall=0.95"
    for options in ({"rerank": 20}, {"margin": 0.99}, {"margin": 0.99, "rerank": 20}):
        assert index.search(q, 5, **options).stats.chosen is None
    assert index.search(q, 5, margin=0.999).stats.reranked == 0
    one = index.search(q[0], 5)
    assert (one.stats.chosen, one.ids.tolist()) == (found.stats.chosen, found.ids[0].tolist())
    by_id = index.search_by_id([3, 4], 5)
    assert np.array_equal(by_id.ids, index.search_by_id([3, 4], 5, recall=0.95).ids)
    for row in one.ids.tolist():  # the explanation is of that search
        assert index.explain(q[0], row, 5).lost == "found"
    fresh = il.Index(index.codebooks, originals="float16")
    fresh.add(x[:500], threads=1)
    exact = fresh.search(q, 5)
    assert "no calibration has measured recall=0.95" in (exact.stats.chosen or "")
    assert exact.stats.reranked == 40 * 500
    assert np.array_equal(exact.ids, fresh.search(q, 5, margin="exact", rerank=500).ids)
    with pytest.raises(il.InputError, match="calibrat"):
        fresh.search(q, 5, recall=0.95)
    without = il.Index.build(x, n_bytes=8, threads=1, progress=False).search(q, 5)
    assert (without.stats.chosen, without.stats.reranked) == (None, 0)
    assert il.create(tmp_path / "s", fresh.codebooks, originals="int8").snapshot.to_index().originals is None
