"""What every layout needs to learn its books: the sample, the budget, and one way to train.

Books are started one after the other, each by k-means on what the ones before left. Where books share dimensions, two
steps then alternate: all books are refitted to the codes (least squares), and the rows are coded anew (beam search).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import MAX_WORDS, Book, Codebooks, Norm
from ..codec.encode import EFFORTS, encode
from ..codec.metric import METRICS
from ..inputs.arrays import FloatArray
from ..progress import Progress
from .grouping import Dims, near_words_together
from .kmeans import kmeans, nearest
from .prior import Prior
from .refit import refit
from .schedule import NARROW_BEAM, PRODUCT_ROUNDS, ROUND_ROWS, ROUNDS, SETTLED, WIDE_BEAM, refit_rounds

#: A book after so many others on its dimensions gets rows without clusters. If these spread over as many dimensions as
#: here, a row is nearer to the mean than to other rows: of words that start at rows, a few near the mean take nearly
#: everything and the others stay alone (a 16th book for SIFT had 4.4 bits of entropy). Words that start at this share
#: of a row's distance from the mean all get rows, and move out with them (7.8 bits). In few dimensions rows do better.
#: Of .4, .5 and .6 the share was picked on the sets and queries of benchmarks/codes.py themselves.
SPREAD_AFTER, SPREAD_DIMS, START_SPREAD = 2, 24, 0.6
SPREAD_ROWS = 4096  # to tell over how many dimensions rows spread
#: What is left of the energy, as a share, below which there is nothing to code but rounding. Books of such words would
#: make cross terms so small that their steps drown in the rounding of the coder's scores.
NEGLIGIBLE = 1e-12
BLOCK = 4096  # rows that are held in float64 at a time


@dataclass
class Learner:
    """One learning run. ``x`` float32 [n, dim]: rows of the sample, of length 1 for cosine."""

    x: FloatArray
    n_bytes: int  # code columns, norm columns included
    metric: str
    rng: np.random.Generator
    threads: int
    progress: Progress
    n_words: int = MAX_WORDS
    n_crude: int | None = None  # crude books; None: the layout's choice
    n_psi: int | None = None  # books on psi; None: its fair share of them
    rotation: str = "auto"
    cross: str = "auto"
    prior: str = "em"
    effort: str = "balanced"
    iterations: int = 10
    interrupted: bool = field(default=False, init=False)
    fitted_prior: Prior | None = field(default=None, init=False)

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return int(self.x.shape[1])

    def crude(self, default: int, n_books: int) -> int:
        """Number of crude books."""
        return min(default if self.n_crude is None else self.n_crude, n_books)

    def kmeans(self, x: FloatArray, rounds: int, spread: float = 1.0) -> FloatArray:
        """Words of one book."""
        return kmeans(x, self.n_words, rng=self.rng, threads=self.threads, iterations=rounds, spread=spread)

    def train(self, y: FloatArray, supports: list[Dims], settings: dict[str, Any]) -> Codebooks:
        """Books on the given supports for rotated, centred rows y; ``settings`` are those of :class:`Codebooks`."""
        overlap = _any_overlap(supports, self.dim)
        books = self._start(y, supports, overlap)
        beam, sweeps = EFFORTS[self.effort]
        settings = settings | {"beam": min(beam, MAX_WORDS), "sweeps": sweeps}
        if overlap:
            books = self._alternate(y, books, settings)
        # The cell's book is never scanned.
        books[1:] = [Book(near_words_together(book.words), book.support) for book in books[1:]]
        return Codebooks(books, **settings, norms=self._norms(y, books, settings))

    def _start(self, y: FloatArray, supports: list[Dims], overlap: bool) -> list[Book]:
        rounds = ROUNDS[self.effort].start if overlap else PRODUCT_ROUNDS
        left, books = y.copy() if overlap else y, []
        before = np.zeros(self.dim, np.int64)  # books so far, by dimension
        least = NEGLIGIBLE * float(np.einsum("ij,ij->", y, y, dtype=np.float64))
        for i, dims in enumerate(supports):
            self.progress(f"book {i + 1} of {len(supports)}", (0.3 if overlap else 1.0) * i / len(supports))
            whole = len(dims) == self.dim
            part = left if whole else np.ascontiguousarray(left[:, dims])
            if np.einsum("ij,ij->", part, part, dtype=np.float64) <= least:
                words = np.zeros((1, len(dims)), np.float32)
            else:
                inwards = before[dims].min() >= SPREAD_AFTER and effective_dims(part) >= SPREAD_DIMS
                words = self.kmeans(part, rounds, START_SPREAD if inwards else 1.0)
            before[dims] += 1
            if overlap:
                part -= words[nearest(part, words, self.threads)[0]]
                if not whole:
                    left[:, dims] = part
            books.append(Book(words, dims.astype(np.uint32)))
        return books

    def _alternate(self, y: FloatArray, books: list[Book], settings: dict[str, Any]) -> list[Book]:
        """Refit and code in turns. An interrupt ends it early; the books so far are whole."""
        # Books are in coordinates of y: neither mean nor rotation is applied again.
        plain = {"dim": self.dim, "n_crude": len(books), "metric": settings["metric"]}

        def improved(rows: FloatArray, beam: int, books: list[Book]) -> tuple[list[Book], float]:
            codes = encode(Codebooks(books, **plain, beam=beam), rows, self.threads)
            return refit(books, rows, codes, self.threads)

        n_narrow, n_wide = refit_rounds(self.effort, self.iterations)
        n_rounds = n_narrow + n_wide
        few = max(len(y) // 2, min(len(y), ROUND_ROWS))

        def say(step: int) -> None:
            self.progress(f"refit {step + 1} of {n_rounds}", 0.3 + 0.7 * step / n_rounds)

        try:
            before = np.inf
            for step in range(n_narrow):
                say(step)
                part = y if few == len(y) else y[np.sort(self.rng.choice(len(y), few, replace=False))]
                books, error = improved(part, NARROW_BEAM, books)
                if few == len(y) and error > (1 - SETTLED) * before:
                    break
                before = error
            for step in range(n_narrow, n_rounds):
                say(step)
                books, _ = improved(y, WIDE_BEAM, books)
        except KeyboardInterrupt:
            self.interrupted = True
        return books

    def _norms(self, y: FloatArray, books: list[Book], settings: dict[str, Any]) -> list[Norm]:
        """A norm column for the cross terms between all books after the first, where ``cross`` is ``"byte"``."""
        if (
            not METRICS[self.metric].is_squared
            or self.cross != "byte"
            or not _any_overlap([b.support for b in books[1:]], self.dim)
        ):
            return []
        self.progress("norm column", 0.98)
        plain = {"dim": self.dim, "n_crude": len(books), "metric": "l2", "beam": settings["beam"]}
        codes = encode(Codebooks(books, **plain), y, self.threads)
        whole, squares = np.zeros(y.shape, np.float32), np.zeros(len(y), np.float32)
        for j, book in enumerate(books[1:], 1):
            words = book.words[codes[:, j]]
            whole[:, book.support] += words
            squares += np.einsum("ij,ij->i", words, words)
        cross = np.einsum("ij,ij->i", whole, whole) - squares
        values = kmeans(cross[:, None], MAX_WORDS, rng=self.rng, threads=self.threads, iterations=30)[:, 0]
        if len(values) == 1:  # one value would be a constant without a column: the bytes asked for are kept
            values = np.array([values[0], np.nextafter(values[0], np.float32(np.inf))], np.float32)
        return [Norm(np.sort(values), tuple(range(1, len(books))), crude=True)]


def _any_overlap(supports: list[Any], dim: int) -> bool:
    used = np.zeros(dim, np.int64)
    for dims in supports:
        used[dims] += 1
    return bool((used > 1).any())


def effective_dims(x: FloatArray) -> float:
    """Over how many dimensions the rows of x spread: (sum of variances)^2 / sum of squares, from some of the rows."""
    some = x[:: -(-len(x) // SPREAD_ROWS)].astype(np.float64)
    some -= some.mean(0)
    products = some.T @ some if len(some) > some.shape[1] else some @ some.T  # of the same squares and trace
    squares = float((products * products).sum())
    return float(np.trace(products)) ** 2 / squares if squares > 0 else 0.0


def principal_axes(x: FloatArray) -> tuple[FloatArray, NDArray[np.float64]]:
    """Rotation [dim, dim] to axes of descending variance, with fixed signs, and the variances."""
    dim, mean = x.shape[1], x.mean(0, dtype=np.float64)
    if 2 * len(x) < dim:  # few axes have variance: many times quicker than the covariance of all dimensions
        lengths, right = np.linalg.svd(x - mean, full_matrices=True)[1:]
        variances, axes = np.zeros(dim), right.T
        variances[: len(lengths)] = lengths**2 / len(x)
    else:
        covariance = np.zeros((dim, dim))
        for start in range(0, len(x), BLOCK):  # in float64, but never all of x
            centred = x[start : start + BLOCK] - mean
            covariance += centred.T @ centred
        variances, axes = np.linalg.eigh(covariance / len(x))
        variances, axes = np.maximum(variances[::-1], 0.0), axes[:, ::-1]
    axes = axes * np.sign(axes[np.argmax(np.abs(axes), axis=0), np.arange(axes.shape[1])])
    return np.ascontiguousarray(axes, np.float32), variances
