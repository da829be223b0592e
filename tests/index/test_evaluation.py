"""What an index tells of itself, against plain loops over rows and queries."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import interlace as il
from helpers import ID_KINDS, METRICS, clustered, ids_of
from interlace import evaluate
from interlace.index.evaluation import without
from raising import Facts, raises


def coded(x: np.ndarray, metric: str = "l2", *, ids: str = "default", n_bytes: int = 2, n_train: int = 16) -> il.Index:
    """A coarse index, learned from few rows, without calibration: its answers differ from the truth."""
    model = il.ICQ(n_bytes, layout="subspace", n_words=n_train, metric=metric, threads=1).fit(x[:n_train])
    index = il.Index(model.codebooks_)
    index.add(x, ids_of(ids, len(x)), threads=1)
    return index


def with_ties(n: int, dim: int = 4, seed: int = 0) -> np.ndarray:
    """Small integers: many rows twice, many at the same distance; none of length zero."""
    x = np.random.default_rng(seed).integers(-2, 3, size=(n, dim)).astype(np.float32)
    x[~x.any(1)] = 1
    return x


def distance(a: np.ndarray, b: np.ndarray, metric: str) -> float:
    """Ascending means nearer; integers and float64, so that ties are ties."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    if metric == "l2":
        return float(((a - b) ** 2).sum())
    return float(-(a @ b))


def nearest(x: np.ndarray, q: np.ndarray, k: int, metric: str, leave_out: int | None = None) -> list[int]:
    """Rows by ascending distance, ties by row."""
    rows = [row for row in range(len(x)) if row != leave_out]
    return sorted(rows, key=lambda row: (distance(x[row], q, metric), row))[:k]


def found_rows(index: il.Index, q: np.ndarray, k: int, leave_out: int | None = None) -> list[Any]:
    """What a user gets who asks for one more and strikes the row itself."""
    own = None if leave_out is None else index.ids[leave_out]
    hits = index.search(q, k + (own is not None), margin="exact", threads=1).ids.tolist()
    return [hit for hit in hits if hit != own or own is None][:k]


def loop_recall(found: list[list[Any]], truth: list[list[Any]], k: int) -> float:
    shares = []
    for hits, wanted in zip(found, truth, strict=True):
        right = 0
        for one in wanted[:k]:
            if one in hits[:k]:
                right += 1
        shares.append(right / len(wanted[:k]))
    return sum(shares) / len(shares)


@pytest.mark.parametrize("metric", ["l2", "ip"])
@pytest.mark.parametrize("ids", ID_KINDS)
def test_rows_of_x_are_queries_and_their_own_row_is_left_out(metric: str, ids: str) -> None:
    x = with_ties(90)
    index = coded(x, metric, ids=ids)
    names = index.ids.tolist()
    truth = [[names[r] for r in nearest(x, x[i], 12, metric, leave_out=i)] for i in range(len(x))]
    found = [found_rows(index, x[i], 12, leave_out=i) for i in range(len(x))]
    result = index.evaluate(k=12, x=x, margin="exact", sample=90, threads=1)
    assert list(result.recall) == [1, 10, 12]
    assert result.recall == {j: pytest.approx(loop_recall(found, truth, j)) for j in (1, 10, 12)}
    assert 0 < result.recall[10] < 1  # coarse codes and ties: there is something to get wrong
    assert (result.rows, result.queries, result.k) == (90, 90, 12)
    assert "own row left out" in result.queries_from
    assert result.truth_from == "exact neighbours in x"
    assert result.agreement == 1.0


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("ids", ["default", "string"])
def test_given_queries_against_the_rows_of_x(metric: str, ids: str) -> None:
    x, q = clustered(150, 6), clustered(20, 6, seed=5)
    index = coded(x, metric, ids=ids)
    names = index.ids.tolist()
    directed = [
        v / np.sqrt((v.astype(np.float64) ** 2).sum(1, keepdims=True)) if metric == "cosine" else v for v in (x, q)
    ]
    truth = [[names[r] for r in nearest(directed[0], query, 5, metric)] for query in directed[1]]
    found = [found_rows(index, query, 5) for query in q]
    result = index.evaluate(q, 5, x=x, margin="exact", threads=1)
    assert result.recall == {j: pytest.approx(loop_recall(found, truth, j)) for j in (1, 5)}
    assert 0 < result.recall[5] < 1
    assert (result.queries, result.queries_from) == (20, "given")


