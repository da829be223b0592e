"""What a margin means, and that a calibrated one keeps its promise."""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import interlace as il
from books import LAYOUTS, index_of, random_codebooks, random_codes, stopping_rule
from helpers import METRICS
from interlace import Index, InputError, _native
from interlace.codec.encode import encode
from interlace.codec.metric import metric_of
from interlace.engine.calibrating import WEIGHTS, queries_needed
from interlace.engine.margins import (
    FARTHEST,
    GROWTH,
    KS,
    MOST_GROWTH,
    Among,
    Calibration,
    check_margin,
    gaps,
    rule_of,
)
from interlace.engine.scan import search_rows
from interlace.errors import CalibrationWarning
from interlace.evaluate import agreement
from interlace.reference import spread_of, tables
from interlace.reference.scan import ANY_GAP

NAN = np.nan
SHARES = np.array([[0.5, 0.6, 0.7], [0.55, 0.65, NAN], [0.6, 0.7, 1.0]], np.float32)
CELLS = np.array([[[t / 10, 1 + k + t / 10] for t in range(3)] for k in range(3)], np.float32)
SLACKS = np.array([[-1, 0, 1], [-2, -1, 0], [-3, -2, -1]], np.float32)
STRAYS = np.array([[1, 1, 1], [0.5, 0.25, 0.125], [0.3, 0.2, 0.1]], np.float32)


def with_loose(strict):
    """Columns of the loose targets, equal to that of 0.99, before those of the strict ones."""
    return np.concatenate([strict[:, :1], strict[:, :1], strict], axis=1)


ARRAYS = [with_loose(array) for array in (SHARES, CELLS, SLACKS, STRAYS)]
CALIBRATION = Calibration(1000, *ARRAYS, np.array([2, 4, 6], np.float32), 0.25, 7.0, 5000)


def rule(margin, k=10, n=1000, calibration=CALIBRATION, among=Among.ALL):
    check_margin(margin)
    return rule_of(margin, k=k, n=n, calibration=calibration, sigma=2.5, among=among)


# --- which rule a margin is -------------------------------------------------------------------------------------------


def test_targets_and_k_round_up_to_what_is_stored():
    assert rule(0.999, k=10).native.share == pytest.approx(0.65)
    assert rule(0.95, k=10).native.share == pytest.approx(0.55)
    assert rule(0.995, k=10).native.share == pytest.approx(0.65)
    for margin, k, (i, j) in [(0.999, 10, (1, 1)), (0.95, 10, (1, 0)), (0.999, 1, (0, 1)), (0.9999, 100, (2, 2))]:
        found = rule(margin, k=k)
        assert [found.native.weight, found.native.stop] == CELLS[i, j].tolist()
        assert (found.native.kind, found.native.least, found.native.reach) == ("share", 0.25, 7.0)


def test_a_k_between_two_stored_ones_takes_the_most_careful_values_of_both():
    assert rule(0.999, k=2).native.share == pytest.approx(0.65)
    falling = dataclasses.replace(CALIBRATION, shares=ARRAYS[0][::-1].copy())
    assert rule(0.99, k=11, calibration=falling).native.share == pytest.approx(0.55)
    assert rule(0.999, k=99, calibration=falling).native.share == pytest.approx(0.65)
    assert rule(0.999, k=100, calibration=falling).native.share == pytest.approx(0.6)
    found = rule(0.99, k=11)
    assert [found.native.weight, found.native.stop] == CELLS[2, 0].tolist()
    assert found.native.slack == -2
    assert rule(0.99, k=10).farthest == 4
    assert 4 < found.farthest < rule(0.99, k=99).farthest < 6


@pytest.mark.parametrize("n", [600, 1000])
@pytest.mark.parametrize("falling", [False, True])
def test_a_deeper_rerank_is_at_least_as_careful(n, falling):
    arrays = dict(zip(("shares", "cells", "slacks", "strays"), ARRAYS, strict=True))
    if falling:  # rules for more hits are less careful: of the hits beyond a small k more may be lost
        arrays = {name: array[::-1].copy() for name, array in arrays.items()}
    calibration = dataclasses.replace(CALIBRATION, **arrays)
    depths = [10, 11, 50, 99, 100, 101, 160, 10_000]
    found = [calibration.rule(depth, 0.999, n, reranked=True) for depth in depths]
    values = [[one.share, one.weight, one.stop, one.slack, one.strays] for one in found]
    assert (np.diff(values, axis=0) >= 0).all()
    assert values[-1] == values[2]


