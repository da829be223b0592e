"""Processor time and memory of processes, by Linux's ``/proc``."""

from __future__ import annotations

import contextlib
import os
import threading
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


def _tree(root: int) -> dict[int, list[str]]:
    """Fields of a process and of its descendants."""
    found: dict[int, list[str]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                found[int(name)] = _fields(name)
    tree = {}
    for process, fields in found.items():
        above = process
        while above in found and above != root:
            above = int(found[above][PARENT])
        if above == root:
            tree[process] = fields
    return tree


def cpu_of_tree(root: int) -> float:
    """Of a process, of its descendants, and of those of them that have ended and were waited for."""
    return sum(sum(map(int, fields[OWN])) + sum(map(int, fields[ENDED])) for fields in _tree(root).values()) / TICKS


def memory_of_tree(root: int) -> int:
    """Bytes of a process and of its descendants; a page that several of them share counts once."""
    total = 0
    for process in _tree(root):
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
            total += 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return total


class Memory:
    """Looks at the memory of a tree of processes every few seconds, in a thread, until it is asked for the most."""

    def __init__(self, root: int, seconds: float = 3.0) -> None:
        self._root, self._seconds, self._most = root, seconds, memory_of_tree(root)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._end.wait(self._seconds):
            self._most = max(self._most, memory_of_tree(self._root))

    def most(self) -> int:
        """Bytes."""
        self._end.set()
        self._thread.join()
        return max(self._most, memory_of_tree(self._root))
