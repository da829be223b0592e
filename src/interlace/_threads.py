"""How many threads a call may use."""

from __future__ import annotations

import operator
import os
from typing import Any

from .errors import InputError


def thread_count(threads: Any) -> int:
    """None -> the cores this process may run on; otherwise a positive integer."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    try:
        number = operator.index(threads)
    except TypeError:
        number = 0
    if isinstance(threads, bool) or number < 1:
        raise InputError(f"threads must be None or a positive integer, got {threads!r}")
    return min(number, 1024)
