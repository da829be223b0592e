"""What a search returns: shapes, padding, scores in the metric's own sense, and what it cost."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import interlace as il
from helpers import METRICS, build, clustered, hand_made, small_index

Q = clustered(3, 4, seed=2)


def test_matches_unpack_into_ids_and_distances() -> None:
    matches = small_index().search(Q, 4)
    ids, distances = matches
    assert ids is matches.ids
    assert distances is matches.distances
    assert len(matches) == 3
    assert ids.shape == distances.shape == (3, 4)
    assert (ids.dtype, distances.dtype) == (np.int64, np.float32)
    assert matches.counts.tolist() == [4, 4, 4]


def test_one_query_gives_one_row() -> None:
    index = small_index()
    many, one = index.search(Q, 4, threads=1), index.search(Q[1], 4, threads=1)
    assert one.ids.shape == one.distances.shape == one.scores.shape == (4,)
    assert one.counts == 4
    assert isinstance(one.counts, int)
    np.testing.assert_array_equal(one.ids, many.ids[1])
    np.testing.assert_array_equal(one.distances, many.distances[1])
    assert one.stats.queries == 1


def test_matches_cannot_be_reassigned() -> None:
    matches = small_index().search(Q, 4)
    for thing, name in ((matches, "ids"), (matches.stats, "scanned")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, None)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("made", ["hand", "learned"])
def test_scores_are_the_metric_of_query_and_code(metric: str, made: str) -> None:
    index = small_index(metric=metric) if made == "hand" else build(dim=4, metric=metric)
    matches = index.search(Q, 6, margin="exact", threads=1)
    q = Q.astype(np.float64)
    q = q / np.linalg.norm(q, axis=1)[:, None] if metric == "cosine" else q
    for row in range(3):
        codes = index.reconstruct(matches.ids[row]).astype(np.float64)
        squares = ((codes - q[row]) ** 2).sum(1)
        expected = {
            "l2": squares,
            "ip": codes @ q[row],
            "cosine": codes @ q[row] - ((codes**2).sum(1) - 1) / (2 * index.codebooks.metric_type.query_length),
        }[metric]
        np.testing.assert_allclose(matches.scores[row], expected, rtol=1e-4, atol=1e-5)
    steps = np.diff(matches.distances, axis=1)
    assert (steps >= 0).all()
    assert (np.diff(matches.scores, axis=1) * (1 if metric == "l2" else -1) >= 0).all()
    assert matches.scores.dtype == np.float32


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("ids", ["default", "int64", "string"])
def test_padding(metric: str, ids: str) -> None:
    matches = small_index(metric=metric, ids=ids, n=2).search(Q, 5)
    assert matches.counts.tolist() == [2, 2, 2]
    assert matches.ids[:, 2:].tolist() == [[None if ids == "string" else -1] * 3] * 3
    assert (matches.distances[:, 2:] == np.inf).all()
    assert (matches.scores[:, 2:] == (np.inf if metric == "l2" else -np.inf)).all()
    assert np.isfinite(matches.distances[:, :2]).all()


def test_stats_of_an_exhaustive_scan_count_every_row_and_column() -> None:
    index = small_index(n=50)
    stats = index.search(Q, 5, margin=float("inf"), threads=1).stats
    assert (stats.queries, stats.rows, stats.threads, stats.margin) == (3, 50, 1, "inf")
    assert stats.scanned == stats.survivors == 150
    assert stats.lookups == stats.cells + 150 * 2  # one per visited cell, both stored columns of every row
    assert stats.ops_per_vector == stats.lookups / 150
    assert stats.simd == il.simd_level()
    assert stats.seconds > 0


def test_stats_of_a_two_step_search_stay_within_the_scan() -> None:
    index = build(400, 6)
    stats = index.search(clustered(20, 6, seed=9), 5, margin="exact", threads=1).stats
    assert 0 < stats.survivors <= stats.scanned < 20 * 400
    assert stats.lookups < 4 * 20 * 400
    assert str(stats).startswith("20 queries x 400 rows, margin exact: scanned ")
    assert str(stats).endswith(f"ms ({il.simd_level()}, 1 thread)")


@pytest.mark.parametrize(
    ("margin", "options", "expected"),
    [
        ("exact", {}, ("exact", None, "exact")),
        (float("inf"), {}, ("exhaustive", None, "inf")),
        (0.5, {}, ("exact", "0.5 not calibrated", "exact (0.5 not calibrated)")),
        (0.99, {"filter": [0, 1]}, ("exact", "0.99 has no rule for filters", "exact (0.99 has no rule for filters)")),
    ],
)
def test_stats_say_which_rule_ran_and_why(margin: Any, options: dict[str, Any], expected: tuple[Any, ...]) -> None:
    index = small_index(n=50)
    for q in (Q, Q[0]):
        stats = index.search(q, 5, margin=margin, threads=1, **options).stats
        assert (stats.rule, stats.fallback, stats.margin) == expected
        assert stats.is_exact
    paper = index.search(Q, 5, margin="paper", threads=1).stats
    assert (paper.rule, paper.fallback, paper.is_exact) == ("paper", None, False)


def test_a_sum_of_stats_names_the_rule_that_may_lose_hits_and_the_fallback() -> None:
    exact = small_index(n=50).search(Q, 5, margin=0.99, threads=1).stats
    assert (exact.rule, exact.fallback) == ("exact", "0.99 not calibrated")
    calibrated = dataclasses.replace(exact, rule="calibrated", fallback=None)
    for parts in ([exact, calibrated], [calibrated, exact]):
        both = il.SearchStats.summed(parts)
        assert (both.rule, both.fallback, both.is_exact) == ("calibrated", "0.99 not calibrated", False)
    assert il.SearchStats.summed([exact, exact]).rule == "exact"


@given(st.lists(st.tuples(st.sampled_from([None, "a", "b"]), st.none() | st.floats(0, 1)), min_size=1))
def test_a_sum_of_stats_names_each_choice_once_and_promises_the_least(parts: list[Any]) -> None:
    one = small_index(n=50).search(Q, 5, margin="exact", threads=1).stats
    summed = il.SearchStats.summed([dataclasses.replace(one, chosen=c, expected_recall=r) for c, r in parts])
    chosen, recalls = [c for c, _ in parts if c], [r for _, r in parts]
    assert set((summed.chosen or "").split(" / ")) - {""} == set(chosen)
    assert len(summed.chosen or "") == max(0, 4 * len(set(chosen)) - 3)
    assert summed.expected_recall == (None if None in recalls else min(recalls))


def test_an_empty_index_costs_nothing() -> None:
    stats = il.Index(hand_made()).search(Q, 5).stats
    assert (stats.rows, stats.scanned, stats.survivors) == (0, 0, 0)
    assert stats.ops_per_vector == stats.lookups
    assert "3 queries x 0 rows" in str(stats)
