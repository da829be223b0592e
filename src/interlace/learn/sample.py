"""Which rows are learned from, and which of the others calibrate an index and measure the error of its codes."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..codec.codebooks import Codebooks
from ..codec.encode import encode
from ..engine.calibrating import queries_needed
from ..engine.evidence import held_out_rows
from ..engine.margins import DEFAULT
from ..errors import FewRowsWarning, warn_user
from ..inputs.arrays import Rows

RowNumbers = NDArray[np.int64]

#: With this many rows or more, some are held out of learning.
HELD_OUT_FROM = 2000
#: Rows that the default margin needs for its calibration, learned from or not, and a tenth more: rows of one code count
#: as one query.
CALIBRATION_ROWS = math.ceil(1.1 * queries_needed(DEFAULT))
#: Rows that the error of the codes is measured on: at most, and at least.
ERROR_ROWS, LEAST_ERROR_ROWS = 1000, 200


def train_count(n: int, max_train_rows: int) -> int:
    """Number of rows to learn from, of n, without a bound on memory."""
    held_out = min(held_out_rows(n), n // 10) if n >= HELD_OUT_FROM else 0
    return min(n - held_out, max_train_rows)


def training_rows(n: int, max_train_rows: int, rng: np.random.Generator) -> RowNumbers:
    """Random rows to learn from, ascending."""
    return np.sort(rng.choice(n, train_count(n, max_train_rows), replace=False))


def warn_if_few_rows(n: int, n_words: int) -> bool:
    """Warn if there are fewer rows to learn from than words; returns whether."""
    if n < n_words:
        text = f"{n} rows to learn from are fewer than {n_words} words: books hold at most {n} words"
        warn_user(text, FewRowsWarning)
    return n < n_words


def calibration_count(n: int, n_train: int) -> int:
    """Number of rows that calibrate an index of n rows, without a bound on memory; some may have been learned from."""
    return max(min(n - n_train, held_out_rows(n)), min(n, CALIBRATION_ROWS))


def calibration_rows(n: int, sample: RowNumbers, count: int, rng: np.random.Generator) -> RowNumbers:
    """``count`` rows for the calibration, ascending. Rows of ``sample`` are taken only if there are too few others."""
    chosen = _held_out(n, sample, count, rng)
    missing = count - len(chosen)
    if missing <= 0:
        return chosen
    return np.sort(np.concatenate([chosen, rng.choice(sample, min(missing, len(sample)), replace=False)]))


def with_held_out_error(codebooks: Codebooks, rows: Rows, sample: RowNumbers, threads: int) -> Codebooks:
    """The codebooks with their mean squared error on rows that are not in ``sample``, if there are enough of these."""
    if len(rows) - len(sample) < LEAST_ERROR_ROWS:
        return codebooks
    chosen = _held_out(len(rows), sample, ERROR_ROWS, np.random.default_rng(0))
    x = codebooks.metric_type.prepare(rows.take(chosen), name="x", rows=chosen)
    differences = x.astype(np.float64) - codebooks.decode(encode(codebooks, x, threads))
    return codebooks.with_error(float((differences**2).sum(1).mean()), len(chosen))


def _held_out(n: int, sample: RowNumbers, most: int, rng: np.random.Generator) -> RowNumbers:
    """Random rows that are not in ``sample``, ascending; never makes a list of all rows."""
    n_others = n - len(sample)
    chosen = np.sort(rng.choice(n_others, min(n_others, most), replace=False))
    return np.asarray(chosen + np.searchsorted(sample - np.arange(len(sample)), chosen, "right"))
