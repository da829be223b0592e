"""Any data: each layout learns, search is exact to the codes, and the codes stand for the rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import interlace as il

LAYOUTS = ("auto", "subspace", "hybrid", "residual")
QUICK: dict[str, Any] = {"iterations": 2, "threads": 1}


def falling(n: int, dim: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, dim)) * 0.8 ** (np.arange(dim) % 30)).astype(np.float32)


def checked(x: np.ndarray, *, error: float, **settings: Any) -> il.Index:
    """An index of x, searched exactly; its codes leave at most this share of the variance."""
    index = il.Index.build(x, **{**QUICK, "n_bytes": 8, **settings})
    queries = np.ascontiguousarray(x[:8])
    exact, everything = (index.search(queries, 5, margin=margin) for margin in ("exact", math.inf))
    np.testing.assert_array_equal(exact.ids, everything.ids)
    np.testing.assert_array_equal(exact.distances, everything.distances)
    assert np.isfinite(exact.distances[:, : min(5, len(x))]).all()
    assert (exact.counts == min(5, len(x))).all()
    index.search(queries, 5)
    target = x.astype(np.float64)
    if settings.get("metric") == "cosine":
        target /= np.linalg.norm(target, axis=1, keepdims=True)
    coded = index.reconstruct(np.arange(len(x)))
    assert np.isfinite(coded).all()
    # What float32 cannot tell from the value itself is no error.
    allowed = error * target.var(0).sum() + 1e-11 * (target**2).sum(1).mean()
    assert ((coded - target) ** 2).sum(1).mean() <= allowed
    return index


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", [1, 2, 3, 13])
def test_dimensions(layout: str, dim: int) -> None:
    checked(falling(500, dim), layout=layout, error=0.005)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_thousand_dimensions(layout: str) -> None:
    checked(falling(300, 1024), layout=layout, n_words=32, error=0.9)


@pytest.mark.slow
def test_four_thousand_dimensions() -> None:
    checked(falling(300, 4096), layout="hybrid", n_words=32, error=0.9)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [1, 2, 10, 255, 256, 257])
def test_numbers_of_rows(layout: str, n: int) -> None:
    checked(falling(n, 6), layout=layout, error=1e-4)


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_metrics_off_the_origin(layout: str, metric: str) -> None:
    checked(falling(600, 8) * 100 + 3, layout=layout, metric=metric, error=0.005)


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_identical_rows(layout: str, metric: str) -> None:
    checked(np.full((300, 5), 3, np.float32), layout=layout, metric=metric, error=0)
    checked(falling(1, 5), layout=layout, metric=metric, error=0)


def duplicates() -> np.ndarray:
    return np.repeat(falling(200, 8), 2, axis=0)


def constant_columns() -> np.ndarray:
    x = falling(400, 8)
    x[:, 3], x[:, 5] = 7, 0
    return x


def an_outlier() -> np.ndarray:
    x = falling(400, 8)
    x[5] *= 1e6
    return x


def integers() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (600, 8)).astype(np.uint8)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("data", [duplicates, constant_columns, an_outlier, integers])
def test_odd_data(layout: str, data: Any) -> None:
    checked(data(), layout=layout, error=1e-3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tight_clusters_far_apart(layout: str) -> None:
    """All of the variance is between them: the codes must tell clusters apart, and rows inside of one."""
    rng = np.random.default_rng(0)
    centres, of = rng.normal(size=(20, 8)) * 30, rng.integers(20, size=1200)
    x = (centres[of] + rng.normal(size=(1200, 8))).astype(np.float32)
    index = checked(x, layout=layout, error=1e-3)
    found = index.search(x[:100], 10, margin="exact").ids
    assert (of[found] == of[:100, None]).mean() > 0.99
    inside = ((index.reconstruct(np.arange(1200)) - x) ** 2).sum(1).mean()
    assert inside < 0.5 * 8  # the variance inside of the clusters


@pytest.mark.parametrize("layout", LAYOUTS)
def test_numbers_of_bytes_and_words(layout: str) -> None:
    x = falling(400, 12)
    for n_bytes, error in ((1, 0.12), (2, 0.06), (3, 0.03), (8, 0.003), (16, 0.003), (64, 0.003)):
        index = checked(x, layout=layout, n_bytes=n_bytes, error=error)
        assert index.codebooks.n_bytes == (
            n_bytes if n_bytes <= 12 or layout == "residual" else 12 + (layout != "subspace")
        )
    for n_words, error in ((16, 0.06), (2, 0.5)):
        books = checked(x, layout=layout, n_words=n_words, error=error).codebooks.books
        assert max(len(b.words) for b in books) == n_words


@pytest.mark.parametrize("cross", ["exact", "byte"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_cross_terms(layout: str, cross: str) -> None:
    index = checked(falling(1500, 12), layout=layout, cross=cross, n_bytes=5, n_words=64, error=0.08)
    assert index.codebooks.n_bytes == 5
    checked(np.full((300, 5), 3, np.float32), layout=layout, cross=cross, n_bytes=5, error=0)
    checked(falling(300, 1), layout=layout, cross=cross, n_bytes=5, error=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e-3, 1e3, 1e6, 1e15])
def test_scales(layout: str, scale: float) -> None:
    checked(falling(400, 8) * np.float32(scale), layout=layout, error=0.003)
