"""Packed, immutable rows (cpp/core/segment.h): codes sorted into cells, row numbers in about ten bits each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..codec.codebooks import MAX_WORDS, Codebooks, Codes
from ..errors import DamagedFileError, InputError
from ..files import storage

BLOCK = 64
MAX_ROWS = 2**32 - 1
NAMES = ("cell_starts", "crude", "rest", "low", "high", "samples")
CROSS_FLOORS = "cross_floors"  # there where the second step adds cross terms, and cells are not folded


class Segment:
    """Some rows of an index. ``codes`` in and out are uint8 [n, code_width] (:meth:`Codebooks.split_codes`)."""

    def __init__(self, arrays: dict[str, NDArray[Any]], file: storage.File | None = None) -> None:
        self.arrays = arrays
        self.file = file  # what the arrays are mapped from, if they are
        self._native = _native.Segment(**{name: arrays[name] for name in NAMES}, cross_floors=arrays.get(CROSS_FLOORS))
        self.n_rows = int(arrays["rest"].shape[0])
        self.n_columns = int(arrays["crude"].shape[1] + arrays["rest"].shape[1])
        self._width = self.n_columns + (1 if len(arrays["cell_starts"]) <= 1 + MAX_WORDS else 2)  # of a row of codes

    @property
    def native(self) -> _native.Segment:
        """What native code reads; an error if the file of the arrays was cut: to read it would end the process."""
        if self.file is not None:
            self.file.check_size()
        return self._native

    @classmethod
    def pack(cls, codes: Codes, codebooks: Codebooks) -> Segment:
        """Sort rows by cell, stably, and lay them out in blocks."""
        if len(codes) > MAX_ROWS:
            raise InputError(f"a segment holds at most {MAX_ROWS} rows, got {len(codes)}")
        n, n_crude = len(codes), codebooks.n_crude_columns
        starts = np.zeros(codebooks.n_cells + 1, np.uint64)
        low, high, samples = _native.count_cells(codes, starts)
        arrays: dict[str, NDArray[Any]] = {
            "cell_starts": starts,
            "crude": np.zeros(((n + BLOCK - 1) // BLOCK, n_crude, BLOCK), np.uint8),
            "rest": np.zeros((n, len(codebooks.columns) - n_crude), np.uint8),
            "low": np.zeros(low, np.uint64),
            "high": np.zeros(high, np.uint64),
            "samples": np.zeros(samples, np.uint32),
        }
        _native.pack(codes, **arrays)
        if codebooks.has_cross_sums and not codebooks.folds_cells:
            arrays[CROSS_FLOORS] = np.empty(codebooks.n_cells, np.int32)
            _native.cross_floors(codebooks.native, codes, 1, arrays[CROSS_FLOORS])
        return cls(arrays)

    @property
    def code_width(self) -> int:
        """Bytes of a row of codes."""
        return self._width

    def unpack(self, out: Codes | None = None) -> Codes:
        """All codes in row order, written to ``out`` (zeros) if it is given; the inverse of :meth:`pack`."""
        # Zeros: row numbers of a damaged file may leave rows out, and what was in memory must not get into files.
        codes = np.zeros((self.n_rows, self._width), np.uint8) if out is None else out
        self.native.unpack(codes)
        return codes

    def codes_of(self, rows: NDArray[np.int64]) -> Codes:
        """Codes of some rows."""
        codes = np.empty((len(rows), self._width), np.uint8)
        self.native.codes_of(np.ascontiguousarray(rows, np.uint64), codes)
        return codes

    @property
    def code_bytes(self) -> int:
        """Bytes of codes, padding included."""
        return int(self.arrays["crude"].nbytes + self.arrays["rest"].nbytes)

    def fixed_bytes(self, codebooks: Codebooks, *, reranked: bool = False) -> int:
        """Bytes that the first search computes and keeps (cpp/core/fixed_parts.h); ``reranked``: by originals."""
        if not codebooks.folds_cells:
            return 0
        n_bytes = -(-self.n_rows // BLOCK) * BLOCK + 4 * (len(self.arrays["cell_starts"]) - 1)
        return n_bytes + (4 * self.n_rows if reranked or codebooks.keeps_sums else 0)

    @property
    def row_bytes(self) -> int:
        """Bytes of row numbers and cell bounds."""
        return int(sum(self.arrays[name].nbytes for name in ("cell_starts", "low", "high", "samples")))


def segment_in(file: storage.File, codebooks: Codebooks) -> Segment:
    """The rows of an opened file, mapped; arrays that do not fit the books raise ValueError."""
    names = [*NAMES, *([CROSS_FLOORS] if codebooks.has_cross_sums and not codebooks.folds_cells else [])]
    segment = Segment({name: file.array(f"segment.{name}") for name in names}, file)
    shape = (len(segment.arrays["cell_starts"]) - 1, segment.arrays["crude"].shape[1], segment.n_columns)
    if shape != (codebooks.n_cells, codebooks.n_crude_columns, len(codebooks.columns)):
        raise ValueError("the columns do not fit the books")
    return segment


def check_codes(codes: Codes, codebooks: Codebooks) -> None:
    """Raise unless every stored code names a word of its book."""
    if (codebooks.largest_codes(codes) >= np.array(codebooks.column_sizes)).any():
        raise DamagedFileError("the index is damaged: a code names a word that its book does not have")


def verify(segment: Segment, codebooks: Codebooks) -> None:
    """Raise unless every code names a word and the rows pack to the bytes that are there."""
    codes = segment.unpack()
    check_codes(codes, codebooks)
    again = Segment.pack(codes, codebooks)
    if any(not np.array_equal(again.arrays[name], array) for name, array in segment.arrays.items()):
        raise DamagedFileError("the index is damaged: its rows do not pack to the bytes stored")


def merge(segments: list[Segment], codebooks: Codebooks) -> Segment:
    """One segment with the rows of all, in their order."""
    if len(segments) == 1:
        if segments[0].file is not None:
            segments[0].file.check_size()  # its arrays are about to be copied
        return segments[0]
    ends = np.cumsum([segment.n_rows for segment in segments]).tolist()
    codes = np.zeros((ends[-1], segments[0].code_width), np.uint8)
    for segment, end in zip(segments, ends, strict=True):
        segment.unpack(codes[end - segment.n_rows : end])
    return Segment.pack(codes, codebooks)
