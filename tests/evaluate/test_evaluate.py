"""Recall, agreement and brute force against plain loops."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import interlace as il
from interlace.codec import exact
from interlace.evaluate import answers as evaluate
from raising import raises


def plain_recall(found, truth, k):
    shares = []
    for f, t in zip(found, truth, strict=True):
        wanted = [i for i in t[:k] if i not in (-1, None)]
        if wanted:
            shares.append(sum(i in list(f[:k]) for i in wanted) / len(wanted))
    return sum(shares) / len(shares)


def plain_agreement(a, b):
    shares = []
    for f, s in zip(a, b, strict=True):
        first, second = ({i for i in row if i not in (-1, None)} for row in (f, s))
        size = max(len(first), len(second))
        shares.append(len(first & second) / size if size else 1.0)
    return sum(shares) / len(shares)


def plain_neighbours(x, q, k, metric):
    ids = np.full((len(q), k), -1)
    distances = np.full((len(q), k), np.inf)
    for i, query in enumerate(q.astype(np.float64)):
        pairs = []
        for row, vector in enumerate(x.astype(np.float64)):
            if metric == "l2":
                d = sum((a - b) ** 2 for a, b in zip(query, vector, strict=True))
            elif metric == "ip":
                d = -sum(a * b for a, b in zip(query, vector, strict=True))
            else:
                d = 1 - float(query @ vector) / np.sqrt(float(query @ query) * float(vector @ vector))
            pairs.append((d, row))
        for j, (d, row) in enumerate(sorted(pairs)[:k]):
            ids[i, j], distances[i, j] = row, d
    return ids, distances


def answers(rng, n, k, size):
    """Rows of distinct ids with some padding at the end."""
    rows = np.stack([rng.choice(size, k, replace=False) for _ in range(n)])
    for row, keep in zip(rows, rng.integers(1, k + 1, n), strict=True):
        row[keep:] = -1
    return rows


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 12), text=st.booleans())
@settings(max_examples=60, deadline=None)
def test_recall_and_agreement_equal_the_plain_loops(seed, k, text):
    rng = np.random.default_rng(seed)
    a, b = answers(rng, 5, k, 15), answers(rng, 5, k, 15)
    if text:
        a, b = (np.array([[None if v < 0 else f"id{v}" for v in row] for row in m], object) for m in (a, b))
    assert evaluate.recall(a, b, k) == pytest.approx(plain_recall(a, b, k))
    assert evaluate.agreement(a, b) == pytest.approx(plain_agreement(a, b))


def test_recall_looks_at_the_first_k_of_both():
    found, truth = np.array([[1, 2, 3, 9]]), np.array([[9, 1, 4, 2]])
    assert evaluate.recall(found, truth, 1) == 0.0
    assert evaluate.recall(found, truth, 2) == 0.5
    assert evaluate.recall(found, truth, 4) == 0.75


def test_padding_never_counts():
    assert evaluate.recall([[5, -1, -1]], [[5, -1, -1]], 3) == 1.0  # one neighbour asked for, one found
    assert evaluate.recall([[-1, -1]], [[-1, 7]], 2) == 0.0
    assert evaluate.recall([[3], [4]], [[-1], [4]], 1) == 1.0  # the first query has nothing to find
    assert evaluate.agreement([[-1, -1]], [[-1, -1]]) == 1.0
    assert evaluate.agreement([[1, -1]], [[1, 2]]) == 0.5


def test_an_id_found_twice_counts_once():
    assert evaluate.recall([[1, 1]], [[1, 2]], 2) == 0.5


def test_matches_fixed_width_text_and_single_queries_are_taken():
    x = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    index = il.Index.build(x, n_bytes=2, threads=1)
    exact, full = (index.search(x[:20], 5, margin=margin, threads=1) for margin in ("exact", np.inf))
    assert evaluate.agreement(exact, full) == 1.0
    assert evaluate.recall(exact, full, 5) == 1.0
    assert evaluate.recall(exact.ids[0], full.ids[0], 5) == 1.0
    assert evaluate.recall(np.array([["a", "b"]]), np.array([["b", "c"]], object), 2) == 0.5


@pytest.mark.parametrize(
    ("found", "truth", "k", "facts"),
    [
        ([[1, 2]], [[1, 2]], 0, ("k", "integer")),
        ([[1, 2]], [[1, 2]], 2.0, ("k", "integer")),
        ([[1, 2]], [[1, 2]], 3, ("found_ids", 2)),
        ([[1, 2, 3]], [[1, 2]], 3, ("true_ids", 2)),
        ([[1, 2]], [[1, 2], [3, 4]], 2, (1, "true_ids", 2)),
        (np.empty((0, 2), int), np.empty((0, 2), int), 2, ("no query",)),
        ([[1.5, 2.0]], [[1, 2]], 2, ("float64",)),
        ([[[1, 2]]], [[1, 2]], 2, ("found_ids",)),
        ([["1", "2"]], [[1, 2]], 2, ("strings", "integers")),
        ([[1, 2]], [[-1, -1]], 2, ("true_ids", "holds")),
    ],
)
def test_bad_input_to_recall_is_named(found, truth, k, facts):
    with raises(il.InputError, *facts):
        evaluate.recall(found, truth, k)


def plain_recall_with_ties(found, found_distances, truth, true_distances, k):
    shares = []
    for f, fd, t, td in zip(found, found_distances, truth, true_distances, strict=True):
        asked = sum(i != -1 for i in t[:k])
        limit = max((d for i, d in zip(t[:k], td[:k], strict=True) if i != -1), default=None)
        hits = {i for i, d in zip(f[:k], fd[:k], strict=True) if i != -1 and limit is not None and d <= limit}
        if asked:
            shares.append(min(len(hits), asked) / asked)
    return sum(shares) / len(shares)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 25), k=st.integers(1, 8))
@settings(max_examples=80, deadline=None)
def test_recall_with_ties_equals_the_plain_loop(seed, n, k):
    rng = np.random.default_rng(seed)
    x, q = (rng.integers(0, 3, (m, 2)).astype(np.float32) for m in (n, 5))  # a grid: many are equally far
    truth, nearest = evaluate.exact_neighbours(x, q, k)
    found = np.stack([np.resize(rng.permutation(n), k) for _ in q])  # with repeats where there are few
    found[rng.random(found.shape) < 0.2] = -1
    theirs, true = evaluate.distances_of(x, q, found), evaluate.distances_of(x, q, truth)
    assert_array_equal(true, nearest)
    got = evaluate.recall(found, truth, k, found_distances=theirs, true_distances=true)
    assert got == pytest.approx(plain_recall_with_ties(found, theirs, truth, true, k))
    assert got >= evaluate.recall(found, truth, k)
    whole = evaluate.recall(truth, truth, k, found_distances=true, true_distances=true)
    assert whole == 1.0


def test_any_of_equally_near_rows_is_a_hit():
    x, q = np.array([[0.0], [1.0], [-1.0], [5.0]]), np.array([[0.0]])
    truth, nearest = evaluate.exact_neighbours(x, q, 2)
    assert truth.tolist() == [[0, 1]]
    for found, plain, tied in (([[0, 2]], 0.5, 1.0), ([[2, 1]], 0.5, 1.0), ([[0, 3]], 0.5, 0.5), ([[2, 2]], 0.0, 0.5)):
        assert evaluate.recall(found, truth, 2) == plain
        distances = evaluate.distances_of(x, q, found)
        assert evaluate.recall(found, truth, 2, found_distances=distances, true_distances=nearest) == tied


def test_rounding_does_not_lose_a_true_neighbour():
    assert evaluate.recall([["a", None]], [["a", "b"]], 2, found_distances=[[1.01, 9]], true_distances=[[1, 1]]) == 0.5


def test_no_more_hits_than_are_asked_for():
    assert evaluate.recall([[5, 6]], [[5, -1]], 2, found_distances=[[1, 1]], true_distances=[[1, np.inf]]) == 1.0


@pytest.mark.parametrize(
    ("distances", "facts"),
    [
        ({"found_distances": [[1.0, 2.0]]}, ("found_distances", "true_distances")),
        ({"true_distances": [[1.0, 2.0]]}, ("found_distances", "true_distances")),
        ({"found_distances": [[1.0]], "true_distances": [[1.0, 2.0]]}, ("found_distances", "[1, 2]")),
        ({"found_distances": [[1.0, 2.0]], "true_distances": [["a", "b"]]}, ("true_distances", "[1, 2]")),
    ],
)
def test_bad_distances_are_named(distances, facts):
    with raises(il.InputError, *facts):
        evaluate.recall([[1, 2]], [[1, 3]], 2, **distances)


@given(seed=st.integers(0, 2**32 - 1), metric=st.sampled_from(["l2", "ip", "cosine"]), block=st.integers(1, 100))
@settings(max_examples=40, deadline=None)
def test_distances_of_rows_equal_the_plain_loop(seed, metric, block):
    rng = np.random.default_rng(seed)
    x, q = (rng.normal(size=(m, 3)).astype(np.float32) for m in (9, 4))
    ids, values = plain_neighbours(x, q, 9, metric)
    shuffled = rng.permuted(ids, axis=1)
    saved = evaluate.BLOCK_VALUES
    try:
        evaluate.BLOCK_VALUES = block
        found = evaluate.distances_of(x, q, shuffled, metric)
        single = evaluate.distances_of(x, q[0], shuffled[0], metric)
    finally:
        evaluate.BLOCK_VALUES = saved
    for row, listed, own, of_own in zip(found, shuffled, ids, values, strict=True):
        known = dict(zip(own.tolist(), of_own, strict=True))
        assert_allclose(row, [known[i] for i in listed.tolist()], rtol=1e-5, atol=1e-6)
    assert_array_equal(single, found[0])
    assert np.isinf(evaluate.distances_of(x, q, np.full((4, 2), -1), metric)).all()


@pytest.mark.parametrize(
    ("rows", "metric", "facts"),
    [
        ([[0]], "l1", ("metric",)),
        ([[0], [1]], "l2", ("[1, k]",)),
        ([["a"]], "l2", ("rows must be integers",)),
        ([[3]], "l2", (0, 2, "-1", 3)),
        ([[-2]], "l2", (0, 2)),
    ],
)
def test_bad_input_to_distances_of_is_named(rows, metric, facts):
    with raises(il.InputError, *facts):
        evaluate.distances_of(np.eye(3), np.eye(3)[:1], rows, metric)


def test_agreement_needs_the_same_k():
    with raises(il.InputError, 2, 1):
        evaluate.agreement([[1, 2]], [[1]])


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("k", [1, 7, 60])
def test_exact_neighbours_equal_the_plain_loop(metric, k, monkeypatch):
    monkeypatch.setattr(evaluate, "BLOCK_ROWS", 16)  # several blocks of both, and short last ones
    monkeypatch.setattr(exact, "BLOCK_QUERIES", 3)
    rng = np.random.default_rng(k)
    x, q = rng.normal(size=(41, 6)).astype(np.float32), rng.normal(size=(7, 6)).astype(np.float32)
    ids, distances = evaluate.exact_neighbours(x, q, k, metric)
    expected, values = plain_neighbours(x, q, k, metric)
    assert_array_equal(ids, expected)
    assert_allclose(distances, values, rtol=1e-5, atol=1e-6)
    assert (ids.dtype, distances.dtype) == (np.int64, np.float32)


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 40), k=st.integers(1, 12))
@settings(max_examples=60, deadline=None)
def test_ties_go_to_the_smaller_row(seed, n, k):
    rng = np.random.default_rng(seed)
    x, q = rng.integers(0, 2, (n, 3)).astype(np.uint8), rng.integers(0, 2, (4, 3)).astype(np.uint8)
    saved = evaluate.BLOCK_ROWS
    try:
        evaluate.BLOCK_ROWS = 8
        ids, _ = evaluate.exact_neighbours(x, q, k)
    finally:
        evaluate.BLOCK_ROWS = saved
    assert_array_equal(ids, plain_neighbours(x.astype(int), q.astype(int), k, "l2")[0])


def test_a_single_query_gives_one_answer_and_no_rows_give_padding():
    x = np.eye(3)
    ids, distances = evaluate.exact_neighbours(x, x[1], 2)
    assert ids.tolist() == [1, 0]
    assert distances.tolist() == [0.0, 2.0]
    ids, distances = evaluate.exact_neighbours(np.empty((0, 3)), x, 2)
    assert (ids == -1).all()
    assert np.isinf(distances).all()


def test_float32_agrees_up_to_rounding():
    rng = np.random.default_rng(2)
    x, q = rng.normal(size=(500, 16)), rng.normal(size=(20, 16))
    slow, fast = evaluate.exact_neighbours(x, q, 10), evaluate.exact_neighbours(x, q, 10, dtype=np.float32)
    assert evaluate.agreement(slow[0], fast[0]) > 0.99
    assert_allclose(slow[1], fast[1], rtol=1e-4)


def test_memory_stays_below_what_the_docstring_promises(tmp_path):
    n, dim = 60_000, 64
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 255, (n, dim), np.uint8))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    q = np.asarray(x[:300])
    tracemalloc.start()
    try:
        evaluate.exact_neighbours(x, q, 10)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64e6 + evaluate.BLOCK_ROWS * dim * 32


@pytest.mark.parametrize(
    ("x", "q", "k", "metric", "facts"),
    [
        (np.eye(3), np.eye(3), 1, "l1", ("metric",)),
        (np.eye(3), np.eye(3), 0, "l2", ("k", "integer")),
        (np.eye(3), np.eye(4), 1, "l2", (4,)),
        (np.eye(3), np.zeros((1, 3)), 1, "cosine", ("queries[0]",)),
        (np.eye(3) * [1, 0, 1], np.eye(3), 1, "cosine", ("x[1]",)),
        (np.full((2, 3), np.nan), np.eye(3), 1, "l2", ("x[0, 0]", "nan")),
    ],
)
def test_bad_input_to_exact_neighbours_is_named(x, q, k, metric, facts):
    with raises(il.InputError, *facts):
        evaluate.exact_neighbours(x, q, k, metric)
