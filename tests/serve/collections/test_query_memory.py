"""Queries take memory for their candidates and examples, not for all pairs of them or all of their vectors."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from serve_helpers import vectors

from interlace.serve.collections.mmr import diversified
from interlace.serve.collections.recommending import average
from interlace.serve.collections.searching import QueryHits
from interlace.serve.requests.models import Mmr, Recommend

X = vectors(2000, 8)
SNAPSHOT: Any = SimpleNamespace(get=lambda ids, originals: X[ids], searcher=SimpleNamespace(originals=None))


def peak(call: Any) -> int:
    """Bytes that a call has allocated at once."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def hits(n: int, metric: str) -> QueryHits:
    matches: Any = SimpleNamespace(metric=metric)
    return QueryHits(np.arange(n), np.linspace(1, 2, n).tolist(), matches)


def all_pairs(x: Any, metric: str) -> Any:
    if metric == "l2":
        return -np.sqrt(((x[:, None] - x[None]) ** 2).sum(2))
    if metric == "cosine":
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    return x @ x.T


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_mmr_chooses_as_with_all_pairs(metric: str) -> None:
    given = hits(100, metric)
    alike = all_pairs(X[:100].astype(np.float64), metric)
    near = np.array(given.scores) * (-1 if metric == "l2" else 1)
    chosen = [int(near.argmax())]
    while len(chosen) < 20:
        value = 0.4 * near - 0.6 * alike[:, chosen].max(1)
        value[chosen] = -np.inf
        chosen.append(int(value.argmax()))
    found = diversified(SNAPSHOT, given, Mmr(diversity=0.6), 20)
    assert found.ids.tolist() == chosen
    assert found.scores == [given.scores[i] for i in chosen]


def test_mmr_takes_no_memory_for_all_pairs() -> None:
    given = hits(2000, "l2")
    assert peak(lambda: diversified(SNAPSHOT, given, Mmr(), 5)) < 2000 * 2000 * 8 / 10


def test_recommend_takes_no_memory_for_all_examples() -> None:
    ids = [i % 2000 for i in range(5000)]
    found = average(SNAPSHOT, Recommend(positive=ids, negative=[1, 2]), 8, 10_000)
    expected = 2 * X[ids].astype(np.float64).mean(0) - X[[1, 2]].astype(np.float64).mean(0)
    np.testing.assert_array_equal(found, expected.astype(np.float32))
    wanted = Recommend(positive=ids)
    assert peak(lambda: average(SNAPSHOT, wanted, 8, 10_000)) < 5000 * 8 * 8 / 10
