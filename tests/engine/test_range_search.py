"""Search within a radius: the native one against the reference, every layout, metric, level, filter and segment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import interlace as il
from books import LAYOUTS, index_of, random_codebooks, random_codes
from helpers import ID_KINDS, METRICS, build, clustered, small_index
from interlace import _native, reference
from interlace.engine.hits import WORK
from interlace.engine.scan import range_rows
from raising import raises

SIZES = [0, 1, 7, 64, 65, 129, 300]
many = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def bits(values: Any) -> bytes:
    return np.array(values, np.float32).tobytes()


@pytest.mark.parametrize("layout", LAYOUTS)
@many
@given(data=st.data())
def test_equals_the_reference_to_the_last_bit(simd, layout, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_books = data.draw(st.integers(1, 6))
    codebooks = random_codebooks(
        rng,
        layout,
        dim=data.draw(st.integers(n_books, 20)),
        n_books=n_books,
        n_words=data.draw(st.sampled_from([1, 3, 16, 256])),
        n_crude=data.draw(st.integers(1, n_books)),
        metric=data.draw(st.sampled_from(METRICS)),
        integers=data.draw(st.booleans()),
        scale=(scale := data.draw(st.sampled_from([1e-9, 1.0, 1.0, 1e8]))),
    )
    codes = random_codes(rng, codebooks, data.draw(st.sampled_from(SIZES)))
    cut = data.draw(st.integers(0, len(codes)))
    index = index_of(codebooks, codes[:cut], codes[cut:])
    far = data.draw(st.sampled_from([0.01, 1.0, 30.0]))
    queries = (rng.normal(size=(2, codebooks.dim)) * scale * far).astype(np.float32)
    allowed = rng.random(len(codes)) < 0.4 if data.draw(st.booleans()) else None
    filters = () if allowed is None else index.engine.allow(allowed.view(np.uint8)).filters
    everything, every_distance, _, _ = range_rows(
        codebooks, index.engine.segments, queries, np.full(2, np.inf, np.float32), 1, filters
    )
    assert len(everything) == 2 * (len(codes) if allowed is None else allowed.sum())
    # Radii that rows have, to the bit: within means no farther.
    some = data.draw(st.integers(0, max(len(every_distance) - 1, 0)))
    radius = every_distance[some] if len(every_distance) else np.float32(1)
    radii = np.array([radius, np.nextafter(radius, np.float32(-np.inf))], np.float32)
    exhaustive = data.draw(st.booleans())
    rows, distances, counts, work = range_rows(
        codebooks, index.engine.segments, queries, radii, data.draw(st.sampled_from([1, 2])), filters, exhaustive
    )
    offsets = np.concatenate([[0], np.cumsum(counts)])
    assert len(rows) == len(distances) == offsets[-1]
    for i, q in enumerate(queries):
        hits, survivors = reference.range_search(codebooks, codes, q, radii[i], exhaustive, allowed, (cut,))
        part = slice(offsets[i], offsets[i + 1])
        assert rows[part].tolist() == [h.row for h in hits]
        assert distances[part].tobytes() == bits([h.distance for h in hits])
        # A copy of few allowed rows is compared whole.
        assert work[i, 2] in ({survivors} if allowed is None or exhaustive else {survivors, allowed.sum()})


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("metric", METRICS)
def test_it_is_a_cut_of_the_exhaustive_search_at_less_work(simd, layout, metric):
    rng = np.random.default_rng(1)
    codebooks = random_codebooks(rng, layout, dim=16, n_books=6, n_words=128, n_crude=4, metric=metric)
    index = index_of(codebooks, random_codes(rng, codebooks, 3_000), random_codes(rng, codebooks, 401))
    queries = rng.normal(size=(9, 16)).astype(np.float32)
    everything = index.search(queries, len(index), margin=math.inf, threads=1)
    radii = everything.distances[np.arange(9), [0, 1, 5, 30, 100, 300, 1000, 3000, 3400]]
    found = index.range_search(queries, radii, threads=1)
    assert len(found) == 9
    for i in range(9):
        inside = everything.distances[i] <= radii[i]
        ids, distances = found[i]
        assert np.array_equal(ids, everything.ids[i, inside])
        assert distances.tobytes() == everything.distances[i, inside].tobytes()
        assert found.counts[i] == inside.sum()
    assert (found.stats.rule, found.stats.fallback) == ("exact", None)
    assert found.stats.survivors < index.range_search(queries, radii, margin=math.inf, threads=1).stats.survivors
    one = index.range_search(queries[3], float(radii[3]), threads=1)
    assert len(one) == 1
    assert np.array_equal(one[0][0], found[3][0])


def test_every_level_any_batch_and_any_threads_give_the_same_bits():
    rng = np.random.default_rng(2)
    codebooks = random_codebooks(rng, "hybrid", dim=16, n_books=6, n_words=64, n_crude=3)
    index = index_of(codebooks, random_codes(rng, codebooks, 2_500))
    queries = rng.normal(size=(37, 16)).astype(np.float32)
    radius = float(index.search(queries, 50, margin="exact").distances[:, -1].mean())
    before = _native.simd_level()
    answers = []
    for level in _native.simd_levels():
        _native.force_simd_level(level)
        for threads in (1, 3):
            found = index.range_search(queries, radius, threads=threads)
            answers.append(b"".join(a.tobytes() for a in (found.offsets, found.ids, found.distances)))
        single = [index.range_search(q, radius)[0] for q in queries]
        assert np.array_equal(np.concatenate([ids for ids, _ in single]), found.ids)
    _native.force_simd_level(before)
    assert len(answers) >= 4
    assert all(answer == answers[0] for answer in answers)
    assert len(np.unique(found.counts)) > 5


@pytest.mark.parametrize("metric", METRICS)
def test_a_radius_is_compared_with_the_distances_reported(metric):
    index = build(dim=4, metric=metric)
    q = clustered(3, 4, seed=2)
    nearest = index.search(q, 60, margin=math.inf, threads=1)
    value = float(nearest.scores[0, 20])
    radius = {"l2": value, "cosine": 1 - value, "ip": -value}[metric]
    ids, _ = index.range_search(q[0], radius + 1e-6)[0]
    within = nearest.scores[0] <= value + 1e-6 if metric == "l2" else nearest.scores[0] >= value - 1e-6
    assert set(ids.tolist()) == set(nearest.ids[0, within].tolist())
    found = index.range_search(q, np.inf)
    assert np.array_equal(found.scores.reshape(3, -1), nearest.scores)


@given(radius=st.floats(0.01, 30, width=64))
@settings(max_examples=50, deadline=None)
def test_a_double_radius_is_not_rounded_past_a_distance(radius):
    index = small_index(n=40)
    q = clustered(2, 4, seed=3)
    every = index.search(q, 40, margin=math.inf, threads=1)
    found = index.range_search(q, radius, threads=1)
    assert found.counts.tolist() == (every.distances.astype(np.float64) <= radius).sum(1).tolist()


@pytest.mark.parametrize("kind", ID_KINDS)
def test_ids_filters_and_shapes(kind):
    index = build(80, 6, ids=kind)
    q = clustered(4, 6, seed=5)
    allowed = index.ids[::3]
    found = index.range_search(q, 1.5, filter=allowed, threads=1)
    everything = index.range_search(q, 1.5, threads=1)
    assert found.offsets.dtype == np.int64
    assert found.offsets[0] == 0
    assert found.offsets[-1] == len(found.ids) == len(found.distances)
    for (ids, distances), (all_ids, all_distances) in zip(found, everything, strict=True):
        keep = np.isin(all_ids.astype(str), allowed.astype(str))
        assert ids.tolist() == all_ids[keep].tolist()
        assert distances.tolist() == all_distances[keep].tolist()
    assert found.ids.dtype == (object if kind == "string" else np.int64)
    with raises(IndexError, "query 4", 4):
        _ = found[4]
    assert found[-1][0].tolist() == found[3][0].tolist()
    nothing = index.range_search(q, 1.5, filter=np.zeros(80, bool))
    assert nothing.counts.tolist() == [0, 0, 0, 0]
    assert nothing.ids.dtype == found.ids.dtype
    assert len(index.range_search(np.empty((0, 6)), 1.0)) == 0
    assert index.range_search(q, -1.0).counts.sum() == 0


def test_an_empty_index_has_nothing_within():
    found = il.Index(small_index().codebooks).range_search(np.zeros((2, 4)), np.inf)
    assert found.offsets.tolist() == [0, 0, 0]
    assert found.stats.rows == 0


def test_what_a_radius_may_be():
    index = small_index()
    q = np.zeros((3, 4))
    for radius, facts in (
        (math.nan, ("radius", "inf", "nan")),
        ([1, 2, math.nan], ("radius[2]", "nan")),
        ([1, 2], ("radius", 3)),
        ("wide", ("radius", "number")),
        (True, ("radius", "number")),
    ):
        with raises(il.InputError, *facts):
            index.range_search(q, radius)
    assert index.range_search(q, 2).ids.tolist() == index.range_search(q, [2.0, 2.0, 2.0]).ids.tolist()
    with raises(il.InputError, "'paper'"):
        index.range_search(q, 1, margin="paper")
    assert index.range_search(q, 1, margin=0.99).stats.fallback == "0.99 has no rule for radii"
    with pytest.raises(il.InputError, match="threads"):
        index.range_search(q, 1, threads=0)
    with pytest.raises(il.InputError, match="dimensions"):
        index.range_search(np.zeros(3), 1)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_removed_rows_are_not_within(tmp_path, share):
    index = build(150, 6, ids="int64")
    store = index.to_store(tmp_path / "s")
    gone = store.ids[np.random.default_rng(0).random(150) < share]
    store.remove(gone)
    q = clustered(5, 6, seed=4)
    for radius in (0.0, 0.5, np.inf):
        found, everything = store.range_search(q, radius), index.range_search(q, radius)
        assert found.stats.rows == len(store)
        for (ids, distances), (all_ids, all_distances) in zip(found, everything, strict=True):
            keep = ~np.isin(all_ids, gone)
            assert ids.tolist() == all_ids[keep].tolist()
            assert distances.tolist() == all_distances[keep].tolist()
    if share < 1:
        some = store.ids[:20]
        assert np.isin(store.range_search(q, np.inf, filter=some).ids, some).all()


def test_rules_that_need_a_kth_row_are_refused():
    rng = np.random.default_rng(0)
    codebooks = random_codebooks(rng)
    index = index_of(codebooks, random_codes(rng, codebooks, 5))
    segments, q = [s.native for s in index.engine.segments], np.zeros((1, codebooks.dim), np.float32)
    outputs = np.zeros(1, np.int64), np.zeros((1, WORK), np.uint64)
    for rule in (_native.Rule.paper(sigma=1.0), _native.Rule.with_share(share=0.5)):
        with pytest.raises(ValueError, match="exact"):
            _native.range_search(codebooks.native, segments, [], q, np.ones(1, np.float32), rule, 1, *outputs)
