"""More cells than a book has words: which rows they are learned from, and their words.

Thousands of words are learned in three steps, none of which compares all rows with all words: k-means for some coarse
groups, k-means within each group, and a few rounds over all words, in which native code compares a row with the words
of the nearest tables only (cpp/core/nearest_words.h).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import MAX_WORDS
from ..errors import FewRowsWarning, warn_user
from ..inputs.arrays import FloatArray
from ..progress import Progress
from .kmeans import in_use, kmeans, lloyd, nearest
from .sample import RowNumbers

#: Rows that cells are learned from: for each of them, and at most.
SAMPLE_PER_CELL, MAX_SAMPLE = 32, 2**20
#: Cells that a user asked for and that are learned from fewer rows each follow single rows: there is a warning.
FEWEST_PER_CELL = 4
#: Rounds of k-means: of the coarse groups, within a group, over all words.
GROUP_ROUNDS, WITHIN_ROUNDS, WHOLE_ROUNDS = 8, 8, 3
#: Rounds of the power iteration that finds the direction to halve words along.
POWER_ROUNDS = 12


def sample_size(n_rows: int, n_train: int, n_cells: int) -> int:
    """Rows of n that more than 256 cells are learned from; ``n_train`` rows learn the other books."""
    return min(n_rows, max(n_train, min(SAMPLE_PER_CELL * n_cells, MAX_SAMPLE)))


def cell_sample(n_rows: int, sample: RowNumbers, n_cells: int, rng: np.random.Generator) -> RowNumbers:
    """Random rows for the cells, ascending: ``sample``, the rows of the other books, if it is large enough."""
    size = sample_size(n_rows, len(sample), n_cells)
    return sample if size == len(sample) else np.sort(rng.choice(n_rows, size, replace=False))


def warn_if_small_cells(n_rows: int, n_cells: int, advised: int) -> None:
    """Warn if cells are learned from few rows each; ``advised`` is what ``cells="auto"`` would choose."""
    if n_rows < FEWEST_PER_CELL * n_cells:
        text = f"cells={n_cells} are learned from {n_rows:,} rows, {n_rows / n_cells:.1f} for each: many will be empty"
        warn_user(
            f"{text} or hold one row, and searches visit more of them; cells={advised} is advised", FewRowsWarning
        )


def learn_cells(
    x: FloatArray, n_cells: int, *, rng: np.random.Generator, threads: int, progress: Progress
) -> FloatArray:
    """At most ``n_cells`` words for the rows of x, near words in one table of 256."""
    n_groups = max(1, round(math.sqrt(n_cells)))
    progress(f"{n_cells} cells: groups", 0.0)
    groups = kmeans(x, n_groups, rng=rng, threads=threads, iterations=GROUP_ROUNDS)
    label = nearest(x, groups, threads)[0]
    order = np.argsort(label, kind="stable")
    bounds = np.searchsorted(label[order], np.arange(len(groups) + 1))
    words = []
    for i, n_words in enumerate(_shares(np.diff(bounds), n_cells).tolist()):
        progress(f"{n_cells} cells: group {i + 1} of {len(groups)}", 0.1 + 0.5 * i / len(groups))
        part = x[np.sort(order[bounds[i] : bounds[i + 1]])]
        words.append(kmeans(part, n_words, rng=rng, threads=threads, iterations=WITHIN_ROUNDS))
    found = in_tables(np.concatenate(words))
    progress(f"{n_cells} cells: all together", 0.6)
    found = lloyd(x, found, threads=threads, iterations=WHOLE_ROUNDS)
    return in_use(found, nearest(x, found, threads)[0])


def _shares(rows: NDArray[np.int64], n_words: int) -> NDArray[np.int64]:
    """Words for groups of so many rows: in proportion, at least one each, no more than rows, n_words in all."""
    exact = rows * (n_words / max(1, rows.sum()))
    words = np.asarray(np.clip(exact.astype(np.int64), 1, np.maximum(rows, 1)))
    for i in np.argsort(-(exact - words), kind="stable")[: max(0, n_words - int(words.sum()))]:
        words[i] = min(words[i] + 1, max(rows[i], 1))
    return words


def in_tables(words: FloatArray) -> FloatArray:
    """The words in an order in which each table of 256 holds near ones: halved again and again along their spread."""
    out: list[FloatArray] = []
    todo = [words]
    while todo:
        part = todo.pop()
        n_tables = -(-len(part) // MAX_WORDS)
        if n_tables <= 1:
            out.append(part)
            continue
        centred = (part - part.mean(0)).astype(np.float64)
        direction = centred[np.argmax((centred**2).sum(1))].copy()
        for _ in range(POWER_ROUNDS):
            direction = centred.T @ (centred @ direction)
            direction /= max(float(np.linalg.norm(direction)), 1e-300)
        order = np.argsort(centred @ direction, kind="stable")
        half = MAX_WORDS * (n_tables // 2)
        todo += [part[order[half:]], part[order[:half]]]
    return np.ascontiguousarray(np.concatenate(out))
