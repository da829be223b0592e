"""The native scans over packed segments: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..codec.codebooks import Codebooks
from ..errors import DamagedFileError, InputError
from ..inputs.arrays import FloatArray
from .hits import WORK
from .margins import EVERYTHING, EXACT, Rule
from .segments import Segment, check_codes

QUERIES_PER_CALL = 4096  # Ctrl-C works between native calls
#: Results (12 bytes each) are padded to k for each query; where there are fewer rows than k, to this many in all.
MAX_PADDED = 2**24


class Scanned(NamedTuple):
    """Rows and distances [n, k] (-1 and inf beyond the last), counts [n], work [n, WORK]."""

    rows: NDArray[np.int64]
    distances: FloatArray
    counts: NDArray[np.int64]
    work: NDArray[np.uint64]


def search_rows(
    codebooks: Codebooks,
    segments: Sequence[Segment],
    queries: FloatArray,
    k: int,
    rule: Rule,
    threads: int,
    filters: Sequence[_native.Filter] = (),
    trace: FloatArray | None = None,
) -> Scanned:
    """The k nearest rows of each query, numbered through all segments.

    ``trace`` float32 [2, n, min(k, rows)], if given, is filled for each hit: its crude distance above the floor of its
    cell, and the floor of the whole distance.
    """
    n, n_rows = len(queries), 0
    for segment in segments:
        n_rows += segment.n_rows
    check_padding(n, k, n_rows)
    width = max(1, min(k, n_rows))  # the rest of k can only be padding
    rows, distances = np.empty((n, width), np.int64), np.empty((n, width), np.float32)
    counts, work = np.empty(n, np.int64), np.empty((n, WORK), np.uint64)
    native, given = [s.native for s in segments], list(filters)
    step = QUERIES_PER_CALL if trace is None else max(1, n)
    for start in range(0, n, step):
        part = slice(start, start + step)
        out = (rows[part], distances[part], counts[part], work[part], trace)
        _native.search(codebooks.native, native, given, queries[part], rule.native, threads, *out)
    return Scanned(*padded(rows, distances, k), counts, work)


def check_padding(n: int, k: int, n_rows: int) -> None:
    """Raise InputError if the answers to n queries would be mostly padding, and large."""
    if k > n_rows and n * k > MAX_PADDED:
        raise InputError(
            f"{n} queries x {k} hits (k and offset together) are more than {MAX_PADDED} answers, most of them empty: "
            f"there are {n_rows} rows; ask for at most that many hits"
        )


def padded(rows: NDArray[np.int64], distances: FloatArray, k: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Rows and distances [n, k], with -1 and inf beyond those that were found."""
    missing = k - rows.shape[1]
    if missing <= 0:
        return rows, distances
    rows = np.pad(rows, ((0, 0), (0, missing)), constant_values=-1)
    return rows, np.pad(distances, ((0, 0), (0, missing)), constant_values=np.inf)


def range_rows(
    codebooks: Codebooks,
    segments: Sequence[Segment],
    queries: FloatArray,
    radii: FloatArray,
    threads: int,
    filters: Sequence[_native.Filter] = (),
    exhaustive: bool = False,
) -> Scanned:
    """Rows and distances [hits] within the radius of each query, query after query; counts [n], work [n, WORK]."""
    n, rule = len(queries), (EVERYTHING if exhaustive else EXACT).native
    counts, work = np.zeros(n, np.int64), np.zeros((n, WORK), np.uint64)
    native, given = [s.native for s in segments], list(filters)
    rows, distances = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    for start in range(0, n, QUERIES_PER_CALL):
        part = slice(start, start + QUERIES_PER_CALL)
        found = _native.range_search(
            codebooks.native, native, given, queries[part], radii[part], rule, threads, counts[part], work[part]
        )
        rows.append(found[0])
        distances.append(found[1])
    if len(rows) == 2:
        return Scanned(rows[1], distances[1], counts, work)
    return Scanned(np.concatenate(rows), np.concatenate(distances), counts, work)


def codes_of(codebooks: Codebooks, segments: Sequence[Segment], rows: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Codes uint8 [n, code_width] of rows numbered through all segments."""
    codes = np.empty((len(rows), codebooks.code_width), np.uint8)
    first = 0
    for segment in segments:
        here = (rows >= first) & (rows < first + segment.n_rows)
        if here.any():
            codes[here] = segment.codes_of(rows[here] - first)
        first += segment.n_rows
    if len(rows) and not 0 <= rows.min() <= rows.max() < first:
        raise DamagedFileError(f"the index is damaged: it names row {int(rows.max())} of {first}")
    check_codes(codes, codebooks)
    return codes
