"""Calibrations by rows, for queries that are farther from the rows than the rows are from each other."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest

from interlace import Index
from interlace.engine.evidence import COPIES, OUTSIDE, gathered
from interlace.engine.margins import KS
from interlace.index.calibration import sampled_rows

N, DIM, TARGET = 8000, 16, 0.99


def real(n, seed):
    """Rows around centres."""
    centres = np.random.default_rng(0).normal(size=(40, DIM)) * 3
    rng = np.random.default_rng(seed)
    return (centres[rng.integers(40, size=n)] + rng.normal(size=(n, DIM))).astype(np.float32)


def grown():
    """Some real rows, and more rows between one of them and a near one."""
    rows, rng = real(N // 4, 1), np.random.default_rng(2)
    near = np.argsort(((rows[:, None, :4] - rows[None, :, :4]) ** 2).sum(2), axis=1)[:, 1:4]
    starts = rng.integers(len(rows), size=N - len(rows))
    ends = rows[near[starts, rng.integers(3, size=len(starts))]]
    return np.concatenate([rows, rows[starts] + rng.uniform(0.2, 0.8, (len(starts), 1)) * (ends - rows[starts])])


@functools.cache
def built(metric="l2", n=N):
    rows = grown()[-n:].astype(np.float32)
    return Index.build(rows, n_bytes=4, layout="residual", metric=metric, max_train_rows=3000, iterations=1)


def held_of(index, n=100):
    own = sampled_rows(index.searcher)[:n]
    queries = index.codebooks.metric_type.searched(index.engine.decode(own))
    return gathered(index.codebooks, index.engine.segments, queries, own, 1)[0]


@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_one_answer_of_a_row_leaves_its_nearest_rows_out(metric):
    for part in held_of(built(metric)):
        _, others, outside = part.answers
        for name in (field.name for field in dataclasses.fields(others)):
            left = getattr(others, name)[:, OUTSIDE:]
            assert (getattr(outside, name)[:, : left.shape[1]] == left).all()
        assert outside.distances.shape == others.distances.shape
        assert np.isfinite(outside.distances).all()
        assert (np.diff(outside.distances, axis=1) >= 0).all()


def test_few_rows_are_not_left_out():
    n = max(KS) + COPIES + OUTSIDE  # one fewer than the deepest search has hits
    assert {len(part.answers) for part in held_of(built(n=n))} == {2}
    assert {len(part.answers) for part in held_of(built(n=n + 1))} == {3}


def test_queries_from_outside_keep_the_promise_and_are_seldom_searched_exactly():
    index, queries = built(), real(1500, 3)
    for k in KS:
        found, exact = (index.search(queries, k, margin=margin) for margin in (TARGET, "exact"))
        loss = 1 - np.array([len(np.intersect1d(a, b)) for a, b in zip(found.ids, exact.ids, strict=True)]) / k
        assert loss.mean() - 1.96 * loss.std() / len(loss) ** 0.5 <= 1 - TARGET
        assert found.stats.unlike < 0.15 * len(queries)
