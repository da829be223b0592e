"""The statistics behind calibrated margins: the test of a rule, and promises on data that used to break them."""

from __future__ import annotations

import contextlib
import functools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import METRICS
from interlace import Index
from interlace.codec.metric import metric_of
from interlace.engine.calibrating import CONFIDENCE, calibrate, passes, queries_needed
from interlace.engine.evidence import HELD_OUT_LEAST, HELD_OUT_MOST, Held, Hits, Visits, held_out_rows
from interlace.engine.margins import KS, TARGETS, Covered, excess, gaps
from interlace.errors import CalibrationWarning
from interlace.reference import spread_of

# --- the test of a rule -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("allowed", [0.01, 0.001])
@pytest.mark.parametrize("parts", [1, 10])  # a query loses all its hits, or some of them
def test_rules_that_lose_too_much_pass_with_a_probability_of_one_in_twenty_at_most(allowed, parts):
    rng = np.random.default_rng(0)
    n, runs = 4000, 1000
    rate = 1.05 * allowed * parts if parts > 1 else 1.05 * allowed  # queries with a loss of 1 / parts
    passed = sum(passes([(rng.random(n) < rate) / parts], allowed, CONFIDENCE) for _ in range(runs))
    assert passed <= 1.5 * (1 - CONFIDENCE) * runs  # 50 expected at most, four standard deviations are 28


@pytest.mark.parametrize("allowed", [0.01, 0.001])
def test_rules_that_lose_little_pass(allowed):
    rng = np.random.default_rng(1)
    passed = sum(passes([(rng.random(8000) < allowed) / 10], allowed, CONFIDENCE) for _ in range(200))
    assert passed >= 150  # a tenth of what is allowed


def test_more_queries_pass_bolder_rules():
    """Why more rows calibrate large indexes: with the fewest, rules use little of what the default margin allows."""

    def most_lost(n):  # hits of ten for each query, of which single ones are lost
        losses = np.zeros(int(0.8 * n))
        return (
            next(lost for lost in range(n) if not passes([_lost(losses, lost)], 0.001, CONFIDENCE)) / len(losses) / 10
        )

    assert most_lost(HELD_OUT_LEAST) < 0.0003
    assert most_lost(HELD_OUT_MOST) > 0.0005


def _lost(losses, n):
    found = losses.copy()
    found[:n] = 0.1
    return found


def test_one_of_so_many_rows_calibrates():
    counts = [held_out_rows(n) for n in (0, 100_000, 125_000, 200_000, 300_000, 10_000_000)]
    assert counts == [5000, 5000, 5000, 8000, 12_000, 12_000]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(TARGETS), st.integers(0, 2**32), st.floats(0, 0.01), st.integers(1, 400))
def test_more_loss_never_passes_where_less_fails(target, seed, rate, n):
    rng = np.random.default_rng(seed)
    less = (rng.random(50 * n) < rate).astype(float) / 4
    more = np.minimum(1, less + (rng.random(50 * n) < rate))
    if passes([more], 1 - target, CONFIDENCE):
        assert passes([less], 1 - target, CONFIDENCE)
        assert passes([less, more], 1 - target, CONFIDENCE)


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_needs_so_many_queries(target):
    tested = math.ceil(queries_needed(target) * 0.8)
    assert passes([np.zeros(tested)], 1 - target, CONFIDENCE)
    assert not passes([np.zeros(math.floor(tested * 0.99) - 1)], 1 - target, CONFIDENCE)
    assert not passes([np.zeros(0)], 1 - target, CONFIDENCE)


# --- rules from queries whose answers are known -----------------------------------------------------------------------


def held_of(rng, n, depth=100, n_cells=40):
    """Hits in cells of geometric ranks, which need shares of any size."""
    bases = np.sort(1 + rng.random((n, n_cells)) * rng.choice([0.1, 2.0], (n, 1)), axis=1).astype(np.float32)
    ranks = np.sort(np.minimum(rng.geometric(0.3, (n, depth)) - 1, n_cells - 1), axis=1)
    distances = np.sort(1.2 + rng.random((n, depth)), axis=1).astype(np.float32)
    excess, of_hits = (0.9 * rng.random((n, depth))).astype(np.float32), np.take_along_axis(bases, ranks, axis=1)
    hits = Hits(distances, excess, np.ones((n, depth), np.float32), of_hits, ranks)
    spread = bases.mean(1) - bases[:, 0]
    visits = Visits(bases[:400], np.ones((min(n, 400), n_cells), np.float32))
    return Held((hits,), bases[:, 0], spread, np.ones(n), np.ones(n), np.zeros(n), np.zeros(n), visits, np.ones(n))


