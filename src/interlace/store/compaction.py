"""Which segments a checkpoint rewrites: it turns the log into a segment, merges segments, and drops removed rows.

Segments keep insertion order and only neighbours are merged, so that ties are decided as before. A segment is merged
with the one before it while that one is less than twice as large: there are O(log n) segments, and each row is written
O(log n) times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..engine.segments import MAX_ROWS
from ..errors import InputError

#: A segment that is at least this many times as large as the next one is not merged with it.
RATIO = 2
#: Removals in a segment that justify a checkpoint of their own: spread over this many, it is cheap.
WORTH = 64


@dataclass(frozen=True)
class Limits:
    """When a store turns its log into a segment and compacts segments automatically. The defaults suit most stores."""

    #: the log becomes a segment when it has this many rows, records or bytes; opening a store reads the whole log
    rows: int = 16384
    records: int = 1024
    bytes: int = 1 << 20
    #: a segment that lost more than this share of its rows is rewritten; None: only by ``compact()``
    removed_share: float | None = 0.3

    def __post_init__(self) -> None:
        for name in ("rows", "records", "bytes"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InputError(f"{name} must be a positive integer, got {value!r}")
        share = self.removed_share
        if share is not None and (isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1):
            raise InputError(f"removed_share must be None or between 0 and 1, got {share!r}")


@dataclass(frozen=True)
class Group:
    """Consecutive parts that become one segment, or one part that is not rewritten."""

    first: int
    stop: int
    kept: int  # rows that are not removed
    rewritten: bool


def plan(
    sizes: Sequence[tuple[int, int]],
    removed_share: float | None,
    *,
    everything: bool = False,
    rewrite: bool = False,
    most: int = MAX_ROWS,
) -> list[Group]:
    """The segments after a checkpoint, given (rows, removed rows) of each part; the last part is the log.

    ``everything``: merge all parts; ``rewrite``: rewrite every part. The log is always rewritten, so that the new log
    is empty. Groups without rows are left out. ``most`` is the largest number of rows in a segment.
    """
    log = len(sizes) - 1
    groups: list[Group] = []
    for i, (rows, removed) in enumerate(sizes):
        share = 1.0 if removed_share is None else removed_share
        rewritten = rewrite or i == log or removed == rows or removed > share * rows or (everything and removed > 0)
        if rows > removed:
            groups.append(Group(i, i + 1, rows - removed, rewritten))
        while len(groups) > 1 and _belong_together(groups[-2], groups[-1], everything, most):
            last, before = groups.pop(), groups.pop()
            groups.append(Group(before.first, last.stop, before.kept + last.kept, True))
    return groups


def many_removed(segments: Sequence[tuple[int, int]], limits: Limits, patience: int = 1) -> bool:
    """Whether to rewrite a segment now instead of at the next checkpoint, given (rows, removed rows) of each.

    ``patience`` multiplies the required number of removals, after attempts that failed.
    """
    if limits.removed_share is None:
        return False
    worth = patience * min(WORTH, limits.records)
    return any(removed >= worth and removed > limits.removed_share * rows for rows, removed in segments)


def _belong_together(before: Group, last: Group, everything: bool, most: int) -> bool:
    if before.kept + last.kept > most:
        return False
    return everything or before.kept < RATIO * last.kept
