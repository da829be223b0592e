"""faiss and interlace side by side: answers compared with decoded rows, and small trained indexes of faiss."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers import clustered
from interlace import reference

faiss = pytest.importorskip("faiss", reason="faiss is not installed: pip install 'interlace[faiss]'")

LAYOUTS = ("subspace", "hybrid", "residual")
DIM = 12
L2, IP = faiss.METRIC_L2, faiss.METRIC_INNER_PRODUCT
FEW_WORDS, COARSE = faiss.ProductQuantizer(DIM, 4, 4), faiss.IndexFlatL2(DIM)


def codes_of(index):
    """Codes [n, n_books], in the order of the books."""
    codes = index.codebooks.code_numbers(index.engine.codes_of(np.arange(len(index))))
    return np.stack([codes[:, (0, *index.codebooks.columns).index(b)] for b in range(index.codebooks.n_books)], axis=1)


def norm_errors(index):
    """What the rounding of norm columns, or a constant in their place, adds to the distance of every row."""
    codebooks = index.codebooks
    codes = codebooks.code_numbers(index.engine.codes_of(np.arange(len(index))))
    errors = np.zeros(len(index))
    dense = [np.zeros((len(book.words), codebooks.dim)) for book in codebooks.books]
    for words, book in zip(dense, codebooks.books, strict=True):
        words[:, book.support] = book.words
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
    if not index.codebooks.metric_type.is_squared:
        return 0.0
    terms = [float(np.abs(reference.cross_terms(books[0], book, index.dim)).max(initial=0)) for book in books[1:]]
    cells = sum(term > 0 for term in terms) * max(terms, default=0.0) / 32767 / 2
    if index.codebooks.folds_cells:  # the words of the cells are among those of cross terms
        cells, linked = 0.0, list(books)
    else:
        linked = [b for b in books[1:] if any(a is not b and np.isin(a.support, b.support).any() for a in books[1:])]
    if index.codebooks.norms or not linked:
        return cells
    reach = sum(float(np.sqrt((book.words.astype(np.float64) ** 2).sum(1).max())) for book in linked)
    step = reach / (32700 - 0.5 * len(linked) * math.sqrt(index.dim))
    off = sum(step / 2 * math.sqrt(len(book.support)) for book in linked)
    return cells + 2 * reach * off + off**2


def slack(index, q):
    """Float rounding of a distance: relative to the squares that are added up in either library."""
    decoded = index.codebooks.decode(index.engine.codes_of(np.arange(len(index))))
    size = np.abs(q).max(initial=0) + np.abs(decoded).max(initial=0) + np.abs(index.codebooks.mean).max()
    words = max(float(np.abs(book.words).max(initial=0)) for book in index.codebooks.books)
    return 3e-7 * index.dim * index.codebooks.n_books * (size + words) ** 2


def by_row(index, ids, distances):
    """Answers [queries, n] of all rows -> distances in row order."""
    out = np.full((len(ids), len(index)), np.nan)
    for i in range(len(ids)):
        out[i, index.ids_of_rows.find(ids[i])] = distances[i]
    assert not np.isnan(out).any()
    return out


def as_distances(index, scores):
    metric = index.codebooks.metric_type
    if not metric.is_squared:
        return metric.offset - scores
    s = metric.query_length
    return scores if index.metric == "l2" else s / 2 * scores - (s - 1) ** 2 / (2 * s)


def assert_same_answers(index, other, q, k=5):
    """All distances of both libraries against the decoded rows, then the k nearest of both against each other."""
    n = len(index)
    assert other.ntotal == n
    if n == 0:
        assert (other.search(q, 1)[1] == -1).all()
        return
    judged = q / np.linalg.norm(q, axis=1, keepdims=True) if index.metric == "cosine" else q
    codes = index.engine.codes_of(np.arange(n))
    metric = index.codebooks.metric_type
    searched = metric.searched(judged)
    true = np.stack([metric.reported(reference.distance_to_decoded(index.codebooks, codes, row)) for row in searched])
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
            assert (theirs[i, index.ids_of_rows.find(found.ids[i])] <= limit).all()
            assert (ours[i, index.ids_of_rows.find(best_ids[i])] <= found.distances[i, -1] + 2 * apart + 1e-9).all()


def queries(n, dim, seed=7):
    return np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)


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
