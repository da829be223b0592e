"""Rows that a search may return, prepared for the native scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _native
from ..codec.codebooks import Codebooks
from .segments import Segment

Mask = NDArray[np.uint8]  #: one byte for each row, removed ones included; 0: not allowed


@dataclass(frozen=True, eq=False)
class Allowed:
    """Rows that searches may return, prepared for many of them; ``allow()`` of an index or store makes it.

    It is valid for exactly these segments. Where few rows are allowed their codes are copied (cpp/core/filter.h).
    """

    bits: NDArray[np.uint8]  #: a bit for each row, removed ones included
    filters: list[_native.Filter]  #: one for each segment
    segments: tuple[Segment, ...]
    n_rows: int  #: of those that are not removed, for messages

    @classmethod
    def of(cls, codebooks: Codebooks, segments: tuple[Segment, ...], mask: Mask, n_rows: int) -> Allowed:
        """From a mask over all rows, which may change afterwards."""
        return cls(np.packbits(mask), filters_of(codebooks, segments, mask), segments, n_rows)

    def has(self, row: int) -> bool:
        """Whether a row is allowed."""
        return bool(self.bits[row >> 3] & (0x80 >> (row & 7)))

    def __len__(self) -> int:
        return sum(f.n_allowed for f in self.filters)

    def __reduce__(self) -> Any:
        raise TypeError("an Allowed is not pickled: pass the mask or the ids, and call allow() in the other process")

    def __copy__(self) -> Allowed:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Allowed:
        return self  # it never changes, and it holds for these rows only

    def __repr__(self) -> str:
        return f"Allowed({len(self)} of {self.n_rows} rows)"


def filters_of(codebooks: Codebooks, segments: Sequence[Segment], mask: Mask) -> list[_native.Filter]:
    """A native filter for each segment."""
    filters: list[_native.Filter] = []
    first = 0
    for segment in segments:
        filters.append(_native.Filter(codebooks.native, segment.native, mask[first : first + segment.n_rows]))
        first += segment.n_rows
    return filters
