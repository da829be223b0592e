"""What an evaluation says of re-ranked searches and of kept originals, against plain loops."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import interlace as il
from helpers import METRICS, clustered

X, Q = clustered(700, 8, seed=1), clustered(25, 8, seed=2)


def built(metric: str = "l2", kind: str | None = "float16") -> il.Index:
    """Coarse codes, so that what they lose is seen."""
    codebooks = il.Index.build(X[:300], n_bytes=2, n_words=16, layout="subspace", metric=metric, threads=1).codebooks
    index = il.Index(codebooks, originals=kind)
    index.add(X, threads=1)
    return index


def nearest(vectors: np.ndarray, q: np.ndarray, k: int, metric: str, but: int = -1) -> list[int]:
    """By brute force in float64, ties by row."""
    vectors, q = vectors.astype(np.float64), q.astype(np.float64)
    away = ((vectors - q) ** 2).sum(1) if metric == "l2" else -(vectors @ q)
    return [int(row) for row in np.argsort(away, kind="stable") if row != but][:k]


def share(found: list[list[int]], true: list[list[int]], k: int) -> float:
    return float(np.mean([len(set(a[:k]) & set(b[:k])) / k for a, b in zip(found, true, strict=True)]))


@pytest.mark.parametrize("metric", METRICS)
def test_the_three_losses_of_given_queries(metric: str) -> None:
    index = built(metric)
    found = index.evaluate(Q, 5, rerank=30, margin="exact", threads=1)
    kept = index.searcher.originals.take(np.arange(700))
    true = [nearest(kept, q, 5, metric) for q in Q]
    by_code = index.search(Q, 30, margin=math.inf, threads=1).ids.tolist()
    after = [[rows[i] for i in nearest(kept[rows], q, 5, metric)] for rows, q in zip(by_code, Q, strict=True)]
    assert found.truth_from == "exact neighbours by kept originals"
    assert (found.rerank, found.stats.reranked) == (30, 25 * 30)
    assert found.bytes_per_vector == index.report().bytes_per_vector > index.report().code_bytes_per_vector
    assert found.recall == pytest.approx({j: share(after, true, j) for j in (1, 5)}, abs=0.01)
    assert found.code_recall == pytest.approx({j: share(by_code, true, j) for j in (1, 5)}, abs=0.01)
    assert found.agreement == 1
    assert found.code_recall[5] < found.recall[5]
    assert f"recall@5           {found.recall[5]:.4f} after a re-rank of 30 rows" in str(found)
    assert f"code recall@5      {found.code_recall[5]:.4f} by the exhaustive scan of the codes" in str(found)
    names = found.as_dict()
    assert (names["recall@5"], names["code_recall@5"], names["rerank"]) == (found.recall[5], found.code_recall[5], 30)


def test_rows_are_queries_without_their_own_row() -> None:
    index = built()
    found = index.evaluate(k=5, rerank=20, margin="exact", sample=40, seed=3, threads=1)
    chosen = np.sort(np.random.default_rng(3).choice(700, 40, replace=False))
    kept = index.searcher.originals.take(np.arange(700))
    true = [nearest(kept, kept[row], 5, "l2", but=row) for row in chosen]
    scanned = index.search(kept[chosen], 21, margin=math.inf, threads=1).ids
    by_code = [[i for i in rows if i != row][:20] for rows, row in zip(scanned.tolist(), chosen, strict=True)]
    after = [
        [some[i] for i in nearest(kept[some], kept[row], 5, "l2")] for some, row in zip(by_code, chosen, strict=True)
    ]
    assert found.queries_from == "kept originals, each one's own row left out"
    assert found.recall[5] == pytest.approx(share(after, true, 5))
    assert found.code_recall[5] == pytest.approx(share(by_code, true, 5))
    decoded = index.reconstruct(chosen)
    assert found.quantization_error == pytest.approx(float(((kept[chosen] - decoded) ** 2).sum(1).mean()), rel=1e-5)


def test_what_is_given_comes_before_originals() -> None:
    index = built()
    assert index.evaluate(Q, 5, x=X, threads=1).truth_from == "exact neighbours in x"
    truth = np.tile(np.arange(5), (25, 1))
    assert index.evaluate(Q, 5, truth=truth, rerank=700, threads=1).truth_from == "given"
    without = built(kind=None)
    assert without.evaluate(Q, 5, threads=1).truth_from is None
    assert without.evaluate(Q, 5, threads=1).code_recall == {}
    for options in ({"rerank": 20}, {"recall": 0.9}):
        with pytest.raises(il.InputError, match="needs kept originals"):
            without.evaluate(Q, 5, **options)
    with pytest.raises(il.InputError, match="at least k=5, got 4"):
        index.evaluate(Q, 5, rerank=4)


def test_depths_beyond_all_rows() -> None:
    found = built().evaluate(Q, 5, rerank=5000, margin="exact", threads=1)
    assert found.recall == {1: 1.0, 5: 1.0}
    assert found.agreement == 1


def test_a_store_with_removed_rows_and_a_target_recall(tmp_path: Path) -> None:
    index = il.Index.build(X, n_bytes=3, layout="subspace", originals="int8", threads=1)
    with index.to_store(tmp_path / "s") as store:
        store.remove(np.arange(0, 700, 5))
        there = np.setdiff1d(np.arange(700), np.arange(0, 700, 5))
        found = store.evaluate(Q, 5, rerank=600, margin="exact", threads=1)
        assert found.recall[5] == 1
        kept = store.get(there, originals=True)
        true = [there[nearest(kept, q, 5, "l2")].tolist() for q in Q]
        by_code = store.search(Q, 5, margin=math.inf, threads=1).ids.tolist()
        assert found.code_recall[5] == pytest.approx(share(by_code, true, 5))
        store.calibrate(clustered(450, 8, seed=4), threads=1)
        asked: Any = store.evaluate(Q, 10, recall=0.9, threads=1)
        assert asked.rerank is not None
        assert asked.recall[10] >= 0.85
        assert asked.stats.expected_recall >= 0.9
        assert store.evaluate(k=5, rerank=50, sample=30, threads=1).queries_from.startswith("kept originals")
