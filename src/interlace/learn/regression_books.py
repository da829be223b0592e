"""Supervised quantization as its paper has it: a linear map, dense books and codes in turns, each in closed form.

    min over W, P, C, b, e:  sum |y - W^T C b|^2 + ridge |W|^2 + gamma |C b - P^T x|^2 + mu (cross(b) - e)^2

y is the one-hot label of row x, C b the sum of its words, cross(b) the sum of the inner products of different words,
which search replaces by the constant e. W and P are least squares. Words are least squares without the last term, and
move by L-BFGS with it. Codes are chosen one book after the other (ICM), with the label of the row. numpy only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..inputs.arrays import FloatArray
from .kmeans import kmeans, nearest

Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]

#: Rows whose distances to all words are in memory at a time.
BLOCK_ROWS = 4096
#: Of the diagonal of a Gram matrix: keeps words that no row uses, and maps of constant features, at their place.
RIDGE = 1e-4
#: Pairs that L-BFGS remembers, its steps for each update of the words, and halvings of a step.
MEMORY, STEPS, HALVINGS = 10, 8, 20


@dataclass
class RegressionBooks:
    """The state: labels and rows are fixed, everything else moves. Rows are centred."""

    x: Matrix  #: [n, features]
    y: Matrix  #: [n, classes], one-hot, centred
    n_books: int
    n_words: int
    dim: int
    gamma: float
    mu: float
    ridge: float
    rng: np.random.Generator
    threads: int = 1
    words: Matrix = field(init=False)  #: [n_books, n_words, dim]
    codes: Codes = field(init=False)  #: [n, n_books]
    p: Matrix = field(init=False)  #: [features, dim]
    w: Matrix = field(init=False)  #: [dim, classes]
    constant: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        gram = self.x.T @ self.x
        gram += RIDGE * max(float(np.trace(gram)) / len(gram), 1e-300) * np.eye(len(gram))
        self._inverse = np.linalg.inv(gram)
        self._start()

    # --- objective

    def decoded(self, words: Matrix | None = None) -> Matrix:
        """C b of every row."""
        books = self.words if words is None else words
        return np.asarray(sum(book[self.codes[:, k]] for k, book in enumerate(books)))

    def cross(self, decoded: Matrix, words: Matrix | None = None) -> Matrix:
        """Cross terms of every row."""
        books = self.words if words is None else words
        squares = sum((book**2).sum(1)[self.codes[:, k]] for k, book in enumerate(books))
        return np.asarray((decoded**2).sum(1) - squares)

    def objective(self, words: Matrix | None = None) -> float:
        """The value that every update lowers, without the ridge of W."""
        decoded = self.decoded(words)
        spread = self.cross(decoded, words) - self.constant
        error = ((self.y - decoded @ self.w) ** 2).sum() + self.gamma * ((decoded - self.x @ self.p) ** 2).sum()
        return float(error + self.ridge * (self.w**2).sum() + self.mu * (spread**2).sum())

    # --- updates

    def _start(self) -> None:
        """P predicts the labels, and words are k-means of the residuals of the projected rows."""
        target = self.y @ self._spread_out(self.y.shape[1])
        self.p = self._inverse @ (self.x.T @ target)
        rest = (self.x @ self.p).astype(np.float32)
        self.words = np.zeros((self.n_books, self.n_words, self.dim))
        self.codes = np.zeros((len(rest), self.n_books), np.int64)
        for k in range(self.n_books):
            found = kmeans(np.ascontiguousarray(rest), self.n_words, rng=self.rng, threads=self.threads)
            labels, _ = nearest(rest, found, self.threads)
            self.codes[:, k] = labels
            self.words[k] = found[np.arange(self.n_words) % len(found)]
            rest = rest - found[labels]
        self.update_map()
        self.constant = float(self.cross(self.decoded()).mean())

    def _spread_out(self, n_classes: int) -> Matrix:
        """[classes, dim] with orthonormal rows, as far as there are dimensions for them."""
        drawn = np.linalg.qr(self.rng.normal(size=(max(self.dim, n_classes),) * 2))[0]
        return np.asarray(drawn[:n_classes, : self.dim])

    def update_map(self) -> None:
        """W: ridge regression of the labels on the decoded rows."""
        decoded = self.decoded()
        gram = decoded.T @ decoded + self.ridge * np.eye(self.dim)
        self.w = np.asarray(np.linalg.solve(gram, decoded.T @ self.y), np.float64)

    def update_projection(self) -> None:
        """P: least squares of the decoded rows on the rows."""
        self.p = self._inverse @ (self.x.T @ self.decoded())

    def update_words(self) -> None:
        """C with the codes fixed: least squares for mu = 0, otherwise some steps of L-BFGS on the whole objective."""
        # |y - W^T c|^2 + gamma |c - z|^2 is (c - t)^T (W W^T + gamma) (c - t) + const with this target t.
        metric = self.w @ self.w.T + self.gamma * np.eye(self.dim)
        target = (self.y @ self.w.T + self.gamma * (self.x @ self.p)) @ np.linalg.inv(metric)
        if self.mu == 0:
            self.words = self._least_squares(target)
            return

        def value_and_slope(flat: Matrix) -> tuple[float, Matrix]:
            words = flat.reshape(self.words.shape)
            decoded = self.decoded(words)
            missed = (decoded - target) @ metric
            spread = self.cross(decoded, words) - self.constant
            value = float(((decoded - target) * missed).sum() + self.mu * (spread**2).sum())
            slope = np.empty_like(words)
            for k, book in enumerate(words):
                own = book[self.codes[:, k]]
                by_row = 2.0 * missed + 4.0 * self.mu * spread[:, None] * (decoded - own)
                slope[k] = self._sums(k, by_row)
            return value, slope.ravel()

        self.words = lbfgs(value_and_slope, self.words.ravel(), STEPS).reshape(self.words.shape)

    def _least_squares(self, target: Matrix) -> Matrix:
        """Words whose sums are nearest to ``target``; words that no row uses stay where they are."""
        size = self.n_books * self.n_words
        gram, right = np.zeros((size, size)), np.zeros((size, self.dim))
        for k in range(self.n_books):
            own = slice(k * self.n_words, (k + 1) * self.n_words)
            right[own] = self._sums(k, target)
            for j in range(self.n_books):
                pairs = self.codes[:, k] * self.n_words + self.codes[:, j]
                counts = np.bincount(pairs, minlength=self.n_words**2).reshape(self.n_words, self.n_words)
                gram[own, j * self.n_words : (j + 1) * self.n_words] = counts
        weight = RIDGE * len(target) / self.n_words
        before = self.words.reshape(size, self.dim)
        solved = np.linalg.solve(gram + weight * np.eye(size), right + weight * before)
        return np.asarray(solved.reshape(self.words.shape))

    def _sums(self, k: int, rows: Matrix) -> Matrix:
        """Sum of the rows of each word of a book."""
        columns = [np.bincount(self.codes[:, k], rows[:, j], minlength=self.n_words) for j in range(rows.shape[1])]
        return np.stack(columns, 1)

    def update_constant(self) -> None:
        """e: the mean of the cross terms."""
        self.constant = float(self.cross(self.decoded()).mean())

    def update_codes(self, sweeps: int = 1) -> None:
        """b by ICM, with the labels of the rows."""
        for part in _blocks(len(self.x)):
            rows = self.x[part] @ self.p
            self.codes[part] = self._icm(self.codes[part], rows, self.y[part], sweeps)

    def _icm(self, codes: Codes, rows: Matrix, labels: Matrix, sweeps: int) -> Codes:
        """Codes of some rows, improved book by book; no step raises the objective of a row."""
        codes = codes.copy()
        root = np.sqrt(self.gamma)
        wide = np.concatenate([root * self.words, self.words @ self.w], 2)  # in one space with targets [z, y]
        target = np.concatenate([root * rows, labels], 1)
        squares, lengths = (wide**2).sum(2), (self.words**2).sum(2)
        total = np.asarray(sum(self.words[k][codes[:, k]] for k in range(self.n_books)))
        missed = target - np.asarray(sum(wide[k][codes[:, k]] for k in range(self.n_books)))
        own = np.asarray(sum(lengths[k][codes[:, k]] for k in range(self.n_books)))
        for _ in range(sweeps):
            for k in range(self.n_books):
                now = codes[:, k]
                rest, left = total - self.words[k][now], missed + wide[k][now]
                cost = squares[k] - 2.0 * left @ wide[k].T
                if self.mu:
                    # Cross terms of the other words, and with each word of this book.
                    others = (rest**2).sum(1) - (own - lengths[k][now])
                    spread = others[:, None] + 2.0 * rest @ self.words[k].T - self.constant
                    cost += self.mu * spread**2
                chosen = cost.argmin(1)
                codes[:, k] = chosen
                total, missed = rest + self.words[k][chosen], left - wide[k][chosen]
                own = own - lengths[k][now] + lengths[k][chosen]
        return codes


def lbfgs(
    value_and_slope: Callable[[Matrix], tuple[float, Matrix]], start: Matrix, steps: int, memory: int = MEMORY
) -> Matrix:
    """Minimizes by L-BFGS with halved steps; no step raises the value."""
    at, (value, slope) = start, value_and_slope(start)
    pairs: list[tuple[Matrix, Matrix]] = []
    for _ in range(steps):
        direction = -_two_loops(slope, pairs)
        fall = float(direction @ slope)
        if fall >= 0:  # the curvature was not positive
            pairs, direction, fall = [], -slope, -float(slope @ slope)
        if fall == 0:
            break
        length = 1.0 if pairs else min(1.0, 1.0 / float(np.abs(slope).sum()))
        for _ in range(HALVINGS):
            trial = at + length * direction
            new_value, new_slope = value_and_slope(trial)
            if new_value <= value + 1e-4 * length * fall:
                break
            length /= 2
        else:
            break
        step, change = trial - at, new_slope - slope
        if float(step @ change) > 1e-12 * float(change @ change):
            pairs = [*pairs, (step, change)][-memory:]
        at, value, slope = trial, new_value, new_slope
    return at


def _two_loops(slope: Matrix, pairs: list[tuple[Matrix, Matrix]]) -> Matrix:
    """The slope times the approximate inverse of the second derivatives."""
    found, kept = slope.copy(), []
    for step, change in reversed(pairs):
        share = float(step @ found) / float(step @ change)
        kept.append(share)
        found -= share * change
    if pairs:
        step, change = pairs[-1]
        found *= float(step @ change) / float(change @ change)
    for (step, change), share in zip(pairs, reversed(kept), strict=True):
        found += (share - float(change @ found) / float(step @ change)) * step
    return found


def _blocks(n: int) -> Iterator[slice]:
    for start in range(0, n, BLOCK_ROWS):
        yield slice(start, min(start + BLOCK_ROWS, n))


def learn_regression_books(
    x: FloatArray, numbers: NDArray[np.int64], n_classes: int, rounds: int, progress: Any, **settings: Any
) -> tuple[RegressionBooks, list[dict[str, float]]]:
    """The learned state, and the objective after each round; x is centred, ``numbers`` are class numbers."""
    y = np.eye(n_classes)[numbers]
    state = RegressionBooks(np.asarray(x, np.float64), y - y.mean(0), **settings)
    history = []
    for number in range(rounds):
        state.update_codes()
        state.update_constant()
        state.update_words()
        state.update_map()
        state.update_projection()
        history.append({"round": float(number), "objective": state.objective() / len(x)})
        progress(f"round {number + 1}/{rounds}", (number + 1) / rounds)
    state.update_codes()
    state.update_constant()
    return state, history