@pytest.mark.parametrize(
    ("n", "k", "stored"),  # a change of rows asks for the rules of k * 1000 / n, too
    [
        (1000, 10, [1]),
        (int(1000 * GROWTH), 10, [1]),
        (int(1000 / GROWTH) + 1, 10, [1]),
        (500, 10, [1, 2]),
        (1000, 5, [0, 1]),
        (400, 5, [0, 1, 2]),
        (100, 10, [1, 2]),
        (50, 1, [0, 1, 2]),
        (2000, 100, [1, 2]),
        (2000, 2, [0, 1]),
    ],
)
def test_rows_that_came_or_went_ask_for_the_rules_of_other_k(n, k, stored):
    found = rule(0.999, k=k, n=n)
    assert found.native.share == pytest.approx(SHARES[stored, 1].max())
    assert found.native.slack == SLACKS[stored, 1].max()
    assert found.strays == STRAYS[stored, 1].max()
    assert [found.native.weight, found.native.stop] == CELLS[max(stored), 1].tolist()


@pytest.mark.parametrize(
    ("n", "k"),
    [(int(1000 * GROWTH) + 1, 1), (int(1000 * MOST_GROWTH) + 1, 10), (90, 10), (9, 1), (900, 100), (0, 1)],
)
def test_beyond_that_searches_are_exact_and_say_so_once(n, k):
    calibration = dataclasses.replace(CALIBRATION)  # one that has not warned yet
    with pytest.warns(CalibrationWarning, match=r"1,000 rows, there are .*calibrate\(\)"):
        found = rule(0.999, k, n if n != 900 else 900 - 1, calibration)
    assert found.native.is_exact
    assert found.farthest == math.inf
    assert "calibrated for 1,000 rows" in found.label
    assert rule(0.999, k, n + 100_000, calibration).kind == "exact"  # no second warning, which would raise


@pytest.mark.parametrize(
    ("margin", "k", "calibration", "among", "why"),
    [
        (0.9999, 10, CALIBRATION, Among.ALL, "needs more calibration queries than the 5,000"),
        (0.9999, 11, CALIBRATION, Among.ALL, "needs more calibration queries than the 5,000"),  # at the next smaller k
        (0.99999, 10, CALIBRATION, Among.ALL, "0.9999"),
        (0.999, 101, CALIBRATION, Among.ALL, "k = 101"),
        (0.999, 10, None, Among.ALL, "not calibrated"),
        (0.999, 10, CALIBRATION, Among.ALLOWED, "has no rule for filters"),
        (0.9999, 10, CALIBRATION, Among.ALLOWED, "has no rule for filters"),  # more queries would not help
        (0.999, 101, CALIBRATION, Among.ALLOWED, "has no rule for filters"),
        (0.999, 10, None, Among.ALLOWED, "has no rule for filters"),
        (0.999, 10, CALIBRATION, Among.KEPT, "most rows are removed: call compact()"),
        (0.9999, 10, CALIBRATION, Among.KEPT, "needs more calibration queries than the 5,000"),
    ],
)
def test_what_is_not_covered_falls_back_to_exact_and_says_so(margin, k, calibration, among, why):
    found = rule(margin, k, 1000, calibration, among)
    assert found.native.is_exact
    assert (found.fallback or "").startswith(f"{margin:g} ")
    assert why in found.label


def test_a_filter_is_the_reason_even_if_the_rows_have_changed():
    calibration = dataclasses.replace(CALIBRATION)
    found = rule(0.999, 10, 100_000, calibration, Among.ALLOWED)  # no warning, which would raise: it would not help
    assert (found.kind, found.fallback) == ("exact", "0.999 has no rule for filters")


def test_a_stored_calibration_has_all_of_its_arrays():
    arrays, description = CALIBRATION.to_arrays()
    assert rule(0.999, calibration=Calibration.stored(description, arrays)).label == rule(0.999).label
    for name in arrays:
        with pytest.raises(KeyError, match=name):
            Calibration.stored(description, {key: a for key, a in arrays.items() if key != name})
        with pytest.raises(ValueError, match=f"{name} of shape"):
            Calibration.stored(description, arrays | {name: arrays[name][:, 1:] if arrays[name].ndim > 1 else SHARES})
    with pytest.raises(ValueError, match="targets"):
        Calibration.stored(description | {"targets": [0.99, 0.999, 0.9999]}, arrays)


def test_named_margins():
    assert rule("exact").native.is_exact
    assert (rule("paper").native.kind, rule("paper").native.sigma) == ("paper", 2.5)
    assert rule(math.inf).native.kind == "everything"
    assert rule("exact", among=Among.ALLOWED).label == "exact"


