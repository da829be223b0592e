"""Encode and search in plain NumPy: slow, readable, and the oracle of every native test.

Floats are float32, and sums run over dimensions one by one, as the kernels do, so results agree to the last bit. Terms
that are kept as whole numbers of a step are integers here too. Read this file to learn what the library computes; read
cpp/core to learn how it does so quickly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import FloatArray
from .codebooks import Book, Codebooks
from .margins import Rule

F = np.float32
INF = F(np.inf)
Integers = NDArray[np.int64]
Pair = tuple[int, int]


def inner(x: FloatArray, columns: FloatArray) -> FloatArray:
    """sum_d x[d] * columns[d, :], added in the order of d."""
    total = np.zeros(columns.shape[1], F)
    for d in range(len(x)):
        total += columns[d] * x[d]
    return total


def squared(x: FloatArray, columns: FloatArray) -> FloatArray:
    """sum_d (columns[d, :] - x[d])^2, added in the order of d."""
    total = np.zeros(columns.shape[1], F)
    for d in range(len(x)):
        total += (columns[d] - x[d]) ** 2
    return total


def rotate(codebooks: Codebooks, x: FloatArray, centre: bool) -> FloatArray:
    """One vector in the coordinates of the books: (x - mean) R, or x R."""
    y = x - codebooks.mean if centre else x
    return y if codebooks.rotation is None else inner(y, codebooks.rotation)


def overlap(a: Book, b: Book) -> bool:
    """Whether two books share a dimension."""
    return bool(np.intersect1d(a.support, b.support).size)


def cross_terms(a: Book, b: Book, dim: int) -> FloatArray:
    """2 w_a . w_b for all pairs of words, float32 [words of a, words of b]."""
    dense = np.zeros((len(a.words), dim), F)
    dense[:, a.support] = a.words
    return np.stack([inner(row[b.support], b.words.T) * F(2) for row in dense])


def squares(book: Book) -> FloatArray:
    """|w|^2 of every word."""
    total = np.zeros(len(book.words), F)
    for d in range(len(book.support)):
        total += book.words[:, d] * book.words[:, d]
    return total


# ------------------------------------------------------------------------------------------------------- whole steps


def to_steps(values: FloatArray, step: np.float32) -> Integers:
    """The nearest whole numbers of steps; all 0 where a step is."""
    return np.rint(values / step).astype(np.int64) if step > 0 else np.zeros(values.shape, np.int64)


@dataclass(frozen=True)
class CellTerms:
    """2 c.w of the cell's word c and a word w of a later book, in whole steps: ``of[book]`` [n_cells, n_words]."""

    of: dict[int, Integers]
    step: np.float32  # one for all books, so that steps can be added up; 0: there are no terms
    bound: np.float32  # sum over columns of the largest |term|


def cell_terms(codebooks: Codebooks) -> CellTerms:
    """The terms that make a table differ from cell to cell, as int16 numbers."""
    cell, exact = codebooks.books[0], {}
    bound = largest = F(0)
    for column in codebooks.columns:
        if column >= 0 and overlap(cell, codebooks.books[column]):
            exact[column] = cross_terms(cell, codebooks.books[column], codebooks.dim)
            bound += np.abs(exact[column]).max()
            largest = max(largest, np.abs(exact[column]).max())
    step = largest / F(32767)
    return CellTerms({book: to_steps(terms, step) for book, terms in exact.items()} if step > 0 else {}, step, bound)


@dataclass(frozen=True)
class PairTerms:
    """2 w_i.w_j of overlapping books 1 <= i < j in whole steps: ``of[i, j]`` [words of i, words of j]. For coding."""

    of: dict[Pair, Integers]
    step: np.float32

    def linked(self, j: int) -> bool:
        """Whether the best word of book j depends on those of other books than the first."""
        return bool(self.step > 0) and any(j in pair for pair in self.of)


def pair_terms(codebooks: Codebooks) -> PairTerms:
    """A quarter of the range of int16, so that several of them can be added up in it."""
    books, exact = codebooks.books, {}
    largest = F(0)
    for i in range(1, len(books)):
        for j in range(i + 1, len(books)):
            if overlap(books[i], books[j]):
                exact[i, j] = cross_terms(books[i], books[j], codebooks.dim)
                largest = max(largest, np.abs(exact[i, j]).max())
    step = largest / F(8191)
    return PairTerms({pair: to_steps(terms, step) for pair, terms in exact.items()}, step)


