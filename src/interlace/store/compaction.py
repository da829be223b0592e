"""Which segments are written anew, and when: rows of the log become a segment, segments become fewer, space comes back.

Segments stay in the order of insertion and only neighbours are merged, so that ties are decided as before. A segment is
merged with the one before as long as that one is less than twice as large: there are O(log n) segments, and each row is
written O(log n) times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..engine.segments import MAX_ROWS
from ..errors import InputError

#: A segment at least so many times larger than the one behind it is left alone.
RATIO = 2
#: Removed rows of a segment from which on it is worth a checkpoint of its own: one for so many removals is cheap.
WORTH = 64


@dataclass(frozen=True)
class Limits:
    """When a store tidies up by itself. The defaults suit most."""

    #: rows, records or bytes of the log from which on it becomes a segment: what an open has to read, at most
    rows: int = 16384
    records: int = 1024
    bytes: int = 1 << 20
    #: a segment that lost more than this share of its rows is written anew; None: only ``compact()`` does that
    removed_share: float | None = 0.3

    def __post_init__(self) -> None:
        for name in ("rows", "records", "bytes"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InputError(f"{name} must be a positive integer, got {value!r}")
        share = self.removed_share
        if share is not None and (isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1):
            raise InputError(f"removed_share must lie between 0 and 1, or be None, got {share!r}")


@dataclass(frozen=True)
class Group:
    """Consecutive parts that become one segment, or one part that stays as it is."""

    first: int
    stop: int
    kept: int  # rows that are not removed
    rewritten: bool


def plan(
    sizes: Sequence[tuple[int, int]],
    removed_share: float | None,
    *,
    everything: bool = False,
    anew: bool = False,
    most: int = MAX_ROWS,
) -> list[Group]:
    """What becomes of parts, given (rows, removed rows) of each, the last one the log; ``everything``: one segment,
    ``anew``: none stays as it is.

    The log is always rewritten, so that none is left of it. Groups without rows are left out.
    """
    log = len(sizes) - 1
    groups: list[Group] = []
    for i, (rows, removed) in enumerate(sizes):
        share = 1.0 if removed_share is None else removed_share
        rewritten = anew or i == log or removed == rows or removed > share * rows or (everything and removed > 0)
        if rows > removed:
            groups.append(Group(i, i + 1, rows - removed, rewritten))
        while len(groups) > 1 and _belong_together(groups[-2], groups[-1], everything, most):
            last, before = groups.pop(), groups.pop()
            groups.append(Group(before.first, last.stop, before.kept + last.kept, True))
    return groups


def many_removed(segments: Sequence[tuple[int, int]], limits: Limits, patience: int = 1) -> bool:
    """Whether one of them, given (rows, removed rows) of each, should be rewritten without waiting for a long log.

    ``patience`` is how many times as many removals as usual it takes, because the last attempt failed.
    """
    if limits.removed_share is None:
        return False
    worth = patience * min(WORTH, limits.records)
    return any(removed >= worth and removed > limits.removed_share * rows for rows, removed in segments)


def _belong_together(before: Group, last: Group, everything: bool, most: int) -> bool:
    if before.kept + last.kept > most:
        return False
    return everything or before.kept < RATIO * last.kept
