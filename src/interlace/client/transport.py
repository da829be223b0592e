"""Requests over kept connections, with the standard library alone. Any number of threads may send."""

from __future__ import annotations

import http.client
import json
import select
import ssl
import threading
import urllib.parse
import weakref
from collections.abc import Mapping
from typing import Any

from ..errors import InputError, StoreError, warn_user
from .answers import error_of

#: Idle connections that are kept.
KEPT = 8
LARGEST = 1 << 31  # bytes of an answer


class Transport:
    """Sends requests to one server."""

    def __init__(self, url: str, api_key: str | None, timeout: float, context: ssl.SSLContext | None) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            port = parts.port
        except (ValueError, TypeError, AttributeError):
            raise InputError(f"url must be like http://127.0.0.1:6333, got {url!r:.200}") from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise InputError(f"url must be like http://127.0.0.1:6333, got {url!r:.200}")
        if parts.username is not None or parts.password is not None:
            raise InputError("url must not contain a password; pass api_key=")
        if api_key is not None and not (isinstance(api_key, str) and api_key.isascii() and api_key.isprintable()):
            raise InputError("api_key must be a string of printable ASCII characters")
        self.url = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._secure, self._host, self._port = parts.scheme == "https", parts.hostname, port
        self._prefix, self._timeout, self._context = parts.path.rstrip("/"), timeout, context
        self._headers = {} if api_key is None else {"api-key": api_key}
        if api_key is not None and not self._secure and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            warn_user(f"the API key is sent to {parts.hostname!r} without encryption: use https")
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._closed = False
        weakref.finalize(self, _close_all, self._idle)

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        kind: str = "application/json",
        *,
        writes: bool = False,
    ) -> tuple[bytes, str]:
        """The body of the answer and its media type; raises the error that the answer stands for."""
        headers = {**self._headers, **({} if body is None else {"content-type": kind})}
        connection = self._connection()
        try:
            connection.request(method, self._prefix + path, body, headers)
            answer = connection.getresponse()
            content = answer.read(LARGEST + 1)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            what = "; whether it was carried out is unknown" if writes else ""
            raise StoreError(
                f"{self.url} did not answer {method} {path}{what}: {error or type(error).__name__}"
            ) from error
        if len(content) > LARGEST:
            connection.close()
            raise StoreError(f"the answer of {self.url} to {method} {path} has more than {LARGEST} bytes")
        if answer.will_close:
            connection.close()
        else:
            self._keep(connection)
        if answer.status >= 400:
            raise error_of(answer.status, _problem(content))
        return content, answer.headers.get_content_type()

    def json(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, writes: bool = False) -> Any:
        """The result of a request with a JSON body."""
        content, _ = self.send(method, path, None if body is None else json.dumps(body).encode(), writes=writes)
        return json.loads(content)["result"]

    def _connection(self) -> http.client.HTTPConnection:
        with self._lock:
            if self._closed:
                raise StoreError(f"the connection to {self.url} is closed")
            while self._idle:
                found = self._idle.pop()
                if found.sock is not None and not select.select([found.sock], [], [], 0)[0]:
                    return found
                found.close()  # the server closed it meanwhile
        if self._secure:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < KEPT:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close all idle connections; later requests raise StoreError."""
        with self._lock:
            self._closed = True
            _close_all(self._idle)


def _close_all(idle: list[http.client.HTTPConnection]) -> None:
    while idle:
        idle.pop().close()


def _problem(content: bytes) -> dict[str, Any]:
    """The JSON of an error; of something else than this server, what it says."""
    try:
        found = json.loads(content)
        return found if isinstance(found, dict) else {"detail": str(found)[:500]}
    except ValueError:
        return {"detail": content[:500].decode(errors="replace")}
