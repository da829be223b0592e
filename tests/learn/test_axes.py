"""Rotations of many dimensions are float16 numbers, which search keeps in half the memory, with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import interlace as il
from helpers import clustered
from interlace import reference
from interlace.codec.rounding import _largest_stretch
from interlace.learn.axes import in_halves


def orthonormal(dim: int) -> Any:
    return np.linalg.qr(np.random.default_rng(dim).normal(size=(dim, dim)))[0].astype(np.float32)


@pytest.mark.parametrize(("dim", "rounded"), [(448, False), (512, True), (520, False), (576, True)])
def test_rounded_from_512_dimensions_on(dim: int, rounded: bool) -> None:
    rotation = orthonormal(dim)
    found = in_halves(rotation)
    assert found.dtype == np.float32
    assert np.array_equal(found, rotation) != rounded
    assert np.abs(found - rotation).max() <= 2.0**-11 * np.abs(rotation).max()
    assert np.abs(found.T.astype(np.float64) @ found - np.eye(dim)).max() < 2.0**-10  # Codebooks refuses 1e-3


def test_the_bound_of_a_spectral_norm() -> None:
    assert _largest_stretch(np.zeros((3, 3))) == 0
    for dim in (1, 2, 60):
        for size in (1e-120, 1e-7, 1.0):
            some = np.random.default_rng(dim).normal(size=(dim, dim)) * size
            exact = np.linalg.norm(some + some.T, 2)
            assert exact * (1 - 1e-12) <= _largest_stretch(some + some.T) <= dim**0.125 * exact * (1 + 1e-12)


@pytest.mark.parametrize("layout", ["subspace", "hybrid"])
@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_codes_and_answers_equal_the_reference_to_the_last_bit(simd: str, layout: Any, metric: Any) -> None:
    x = clustered(300, 512)
    index = il.Index.build(x[:250], n_bytes=4, n_words=8, layout=layout, metric=metric, threads=1, iterations=1)
    rotation = index.codebooks.rotation
    assert rotation is not None
    assert np.array_equal(rotation, rotation.astype(np.float16))
    assert np.array_equal(index.engine.codes_of(np.arange(3)), reference.encode(index.codebooks, x[:3]))
    codes = index.engine.codes_of(np.arange(250))
    for queries in (x[250:251], x[250:256]):  # alone, and in a batch with a remainder
        found = index.search(queries, 5, margin="exact", threads=1)
        for q, distances in zip(queries, found.distances, strict=True):
            hits = reference.exhaustive(index.codebooks, codes, q, 5)
            assert [np.float32(hit.distance) for hit in hits] == distances.tolist()
