"""Logs as lines of JSON."""

from __future__ import annotations

import json
import logging
from typing import Any


class JsonLines(logging.Formatter):
    """A line of JSON for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        request_id = getattr(record, "request_id", None)
        if request_id is not None:
            fields["request_id"] = request_id
        fields.update(getattr(record, "fields", {}))
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields)
