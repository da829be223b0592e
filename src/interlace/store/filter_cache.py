"""Cache of the last results of filters."""

from __future__ import annotations

from typing import Any

from .._threads import ForkLock

#: Results that are kept for each segment.
CACHED = 8


class FilterCache:
    """The results of the last few filters; the least recently used one is dropped."""

    def __init__(self, most: int = CACHED) -> None:
        self._most, self._lock = most, ForkLock()
        self._results: list[tuple[Any, Any]] = []

    def get(self, key: Any) -> Any:
        """The result of an equal filter, or None."""
        with self._lock:
            for i, (known, result) in enumerate(self._results):
                if _same(known, key):
                    self._results.append(self._results.pop(i))
                    return result
        return None

    def put(self, key: Any, result: Any) -> None:
        """Store a result."""
        with self._lock:
            self._results = [pair for pair in self._results if not _same(pair[0], key)]
            self._results = [*self._results, (key, result)][-self._most :]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str) and a == b
    return bool(a.equals(b))
