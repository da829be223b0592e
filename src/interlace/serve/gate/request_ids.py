"""Ids of requests: that of the client if it is harmless, else a new one."""

from __future__ import annotations

import itertools
import re
import secrets

_GIVEN = re.compile(r"[A-Za-z0-9._-]{1,64}")


def is_harmless(given: str) -> bool:
    """Whether the id of a client can be copied into headers and logs."""
    return _GIVEN.fullmatch(given) is not None


class RequestIds:
    """New ids are unique, not secret: a random start for each process, and a number."""

    def __init__(self) -> None:
        self._start, self._numbers = secrets.token_hex(4), itertools.count()

    def of(self, given: str) -> str:
        """The id of a request whose header says ``given``."""
        return given if is_harmless(given) else self.new()

    def new(self) -> str:
        """16 hexadecimal digits."""
        return f"{self._start}{next(self._numbers) & 0xFFFFFFFF:08x}"
