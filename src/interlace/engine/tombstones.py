"""Rows that were removed but are still in their segment: a bit for each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .._threads import cached_property
from ..errors import InputError

Bits = NDArray[np.uint8]
FEW = 1000  #: rows below which their bits are set one by one


class Removed(Protocol):
    """What a search and the ids ask of removed rows."""

    @property
    def n(self) -> int:
        """All rows, removed or not."""

    @property
    def count(self) -> int:
        """Removed rows."""

    def has(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of these rows, of any shape, was removed."""

    def kept(self) -> NDArray[np.bool_]:
        """A mask [n] of the other rows."""


class Tombstones:
    """Removed rows of one segment; never changed, :meth:`adding` gives another.

    Bit ``r % 8`` of byte ``r // 8`` of ``bits`` [(n + 7) // 8] is row r.
    """

    def __init__(self, n: int, bits: Bits | None = None, count: int = 0) -> None:
        self.n = n
        self.count = count
        self._bits = bits  # None: no row is removed, and nothing is allocated

    @property
    def bits(self) -> Bits:
        """One for each row, the last byte filled with zeros."""
        return np.zeros((self.n + 7) // 8, np.uint8) if self._bits is None else self._bits

    @classmethod
    def stored(cls, n: int, bits: Bits, count: int) -> Tombstones:
        """From a file, which remembers how many there are."""
        if bits.shape != ((n + 7) // 8,) or (n % 8 and int(bits[-1]) >> n % 8):
            raise ValueError(f"{bits.size} bytes of tombstones for {n} rows")
        found = int(np.count_nonzero(np.unpackbits(bits).view(np.bool_)))
        if found != count:
            raise ValueError(f"{found} tombstones, {count} expected")
        return cls(n, bits, count)

    def adding(self, rows: NDArray[np.int64], n: int | None = None) -> Tombstones:
        """With more rows removed, each of them for the first time; ``n``: the segment has grown to so many."""
        n = self.n if n is None else n
        if len(rows) and not 0 <= rows.min() <= rows.max() < n:
            raise InputError(f"rows to remove must lie in 0 to {n - 1}, got {rows.min()} to {rows.max()}")
        if not len(rows) and self._bits is None:
            return Tombstones(n)
        bits = np.zeros((n + 7) // 8, np.uint8)
        bits[: len(self.bits)] = self.bits
        again = _test(bits, rows).any()
        if len(rows) < FEW:
            again |= len(set(rows.tolist())) != len(rows)
            np.bitwise_or.at(bits, rows >> 3, np.left_shift(1, rows & 7).astype(np.uint8))
        else:
            mask = np.zeros(n, np.bool_)
            mask[rows] = True
            again |= np.count_nonzero(mask) != len(rows)
            bits |= np.packbits(mask, bitorder="little")
        if again:
            raise InputError("a row is removed that was removed before")
        return Tombstones(n, bits, self.count + len(rows))

    def has(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of these rows was removed."""
        if self._bits is None:
            return np.zeros(rows.shape, np.bool_)
        return _test(self._bits, rows)

    def kept(self) -> NDArray[np.bool_]:
        """A mask of the other rows."""
        if self._bits is None:
            return np.ones(self.n, np.bool_)
        return np.asarray(np.unpackbits(self._bits, count=self.n, bitorder="little") == 0)


class JoinedTombstones:
    """Those of segments one after the other, for row numbers that go on from one to the next."""

    def __init__(self, parts: Sequence[Tombstones]) -> None:
        self._parts = parts
        self._ends = np.cumsum([part.n for part in parts])
        self.n = sum(part.n for part in parts)
        self.count = sum(part.count for part in parts)
        filled = [part for part in parts if part.n]
        self._only = filled[0] if len(filled) == 1 else None

    @cached_property
    def _joined(self) -> tuple[Bits, NDArray[np.int64]]:
        """All bits, and what to add to the rows of each segment: every segment begins with a byte of its own."""
        bits = [part.bits for part in self._parts]
        first_bits = 8 * np.cumsum([0, *(len(b) for b in bits)])[:-1]
        first_rows = self._ends - [part.n for part in self._parts]
        return np.concatenate(bits), first_bits - first_rows

    def has(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each of these rows was removed."""
        if self._only is not None:
            return self._only.has(rows)
        bits, shifts = self._joined
        return _test(bits, rows + shifts[np.searchsorted(self._ends, rows, "right")])

    def kept(self) -> NDArray[np.bool_]:
        """A mask of the other rows."""
        return np.concatenate([part.kept() for part in self._parts])


def _test(bits: Bits, at: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray((bits[at >> 3] >> (at & 7).astype(np.uint8)) & 1, np.bool_)
