"""Requests as they are counted and logged, however they were answered, and their ids."""

from __future__ import annotations

import itertools
import logging
import re
import secrets

from ..work.metrics import Metrics

access_log = logging.getLogger("interlace.serve.access")
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


class Traffic:
    """One for each application."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics, self.ids = metrics, RequestIds()
        self.active = 0  #: requests being served
        metrics.active.set_function(lambda: self.active)

    def note(
        self,
        request_id: str,
        method: str,
        path: str,
        route: str | None,
        status: int,
        seconds: float,
        sizes: tuple[int, int],
        client: str,
    ) -> None:
        """A request that was answered; ``sizes`` are bytes in and out. On the event loop.

        ``route=None``: another process has counted it.
        """
        if route is not None:
            self._metrics.observe(method, route, status, seconds)
        if not access_log.isEnabledFor(logging.INFO):
            return
        fields = {
            "request_id": request_id,
            "method": method,
            "path": path,
            "status": status,
            "milliseconds": round(seconds * 1e3, 3),
            "bytes_in": sizes[0],
            "bytes_out": sizes[1],
            "client": client,
        }
        access_log.info("request", extra={"fields": fields})
