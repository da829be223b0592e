"""Indexes of faiss here: the same answers, and every index that fits comes through."""

from __future__ import annotations

import numpy as np
import pytest

import interlace as il
from faiss_checks import (
    DIM,
    IP,
    L2,
    LAYOUTS,
    assert_same_answers,
    codes_of,
    faiss,
    linear,
    queries,
    quick,
    transformed,
    with_eight_bits,
)
from helpers import METRICS, build, clustered, same_index

pytestmark = pytest.mark.usefixtures("one_faiss_thread")


SPECS = [
    *("PQ4x4", "PQ3x5", "PQ12x2", "PQ1x6", "OPQ4,PQ4x4", "RR12,PQ4x4", "Pad16,PQ4x4", "L2norm,RR12,PQ4x4"),
    *("RQ1x4", "RQ2x4", "RQ4x4", "RQ2x3_2x5", "RQ3x4_Nfloat", "RQ3x4_Nqint8", "OPQ4,RQ3x4", "LSQ3x4", "LSQ3x4_Nfloat"),
    *("IVF1,PQ3x4", "IVF16,PQ4x4", "IVF16,PQ3x5", "OPQ4,IVF16,PQ4x4", "PCA12,PQ4x4", "PCAR12,IVF16,PQ3x4"),
    *("IDMap,PQ4x4", "IDMap2,OPQ4,PQ4x4", "IDMap2,RQ3x4", "L2norm,IDMap2,RQ3x4", "IDMap2,IVF16,PQ3x4"),
]


def is_taken(spec, metric):
    """Inner products do not survive a bias, distances do not survive normalization."""
    return not (metric == IP and "PCA" in spec)


def made_by_faiss(spec, metric=L2, n=150, dim=DIM):
    """A trained faiss index with rows; its lists all visited."""
    index = faiss.index_factory(dim, spec, metric)
    quick(index)
    index.train(clustered(1300, dim, seed=4))
    x = clustered(n, dim, seed=6)
    if "IDMap" in spec:
        index.add_with_ids(x, np.arange(n)[::-1] * 3 + 11)
    else:
        index.add(x)
    if "IVF" in spec:
        inner = faiss.extract_index_ivf(index)
        inner.nprobe = inner.nlist
    return index


def faiss_codes(whole):
    """Codes [n, n_books] as faiss unpacks them, by ascending id."""
    index, ids = faiss.downcast_index(whole), None
    while isinstance(index, faiss.IndexIDMap | faiss.IndexPreTransform):
        ids = faiss.vector_to_array(index.id_map) if isinstance(index, faiss.IndexIDMap) else ids
        index = faiss.downcast_index(index.index)
    if isinstance(index, faiss.IndexIVFPQ):
        rows = {}
        for i in range(index.nlist):
            size = index.invlists.list_size(i)
            if size:
                own = faiss.rev_swig_ptr(index.invlists.get_ids(i), size)
                packed = faiss.rev_swig_ptr(index.invlists.get_codes(i), size * index.code_size).reshape(size, -1)
                codes = faiss.unpack_bitstrings(packed.copy(), index.pq.M, index.pq.nbits)
                rows |= {row: [i, *code] for row, code in zip(own.tolist(), codes.tolist(), strict=True)}
        codes = np.array([rows[row] for row in sorted(rows)])
    else:
        product = isinstance(index, faiss.IndexPQ)
        bits = [index.pq.nbits] * index.pq.M if product else faiss.vector_to_array(index.aq.nbits)
        packed = faiss.vector_to_array(index.codes).reshape(index.ntotal, index.code_size)
        codes = faiss.unpack_bitstrings(packed, bits)
    assert whole.ntotal == len(codes)  # and it is alive: faiss frees what is inside with it
    return codes if ids is None else codes[np.argsort(ids)]


@pytest.mark.parametrize("metric", [L2, IP], ids=["l2", "ip"])
@pytest.mark.parametrize("spec", SPECS)
def test_an_index_of_faiss_gives_the_same_answers_here(spec, metric):
    if not is_taken(spec, metric):
        return  # refused, see below
    made = made_by_faiss(spec, metric)
    index = il.from_faiss(made)
    assert index.metric == ("cosine" if "L2norm" in spec else "l2" if metric == L2 else "ip")
    q = clustered(5, DIM, seed=8)
    if "qint8" in spec:  # faiss rounds the length of every row; the distances here are those of the codes
        made = il.to_faiss(index)
    assert_same_answers(index, made, q)
    index.verify()
    again = il.to_faiss(index)
    np.testing.assert_array_equal(faiss_codes(again), faiss_codes(made))
    assert_same_answers(index, again, q)
    back = il.from_faiss(again)
    np.testing.assert_array_equal(codes_of(back), codes_of(index))
    np.testing.assert_array_equal(back.ids, index.ids)
    assert (back.metric, back.ids_of_rows.kind) == (index.metric, index.ids_of_rows.kind)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("ids", ["default", "int64"])
