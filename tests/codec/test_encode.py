"""Native encoding against the reference, and what its beam and its sweeps are good for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from books import LAYOUTS, random_codebooks
from interlace import Book, Codebooks, Norm, _native, reference
from interlace.codec.encode import EFFORTS, encode

some = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def native(codebooks, x, beam, sweeps):
    codes = np.empty((len(x), 1 + len(codebooks.columns)), np.uint8)
    _native.encode(codebooks.native, x, beam, sweeps, 1, codes)
    return codes


def drawn(data, layout):
    """Random books, and rows that lie among their words, next to them or far out."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    n_books = data.draw(st.integers(1, 5))
    scale = data.draw(st.sampled_from([1e-12, 1.0, 1e9]))
    codebooks = random_codebooks(
        rng,
        layout,
        dim=data.draw(st.integers(n_books, 14)),
        n_books=n_books,
        n_words=data.draw(st.sampled_from([1, 5, 16, 64])),
        metric=data.draw(st.sampled_from(["l2", "ip"])),
        integers=data.draw(st.booleans()),
        scale=scale,
    )
    n = data.draw(st.sampled_from([0, 1, 3, 4, 5, 9]))
    x = rng.normal(size=(n, codebooks.dim)) * scale * data.draw(st.sampled_from([0.0, 0.1, 1.0, 1e4]))
    return codebooks, x.astype(np.float32)


@pytest.mark.parametrize("layout", LAYOUTS)
@some
@given(data=st.data())
def test_equals_the_reference(simd, layout, data):
    codebooks, x = drawn(data, layout)
    beam, sweeps = data.draw(st.integers(1, 9)), data.draw(st.integers(0, 3))
    assert (native(codebooks, x, beam, sweeps) == reference.encode(codebooks, x, beam, sweeps)).all()


@pytest.mark.parametrize("beam", [1, 3, 8])
@pytest.mark.parametrize("n_books", [4, 7, 10])
def test_groups_of_books_equal_the_reference(simd, n_books, beam):
    rng = np.random.default_rng(n_books)
    codebooks = random_codebooks(rng, "groups", dim=12, n_books=n_books, n_words=32)
    x = rng.normal(size=(20, 12)).astype(np.float32)
    for sweeps in (0, 2):
        assert (native(codebooks, x, beam, sweeps) == reference.encode(codebooks, x, beam, sweeps)).all()


def test_each_group_has_the_beam_for_itself():
    """Books of one group are encoded as if the others were not there."""
    rng = np.random.default_rng(5)
    codebooks = random_codebooks(rng, "groups", dim=12, n_books=7, n_words=32)
    # With one cell nothing depends on another group.
    cell = Book(codebooks.books[0].words[:1], codebooks.books[0].support)
    shared = {"dim": 12, "n_crude": 1, "mean": codebooks.mean, "rotation": codebooks.rotation}
    x = rng.normal(size=(40, 12)).astype(np.float32)
    # The step of the cross terms is that of all books: scale them alike.
    together = native(Codebooks([cell, *codebooks.books[1:]], **shared), x, 4, 0)
    alone = [native(Codebooks([cell, *codebooks.books[i : i + 3]], **shared), x, 4, 0)[:, 1:] for i in (1, 4)]
    assert (together[:, 1:] == np.hstack(alone)).mean() > 0.97  # steps differ a little


@pytest.mark.parametrize("layout", ["additive", "partial"])
def test_books_of_different_sizes_equal_the_reference(simd, layout):
    rng = np.random.default_rng(3)
    base = random_codebooks(rng, layout, dim=10, n_books=5, n_words=40)
    books = [Book(b.words[:n], b.support) for b, n in zip(base.books, (40, 3, 17, 1, 40), strict=True)]
    codebooks = Codebooks(books, dim=10, n_crude=2)
    x = rng.normal(size=(30, 10)).astype(np.float32)
    assert (native(codebooks, x, 6, 2) == reference.encode(codebooks, x, 6, 2)).all()


@pytest.mark.parametrize("far", [1e2, 1e5, 1e8])
def test_one_far_row_equals_the_reference(simd, far):
    """Its scores are so large that the steps of the cross terms vanish in their rounding, or saturate."""
    rng = np.random.default_rng(4)
    codebooks = random_codebooks(rng, "additive", dim=8, n_books=5, n_words=64, beam=8)
    x = rng.normal(size=(20, 8)).astype(np.float32)
    x[3] *= np.float32(far)
    assert (native(codebooks, x, 8, 2) == reference.encode(codebooks, x, 8, 2)).all()


def test_words_that_are_all_the_same_or_zero(simd):
    """No cross terms at all: a step of 0."""
    for words in (np.zeros((4, 3)), np.ones((4, 3))):
        codebooks = Codebooks([Book(words, [0, 1, 2])] * 3, dim=3, n_crude=1, beam=4, sweeps=2)
        x = np.ones((2, 3), np.float32)
        assert not encode(codebooks, x, 1).any()  # ties go to the first word
        assert (encode(codebooks, x, 1) == reference.encode(codebooks, x)).all()


