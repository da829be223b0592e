"""plan_recall: predictions that a larger index keeps, and clear errors."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import interlace as il
from helpers import clustered
from interlace.cli import main
from interlace.index import recall_planning
from raising import raises

DIM = 16


def rows(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, DIM)).astype(np.float32)


@pytest.fixture(scope="module")
def planned() -> il.RecallPlan:
    return il.plan_recall(rows(6000), rows=24_000, n_bytes=(4, 8), effort="fast", layout="hybrid", threads=2)


def test_a_larger_index_has_the_recall_predicted(planned):
    x, q = rows(24_000, seed=1), rows(300, seed=2)
    truth = np.argsort(((q[:, None] - x[None]) ** 2).sum(2), axis=1)[:, :10]
    for point in planned.points:
        index = il.Index.build(x, n_bytes=point.n_bytes, layout="hybrid", effort="fast")
        found = index.search(q, 100, margin="exact").ids
        alone = np.mean([len(set(a[:10]) & set(b)) / 10 for a, b in zip(found, truth, strict=True)])
        reranked = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, truth, strict=True)])
        assert point.recall == pytest.approx(alone, abs=0.06)
        assert point.reranked_range[0] - 0.05 <= reranked <= point.reranked_range[1] + 0.05


def test_more_bytes_find_more_and_more_rows_less(planned):
    first, second = planned.points
    assert first.recall < second.recall <= second.reranked
    assert first.reranked_range[0] <= first.reranked <= first.reranked_range[1]
    fewer = il.plan_recall(rows(6000), rows=6000, n_bytes=[4, 8], effort="fast", layout="hybrid", threads=2)
    assert all(a.recall < b.recall for a, b in zip(planned.points, fewer.points, strict=True))
    assert (
        planned.points
        == il.plan_recall(rows(6000), rows=24_000, n_bytes=(4, 8), effort="fast", layout="hybrid", threads=1).points
    )
    assert il.plan(24_000, DIM, n_bytes=8, layout="hybrid", measure=False).code_bytes_per_vector == pytest.approx(
        second.code_bytes, rel=0.05
    )


@pytest.mark.parametrize("metric", ["ip", "cosine"])
def test_other_metrics_and_own_queries(metric):
    x = clustered(2500, 8)
    plan = il.plan_recall(x, n_bytes=6, metric=metric, queries=x[:50], effort="fast", layout="residual")
    assert (plan.rows, plan.queries, plan.metric) == (2500, 50, metric)
    assert 0 < plan.points[0].recall <= plan.points[0].reranked <= 1


def test_recall_is_the_share_of_the_nearest_rows_found():
    nearest, ranked = np.array([[0, 1], [2, 3]]), np.array([[1, 5, 0], [9, 3, 8]])
    odds = recall_planning._odds(nearest, ranked)
    assert recall_planning._share(odds) == pytest.approx(0.75)


def test_a_re_rank_is_never_predicted_to_lower_recall():
    rng = np.random.default_rng(0)
    truth = rng.random((50, 600), np.float32)
    found = truth + rng.random((50, 600), np.float32) * np.float32(0.02)
    found[np.arange(50), truth.argmin(1)] += 1  # the nearest row is coded badly: of few neighbours most are lost
    for n_rows in (600, 60_000):
        alone, reranked, (low, high) = recall_planning._predicted(truth, found, 10, 20, n_rows)
        assert alone <= low <= reranked <= high
    assert recall_planning._of_nearest(truth, found, 2.0, 10 * 600 / n_rows) < alone  # without the bound


def test_a_small_sample_is_marked(planned):
    assert not planned.is_small_sample
    assert "far off" not in str(planned)
    small = dataclasses.replace(planned, rows=60_001)
    assert small.is_small_sample
    assert str(small).endswith("the sample has 6,000 rows, less than a tenth of 60,001; measure with index.evaluate()")


def test_it_is_shown_as_a_table(planned):
    lines = str(planned).splitlines()
    assert lines[0].startswith("recall@10 predicted for 24,000 rows x 16 dimensions, l2, from 1,")
    assert [line.split()[0] for line in lines[1:]] == ["n_bytes", "4", "8"]
    assert f"{planned.points[1].recall:.2f}" in lines[3]
    assert json.loads(json.dumps(planned.as_dict()))["points"][0]["n_bytes"] == 4


def test_bad_input_is_refused():
    x = rows(2500)
    with raises(il.InputError, "x", 2000, 1999):
        il.plan_recall(x[:1999])
    with raises(il.InputError, "rerank", 10, 9):
        il.plan_recall(x, rerank=9)
    with raises(il.InputError, "rows", 0):
        il.plan_recall(x, rows=0)
    with raises(il.InputError, "n_bytes"):
        il.plan_recall(x, n_bytes=())
    with raises(il.InputError, "n_bytes"):
        il.plan_recall(x, n_bytes=None)
    with raises(il.InputError, "n_bytes", 129):
        il.plan_recall(x, n_bytes=(8, 129))
    with raises(il.InputError, "queries", 15):
        il.plan_recall(x, queries=x[:5, :15])


def test_the_command_predicts_too(tmp_path, capsys):
    np.save(tmp_path / "x.npy", rows(2500))
    sample = ["--sample", str(tmp_path / "x.npy")]
    arguments = ["plan", "--rows", "9000", *sample, "--budgets", "2,4", "--layout", "hybrid", "--effort", "fast"]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], [p["n_bytes"] for p in found["points"]]) == (9000, [2, 4])
    without = [argument for argument in arguments if argument not in ("--rows", "9000")]
    assert main([*without, "--json"]) == 0  # as many rows as the sample has
    assert json.loads(capsys.readouterr().out)["rows"] == 2500
    assert main(["plan", "--rows", "9000"]) != 0
    assert "--dim" in capsys.readouterr().err
    assert main(["plan", "--dim", "16"]) != 0
    assert "--rows" in capsys.readouterr().err
