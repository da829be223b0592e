"""Codes by beam search over the books, then sweeps over the words chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codebooks
from ..codec.terms import F, Integers, squares
from ..inputs.arrays import FloatArray
from .terms import CellTerms, PairTerms, cell_terms, inner, pair_terms, rotate, saturated

CELLS = 2  # the beam begins with so many where later books overlap
START = -8192  # the smallest step of a table: three largest cross terms fit below it
MOST_STEPS = F(40959)


def encode(
    codebooks: Codebooks, x: FloatArray, beam: int | None = None, sweeps: int | None = None
) -> NDArray[np.uint8]:
    """Codes uint8 [n, 1 + n_columns] of float32 rows, by beam search over the books in their order."""
    coder = _Coder(
        codebooks,
        cell_terms(codebooks),
        pair_terms(codebooks),
        codebooks.beam if beam is None else beam,
        codebooks.sweeps if sweeps is None else sweeps,
    )
    return np.array([coder.code(row) for row in x], np.uint8).reshape(len(x), 1 + len(codebooks.columns))


Path = tuple[np.float32, list[int]]  # score, words of the books so far


def _best(paths: list[Path], n: int) -> list[Path]:
    """Those of the smallest scores; a tie goes to the one found first."""
    return sorted(paths, key=lambda path: path[0])[:n]


@dataclass(frozen=True)
class _Coder:
    codebooks: Codebooks
    cells: CellTerms
    pairs: PairTerms
    beam: int
    sweeps: int

    def code(self, x: FloatArray) -> list[int]:
        """Cells first; then each book extends the paths. A path's score is |x - its words|^2 - |x|^2."""
        y = rotate(self.codebooks, x, centre=True)
        linear = [squares(b) - F(2) * inner(y[b.support], b.words.T) for b in self.codebooks.books]
        n_books = len(linear)
        any_linked = any(self.pairs.linked(j) for j in range(1, n_books))
        beam = self.beam if any_linked or self.cells.step > 0 else 1  # independent books need no beam
        paths = _best([(score, [w]) for w, score in enumerate(linear[0])], min(beam, CELLS) if any_linked else beam)
        for j in range(1, n_books):
            if self.pairs.linked(j):  # every word of every path competes
                paths = _best([longer for path in paths for longer in self._extended(linear[j], path, j)], beam)
            else:  # each path takes its best word
                paths = [self._settled(linear[j], path, j) for path in paths]
        [(_, codes)] = _best(paths, 1)
        for _ in range(self.sweeps):
            if not self._improve(linear, codes):
                break
        norm_or_word = (codes[c] if c >= 0 else self._norm_code(-1 - c, codes) for c in self.codebooks.columns)
        return [codes[0], *norm_or_word]

    def _own(self, linear: FloatArray, cell: int, j: int) -> FloatArray:
        """|w|^2 - 2 (x - c).w"""
        return linear + self.cells.of[j][cell].astype(F) * self.cells.step if j in self.cells.of else linear

    def _settled(self, linear: FloatArray, path: Path, j: int) -> Path:
        score, codes = path
        table = self._own(linear, codes[0], j)
        word = int(np.argmin(table))
        return score + table[word], [*codes, word]

    def _extended(self, linear: FloatArray, path: Path, j: int) -> list[Path]:
        score, codes = path
        low = score + self._own(linear, codes[0], j).min()
        sums = self._sums(linear, codes, j)
        return [(low + self.pairs.step * F(s - START), [*codes, w]) for w, s in enumerate(sums)]

    def _sums(self, linear: FloatArray, codes: list[int], j: int) -> Integers:
        """The table of book j in steps above its minimum, and the cross terms with the other words that are chosen."""
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
        """Index of the value next to the cross terms that the norm covers and no earlier one does."""
        norm, earlier = self.codebooks.norms[index], self.codebooks.norms[:index]
        steps = 0
        for a, i in enumerate(norm.covers):
            for j in norm.covers[a + 1 :]:
                held = any(i in n.covers and j in n.covers for n in earlier)
                if not held and (i, j) in self.pairs.of:
                    steps += int(self.pairs.of[i, j][codes[i], codes[j]])
        return int(np.argmin(np.abs(norm.values - self.pairs.step * F(steps))))
