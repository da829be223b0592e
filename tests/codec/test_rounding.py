"""Squared distances are never negative, and as near to the exact ones as ``distance_error`` says."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import interlace as il
from books import LAYOUTS, index_of, random_codebooks, random_codes
from helpers import METRICS, clustered
from interlace import _native, reference

SETTINGS = [
    {"layout": "subspace"},
    {"layout": "subspace", "cross": "exact"},
    {"layout": "subspace", "cross": "byte"},
    {"layout": "hybrid"},
    {"layout": "hybrid", "cross": "exact"},
    {"layout": "hybrid", "cross": "byte"},
    {"layout": "residual"},
    {"layout": "residual", "cross": "byte"},
]


def gradients(n: int, dim: int = 16) -> NDArray[np.float32]:
    """Whole numbers of 0 to 255, most of them small, as SIFT has them."""
    rng = np.random.default_rng(3)
    centres = rng.exponential(40, size=(10, dim))
    return np.clip(np.rint(centres[rng.integers(10, size=n)] + rng.exponential(15, size=(n, dim))), 0, 255).astype(
        np.float32
    )


def check(index: il.Index) -> None:
    """Every row is found from its own reconstruction at the radius of the error; no distance is off by more."""
    ids = index.ids[::3]
    vectors = index.reconstruct(ids)
    every = index.search(vectors, len(index), margin=math.inf, threads=1)
    if index.metric == "l2":
        assert not np.signbit(every.distances).any()
    errors = index.distance_error(vectors)
    assert isinstance(errors, np.ndarray)
    assert errors.shape == (len(ids),)
    found = index.range_search(vectors, errors, threads=1)
    assert all(value in hits for value, (hits, _) in zip(ids, found, strict=True))
    codes = index.engine.codes_of(np.arange(len(index)))
    exact = np.array([reference.distance_to_decoded(index.codebooks, codes, q) for q in vectors])
    off = np.abs(np.take_along_axis(exact, every.ids, axis=1) - every.distances)
    assert (off <= errors[:, None]).all()


@pytest.mark.parametrize("data", ["clustered", "gradients"])
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda s: "-".join(s.values()))
def test_learned_books(settings: dict[str, Any], data: str) -> None:
    x = clustered(300, 16) if data == "clustered" else gradients(300)
    index = il.Index.build(x, n_bytes=6, n_words=32, threads=1, iterations=2, **settings)
    check(index)
    # The bound is of some use: next to distances between rows it is small, unless a byte stands for cross terms.
    if settings.get("cross") != "byte":
        typical = index.search(x, 100, margin="exact", threads=1).distances[:, -1].mean()
        assert np.asarray(index.distance_error(x)).mean() < 0.2 * typical


@given(
    seed=st.integers(0, 10**6),
    layout=st.sampled_from(LAYOUTS),
    metric=st.sampled_from(METRICS),
    scale=st.sampled_from([1e-12, 1e-3, 1.0, 300.0, 1e14]),
    integers=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_random_books(seed: int, layout: str, metric: str, scale: float, integers: bool) -> None:
    rng = np.random.default_rng(seed)
    codebooks = random_codebooks(rng, layout, metric=metric, scale=scale, integers=integers, n_books=5)
    codes = random_codes(rng, codebooks, 90)
    index = index_of(codebooks, codes[:60], codes[60:])
    if metric == "cosine":  # reconstructions need not have length 1 there
        q = rng.normal(size=(20, codebooks.dim)).astype(np.float32)
        every = index.search(q, 90, margin=math.inf, threads=1)
        unit = (q / np.linalg.norm(q.astype(np.float64), axis=1, keepdims=True)).astype(np.float64)
        exact = codebooks.metric_type.distances(unit, codebooks.decode(codes).astype(np.float64))
        off = np.abs(np.take_along_axis(exact, every.ids, axis=1) - every.distances)
        assert (off <= np.asarray(index.distance_error(q))[:, None]).all()
    else:
        check(index)


def test_negative_sums_come_out_as_zero_on_every_level_and_in_the_reference() -> None:
    """Books of words that cancel each other: distances of 0, made of large terms."""
    x = gradients(200)
    index = il.Index.build(x, n_bytes=6, n_words=16, layout="residual", threads=1, iterations=2)
    codes = index.engine.codes_of(np.arange(200))
    vectors = index.reconstruct(index.ids[:40])
    before, answers = _native.simd_level(), []
    for level in _native.simd_levels():
        _native.force_simd_level(level)
        answers.append([index.search(vectors, 9, margin=margin, threads=1) for margin in ("exact", math.inf)])
    _native.force_simd_level(before)
    expected = [reference.exhaustive(index.codebooks, codes, q, 9) for q in vectors]
    for found in [answer for level in answers for answer in level]:
        assert found.distances.tolist() == [[float(hit.distance) for hit in hits] for hits in expected]
        assert found.ids.tolist() == [[hit.row for hit in hits] for hits in expected]
    zeros = [distance for hits in expected for distance in [hits[0].distance] if distance == 0]
    assert len(zeros) >= 5  # about half of the sums would be negative
    assert not np.isnan(np.sqrt(answers[0][0].distances)).any()
    filtered = index.search(vectors, 3, filter=np.arange(200) < 40, threads=1)
    assert (filtered.distances >= 0).all()
    for row in range(40):
        explained = index.explain(vectors[row], row)
        assert explained.distance >= 0
        assert explained.rank <= 200
    assert index.range_search(vectors, -1e-30).counts.sum() == 0


def test_single_queries_stores_and_embedded_vectors(tmp_path: Path) -> None:
    x = clustered(120, 6)
    index = il.Index.build(x, n_bytes=4, layout="residual", cross="byte", threads=1)
    error = index.distance_error(x[0])
    assert isinstance(error, float)
    assert error == np.asarray(index.distance_error(x))[0]
    store = index.to_store(tmp_path / "s")
    assert store.distance_error(x[0]) == store.snapshot.distance_error(x[0]) == error
    assert il.Index(index.codebooks).distance_error(x[0]) <= error  # norms are judged by the rows that there are
    with pytest.raises(il.InputError, match="dimensions"):
        index.distance_error(x[0, :3])
