"""Processor time of processes, by Linux's ``/proc``."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PARENT, OWN, ENDED = 1, slice(11, 13), slice(13, 15)  # fields of ``stat`` behind the name: ticks of user and system


def _fields(process: int | str) -> list[str]:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def cpu_seconds(process: int) -> float:
    """Of one process; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return sum(map(int, _fields(process)[OWN])) / TICKS
    return 0.0


def cpu_of_tree(root: int) -> float:
    """Of a process, of its descendants, and of those of them that have ended and were waited for."""
    found: dict[int, tuple[int, int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                fields = _fields(name)
                ticks = sum(map(int, fields[OWN])) + sum(map(int, fields[ENDED]))
                found[int(name)] = int(fields[PARENT]), ticks
    total = 0
    for process, (_, ticks) in found.items():
        above = process
        while above in found and above != root:
            above = found[above][0]
        total += ticks if above == root else 0
    return total / TICKS
