"""What each quantizer learns: its books, rotations, constants and scales, against plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import interlace as il
from helpers import clustered
from interlace.estimators.baselines.cq import cross_terms, refit
from interlace.estimators.baselines.product import procrustes, ranges
from interlace.quantizers import CQ, LOPQ, MSQ, OPQ, PQ, CKMeans
from raising import Facts, raises

QUICK: dict[str, Any] = {"n_words": 32, "threads": 1}


def mixed(n: int = 1500, dim: int = 16, seed: int = 0) -> NDArray[np.float32]:
    """Rows of falling variances in a random basis: dimensions that all depend on each other."""
    rng = np.random.default_rng(5)
    basis = np.linalg.qr(rng.normal(size=(dim, dim)))[0] * 0.8 ** np.arange(dim)
    return (np.random.default_rng(seed).normal(size=(n, dim)) @ basis.T).astype(np.float32)


def error(model: Any, x: Any) -> float:
    return float(((model.transform(x).astype(np.float64) - x) ** 2).sum(1).mean())


# --- product books ----------------------------------------------------------------------------------------------------


@given(st.integers(1, 70), st.integers(1, 64))
def test_ranges_cover_every_dimension_once(dim: int, n_books: int) -> None:
    found = ranges(dim, n_books)
    assert np.concatenate(found).tolist() == list(range(dim))
    assert len(found) == min(dim, n_books)
    assert {len(dims) for dims in found} <= {dim // len(found), -(-dim // len(found))}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_procrustes_beats_other_rotations(seed: int, dim: int) -> None:
    rng = np.random.default_rng(seed)
    x, c = rng.normal(size=(30, dim)), rng.normal(size=(30, dim))
    best = procrustes(x.T @ c)
    assert_allclose(best.T @ best, np.eye(dim), atol=1e-5)
    for _ in range(20):
        other = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
        assert ((x @ best - c) ** 2).sum() <= ((x @ other - c) ** 2).sum() + 1e-4


def test_a_product_code_is_the_nearest_word_of_each_range() -> None:
    x = mixed(300, 10)
    model = PQ(3, n_words=8, threads=1).fit(x)
    books = model.codebooks_.books
    assert [book.support.tolist() for book in books] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert model.codebooks_.rotation is None
    for row, code in zip(x - model.codebooks_.mean, model.encode(x), strict=True):
        for j, book in enumerate(books):
            distances = [float(((row[book.support] - word) ** 2).sum()) for word in book.words]
            assert distances[code[j]] <= min(distances) * (1 + 1e-5) + 1e-6


def test_words_are_the_means_of_their_rows() -> None:
    x = mixed(400, 6)
    model = PQ(2, n_words=8, iterations=200, threads=1).fit(x)
    codes = model.encode(x)
    for j, book in enumerate(model.codebooks_.books):
        for w, word in enumerate(book.words):
            mine = x[codes[:, j] == w][:, book.support] - model.codebooks_.mean[book.support]
            assert_allclose(word, mine.mean(0), atol=1e-4)


@pytest.mark.parametrize("quantizer", [OPQ, CKMeans])
def test_a_rotation_is_learned_where_dimensions_depend_on_each_other(quantizer: Any) -> None:
    x = mixed()
    plain, rotated = PQ(4, **QUICK).fit(x), quantizer(4, **QUICK).fit(x)
    rotation = rotated.codebooks_.rotation
    assert_allclose(rotation.T @ rotation, np.eye(16), atol=1e-4)
    assert error(rotated, x) < 0.9 * error(plain, x)
    assert error(rotated, mixed(seed=9)) < 0.95 * error(plain, mixed(seed=9))  # rows it has not seen
    assert error(quantizer(4, **QUICK, iterations=0).fit(x), x) > error(rotated, x)


def test_where_the_two_start() -> None:
    x = mixed()
    cartesian = CKMeans(4, **QUICK, iterations=0).fit(x).codebooks_
    assert_array_equal(cartesian.rotation, np.eye(16))
    optimized = OPQ(4, **QUICK, iterations=0).fit(x).codebooks_
    y = (x - x.mean(0)) @ optimized.rotation
    covariance = np.cov(y.T)
    assert np.abs(covariance - np.diag(np.diag(covariance))).max() < 1e-3 * covariance.max()  # principal axes
    products = [np.log(np.diag(covariance)[book.support]).sum() for book in optimized.books]
    assert np.ptp(products) < 0.5


def test_the_translation_of_cartesian_k_means() -> None:
    x = mixed() + 7
    model = CKMeans(4, **QUICK, iterations=6).fit(x)
    assert_allclose(model.transform(x).mean(0), x.mean(0), atol=1e-2)


@pytest.mark.parametrize(("dim", "n_books", "axes"), [(16, 2, 8), (16, 4, 16), (6, 4, 6)])
def test_a_bit_of_orthogonal_k_means_is_a_side_of_a_hyperplane(dim: int, n_books: int, axes: int) -> None:
    x = mixed(dim=dim) + 3
    model = CKMeans(n_books, orthogonal=True, n_words=16, threads=1).fit(x)
    books = model.codebooks_
    assert np.concatenate([book.support for book in books.books]).tolist() == list(range(axes))
    y = (x - books.mean) @ books.rotation
    half = np.concatenate([np.abs(book.words[0]) for book in books.books])
    for book in books.books:
        assert_array_equal(np.abs(book.words), np.abs(book.words[:1]).repeat(len(book.words), 0))
        assert len(np.unique(book.words, axis=0)) == len(book.words)
    assert_allclose(half, np.abs(y[:, :axes]).mean(0), rtol=1e-5)
    coded = np.where(y[:, :axes] < 0, -half, half)
    assert_allclose((model.transform(x) - books.mean) @ books.rotation[:, :axes], coded, atol=1e-4)


def test_orthogonal_k_means_finds_the_axes_of_a_box() -> None:
    rng = np.random.default_rng(4)
    axes = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    corners = rng.choice([-1.0, 1.0], (2000, 8)) * np.linspace(1, 3, 8)
    x = (corners @ axes.T + 0.1 * rng.normal(size=(2000, 8))).astype(np.float32)
    start, learned = (CKMeans(2, orthogonal=True, n_words=16, threads=1, iterations=n).fit(x) for n in (0, 50))
    assert error(start, x) > 10 * error(learned, x)
    assert error(learned, x) < 1.05 * 8 * 0.1**2
    assert_allclose(np.sort(np.abs(axes.T @ learned.codebooks_.rotation).max(0)), np.ones(8), atol=1e-3)


def test_orthogonal_k_means_is_searched_and_saved_like_the_others(tmp_path: Path) -> None:
    x = mixed()
    model = CKMeans(3, orthogonal=True, n_words=16, threads=1).fit(x)
    truth = ((x[:20, None].astype(np.float64) - model.transform(x)) ** 2).sum(2)
    found = model.index(x).search(x[:20], 10, margin="exact")
    assert_allclose(found.distances, np.sort(truth, 1)[:, :10], rtol=1e-3, atol=1e-4)
    model.save(tmp_path / "model.icq")
    again = CKMeans.load(tmp_path / "model.icq")
    assert again.orthogonal
    assert_array_equal(again.encode(x), model.encode(x))


def test_what_orthogonal_k_means_cannot_have() -> None:
    with pytest.raises(il.InputError, match="n_words.*power of two.*48"):
        CKMeans(orthogonal=True, n_words=48).fit(mixed(100))
    with pytest.raises(il.InputError, match="orthogonal.*'yes'"):
        CKMeans(orthogonal="yes").fit(mixed(100))


# --- composite books --------------------------------------------------------------------------------------------------


def objective(words: Any, x: Any, codes: Any, weight: float, epsilon: float) -> float:
    """Error + weight * (cross term - epsilon)^2, in plain loops."""
    total = 0.0
    for row, code in zip(x.astype(np.float64), codes, strict=True):
        own = [w[c] for w, c in zip(words, code, strict=True)]
        cross = sum(2 * own[i] @ own[j] for i in range(1, len(own)) for j in range(i + 1, len(own)))
        total += ((row - sum(own)) ** 2).sum() + weight * (cross - epsilon) ** 2
    return float(total)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 9), st.sampled_from([0.0, 0.1, 10.0]))
def test_refitting_lowers_error_and_penalty(seed: int, n_books: int, dim: int, weight: float) -> None:
    rng = np.random.default_rng(seed)
    words = [rng.normal(size=(3, dim)) for _ in range(n_books)]
    x = rng.normal(size=(40, dim)).astype(np.float32)
    codes = rng.integers(0, 3, (40, n_books)).astype(np.uint8)
    before = [w.copy() for w in words]
    terms = cross_terms(before, codes)
    for row, code in enumerate(codes):
        own = [w[c] for w, c in zip(before, code, strict=True)]
        assert_allclose(terms[row], sum(2 * own[i] @ own[j] for i in range(1, n_books) for j in range(i + 1, n_books)))
    refit(words, x, codes, weight)
    values = [objective(w, x, codes, weight, float(cross_terms(w, codes).mean())) for w in (before, words)]
    assert values[1] <= values[0] * (1 + 1e-9)


def test_a_refit_that_repeats_ends_at_a_minimum() -> None:
    rng = np.random.default_rng(0)
    words = [rng.normal(size=(3, 4)) for _ in range(3)]
    x, codes = rng.normal(size=(60, 4)).astype(np.float32), rng.integers(0, 3, (60, 3)).astype(np.uint8)
    for _ in range(3000):
        refit(words, x, codes, 0.5)
    epsilon = float(cross_terms(words, codes).mean())
    best = objective(words, x, codes, 0.5, epsilon)
    for book in range(3):
        for direction in rng.normal(size=(5, 3, 4)):
            moved = [w.copy() for w in words]
            moved[book] += 1e-3 * direction
            assert objective(moved, x, codes, 0.5, epsilon) > best - 1e-4


def test_composite_books_span_everything_and_code_better_than_rotated_ones() -> None:
    x = turned(2000, 0)
    model, rotated = CQ(4, **QUICK).fit(x), OPQ(4, **QUICK).fit(x)
    books = model.codebooks_
    assert all(book.support.tolist() == list(range(16)) for book in books.books)
    assert [(norm.covers, norm.stored) for norm in books.norms] == [((1, 2, 3), False)]
    assert error(model, x) < 0.97 * error(rotated, x)
    codes = model.encode(x)
    terms = cross_terms([book.words.astype(np.float64) for book in books.books], codes)
    assert_allclose(books.norms[0].values[0], terms.mean(), atol=0.02 * x.var(0).sum())


def test_a_penalty_makes_cross_terms_constant() -> None:
    x = mixed(2000)
    spreads, errors = [], []
    for penalty in (0.0, 1.0, 100.0):
        model = CQ(4, **QUICK, penalty=penalty).fit(x)
        words = [book.words.astype(np.float64) for book in model.codebooks_.books]
        spreads.append(cross_terms(words, model.encode(x)).std())
        errors.append(error(model, x))
    assert spreads[0] > 2 * spreads[1] > 4 * spreads[2]
    assert errors[0] < errors[2]


def test_few_composite_books_have_no_constant() -> None:
    for n_books in (1, 2):
        model = CQ(n_books, **QUICK, iterations=3).fit(mixed(600))
        assert model.codebooks_.norms == ()
        assert model.codebooks_.n_bytes == n_books
    for penalty in (-1.0, float("nan"), "much", True):
        with pytest.raises(il.InputError, match="penalty.*0 to 1e9"):
            CQ(penalty=penalty).fit(mixed(300))


# --- parts ------------------------------------------------------------------------------------------------------------


def turned(n: int, seed: int) -> NDArray[np.float32]:
    """Clusters that are flat, each in directions of its own."""
    rng, shapes = np.random.default_rng(seed), np.random.default_rng(7)
    centres = 6 * shapes.normal(size=(4, 16))
    bases = [np.linalg.qr(shapes.normal(size=(16, 16)))[0] * 0.6 ** np.arange(16) for _ in range(4)]
    cluster = rng.integers(0, 4, n)
    left = rng.normal(size=(n, 16))
    return np.stack([centres[c] + bases[c] @ row for c, row in zip(cluster, left, strict=True)]).astype(np.float32)


@pytest.mark.parametrize("books", ["shared", "local"])
def test_rotations_of_their_own_pay_where_cells_are_turned(books: str) -> None:
    x, unseen = turned(6000, 0), turned(1000, 1)
    local = LOPQ(4, **QUICK, n_cells=4, books=books).fit(x)
    assert error(local, unseen) < (0.8 if books == "local" else 0.9) * error(OPQ(4, **QUICK).fit(x), unseen)
    same = LOPQ(4, **QUICK, n_cells=4, iterations=0).fit(x)
    assert error(local, unseen) < 0.95 * error(same, unseen)
    for part in local.codebooks_.codebooks:
        assert_allclose(part.rotation.T @ part.rotation, np.eye(16), atol=1e-4)
    rotations = [part.rotation for part in local.codebooks_.codebooks]
    assert np.abs(rotations[0] - rotations[1]).max() > 0.1


def test_a_row_goes_to_the_nearest_cell() -> None:
    x = turned(800, 0)
    model = LOPQ(3, n_words=8, n_cells=5, iterations=2, threads=1).fit(x)
    centres = model.codebooks_.keys.astype(np.float64)
    for row, code in zip(x, model.encode(x), strict=True):
        distances = [((row - centre) ** 2).sum() for centre in centres]
        assert distances[code[0]] <= min(distances) + 1e-4


def stretched(n: int, seed: int) -> NDArray[np.float32]:
    """Directions of a few kinds, lengths of very different size."""
    rng = np.random.default_rng(seed)
    kinds = np.random.default_rng(3).normal(size=(40, 12))
    direction = kinds[rng.integers(0, 40, n)] + 0.3 * rng.normal(size=(n, 12))
    lengths = np.exp(rng.normal(size=(n, 1)))
    return (direction * lengths).astype(np.float32)


def test_scales_pay_where_lengths_differ() -> None:
    x, unseen = stretched(4000, 0), stretched(800, 1)
    scaled = MSQ(5, n_words=16, threads=1).fit(x)
    single = MSQ(5, n_words=16, n_levels=1, threads=1).fit(x)
    assert error(scaled, unseen) < 0.9 * error(single, unseen)


def test_words_of_a_part_are_those_of_the_first_times_its_level() -> None:
    model = MSQ(4, n_words=16, threads=1).fit(stretched(1000, 0))
    parts = model.codebooks_
    levels = parts.keys[:, 0]
    assert (np.diff(levels) >= 0).all()
    assert levels[0] > 0
    for level, part in zip(levels, parts.codebooks, strict=True):
        assert_array_equal(part.books[0].words, parts.codebooks[0].books[0].words)  # the cells
        for mine, first in zip(part.books[1:], parts.codebooks[0].books[1:], strict=True):
            assert_allclose(mine.words * levels[0], first.words * level, rtol=1e-4, atol=1e-6 * level)


def test_a_row_is_coded_near_the_level_of_its_length() -> None:
    x = stretched(1000, 0)
    model = MSQ(4, n_words=16, n_levels=8, threads=1).fit(x)
    books = model.codebooks_.codebooks[0]
    cells = books.books[0].words @ books.rotation.T + books.mean
    lengths = np.sqrt(((x[:, None] - cells) ** 2).sum(2).min(1))
    levels = model.codebooks_.keys[:, 0]
    ranks = np.abs(lengths[:, None] - levels).argsort(1).argsort(1)
    assert (np.take_along_axis(ranks, model.encode(x)[:, :1].astype(int), 1) < 3).all()


@pytest.mark.parametrize(
    ("model", "facts"),
    [
        (LOPQ(1), ("n_books", "LOPQ", 2, 128, 1)),
        (MSQ(2), ("n_books", "MSQ", 3, 128, 2)),
        (LOPQ(n_cells=257), ("n_cells", 1, 256, 257)),
        (LOPQ(n_cells=0), ("n_cells", 0)),
        (LOPQ(books="own"), ("books", "local", "shared", "'own'")),
        (MSQ(n_levels=300), ("n_levels", 1, 256, 300)),
    ],
)
def test_settings_of_their_own(model: Any, facts: Facts) -> None:
    with raises(il.InputError, *facts):
        model.fit(clustered(300, 6))
