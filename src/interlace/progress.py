"""How long-running calls tell where they are."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from .errors import InputError

#: Called with what is being done and the share of the whole that is done, 0 to 1.
Progress = Callable[[str, float], None]

WIDTH = 24


def silent(what: str, done: float) -> None:
    """The default: say nothing."""


class Bar:
    """A line on a terminal that is written over: share done, time left, what is being done."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = sys.stderr if out is None else out
        self._started = time.monotonic()
        self._width = 0

    def __call__(self, what: str, done: float) -> None:
        done = min(max(done, 0.0), 1.0)
        passed = time.monotonic() - self._started
        left = f", {clock(passed / done * (1 - done))} left" if 0.02 < done < 1 else ""
        full = round(WIDTH * done)
        line = f"[{'#' * full}{'.' * (WIDTH - full)}] {done:4.0%} {what} ({clock(passed)}{left})"
        self._out.write("\r" + line.ljust(self._width) + ("\n" if done == 1 else ""))
        self._out.flush()
        self._width = len(line)


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def shown(progress: Any) -> Progress:
    """What a user may pass: True, False or None, ``"auto"`` (a bar if stderr is a terminal), or a function."""
    if progress is None or progress is False:
        return silent
    if progress == "auto":
        return Bar() if sys.stderr.isatty() else silent
    if progress is True:
        return Bar()
    if callable(progress):
        return progress  # type: ignore[no-any-return]
    raise InputError(f"progress must be True, False, 'auto' or a function, got {progress!r}")
