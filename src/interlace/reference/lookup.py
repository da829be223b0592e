"""The tables of a query: what each code of each column adds to a distance, for every cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..codec.codebooks import Codebooks
from ..codec.terms import F, Integers, dense_words, overlap, squares
from ..inputs.arrays import FloatArray
from .terms import INF, CellTerms, cell_terms, inner, rotate, saturated, squared


@dataclass(frozen=True)
class Tables:
    """Tables of one query.

    ``base`` float32 [n_cells] is the part of the distance that all rows of a cell share. ``tables`` float32 [n_cells,
    n_columns, 256] has the contribution of each code, padded with inf. ``minima`` float32 [n_cells, n_columns] are
    lower bounds of the entries of each table. ``bound`` is an upper bound of the sum of the absolute terms of a
    distance, which limits its rounding error.
    """

    base: FloatArray
    tables: FloatArray
    minima: FloatArray
    bound: np.float32


def tables(codebooks: Codebooks, q: FloatArray) -> Tables:
    """Tables such that distance = base[cell] + sum over columns of tables[cell, column, code] + cross term of a row."""
    l2 = codebooks.metric_type.is_squared
    y = rotate(codebooks, q, centre=l2)
    base = _base(codebooks, q, y)
    terms = cell_terms(codebooks) if l2 and not codebooks.folds_cells else CellTerms({}, F(0), F(0))
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
    """Constant cross terms (norms without a column), which are added to every distance."""
    return sum((norm.values[0] for norm in codebooks.norms if not norm.stored), F(0))


def _base(codebooks: Codebooks, q: FloatArray, y: FloatArray) -> FloatArray:
    """|q - c|^2 (l2) or -(q.c) for every word c of the first book, plus everything that is the same for all rows."""
    cell = codebooks.books[0]
    offset = F(codebooks.metric_type.offset) + constant(codebooks)
    if not codebooks.metric_type.is_squared:
        for d in range(codebooks.dim):
            offset -= q[d] * codebooks.mean[d]
        return np.asarray(offset - inner(y[cell.support], cell.words.T))
    covered = np.zeros(codebooks.dim, bool)
    for book in codebooks.books:  # tables with q^2: that of the cell, and those of books without a shared dimension
        if book is cell or not any(overlap(book, other) for other in codebooks.books if other is not book):
            covered[book.support] = True
    for free in np.flatnonzero(~covered):
        offset += y[free] * y[free]
    return np.asarray(offset + squared(y[cell.support], cell.words.T))


def _own_table(codebooks: Codebooks, column: int, y: FloatArray) -> FloatArray:
    """The part of the table of a column that is the same for all cells; ``column`` < 0 is norm -1 - column."""
    if column < 0:
        return codebooks.norms[-1 - column].values
    book = codebooks.books[column]
    x = y[book.support]
    if not codebooks.metric_type.is_squared:
        return -inner(x, book.words.T)
    if not any(overlap(book, other) for other in codebooks.books if other is not book):
        return squared(x, book.words.T)
    return np.asarray(squares(book) - F(2) * inner(x, book.words.T))


def _minima_in_steps(table: FloatArray, terms: Integers, step: np.float32) -> FloatArray:
    """Lower bound of table + step * terms in every cell, computed in integers like the native search."""
    low = table.min()
    factor = (F(1) / step) * F(1 - 2.0**-20)
    steps = np.floor(np.minimum((table - low) * factor, F(32767))).astype(np.int64)
    return np.asarray(low + step * saturated(steps + terms).min(axis=1).astype(F))