def lost(made, i, j, held):
    """The loss of each query, straight from the definition of a rule."""
    k, hits = KS[i], held.answers[0]
    tau = hits.distances[:, k - 1 : k].astype(float)
    unlike = (held.nearest > made.reach) | (tau[:, 0] > made.farthest[i])
    bases, ranks = hits.bases[:, :k], hits.ranks[:, :k]
    gap = gaps(bases, held.nearest, held.spread, metric_of("l2"), made.least)
    near = gap <= spread_of(*made.cells[i, j].tolist(), int(ranks.max()) + 1)[ranks]
    beyond = excess(bases, tau, held.rests[:, None], held.spans[:, None]) > made.slacks[i, j]
    visited = near | ~beyond
    strays = (visited & beyond).mean(1)
    unlike |= strays > made.strays[i, j]
    kept = hits.crude_excess[:, :k] <= made.shares[i, j] * (tau - hits.floors[:, :k])
    outside = hits.crude_excess[:, :k] > tau - hits.floors[:, :k]  # no exact search would have found these
    return np.where(unlike, 0.0, 1 - (visited & (kept | outside)).mean(1))


def test_rules_keep_their_targets_on_queries_they_have_not_seen_and_use_what_they_may_lose():
    rng = np.random.default_rng(3)
    made = calibrate([held_of(rng, 8000)], 123, metric_of("l2"))
    fresh = held_of(rng, 20_000)
    assert (made.n, made.queries) == (123, 8000)
    assert np.isnan(made.shares[:, -1]).all()  # 0.9999 needs 39,420 queries
    supported = range(len(TARGETS) - 1)
    for i in range(len(KS)):
        for j in supported:
            loss = lost(made, i, j, fresh)
            assert loss.mean() <= 1 - TARGETS[j]
            if i == 2:
                assert loss.mean() >= 0.1 * (1 - TARGETS[j])
        assert made.cells[i, 2, 1] <= made.cells[i, 3, 1]
    assert (np.diff(made.cells[:, supported, 1], axis=0) >= 0).all()  # a larger k visits no fewer cells
    assert (made.cells[:, supported, 0] == made.cells[:1, supported, 0]).all()


def test_a_smaller_k_is_supported_wherever_a_larger_one_is():
    for n in (10, 380, 400, 3800, 5000):
        made = calibrate([held_of(np.random.default_rng(n), n)], 1000, metric_of("l2"))
        for target in TARGETS[:-1]:
            found = [isinstance(made.rule(k, target, 1000), Covered) for k in (1, 2, 5, 10, 50, 100)]
            assert found == [n >= queries_needed(target)] * 6


def test_queries_with_fewer_hits_than_k_do_not_count():
    held = held_of(np.random.default_rng(4), 1000)
    held.answers[0].distances[:700, 5:] = np.inf
    made = calibrate([held], 1000, metric_of("l2"))
    assert not np.isnan(made.shares[0, 0])
    assert np.isnan(made.shares[1:, 0]).all()  # 300 queries are left


def test_one_extreme_query_does_not_set_the_rule():
    held = held_of(np.random.default_rng(5), 8000)
    usual = calibrate([held], 1000, metric_of("l2"))
    held.nearest[17] *= 100
    held.answers[0].bases[17] *= 100
    held.answers[0].distances[17] *= 100
    extreme = calibrate([held], 1000, metric_of("l2"))
    assert extreme.reach < 2 * usual.reach
    assert (extreme.farthest < 2 * usual.farthest).all()


def test_without_confidence_few_queries_give_an_estimate():
    made = calibrate([held_of(np.random.default_rng(6), 150)], 1000, metric_of("l2"), confidence=0.0)
    assert np.isfinite(made.shares[:, 0]).all()


# --- promises on data that broke them ---------------------------------------------------------------------------------

TARGET = 0.99
N, DIM = 12_000, 16


def clusters(n, seed, spread=1.0):
    centres = np.random.default_rng(0).normal(size=(60, DIM)) * 3
    rng = np.random.default_rng(seed)
    return (centres[rng.integers(60, size=n)] + spread * rng.normal(size=(n, DIM))).astype(np.float32)


