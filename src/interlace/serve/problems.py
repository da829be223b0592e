"""Errors as clients see them: problem details (RFC 9457) in one shape, without stack traces.

    {"type": "about:blank", "title": "Not Found", "status": 404, "code": "unknown_collection",
     "detail": "there is no collection 'x'", "request_id": "..."}

``code`` is what programs compare; :mod:`interlace.client` turns it into the exceptions of the library.
"""

from __future__ import annotations

import errno
import http
import json
import re
from typing import Any, Literal

from pydantic import ValidationError
from starlette.responses import Response

from ..client.codes import CODES
from ..errors import FileError, InterlaceError
from .settings import RequestLimits

MEDIA_TYPE = "application/problem+json"
#: Errors of a full disk or quota.
FULL = (errno.ENOSPC, errno.EDQUOT)
#: A path in quotes, as messages have it.
_PATH = re.compile(r"""(['"])(/.*?)\1""")
SHOWN = 8  # invalid fields listed in one message


class ProblemDetails(Exception):  # noqa: N818, the name of RFC 9457
    """An answer other than success."""

    def __init__(self, status: int, code: str, detail: str, headers: dict[str, str] | None = None, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers, self.more = status, code, detail, headers or {}, more

    def response(self, request_id: str) -> Response:
        """The answer."""
        content = {
            "type": "about:blank",
            "title": http.HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            "request_id": request_id,
            **self.more,
        }
        return Response(json.dumps(content), self.status, self.headers, MEDIA_TYPE)


def unsupported(what: str, status: int = 422) -> ProblemDetails:
    """Parts of Qdrant's API that this server does not have: an option of a request, or a whole route (501)."""
    return ProblemDetails(
        status, "unsupported", f"{what} is not supported by this server (docs/serve.md lists what is)"
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
    "partly_added": 422,
    "input": 422,
    "unknown_id": 404,
    "not_fitted": 409,
    "not_an_index": 500,
    "damaged": 500,
    "newer_format": 500,
    "locked": 503,
    "store": 503,
    "file": 500,
    "error": 500,
}


def _of_validation(error: ValidationError) -> ProblemDetails:
    found = error.errors(include_url=False, include_input=False, include_context=False)
    texts = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" if e["loc"] else e["msg"] for e in found]
    for e, text in zip(found, texts, strict=True):
        if e["type"] == "unsupported":
            return ProblemDetails(422, "unsupported", text)
    if found[0]["type"] == "json_invalid":
        return ProblemDetails(400, "json", f"the body is not valid JSON: {found[0]['msg']}")
    more = "" if len(texts) <= SHOWN else f"; and {len(texts) - SHOWN} more"
    return ProblemDetails(422, "input", "; ".join(dict.fromkeys(texts[:SHOWN])) + more)
