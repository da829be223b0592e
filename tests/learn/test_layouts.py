"""Learning is seeded, splits are sensible, words are in scan order, and codes are better than random."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlace import ICQ, Index, InputError
from interlace.learn.axes import effective_dims, principal_axes
from interlace.learn.cosine import query_length
from interlace.learn.grouping import (
    GROUPS,
    balanced_groups,
    fair_bits,
    group_sizes,
    leading_groups,
    near_words_together,
)
from interlace.learn.kmeans import clusters, kmeans, nearest


def test_kmeans_finds_separate_clusters():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(8, 5)) * 20
    x = (centres[rng.integers(8, size=2000)] + rng.normal(size=(2000, 5))).astype(np.float32)
    words = kmeans(x, 32, rng=rng, threads=1)
    gaps = np.sqrt(((centres[:, None] - words[None]) ** 2).sum(-1)).min(1)
    assert gaps.max() < 1.5


@pytest.mark.parametrize("unit", [1.0, 2.0**-40])
def test_clusters_tell_the_nearest_word_of_each_row(unit):
    rng = np.random.default_rng(3)
    x = np.repeat(rng.normal(size=(40, 3)), 5, axis=0).astype(np.float32)
    x[:60] = x[0]  # fewer distinct rows than words, so that some words are left out
    words, labels = clusters(x * np.float32(unit), 64, rng=rng, threads=2, iterations=2)
    assert len(words) < 64
    assert labels.dtype == np.int32
    np.testing.assert_array_equal(labels, nearest(x, np.float32(1 / unit) * words, 1)[0])


def test_kmeans_shrinks_to_the_distinct_rows_and_lowers_the_error():
    rng = np.random.default_rng(1)
    x = np.repeat(rng.normal(size=(5, 3)), 50, axis=0).astype(np.float32)
    assert len(kmeans(x, 256, rng=rng, threads=1)) == 5
    y = rng.normal(size=(3000, 4)).astype(np.float32)

    def error(iterations):
        words = kmeans(y, 64, rng=np.random.default_rng(2), threads=1, iterations=iterations)
        return ((y[:, None] - words[None]) ** 2).sum(-1).min(1).mean()

    assert error(10) < error(1)


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 256), dim=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_word_order_is_a_permutation(n, dim, seed):
    words = np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)
    ordered = near_words_together(words)
    assert sorted(map(tuple, ordered.tolist())) == sorted(map(tuple, words.tolist()))


def test_words_of_a_group_are_near():
    words = np.random.default_rng(3).normal(size=(256, 3)).astype(np.float32)
    ordered = near_words_together(words)
    spread = np.mean([ordered[g::GROUPS].var(0).sum() for g in range(GROUPS)])
    assert spread < 0.2 * words.var(0).sum()


@pytest.mark.parametrize(
    ("n_books", "dim", "n_train", "sizes"),
    [
        (1, 8, 10**6, (0,)),
        (17, 8, 10**6, (16,)),
        (18, 8, 10**6, (9, 8)),
        (128, 256, 10**6, (16,) * 7 + (15,)),
        (16, 8, 9000, (8, 7)),
        (16, 8, 100, (4, 4, 4, 3)),
        (128, 3, 100, (43, 42, 42)),
    ],
)
def test_residual_books_form_groups_of_a_size_that_the_rows_allow(n_books, dim, n_train, sizes):
    assert group_sizes(n_books, dim, n_train) == sizes


@pytest.mark.parametrize("metric", ["l2", "ip", "cosine"])
def test_groups_of_residual_books(metric):
    rng = np.random.default_rng(8)
    x = (rng.normal(size=(700, 12)) * np.linspace(2, 0.3, 12)).astype(np.float32)
    index = Index.build(x, n_bytes=10, n_words=16, layout="residual", metric=metric, iterations=3, threads=2)
    books = index.codebooks
    assert [len(book.support) for book in books.books] == [12] + [4] * 9
    assert len({tuple(book.support.tolist()) for book in books.books[1:]}) == 3
    assert books.rotation is not None
    exact, everything = (index.search(x[:20], 5, margin=margin) for margin in ("exact", np.inf))
    np.testing.assert_array_equal(exact.ids, everything.ids)
    np.testing.assert_array_equal(exact.distances, everything.distances)
    assert (
        Index.build(x, n_bytes=10, n_words=16, layout="residual", metric=metric, iterations=3, threads=1).codebooks
        == books
    )
    plain = Index.build(x, n_bytes=10, n_words=16, layout="residual", rotation="none", iterations=1, threads=1)
    assert plain.codebooks.rotation is None


def test_queries_are_as_long_as_the_neighbours_are_far():
    rng = np.random.default_rng(9)
    near = np.repeat(rng.normal(size=(20, 16)), 20, axis=0)
    far = rng.normal(size=(400, 200))
    lengths = [query_length((x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)) for x in (near, far)]
    assert lengths == [1.0, 4.0]
    assert query_length(np.ones((1, 1), np.float32)) == 1.0
    cosines = np.full((30, 30), 0.5) + 0.5 * np.eye(30)  # every row has the cosine .5 to every other
    assert query_length(np.linalg.cholesky(cosines).astype(np.float32)) == 2.0


def test_fair_bits_sum_up_and_follow_the_variance():
    variances = np.array([16.0, 4.0, 1.0, 0.01])
    bits = fair_bits(variances, 6.0)
    assert bits.sum() == pytest.approx(6.0, abs=1e-6)
    assert (np.diff(bits) <= 0).all()
    assert bits[0] - bits[1] == pytest.approx(1.0, abs=1e-6)  # a factor 4 is one bit
    assert bits[3] == 0


def test_leading_groups_are_runs_and_balanced_groups_cover_the_rest():
    variances = 100.0 * 0.9 ** np.arange(64)
    leading = leading_groups(variances, 3, 64.0)
    assert np.concatenate(leading).tolist() == list(range(sum(map(len, leading))))
    start = sum(map(len, leading))
    groups = balanced_groups(np.arange(start, 64), variances, 5)
    assert sorted(np.concatenate(groups).tolist()) == list(range(start, 64))
    assert max(map(len, groups)) - min(map(len, groups)) <= 1
    loads = [np.log(variances[g]).sum() for g in groups]
    assert np.ptp(loads) < 0.3 * abs(np.mean(loads))


def test_principal_axes_are_orthonormal_descending_and_of_fixed_sign():
    x = np.random.default_rng(4).normal(size=(500, 6)).astype(np.float32) * np.arange(1, 7, dtype=np.float32)
    axes, variances = principal_axes(x)
    assert np.allclose(axes.T @ axes, np.eye(6), atol=1e-5)
    assert (np.diff(variances) <= 0).all()
    assert np.allclose((x @ axes).var(0), variances, rtol=1e-3)
    assert (principal_axes(x)[0] == axes).all()


def test_the_crude_books_of_subspace_take_the_leading_dimensions():
    rng = np.random.default_rng(5)
    x = (rng.normal(size=(2000, 32)) * np.linspace(3, 0.2, 32)).astype(np.float32)
    codebooks = Index.build(x, n_bytes=8, layout="subspace", max_train_rows=1000).codebooks
    supports = [b.support.tolist() for b in codebooks.books]
    assert sorted(sum(supports, [])) == list(range(32))  # disjoint, and all covered
    assert supports[0][0] == 0
    assert codebooks.variances[supports[0]].mean() > codebooks.variances[supports[-1]].mean()
    crude = sorted(sum(supports[: codebooks.n_crude], []))
    assert crude == sorted(codebooks.crude_dims.tolist())
    rest = np.delete(codebooks.variances, codebooks.crude_dims).sum()
    assert codebooks.residual_variance == pytest.approx(float(rest), rel=1e-5)


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual"])
def test_more_bytes_code_better(layout):
    rng = np.random.default_rng(6)
    x = (rng.normal(size=(3000, 24)) * np.linspace(2, 0.3, 24)).astype(np.float32)
    errors = []
    for n_bytes in (2, 4, 8):
        index = Index.build(x, n_bytes=n_bytes, layout=layout, max_train_rows=2000)
        errors.append(((index.reconstruct(np.arange(3000)) - x) ** 2).sum(1).mean())
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.35 * x.var(0).sum()


def test_wrong_sizes_are_refused():
    x = np.random.default_rng(7).normal(size=(50, 8)).astype(np.float32)
    with pytest.raises(InputError, match="n_crude"):
        Index.build(x, n_bytes=4, n_crude=5)
    with pytest.raises(InputError, match="layout"):
        Index.build(x, layout="cubic")


def test_effective_dims_counts_directions_of_equal_variance() -> None:
    rng = np.random.default_rng(3)
    for rank in (1, 5, 20):
        axes = np.linalg.qr(rng.normal(size=(40, rank)))[0]
        x = (rng.normal(size=(20_000, rank)) @ axes.T + 100.0).astype(np.float32)
        assert effective_dims(x) == pytest.approx(rank, rel=0.02)
    assert effective_dims(x[:30]) < 20  # fewer rows than dimensions: no more than rows can tell
    assert effective_dims(np.ones((7, 3), np.float32)) == 0.0


@pytest.mark.parametrize("spread", [1.0, 0.4])
def test_words_in_many_dimensions_all_get_rows_if_they_start_near_the_mean(spread: float) -> None:
    x = np.random.default_rng(4).normal(size=(4000, 96)).astype(np.float32)
    words = kmeans(x, 64, rng=np.random.default_rng(5), threads=1, iterations=12, spread=spread)
    share = np.bincount(nearest(x, words, 1)[0], minlength=64) / len(x)
    bits = -(share[share > 0] * np.log2(share[share > 0])).sum()
    assert bits > 5.9 if spread < 1 else bits < 5.7


def test_late_books_use_all_their_words() -> None:
    """What the books before them left has no clusters; words that start at rows would stay alone with their row."""
    x = np.random.default_rng(6).normal(size=(4000, 96)).astype(np.float32)
    model = ICQ(6, layout="residual", n_words=64, iterations=1, threads=1).fit(x)
    for column in model.encode(x).T[2:]:
        share = np.bincount(column, minlength=64) / len(x)
        assert -(share[share > 0] * np.log2(share[share > 0])).sum() > 5.75
