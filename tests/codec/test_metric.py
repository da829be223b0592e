"""Each metric against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest

from interlace.codec.metric import METRICS, metric_of
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
    assert [(metric.name, metric.number) for metric in METRICS.values()] == [("l2", 0), ("ip", 1), ("cosine", 2)]
    assert list(METRICS) == [metric.name for metric in METRICS.values()]


@pytest.mark.parametrize("name", ["L2", "", None, ["l2"], 0])
def test_unknown_names_are_refused(name: object) -> None:
    with raises(InputError, "metric", "l2", "ip", "cosine"):
        metric_of(name)