def test_cosine_rows_leave_themselves_out() -> None:
    """Every direction is there twice, in two lengths: the twin is the nearest other row, by any code."""
    x = clustered(60, 8)
    twins = np.concatenate([x, 3 * x])
    result = coded(twins, "cosine", n_bytes=8, n_train=120).evaluate(k=1, x=twins, margin="exact", sample=120)
    assert result.recall == {1: 1.0}


@given(
    hnp.arrays(np.int64, st.tuples(st.integers(1, 6), st.integers(1, 6)), elements=st.integers(-1, 8)),
    st.randoms(),
)
def test_without_strikes_the_own_row_or_the_last(found: np.ndarray, random: Any) -> None:
    found = np.array([random.sample(range(9), found.shape[1]) for _ in found])  # an answer names a row once
    own = np.array([random.randrange(9) for _ in found])
    expected = []
    for hits, mine in zip(found.tolist(), own.tolist(), strict=True):
        hits = list(hits)
        hits.remove(mine) if mine in hits else hits.pop()
        expected.append(hits)
    np.testing.assert_array_equal(without(found, own), np.array(expected).reshape(len(found), -1))
    assert without(found, None) is found


def test_truth_is_taken_as_it_is_and_sampled_with_its_queries() -> None:
    x, q = clustered(200, 6), clustered(50, 6, seed=5)
    index = coded(x)
    truth = index.search(q, 12, margin="exact").ids
    assert index.evaluate(q, 10, truth=truth, margin="exact").recall == {1: 1.0, 10: 1.0}
    sampled = index.evaluate(q, 10, truth=truth, margin="exact", sample=7)
    assert (sampled.queries, sampled.recall, sampled.truth_from) == (7, {1: 1.0, 10: 1.0}, "given")
    wrong = truth.copy()
    wrong[:, 1] = 199 - np.arange(50)  # second-best only
    expected = loop_recall(truth.tolist(), wrong.tolist(), 10)
    assert index.evaluate(q, 10, truth=wrong, margin="exact", x=x).recall == {1: 1.0, 10: pytest.approx(expected)}


def test_without_x_and_truth_there_is_agreement_only() -> None:
    x = clustered(300, 6)
    index = coded(x)
    for queries in (None, clustered(20, 6, seed=5)):
        result = index.evaluate(queries, margin="exact")
        assert (result.recall, result.truth_from, result.quantization_error, result.relative_error) == (
            {},
            None,
            None,
            None,
        )
        assert result.agreement == 1.0
        assert "no true neighbours" in str(result)
        assert "recall" not in str(result)


def test_agreement_is_that_of_two_searches() -> None:
    x, q = clustered(3000, 12, clusters=40), clustered(60, 12, seed=5, clusters=40)
    index = il.Index.build(x, n_bytes=6, threads=1)
    for margin in ("paper", 0.99, "exact", math.inf):
        a, b = (index.search(q, 10, margin=m) for m in (margin, math.inf))
        result = index.evaluate(q, 10, margin=margin)
        assert result.agreement == evaluate.agreement(a, b)
        assert result.margin == a.stats.margin
        assert result.stats == dataclasses.replace(a.stats, seconds=result.stats.seconds, threads=result.stats.threads)
        assert result.ops_per_vector == a.stats.ops_per_vector
        assert result.scanned == a.stats.scanned / (60 * 3000)
        assert result.survivors == a.stats.survivors / (60 * 3000)
        assert result.bytes_per_vector == index.report().code_bytes_per_vector
        assert result.queries_per_second > 0
        assert result.queries_per_second_single > 0


def test_a_calibrated_margin_is_judged_by_its_own_k() -> None:
    """Leaving a row out asks for one hit more, which must not run the rule of k + 1."""
    x = clustered(3000, 12, clusters=40)
    index = il.Index.build(x, n_bytes=6, threads=1)
    result = index.evaluate(x=x, margin=0.99, sample=200)
    assert result.margin == index.search(x[:1], 10, margin=0.99).stats.margin
    assert result.margin != index.search(x[:1], 11, margin=0.99).stats.margin
    assert result.agreement >= 0.98
    assert result.recall[10] <= index.evaluate(x=x, margin="exact", sample=200).recall[10] + 0.01


