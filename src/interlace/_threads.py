"""The number of threads of a call, and locks and cached properties that are safe in a forked child.

A forked child has only the thread that forked, and copies of locks that other threads may have held.
"""

from __future__ import annotations

import operator
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from .errors import InputError

Value = TypeVar("Value")


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


class ForkLock:
    """A re-entrant lock. A forked child finds it free, unless the thread that forked holds it itself.

    The data it guards must be valid at any moment: a thread that was changing them does not exist in the child.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def acquire(self, timeout: float) -> bool:
        """Wait at most so many seconds; whether it was acquired. :meth:`release` follows."""
        return self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        """Undo :meth:`acquire`."""
        self._lock.release()

    def renew(self) -> None:
        """In a child: replace a lock that a thread of the parent holds."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()


_LOCKS: weakref.WeakSet[ForkLock] = weakref.WeakSet()


def _renew() -> None:
    for lock in list(_LOCKS):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)


class cached_property(Generic[Value]):  # noqa: N801 - it takes the place of functools.cached_property
    """Like functools.cached_property, but without the lock that Python 3.10 and 3.11 hold while computing a value.

    Threads that ask for a value at the same time may compute it more than once; all of them get the same one.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self._name, self._compute(instance))
