"""Books while they are learned: codes of a batch are those that the index will give; who gets which dimensions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

torch = pytest.importorskip("torch", reason="the train extra is not installed")

import interlace as il  # noqa: E402
from helpers import clustered  # noqa: E402
from interlace import reference  # noqa: E402
from interlace.codec.encode import encode  # noqa: E402
from interlace.learn.joint.books import Books, start_books  # noqa: E402
from interlace.learn.joint.plans import plan_for  # noqa: E402
from raising import raises  # noqa: E402

some = settings(max_examples=60, deadline=None)


def drawn(seed, n_books, n_words, dim, kind):
    """Words and supports: all on all, two groups, or each book its own dimensions."""
    rng = np.random.default_rng(seed)
    words = rng.normal(size=(n_books, n_words, dim)).astype(np.float32)
    support = np.ones((n_books, dim), bool)
    if kind == "split":
        first = rng.random(dim) < 0.5
        first[0], first[-1] = True, dim == 1
        support = np.where((np.arange(n_books) < max(1, n_books // 4))[:, None], first, ~first if dim > 1 else first)
    elif kind == "parts":
        support = np.arange(dim) % n_books == np.arange(n_books)[:, None]
    return Books(torch.from_numpy(words), torch.from_numpy(support)), rng.normal(size=(30, dim)).astype(np.float32)


shapes = {
    "seed": st.integers(0, 2**32),
    "n_books": st.integers(1, 6),
    "n_words": st.sampled_from([1, 2, 7, 16]),
    "dim": st.integers(1, 9),
    "kind": st.sampled_from(["all", "split", "parts"]),
    "sweeps": st.integers(0, 3),
}


MANY = 100


def by_loop(words, row, sweeps, tolerance):
    """The codes of one row by the rule in plain words; all of them, where words are as good within the tolerance.

    None where these are too many to follow.
    """
    states = {(None,) * len(words)}
    for sweep in range(1 + sweeps):
        for k in range(min(sweep, 1), len(words)):  # the first code is the cell, which stays
            reached = set()
            for state in states:
                rest = row - sum((words[j, c] for j, c in enumerate(state) if c is not None and j != k), 0 * row)
                errors = ((rest - words[k]) ** 2).sum(1)
                good = np.flatnonzero(errors <= errors.min() + tolerance)
                reached |= {(*state[:k], int(word), *state[k + 1 :]) for word in good}
            states = reached
            if len(states) > MANY:
                return None
    return states


@some
@given(**shapes)
def test_codes_equal_a_plain_loop(seed, n_books, n_words, dim, kind, sweeps):
    books, z = drawn(seed, n_books, n_words, dim, kind)
    words = (books.words * books.support[:, None, :]).detach().numpy().astype(np.float64)
    codes = books.encode(torch.from_numpy(z), sweeps).numpy()
    for row, found in zip(z.astype(np.float64), codes, strict=True):
        reached = by_loop(words, row, sweeps, 1e-5)
        assert reached is None or tuple(found) in reached


@some
@given(**shapes)
def test_codes_equal_those_of_an_index(seed, n_books, n_words, dim, kind, sweeps):
    books, z = drawn(seed, n_books, n_words, dim, kind)
    words = books.effective().detach().numpy()
    supports = [np.flatnonzero(s).astype(np.uint32) for s in books.support.numpy()]
    found = [il.Book(w[:, s], s) for w, s in zip(words, supports, strict=True)]
    codebooks = il.Codebooks(found, dim=dim, n_crude=1, beam=1, sweeps=sweeps)
    ours, theirs = books.encode(torch.from_numpy(z), sweeps).numpy(), encode(codebooks, z, 1)
    # The index counts cross terms in whole steps: words at nearly the same distance may change places.
    tolerance = 1e-5 + n_books * max(reference.pair_terms(codebooks).step, reference.cell_terms(codebooks).step)
    for row in np.flatnonzero((ours != theirs).any(1)):
        reached = by_loop(words.astype(np.float64), z[row].astype(np.float64), sweeps, tolerance)
        assert reached is None or (len(reached) > 1 and tuple(theirs[row]) in reached)


def test_sweeps_never_make_codes_worse():
    books, z = drawn(0, 5, 16, 8, "all")
    errors = []
    for sweeps in range(4):
        words = books.of_rows(books.effective(), books.encode(torch.from_numpy(z), sweeps))
        errors.append(((z - torch.stack(words).sum(0).detach().numpy()) ** 2).sum(1))
    for before, after in zip(errors, errors[1:], strict=False):
        assert (after <= before + 1e-5).all()
    assert errors[-1].mean() < errors[0].mean()


def test_words_count_on_their_supports_alone():
    books, z = drawn(3, 4, 7, 6, "split")
    off = ~books.support.bool()[:, None, :].expand_as(books.words)
    before = books.encode(torch.from_numpy(z), 1)
    torch.stack(books.of_rows(books.effective(), before)).square().sum().backward()
    assert (books.words.grad[off] == 0).all()
    assert (books.words.grad[~off] != 0).any()
    with torch.no_grad():
        books.words[off] += 100.0
    assert_array_equal(books.encode(torch.from_numpy(z), 1), before)
    books.project()
    assert (books.words[off] == 0).all()
    assert set(books.state_dict()) == {"words", "support"}


# --- how books start --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_books", [1, 2, 3, 16])
def test_start_is_on_the_supports_and_each_book_helps(n_books):
    z = clustered(400, 8)
    xi = np.arange(8) < 3
    support = np.where((np.arange(n_books) < max(1, n_books // 4))[:, None], xi, ~xi)
    words = start_books(z, support, 16, np.random.default_rng(0), 1)
    assert words.shape == (n_books, 16, 8)
    assert words.dtype == np.float32
    assert not words[np.broadcast_to(~support[:, None, :], words.shape)].any()
    books = Books(torch.from_numpy(words), torch.from_numpy(support))
    errors = []
    for k in range(1, n_books + 1):
        part = Books(books.words[:k], books.support[:k])
        zq = torch.stack(part.of_rows(part.effective(), part.encode(torch.from_numpy(z), 0))).sum(0).detach().numpy()
        errors.append(((z - zq) ** 2).sum())
    assert (np.diff(errors) < 0).all()
    assert_array_equal(words, start_books(z, support, 16, np.random.default_rng(0), 2))  # for any threads


def test_start_with_fewer_distinct_rows_than_words():
    z = np.repeat(clustered(3, 4), 20, axis=0)
    words = start_books(z, np.ones((2, 4), bool), 8, np.random.default_rng(0), 1)
    assert np.isfinite(words).all()
    assert words.shape == (2, 8, 4)
    assert len(np.unique(words[0], axis=0)) == 3  # repeated
    assert_allclose(np.unique(words[0], axis=0), np.unique(z, axis=0), atol=1e-6)
    assert np.abs(words[1]).max() < 1e-6  # nothing is left for it


# --- plans ------------------------------------------------------------------------------------------------------------

VARIANCES = np.array([5.0, 4.0, 1.0, 0.5, 0.4, 0.3])
XI = np.array([True, True, False, False, False, False])


@pytest.mark.parametrize(("n_books", "n_psi"), [(1, 0), (2, 0), (3, 1), (4, 1), (8, 2), (16, 4), (64, 16)])
def test_the_split(n_books, n_psi):
    plan = plan_for("icq", n_books, VARIANCES, XI, il.Recipe())
    assert plan.support.shape == (n_books, 6)
    if n_psi == 0:  # the paper: one or two books have no crude step
        assert plan.support.all()
        assert plan.groups == (tuple(range(n_books)),)
        assert plan.xi is None
        return
    assert plan.groups == (tuple(range(n_psi)), tuple(range(n_psi, n_books)))
    assert_array_equal(plan.support[:n_psi], np.tile(XI, (n_psi, 1)))
    assert_array_equal(plan.support[n_psi:], np.tile(~XI, (n_books - n_psi, 1)))
    assert_array_equal(plan.xi, XI)


@pytest.mark.parametrize(("share", "n_psi"), [(0.0, 1), (0.5, 4), (1.0, 7)])
def test_both_sides_of_the_split_have_a_book(share, n_psi):
    plan = plan_for("icq", 8, VARIANCES, XI, il.Recipe(psi_share=share))
    assert [len(group) for group in plan.groups] == [n_psi, 8 - n_psi]


@pytest.mark.parametrize("xi", [None, np.zeros(6, bool), np.ones(6, bool)], ids=["none", "empty", "all"])
@pytest.mark.parametrize("n_books", [1, 3, 16])
def test_without_a_split_all_books_are_on_everything(xi, n_books):
    plan = plan_for("icq", n_books, VARIANCES, xi, il.Recipe())
    assert plan.support.all()
    assert plan.groups == (tuple(range(n_books)),)
    assert plan.xi is None
    assert plan_for("cq", n_books, VARIANCES, XI, il.Recipe()).xi is None


def test_as_written_the_split_is_left_to_the_loss():
    plan = plan_for("icq", 8, VARIANCES, XI, il.Recipe.paper())
    assert plan.support.all()
    assert plan.groups == (tuple(range(8)),)
    assert_array_equal(plan.xi, XI)


@pytest.mark.parametrize("n_books", [1, 2, 3, 6])
def test_product_books_share_the_dimensions(n_books):
    plan = plan_for("pq", n_books, VARIANCES, None, il.Recipe())
    assert (plan.support.sum(0) == 1).all()
    assert (plan.support.sum(1) >= 1).all()
    assert plan.groups == tuple((k,) for k in range(n_books))
    assert plan.xi is None


def test_more_product_books_than_dimensions():
    with raises(il.InputError, 7, "dim=6"):
        plan_for("pq", 7, VARIANCES, None, il.Recipe())
