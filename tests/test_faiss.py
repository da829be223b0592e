"""The door to faiss and back: an independent judge of our distances, and every index that fits comes through."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace as il
from books import index_of, random_codebooks, random_codes
from helpers import METRICS, build, clustered, same_index, small_index
from interlace import reference
from interlace.ids import Ids

LAYOUTS = ("subspace", "hybrid", "residual")

faiss = pytest.importorskip("faiss", reason="faiss is not installed: pip install 'interlace[faiss]'")
DIM = 12


@pytest.fixture(autouse=True)
def _one_thread():
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


# ------------------------------------------------------------------------------------------------------------ oracles


def codes_of(index):
    """Codes [n, n_books], in the order of the books."""
    codes = index._codes_of(np.arange(len(index)))
    return np.stack([codes[:, (0, *index.codebooks.columns).index(b)] for b in range(index.codebooks.n_books)], axis=1)


def norm_errors(index):
    """What the rounding of norm columns, or a constant in their place, adds to the distance of every row."""
    codes, codebooks = index._codes_of(np.arange(len(index))), index.codebooks
    errors = np.zeros(len(index))
    dense = np.zeros((codebooks.n_books, 256, codebooks.dim))
    for b, book in enumerate(codebooks.books):
        dense[b][: len(book.words), book.support] = book.words
    for row, code in enumerate(codes):
        words = {c: dense[c][code[j]] for j, c in enumerate((0, *codebooks.columns)) if c >= 0}
        for i, norm in enumerate(codebooks.norms):
            stored = code[1 + codebooks.columns.index(-1 - i)] if norm.stored else 0
            pairs = [(a, b) for a in norm.covers for b in norm.covers if a < b]
            errors[row] += norm.values[stored] - sum(2 * words[a] @ words[b] for a, b in pairs)
    return errors


def rounding(index):
    """The most that int16 can cost: half a step for every column of cell terms, and what words of cross terms add.

    A word is off by half a step in each dimension, and 2 w_i.w_j over all pairs by no more than the lengths allow.
    """
    books = index.codebooks.books
    if index.metric != "l2":
        return 0.0
    terms = [float(np.abs(reference.cross_terms(books[0], book, index.dim)).max(initial=0)) for book in books[1:]]
    cells = sum(term > 0 for term in terms) * max(terms, default=0.0) / 32767 / 2
    linked = [b for b in books[1:] if any(a is not b and np.isin(a.support, b.support).any() for a in books[1:])]
    if index.codebooks.norms or not linked:
        return cells
    reach = sum(float(np.sqrt((book.words.astype(np.float64) ** 2).sum(1).max())) for book in linked)
    step = reach / (32700 - 0.5 * len(linked) * math.sqrt(index.dim))
    off = sum(step / 2 * math.sqrt(len(book.support)) for book in linked)
    return cells + 2 * reach * off + off**2


def slack(index, q):
    """Float rounding of a distance: relative to the squares that are added up in either library."""
    decoded = index.codebooks.decode(index._codes_of(np.arange(len(index))))
    size = np.abs(q).max(initial=0) + np.abs(decoded).max(initial=0) + np.abs(index.codebooks.mean).max()
    words = max(float(np.abs(book.words).max(initial=0)) for book in index.codebooks.books)
    return 3e-7 * index.dim * index.codebooks.n_books * (size + words) ** 2


def by_row(index, ids, distances):
    """Answers [queries, n] of all rows -> distances in row order."""
    out = np.full((len(ids), len(index)), np.nan)
    for i in range(len(ids)):
        out[i, index._ids.find(ids[i])] = distances[i]
    assert not np.isnan(out).any()
    return out


def as_distances(index, scores):
    return scores if index.metric == "l2" else (1.0 if index.metric == "cosine" else 0.0) - scores


def assert_same_answers(index, other, q, k=5):
    """All distances of both libraries against the decoded rows, then the k nearest of both against each other."""
    n = len(index)
    assert other.ntotal == n
    if n == 0:
        assert (other.search(q, 1)[1] == -1).all()
        return
    judged = q / np.linalg.norm(q, axis=1, keepdims=True) if index.metric == "cosine" else q
    codes = index._codes_of(np.arange(n))
    true = np.stack([reference.distance_to_decoded(index.codebooks, codes, row) for row in judged])
    scores, ids = other.search(q, n)
    theirs = by_row(index, ids, as_distances(index, scores))
    small = slack(index, q)
    np.testing.assert_allclose(theirs, true, rtol=0, atol=small)
    errors = norm_errors(index)
    ours = by_row(index, *index.search(q, n, margin=math.inf, threads=1))
    np.testing.assert_allclose(ours, true + errors, rtol=0, atol=small + rounding(index))
    k = min(k, n)
    apart = np.abs(ours - theirs).max()  # rows nearer to each other than this may change places
    assert apart <= 2 * small + rounding(index) + np.abs(errors).max()
    best, best_ids = other.search(q, k)
    for margin in ("exact", math.inf):
        found = index.search(q, k, margin=margin, threads=1)
        np.testing.assert_allclose(found.distances, as_distances(index, best), rtol=0, atol=apart + small)
        for i in range(len(q)):
            limit = as_distances(index, best)[i, -1] + 2 * apart + 1e-9
            assert (theirs[i, index._ids.find(found.ids[i])] <= limit).all()
            assert (ours[i, index._ids.find(best_ids[i])] <= found.distances[i, -1] + 2 * apart + 1e-9).all()


def queries(n, dim, seed=7):
    return np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)


# ----------------------------------------------------------------------------------------------------------- to faiss


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
        index._ids = Ids.of(rng.permutation(10_000)[: len(codes)].astype(np.int64) - 5_000)
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


@pytest.mark.parametrize("metric", METRICS)
def test_both_encoders_choose_the_same_words(metric):
    x = clustered(400, DIM, seed=1)
    index = il.Index.build(x, n_bytes=4, layout="subspace", metric=metric, threads=1)
    made = il.to_faiss(index)
    made.add(x)
    assert made.ntotal == 800
    again = il.from_faiss(made)
    codes, decoded = codes_of(again), again.reconstruct(again.ids)
    assert (codes[:400] == codes[400:]).mean() > 0.99  # ties, and copies of a word
    target = x / np.linalg.norm(x, axis=1, keepdims=True) if metric == "cosine" else x
    errors = ((decoded.reshape(2, 400, DIM) - target) ** 2).sum(2)
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
    with pytest.raises(il.InputError, match="needs an interlace Index, got ndarray"):
        il.to_faiss(np.zeros((2, 2)))
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(il.InputError, match=r"to_faiss needs faiss: pip install 'interlace\[faiss\]'"):
        il.to_faiss(build())
    with pytest.raises(il.InputError, match=r"from_faiss needs faiss: pip install 'interlace\[faiss\]'"):
        il.from_faiss(None)


# --------------------------------------------------------------------------------------------------------- from faiss

L2, IP = faiss.METRIC_L2, faiss.METRIC_INNER_PRODUCT
FEW_WORDS, COARSE = faiss.ProductQuantizer(DIM, 4, 4), faiss.IndexFlatL2(DIM)
SPECS = [
    *("PQ4x4", "PQ3x5", "PQ12x2", "PQ1x6", "OPQ4,PQ4x4", "RR12,PQ4x4", "Pad16,PQ4x4", "L2norm,RR12,PQ4x4"),
    *("RQ1x4", "RQ2x4", "RQ4x4", "RQ2x3_2x5", "RQ3x4_Nfloat", "RQ3x4_Nqint8", "OPQ4,RQ3x4", "LSQ3x4", "LSQ3x4_Nfloat"),
    *("IVF1,PQ3x4", "IVF16,PQ4x4", "IVF16,PQ3x5", "OPQ4,IVF16,PQ4x4", "PCA12,PQ4x4", "PCAR12,IVF16,PQ3x4"),
    *("IDMap,PQ4x4", "IDMap2,OPQ4,PQ4x4", "IDMap2,RQ3x4", "L2norm,IDMap2,RQ3x4", "IDMap2,IVF16,PQ3x4"),
]


def is_taken(spec, metric):
    """Inner products do not survive a bias, distances do not survive normalization."""
    return not (metric == IP and "PCA" in spec) and not (metric == L2 and "L2norm" in spec)


def quick(index):
    """No annealing of code words and a rotation good enough: seconds less of training."""
    inner = faiss.downcast_index(index)
    while isinstance(inner, faiss.IndexIDMap | faiss.IndexPreTransform):
        for i in range(inner.chain.size() if isinstance(inner, faiss.IndexPreTransform) else 0):
            transform = faiss.downcast_VectorTransform(inner.chain.at(i))
            if isinstance(transform, faiss.OPQMatrix):
                transform.niter, transform.niter_pq_0, transform.pq = 2, 2, FEW_WORDS
        inner = faiss.downcast_index(inner.index)
    if hasattr(inner, "do_polysemous_training"):
        inner.do_polysemous_training = False


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
    assert index.metric == ("l2" if metric == L2 else "cosine" if "L2norm" in spec else "ip")
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
    assert (back.metric, back._ids.kind) == (index.metric, index._ids.kind)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("ids", ["default", "int64"])
def test_there_and_back_keeps_rows_ids_and_answers(layout, metric, ids):
    index = build(130, 13, layout=layout, metric=metric, ids=ids)
    back = il.from_faiss(il.to_faiss(index))
    assert back.metric == metric
    np.testing.assert_array_equal(back.ids, index.ids)
    assert back._ids.kind == ids
    np.testing.assert_allclose(back.reconstruct(index.ids), index.reconstruct(index.ids), atol=1e-5)
    assert_same_answers(back, il.to_faiss(index), clustered(4, 13, seed=9))


def with_eight_bits(core, seed=0):
    """Words drawn instead of trained: 256 of them would want thousands of rows."""
    rng = np.random.default_rng(seed)
    vector = core.pq.centroids if hasattr(core, "pq") else core.aq.codebooks
    size = core.pq.d * 256 if hasattr(core, "pq") else core.d * core.aq.total_codebook_size
    faiss.copy_array_to_vector(rng.normal(size=size).astype(np.float32), vector)
    core.is_trained = True
    if not hasattr(core, "pq"):
        core.aq.is_trained = True
    return core


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
    assert index.search(queries(1, DIM), 3).stats.margin == "exact (0.999 not calibrated)"
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


def transformed(transform, core=None):
    core = with_eight_bits(faiss.IndexPQ(transform.d_out, 4, 8)) if core is None else core
    transform.train(clustered(100, transform.d_in))
    return faiss.IndexPreTransform(transform, core)


def linear(matrix, bias=None):
    made = faiss.LinearTransform(matrix.shape[1], matrix.shape[0], bias is not None)
    faiss.copy_array_to_vector(matrix.astype(np.float32).ravel(), made.A)
    if bias is not None:
        faiss.copy_array_to_vector(bias.astype(np.float32), made.b)
    made.is_trained = True
    return made


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


def remap(source, dim):
    made = faiss.RemapDimensionsTransform(dim, len(source), False)
    faiss.copy_array_to_vector(np.array(source, np.int32), made.map)
    return made


def nested():
    return faiss.IndexIDMap(faiss.IndexIDMap(with_eight_bits(faiss.IndexPQ(DIM, 4, 8))))


def named_lists():
    lists = faiss.index_factory(DIM, "IVF16,PQ3x4")
    quick(lists)
    lists.train(clustered(1300, DIM))
    outer = faiss.IndexIDMap(lists)
    lists.add_with_ids(clustered(3, DIM), np.array([5, 9, 1]))
    faiss.copy_array_to_vector(np.array([7, 8, 9]), outer.id_map)
    outer.ntotal = 3
    return outer


def twice_the_same_id():
    made = faiss.IndexIDMap(with_eight_bits(faiss.IndexPQ(DIM, 4, 8)))
    made.add_with_ids(clustered(3, DIM), np.array([4, 8, 4]))
    return made


def lists_of(change):
    made = faiss.IndexIVFPQ(COARSE, DIM, 16, 3, 4)
    made.is_trained = True
    change(made)
    return made


REFUSED = {
    "not an index": (lambda: "index", "needs a faiss index of float vectors, got str"),
    "binary": (lambda: faiss.IndexBinaryFlat(16), "float vectors, got IndexBinaryFlat"),
    "flat": (lambda: faiss.IndexFlatL2(DIM), "takes IndexPQ, IndexResidualQuantizer.*got IndexFlatL2"),
    "fast scan": (lambda: faiss.IndexPQFastScan(DIM, 4, 4), "got IndexPQFastScan"),
    "refined lists": (lambda: faiss.IndexIVFPQR(COARSE, DIM, 16, 3, 4, 3, 4), "got IndexIVFPQR"),
    "graph": (lambda: faiss.IndexHNSWFlat(DIM, 8), "got IndexHNSWFlat"),
    "not trained": (lambda: faiss.IndexPQ(DIM, 4, 8), "IndexPQ is not trained"),
    "transform not trained": (
        lambda: faiss.IndexPreTransform(faiss.OPQMatrix(DIM, 4), with_eight_bits(faiss.IndexPQ(DIM, 4, 8))),
        "OPQMatrix is not trained",
    ),
    "ten bits": (lambda: faiss.IndexPQ(DIM, 1, 10), "not trained|10 bits"),
    "ten bits, filled": (lambda: _trained(faiss.IndexPQ(DIM, 1, 10)), "10 bits.*1 to 8 bits"),
    "ten bits, additive": (lambda: _trained(faiss.IndexResidualQuantizer(DIM, 2, 10)), "10 bits.*1 to 8 bits"),
    "metric": (lambda: _metric(faiss.METRIC_L1), "METRIC_L2 or METRIC_INNER_PRODUCT, got number"),
    "reduction": (lambda: transformed(faiss.PCAMatrix(DIM, 8)), "PCAMatrix does not keep distances.*all 12"),
    "whitening": (lambda: transformed(faiss.PCAMatrix(DIM, DIM, -0.5)), "PCAMatrix does not keep distances"),
    "scaling": (lambda: transformed(linear(2 * np.eye(DIM))), "LinearTransform does not keep distances"),
    "dimensions lost": (lambda: transformed(remap([0, 1, 2, 3], DIM)), "does not keep distances"),
    "dimensions twice": (lambda: transformed(remap([*range(DIM)] * 2, DIM)), "does not keep distances"),
    "words in the padding": (lambda: transformed(remap([*range(DIM), -1, -1, -1, -1], DIM)), "words are not 0"),
    "constant in the padding": (
        lambda: transformed(linear(np.eye(16)[:, :DIM], np.eye(16)[15])),
        "adds a constant, which no word can hold",
    ),
    "hadamard": (lambda: transformed(faiss.HadamardRotation(16)), "HadamardRotation is not taken"),
    "late norm": (lambda: _late_norm(), "NormalizationTransform is not taken.*first place"),
    "norm and l2": (lambda: transformed(faiss.NormalizationTransform(DIM)), "norm 2 and METRIC_INNER_PRODUCT"),
    "bias and ip": (
        lambda: transformed(faiss.CenteringTransform(DIM), with_eight_bits(faiss.IndexPQ(DIM, 4, 8, IP))),
        "CenteringTransform adds a constant, which changes inner products",
    ),
    "ids of ids": (nested, "IndexIDMap inside an IndexIDMap"),
    "ids of named rows": (named_lists, r"must have the ids 0, 1, 2, \.\.\."),
    "an id twice": (twice_the_same_id, "ids must be unique; ids.0. and ids.2. are both 4"),
    "no residuals": (lambda: lists_of(lambda lists: setattr(lists, "by_residual", False)), "by_residual=False"),
    "many lists": (lambda: lists_of(lambda lists: setattr(lists, "nlist", 257)), "257 lists.*at most 256"),
    "coarse graph": (lambda: _trained(faiss.index_factory(DIM, "IVF16_HNSW8,PQ3x4")), "flat quantizer, got IndexHNSW"),
}


def _trained(index):
    index.is_trained = True
    return index


def _metric(number):
    index = with_eight_bits(faiss.IndexPQ(DIM, 4, 8))
    index.metric_type = number
    return index


def _late_norm():
    made = faiss.IndexPreTransform(with_eight_bits(faiss.IndexPQ(DIM, 4, 8, IP)))
    made.prepend_transform(faiss.NormalizationTransform(DIM))
    made.prepend_transform(linear(np.eye(DIM)))
    return made


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused_by_name(what):
    make, message = REFUSED[what]
    made = make()
    with pytest.raises(il.InputError, match=message):
        il.from_faiss(made)