@dataclass(frozen=True)
class DenseWords:
    """Words in whole steps on all dimensions: ``of[position of a column]`` [n_words, dim]. For the second step."""

    of: dict[int, Integers]
    unit: np.float32  # the square of a step

    def cross_sum(self, codes: NDArray[np.uint8]) -> int:
        """Cross terms between the books of a row in units, |sum of words|^2 - sum of |word|^2; codes as stored."""
        words = [dense[codes[1 + position]] for position, dense in self.of.items()]
        return int((sum(words) ** 2).sum() - sum((word**2).sum() for word in words)) if words else 0

    def cross_term(self, cross_sum: int) -> np.float32:
        """What it adds to a distance."""
        return self.unit * F(cross_sum)


def dense_words(codebooks: Codebooks) -> DenseWords:
    """Books after the first that overlap, where no norm stands for their cross terms."""
    books = codebooks.books
    of: dict[int, Book] = {}
    if codebooks.metric == "l2" and not codebooks.norms:
        for position, column in enumerate(codebooks.columns):
            if any(overlap(books[column], books[i]) for i in range(1, len(books)) if i != column):
                of[position] = books[column]
    reach = F(0)
    for book in of.values():
        reach += np.sqrt(squares(book).max())
    # The square of a sum of words fits 31 bits, with what rounding adds: half a step per book and dimension.
    step = reach / (F(32700) - F(0.5) * F(len(of)) * np.sqrt(F(codebooks.dim)))
    dense = {}
    for position, book in of.items():
        dense[position] = np.zeros((len(book.words), codebooks.dim), np.int64)
        dense[position][:, book.support] = to_steps(book.words, step)
    return DenseWords(dense, step * step)


def cross_floors(codebooks: Codebooks, codes: NDArray[np.uint8]) -> Integers:
    """The smallest cross sum of the rows of each cell; 0 for a cell without rows."""
    dense = dense_words(codebooks)
    sums = [[dense.cross_sum(row) for row in codes[codes[:, 0] == cell]] for cell in range(codebooks.n_cells)]
    return np.array([min(of_cell, default=0) for of_cell in sums])


# ---------------------------------------------------------------------------------------------------------- encoding

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


def _saturated(sums: Integers) -> Integers:
    return np.clip(sums, -32768, 32767)


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
                sums = _saturated(sums + self.pairs.of[i, j][codes[i]])
            elif (j, i) in self.pairs.of:
                sums = _saturated(sums + self.pairs.of[j, i][:, codes[i]])
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


# ------------------------------------------------------------------------------------------------------------ tables


@dataclass(frozen=True)
class Tables:
    """base float32 [n_cells]; tables float32 [n_cells, n_columns, 256], padded with inf.

    ``minima`` float32 [n_cells, n_columns]: no entry of the table is smaller. ``bound``: size of a distance's terms.
    """

    base: FloatArray
    tables: FloatArray
    minima: FloatArray
    bound: np.float32


def tables(codebooks: Codebooks, q: FloatArray) -> Tables:
    """Distance of a row = base[cell] + sum over columns of tables[cell, column, code] + its cross term."""
    l2 = codebooks.metric == "l2"
    y = rotate(codebooks, q, centre=l2)
    base = _base(codebooks, q, y)
    terms = cell_terms(codebooks) if l2 else CellTerms({}, F(0), F(0))
    bound = terms.bound + dense_words(codebooks).unit * F(2.0**31) + np.abs(constant(codebooks))
    out = np.full((len(base), len(codebooks.columns), 256), INF, F)
    minima = np.empty((len(base), len(codebooks.columns)), F)
    for j, column in enumerate(codebooks.columns):
        table = _own_table(codebooks, column, y)
        bound += np.abs(table).max()
        steps = terms.of.get(column, np.zeros((len(base), len(table)), np.int64))
        out[:, j, : len(table)] = table + steps.astype(F) * terms.step
        minima[:, j] = _minima_in_steps(table, steps, terms.step) if terms.step > 0 else table.min()
    return Tables(base, out, minima, bound)


def constant(codebooks: Codebooks) -> np.float32:
    """What norms without a column add to every distance."""
    return sum((norm.values[0] for norm in codebooks.norms if not norm.stored), F(0))


def _base(codebooks: Codebooks, q: FloatArray, y: FloatArray) -> FloatArray:
    """|q - c|^2 for every word c of the first book, or -(q.c), with what does not depend on the row."""
    cell = codebooks.books[0]
    offset = F(1) if codebooks.metric == "cosine" else constant(codebooks)
    if codebooks.metric != "l2":
        for d in range(codebooks.dim):
            offset -= q[d] * codebooks.mean[d]
        return np.asarray(offset - inner(y[cell.support], cell.words.T))
    covered = np.zeros(codebooks.dim, bool)
    for book in codebooks.books:  # whose tables hold q^2: the cell's, and those that share no dimension
        if book is cell or not any(overlap(book, other) for other in codebooks.books if other is not book):
            covered[book.support] = True
    for free in np.flatnonzero(~covered):
        offset += y[free] * y[free]
    return np.asarray(offset + squared(y[cell.support], cell.words.T))


