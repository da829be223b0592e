"""Each metric against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from interlace.codec.metric import COSINE_BY_PRODUCTS, METRICS, cosine, metric_in, metric_of
from interlace.errors import InputError
from raising import raises

RNG = np.random.default_rng(0)
QUERIES, ROWS = RNG.normal(size=(5, 3)).astype(np.float32), RNG.normal(size=(7, 3)).astype(np.float32)


def plain(name: str, q: np.ndarray, x: np.ndarray) -> float:
    """The distance of two vectors, by its definition."""
    product = sum(float(a) * float(b) for a, b in zip(q, x, strict=True))
    if name == "l2":
        return sum((float(a) - float(b)) ** 2 for a, b in zip(q, x, strict=True))
    if name == "ip":
        return -product
    return 1 - product / math.sqrt(sum(float(a) ** 2 for a in q) * sum(float(b) ** 2 for b in x))


@pytest.mark.parametrize("name", METRICS)
def test_distances_are_those_of_the_definition(name: str) -> None:
    metric = METRICS[name]
    queries, rows = (metric.prepare(x, name="x").astype(np.float64) for x in (QUERIES, ROWS))
    expected = np.array([[plain(name, q, x) for x in ROWS] for q in QUERIES])
    np.testing.assert_allclose(metric.distances(queries, rows), expected, rtol=1e-6, atol=1e-6)
    squares = (rows**2).sum(1) if metric.is_squared else None
    np.testing.assert_allclose(metric.distances(queries, rows, squares), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(metric.pair_distances(queries[:, None], rows[None]), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(metric.pair_distances(queries[0], rows), expected[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", METRICS)
def test_scores_are_products_and_cosines(name: str) -> None:
    metric = METRICS[name]
    q, x = (metric.prepare(x, name="x") for x in (QUERIES, ROWS))
    distances = metric.distances(q, x).astype(np.float32)
    np.testing.assert_allclose(metric.scores(distances), distances if name == "l2" else q @ x.T, rtol=1e-5, atol=1e-6)


def test_distances_of_equal_vectors_are_never_negative() -> None:
    x = RNG.normal(size=(50, 40)).astype(np.float32) * 100
    assert METRICS["l2"].distances(x, x).min() == 0


@pytest.mark.parametrize("s", [1, 1.5, 4])
def test_cosine_follows_from_squared_distances_of_longer_queries(s: float) -> None:
    metric = cosine(s)
    q = metric.prepare(QUERIES, name="x")
    longer = metric.searched(q)
    np.testing.assert_allclose(np.linalg.norm(longer, axis=1), s, rtol=1e-6)
    squares = METRICS["l2"].distances(longer, ROWS)
    expected = [[1 - u @ x + (x @ x - 1) / (2 * s) for x in ROWS.astype(np.float64)] for u in q.astype(np.float64)]
    np.testing.assert_allclose(metric.reported(squares), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(metric.distances(q, ROWS), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(metric.pair_distances(q[:, None], ROWS[None]), expected, rtol=1e-5, atol=1e-6)
    distances = metric.reported(squares)
    assert (metric.computed(distances) >= squares).all()
    np.testing.assert_allclose(metric.computed(distances), squares, rtol=1e-4, atol=1e-5)
    assert np.float32(metric.reported(float(squares[0, 0]))) == distances[0, 0]
    assert metric.reported(math.inf) == math.inf
    difference = metric.difference(float(squares[0, 1]) - float(squares[0, 0]))
    assert difference == pytest.approx(float(distances[0, 1]) - float(distances[0, 0]), abs=1e-5)


def test_cosine_by_products_knows_no_lengths_of_rows() -> None:
    q = METRICS["cosine"].prepare(QUERIES, name="x").astype(np.float64)
    np.testing.assert_allclose(COSINE_BY_PRODUCTS.distances(q, ROWS), 1 - q @ ROWS.T.astype(np.float64))
    np.testing.assert_allclose(COSINE_BY_PRODUCTS.pair_distances(q[0], ROWS), 1 - ROWS @ q[0])
    np.testing.assert_array_equal(COSINE_BY_PRODUCTS.scores(np.float32([0.25])), [0.75])


def test_files_say_how_cosine_is_ranked_and_old_ones_by_products() -> None:
    for metric in (*METRICS.values(), cosine(2.5), COSINE_BY_PRODUCTS):
        assert metric_in(metric.described()) == metric
    assert metric_in({"metric": "cosine"}) is COSINE_BY_PRODUCTS
    for length in (0.5, math.nan, 1e9):
        with pytest.raises(InputError, match="query_length must be 1 to 64"):
            metric_in({"metric": "cosine", "query_length": length})


def test_limits_scale_with_the_length_of_a_query_for_inner_products_alone() -> None:
    assert METRICS["ip"].limit_scales(QUERIES) == pytest.approx(np.linalg.norm(QUERIES, axis=1))
    for name in ("l2", "cosine"):
        assert METRICS[name].limit_scales(QUERIES).tolist() == [1] * len(QUERIES)


def test_only_cosine_normalizes_and_names_the_row_that_has_no_direction() -> None:
    x = np.array([[3, 4], [0, 0]], np.float32)
    for name in ("l2", "ip"):
        assert METRICS[name].prepare(x, name="x") is x
    assert METRICS["cosine"].prepare(x[:1], name="x").tolist() == [[0.6000000238418579, 0.800000011920929]]
    with pytest.raises(InputError, match=r"queries\[8\].*zeros"):
        METRICS["cosine"].prepare(x, name="queries", first_row=7)


def test_numbers_are_those_of_the_native_enumeration() -> None:
    assert [(metric.name, metric.number) for metric in METRICS.values()] == [("l2", 0), ("ip", 1), ("cosine", 0)]
    assert (COSINE_BY_PRODUCTS.name, COSINE_BY_PRODUCTS.number) == ("cosine", 2)
    assert list(METRICS) == [metric.name for metric in METRICS.values()]


@pytest.mark.parametrize("name", ["L2", "", None, ["l2"], 0])
def test_unknown_names_are_refused(name: object) -> None:
    with raises(InputError, "metric", "l2", "ip", "cosine"):
        metric_of(name)


@pytest.mark.parametrize(
    ("name", "distance", "similarity"),
    [("l2", 3.0, 0.25), ("l2", -1e-6, 1.0), ("ip", -3.0, 3.0), ("cosine", 0.25, 0.75)],
)
def test_similarities_are_larger_for_nearer_rows(name: str, distance: float, similarity: float) -> None:
    metric = METRICS[name]
    assert metric.similarity(distance) == similarity
    assert metric.similarity(distance + 0.5) < similarity
    assert metric.larger_is_better == (name != "l2")
    assert metric.is_euclidean == (name == "l2")