def test_there_and_back_keeps_rows_ids_and_answers(layout, metric, ids):
    index = build(130, 13, layout=layout, metric=metric, ids=ids)
    back = il.from_faiss(il.to_faiss(index))
    assert back.metric == metric
    np.testing.assert_array_equal(back.ids, index.ids)
    assert back.ids_of_rows.kind == ids
    s = index.codebooks.metric_type.query_length  # faiss has shorter words in place of longer queries
    np.testing.assert_allclose(s * back.reconstruct(index.ids), index.reconstruct(index.ids), atol=1e-5)
    assert_same_answers(back, il.to_faiss(index), clustered(4, 13, seed=9))


@pytest.mark.parametrize("metric", [L2, IP], ids=["l2", "ip"])
@pytest.mark.parametrize("dim", [1, 12, 13])
@pytest.mark.parametrize("kind", ["IndexPQ", "IndexResidualQuantizer", "IndexLocalSearchQuantizer"])
def test_books_of_eight_bits(kind, dim, metric):
    n_books = dim if kind == "IndexPQ" else 4
    core = with_eight_bits(getattr(faiss, kind)(dim, n_books, 8, metric))
    codes = np.random.default_rng(1).integers(256, size=(99, n_books), dtype=np.uint8)
    core.add_sa_codes(codes)
    index = il.from_faiss(core)
    assert_same_answers(index, core, queries(4, dim))
    np.testing.assert_array_equal(faiss_codes(il.to_faiss(index)), codes)


def test_an_empty_index_takes_rows_as_faiss_does():
    core = with_eight_bits(faiss.IndexPQ(DIM, 4, 8))
    index = il.from_faiss(core)
    assert len(index) == 0
    x = queries(50, DIM)
    index.add(x)
    core.add(x)
    np.testing.assert_array_equal(
        codes_of(index)[:, np.argsort([b.support[0] for b in index.codebooks.books])], core.sa_encode(x)
    )
    assert_same_answers(index, core, queries(3, DIM, seed=1))


@pytest.mark.parametrize("spec", ["RQ4x4", "LSQ3x4", "RQ2x3_2x5"])
def test_additive_books_need_no_norm_column(spec):
    made = made_by_faiss(spec)
    index = il.from_faiss(made)
    codebooks = index.codebooks
    assert codebooks.norms == ()
    assert codebooks.n_crude == codebooks.n_books == codebooks.n_bytes
    q = clustered(20, DIM, seed=8)
    ours, theirs = index.search(q, 10, margin="exact", threads=1).distances, made.search(q, 10)[0]
    scale = np.abs(theirs).max()
    assert np.abs(ours - theirs).max() < 1e-3 * scale  # words are int16 where cross terms are added


def test_an_empty_additive_index_takes_rows():
    core = with_eight_bits(faiss.IndexResidualQuantizer(DIM, 4, 8))
    index = il.from_faiss(core)
    assert len(index) == 0
    x = queries(40, DIM)
    index.add(x, threads=1)
    assert_same_answers(index, il.to_faiss(index), queries(3, DIM, seed=1))


def test_books_with_the_widest_spread_come_first():
    index = il.from_faiss(made_by_faiss("PQ4x4"))
    vectors = index.reconstruct(index.ids)
    spreads = [vectors[:, book.support].var(0).sum() for book in index.codebooks.books]
    assert spreads == sorted(spreads, reverse=True)
    unseen = sum(spreads[index.codebooks.n_crude :])
    assert index.codebooks.residual_variance == pytest.approx(unseen, rel=1e-4)
    assert il.from_faiss(made_by_faiss("IVF16,PQ4x4")).codebooks.n_crude == 3


def test_it_is_an_index_like_any_other(tmp_path):
    index = il.from_faiss(made_by_faiss("IDMap2,OPQ4,PQ4x4", n=500))
    assert index.search(queries(1, DIM), 3).stats.fallback == "0.999 not calibrated"
    index.calibrate(clustered(400, DIM, seed=10))
    index.save(tmp_path / "a")
    assert same_index(index, il.open(tmp_path / "a"))
    index.add(clustered(20, DIM, seed=11), ids=np.arange(20) - 100)
    index.verify()
    assert len(index) == 520


def test_the_encoder_keeps_its_beam():
    core = with_eight_bits(faiss.IndexResidualQuantizer(DIM, 4, 8))
    core.add_sa_codes(np.zeros((1, 4), np.uint8))
    core.rq.max_beam_size = 7
    index = il.from_faiss(core)
    made = il.to_faiss(index)
    assert (index.codebooks.beam, made.rq.max_beam_size) == (7, 7)


def test_ids_of_lists_are_sorted_rows():
    made = faiss.index_factory(DIM, "IVF16,PQ3x4")
    quick(made)
    made.train(clustered(1300, DIM, seed=4))
    made.add_with_ids(clustered(50, DIM), np.arange(50)[::-1] * 2 + 7)
    made.nprobe = 16
    index = il.from_faiss(made)
    np.testing.assert_array_equal(index.ids, np.arange(50) * 2 + 7)
    assert_same_answers(index, made, clustered(4, DIM, seed=1))


def test_centring_and_bias_become_the_mean():
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]
    for transform in (
        faiss.CenteringTransform(DIM),
        linear(turn, rng.normal(size=DIM)),
        linear(np.eye(DIM), np.ones(DIM)),
    ):
        made = transformed(transform)
        made.add(clustered(60, DIM))
        index = il.from_faiss(made)
        assert index.codebooks.mean.any()
        assert_same_answers(index, made, clustered(3, DIM, seed=1))
