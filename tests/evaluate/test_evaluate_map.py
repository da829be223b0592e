"""Rankings judged by labels: plain loops, scikit-learn, and what must hold for any ranking."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import interlace as il
from interlace import _native, evaluate
from interlace.evaluate import ranking
from raising import raises

SEEDS = st.integers(0, 2**32 - 1)


def plain_ap(relevant, denominator):
    hits, total = 0, 0.0
    for i, r in enumerate(relevant, 1):
        if r:
            hits += 1
            total += hits / i
    return total / denominator if denominator else 0.0


def plain_map(queries, database, query_labels, database_labels, r, denominator):
    scores = []
    for q, label in zip(queries.astype(float), query_labels, strict=True):
        distances = [sum((a - b) ** 2 for a, b in zip(q, x, strict=True)) for x in database.astype(float)]
        order = sorted(range(len(distances)), key=lambda i: (distances[i], i))[:r]
        relevant = [database_labels[i] == label for i in order]
        n = sum(v == label for v in database_labels)
        scores.append(plain_ap(relevant, {"found": sum(relevant), "all": n, "possible": min(n, r)}[denominator]))
    return math.fsum(scores) / len(scores)


def case(seed, n=25, q=6, dim=3, classes=4, *, grid=False):
    """Vectors and labels; on a grid most distances have ties, and are exact."""
    rng = np.random.default_rng(seed)
    draw = (lambda *s: rng.integers(0, 3, s).astype(np.float32)) if grid else lambda *s: rng.normal(size=s)
    return draw(q, dim), draw(n, dim), rng.integers(0, classes, q), rng.integers(0, classes, n)


@given(seed=SEEDS, q=st.integers(1, 5), r=st.integers(1, 12), extra=st.integers(0, 5))
@settings(max_examples=80, deadline=None)
def test_average_precision_equals_the_plain_loop(seed, q, r, extra):
    relevant = np.random.default_rng(seed).random((q, r)) < 0.4
    found = relevant.sum(1)
    assert_allclose(evaluate.average_precision(relevant), [plain_ap(v, v.sum()) for v in relevant])
    assert_allclose(
        evaluate.average_precision(relevant, found + extra), [plain_ap(v, v.sum() + extra) for v in relevant]
    )
    assert_allclose(evaluate.average_precision(relevant, r), [plain_ap(v, r) for v in relevant])


def test_average_precision_by_hand():
    relevant = np.array([[True, False, True, False], [False, False, False, False], [False, True, True, True]])
    expected = [(1 + 2 / 3) / 2, 0, (1 / 2 + 2 / 3 + 3 / 4) / 3]
    assert_allclose(evaluate.average_precision(relevant), expected)
    assert_allclose(evaluate.average_precision(relevant, [5, 0, 3]), [(1 + 2 / 3) / 5, 0, expected[2]])


@given(seed=SEEDS)
@settings(max_examples=30, deadline=None)
def test_scikit_learn_agrees_where_there_are_no_ties(seed):
    metrics = pytest.importorskip("sklearn.metrics")
    queries, x, own, theirs = case(seed, n=40, classes=2)
    own[:], theirs[0] = 1, 1
    scores = [
        metrics.average_precision_score(theirs == 1, -((x.astype(np.float32) - q.astype(np.float32)) ** 2).sum(1))
        for q in queries
    ]
    assert evaluate.map_of_ranking(queries, x, own, theirs)["map"] == pytest.approx(np.mean(scores))


@given(
    seed=SEEDS,
    n=st.integers(1, 30),
    q=st.integers(1, 5),
    r=st.integers(1, 40),
    denominator=st.sampled_from(ranking.DENOMINATORS),
    grid=st.booleans(),
    block=st.integers(1, 100),
)
@settings(max_examples=100, deadline=None)
def test_map_of_ranking_equals_the_plain_loop(seed, n, q, r, denominator, grid, block):
    queries, x, own, theirs = case(seed, n, q, grid=grid)
    queries, x = queries.astype(np.float32), x.astype(np.float32)
    assume(np.isin(own, theirs).any())  # an error of its own
    saved = ranking.BLOCK_VALUES, ranking.BLOCK_ROWS
    try:
        ranking.BLOCK_VALUES, ranking.BLOCK_ROWS = block, 7
        found = evaluate.map_of_ranking(queries, x, own, theirs, at=[r, 1], denominator=denominator)
    finally:
        ranking.BLOCK_VALUES, ranking.BLOCK_ROWS = saved
    assert list(found) == list(dict.fromkeys(["map", f"map@{r}", "map@1"]))
    assert found["map"] == pytest.approx(plain_map(queries, x, own, theirs, n, "all"))
    assert found[f"map@{r}"] == pytest.approx(plain_map(queries, x, own, theirs, r, denominator))


@given(seed=SEEDS, grid=st.booleans(), block=st.integers(1, 9), text=st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_lists_of_rank_all_give_the_same_map(seed, grid, block, text):
    queries, x, own, theirs = case(seed, grid=grid)
    if text:
        own, theirs = np.char.mod("class %d", own), np.array([f"class {v}" for v in theirs], object)
    parts = list(evaluate.rank_all(queries, x, block))
    order = np.concatenate([rows for _, rows in parts])
    assert [i for part, _ in parts for i in range(part.start, part.stop)] == list(range(len(queries)))
    distances = ((queries.astype(np.float32)[:, None].astype(float) - x.astype(np.float32)) ** 2).sum(2)
    assert_array_equal(order, np.argsort(distances.astype(np.float32), axis=1, kind="stable"))
    ranked = theirs[order]
    counts = np.array([(theirs == label).sum() for label in own])
    found = evaluate.map_of_ranking(queries, x, own, theirs, at=7)
    assert found["map"] == pytest.approx(evaluate.mean_average_precision(ranked, own, counts))
    assert found["map"] == pytest.approx(evaluate.mean_average_precision(ranked, own))  # everything is found
    assert found["map@7"] == pytest.approx(evaluate.mean_average_precision(ranked[:, :7], own))
    hits = [[label == v for v in row[:7]] for label, row in zip(own, ranked, strict=True)]
    assert evaluate.precision_at(ranked, own, 7) == pytest.approx(np.mean(hits))


@given(seed=SEEDS, r=st.integers(1, 25))
@settings(max_examples=60, deadline=None)
def test_what_holds_for_any_ranking(seed, r):
    queries, x, own, theirs = case(seed)
    by = {d: evaluate.map_of_ranking(queries, x, own, theirs, at=(r, 25), denominator=d) for d in ranking.DENOMINATORS}
    for found in by.values():
        assert all(0 <= value <= 1 for value in found.values())
        assert found["map@25"] == pytest.approx(found["map"])  # the whole database
    key = f"map@{r}"
    assert by["all"][key] <= by["possible"][key] + 1e-12
    assert by["possible"][key] <= by["found"][key] + 1e-12
    assert by["all"][key] <= by["all"]["map"] + 1e-12  # a longer list only adds
    names = np.random.default_rng(seed).permutation(4) - 2  # labels are names: only equality counts
    assert evaluate.map_of_ranking(queries, x, names[own], names[theirs], at=r)["map"] == by["found"]["map"]


@given(seed=SEEDS)
@settings(max_examples=40, deadline=None)
def test_a_perfect_ranking_is_1_and_rows_of_one_class_may_change_places(seed):
    rng = np.random.default_rng(seed)
    own, theirs = rng.integers(0, 3, 5), np.concatenate([[0, 1, 2], rng.integers(0, 3, 20)])
    corners = np.eye(3) * 10
    queries, x = corners[own], corners[theirs] + rng.normal(size=(23, 3)) * 0.1
    assert evaluate.map_of_ranking(queries, x, own, theirs, at=4) == {"map": 1.0, "map@4": 1.0}
    ranked = rng.integers(0, 3, (5, 12))
    permuted = ranked.copy()
    for row, label in zip(permuted, own, strict=True):
        others = np.flatnonzero(row != label)  # which of the others stands where is no matter
        row[others] = rng.permutation(row[others])
    assert evaluate.mean_average_precision(permuted, own) == evaluate.mean_average_precision(ranked, own)


def test_a_hit_that_moves_up_raises_the_score():
    lists = [[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    scores = [evaluate.mean_average_precision([row], [1]) for row in lists]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 4


def test_equal_rows_tie_whatever_block_they_are_in():
    rng = np.random.default_rng(0)
    words = (rng.normal(size=(5, 24)) * 30 + 100).astype(np.float32)
    codes = rng.integers(0, 5, 3000)
    order = next(iter(evaluate.rank_all(words[:2] + 0.3, words[codes])))[1]
    for row in order:
        runs = codes[row]
        assert (np.diff(runs) != 0).sum() == 4  # words stand together
        assert all((np.diff(row[runs == word]) > 0).all() for word in range(5))  # in the order of rows


def test_queries_of_a_class_that_is_not_there_score_0():
    found = evaluate.map_of_ranking(np.zeros((2, 2)), np.ones((3, 2)), [1, 9], [1, 1, 1], at=2, denominator="all")
    assert found == {"map": 0.5, "map@2": pytest.approx(1 / 3)}
    with raises(il.InputError, "query_labels", "'z'", "database_labels", "'a'", "'b'"):  # labels of two worlds
        evaluate.map_of_ranking(np.zeros((1, 2)), np.ones((3, 2)), ["z"], ["a", "b", "b"])
    assert ranking.scores_of_ranking(np.zeros((1, 2)), np.ones((3, 2)), ["z"], ["a", "b", "b"]) == {"map": 0.0}


def test_memory_is_bounded_while_the_database_grows():
    rng = np.random.default_rng(0)
    queries, x = (rng.normal(size=(n, 8)).astype(np.float32) for n in (400, 20_000))
    tracemalloc.start()
    try:
        evaluate.map_of_ranking(queries, x, np.arange(400) % 10, np.arange(20_000) % 10, at=100)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 150e6  # all keys at once would be 64 MB for every 400 queries: 1.6 GB at 10,000
    saved = ranking.BLOCK_VALUES
    tracemalloc.start()
    try:
        ranking.BLOCK_VALUES = 1 << 18
        evaluate.map_of_ranking(queries, x, np.arange(400) % 10, np.arange(20_000) % 10, at=100)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        ranking.BLOCK_VALUES = saved
        tracemalloc.stop()
    assert peak < 20e6


ONE = np.ones((1, 2))


@pytest.mark.parametrize(
    ("call", "facts"),
    [
        (lambda: evaluate.average_precision([[1, 0]]), ("relevant", "[queries, R]")),
        (lambda: evaluate.average_precision([True]), ("relevant", "bool")),
        (lambda: evaluate.average_precision([[True, True]], [1]), ("query 0", 2, "n_relevant", 1)),
        (lambda: evaluate.average_precision([[True]], [1, 1]), ("n_relevant", "counts")),
        (lambda: evaluate.average_precision([[True]], 1.0), ("n_relevant", "counts")),
        (lambda: evaluate.mean_average_precision([[1]], [1], denominator="all"), ("'all'", "n_relevant")),
        (lambda: evaluate.mean_average_precision([[1]], [1], denominator="some"), ("found", "all", "possible")),
        (lambda: evaluate.mean_average_precision([[1]], [1, 2]), ("ranked_labels", 1, 2)),
        (lambda: evaluate.mean_average_precision([1], [1]), ("ranked_labels", "[queries, R]")),
        (lambda: evaluate.mean_average_precision([[1.5]], [1]), ("integers", "strings")),
        (lambda: evaluate.mean_average_precision([["1"]], [1]), ("strings", "integers")),
        (lambda: evaluate.mean_average_precision([["a", None]], ["a"]), ("integers", "strings")),
        (lambda: evaluate.mean_average_precision(np.empty((1, 0), int), [1]), ("holds no rows",)),
        (lambda: evaluate.mean_average_precision(np.empty((0, 3), int), np.empty(0, int)), ("holds no rows",)),
        (lambda: evaluate.precision_at([[1, 2]], [1], 3), (3,)),
        (lambda: evaluate.precision_at([[1, 2]], [1], 0), ("k", "integer")),
        (lambda: evaluate.map_of_ranking(ONE, np.ones((1, 3)), [1], [1]), (2, 3)),
        (lambda: evaluate.map_of_ranking(ONE, ONE[:0], [1], []), ("database", "rows")),
        (lambda: evaluate.map_of_ranking(ONE, ONE, [1, 2], [1]), ("query_labels", 2, 1)),
        (lambda: evaluate.map_of_ranking(ONE, ONE, [1], ["a"]), ("strings", "integers")),
        (lambda: evaluate.map_of_ranking(ONE, ONE, [1], [1], at=0), ("at must be a positive integer",)),
        (lambda: evaluate.map_of_ranking(ONE, ONE, [1], [1], at=[1, 2.5]), ("at must be a positive integer",)),
        (lambda: evaluate.map_of_ranking(ONE, ONE, [1], [1], denominator="x"), ("denominator",)),
        (lambda: evaluate.map_of_ranking(ONE * np.nan, ONE, [1], [1]), ("queries[0, 0]", "nan")),
        (lambda: next(evaluate.rank_all(ONE, ONE, 0)), ("block must be a positive integer",)),
    ],
)
def test_bad_input_is_named(call, facts):
    with raises(il.InputError, *facts):
        call()


@given(seed=SEEDS, n=st.integers(1, 300), ties=st.booleans(), exponent=st.integers(-60, 60))
@settings(max_examples=60, deadline=None)
def test_sums_of_precision_are_those_of_a_stable_sort(seed, n, ties, exponent):
    rng = np.random.default_rng(seed)
    distances = rng.exponential(size=(3, n)) * 10.0 ** rng.integers(-3, 4, n)
    distances = (np.round(distances) if ties else distances * 2.0**exponent).astype(np.float32)
    wanted, labels = rng.integers(-1, 3, 3).astype(np.int32), rng.integers(0, 3, n).astype(np.int32)
    lengths = np.unique([n, *rng.integers(1, n + 1, 2)])
    sums, found = np.empty((len(lengths), 3)), np.empty((len(lengths), 3), np.int64)
    _native.precision_sums(distances, wanted, labels, lengths, sums, found)
    hits = labels[np.argsort(distances, axis=1, kind="stable")] == wanted[:, None]
    assert_array_equal(sums, ranking._precision_sums(hits, list(lengths)))  # to the last bit
    assert_array_equal(found, [hits[:, :length].sum(1) for length in lengths])


def test_the_native_ranking_refuses_what_does_not_fit():
    distances, labels = np.zeros((2, 5), np.float32), np.zeros(5, np.int32)
    outputs = np.empty((1, 2)), np.empty((1, 2), np.int64)
    for lengths in ([6], [-1], [5, 3]):
        made = tuple(np.resize(output, (len(lengths), 2)) for output in outputs)
        with pytest.raises(ValueError, match="lengths must ascend"):
            _native.precision_sums(distances, labels[:2], labels, np.array(lengths), *made)
    with pytest.raises(ValueError, match="do not fit"):
        _native.precision_sums(distances, labels[:2], labels[:4], np.array([5]), *outputs)
    with pytest.raises(ValueError, match="do not fit"):
        _native.squared_distances(np.zeros((2, 3)), np.zeros(2), np.zeros(3), 3, distances)
