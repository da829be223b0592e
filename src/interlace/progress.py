"""Progress of long-running calls: the function they call, and a bar for terminals."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

from .errors import InputError

#: Called with what is being done and the share of the whole call that is done, which never falls and ends at 1; or NaN,
#: where the whole is unknown.
Progress = Callable[[str, float], None]

WIDTH = 24
#: Seconds that work takes before ``progress="auto"`` shows a bar.
AUTO_DELAY = 0.5


def silent(what: str, done: float) -> None:
    """Ignore the progress."""


def part(progress: Progress, begin: float, end: float, label: str = "") -> Progress:
    """The progress of one step, whose 0 to 1 is reported as ``begin`` to ``end``; ``label`` is put before its texts."""

    def report(what: str, done: float) -> None:
        share = begin + (end - begin) * done
        progress(f"{label}: {what}" if label else what, end if share > end else share)  # rounding must not exceed it

    return report


class Bar:
    """A line on a terminal that is written over: share done, what is being done, time passed and left.

    Nothing is written in the first ``delay`` seconds, so that quick work stays silent. The line stays when all is done,
    or is removed with ``leave=False``. A narrow terminal gets no bar, then no times, then the beginning of the text.
    """

    def __init__(self, out: TextIO | None = None, *, delay: float = 0.0, leave: bool = True) -> None:
        self._out = sys.stderr if out is None else out
        self._delay, self._leave = delay, leave
        self._started = time.monotonic()
        self._width = 0

    def __call__(self, what: str, done: float) -> None:
        done = done if math.isnan(done) else min(max(done, 0.0), 1.0)
        passed = time.monotonic() - self._started
        if not self._width and passed < self._delay:
            return
        if done == 1 and not self._leave:
            self.clear()
            return
        line = self._line(what, done, passed)
        self._out.write("\r" + line.ljust(self._width) + ("\n" if done == 1 else ""))
        self._out.flush()
        self._width = 0 if done == 1 else len(line)

    def clear(self) -> None:
        """Remove the line, so that something else can be written; the next call writes it again."""
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._out.flush()
            self._width = 0

    def _line(self, what: str, done: float, passed: float) -> str:
        if math.isnan(done):
            return f"{what} ({clock(passed)})"[: _columns(self._out) - 1]
        left = f"{clock(passed / done * (1 - done))} left" if 0.02 < done < 1 else ""
        full = round(WIDTH * done)
        bar, share = f"[{'#' * full}{'.' * (WIDTH - full)}] ", f"{done:4.0%} "
        times = f" ({clock(passed)}{', ' * bool(left)}{left})"
        room = _columns(self._out) - 1  # a full line would wrap
        short = f" ({left})" if left else ""
        for form in (bar + share + what + times, share + what + times, share + what + short):
            if len(form) <= room:
                return form
        return (share + what)[:room]


def _columns(out: TextIO) -> int:
    try:
        return os.get_terminal_size(out.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):  # not a terminal: nothing wraps
        return 10_000


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def as_progress(progress: Any) -> Progress:
    """What a user passed as a function: ``"auto"`` (a bar on a terminal), True, False, None or a function."""
    if progress is None or progress is False:
        return silent
    if isinstance(progress, str) and progress == "auto":
        return Bar(delay=AUTO_DELAY, leave=False) if _is_interactive() else silent
    if progress is True:
        return Bar()
    if callable(progress):
        return progress  # type: ignore[no-any-return]
    raise InputError(f"progress must be True, False, 'auto' or a function, got {progress!r}")


def _is_interactive() -> bool:
    """Whether stderr is a terminal, and this is no test run or build server."""
    try:
        terminal = sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it was closed
        terminal = False
    return terminal and not any(os.environ.get(name) for name in ("CI", "PYTEST_CURRENT_TEST"))
