"""The bytes of an answer, counted before it is made: a small request must not ask for more than fits in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...store import Snapshot
from ...store.ids import without_padding
from ..problems import over_limit
from ..settings import RequestLimits

NUMBER = 25  #: of a vector as JSON, at most: sign, 17 digits, point, exponent, comma and space
POINT, HIT = 8, 53  #: of a point as JSON without its id, payload and vector; with a score
KEY = 11  #: "payload" or "vector"
BLOCK = 8 << 20  # bytes of payloads that are read at once
ROWS = 4096  # rows that are read at once


class AnswerSize:
    """Bytes of the answer to one request so far."""

    def __init__(self, limits: RequestLimits) -> None:
        self._most, self._bytes = limits.answer_bytes, 0

    def add(self, n: int, what: str) -> None:
        """Count bytes before they are made; a problem if there are too many. ``what`` is for the message."""
        self.check(n, what)
        self._bytes += n

    def check(self, n: int, what: str) -> None:
        """The same for bytes that are counted later."""
        if self._bytes + n > self._most:
            raise over_limit(422, "answer_bytes", self._most, f"up to {self._bytes + n} bytes with {what}")

    def add_text(self, text: str, what: str) -> str:
        """Count a text, and return it."""
        self.add(len(text) if text.isascii() else len(text.encode()), what)
        return text

    def add_hits(self, ids: NDArray[Any], each: int) -> None:
        """Count hits as arrays, with so many bytes for all but a string id."""
        strings = sum(map(_json_bytes, ids.ravel().tolist())) if ids.dtype == object else 0
        self.add(ids.size * each + strings, f"{ids.size} hits")


def _json_bytes(id: Any) -> int:
    """Of a string as JSON, at most."""
    text = str(id)
    return 4 + (2 if text.isascii() and text.isprintable() else 12) * len(text)


def payload_bytes(snapshot: Snapshot, ids: Any, columns: Any) -> NDArray[np.int64]:
    """Bytes of the payload of each point as it is stored; ``ids`` may be None for all. The payloads are not read."""
    kept, rows = snapshot.rows.extras.columns, snapshot.rows.ids
    if kept is None:
        return np.zeros(0, np.int64)
    names = kept.checked(columns)
    found = rows.kept_rows() if ids is None else rows.rows_of(without_padding(ids))
    return snapshot.rows.table_bytes(names, found)


def blocks(sizes: NDArray[np.int64]) -> Iterator[slice]:
    """Consecutive rows of at most BLOCK bytes together, or one row, and at most ROWS."""
    first, ends = 0, np.cumsum(sizes)
    while first < len(sizes):
        before = ends[first - 1] if first else 0
        last = int(np.searchsorted(ends, before + BLOCK, "right"))
        last = min(max(last, first + 1), first + ROWS)
        yield slice(first, last)
        first = last