DATA = {
    "clusters": lambda: clusters(N, 1),
    "twice": lambda: np.concatenate([clusters(N // 2, 1)] * 2),
    "copies": lambda: np.repeat(clusters(N // 12, 1), 12, axis=0),
    "normal": lambda: np.random.default_rng(1).normal(size=(N, DIM)).astype(np.float32),
}


@functools.cache
def built(kind, layout, metric="l2"):
    return Index.build(DATA[kind](), n_bytes=4, layout=layout, metric=metric, max_train_rows=4000, iterations=1)


def loss_of(index, queries, k, margin=TARGET):
    found = index.search(queries, k, margin=margin)
    true = index.search(queries, k, margin="exact")
    same = [len(np.intersect1d(a, b)) for a, b in zip(found.ids, true.ids, strict=True)]
    return 1 - np.array(same) / k, found.stats


def kept(loss, target):
    """Whether the mean loss is at most what is allowed, or within its 95 % interval."""
    return loss.mean() - 1.96 * loss.std() / math.sqrt(len(loss)) <= 1 - target


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual"])
@pytest.mark.parametrize("kind", [*DATA])
def test_fresh_queries_keep_the_promise(kind, layout):
    index = built(kind, layout)
    queries = clusters(1500, 2) if kind != "normal" else np.random.default_rng(2).normal(size=(1500, DIM))
    for k in KS:
        loss, stats = loss_of(index, queries, k)
        assert kept(loss, TARGET), (k, loss.mean(), stats)
        # Copies leave few vectors to learn from: they are nearer to their words than any other vector.
        assert stats.unlike < (0.5 if kind == "copies" else 0.1) * len(queries)
        if kind == "clusters":
            assert stats.rule == "calibrated"


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual"])
@pytest.mark.parametrize("kind", ["between", "wide", "elsewhere", "shrunk", "rows"])
def test_queries_of_another_kind_keep_the_promise(kind, layout):
    index = built("clusters", layout)
    queries = {
        "between": lambda: (clusters(800, 3) + clusters(800, 4)) / 2,
        "wide": lambda: clusters(800, 3, spread=2.0),
        "elsewhere": lambda: np.random.default_rng(3).normal(size=(800, DIM)) * 3,
        "shrunk": lambda: clusters(800, 5) / 2,
        "rows": lambda: DATA["clusters"]()[:800],
    }[kind]()
    for k in KS:
        loss, stats = loss_of(index, queries.astype(np.float32), k)
        assert kept(loss, TARGET), (k, loss.mean(), stats)


@pytest.mark.parametrize("metric", METRICS[1:])
@pytest.mark.parametrize("layout", ["subspace", "residual"])
def test_other_metrics_keep_the_promise(metric, layout):
    index = built("clusters", layout, metric)
    rng = np.random.default_rng(4)
    foreign = 3 * rng.normal(size=(600, DIM)).astype(np.float32)
    between = (clusters(600, 3) + clusters(600, 4)) / 2
    for queries in (clusters(600, 2), 10 * clusters(600, 3), foreign, between):
        for k in KS:
            loss, stats = loss_of(index, queries, k)
            assert kept(loss, TARGET), (k, loss.mean(), stats)


@pytest.mark.parametrize("metric", METRICS)
def test_the_excess_over_tau_does_not_depend_on_the_scale(metric):
    """Twice the data and twice the queries: the same rules in units of the query."""
    rng = np.random.default_rng(6)
    x, q = rng.normal(size=(900, 8)).astype(np.float32), rng.normal(size=(50, 8)).astype(np.float32)
    found = []
    for scale in (1, 2):
        codebooks = Index.build(x * scale, n_bytes=3, layout="subspace", metric=metric, n_words=16).codebooks
        found.append(codebooks.spans(q * scale))
    if metric == "cosine":  # raw queries, and books that do not change with the scale
        np.testing.assert_allclose(found[0], codebooks.spans(q), rtol=1e-3)
        return
    ratio = 4
    np.testing.assert_allclose(found[1], ratio * found[0], rtol=1e-3)


@pytest.mark.parametrize("share", [0.6, 0.05])
def test_a_store_that_shrinks_keeps_the_promise_or_says_that_it_is_exact(tmp_path, share):
    index = built("clusters", "residual")
    with index.to_store(tmp_path / "store") as store:
        store.remove(np.random.default_rng(0).permutation(N)[int(share * N) :])
        for compacted in (False, True):
            if compacted:
                store.compact()
            for k in KS:
                stale = k == (10 if share == 0.05 else 100) and not compacted  # it warns once
                with pytest.warns(CalibrationWarning, match="12,000") if stale else contextlib.nullcontext():
                    loss, stats = loss_of(store, clusters(600, 2), k)
                assert kept(loss, TARGET), (share, compacted, k, loss.mean(), stats)
                exact = k > (1 if share == 0.05 else 10)
                assert stats.rule == ("exact" if exact else "calibrated")
        assert store.health().calibrated == (share == 0.6)


def test_copies_among_the_rows_do_not_cost_the_default_margin():
    """Rows of one code count as one query, so a few more calibrate than the default margin needs."""
    x = np.random.default_rng(4).normal(size=(6000, 16)).astype(np.float32)
    x[:200] = x[200:400]
    index = Index.build(x, n_bytes=6, layout="subspace", effort="fastest", iterations=2)
    assert index.search(x[:5] + 0.01).stats.rule == "calibrated"


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_one_code_do_not_break_the_promise_by_inner_product(seed):
    """Half of the added rows have one code. As one query among many they said nothing of fresh queries near them."""
    rng = np.random.default_rng(seed)

    def rows(n):
        return (rng.normal(size=(n, 16)) * 10 ** rng.uniform(-2, 2, (n, 1))).astype(np.float32)

    x = rows(5000)
    shift = np.float32(2 * x.std())
    few = {"n_bytes": 8, "layout": "subspace", "n_words": 64, "effort": "fastest", "iterations": 1, "threads": 1}
    index = Index.build(x, metric="ip", **few)
    index.add(rows(3000) + shift, threads=1)
    queries = rows(1500) + shift
    exact = index.search(queries, margin="exact").ids
    for target in (0.9, 0.95, 0.99):
        found = index.search(queries, margin=target).ids
        agreement = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, exact, strict=True)])
        assert agreement >= target - 0.01