def _own_table(codebooks: Codebooks, column: int, y: FloatArray) -> FloatArray:
    """The part of a column's table that is the same for all cells."""
    if column < 0:
        return codebooks.norms[-1 - column].values
    book = codebooks.books[column]
    x = y[book.support]
    if codebooks.metric != "l2":
        return -inner(x, book.words.T)
    if not any(overlap(book, other) for other in codebooks.books if other is not book):
        return squared(x, book.words.T)
    return np.asarray(squares(book) - F(2) * inner(x, book.words.T))


def _minima_in_steps(table: FloatArray, terms: Integers, step: np.float32) -> FloatArray:
    """Lower bound of table + step * terms in every cell, from integers: what the native search adds up quickly."""
    low = table.min()
    factor = (F(1) / step) * F(1 - 2.0**-20)
    steps = np.floor(np.minimum((table - low) * factor, F(32767))).astype(np.int64)
    return np.asarray(low + step * _saturated(steps + terms).min(axis=1).astype(F))


# ------------------------------------------------------------------------------------------------------------ search


@dataclass(frozen=True)
class Hit:
    """One answer, with the crude distance it was judged by and the floors of its cell."""

    distance: np.float32
    row: int
    crude: np.float32
    crude_floor: np.float32
    floor: np.float32


def search(
    codebooks: Codebooks,
    codes: NDArray[np.uint8],
    q: FloatArray,
    k: int,
    rule: Rule,
    allowed: NDArray[np.bool_] | None = None,
    cuts: Sequence[int] = (),
) -> tuple[list[Hit], int]:
    """The k best rows of one query, and how many rows were compared with the whole code.

    Cells in ascending order of their base, rows of a cell in their order. A row is ruled out when its crude distance
    exceeds the limit; the limit falls with tau, the distance of the k-th best so far. ``cuts``: rows at which the
    segments after the first begin; each has its own floors of cross terms.
    """
    scan = _Scan.of(codebooks, codes, q, cuts)
    visited, share = _cells_to_visit(codebooks, codes, q, scan.t, k, rule, allowed)
    hits: list[Hit] = []
    survivors = 0
    for cell in visited:
        floors = scan.floors(cell)
        for row in np.flatnonzero(codes[:, 0] == cell).tolist():
            if allowed is not None and not allowed[row]:
                continue
            crude = scan.crude(row)
            if crude > _limit(hits, k, rule, share, floors):
                continue
            survivors += 1
            hit = Hit(scan.whole(row, crude), row, crude, floors.crude, floors.crude + floors.rest)
            hits = sorted([*hits, hit], key=lambda hit: (hit.distance, hit.row))[:k]
    return hits, survivors


def range_search(
    codebooks: Codebooks,
    codes: NDArray[np.uint8],
    q: FloatArray,
    radius: np.float32,
    exhaustive: bool = False,
    allowed: NDArray[np.bool_] | None = None,
    cuts: Sequence[int] = (),
) -> tuple[list[Hit], int]:
    """All rows whose distance is at most the radius, nearest first, and how many were compared with the whole code.

    The exact rule of :func:`search` with the radius in place of tau; ``exhaustive`` compares every row.
    """
    scan = _Scan.of(codebooks, codes, q, cuts)
    hits: list[Hit] = []
    survivors = 0
    for row, (cell, *_) in enumerate(codes.tolist()):
        if allowed is not None and not allowed[row]:
            continue
        floors, crude = scan.floors(cell), scan.crude(row)
        if not exhaustive and crude > (radius - floors.rest) + floors.slack:
            continue
        survivors += 1
        distance = scan.whole(row, crude)
        if distance <= radius:
            hits.append(Hit(distance, row, crude, floors.crude, floors.crude + floors.rest))
    return sorted(hits, key=lambda hit: (hit.distance, hit.row)), survivors


@dataclass(frozen=True)
class _Floors:
    """No crude distance in a cell is below ``crude``, no rest below ``rest``; ``slack`` is what rounding may add."""

    crude: np.float32
    rest: np.float32
    slack: np.float32


