"""Operations that each phase of building an index takes, by kind."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from ...codec.codebooks import MAX_WORDS
from ..cells import GROUP_ROUNDS, WHOLE_ROUNDS, WITHIN_ROUNDS, sample_size
from ..layout_rules import TRIAL_QUERIES, TRIAL_REFITS, TRIAL_ROWS, compared_layouts, trial_train_rows
from ..schedule import (
    CELL_ROUNDS,
    NARROW_BEAM,
    PARALLEL_REFITS,
    PRODUCT_ROUNDS,
    REFIT_PASSES,
    ROTATION_KMEANS_ROUNDS,
    ROTATION_ROUNDS,
    ROUNDS,
    WIDE_BEAM,
    refit_rounds,
    rows_per_round,
)
from ..settings import Settings
from .shape import ALL_TABLES, Shape, shape_of

#: For one row, choosing the nearest of 256 words costs as much as this many dimensions of their products.
PICK = 16
#: Eigenvectors of a matrix cost as much as this many products of such matrices.
EIGEN = 8


@dataclass(frozen=True)
class Work:
    """Operations of a phase, of kinds that take different times; or the seconds that one of each kind takes."""

    products: float = 0.0  #: multiply-adds of rows with words, the choice of the nearest included
    steps: float = 0.0  #: table entries that the beam search of the encoder adds up and compares
    sums: float = 0.0  #: values that are added to words while these are refitted or averaged
    matrix: float = 0.0  #: multiply-adds of rotations, covariances and eigenvectors

    def __add__(self, other: Work) -> Work:
        return Work(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def __mul__(self, times: float) -> Work:
        return Work(*(getattr(self, f.name) * times for f in fields(self)))

    @property
    def operations(self) -> int:
        """The sum over all kinds."""
        return round(self.products + self.steps + self.sums + self.matrix)

    def seconds(self, rates: Work) -> float:
        """CPU seconds, for ``rates`` in seconds per operation."""
        return sum(float(getattr(self, f.name) * getattr(rates, f.name)) for f in fields(self))


def coding_work(shape: Shape, beam: int | None = None, sweeps: int | None = None) -> Work:
    """Encoding one row (cpp/core/encode.cpp)."""
    beam = (shape.beam if beam is None else beam) if shape.refitted else 1
    sweeps = shape.sweeps if sweeps is None else sweeps
    # A score-aware loss adds floats to the tables of every path, and looks for the best words one by one.
    steps = float((10 if shape.parallel else 1) * beam * (shape.n_books - 1) * MAX_WORDS)
    if shape.n_pairs:  # candidates share most of the words of earlier books
        steps += (2 + beam / 4) * shape.n_pairs * MAX_WORDS + sweeps * 6 * shape.n_pairs * MAX_WORDS
    products = MAX_WORDS * (sum(shape.widths) + PICK * shape.n_books)
    products += (_tables_read(shape) - 1) * MAX_WORDS * (shape.widths[0] + PICK)
    return Work(products=products, steps=steps, matrix=shape.dim**2 if shape.rotated else 0)


def learning_work(shape: Shape, n: int, effort: str, iterations: int) -> Work:
    """Learning from n rows: axes, k-means of every book, refits, which encode the sample."""
    dim = shape.dim
    axes = Work(matrix=2.0 * n * dim * dim + EIGEN * dim**3)
    rounds = ROUNDS[effort].start if shape.refitted else PRODUCT_ROUNDS
    work = _kmeans_work(n, rounds, shape.widths)
    if shape.rotated:
        work += axes
    if shape.rotation == "learned":
        work += (axes + _kmeans_work(n, ROTATION_KMEANS_ROUNDS, shape.widths)) * ROTATION_ROUNDS
    if shape.layout != "subspace" and shape.rotated:
        work += _kmeans_work(n, CELL_ROUNDS, (dim,))
    if shape.refitted:
        passes = (REFIT_PASSES + 2) * (PARALLEL_REFITS if shape.parallel else 1)
        narrow, wide = refit_rounds(effort, iterations)
        for times, rows, beam in ((narrow, rows_per_round(n), NARROW_BEAM), (wide, n, WIDE_BEAM)):
            work += coding_work(shape, beam, 0) * (times * rows)
            work += Work(sums=2.0 * passes * times * rows * sum(shape.widths))
            work += Work(products=times * len(shape.pairs) * MAX_WORDS**2 * dim)  # tables of cross terms
    if shape.n_norms:
        work += coding_work(shape, sweeps=0) * n
    return work


def _tables_read(shape: Shape) -> int:
    """Tables of words of cells that a row is compared with (cpp/core/nearest_words.h)."""
    n = shape.n_cell_tables
    return n if n <= ALL_TABLES else max(8, math.isqrt(n)) + 1


def cells_work(shape: Shape, n: int, n_train: int) -> Work:
    """Learning more cells than a book has words, for n rows."""
    if shape.n_cells <= shape.n_words:
        return Work()
    rows, groups = sample_size(n, n_train, shape.n_cells), math.isqrt(shape.n_cells)
    words = (GROUP_ROUNDS + 2.0) * max(MAX_WORDS, groups) + (WITHIN_ROUNDS + 2.0) * max(
        MAX_WORDS, shape.n_cells / groups
    )
    words += (WHOLE_ROUNDS + 1.0) * _tables_read(shape) * MAX_WORDS
    sums = float(rows * shape.dim * (GROUP_ROUNDS + WITHIN_ROUNDS + WHOLE_ROUNDS))
    return Work(products=words * rows * (shape.dim + PICK), sums=sums)


def _kmeans_work(n: int, rounds: int, widths: tuple[int, ...]) -> Work:
    """k-means of one book for each of the widths; one more pass assigns the rows."""
    products = sum((rounds + 1.0) * n * MAX_WORDS * (width + PICK) for width in widths)
    return Work(products=products, sums=float(rounds * n * sum(widths)))


def trying_work(dim: int, settings: Settings, n_train: int) -> Work:
    """Comparing layouts: each is learned from some rows, encodes others, and is compared with brute force.

    The searches of the comparison are not counted.
    """
    rows = min(TRIAL_ROWS, n_train // 2)
    train = min(trial_train_rows(settings.code_bytes), n_train // 2)
    work = Work()
    for layout in compared_layouts(settings, dim, n_train):
        shape = shape_of(dim, settings, n_train, layout)
        work += learning_work(shape, train, settings.effort, min(TRIAL_REFITS, settings.iterations))
        work += coding_work(shape) * rows + Work(matrix=2.0 * TRIAL_QUERIES * rows * (dim + 64))
    return work