def test_ties_go_to_the_path_found_first(simd):
    twice = np.repeat(np.random.default_rng(5).normal(size=(4, 6)), 2, axis=0)  # words 0 and 1 are the same, and so on
    codebooks = Codebooks([Book(twice * s, np.arange(6)) for s in (2, 1, 0.5)], dim=6, n_crude=1, beam=8)
    x = np.random.default_rng(6).normal(size=(50, 6)).astype(np.float32)
    codes = encode(codebooks, x, 1)
    assert not (codes % 2).any()
    assert (codes == reference.encode(codebooks, x)).all()


def test_same_codes_for_any_number_of_threads():
    rng = np.random.default_rng(0)
    for layout in ("hybrid", "additive"):
        codebooks = random_codebooks(rng, layout, dim=16, n_books=5, n_words=64, sweeps=1)
        x = rng.normal(size=(3_000, 16)).astype(np.float32)
        one = encode(codebooks, x, 1)
        assert all((encode(codebooks, x, t) == one).all() for t in (2, 5))
        for threads in (2, 5):  # new books: the threads of the first call compute the terms that coding reads
            again = Codebooks.from_arrays(*codebooks.to_arrays())
            assert (encode(again, x, threads) == one).all()


def error_of(codebooks, x, codes):
    return ((codebooks.decode(codes) - x) ** 2).sum(1).mean()


@pytest.mark.parametrize("layout", ["hybrid", "residual", "additive"])
def test_a_wider_beam_codes_better(layout):
    rng = np.random.default_rng(1)
    codebooks = random_codebooks(rng, layout, dim=16, n_books=5, n_words=64)
    x = rng.normal(size=(500, 16)).astype(np.float32)
    errors = [error_of(codebooks, x, native(codebooks, x, beam, 0)) for beam in (1, 4, 16)]
    assert errors[0] > errors[1] >= errors[2]


def test_a_sweep_never_makes_a_code_worse():
    rng = np.random.default_rng(2)
    codebooks = random_codebooks(rng, "additive", dim=16, n_books=6, n_words=64)
    x = rng.normal(size=(300, 16)).astype(np.float32)
    y = (x - codebooks.mean) @ codebooks.rotation
    step = reference.pair_terms(codebooks).step
    errors = []
    for sweeps in (0, 1, 4):
        codes = native(codebooks, x, 2, sweeps)
        words = sum(book.words[codes[:, b]] for b, book in enumerate(codebooks.books))
        errors.append(((words - y) ** 2).sum(1))
    assert (errors[1] <= errors[0] + 30 * step).all()  # up to the rounding of ten cross terms, twice, and tables
    assert (errors[2] <= errors[1] + 90 * step).all()
    assert errors[0].mean() > errors[1].mean() >= errors[2].mean()


def test_efforts_are_a_beam_and_sweeps():
    rng = np.random.default_rng(7)
    codebooks = random_codebooks(rng, "additive", dim=16, n_books=5, n_words=64, beam=3, sweeps=1)
    x = rng.normal(size=(200, 16)).astype(np.float32)
    assert (encode(codebooks, x, 1) == native(codebooks, x, 3, 1)).all()
    errors = []
    for effort in EFFORTS:
        codes = encode(codebooks, x, 1, effort)
        assert (codes == native(codebooks, x, *EFFORTS[effort])).all()
        errors.append(error_of(codebooks, x, codes))
    assert all(a > b for a, b in pairwise(errors))


def test_a_norm_code_is_the_value_next_to_the_cross_terms():
    rng = np.random.default_rng(8)
    base = random_codebooks(rng, "additive", dim=6, n_books=4, n_words=8)
    values = np.linspace(-8, 8, 200)
    norms = [Norm(values, (1, 2), crude=True), Norm(values, (1, 2, 3))]  # the second holds what the first does not
    codebooks = Codebooks(base.books, dim=6, n_crude=2, norms=norms)
    assert codebooks.columns == (1, -1, 2, 3, -2)
    codes = encode(codebooks, rng.normal(size=(40, 6)).astype(np.float32), 1)
    one, two, three = (codebooks.books[b].words[codes[:, p]] for b, p in ((1, 1), (2, 3), (3, 4)))
    for position, exact in ((2, 2 * (one * two).sum(1)), (5, 2 * ((one + two) * three).sum(1))):
        inside = np.abs(exact) < 8
        assert inside.sum() > 20
        assert np.abs(values[codes[:, position]] - exact)[inside].max() < (values[1] - values[0]) / 2 + 0.01


def test_decode_is_the_sum_of_words_rotated_back():
    rng = np.random.default_rng(2)
    codebooks = random_codebooks(rng, "residual", dim=6, n_books=3, n_words=8)
    x = rng.normal(size=(5, 6)).astype(np.float32)
    codes = encode(codebooks, x, 1)
    order = [0, *codebooks.columns]
    for code, decoded in zip(codes, codebooks.decode(codes), strict=True):
        total = sum(codebooks.books[b].words[code[p]] for p, b in enumerate(order) if b >= 0)
        assert np.allclose(decoded, codebooks.mean + codebooks.rotation @ total, atol=1e-5)
