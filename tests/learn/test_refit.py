"""Refitting against dense least squares, and what learning gains from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import interlace as il
from interlace.codec.encode import EFFORTS, encode
from interlace.inputs.arrays import Rows
from interlace.learn import refit as module
from interlace.learn.fit import learn_codebooks
from interlace.learn.refit import RIDGE_ROWS, refit
from interlace.learn.schedule import ROUNDS
from interlace.learn.settings import Settings
from interlace.progress import silent


def drawn(data: st.DataObject) -> tuple[list[il.Book], np.ndarray, np.ndarray]:
    """Books on any supports, rows, and any codes: words without rows and books of one word among them."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    dim, n_books = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    n = data.draw(st.integers(1, 30))
    books = []
    for _ in range(n_books):
        support = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=dim, max_size=dim)))
        n_words = data.draw(st.integers(1, 5))
        books.append(il.Book(rng.normal(size=(n_words, len(support))), support))
    codes = np.stack([rng.integers(len(b.words), size=n) for b in books], axis=1).astype(np.uint8)
    return books, rng.normal(size=(n, dim)).astype(np.float32), codes


def error(books: list[il.Book], y: np.ndarray, codes: np.ndarray) -> float:
    total = np.zeros(y.shape)
    for j, book in enumerate(books):
        total[:, book.support] += book.words[codes[:, j]].astype(np.float64)
    return float(((y - total) ** 2).sum())


def least_squares(books: list[il.Book], y: np.ndarray, codes: np.ndarray) -> list[np.ndarray]:
    """One dimension at a time: one-hot codes of its books, and a row for each word that holds it near its old place."""
    words = [book.words.astype(np.float64) for book in books]
    for d in range(y.shape[1]):
        here = [j for j, book in enumerate(books) if d in book.support]
        free = [j for j in here if len(books[j].words) > 1] or here
        place = {j: [*books[j].support].index(d) for j in here}
        target = y[:, d].astype(np.float64)
        for j in here:
            if j not in free:
                target = target - words[j][codes[:, j], place[j]]
        if not free:
            continue
        one_hot = np.hstack([np.eye(len(books[j].words))[codes[:, j]] for j in free])
        old = np.concatenate([books[j].words[:, place[j]] for j in free])
        ridge = np.sqrt(RIDGE_ROWS)
        matrix = np.vstack([one_hot, ridge * np.eye(len(old))])
        solved = np.linalg.lstsq(matrix, np.concatenate([target, ridge * old]), rcond=None)[0]
        for j, part in zip(free, np.split(solved, np.cumsum([len(books[j].words) for j in free])[:-1]), strict=True):
            words[j][:, place[j]] = part
    return words


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_the_words_are_those_of_least_squares(data: st.DataObject) -> None:
    books, y, codes = drawn(data)
    with pytest.MonkeyPatch.context() as patch:  # learning stops sooner
        patch.setattr(module, "TOLERANCE", 1e-9)
        patch.setattr(module, "REFIT_PASSES", 200)
        new, before = refit(books, y, codes, 1)
    covered = np.unique(np.concatenate([book.support for book in books]))
    bare = float((np.delete(y, covered, axis=1).astype(np.float64) ** 2).sum())
    assert before + bare == pytest.approx(error(books, y, codes), rel=1e-6, abs=1e-9)
    for book, expected in zip(new, least_squares(books, y, codes), strict=True):
        np.testing.assert_allclose(book.words, expected, atol=2e-5)


@settings(max_examples=80, deadline=None)
@given(data=st.data(), rounds=st.sampled_from([0, 1, 2, 8]))
def test_the_error_never_rises_and_words_without_rows_stay(data: st.DataObject, rounds: int) -> None:
    books, y, codes = drawn(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "REFIT_PASSES", rounds)
        new, _ = refit(books, y, codes, 2)
    assert error(new, y, codes) <= error(books, y, codes) * (1 + 1e-5) + 1e-6
    for j, (old, now) in enumerate(zip(books, new, strict=True)):
        unused = np.setdiff1d(np.arange(len(old.words)), codes[:, j])
        np.testing.assert_allclose(now.words[unused], old.words[unused], atol=1e-6)
        np.testing.assert_array_equal(now.support, old.support)


def correlated(n: int = 2000, dim: int = 24, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, dim)) @ (rng.normal(size=(dim, dim)) * 0.85 ** np.arange(dim)).T).astype(np.float32)


def coded_error(x: np.ndarray, codebooks: il.Codebooks, effort: str | None = None) -> float:
    return float(((codebooks.decode(encode(codebooks, x, 1, effort)) - x).astype(np.float64) ** 2).sum(1).mean())


def learned(x: np.ndarray, **given: Any) -> il.Codebooks:
    return learn_codebooks(Rows(x), Settings(**{"n_bytes": 8, "threads": 1, **given}).checked(), silent).codebooks


