"""How the books of a layout are learned, once it is known which dimensions each book gets.

Books are initialized one after the other, each by k-means on the residuals of the previous books. If books share
dimensions, two steps then alternate: encode the rows (beam search), and refit all words to the codes (least squares).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import MAX_WORDS, Book, Codebooks, Codes, Norm
from ..codec.encode import EFFORTS, encode
from ..inputs.arrays import FloatArray
from ..progress import Progress
from .axes import effective_dims
from .grouping import Dims, near_words_together
from .kmeans import Labels, clusters, kmeans, means, nearest, subtract
from .prior import Prior
from .refit import parallel_targets, refit
from .schedule import (
    MIN_GAIN,
    NARROW_BEAM,
    PARALLEL_REFITS,
    PRODUCT_ROUNDS,
    ROUNDS,
    WIDE_BEAM,
    refit_rounds,
    rows_per_round,
)
from .settings import Settings

#: From the third book on the same dimensions, residuals have no clusters. If they spread over at least SPREAD_DIMS
#: dimensions, a row is nearer to the mean than to other rows: of words that start at rows, a few near the mean take
#: nearly all rows (a 16th book for SIFT had 4.4 bits of entropy). Words that start at START_SPREAD of a row's distance
#: from the mean all get rows, and move out with them (7.8 bits). In few dimensions words that start at rows are better.
#: Of .4, .5 and .6 the share was picked on the sets and queries of benchmarks/codes.py themselves.
SPREAD_AFTER, SPREAD_DIMS, START_SPREAD = 2, 24, 0.6
#: Residuals below this share of the energy are rounding errors. Books of such words would make cross terms so small
#: that the scores of the encoder could not resolve them.
NEGLIGIBLE = 1e-12
#: Share of the progress when overlapping books are initialized, and when they are refitted.
START_SHARE, REFIT_SHARE = 0.3, 0.98
NORM_ITERATIONS = 30
#: Weight of the old word of a cell in a refit, in rows, if there are more cells than words of a book.
CELL_RIDGE_ROWS = 8.0
#: Rounding may move a word by this share of the mean squared error of codes, at most; of rows of the sample, about as
#: many as the second number.
ROUNDING_LOSS, ROUNDED_ROWS = 1e-3, 1024


@dataclass
class Learner:
    """One learning run. ``x`` float32 [n, dim] is the sample, of length 1 for cosine."""

    x: FloatArray
    settings: Settings
    n_crude: int | None  # crude books; None: the layout's choice
    iterations: int  # refits, at most
    progress: Progress
    cells: FloatArray | None = None  # words of more cells than a book has words, in the space of x
    rng: np.random.Generator = field(init=False)
    origin: FloatArray | None = field(default=None, init=False)  # the mean, rotated, if the loss depends on it
    interrupted: bool = field(default=False, init=False)
    fitted_prior: Prior | None = field(default=None, init=False)
    spread: bool = field(default=False, init=False)  # residuals of some book have no clusters: refits shrink words

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.settings.seed)

    @property
    def dim(self) -> int:
        """Dimensions of a vector."""
        return int(self.x.shape[1])

    @property
    def threads(self) -> int:
        """Threads of the native kernels."""
        return self.settings.workers

    def crude(self, default: int, n_books: int) -> int:
        """Number of crude books."""
        return min(default if self.n_crude is None else self.n_crude, n_books)

    def clusters(
        self, x: FloatArray, rounds: int, spread: float = 1.0, cells: bool = False
    ) -> tuple[FloatArray, Labels]:
        """Words of one book, and the word of each row; ``cells``: of the first book."""
        n_words = self.settings.n_cells if cells else self.settings.n_words
        return clusters(x, n_words, rng=self.rng, threads=self.threads, iterations=rounds, spread=spread)

    def train(self, y: FloatArray, supports: list[Dims], described: dict[str, Any]) -> Codebooks:
        """Books on the supports, for rotated and centred rows y; ``described`` are arguments of :class:`Codebooks`."""
        overlap = _any_overlap(supports, self.dim)
        if self.settings.parallel_weight > 1:  # no longer a sum over dimensions: the words of all books are refitted
            overlap, self.origin = True, _rotated_mean(described)
        first = [] if self.cells is None else [self._cell_book(described["mean"], described["rotation"])]
        books = self._start_books(y, supports, overlap, first)
        beam, sweeps = EFFORTS[self.settings.effort]
        beam = min(beam, MAX_WORDS)
        if overlap:
            books = self._refit_books(y, books)
        books = self._rounded(y, books)
        # The book of the cells is never scanned, so the order of its words does not matter.
        books[1:] = [Book(near_words_together(book.words), book.support) for book in books[1:]]
        norms = self._norm_column(y, books, beam)
        weight = self.settings.parallel_weight
        return Codebooks(books, **described, beam=beam, sweeps=sweeps, norms=norms, parallel_weight=weight)

    def _cell_book(self, mean: FloatArray, rotation: FloatArray | None) -> Book:
        """The cells that are given, in the coordinates of the books."""
        assert self.cells is not None
        words: FloatArray = self.cells - mean
        if rotation is not None:
            words = np.asarray(words @ rotation, np.float32)
        return Book(words, np.arange(self.dim, dtype=np.uint32))

    def _start_books(self, y: FloatArray, supports: list[Dims], overlap: bool, given: list[Book]) -> list[Book]:
        """Books one after the other; ``given`` are the first of them."""
        rounds = ROUNDS[self.settings.effort].start if overlap else PRODUCT_ROUNDS
        residuals, books = y.copy() if overlap else y, []
        n_before = np.zeros(self.dim, np.int64)  # books so far, by dimension
        least = NEGLIGIBLE * _energy(y)
        for i, dims in enumerate(supports):
            self.progress(f"book {i + 1} of {len(supports)}", (START_SHARE if overlap else 1.0) * i / len(supports))
            whole = len(dims) == self.dim
            part = residuals if whole else np.take(residuals, dims, axis=1)
            if i < len(given):
                words = given[i].words
                labels = nearest(part, words, self.threads)[0]
            elif _energy(part) <= least:
                words, labels = np.zeros((1, len(dims)), np.float32), np.zeros(len(part), np.int32)
            else:
                no_clusters = n_before[dims].min() >= SPREAD_AFTER and effective_dims(part) >= SPREAD_DIMS
                self.spread |= bool(no_clusters)
                words, labels = self.clusters(part, rounds, START_SPREAD if no_clusters else 1.0, cells=i == 0)
            n_before[dims] += 1
            book = Book(words, dims.astype(np.uint32))
            if overlap:
                subtract(residuals, labels, words, book.support, self.threads)
            books.append(book)
        return books

    def _refit_books(self, y: FloatArray, books: list[Book]) -> list[Book]:
        """Encode and refit in turns. Ctrl-C ends this early, with the books so far."""
        n_narrow, n_wide = refit_rounds(self.settings.effort, self.iterations)
        n_rows, before = rows_per_round(len(y)), np.inf
        try:
            for step in range(n_narrow):
                self._report_refit(step, n_narrow + n_wide)
                part = y if n_rows == len(y) else y[np.sort(self.rng.choice(len(y), n_rows, replace=False))]
                books, error = self._refit_once(part, NARROW_BEAM, books)
                if n_rows == len(y) and error > (1 - MIN_GAIN) * before:
                    break
                before = error if step or not self.spread else np.inf  # the words of k-means were not shrunk
            for step in range(n_narrow, n_narrow + n_wide):
                self._report_refit(step, n_narrow + n_wide)
                books, _ = self._refit_once(y, WIDE_BEAM, books)
        except KeyboardInterrupt:
            self.interrupted = True
        return books

    def _refit_once(self, rows: FloatArray, beam: int, books: list[Book]) -> tuple[list[Book], float]:
        cells, codes = self._coded(rows, beam, books)
        if self.settings.parallel_weight == 1:
            return self._refit_to(rows, cells, codes, books)
        assert self.origin is not None
        targets, error = np.empty_like(rows), math.inf
        for step in range(PARALLEL_REFITS):
            weight, numbers = self.settings.parallel_weight, [cells, *codes.T]
            loss = parallel_targets(books, rows, numbers, self.origin, weight, targets)
            error = loss if step == 0 else error
            books, _ = self._refit_to(targets, cells, codes, books)
        return books, error

    def _coded(self, rows: FloatArray, beam: int, books: list[Book]) -> tuple[NDArray[np.int64], Codes]:
        """Cells and codes of centred and rotated rows."""
        codebooks = self._plain(books, beam)
        rows = rows if self.origin is None else rows + self.origin  # the loss is about rows that are not centred
        return codebooks.split_codes(encode(codebooks, rows, self.threads))

    def _refit_to(
        self, rows: FloatArray, cells: NDArray[np.int64], codes: Codes, books: list[Book]
    ) -> tuple[list[Book], float]:
        """Words with a lower squared error of rows, and the error of the old words."""
        if self.cells is None:
            return refit(books, rows, np.column_stack([cells.astype(np.uint8), codes]), self.threads, self.spread)
        # Many cells have few rows each in the sample: each moves by itself, not far from where more rows put it.
        labels, rest = cells.astype(np.int32), rows.copy()
        subtract(rest, labels, books[0].words, books[0].support, self.threads)
        later, error = refit(books[1:], rest, codes, self.threads, self.spread)
        rest[:] = rows
        for j, book in enumerate(later):
            subtract(rest, codes[:, j].astype(np.int32), book.words, book.support, self.threads)
        words, counts = means(rest, labels, books[0].words, self.threads)
        weight = (counts / (counts + CELL_RIDGE_ROWS))[:, None].astype(np.float32)
        moved = books[0].words + weight * (words - books[0].words)
        return [Book(moved, books[0].support), *later], error

    def _plain(self, books: list[Book], beam: int) -> Codebooks:
        """Codebooks for rows that are centred and rotated already."""
        return Codebooks(
            books,
            dim=self.dim,
            n_crude=len(books),
            metric=self.settings.metric,
            mean=self.origin,
            beam=beam,
            parallel_weight=self.settings.parallel_weight,
        )

    def _rounded(self, y: FloatArray, books: list[Book]) -> list[Book]:
        """Words in half precision, as files store them, where that is little beside the error of codes.

        Codes are made for the rounded words. Words that are far larger than the errors, such as those of cells that lie
        far apart, stay as they are: no later book makes up for their rounding.
        """
        rounded = [book.rounded() for book in books]
        losses = [_rounding_error(book, other) for book, other in zip(books, rounded, strict=True)]
        if not any(losses):
            return rounded
        rows = np.ascontiguousarray(y[:: max(1, len(y) // ROUNDED_ROWS)])
        cells, codes = self._coded(rows, NARROW_BEAM, books)
        rest = rows.copy()
        for j, book in enumerate(books):
            labels = cells if j == 0 else codes[:, j - 1]
            subtract(rest, labels.astype(np.int32), book.words, book.support, self.threads)
        most = ROUNDING_LOSS * _energy(rest) / len(rest)
        return [new if loss <= most else book for book, new, loss in zip(books, rounded, losses, strict=True)]

    def _report_refit(self, step: int, n_rounds: int) -> None:
        self.progress(f"refit {step + 1} of {n_rounds}", START_SHARE + (REFIT_SHARE - START_SHARE) * step / n_rounds)

    def _norm_column(self, y: FloatArray, books: list[Book], beam: int) -> list[Norm]:
        """For ``cross="byte"``, a column with the cross terms between all books after the first."""
        if self.settings.cross != "byte" or not _any_overlap([b.support for b in books[1:]], self.dim):
            return []
        self.progress("norm column", REFIT_SHARE)
        codes = self._coded(y, beam, books)[1]
        whole, squares = np.zeros(y.shape, np.float32), np.zeros(len(y), np.float32)
        for j, book in enumerate(books[1:]):
            words = book.words[codes[:, j]]
            whole[:, book.support] += words
            squares += np.einsum("ij,ij->i", words, words)
        cross = np.einsum("ij,ij->i", whole, whole) - squares
        values = kmeans(cross[:, None], MAX_WORDS, rng=self.rng, threads=self.threads, iterations=NORM_ITERATIONS)[:, 0]
        if len(values) == 1:  # a single value would need no column, but a column was asked for
            values = np.array([values[0], np.nextafter(values[0], np.float32(np.inf))], np.float32)
        return [Norm(np.sort(values), tuple(range(1, len(books))), crude=True)]


def _rotated_mean(described: dict[str, Any]) -> FloatArray:
    mean, rotation = described["mean"], described["rotation"]
    return np.asarray(mean if rotation is None else mean @ rotation, np.float32)


def _rounding_error(book: Book, rounded: Book) -> float:
    """The largest squared distance of a word from its rounded one."""
    if rounded is book:
        return 0.0
    difference = (rounded.words - book.words).astype(np.float64)
    return float(np.einsum("ij,ij->i", difference, difference).max(initial=0.0))


def _energy(x: FloatArray) -> float:
    """Sum of all squares."""
    return float(np.einsum("ij,ij->", x, x, dtype=np.float64))


def _any_overlap(supports: list[Any], dim: int) -> bool:
    used = np.zeros(dim, np.int64)
    for dims in supports:
        used[dims] += 1
    return bool((used > 1).any())
