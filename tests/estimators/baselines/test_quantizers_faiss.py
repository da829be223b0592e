"""Errors of product books, rotated or not, beside those of faiss on the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import interlace as il
from interlace.quantizers import OPQ, PQ, CKMeans

faiss = pytest.importorskip("faiss", reason="faiss is not installed: pip install 'interlace[faiss]'")


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


def generated(n: int = 6000, dim: int = 32) -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0] * 0.9 ** np.arange(dim)
    centres = rng.normal(size=(30, dim))
    return ((centres[rng.integers(0, 30, n)] + rng.normal(size=(n, dim))) @ basis.T).astype(np.float32)


def digits() -> NDArray[np.float32]:
    pytest.importorskip("sklearn", reason="the digits are part of scikit-learn")
    return np.asarray(il.data.digits(n_queries=1).x)


def ours(model: Any, x: Any) -> float:
    return float(((model.fit(x).transform(x).astype(np.float64) - x) ** 2).sum(1).mean())


def theirs(x: Any, n_books: int, *, rotate: bool) -> float:
    """The error of faiss's product quantizer, behind its learned rotation or not; 64 words in each book."""
    y = x
    if rotate:
        matrix = faiss.OPQMatrix(x.shape[1], n_books)
        matrix.pq = pq = faiss.ProductQuantizer(x.shape[1], n_books, 6)
        matrix.train(x)
        y = matrix.apply(x)
    pq = faiss.ProductQuantizer(x.shape[1], n_books, 6)
    pq.cp.min_points_per_centroid = 1
    pq.train(y)
    return float(((pq.decode(pq.compute_codes(y)).astype(np.float64) - y) ** 2).sum(1).mean())


@pytest.mark.parametrize("rows", [generated, digits])
def test_product_books_are_as_good_as_theirs(rows: Any) -> None:
    x = rows()
    mine = ours(PQ(8, n_words=64, max_train_rows=len(x), threads=1), x)
    assert mine < 1.02 * theirs(x, 8, rotate=False)


# Cartesian k-means starts from the given axes, which are no good ones of generated rows.
@pytest.mark.parametrize(("rows", "quantizer"), [(generated, OPQ), (digits, OPQ), (digits, CKMeans)])
def test_rotated_books_are_as_good_as_theirs(rows: Any, quantizer: Any) -> None:
    x = rows()
    mine = ours(quantizer(8, n_words=64, max_train_rows=len(x), threads=1), x)
    assert mine < 1.02 * theirs(x, 8, rotate=True)