def test_the_training_error_falls_from_round_to_round(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[float, float]] = []

    def noted(books: list[il.Book], y: np.ndarray, codes: np.ndarray, *given: Any) -> tuple[list[il.Book], float]:
        new, before = refit(books, y, codes, *given)
        seen.append((before, error(new, y, codes)))
        return new, before

    monkeypatch.setattr("interlace.learn.books.refit", noted)
    learned(correlated(), layout="hybrid", n_words=64)
    assert ROUNDS["balanced"].wide < len(seen) <= 10  # those with a narrow beam end when the error hardly falls
    assert all(after < before for before, after in seen)
    coded = [before for before, _ in seen]
    assert all(b <= a * (1 + 1e-4) for a, b in zip(coded[:-1], coded[1:], strict=True))
    # Residual books: the beam does not always find the codes of the round before again.
    seen.clear()
    learned(correlated(), layout="residual", n_words=64)
    assert all(after < before for before, after in seen)
    coded = [before for before, _ in seen]
    assert all(b <= a * 1.02 for a, b in zip(coded[:-1], coded[1:], strict=True))
    assert coded[-1] < 0.9 * coded[0]


def test_words_are_shrunk_as_a_plain_loop_shrinks_them() -> None:
    rng = np.random.default_rng(0)
    words, counts, starts = rng.normal(size=(5, 3)).astype(np.float32), np.array([4, 0, 2, 1, 3]), np.array([0, 2, 5])
    for book, error in ((range(2), 7.0), (range(2, 5), 0.5)):
        found = module._shrunk(words, counts, starts, error)
        energy = sum(int(counts[w]) * float((words[w].astype(np.float64) ** 2).sum()) for w in book)
        for w in book:
            share = energy / (energy + error) if counts[w] else 1
            np.testing.assert_allclose(found[w], share * words[w], rtol=1e-6)
    np.testing.assert_array_equal(module._shrunk(words, counts, starts, 0.0), words)  # codes without errors stay


def test_shrunk_words_code_other_rows_better(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rows spread over many dimensions; where they do not, nothing is shrunk."""
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(4000, 64)) * 0.98 ** np.arange(64)).astype(np.float32)
    given: dict[str, Any] = {"layout": "residual", "n_bytes": 8, "n_words": 64, "iterations": 4}
    shrunk = learned(x[:2000], **given)
    monkeypatch.setattr("interlace.learn.books.refit", lambda *given: refit(*given[:4]))
    plain = learned(x[:2000], **given)
    assert coded_error(x[2000:], shrunk) < 0.99 * coded_error(x[2000:], plain)
    few = correlated(1000)
    same = learned(few, layout="residual", n_words=32, iterations=2)
    monkeypatch.undo()
    assert learned(few, layout="residual", n_words=32, iterations=2) == same


def test_residual_codes_better_than_cells_than_product_books() -> None:
    digits = pytest.importorskip("sklearn.datasets").load_digits().data.astype(np.float32)
    for x, n_words in ((correlated(3000), 256), (digits, 64)):
        train, test = x[::2].copy(), x[1::2].copy()
        errors = {
            layout: coded_error(test, learned(train, layout=layout, n_words=n_words, iterations=5))
            for layout in ("subspace", "hybrid", "residual")
        }
        assert errors["residual"] < errors["subspace"]
        assert errors["hybrid"] < errors["subspace"]


@pytest.mark.parametrize("layout", ["subspace", "hybrid", "residual"])
def test_more_effort_codes_better(layout: str) -> None:
    x = correlated(1500)
    errors = [
        coded_error(x, learned(x, layout=layout, effort=effort, iterations=4, n_words=64))
        for effort in ("fastest", "fast", "balanced", "best")
    ]
    assert errors[2] <= errors[1] <= errors[0]
    assert (errors[2] < errors[0]) == (layout != "subspace")  # product books are coded exactly anyway


def test_books_of_rounding_errors_are_not_learned() -> None:
    """400 rows are coded exactly by the first book and one of each of two groups; five more must not spoil that."""
    x = correlated(400)
    codebooks = learned(x, layout="residual", iterations=3)
    assert [len(b.words) > 1 for b in codebooks.books] == [True, True, False, False, False, True, False, False]
    assert coded_error(x, codebooks) < 1e-10 * x.var(0).sum()


@pytest.mark.parametrize("layout", ["hybrid", "residual"])
def test_no_system_of_equations_is_solved(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dense systems took seconds for 2,000 rows, with threads of BLAS that wait busily."""
    monkeypatch.setattr(np.linalg, "solve", lambda *given: pytest.fail("a dense system"))
    monkeypatch.setattr(np.linalg, "svd", lambda *given, **how: pytest.fail("a decomposition"))
    learned(correlated(1000), layout=layout, iterations=2)


def test_less_effort_learns_in_fewer_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    x, refits = correlated(1500), {}
    for effort in EFFORTS:
        seen: list[int] = []
        monkeypatch.setattr("interlace.learn.books.refit", lambda *given, seen=seen: seen.append(1) or refit(*given))
        learned(x, layout="residual", n_words=32, effort=effort)
        refits[effort] = len(seen)
    assert refits["fastest"] == 2
    assert refits["fast"] == 3
    assert 3 < refits["balanced"] <= 10
    assert 3 < refits["best"] <= 10
    monkeypatch.undo()
    assert len(learned(x, layout="residual", n_words=32, effort="fast", iterations=0).books) == 8


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_threads_change_nothing(data: st.DataObject) -> None:
    books, y, codes = drawn(data)
    one, three = (refit(books, y, codes, threads) for threads in (1, 3))
    assert one[1] == three[1]
    assert all(np.array_equal(a.words, b.words) for a, b in zip(one[0], three[0], strict=True))
