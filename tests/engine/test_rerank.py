"""Re-ranking in native code against the NumPy reference: the same rows and the same bits at every SIMD level."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import interlace as il
from interlace import _native, reference
from interlace.codec.metric import METRICS
from interlace.codec.originals import KINDS, Loss, OriginalsFormat
from interlace.engine.originals import KeptVectors
from interlace.engine.rerank import rerank

STORED = ("float32", *KINDS)


def to_bytes(kind: str, x: np.ndarray) -> np.ndarray:
    """Rows as they are stored; nothing in Python keeps float32."""
    if kind == "float32":
        return np.ascontiguousarray(x, np.float32).view(np.uint8)
    return OriginalsFormat(kind, x.shape[1]).to_bytes(x)


def zeros(dim: int) -> np.ndarray:
    return np.zeros(dim, np.float32)


def to_vectors(kind: str, raw: np.ndarray, dim: int) -> np.ndarray:
    return raw.view(np.float32) if kind == "float32" else OriginalsFormat(kind, dim).to_vectors(raw)


def native(
    kind: str,
    parts: Sequence[np.ndarray],
    q: np.ndarray,
    rows: np.ndarray,
    k: int,
    metric: str,
    threads: int = 1,
    centre: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    found, distances = np.empty((len(q), k), np.int64), np.empty((len(q), k), np.float32)
    how = METRICS[metric]
    stored = _native.StoredVectors(kind, zeros(q.shape[1]) if centre is None else centre, list(parts))
    kept = how.of_originals
    stored.rerank(kept.is_squared, kept.offset, q, rows, threads, found, distances)
    distances *= np.float32(0.5 if kept.is_converted else 1)
    return found, distances


def some_rows(rng: np.random.Generator, n: int, queries: int, depth: int) -> np.ndarray:
    """Distinct rows in any order, and none (-1) among them."""
    rows = np.full((queries, depth), -1, np.int64)
    for row in rows:
        some = rng.permutation(n)[: rng.integers(0, depth + 1)]
        row[rng.permutation(depth)[: len(some)]] = some
    return rows


def check(
    found: np.ndarray,
    distances: np.ndarray,
    vectors: np.ndarray,
    q: np.ndarray,
    rows: np.ndarray,
    metric: str,
    centre: np.ndarray | None = None,
):
    k = found.shape[1]
    for i in range(len(q)):
        best = reference.rerank(vectors, q[i], rows[i].tolist(), k, METRICS[metric], centre)
        assert found[i].tolist() == [row for row, _ in best] + [-1] * (k - len(best))
        expected = np.array([d for _, d in best] + [np.inf] * (k - len(best)), np.float32)
        assert distances[i].tobytes() == expected.tobytes()


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(STORED),
    metric=st.sampled_from(list(METRICS)),
    dim=st.sampled_from([1, 2, 7, 8, 31, 32, 33, 63, 64, 65, 127, 128, 200]),
    n=st.integers(0, 40),
    k=st.integers(1, 9),
    depth=st.integers(1, 30),
    seed=st.integers(0, 999),
)
def test_every_level_equals_the_reference(simd, kind, metric, dim, n, k, depth, seed):
    rng = np.random.default_rng(seed)
    x, q = (rng.normal(size=(m, dim)).astype(np.float32) for m in (n, 3))
    if seed % 3 == 0:  # ties, and values that are zero
        x, q = np.round(x), np.round(q)
    raw = to_bytes(kind, x)
    cut = int(rng.integers(0, n + 1))
    rows = some_rows(rng, n, 3, depth)
    centre = np.float32(10.0 ** (seed % 5 - 2)) * rng.normal(size=dim).astype(np.float32)
    for parts in ([raw], [raw[:cut], raw[cut:]]):
        for c in (None, centre):
            found, distances = native(kind, parts, q, rows, k, metric, threads=1 + seed % 2, centre=c)
            check(found, distances, to_vectors(kind, raw, dim), q, rows, metric, c)


def test_more_rows_than_one_call_of_a_kernel(simd):
    rng = np.random.default_rng(0)
    x, q = (rng.normal(size=(m, 20)).astype(np.float32) for m in (1500, 40))
    raw = to_bytes("int8", x)
    rows = np.stack([rng.permutation(1500)[:700] for _ in q])
    found, distances = native("int8", np.array_split(raw, 5), q, rows, 12, "l2", threads=3)
    check(found, distances, to_vectors("int8", raw, 20), q, rows, "l2")


@pytest.mark.parametrize("kind", STORED)
def test_a_distance_that_overflows_is_infinite_and_last(kind):
    x = np.array([[1, 2], [6e4, -6e4], [0, 1]], np.float32)
    rows = np.array([[0, 1, 2]])
    found, distances = native(kind, [to_bytes(kind, x)], np.array([[3e38, 3e38]], np.float32), rows, 3, "l2")
    assert found.tolist() == [[0, 1, 2]]
    assert np.isinf(distances).all()
    found, distances = native(kind, [to_bytes(kind, x)], np.array([[3e38, 3e38]], np.float32), rows, 3, "ip")
    assert distances[0, 0] == -np.inf or np.isfinite(distances[0, 0])
    assert found[0, 2] == 1  # inf - inf: no number, so it comes last
    assert distances[0, 2] == np.inf


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("kind", STORED)
def test_an_original_that_is_not_finite_is_damage(kind, value):
    x = np.random.default_rng(0).normal(size=(5, 40)).astype(np.float32)
    raw = to_bytes(kind, x)
    place = {"float32": (4 * 37, np.float32), "float16": (2 * 37, np.float16), "int8": (4, np.float32)}[kind]
    changed = np.array([value], place[1]).view(np.uint8)
    raw[3, place[0] : place[0] + len(changed)] = changed
    q, rows = x[:1], np.array([[1, 3]])
    with pytest.raises(il.DamagedFileError, match="the original of row 3 is not finite"):
        native(kind, [raw], q, rows, 1, "l2")
    assert native(kind, [raw], q, np.array([[1, 2]]), 1, "l2")[0][0, 0] in (1, 2)


def test_rows_that_are_not_there_are_damage():
    raw = to_bytes("float16", np.ones((3, 4), np.float32))
    with pytest.raises(il.DamagedFileError, match="it names row 3 of 3"):
        native("float16", [raw], np.ones((1, 4), np.float32), np.array([[0, 3]]), 1, "l2")
    found, _ = native("float16", [], np.ones((1, 4), np.float32), np.array([[-1, -1]]), 2, "l2")
    assert found.tolist() == [[-1, -1]]


def test_shapes_are_checked():
    raw, q = to_bytes("float16", np.ones((3, 4), np.float32)), np.ones((2, 4), np.float32)
    with pytest.raises(ValueError, match="kind must be"):
        _native.StoredVectors("float8", zeros(4), [raw])
    with pytest.raises(ValueError, match="rows of another width"):
        _native.StoredVectors("int8", zeros(4), [raw])
    for queries, rows, k in ((q[:, :3], 2, 1), (q, 3, 1)):
        with pytest.raises(ValueError, match="do not fit"):
            native_shapes(raw, np.ascontiguousarray(queries), np.zeros((rows, 2), np.int64), k, 2)
    with pytest.raises(ValueError, match="wrong shape"):
        native_shapes(raw, q, np.zeros((2, 2), np.int64), 1, 3)


def native_shapes(raw: np.ndarray, q: np.ndarray, rows: np.ndarray, k: int, n_out: int) -> None:
    stored = _native.StoredVectors("float16", zeros(4), [raw])
    stored.rerank(True, 0.0, q, rows, 1, np.empty((n_out, k), np.int64), np.empty((n_out, k), np.float32))


def test_candidates_in_any_memory_order():
    x = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    format = OriginalsFormat("float16", 5)
    kept = KeptVectors(format, [format.to_bytes(x)])
    rows = np.asfortranarray(np.random.default_rng(1).permuted(np.tile(np.arange(30), (4, 1)), axis=1))
    found, _ = rerank(kept, x[:4], rows, 1, METRICS["l2"])
    assert found.ravel().tolist() == [0, 1, 2, 3]


def test_originals_grow_without_changing_what_was_there():
    format = OriginalsFormat("int8", 3)
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    kept, states = KeptVectors(format), []
    for start in range(0, 40, 4):
        kept = kept.extended(format.to_bytes(x[start : start + 4]), Loss(4, 0.5))
        states.append(kept)
    raw = format.to_bytes(x)
    assert kept.loss == Loss(40, 5.0)
    for i, state in enumerate(states):
        assert state.n == 4 * (i + 1)
        assert np.array_equal(np.concatenate(state.parts), raw[: state.n])
        assert len(state.parts) <= 4  # as many as bits of the number of additions


@pytest.mark.parametrize(("kind", "noise"), [("float16", 0.02), ("int8", 0.1)])
def test_near_rows_of_cosine_are_not_ranked_by_the_rounding_of_their_lengths(kind, noise):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10, 24)) / np.sqrt(24)
    x = centres[rng.integers(10, size=800)] + noise * rng.normal(size=(800, 24)) / np.sqrt(24)
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)
    index = il.Index.build(x, n_bytes=4, metric="cosine", originals=kind, effort="fastest", progress=False)
    found = index.search(x[:50], 10, rerank=800)
    true = np.argsort(-(x[:50].astype(float) @ x.T.astype(float)), axis=1)[:, :10]
    assert np.mean([len(set(a) & set(b)) / 10 for a, b in zip(true.tolist(), found.ids.tolist(), strict=True)]) > 0.9
    assert (found.distances >= 0).all()
    assert index.evaluate(x[:50], rerank=800).recall[10] > 0.99  # the kept vectors are the truth


# --- rows on disk -----------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 5000), max_size=40), st.integers(1, 700), st.sampled_from([1, 64, 512]))
def test_the_pages_of_rows_in_the_fewest_runs(rows, width, page):
    runs = _native.page_runs(rows, width, page)
    asked = {p for first, end in runs for p in range(first // page, end // page)}
    assert asked == {p for row in rows for p in range(row // page, (row + width - 1) // page + 1)}
    assert all(first % page == 0 == end % page and first < end for first, end in runs)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(runs))  # ascending, never adjacent


@pytest.mark.parametrize("kind", KINDS)
def test_pages_that_are_asked_for_ahead_change_no_answer(kind, tmp_path):
    """A mapped file whose pages were dropped from memory, as far as its file system does that, and arrays in memory."""
    rng = np.random.default_rng(3)
    x, q = rng.normal(size=(3000, 24)).astype(np.float32), rng.normal(size=(50, 24)).astype(np.float32)
    raw, rows = to_bytes(kind, x), np.stack([rng.permutation(3000)[:60] for _ in range(50)])
    expected = native(kind, [raw], q, rows, 10, "l2")
    path = tmp_path / "originals"
    with path.open("wb") as file:
        file.write(raw.tobytes())
        file.flush()
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):  # not on macOS
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    mapped = np.memmap(path, np.uint8, "r", shape=raw.shape)
    for part in (mapped, raw):
        stored, how = _native.StoredVectors(kind, zeros(24), [np.asarray(part)]), METRICS["l2"].of_originals
        stored.expect_cold_pages()
        for threads in (1, 2):  # more queries than are asked for ahead
            found, distances = np.empty((50, 10), np.int64), np.empty((50, 10), np.float32)
            stored.rerank(how.is_squared, how.offset, q, rows, threads, found, distances)
            assert found.tobytes() == expected[0].tobytes()
            assert (distances * np.float32(0.5 if how.is_converted else 1)).tobytes() == expected[1].tobytes()
