"""Composite quantization: books over all dimensions whose cross terms are kept nearly constant."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...codec.codebooks import MAX_WORDS, Book, Codebooks, Norm
from ...codec.encode import encode
from ...errors import InputError
from ...inputs.arrays import FloatArray
from ...inputs.literals import Auto
from ...learn.grouping import near_words_together
from ...learn.refit import RIDGE_ROWS
from ...learn.settings import MAX_TRAIN_ROWS
from .product import STARTS, centre, rotated
from .vectors import FitRun, VectorModel

Doubles = NDArray[np.float64]
#: Iterations of OPQ, from which composite books start.
START_TURNS = 10
#: Beam width of the encoder, in learning and after it, and its sweeps over the books.
BEAM, SWEEPS = 8, 2


class CQ(VectorModel):
    """Composite quantization (Zhang, Du, Wang: Composite Quantization for Approximate Nearest Neighbor Search, 2014).

    A vector is a sum of words, one from each book, and every book spans all dimensions. A distance needs the cross
    terms 2 w_i.w_j of the words of a row. Learning makes them nearly equal for all rows, and search replaces them by
    one constant, their mean (epsilon in the paper).

    Learning starts from the books of :class:`OPQ`, whose cross terms are 0. Each of the ``iterations`` has the three
    steps of the paper: codes (beam search and conditional modes); books, one after the other in closed form, because
    the error and the ``penalty`` on cross terms that differ from epsilon are quadratic in the words of one book; and
    epsilon. ``penalty`` is relative to the scale of the data. A larger penalty makes distances more accurate and the
    quantization error larger.

    Two things differ from the paper. Cross terms with the first book are exact and not penalised, because they are
    stored with the cell. And codes minimise the error alone, without the penalty, because all methods share the encoder
    of the index. Not implemented: L-BFGS, and the sparse and near-orthogonal variants of later papers.
    """

    name_in_files = "CQ"
    books_layout = "composite"

    def __init__(
        self,
        n_books: int = 8,
        *,
        penalty: float = 10.0,
        n_words: int = MAX_WORDS,
        n_crude: int | Auto = "auto",
        iterations: int = 12,
        max_train_rows: int = MAX_TRAIN_ROWS,
        seed: int = 0,
        threads: int | None = None,
        progress: Any = "auto",
    ) -> None:
        super().__init__(
            n_books,
            n_words=n_words,
            n_crude=n_crude,
            iterations=iterations,
            max_train_rows=max_train_rows,
            seed=seed,
            threads=threads,
            progress=progress,
        )
        self.penalty = penalty

    def check_parameters(self) -> None:
        """Validate ``penalty``."""
        penalty = self.penalty
        real = isinstance(penalty, int | float | np.integer | np.floating) and not isinstance(penalty, bool)
        if not real or not 0 <= penalty <= 1e9:  # NaN compares false
            raise InputError(f"penalty must be a number from 0 to 1e9, got {penalty!r}")

    def learn_codebooks(self, x: FloatArray, run: FitRun) -> Codebooks:
        """Codes, books and epsilon in turns, starting from OPQ."""
        mean = centre(x)
        y = x - mean
        words = _start(y, run.part(0.0, 0.3))
        energy = float((y.astype(np.float64) ** 2).sum(1).mean())
        weight = float(self.penalty) / energy if energy > 0 else 0.0
        codes = _codes(words, y, run)
        for step in range(run.iterations):
            run.progress(f"books {step + 1} of {run.iterations}", 0.3 + 0.7 * step / run.iterations)
            refit(words, y, codes, weight)
            codes = _codes(words, y, run)
        return _codebooks(words, y, codes, mean, run)


def _start(y: FloatArray, run: FitRun) -> list[Doubles]:
    """Words [n_words, dim] of OPQ in the coordinates of y, books with the largest mean squared words first."""
    product = rotated(y, run.n_books, run, STARTS, START_TURNS)
    assert product.rotation is not None
    axes = product.rotation.astype(np.float64)
    words = [w.astype(np.float64) @ axes[:, dims].T for w, dims in zip(product.words, product.supports, strict=True)]
    words[0] += product.mean.astype(np.float64)  # nearly 0, because the rows are centred
    return sorted(words, key=lambda w: -float((w**2).sum(1).mean()))


def _books(words: list[Doubles]) -> list[Book]:
    support = np.arange(words[0].shape[1], dtype=np.uint32)
    return [Book(w.astype(np.float32), support) for w in words]


def _codes(words: list[Doubles], y: FloatArray, run: FitRun) -> NDArray[np.uint8]:
    """Codes [n, n_books] of centred rows, in the order of the books."""
    books = Codebooks(_books(words), dim=y.shape[1], n_crude=len(words), beam=BEAM, sweeps=SWEEPS)
    return encode(books, y, run.threads)


def cross_terms(words: list[Doubles], codes: NDArray[np.uint8]) -> Doubles:
    """The sum of 2 w_i.w_j over pairs of books, the first book excluded, for each row."""
    total, squares = np.zeros((len(codes), words[0].shape[1])), np.zeros(len(codes))
    for j in range(1, len(words)):
        own = words[j][codes[:, j]]
        total += own
        squares += np.einsum("ij,ij->i", own, own)
    return np.asarray(np.einsum("ij,ij->i", total, total) - squares)


def refit(words: list[Doubles], y: FloatArray, codes: NDArray[np.uint8], weight: float) -> None:
    """Replace the words, book by book, by those that minimise error + weight * (cross term - epsilon)^2.

    For a row i, let r_i be the residual of the other books, s_i the sum of its words from the other books after the
    first, and c_i their cross term. The word w of the rows i minimises sum |r_i - w|^2 + weight (c_i + 2 w.s_i -
    epsilon)^2, which is a linear system for each word.
    """
    left, covered, squares = y.astype(np.float64), np.zeros(y.shape), np.zeros(len(y))
    for j in range(len(words)):
        mine = words[j][codes[:, j]]
        left -= mine
        if j:
            covered += mine
            squares += np.einsum("ij,ij->i", mine, mine)
    penalised = weight > 0 and len(words) > 2
    for j in range(len(words)):
        mine = words[j][codes[:, j]]
        epsilon = float((np.einsum("ij,ij->i", covered, covered) - squares).mean())
        left += mine
        if j:
            covered -= mine
            squares -= np.einsum("ij,ij->i", mine, mine)
            cross = np.einsum("ij,ij->i", covered, covered) - squares
        order = np.argsort(codes[:, j], kind="stable")
        bounds = np.searchsorted(codes[order, j], np.arange(len(words[j]) + 1))
        for w in range(len(words[j])):
            rows = order[bounds[w] : bounds[w + 1]]
            if not len(rows):
                continue
            right = left[rows].sum(0) + RIDGE_ROWS * words[j][w]
            if j and penalised:
                right += 2 * weight * ((epsilon - cross[rows]) @ covered[rows])
                words[j][w] = _solved(len(rows) + RIDGE_ROWS, 4 * weight, covered[rows], right)
            else:
                words[j][w] = right / (len(rows) + RIDGE_ROWS)
        mine = words[j][codes[:, j]]
        left -= mine
        if j:
            covered += mine
            squares += np.einsum("ij,ij->i", mine, mine)


def _solved(n: float, weight: float, s: Doubles, right: Doubles) -> Doubles:
    """(n I + weight s^T s)^-1 right; by the Woodbury identity if s has fewer rows than columns."""
    if len(s) < s.shape[1]:
        inner = np.eye(len(s)) * (n / weight) + s @ s.T
        return np.asarray((right - s.T @ np.linalg.solve(inner, s @ right)) / n)
    return np.asarray(np.linalg.solve(np.eye(s.shape[1]) * n + weight * (s.T @ s), right))


def _codebooks(
    words: list[Doubles], y: FloatArray, codes: NDArray[np.uint8], mean: FloatArray, run: FitRun
) -> Codebooks:
    """Codebooks whose constant is the mean cross term of the codes."""
    n_crude, n_books = run.crude(len(words)), len(words)
    epsilon = float(cross_terms(words, codes).mean())
    unread = np.sum([w[codes[:, j]] for j, w in enumerate(words) if j >= n_crude] or [np.zeros(y.shape)], axis=0)
    books = _books(words)
    return Codebooks(
        [books[0], *(Book(near_words_together(book.words), book.support) for book in books[1:])],
        dim=y.shape[1],
        n_crude=n_crude,
        mean=mean,
        norms=[Norm(np.array([epsilon], np.float32), tuple(range(1, n_books)))] if n_books > 2 else [],
        beam=BEAM,
        sweeps=SWEEPS,
        layout=CQ.books_layout,
        variances=y.astype(np.float64).var(0),
        residual_variance=float(unread.var(0).sum()),
    )
