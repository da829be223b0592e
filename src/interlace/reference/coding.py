"""Encoding: beam search over the books, then sweeps that improve one word at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import MAX_WORDS, Codebooks
from ..codec.terms import F, Integers, squares
from ..inputs.arrays import FloatArray
from .terms import CellTerms, PairTerms, cell_terms, inner, pair_terms, rotate, saturated

ALL_TABLES = 16  # of 256 cells, that every row is compared with (cpp/core/nearest_words.h)
CELLS = 2  # cells at the start of the beam if later books overlap
START = -8192  # integer of the smallest table entry; leaves room for three largest cross terms in int16
MOST_STEPS = F(40959)


def encode(
    codebooks: Codebooks, x: FloatArray, beam: int | None = None, sweeps: int | None = None
) -> NDArray[np.uint8]:
    """Codes uint8 [n, code_width] of float32 rows: the cell (word of the first book), then one code per column."""
    coder = _Coder(
        codebooks,
        cell_terms(codebooks),
        pair_terms(codebooks),
        codebooks.beam if beam is None else beam,
        codebooks.sweeps if sweeps is None else sweeps,
    )
    numbers = np.array([coder.code(row) for row in x], np.int64).reshape(len(x), 1 + len(codebooks.columns))
    return np.concatenate([codebooks.cells.to_codes(numbers[:, 0]), numbers[:, 1:].astype(np.uint8)], axis=1)


Path = tuple[np.float32, list[int]]  # score, words of the books so far
ParallelPath = tuple[np.float32, list[int], np.float32]  # and what is left of the row along itself
P = TypeVar("P", bound=tuple[Any, ...])


def _best(paths: list[P], n: int) -> list[P]:
    """The n paths with the smallest scores; ties are resolved in favour of the earlier path."""
    return sorted(paths, key=lambda path: path[0])[:n]


def _best_of_cells(paths: list[Path]) -> list[Path]:
    """The best path of each cell, in the place of the first one."""
    best: dict[int, Path] = {}
    for path in paths:
        if path[1][0] not in best or path[0] < best[path[1][0]][0]:
            best[path[1][0]] = path
    return list(best.values())


@dataclass(frozen=True)
class _Coder:
    codebooks: Codebooks
    cells: CellTerms
    pairs: PairTerms
    beam: int
    sweeps: int

    def code(self, x: FloatArray) -> list[int]:
        """Codes of one vector: paths start with cells, each book extends them; scores are |x - words|^2 - |x|^2."""
        y = rotate(self.codebooks, x, centre=True)
        linear = [squares(b) - F(2) * inner(y[b.support], b.words.T) for b in self.codebooks.books]
        n_books = len(linear)
        if self.codebooks.parallel_weight > 1:
            return self._with_norms(self._parallel_code(y, linear))
        any_linked = any(self.pairs.linked(j) for j in range(1, n_books))
        beam = self.beam if any_linked or self.cells.step > 0 else 1  # independent books need no beam
        cells = [(linear[0][w], [int(w)]) for w in self._compared_cells(y)]
        paths = _best(cells, min(beam, CELLS) if any_linked else beam)
        for j in range(1, n_books):
            if not any(i < j <= k for i, k in self.pairs.of):
                paths = _best_of_cells(paths)  # what follows depends on the cell alone
            if self.pairs.linked(j):  # keep the best combinations of paths and words
                paths = _best([longer for path in paths for longer in self._extended(linear[j], path, j)], beam)
            else:  # independent of other words: each path takes its best word
                paths = [self._settled(linear[j], path, j) for path in paths]
        [(_, codes)] = _best(paths, 1)
        for _ in range(self.sweeps):
            if not self._improve(linear, codes):
                break
        return self._with_norms(codes)

    def _with_norms(self, codes: list[int]) -> list[int]:
        """The cell, and the code of every column."""
        norm_or_word = (codes[c] if c >= 0 else self._norm_code(-1 - c, codes) for c in self.codebooks.columns)
        return [codes[0], *norm_or_word]

    def _parallel_code(self, y: FloatArray, linear: list[FloatArray]) -> list[int]:
        """Words of all books with the loss of :mod:`interlace.codec.encode`: every book extends all paths."""
        along, left = self._along(y, linear)
        n_books = len(linear)
        any_linked = any(self.pairs.linked(j) for j in range(1, n_books))
        cells = _best(
            [(linear[0][w], int(w)) for w in self._compared_cells(y)],
            min(self.beam, CELLS) if any_linked else self.beam,
        )
        start = self._parallel_terms(along[0], left)
        paths: list[ParallelPath] = [(score + start[w], [w], left - along[0][w]) for score, w in cells]
        for j in range(1, n_books):
            longer = []
            for score, codes, rest in paths:
                if self.pairs.linked(j):
                    scores = np.array([s for s, _ in self._extended(linear[j], (score, codes), j)], F)
                else:
                    scores = score + self._own(linear[j], codes[0], j)
                scores = scores + self._parallel_terms(along[j], rest)
                longer += [(s, [*codes, w], rest - along[j][w]) for w, s in enumerate(scores)]
            paths = _best(longer, self.beam)
        [(_, codes, left)] = _best(paths, 1)
        for _ in range(self.sweeps):
            before = list(codes)
            for j in range(1, n_books):
                if self.pairs.linked(j):
                    scores = self.pairs.step * self._sums(linear[j], codes, j).astype(F)
                else:
                    scores = self._own(linear[j], codes[0], j)
                left = left + along[j][codes[j]]
                scores = scores + self._parallel_terms(along[j], left)
                if scores.min() < scores[codes[j]]:
                    codes[j] = int(np.argmin(scores))
                left = left - along[j][codes[j]]
            if codes == before:
                break
        return codes

    def _along(self, y: FloatArray, linear: list[FloatArray]) -> tuple[list[FloatArray], np.float32]:
        """The products of all words with the direction of the row, and that of the centred row y."""
        books = self.codebooks.books
        origin = rotate(self.codebooks, np.zeros_like(y), centre=True)
        row = y - origin
        square, product = (np.cumsum(a.astype(np.float64) * row)[-1] for a in (row, y))
        length = np.sqrt(square)
        if length <= self.codebooks.shortest_direction:
            return [np.zeros(len(b.words), F) for b in books], F(0)
        half_inverse = F(0.5 / length)
        cells = F(2) * inner(row[books[0].support], books[0].words.T)
        doubled = [
            squares(b) - F(2) * inner(origin[b.support], b.words.T) - of for b, of in zip(books, linear, strict=True)
        ]
        return [d * half_inverse for d in (cells, *doubled[1:])], F(product / length)

    def _parallel_terms(self, along: FloatArray, left: np.float32) -> FloatArray:
        """What words add to the loss, besides the squared error, if ``left`` is left of the row along itself."""
        return F(F(self.codebooks.parallel_weight) - F(1)) * (along * (along - F(2) * left))

    def _compared_cells(self, y: FloatArray) -> NDArray[np.int64]:
        """All cells; of more than ALL_TABLES tables of 256 cells, those of the tables with the nearest centres."""
        book = self.codebooks.books[0]
        n = len(book.words)
        starts = range(0, n, MAX_WORDS)
        if len(starts) <= ALL_TABLES:
            return np.arange(n)
        centres = np.empty((len(starts), book.words.shape[1]), F)
        for table, start in enumerate(starts):
            total = np.zeros(book.words.shape[1], F)
            for word in book.words[start : start + MAX_WORDS]:
                total = total + word
            centres[table] = total / F(len(book.words[start : start + MAX_WORDS]))
        lengths = np.zeros(len(centres), F)
        for d in range(centres.shape[1]):
            lengths += centres[:, d] * centres[:, d]
        scores = lengths - F(2) * inner(y[book.support], centres.T)
        n_read = max(8, math.isqrt(len(starts)))
        read = np.sort(np.argsort(scores, kind="stable")[:n_read])
        return np.concatenate([np.arange(t * MAX_WORDS, min(n, (t + 1) * MAX_WORDS)) for t in read])

    def _own(self, linear: FloatArray, cell: int, j: int) -> FloatArray:
        """|w|^2 - 2 (x - c).w for all words w of book j, where c is the word of the cell."""
        return linear + self.cells.of[j][cell].astype(F) * self.cells.step if j in self.cells.of else linear

    def _settled(self, linear: FloatArray, path: Path, j: int) -> Path:
        """The path with the best word of book j, which depends on no other book but the first."""
        score, codes = path
        table = self._own(linear, codes[0], j)
        word = int(np.argmin(table))
        return score + table[word], [*codes, word]

    def _extended(self, linear: FloatArray, path: Path, j: int) -> list[Path]:
        """The path with each word of book j; scores include cross terms with the words chosen before."""
        score, codes = path
        low = score + self._own(linear, codes[0], j).min()
        sums = self._sums(linear, codes, j)
        return [(low + self.pairs.step * F(s - START), [*codes, w]) for w, s in enumerate(sums)]

    def _sums(self, linear: FloatArray, codes: list[int], j: int) -> Integers:
        """The table of book j in integer steps above its minimum, plus its cross terms with the other chosen words."""
        table = self._own(linear, codes[0], j)
        above = (table - table.min()) * (F(1) / self.pairs.step) + F(0.5)
        sums = np.where(above < MOST_STEPS, above, MOST_STEPS).astype(np.int64) + START
        for i in range(1, len(codes)):
            if (i, j) in self.pairs.of:
                sums = saturated(sums + self.pairs.of[i, j][codes[i]])
            elif (j, i) in self.pairs.of:
                sums = saturated(sums + self.pairs.of[j, i][:, codes[i]])
        return sums

    def _improve(self, linear: list[FloatArray], codes: list[int]) -> bool:
        """One sweep of iterated conditional modes: each book takes the best word given the others."""
        before = list(codes)
        for j in range(1, len(codes)):
            if self.pairs.linked(j):
                sums = self._sums(linear[j], codes, j)
                if sums.min() < sums[codes[j]]:
                    codes[j] = int(np.argmin(sums))
        return codes != before

    def _norm_code(self, index: int, codes: list[int]) -> int:
        """Code of the norm value closest to the sum of the cross terms that only this norm covers (no earlier one)."""
        norm, earlier = self.codebooks.norms[index], self.codebooks.norms[:index]
        steps = 0
        for a, i in enumerate(norm.covers):
            for j in norm.covers[a + 1 :]:
                held = any(i in n.covers and j in n.covers for n in earlier)
                if not held and (i, j) in self.pairs.of:
                    steps += int(self.pairs.of[i, j][codes[i], codes[j]])
        return int(np.argmin(np.abs(norm.values - self.pairs.step * F(steps))))
