"""Who may send a request: keys, and what the headers of a request without a key must say."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping

from ..problems import ProblemDetails
from ..settings import Keys, ServerSettings, is_loopback
from .endpoint import FULL, READ

#: Browsers ask for it by themselves.
ICON = "/favicon.ico"
#: Paths that need no key: health, and the files of the page, which contain no data.
OPEN = re.compile(rf"/(healthz|livez|readyz|page/[^/]+(/[^/]+)*)?|{re.escape(ICON)}")


class Access:
    """Which key a request has. Digests are compared, in a time that does not depend on the key."""

    def __init__(self, keys: Keys) -> None:
        self._needed = bool(keys)
        self._digests = [(_digest(key), access) for key, access in ((keys.full, FULL), (keys.read_only, READ)) if key]

    def of(self, headers: Mapping[str, str], path: str) -> str:
        """``full`` or ``read``; raises a problem."""
        if not self._needed:
            return FULL
        given = headers.get("api-key")
        if given is None:
            scheme, _, token = headers.get("authorization", "").partition(" ")
            given = token.strip() if scheme.lower() == "bearer" else None
        found = ""
        digest = _digest(given or "")
        for known, access in self._digests:
            if hmac.compare_digest(digest, known) and given is not None:
                found = access
        if found or OPEN.fullmatch(path):
            return found or READ
        raise ProblemDetails(
            401, "unauthorized", "an API key is needed (header api-key)", {"WWW-Authenticate": "Bearer"}
        )


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


class Admission:
    """All checks that depend on the header of a request alone."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings, self._access = settings, Access(settings.keys)
        self._hosts = {"localhost", settings.host.lower(), *(host.lower() for host in settings.hosts)}

    def admit(self, headers: dict[str, str], path: str, raw_path: bytes) -> str:
        """The access that a request has; raises a problem."""
        raw = raw_path.lower()
        if b"%2f" in raw or b"%5c" in raw or b"%00" in raw or "/../" in path + "/":
            raise ProblemDetails(400, "path", "the path of the request has encoded separators or '..'")
        if not self._settings.keys:
            self._check_origin(headers)
        return self._access.of(headers, path)

    def _check_origin(self, headers: Mapping[str, str]) -> None:
        """Without a key, a page of another site must not reach the server through the browser of its operator."""
        host = re.sub(r":\d+$", "", headers.get("host", "localhost")).strip("[]").lower()
        if host not in self._hosts and not is_loopback(host) and not self._settings.insecure:
            raise ProblemDetails(
                403, "host", f"the Host header names {host!r:.80}: without an API key it must be this machine"
            )
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != headers.get("host", "").lower():
            raise ProblemDetails(403, "origin", f"requests of pages of {origin!r:.80} are refused without an API key")
