"""Requests as they are counted and logged, however they were answered."""

from __future__ import annotations

import logging

from ..work.metrics import Metrics
from .request_ids import RequestIds

access_log = logging.getLogger("interlace.serve.access")


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