@pytest.mark.parametrize("metric", METRICS)
def test_quantization_error_is_the_mean_over_rows(metric: str) -> None:
    x = clustered(120, 6)
    index = coded(x, metric, ids="int64")
    rows = x / np.sqrt((x.astype(np.float64) ** 2).sum(1, keepdims=True)) if metric == "cosine" else x
    errors, spreads = [], []
    for name, row in zip(index.ids, rows, strict=True):
        errors.append(sum((float(a) - float(b)) ** 2 for a, b in zip(row, index.reconstruct(int(name)), strict=True)))
        spreads.append(((row - rows.mean(0)) ** 2).sum())
    for queries in (None, x[:3]):
        result = index.evaluate(queries, x=x, sample=120)
        assert result.quantization_error == pytest.approx(np.mean(errors), rel=1e-4)
        assert result.relative_error == pytest.approx(np.mean(errors) / np.mean(spreads), rel=1e-4)
    if metric == "l2":
        in_another_order = index.evaluate(x=x[::-1], sample=120).relative_error
        assert in_another_order is not None
        assert in_another_order > 1


def test_x_may_be_anything_that_build_takes() -> None:
    x = clustered(400, 5)
    index = coded(x)

    def told(rows: Any) -> tuple[Any, ...]:
        result = index.evaluate(x=rows, sample=50, margin="exact")
        return result.recall, result.agreement, result.quantization_error

    expected = told(x)
    assert told(np.asfortranarray(x)) == expected
    assert told(x.tolist()) == expected
    assert told(x[start : start + 37] for start in range(0, 400, 37)) == expected  # read once


def test_the_seed_chooses_the_queries() -> None:
    x = clustered(400, 5)
    index = coded(x)
    first, again, other = (index.evaluate(x=x, sample=30, seed=seed) for seed in (1, 1, 2))
    assert (first.recall, first.quantization_error) == (again.recall, again.quantization_error)
    assert first.quantization_error != other.quantization_error


@pytest.mark.parametrize("ids", ["default", "string"])
def test_fewer_rows_than_k(ids: str) -> None:
    x = clustered(4, 3)
    result = coded(x, ids=ids, n_bytes=3).evaluate(k=10, x=x, margin="exact")
    assert result.recall[10] == 1.0  # all three others are found
    assert result.agreement == 1.0


def test_numbers_go_out_as_text_and_json() -> None:
    x = clustered(300, 6)
    result = coded(x).evaluate(x=x, margin="exact", sample=100)
    told = json.loads(json.dumps(result.as_dict()))
    assert told["recall@10"] == result.recall[10]
    for name in (
        "agreement",
        "scanned",
        "survivors",
        "ops_per_vector",
        "queries_per_second_single",
        "margin",
        "queries",
    ):
        assert told[name] == getattr(result, name)
    text = str(result)
    for part in (
        f"recall@10          {result.recall[10]:.4f}",
        f"{result.agreement:.4f} with the exhaustive scan",
        f"{result.queries_per_second:,.0f} in a batch",
        f"{result.queries_per_second_single:,.0f} one by one",
        f"{result.bytes_per_vector:.2f}",
        f"{result.quantization_error:.4g}",
        "exact",
    ):
        assert part in text


X = clustered(40, 4)


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ({"x": X[:39]}, ("x", 40, 39)),
        ({"x": X[:, :3]}, ("x", 3, 4)),
        ({"x": "x.npy"}, ("x", "vectors")),
        ({"queries": X[:, :3]}, ("queries", 3)),
        ({"queries": X[:0]}, ("queries", "rows")),
        ({"truth": np.zeros((5, 10), int)}, ("truth", "queries")),
        (
            {"queries": X[:5], "truth": np.zeros((4, 10), int)},
            ("truth", "k=10", 5, "(4, 10)"),
        ),
        ({"queries": X[:5], "truth": np.zeros((5, 9), int)}, ("(5, 9)",)),
        ({"queries": X[:5], "truth": np.zeros((5, 10))}, ("truth", "strings")),
        ({"k": 0}, ("k", 0)),
        ({"k": 2**40}, ("make", "than")),
        ({"sample": 0}, ("sample", 0)),
        ({"seed": -1}, ("seed", 0, "-1")),
        ({"margin": 1.5}, ("margin", "agreement")),
        ({"threads": 0}, ("threads",)),
    ],
)
def test_bad_input_is_named(arguments: dict[str, Any], facts: Facts) -> None:
    with raises(il.InputError, *facts):
        coded(X).evaluate(**arguments)


def test_indexes_with_nothing_to_find() -> None:
    index = coded(X)
    with pytest.raises(il.InputError, match="^an empty index cannot be evaluated$"):
        il.Index(index.codebooks).evaluate(X)
    single = il.Index(index.codebooks)
    single.add(X[:1])
    with pytest.raises(il.InputError, match="^the only row of this index has no neighbours"):
        single.evaluate()
    assert single.evaluate(X[:3], 1, x=X[:1], margin="exact").recall == {1: 1.0}
