"""Bytes that each phase of building an index takes at its peak, in addition to the input.

The arrays that a phase makes are counted and rounded up, so the sums are upper bounds, not estimates.
tests/test_memory.py compares them with the memory of a process.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...codec.codebooks import MAX_WORDS
from ...codec.exact import BLOCK_QUERIES
from ...codec.metric import METRICS
from ...engine.evidence import CALIBRATED_AT_ONCE, COPIES, OUTSIDE, cost_queries
from ...engine.margins import KS
from ...inputs.arrays import BLOCK_ROWS
from ..cells import sample_size
from ..layout_rules import TRIAL_QUERIES, TRIAL_ROWS, compared_layouts, trial_train_rows
from ..sample import calibration_count
from ..schedule import WIDE_BEAM
from ..settings import Settings
from .shape import Shape, shape_of

#: Python objects, small arrays and memory that allocators keep, in every phase.
OVERHEAD = 6 << 20
#: Rows that are converted to float64 at a time.
FLOAT64_ROWS = 4096
#: Measuring recalls: a block of decoded originals, and their distances to some queries (engine/recall.py).
RECALL_BYTES = 96 << 20


@dataclass(frozen=True)
class Memory:
    """Bytes of each phase of ``Index.build`` at its peak, in addition to the input."""

    trying: int  #: comparing layouts; 0 if none are compared
    learning: int
    coding: int  #: the index included
    calibrating: int  #: the index included

    @property
    def peak(self) -> int:
        """The largest of them."""
        return max(self.trying, self.learning, self.coding, self.calibrating)


@dataclass(frozen=True)
class IdBytes:
    """Bytes of the ids of all rows: as the index holds them, and copies while it sorts and compares them.

    ``originals`` are the bytes of the vectors that it keeps beside their codes.
    """

    stored: int = 0
    sorting: int = 0
    originals: int = 0

    @property
    def calibrating(self) -> int:
        """What rows take beside their codes while an index is calibrated; recalls are measured with originals."""
        return self.stored + self.originals + (RECALL_BYTES if self.originals else 0)


def build_memory(
    n: int, dim: int, settings: Settings, n_train: int, ids: IdBytes, queries: int | None = None
) -> Memory:
    """Memory of ``Index.build``; ``queries`` rows calibrate, by default as many as without a bound on memory."""
    settings = settings.for_rows(n)
    shape = shape_of(dim, settings, n_train)
    trying, learning = fit_memory(n, dim, settings, n_train)
    queries = calibration_count(n, n_train) if queries is None else queries
    return Memory(
        trying,
        learning,
        coding_memory(shape, n, settings.workers, ids),
        calibrating_memory(shape, n, queries, settings.workers, ids.calibrating),
    )


def fit_memory(n: int, dim: int, settings: Settings, n_train: int) -> tuple[int, int]:
    """Memory of comparing layouts and of learning for n rows, whichever layout is chosen."""
    compared, threads = compared_layouts(settings, dim, n_train), settings.workers
    shapes = [shape_of(dim, settings, n_train, layout) for layout in compared or (None,)]
    learning = max(max(learning_memory(shape, n_train, threads), cells_memory(shape, n, n_train)) for shape in shapes)
    if not compared:
        return 0, learning
    rows = min(TRIAL_ROWS, n_train // 2)
    train = min(trial_train_rows(settings.code_bytes), n_train // 2)
    # Brute force: rows and decoded rows, blocks of them in float64, distances of a block of queries and their order.
    brute_force = 4 * dim * (2 * rows + 3 * FLOAT64_ROWS) + 16 * BLOCK_QUERIES * FLOAT64_ROWS
    phases = [
        max(
            learning_memory(shape, train, threads),
            brute_force + calibrating_memory(shape, rows, TRIAL_QUERIES, threads),
        )
        for shape in shapes
    ]
    return 4 * dim * (n_train + rows) + max(phases), learning


def learning_memory(shape: Shape, n: int, threads: int) -> int:
    """Learning from n rows: copies of the sample, by layout, and the arrays beside them."""
    dim, sample = shape.dim, 4 * n * shape.dim
    # Rows are read in blocks of the input's dtype; for cosine they are normalized in float64.
    reading = (4 if METRICS[shape.metric].is_normalized else 1) * sample + 16 * min(n, BLOCK_ROWS) * dim
    block = 16 * min(n, FLOAT64_ROWS) * dim
    axes = 64 * dim * dim if shape.rotated else 8 * dim * dim
    rows = n * (40 + 3 * shape.n_columns + 3)  # labels, scores, their order; codes
    words = 24 * (MAX_WORDS * sum(shape.widths) + shape.n_cells * shape.widths[0])  # of old and new books
    working = int(_sample_copies(shape) * sample) + block + axes + rows + words + _native(shape, threads, WIDE_BEAM)
    return max(reading, working) + OVERHEAD


def cells_memory(shape: Shape, n: int, n_train: int) -> int:
    """Learning more cells than a book has words, for n rows: a sample of their own beside that of the other books."""
    if shape.n_cells <= shape.n_words:
        return 0
    sample = sample_size(n, n_train, shape.n_cells)
    copies = 5 if METRICS[shape.metric].is_normalized else 2  # a group of rows; rows are normalized in float64
    return 4 * shape.dim * (n_train + copies * sample) + 40 * sample + 40 * shape.n_cells * shape.dim + OVERHEAD


def _sample_copies(shape: Shape) -> float:
    """Copies of the sample in float32 that learning holds at its peak."""
    widest = max(shape.widths[1:], default=shape.dim) / shape.dim
    if shape.rotation == "learned":
        copies = 9.0  # the centred and the decoded rows in float64, for the next rotation
    elif shape.pairs:
        # The sample, its rotated rows, their residuals, the words of these; and the dimensions of one book.
        copies = 4.0 + (2 * widest if shape.layout == "subspace" or shape.rotated else 0.0)
    else:
        copies = 3.0 + widest  # the sample, centred, rotated
    return max(copies, 5.0) if shape.n_norms else copies  # the sum of all words, and the words of one book


def coding_memory(shape: Shape, n: int, threads: int, ids: IdBytes) -> int:
    """Encoding n rows: codes and row numbers before they are packed, the packed index, one block of input."""
    unpacked = n * (1 + shape.n_columns + 8)
    block = min(n, BLOCK_ROWS) * shape.dim * (28 if METRICS[shape.metric].is_normalized else 16)
    native = _native(shape, threads, shape.beam)
    return _index(shape, n, ids.stored + ids.originals) + unpacked + ids.sorting + block + native + OVERHEAD


def calibrating_memory(shape: Shape, n: int, queries: int, threads: int, id_bytes: int = 0) -> int:
    """The index of n rows, and arrays for the queries: by hit, by cell, by dimension."""
    hits = queries * min(n, max(KS)) * 255
    cells = cost_queries(shape.n_cells) * shape.n_cells * 80
    of_hits = min(n, max(KS) + 1 + COPIES + OUTSIDE) * (110 + 2 * shape.n_columns)
    at_once = min(queries, CALIBRATED_AT_ONCE) * (of_hits + 48 * shape.n_cells)
    search = threads * (8 * n // max(1, shape.n_cells) + 64 * (shape.n_books + shape.n_cell_tables) * MAX_WORDS)
    vectors = queries * shape.dim * 40
    native = shape.table_bytes() + shape.term_bytes() + shape.pair_bytes()
    fixed = shape.fixed_bytes(n) + (4 * n if shape.folds_cells else 0)  # sums of all rows while their bytes are made
    return _index(shape, n, id_bytes) + hits + cells + at_once + search + vectors + native + fixed + OVERHEAD


def _index(shape: Shape, n: int, id_bytes: int) -> int:
    return shape.code_bytes(n) + shape.row_bytes(n) + id_bytes + shape.learned_bytes()


def _native(shape: Shape, threads: int, beam: int) -> int:
    """Tables of the native core, and the buffers of each thread for encoding and refitting."""
    rows = 256 * (8 * shape.dim + 8 * beam) + 1024 * shape.n_cell_tables  # NearestWords
    coder = 4 * 16 * (shape.dim + shape.n_books * MAX_WORDS) + 2 * beam * (shape.n_books + 2) * MAX_WORDS + rows
    refit = 8 * 8 * 5 * shape.n_books * MAX_WORDS if shape.pairs else 0
    return shape.table_bytes() + shape.term_bytes() + shape.pair_bytes() + threads * (coder + refit)
