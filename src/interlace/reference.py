"""Encode and search in plain NumPy: slow, readable, and the oracle of every native test.

Sums run over dimensions one by one in float32, as the kernels do, so results agree to the last bit. Read this file to
learn what the library computes; read cpp/core to learn how it does so quickly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import FloatArray
from .codebooks import Book, Codebooks
from .margins import Rule

F = np.float32
INF = F(np.inf)


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


# ---------------------------------------------------------------------------------------------------------- encoding


def encode(codebooks: Codebooks, x: FloatArray) -> NDArray[np.uint8]:
    """Codes uint8 [n, 1 + n_columns] of float32 rows, by beam search over the books in their order."""
    return np.array([_encode_one(codebooks, row) for row in x], np.uint8).reshape(len(x), 1 + len(codebooks.columns))


def _encode_one(codebooks: Codebooks, x: FloatArray) -> list[int]:
    books = codebooks.books
    n = len(books)
    y = rotate(codebooks, x, centre=True)
    cross = {
        (i, j): cross_terms(books[i], books[j], codebooks.dim)
        for i in range(n)
        for j in range(i + 1, n)
        if overlap(books[i], books[j])
    }
    linked = [any((min(i, j), max(i, j)) in cross for j in range(1, n) if j != i) for i in range(n)]
    beam = codebooks.beam if cross else 1
    paths: list[tuple[np.float32, list[int]]] = [(F(0), [])]
    for j, book in enumerate(books):
        linear = squares(book) - F(2) * inner(y[book.support], book.words.T)
        kept: list[tuple[np.float32, list[int]]] = []
        for score, codes in paths:
            scores = linear
            for i in range(j):
                if (i, j) in cross:
                    scores = scores + cross[i, j][codes[i]]
            if j == 0 or linked[j]:  # branch: every word of every path competes
                kept += [(score + s, [*codes, w]) for w, s in enumerate(scores)]
            else:
                w = int(np.argmin(scores))
                kept.append((score + scores[w], [*codes, w]))
        if j == 0 or linked[j]:
            kept = sorted(kept, key=lambda path: path[0])[:beam]  # stable: a tie goes to the one found first
        paths = kept
    codes = min(paths, key=lambda path: path[0])[1]
    return [codes[0], *(codes[c] if c >= 0 else _norm_code(codebooks, -1 - c, codes, cross) for c in codebooks.columns)]


def _norm_code(codebooks: Codebooks, index: int, codes: list[int], cross: dict[tuple[int, int], FloatArray]) -> int:
    norm = codebooks.norms[index]
    value = F(0)
    for a, i in enumerate(norm.covers):
        for j in norm.covers[a + 1 :]:
            held = any(i in n.covers and j in n.covers for n in codebooks.norms[:index])
            if not held and (i, j) in cross:
                value += cross[i, j][codes[i], codes[j]]
    return int(np.argmin(np.abs(norm.values - value)))


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
    """Distance of a row = base[cell] + sum over columns of tables[cell, column, code]."""
    books, l2 = codebooks.books, codebooks.metric == "l2"
    y = rotate(codebooks, q, centre=l2)
    base = _base(codebooks, q, y)
    own = [_own_table(codebooks, column, y) for column in codebooks.columns]
    terms = [
        cross_terms(books[0], books[column], codebooks.dim)
        if l2 and column >= 0 and overlap(books[0], books[column])
        else None
        for column in codebooks.columns
    ]
    bound = F(0)
    for term in terms:
        bound += F(0) if term is None else np.abs(term).max(initial=F(0))
    for table in own:
        bound += np.abs(table).max()
    out = np.full((len(base), len(own), 256), INF, F)
    minima = np.empty((len(base), len(own)), F)
    any_terms = any(term is not None for term in terms)
    for j, (table, term) in enumerate(zip(own, terms, strict=True)):
        scale = F(0) if term is None else np.abs(term).max(initial=F(0)) / F(32767)
        if term is not None and scale > 0:  # kept as int16 with one scale per column
            whole = np.rint(term / scale).astype(F)
            out[:, j, : len(table)] = table + whole * scale
        else:
            whole = np.zeros((len(base), len(table)), F)
            out[:, j, : len(table)] = table
        minima[:, j] = _minima_in_steps(table, whole, scale) if any_terms else table.min()
    return Tables(base, out, minima, bound)


def _base(codebooks: Codebooks, q: FloatArray, y: FloatArray) -> FloatArray:
    """|q - c|^2 for every word c of the first book, or -(q.c) with what does not depend on the row."""
    cell = codebooks.books[0]
    offset = F(1) if codebooks.metric == "cosine" else F(0)
    if codebooks.metric != "l2":
        for d in range(codebooks.dim):
            offset -= q[d] * codebooks.mean[d]
        return np.asarray(offset - inner(y[cell.support], cell.words.T))
    covered = np.zeros(codebooks.dim, bool)
    for book in codebooks.books:
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


def _minima_in_steps(table: FloatArray, whole: FloatArray, scale: np.float32) -> FloatArray:
    """Lower bound of table + scale * whole in every cell, from integers: what the native search adds up quickly."""
    low = table.min()
    step = scale if scale > 0 else (table.max() - low) / F(32767)
    factor = (F(1) / step) * F(1 - 2.0**-20) if step > 0 else F(0)
    steps = np.floor(np.minimum((table - low) * factor, F(32767)))
    return np.asarray(low + step * np.minimum(steps + whole, F(32767)).min(axis=1))


# ------------------------------------------------------------------------------------------------------------ search


@dataclass(frozen=True)
class Hit:
    """One answer, with the crude distance it was judged by."""

    distance: np.float32
    row: int
    crude: np.float32


def search(
    codebooks: Codebooks,
    codes: NDArray[np.uint8],
    q: FloatArray,
    k: int,
    rule: Rule,
    allowed: NDArray[np.bool_] | None = None,
) -> tuple[list[Hit], int]:
    """The k best rows of one query, and how many rows were compared with the whole code.

    Cells in ascending order of their base, rows of a cell in their order. A row is ruled out when its crude distance
    exceeds the limit; the limit falls with tau, the distance of the k-th best so far.
    """
    t = tables(codebooks, q)
    n_columns, n_crude = len(codebooks.columns), codebooks.n_crude_columns
    hits: list[Hit] = []
    survivors = 0
    for cell in np.argsort(t.base + F(0), kind="stable"):
        base = t.base[cell]
        minima = t.minima[cell]
        crude_floor = base
        for j in range(n_crude):
            crude_floor = crude_floor + minima[j]
        rest_floor = F(0)
        for j in range(n_crude, n_columns):
            rest_floor = rest_floor + minima[j]
        slack = F(n_columns + 8) * F(2.0**-23) * (np.abs(base) + t.bound)
        for row in np.flatnonzero(codes[:, 0] == cell):
            if allowed is not None and not allowed[row]:
                continue
            limit = _limit(hits, k, rule, crude_floor, rest_floor, slack)
            distance = base
            for j in range(n_crude):
                distance = distance + t.tables[cell, j, codes[row, 1 + j]]
            crude = distance
            if crude > limit:
                continue
            survivors += 1
            for j in range(n_crude, n_columns):
                distance = distance + t.tables[cell, j, codes[row, 1 + j]]
            hits = sorted([*hits, Hit(distance, int(row), crude)], key=lambda hit: (hit.distance, hit.row))[:k]
    return hits, survivors


def _limit(
    hits: list[Hit], k: int, rule: Rule, crude_floor: np.float32, rest_floor: np.float32, slack: np.float32
) -> np.float32:
    """The largest crude distance that is still compared with the whole code (cpp/core/search.h, Rule)."""
    if len(hits) < k or rule.kind == "none":
        return INF
    tau = hits[-1].distance
    if rule.kind == "paper":
        return np.float32(hits[-1].crude + F(rule.sigma))
    if rule.share == 1:
        return np.float32((tau - rest_floor) + slack)
    room = tau - (crude_floor + rest_floor)  # negative: nothing in the cell can be near enough
    return np.float32((crude_floor + (F(rule.share) * room if room > 0 else room)) + slack)


def exhaustive(codebooks: Codebooks, codes: NDArray[np.uint8], q: FloatArray, k: int) -> list[Hit]:
    """The k best rows by their whole codes."""
    return search(codebooks, codes, q, k, Rule("none", 1.0, 0.0, "inf"))[0]


def distance_to_decoded(codebooks: Codebooks, codes: NDArray[np.uint8], q: FloatArray) -> NDArray[np.float64]:
    """What the tables stand for, straight from the decoded vectors, in double precision."""
    decoded = codebooks.decode(codes).astype(np.float64)
    if codebooks.metric == "l2":
        return np.asarray(((decoded - q) ** 2).sum(1))
    return np.asarray((1.0 if codebooks.metric == "cosine" else 0.0) - decoded @ q.astype(np.float64))