@dataclass(frozen=True)
class _Scan:
    """Rows and one query: what distances and their bounds are made of."""

    codebooks: Codebooks
    codes: NDArray[np.uint8]
    t: Tables
    dense: DenseWords
    cross: Integers  # [n_cells] smallest cross sums

    @classmethod
    def of(cls, codebooks: Codebooks, codes: NDArray[np.uint8], q: FloatArray, cuts: Sequence[int]) -> _Scan:
        segments = [part for part in np.split(codes, cuts) if len(part)] or [codes]
        cross = np.min([cross_floors(codebooks, part) for part in segments], axis=0)
        return cls(codebooks, codes, tables(codebooks, q), dense_words(codebooks), cross)

    def floors(self, cell: int) -> _Floors:
        t, n_crude, n_columns = self.t, self.codebooks.n_crude_columns, len(self.codebooks.columns)
        base = crude = t.base[cell]
        for j in range(n_crude):
            crude = crude + t.minima[cell, j]
        rest = F(0)
        for j in range(n_crude, n_columns):
            rest = rest + t.minima[cell, j]
        if self.dense.of:
            rest = rest + self.dense.cross_term(self.cross[cell])
        return _Floors(crude, rest, F(n_columns + 8) * F(2.0**-23) * (np.abs(base) + t.bound))

    def crude(self, row: int) -> np.float32:
        """The first step: crude columns only."""
        code = self.codes[row]
        distance: np.float32 = self.t.base[code[0]]
        for j in range(self.codebooks.n_crude_columns):
            distance = distance + self.t.tables[code[0], j, code[1 + j]]
        return distance

    def whole(self, row: int, crude: np.float32) -> np.float32:
        """The second step: the other columns and the cross term."""
        code, distance = self.codes[row], crude
        for j in range(self.codebooks.n_crude_columns, len(self.codebooks.columns)):
            distance = distance + self.t.tables[code[0], j, code[1 + j]]
        return distance + self.dense.cross_term(self.dense.cross_sum(code)) if self.dense.of else distance


@np.errstate(over="ignore")  # a room without bounds
def _cells_to_visit(
    codebooks: Codebooks,
    codes: NDArray[np.uint8],
    q: FloatArray,
    t: Tables,
    k: int,
    rule: Rule,
    allowed: NDArray[np.bool_] | None,
) -> tuple[list[int], np.float32]:
    """Cells in ascending order of their base, and the share to search them with (cpp/core/search.h, Rule)."""
    base = t.base
    sizes = np.bincount(codes[:, 0] if allowed is None else codes[allowed, 0], minlength=len(base))
    order = [int(cell) for cell in np.argsort(base + F(0), kind="stable") if sizes[cell]]
    share = F(rule.share)
    if rule.kind != "share" or not len(rule.spread) or not order:
        return order, share
    nearest, length = base[order[0]], F(1)
    if codebooks.metric == "ip":
        square = F(0)
        for d in range(codebooks.dim):
            square += q[d] * q[d]
        length = np.sqrt(square)
    distance = nearest  # where books share no dimension with the first, the base knows nothing of theirs
    if codebooks.metric == "l2" and not cell_terms(codebooks).step > 0:
        for j in range(len(codebooks.columns)):
            distance = distance + t.minima[order[0], j]
    if distance > F(rule.reach) * length:  # far from all that the rule was made for: exactly
        return order, F(1)
    unit = max(nearest, F(rule.least))
    if codebooks.metric != "l2":
        total = F(0)
        for cell in order:
            total += base[cell] - nearest
        unit = total / F(len(order))
    kept: list[int] = []
    rows = 0  # k of them are visited in any case
    for rank, cell in enumerate(order):
        if rows >= k and not base[cell] - nearest <= rule.spread[rank] * unit:
            break
        kept.append(cell)
        rows += int(sizes[cell])
    return kept, share


def _limit(hits: list[Hit], k: int, rule: Rule, share: np.float32, floors: _Floors) -> np.float32:
    """The largest crude distance that is still compared with the whole code (cpp/core/search.h, Rule)."""
    if len(hits) < k or rule.kind == "none":
        return INF
    tau = hits[-1].distance
    if rule.kind == "paper":
        return np.float32(hits[-1].crude + F(rule.sigma))
    if share == 1:
        return np.float32((tau - floors.rest) + floors.slack)
    room = tau - (floors.crude + floors.rest)  # negative: nothing in the cell can be near enough
    return np.float32((floors.crude + (share * room if room > 0 else room)) + floors.slack)


def exhaustive(codebooks: Codebooks, codes: NDArray[np.uint8], q: FloatArray, k: int) -> list[Hit]:
    """The k best rows by their whole codes."""
    return search(codebooks, codes, q, k, Rule("none", 1.0, 0.0, "inf"))[0]


def distance_to_decoded(codebooks: Codebooks, codes: NDArray[np.uint8], q: FloatArray) -> NDArray[np.float64]:
    """What the tables stand for, straight from the decoded vectors, in double precision."""
    decoded = codebooks.decode(codes).astype(np.float64)
    if codebooks.metric == "l2":
        return np.asarray(((decoded - q) ** 2).sum(1))
    return np.asarray((1.0 if codebooks.metric == "cosine" else 0.0) - decoded @ q.astype(np.float64))
