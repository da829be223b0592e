"""What was learned as codebooks: distances, bytes, books on psi or off it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch", reason="the train extra is not installed")


from interlace import Recipe  # noqa: E402
from interlace.codec.encode import encode  # noqa: E402
from interlace.quantizers import SQ  # noqa: E402
from joint_data import SHORT, icq, labelled  # noqa: E402

X, Y = labelled()


@pytest.mark.parametrize("n_books", [1, 2, 3, 13])
@pytest.mark.parametrize("cross", ["constant", "byte", "exact"])
def test_codes_are_searched_by_their_distances(cross, n_books):
    model = icq(cross=cross, n_books=n_books).fit(X, Y)
    queries, _ = labelled(40, seed=5)
    index, z = model.index(X), model.embed(queries).astype(np.float64)
    found = index.search(queries, len(X), margin=math.inf)
    decoded = model.decode(model.codes_).astype(np.float64)
    expected = np.take_along_axis(((z[:, None] - decoded) ** 2).sum(2), found.ids, 1)
    codebooks = model.codebooks_
    assert codebooks.n_bytes == n_books + (cross == "byte" and n_books > 2)
    assert_array_equal(np.sort(found.ids, 1), np.tile(np.arange(len(X)), (40, 1)))
    if cross == "exact" or n_books < 3:
        assert_allclose(found.distances, expected, rtol=2e-3, atol=1e-3)
    elif cross == "byte":  # rounds the cross terms; they were not made for those of rows held out
        assert_allclose(found.distances, expected, atol=0.03)
        assert np.abs(found.distances - expected).mean() < 1e-3
    else:  # with a constant, the order is what counts
        assert np.corrcoef(found.distances.ravel(), expected.ravel())[0, 1] > 0.99
    exact = index.search(queries, 10, margin="exact")
    assert_array_equal(exact.distances, found.distances[:, :10])
    assert codebooks.n_crude == (n_books if n_books < 3 else codebooks.n_crude)
    assert model.score(X, Y) > 0.9


@pytest.mark.parametrize(
    ("n_bytes", "cross", "n_books"), [(8, "auto", 8), (8, "byte", 7), (17, "byte", 16), (2, "byte", 2)]
)
def test_bytes_count_everything_that_is_stored(n_bytes, cross, n_books):
    model = icq(n_books=None, n_bytes=n_bytes, cross=cross).fit(X, Y)
    assert (model.codebooks_.n_bytes, model.codebooks_.n_books) == (n_bytes, n_books)
    assert model.codes_.shape == (600, n_bytes)
    product = SQ("pq", n_bytes=4, cross="byte", n_words=16, threads=1, recipe=Recipe(**SHORT)).fit(X, Y)
    assert (product.codebooks_.n_bytes, product.codebooks_.n_books) == (4, 4)


@pytest.mark.parametrize("n_books", [3, 8])
@pytest.mark.parametrize("recipe", [{}, {"groups": "hard"}, {"groups": "hard", "hard_end": False}])
def test_in_the_end_books_are_on_psi_or_off_it(recipe, n_books):
    model = icq(recipe, n_books=n_books).fit(X, Y)
    psi = {*model.codebooks_.crude_dims.tolist()}
    supports = [{*book.support.tolist()} for book in model.codebooks_.books]
    n_psi = max(1, n_books // 4)
    assert 0 < len(psi) < 12
    assert supports == [psi] * n_psi + [{*range(12)} - psi] * (n_books - n_psi)
    assert 1 <= model.codebooks_.n_crude <= n_psi
    assert_array_equal(model.encode(X), model.codes_)


def test_a_soft_end_leaves_words_where_they_are():
    model = icq({"hard_end": False}).fit(X, Y)
    assert all(len(book.support) == 12 for book in model.codebooks_.books)
    assert model.score(X, Y) > 0.9


@pytest.mark.parametrize("n_crude", [1, 3, 4])
def test_the_number_of_crude_books_may_be_given(n_crude):
    assert icq(n_crude=n_crude).fit(X, Y).codebooks_.n_crude == n_crude


def test_rows_are_coded_once_however_many_crude_books_are_tried(monkeypatch):
    calls = []

    def counted(codebooks, z, threads):
        calls.append(codebooks.n_crude)
        return encode(codebooks, z, threads)

    monkeypatch.setattr("interlace.learn.joint.finish.encode", counted)
    for n_books, tried in ((4, 1), (13, 3)):
        calls.clear()
        by_work = icq(n_books=n_books).fit(X, Y)
        assert len(calls) == (tried > 1)  # with one choice there is nothing to compare
        given = [icq(n_books=n_books, n_crude=n).fit(X, Y) for n in range(1, tried + 1)]
        assert all(np.array_equal(model.codes_, by_work.codes_) for model in given)
        assert by_work.fit_info_["ops"] <= 1.1 * min(model.fit_info_["ops"] for model in given)