def test_native_rules_say_what_they_are_and_cannot_be_changed():
    numbers = {"share": 0.5, "weight": 0.1, "stop": 2.5, "slack": -1.0, "least": 0.25, "reach": 7.0, "inner": 0.5}
    calibrated = _native.Rule.calibrated(**numbers)
    assert {name: getattr(calibrated, name) for name in numbers} == numbers
    assert calibrated.stops
    assert not calibrated.is_exact
    assert (
        repr(calibrated) == "Rule.calibrated(share=0.5, weight=0.1, stop=2.5, slack=-1, least=0.25, reach=7, inner=0.5)"
    )
    assert repr(_native.Rule.exact()) == "Rule.exact()"
    assert repr(_native.Rule.with_share(share=0.5)) == "Rule.with_share(share=0.5)"
    assert repr(_native.Rule.paper(sigma=1.5)) == "Rule.paper(sigma=1.5)"
    assert repr(_native.Rule.everything()) == "Rule.everything()"
    with pytest.raises(AttributeError):
        calibrated.share = 1.0
    with pytest.raises(TypeError):
        _native.Rule()
    with pytest.raises(TypeError):
        _native.Rule.calibrated(*numbers.values())


@pytest.mark.parametrize("margin", ["loose", 0, 1, 1.5, -0.1, math.nan, None, True, [0.9], -math.inf])
def test_nonsense_is_refused_by_name(margin):
    with pytest.raises(InputError, match="margin"):
        rule(margin)


# --- cells: gaps and spreads ------------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(WEIGHTS), st.floats(0, 10), st.lists(st.floats(0, 1e7), min_size=256, max_size=256))
def test_a_spread_is_the_largest_gap_that_the_stop_allows(weight, stop, found):
    native = _native.Rule.calibrated(share=1, weight=weight, stop=stop, slack=0, least=0, reach=0, inner=0)
    for n_cells in (1, 2, 255, 256, 257, 1000):
        assert native.spread(n_cells).tobytes() == spread_of(weight, stop, n_cells).tobytes()
    spread = native.spread(256)
    assert np.isfinite(spread).all()  # times a unit of 0 it is still a number
    assert spread[0] == np.float32(ANY_GAP)
    for rank in range(1, 256):
        gap = min(found[rank], FARTHEST)
        score = math.log1p(rank) + weight * gap
        if abs(score - stop) > 1e-5 * max(1, stop, score):
            assert (found[rank] <= spread[rank]) == (score < stop)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(METRICS), st.sampled_from([1e-30, 0.1, 5.0]))
def test_gaps_are_in_units_of_the_query(seed, metric, least):
    rng = np.random.default_rng(seed)
    bases = np.sort(rng.normal(size=(5, 7)), axis=1).astype(np.float32)
    bases = bases if metric == "ip" else np.abs(bases)
    bases[1] = bases[1, 0]  # all the same
    bases[2, 0] = 0
    bases.sort(axis=1)
    spread = bases.mean(1, dtype=np.float64) - bases[:, 0]
    found = gaps(bases, bases[:, 0], spread, metric_of(metric), least)
    for row, gap in zip(bases.astype(float), found, strict=True):
        unit = sum(b - row[0] for b in row) / len(row) if metric == "ip" else max(row[0], np.float32(least))
        for base, value in zip(row, gap, strict=True):
            expected = 0.0 if base == row[0] else min((base - row[0]) / unit, FARTHEST)
            assert value == pytest.approx(expected, rel=1e-6)


# --- searches by a calibration ----------------------------------------------------------------------------------------


def calibrated_index(layout, metric, n=2000, n_queries=1000):
    """Rows round the words of random books, and queries like them, which calibrated it."""
    rng, scale = np.random.default_rng(0), 0.1 if metric == "cosine" else 1.0  # codes are about as long as rows
    size = {"dim": 12, "n_books": 4, "n_words": 32, "n_crude": 3}
    codebooks = random_codebooks(rng, layout, **size, metric=metric, beam=4, scale=scale)
    rows = codebooks.decode(random_codes(rng, codebooks, n + n_queries))
    rows += 0.3 * scale * rng.normal(size=rows.shape).astype(np.float32)
    if metric == "cosine":
        rows /= np.sqrt((rows**2).sum(1, keepdims=True))
    index = index_of(codebooks, encode(codebooks, rows[:n], 1))
    queries = rows[n:]
    index.calibrate(queries, threads=1)
    return index, queries


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_calibrated_search_keeps_its_promise_on_its_own_queries(layout, metric):
    index, queries = calibrated_index(layout, metric)
    for k in KS:
        whole = index.search(queries, k, margin=math.inf, threads=1)
        found = index.search(queries, k, margin=0.99, threads=1)
        assert agreement(found.ids, whole.ids) >= 0.99
        assert found.stats.rule == "calibrated"
        assert found.stats.lookups < whole.stats.lookups
        assert index.search(queries, k, margin=0.999).stats.fallback == (
            "0.999 needs more calibration queries than the 1,000 it has"
        )


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "additive"])
def test_rows_that_equal_words_keep_the_promise_too(layout):
    rng = np.random.default_rng(3)
    codebooks = random_codebooks(rng, layout, dim=4, n_books=3, n_words=8, integers=True)
    index = index_of(codebooks, random_codes(rng, codebooks, 2000))
    queries = codebooks.books[0].words[rng.integers(8, size=600)]
    if layout == "subspace":
        queries = np.pad(queries, ((0, 0), (0, 4 - queries.shape[1])))
    index.calibrate(queries, threads=1)
    for k in KS:
        whole = index.search(queries, k, margin=math.inf, threads=1)
        assert agreement(index.search(queries, k, margin=0.99, threads=1).ids, whole.ids) >= 0.99


