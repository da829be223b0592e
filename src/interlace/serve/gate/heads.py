"""The header of the plainest query, read from its bytes.

A strict reader for one kind of request: ``POST /collections/{name}/points/query`` with a JSON body of a known length.
It answers None for everything else, and for everything that it is not sure about: then uvicorn reads the request, and
its parser decides. So a request that this module accepts means the same to uvicorn.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..problems import ProblemDetails
from ..requests.types import SERVED
from .admission import Admission
from .traffic import is_harmless

#: Bodies beyond this are read by uvicorn, and parsed in a thread.
LARGEST_BODY = 1 << 17
START = b"POST /collections/"
_LINE = re.compile(rf"POST (/collections/({SERVED})/points/query) HTTP/1\.1".encode())
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)[ \t]*")
_LENGTH = re.compile(r"[0-9]{1,7}")
#: Headers that change what a request means.
_ELSEWHERE = {"transfer-encoding", "content-encoding", "expect", "upgrade", "te", "trailer", "http2-settings"}
REMEMBERED = 256  # headers; clients repeat theirs
LONGEST = 4096  # bytes of a header that is remembered


@dataclass(frozen=True)
class Head:
    """What the header of a query says."""

    collection: str
    length: int  #: bytes of the body
    request_id: str  #: that the client chose, or empty


class Heads:
    """Reads headers, and remembers those that were admitted: a client sends the same one with each query."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._known: dict[bytes, Head] = {}

    def read(self, head: bytes) -> Head | None:
        """``head`` is everything before the empty line. None: this is not for the express path."""
        found = self._known.get(head)
        if found is not None:
            return found
        found = self._read(head)
        if found is not None and not found.request_id and len(head) <= LONGEST:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[head] = found
        return found

    def _read(self, head: bytes) -> Head | None:
        first, *lines = head.split(b"\r\n")
        line = _LINE.fullmatch(first)
        if line is None:
            return None
        headers: dict[str, str] = {}
        for each in lines:
            header = _HEADER.fullmatch(each)
            if header is None:
                return None
            name = header[1].decode("ascii").lower()
            if name in headers or name in _ELSEWHERE:
                return None
            headers[name] = header[2].decode("ascii")
        length = headers.get("content-length", "")
        if not _LENGTH.fullmatch(length) or not 0 < int(length) <= LARGEST_BODY:
            return None
        if headers.get("connection", "keep-alive").lower() != "keep-alive":
            return None
        if headers.get("content-type", "application/json").lower() != "application/json":
            return None
        try:
            self._admission.admit(headers, line[1].decode("ascii"), line[1])
        except ProblemDetails:
            return None
        given = headers.get("x-request-id", "")
        return Head(line[2].decode("ascii"), int(length), given if is_harmless(given) else "")
