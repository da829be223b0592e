"""Errors as clients see them: in the shape of Qdrant's, with a code for programs, and without stack traces.

    {"status": {"error": "there is no collection 'x'"}, "time": 0.0002,
     "code": "unknown_collection", "detail": "there is no collection 'x'", "request_id": "..."}

``code`` is what programs compare; :mod:`interlace.client` turns it into the exceptions of the library.
"""

from __future__ import annotations

import errno
import json
import re
import time
from typing import Any, Literal

from pydantic import ValidationError
from starlette.responses import Response

from ..client.codes import CODES
from ..errors import FileError, InterlaceError
from .settings import RequestLimits

#: Errors of a full disk or quota.
FULL = (errno.ENOSPC, errno.EDQUOT)
#: A path in quotes, as messages have it.
_PATH = re.compile(r"""(['"])(/.*?)\1""")
SHOWN = 8  # invalid fields listed in one message
#: Status of a request that is not what the API says, and of a value that is of its type but out of its range, as Qdrant
#: has them.
BAD_REQUEST, OUT_OF_RANGE = 400, 422


class ProblemDetails(Exception):  # noqa: N818, an answer
    """An answer other than success."""

    def __init__(self, status: int, code: str, detail: str, headers: dict[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers, self.more = status, code, detail, headers or {}, more

    def response(self, request_id: str, began: float) -> Response:
        """The answer to a request that began at this time of ``perf_counter``."""
        content = {
            "status": {"error": self.detail},
            "time": time.perf_counter() - began,
            "code": self.code,
            "detail": self.detail,
            "request_id": request_id,
            **self.more,
        }
        return Response(json.dumps(content), self.status, self.headers, "application/json")


def bad_input(text: str) -> ProblemDetails:
    """A request that means nothing, or nothing for this collection."""
    return ProblemDetails(BAD_REQUEST, "input", text)


def unsupported(what: str, status: int = 422) -> ProblemDetails:
    """Parts of Qdrant's API that this server does not have: an option of a request, or a whole route (501)."""
    return ProblemDetails(
        status, "unsupported", f"{what} is not supported by this server (docs/qdrant.md lists what is)"
    )


def over_limit(status: int, limit: str, most: Any, came: Any = None) -> ProblemDetails:
    """A request beyond one of the limits of the server, which is named."""
    got = "" if came is None else f", got {came}"
    retry = {"Retry-After": "1"} if status in (429, 503) else {}
    return ProblemDetails(status, "limit", f"the limit {limit} is {most}{got}", retry, limit=limit)


def check_limit(limits: RequestLimits, limit: Literal["batch", "k", "hits"], n: int, came: str) -> None:
    """Raise a problem for a request that asks for more than a limit allows."""
    most = getattr(limits, limit)
    if n > most:
        raise over_limit(422, limit, most, came)


def without_paths(text: str) -> str:
    """The message of an error with names of files in place of absolute paths, which are no business of clients."""
    return _PATH.sub(lambda found: found[1] + found[2].rstrip("/").rpartition("/")[2] + found[1], text)


def of_error(error: Exception) -> ProblemDetails:
    """The problem of an exception; an unexpected one tells nothing about the inside of the server."""
    if isinstance(error, ProblemDetails):
        return error
    if isinstance(error, ValidationError):
        return _of_validation(error)
    if isinstance(error, OSError) and error.errno in FULL:  # a StoreError is one, too
        return ProblemDetails(507, "full", "the disk is full: the write is not part of the collection; searches go on")
    if isinstance(error, InterlaceError):
        for kind, code in CODES.items():
            if isinstance(error, kind):
                text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                text = without_paths(text) if isinstance(error, FileError) else text
                more = {"added": added} if (added := getattr(error, "added", None)) is not None else {}
                return ProblemDetails(STATUS[code], code, text, **more)
    if isinstance(error, MemoryError):
        return ProblemDetails(503, "memory", "there is not enough memory for this request", {"Retry-After": "1"})
    return ProblemDetails(500, "internal", "an unexpected error; the log of the server has it under this request_id")


#: Status of each code of an exception of the library.
STATUS = {
    "duplicate_id": 409,
    "partly_added": BAD_REQUEST,
    "input": BAD_REQUEST,
    "unknown_id": 404,
    "not_fitted": 409,
    "not_an_index": 500,
    "damaged": 500,
    "newer_format": 500,
    "older_format": 500,
    "locked": 503,
    "store": 503,
    "file": 500,
    "error": 500,
}


def _of_validation(error: ValidationError) -> ProblemDetails:
    found = error.errors(include_url=False, include_context=False)
    texts = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" if e["loc"] else e["msg"] for e in found]
    for e, text in zip(found, texts, strict=True):
        if e["type"] == "unsupported":
            return ProblemDetails(422, "unsupported", text)
    if found[0]["type"] == "json_invalid":
        return ProblemDetails(BAD_REQUEST, "json", f"the body is not valid JSON: {found[0]['msg']}")
    more = "" if len(texts) <= SHOWN else f"; and {len(texts) - SHOWN} more"
    status = OUT_OF_RANGE if all(map(_is_out_of_range, found)) else BAD_REQUEST
    return ProblemDetails(status, "input", "; ".join(dict.fromkeys(texts[:SHOWN])) + more)


#: Types of pydantic's errors where a value is of its type.
_RANGES = {
    *("greater_than_equal", "less_than_equal"),
    *("too_short", "string_too_short", "string_too_long", "string_pattern_mismatch"),
}


def _is_out_of_range(error: Any) -> bool:
    """Integers of Qdrant are unsigned: one below zero is none of them."""
    is_negative = isinstance(error["input"], int) and error["input"] < 0
    return error["type"] in _RANGES and not is_negative