@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("layout", ["subspace", "hybrid", "additive"])
def test_a_far_query_is_searched_exactly(layout, metric):
    index, queries = calibrated_index(layout, metric)
    nearest = index.codebooks.bases(queries).min(1)
    if layout == "subspace" and metric == "l2":  # the base has not all dimensions
        nearest = nearest + [tables(index.codebooks, q).minima[0].sum() for q in queries]
    if metric == "ip":  # where length says nothing
        nearest = nearest / np.sqrt((queries**2).sum(1))
    index.calibrate(queries[nearest < np.median(nearest)], threads=1)
    assert index.calibration.reach < np.median(nearest)
    far = queries[nearest > np.median(nearest) + 1e-3]
    assert len(far) > 200
    for k in (1, 10):
        assert index.search(far, k, margin=0.99, threads=1).stats.rule == "calibrated"
        whole = index.search(far, k, margin=math.inf, threads=1)
        found = index.search(far, k, margin=0.99, threads=1)
        assert (found.ids == whole.ids).all()
        assert found.distances.tobytes() == whole.distances.tobytes()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    layout=st.sampled_from(LAYOUTS),
    metric=st.sampled_from(METRICS),
    k=st.sampled_from([1, 3, 40, 200, 500]),
    n=st.sampled_from([1, 10, 200]),
)
def test_k_hits_come_back_whatever_the_rule(seed, layout, metric, k, n):
    """A stop before the first cell, a share of nothing: still k rows, or all there are."""
    rng = np.random.default_rng(seed)
    codebooks = random_codebooks(rng, layout, metric=metric)
    codes = random_codes(rng, codebooks, n)
    index = index_of(codebooks, codes[: n // 3], codes[n // 3 :])
    q = rng.normal(size=(3, codebooks.dim)).astype(np.float32)
    strict = stopping_rule("strict", share=1e-6, weight=16.0, stop=0.0, least=1e-30, reach=1e30)
    rows, distances, counts, work = search_rows(codebooks, index.engine.segments, q, k, strict, 1)
    assert (counts == min(k, n)).all()
    for found, of_row in zip(rows, distances, strict=True):
        assert len(set(found[: min(k, n)].tolist())) == min(k, n)
        assert (np.diff(of_row[: min(k, n)]) >= 0).all()
    if k == 1 and layout != "partial":  # where the first book may be empty, and all cells equally far
        assert (work[:, 0] == 1).all()  # and no cell more than it takes


def test_a_filtered_search_is_exact():
    index, queries = calibrated_index("hybrid", "l2")
    mask = np.random.default_rng(2).random(len(index)) < 0.02
    found = index.search(queries, 10, margin=0.99, filter=mask, threads=1)
    assert found.stats.fallback == "0.99 has no rule for filters"
    exact = index.search(queries, 10, margin=math.inf, filter=mask, threads=1)
    assert (found.ids == exact.ids).all()
    assert index.search(queries, 10, margin=0.99, threads=1).stats.rule == "calibrated"


def test_growth_ends_a_calibration():
    index, queries = calibrated_index("hybrid", "l2")
    index.add(queries[:200], threads=1)
    assert index.search(queries[0], k=1, margin=0.99).stats.rule == "calibrated"
    index.add(queries[:1], threads=1)
    assert index.search(queries[0], k=10, margin=0.99).stats.rule == "calibrated"
    with pytest.warns(CalibrationWarning, match="2,000 rows, there are 2,201"):
        stats = index.search(queries[0], k=1, margin=0.99).stats
    assert stats.fallback == "0.99 was calibrated for 2,000 rows, there are 2,201: call calibrate()"
    index.calibrate(queries, threads=1)
    assert index.search(queries[0], k=1, margin=0.99).stats.rule == "calibrated"


def test_too_few_queries_calibrate_nothing():
    index, queries = calibrated_index("hybrid", "l2")
    before = index.search(queries, margin=0.99, threads=1)
    assert queries_needed(0.99) == 397
    for few in (queries[:0], queries[:10], queries[:396]):
        with pytest.raises(InputError, match=rf"at least 397 .*got {len(few)}"):
            index.calibrate(few)
    after = index.search(queries, margin=0.99, threads=1)
    assert (after.stats.margin, after.ids.tobytes()) == (before.stats.margin, before.ids.tobytes())
    with pytest.warns(CalibrationWarning, match=r"with 397 queries, but .* 0\.999 needs 3,944: .* up to 0\.99 are"):
        index.calibrate(queries[:397], threads=1)
    assert index.search(queries[0], margin=0.99).stats.rule == "calibrated"
    assert index.search(queries[0]).stats.is_exact  # the default margin, as the warning says


def clustered(n, dim, rng, n_clusters=60):
    centres = rng.normal(size=(n_clusters, dim)) * 3
    scales = np.linspace(2.0, 0.2, dim)
    return (centres[rng.integers(n_clusters, size=n)] + rng.normal(size=(n, dim)) * scales).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual"])
@pytest.mark.parametrize("kind", ["clustered", "digits"])
def test_calibrated_agreement_on_queries_never_seen(layout, kind):
    rng = np.random.default_rng(5)
    if kind == "digits":
        datasets = pytest.importorskip("sklearn.datasets")
        images = datasets.load_digits().images.astype(np.float32)
        moved = [
            np.roll(images, (dy, dx), (1, 2)).reshape(len(images), -1) for dy in range(-1, 2) for dx in range(-1, 2)
        ]
        x = np.concatenate(moved)
        x = (x + rng.normal(size=x.shape)).astype(np.float32)[rng.permutation(len(x))]
        x, q = x[:-1000], x[-1000:]
    else:
        x, q = clustered(20_000, 32, rng), None
        q, x = x[:1000], x[1000:]
    index = Index.build(x, n_bytes=8, layout=layout, seed=1, max_train_rows=10_000)
    exhaustive = index.search(q, margin=math.inf)
    assert agreement(index.search(q, margin=0.999).ids, exhaustive.ids) >= 0.999
    assert agreement(index.search(q, margin=0.99).ids, exhaustive.ids) >= 0.99
    for k in (2, 11, 20):
        assert agreement(index.search(q, k, margin=0.999).ids, index.search(q, k, margin=math.inf).ids) >= 0.999
    exact = index.search(q, margin="exact")
    assert (exact.ids == exhaustive.ids).all()
    assert exact.distances.tobytes() == exhaustive.distances.tobytes()


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual"])
def test_queries_from_elsewhere_lose_nothing(layout):
    x = clustered(3000, 24, np.random.default_rng(5))
    index = Index.build(x, n_bytes=6, layout=layout, threads=1)
    rng = np.random.default_rng(6)
    wide = float(np.abs(x).max())
    axis = np.zeros((50, 24), np.float32)
    axis[np.arange(50), np.arange(50) % 24] = 5 * wide  # far in one dimension, which the first book may not have
    for queries in (rng.uniform(-3 * wide, 3 * wide, (50, 24)).astype(np.float32), 5 * x[:50], axis):
        whole = index.search(queries, 10, margin=math.inf, threads=1)
        found = index.search(queries, 10, margin=0.99, threads=1)
        assert_array_equal(found.ids, whole.ids)


def test_many_queries_unlike_the_rows_are_worth_a_warning():
    x = clustered(3000, 24, np.random.default_rng(5))
    index = Index.build(x, n_bytes=6, threads=1)
    far = 5 * x[:100]
    with warnings.catch_warnings():
        warnings.simplefilter("error", il.UnlikeQueriesWarning)
        index.search(np.concatenate([far[:15], x[:85]]), 10, margin=0.99, threads=1)
        index.search(far[:40], 10, margin=0.99, threads=1)  # too few queries to tell
    with pytest.warns(il.UnlikeQueriesWarning, match="100 of 100 queries.*calibrate"):
        index.search(far, 10, margin=0.99, threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", il.UnlikeQueriesWarning)
        index.search(far, 10, margin=0.99, threads=1)  # once for each calibration
        index.calibrate(np.concatenate([5 * x, 5.1 * x]), threads=1)
        assert index.search(far, 10, margin=0.99, threads=1).stats.unlike < 20
