"""Vectors -> codes, in native code; `reference.encode` is the same in plain NumPy.

Codes minimize a loss of their error e. With the direction u of the row, which is not centred, it is

    |e|^2 + (parallel_weight - 1) (u.e)^2

A weight of 1 is the squared error. With more, the loss is score-aware: an error along the row changes its inner
products with the queries for which the row is a good answer, whose direction is near to u; other errors hardly do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _native
from ..errors import InputError
from ..inputs.arrays import FloatArray, Rows, describe, to_numpy
from ..progress import Progress, silent
from .codebooks import Codebooks, Codes

#: Is given blocks as they are coded, those of the cosine metric with length 1, and their codes.
Watch = Callable[[FloatArray, Codes], None]
#: Width of the beam and sweeps of iterated conditional modes after it, from fast to best.
EFFORTS = {"fastest": (1, 0), "fast": (2, 0), "balanced": (8, 0), "best": (32, 4)}


def check_effort(effort: Any) -> None:
    """Raise InputError unless effort is None or the name of an encoder effort."""
    if effort is not None and not (isinstance(effort, str) and effort in EFFORTS):
        raise InputError(f"effort must be one of {', '.join(EFFORTS)}, got {effort!r}")


def encode(codebooks: Codebooks, x: FloatArray, threads: int, effort: str | None = None) -> Codes:
    """Checked float32 rows [n, dim] -> uint8 [n, code_width].

    Rows of the cosine metric must have length 1 already. ``effort`` is one of ``EFFORTS``; by default that of the
    codebooks.
    """
    beam, sweeps = (codebooks.beam, codebooks.sweeps) if effort is None else EFFORTS[effort]
    codes = np.empty((len(x), codebooks.code_width), np.uint8)
    _native.encode(
        codebooks.native, x, beam, sweeps, threads, codes, codebooks.parallel_weight, codebooks.shortest_direction
    )
    return codes


def encode_rows(
    codebooks: Codebooks,
    rows: Rows,
    threads: int,
    effort: str | None = None,
    progress: Progress = silent,
    watch: Watch | None = None,
) -> Codes:
    """The same for rows that are read in blocks; those of the cosine metric are normalised here."""
    codes, start = np.empty((len(rows), codebooks.code_width), np.uint8), 0
    for block in rows.blocks():
        progress("coding", start / len(rows))
        block = codebooks.metric_type.prepare(block, name=rows.name, first_row=start)
        coded = encode(codebooks, block, threads, effort)
        codes[start : start + len(block)] = coded
        if watch is not None:
            watch(block, coded)
        start += len(block)
    return codes


def checked_codes(codebooks: Codebooks, codes: Any) -> Codes:
    """A copy of codes uint8 [n, code_width] that were made elsewhere; InputError names the first that is invalid."""
    array = np.array(to_numpy(codes, "codes"), order="C")
    if array.ndim != 2 or array.shape[1] != codebooks.code_width or array.dtype != np.uint8:
        raise InputError(f"codes must be uint8 [n, {codebooks.code_width}], got {describe(codes)}")
    cells, columns = codebooks.split_codes(array)
    n_cells, *sizes = codebooks.column_sizes
    if cells.max(initial=0) >= n_cells:
        row = int(np.argmax(cells >= n_cells))
        raise InputError(f"codes[{row}, 0] is cell {cells[row]}, but there are {n_cells} cells")
    for column, size in enumerate(sizes):
        if columns[:, column].max(initial=0) >= size:
            row, place = int(np.argmax(columns[:, column] >= size)), column - len(sizes)
            raise InputError(
                f"codes[{row}, {array.shape[1] + place}] is {array[row, place]}, but its column has {size} entries"
            )
    return array
