"""Our indexes in faiss: an independent judge of our distances."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace as il
from books import index_of, index_with, random_codebooks, random_codes
from faiss_checks import DIM, LAYOUTS, assert_same_answers, codes_of, faiss, queries
from helpers import METRICS, build, clustered, small_index
from interlace.index.ids import Ids
from raising import raises

pytestmark = pytest.mark.usefixtures("one_faiss_thread")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("layout", ["subspace", "hybrid", "additive"])  # norms at random are no cross terms
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_faiss_finds_the_same_distances(layout, metric, data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_books = data.draw(st.integers(1, 5))
    codebooks = random_codebooks(
        rng,
        layout,
        dim=data.draw(st.integers(n_books, 13)),
        n_books=n_books,
        n_words=data.draw(st.sampled_from([1, 3, 16, 256])),
        n_crude=data.draw(st.integers(1, n_books)),
        metric=metric,
        integers=data.draw(st.booleans()),
    )
    codes = random_codes(rng, codebooks, data.draw(st.sampled_from([0, 1, 2, 65])))
    cut = data.draw(st.integers(0, len(codes)))
    index = index_of(codebooks, codes[:cut], codes[cut:])
    if data.draw(st.booleans()):
        ids = Ids.of(rng.permutation(10_000)[: len(codes)].astype(np.int64) - 5_000)
        index = index_with(codebooks, index.engine.segments, ids)
    assert_same_answers(index, il.to_faiss(index), queries(3, codebooks.dim))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("n", "dim"), [(300, 13), (200, 1), (300, 16), (5, 7), (1, 3)])
@pytest.mark.parametrize("layout", ["auto", *LAYOUTS])
def test_a_learned_index_goes_through(layout, n, dim, metric):
    index = build(n, dim, layout=layout, metric=metric, ids="int64" if n > 5 else "default", n_bytes=5)
    assert_same_answers(index, il.to_faiss(index), clustered(4, dim, seed=5))


@pytest.mark.parametrize("cross", ["exact", "byte"])
@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual"])
def test_cross_terms_of_either_kind_go_through(layout, cross):
    index = build(300, 13, layout=layout, cross=cross, n_bytes=6, iterations=2)
    assert len(index.codebooks.norms) == (cross == "byte")
    made = il.to_faiss(index)
    assert_same_answers(index, made, clustered(4, 13, seed=5))
    again = il.from_faiss(made)
    np.testing.assert_array_equal(codes_of(again), codes_of(index))


@pytest.mark.parametrize(
    ("layout", "kind"), [("subspace", "PQ"), ("hybrid", "IVFPQ"), ("residual", "ResidualQuantizer")]
)
def test_each_layout_has_its_kind(layout, kind):
    made = il.to_faiss(build(layout=layout))  # kept: faiss frees what is inside with it
    assert type(faiss.downcast_index(made.index)).__name__ == f"Index{kind}"


@pytest.mark.parametrize("metric", METRICS)
def test_dimensions_without_a_book_count(metric):
    rng = np.random.default_rng(0)
    for supports in ([[1, 4], [2]], [[0, 3], [5]], [[5], [0]], [[0, 1, 2], [1], [2]]):
        books = [il.Book(rng.normal(size=(9, len(s))), s) for s in supports]
        codebooks = il.Codebooks(books, dim=6, n_crude=1, metric=metric, mean=rng.normal(size=6))
        index = index_of(codebooks, random_codes(rng, codebooks, 30))
        assert_same_answers(index, il.to_faiss(index), queries(3, 6))


@pytest.mark.parametrize("metric", METRICS)
def test_books_that_share_some_dimensions(metric):
    index = small_index(ids="int64", n=40, metric=metric, norms=metric == "l2")
    assert_same_answers(index, il.to_faiss(index), queries(4, 4))


@pytest.mark.parametrize("ids", ["default", "int64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_faiss_keeps_it_in_a_file_and_decodes_it(layout, ids):
    index = build(70, 7, layout=layout, ids=ids)
    made = il.to_faiss(index)
    again = faiss.deserialize_index(faiss.serialize_index(made))
    q = clustered(4, 7, seed=3)
    for a, b in zip(made.search(q, 6), again.search(q, 6), strict=True):
        np.testing.assert_array_equal(a, b)
    for kept in (made, again):
        if layout == "hybrid":  # faiss finds a row of lists through a map that is made on demand
            faiss.extract_index_ivf(kept).make_direct_map()
        decoded = [kept.reconstruct(int(i)) for i in index.ids]
        np.testing.assert_allclose(decoded, index.reconstruct(index.ids), atol=1e-5)


def test_a_rotation_in_half_precision():
    x = clustered(300, 512, seed=1) + 50
    index = il.Index.build(x, n_bytes=4, n_words=16, layout="subspace", iterations=1, threads=1)
    made = il.to_faiss(index)
    decoded = [made.reconstruct(int(i)) for i in index.ids]
    np.testing.assert_allclose(decoded, index.reconstruct(index.ids), atol=1e-3)
    read = faiss.deserialize_index(faiss.serialize_index(made))  # which may search, but not decode
    np.testing.assert_array_equal(made.search(x[:9], 5)[1], read.search(x[:9], 5)[1])
    np.testing.assert_array_equal(il.from_faiss(made).codebooks.mean, index.codebooks.mean)


@pytest.mark.parametrize("metric", ["l2", "ip"])
def test_both_encoders_choose_the_same_words(metric):
    x = clustered(400, DIM, seed=1)
    index = il.Index.build(x, n_bytes=4, layout="subspace", metric=metric, threads=1)
    made = il.to_faiss(index)
    made.add(x)
    assert made.ntotal == 800
    again = il.from_faiss(made)
    codes, decoded = codes_of(again), again.reconstruct(again.ids)
    assert (codes[:400] == codes[400:]).mean() > 0.99  # ties, and copies of a word
    errors = ((decoded.reshape(2, 400, DIM) - x) ** 2).sum(2)
    np.testing.assert_allclose(errors[0], errors[1], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layout", ["hybrid", "residual"])
def test_rows_added_in_faiss_are_found(layout):
    x = clustered(300, DIM)
    made = il.to_faiss(il.Index.build(x[:200], n_bytes=6, layout=layout, threads=1))
    made.add(x[200:])
    assert (made.search(x[200:], 3)[1] == np.arange(200, 300)[:, None]).any(1).mean() > 0.9


def test_a_file_of_ours_goes_through(tmp_path):
    index = build(90, 6, ids="int64")
    index.save(tmp_path / "a")
    assert_same_answers(il.open(tmp_path / "a"), il.to_faiss(il.open(tmp_path / "a")), clustered(3, 6, seed=2))


def test_what_has_no_place_in_faiss_is_refused(monkeypatch):
    with pytest.raises(il.InputError, match="string ids.*int64"):
        il.to_faiss(build(ids="string"))
    with raises(il.InputError, "ndarray", "Index"):
        il.to_faiss(np.zeros((2, 2)))
    monkeypatch.setitem(sys.modules, "faiss", None)
    with raises(il.InputError, "to_faiss", "faiss", "'interlace[faiss]'"):
        il.to_faiss(build())
    with raises(il.InputError, "from_faiss", "faiss", "'interlace[faiss]'"):
        il.from_faiss(None)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("layout", ["hybrid", "residual"])
@pytest.mark.parametrize("cells", [257, 300, 700])
def test_more_cells_than_a_byte_can_number_go_through(layout, metric, cells):
    rng = np.random.default_rng(cells)
    x = rng.normal(size=(2500, 8)).astype(np.float32)
    index = il.Index.build(x, n_bytes=5, layout=layout, metric=metric, cells=cells, n_words=16, iterations=1, threads=1)
    assert index.codebooks.n_cells > 256
    assert_same_answers(index, il.to_faiss(index), queries(4, 8))
